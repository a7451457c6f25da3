"""The pages of metrics and flags say what the families declare."""

from seatrial.contracts.flags import SHARED
from seatrial.contracts.registry import families
from tests.packaging.pages import read


def test_every_metric_and_every_flag_has_its_row() -> None:
    metrics, flags = read("docs/metrics.md"), read("docs/flags.md")
    for spec in families().values():
        for metric in spec.metrics:
            keys = ",".join(f"{key}=" for key in metric.qualifiers)
            assert f"| `{metric.name}{f'[{keys}]' if keys else ''}` |" in metrics
        for flag in spec.flags:
            assert f"| `{flag.code}` | {', '.join(flag.severities)} |" in flags
    for flag in SHARED:
        assert f"| `{flag.code}` | {', '.join(flag.severities)} |" in flags
