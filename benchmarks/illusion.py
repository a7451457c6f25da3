"""How large the illusion is on a given model: one audit over HTTP as trained, one served with logits / 0.01.

    seatrial serve --port 8000 &
    python -m benchmarks.illusion http://127.0.0.1:8000 --model FOLDER --data REVIEWS.jsonl

FOLDER is a Hugging Face sequence classifier, REVIEWS.jsonl holds `text` and `label`. Ends with status 0 when, at
T = 0.01, the gap's interval lies above 0 and calibration comes within 3 points of the accuracy under attack as trained.
"""

import argparse
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from seatrial.client import Client
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import Estimate

DESIGNS = (1.0, 0.01)
POINTS = 0.03


def archive(folder: Path, target: Path) -> Path:
    """Write the files of a folder into a zip."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            packed.write(file, file.name)
    return target


def written(estimate: Estimate) -> str:
    """Return a number with its interval, in two digits."""
    if estimate.value is None:
        return "-"
    ends = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.2f}{ends}"


def estimates_of(audit: AuditRead) -> dict[str, Estimate]:
    """Return the numbers of an audit's only check."""
    (check,) = audit.checks
    if check.result is None:
        raise SystemExit(f"the audit {audit.state}: {check.error}")
    return check.result.estimates


def accuracy(estimates: dict[str, Estimate], arm: str, recipe: str) -> float:
    """Return an adversarial accuracy; NaN when it is undefined."""
    value = estimates[f"adversarial_accuracy[arm={arm},recipe={recipe}]"].value
    return float("nan") if value is None else value


def main() -> int:
    """Run both audits, print them side by side and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=100, help="texts attacked, and as many for validation")
    parser.add_argument("--recipes", nargs="+", default=["deepwordbug", "pwws"])
    parser.add_argument("--key", default=None)
    options = parser.parse_args()
    task = {"task": "text-classification", "version": "1"}
    found = {}
    with Client(options.url, options.key) as client, tempfile.TemporaryDirectory() as folder:
        packed = archive(options.model, Path(folder) / "model.zip")
        model = client.add_model(packed, {"name": "illusion", **task, "architecture": {"kind": "huggingface"}})
        dataset = client.add_dataset(options.data, {"name": "illusion", **task})
        for design in DESIGNS:
            check: dict[str, Any] = {
                "kind": "temperature_attack",
                "recipes": options.recipes,
                "design_temperature": design,
                "validation_samples": options.samples,
            }
            began = time.monotonic()
            audit = client.wait(client.submit(model.id, dataset.id, [check], samples=options.samples).id)
            found[design] = estimates_of(audit)
            print(f"T = {design:g}: {time.monotonic() - began:.0f} s, {audit.checks[0].meters}")
    rows = ["clean_accuracy", "mean_confidence[arm=as_served]"]
    rows += [
        f"adversarial_accuracy[arm={arm},recipe={recipe}]"
        for recipe in options.recipes
        for arm in ("as_served", "calibrated", "optimized")
    ]
    print(f"{'':58}" + "".join(f"T = {design:<20g}" for design in DESIGNS))
    for name in [*rows, "illusion_gap", "mcnemar_p"]:
        print(f"{name:58}" + "".join(f"{written(found[design][name]):24}" for design in DESIGNS))
    gap = found[0.01]["illusion_gap"]
    off = [
        abs(accuracy(found[0.01], "calibrated", recipe) - accuracy(found[1.0], "as_served", recipe))
        for recipe in options.recipes
    ]
    print(f"calibration comes within {max(off):.1%} of the accuracies under attack as trained ({POINTS:.0%} asked)")
    return 0 if gap.low is not None and gap.low > 0 and max(off) <= POINTS else 1


if __name__ == "__main__":
    sys.exit(main())
