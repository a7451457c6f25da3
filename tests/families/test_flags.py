"""Every doubt that is raised anywhere is declared, with what it means and what to do about it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.contracts.estimates import Flag
from seatrial.contracts.family import FamilySpec, FlagSpec
from seatrial.contracts.flags import SHARED
from seatrial.contracts.registry import UnregisteredFlagError, families, flags_of, require_registered

ROOT = Path(__file__).resolve().parents[2]
RAISING = ("Flag", "_flag", "Doubt")
WORKERS = ROOT / "workers"


def raised(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every code a flag is made with in a folder, and where; a code chosen between two is both."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISING):
                continue
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"] or node.args[:1]
            for code in given:
                for constant in [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]:
                    # What is handed on was a constant where it was made.
                    if isinstance(constant, ast.Constant):
                        yield constant.value, f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize("kind", families())
def test_every_flag_of_a_family_is_declared_and_every_declared_one_is_raised(kind: str) -> None:
    own = {code for code, _ in raised(WORKERS / "families" / kind)}
    assert own <= set(flags_of(kind))
    elsewhere = {code for folder in ("attacks", "models") for code, _ in raised(WORKERS / folder)}
    assert {flag.code for flag in families()[kind].flags} <= own | elsewhere


def test_no_flag_is_raised_that_nobody_declares() -> None:
    known = {code for kind in families() for code in flags_of(kind)}
    found = dict(code for folder in ("workers", "app", "seatrial") for code in raised(ROOT / folder))
    assert len(found) > 60
    assert {code: where for code, where in found.items() if code not in known} == {}


def test_doubts_about_model_and_data_are_those_that_are_raised_there() -> None:
    made = {
        code
        for folder in ("workers/models", "workers/runtime", "app", "seatrial/judging")
        for code, _ in raised(ROOT / folder)
    }
    assert {flag.code for flag in SHARED} == made


def declared() -> Iterator[tuple[str, FlagSpec, FamilySpec | None]]:
    yield from ((flag.code, flag, None) for flag in SHARED)
    yield from ((f"{kind}-{flag.code}", flag, spec) for kind, spec in families().items() for flag in spec.flags)


@pytest.mark.parametrize(
    ("flag", "spec"), [(flag, spec) for _, flag, spec in declared()], ids=[name for name, _, _ in declared()]
)
def test_a_flag_speaks_of_metrics_there_are_and_in_sentences(flag: FlagSpec, spec: FamilySpec | None) -> None:
    assert flag.severities
    for sentence in (flag.meaning, flag.remedy):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
    if spec is not None:
        for pattern in flag.speaks_of:
            one = FlagSpec(code="", severities=(), speaks_of=(pattern,), meaning="", remedy="")
            assert any(one.is_about(metric.name) for metric in spec.metrics), (flag.code, pattern)
        for pattern in flag.shown_by:
            one = FlagSpec(code="", severities=(), speaks_of=(pattern,), meaning="", remedy="")
            shown = [metric.name for metric in spec.metrics if one.is_about(metric.name)]
            assert shown, (flag.code, pattern)
            assert all(flag.is_about(name) and not flag.doubts(name) for name in shown), (flag.code, pattern)


def test_a_flag_nobody_declared_is_refused_and_so_is_another_severity() -> None:
    known = Flag(code="zero_gradients", severity="error", message="")
    require_registered("uncertainty_span", [known])
    with pytest.raises(UnregisteredFlagError, match="does not declare the flag 'made_up'"):
        require_registered("uncertainty_span", [known, Flag(code="made_up", severity="info", message="")])
    with pytest.raises(UnregisteredFlagError, match="declares warning"):
        require_registered("uncertainty_span", [Flag(code="attack_not_improving", severity="error", message="")])
    with pytest.raises(UnregisteredFlagError):
        require_registered("low_level_attack", [known])
