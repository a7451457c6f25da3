"""Cheap recipes before dear ones beside every recipe on every text: model passes, seconds and interval.

    python -m benchmarks.recipes_in_phases --model FOLDER --data REVIEWS.jsonl --samples 120 --survivors 30

FOLDER is a Hugging Face sequence classifier, REVIEWS.jsonl holds `text` and `label`. Both audits attack the same texts
as served, the second with `survivors`. "narrower" is the ratio of the intervals' widths, squared and multiplied by that
of the passes: how many times the texts all recipes would have to attack, at their price, for the width of two phases.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.paper_precision import audit, read
from seatrial.contracts.models import ModelManifest
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from workers.attacks.text.scoring import ScoringService
from workers.models.hf_text import HuggingFaceTextClassifier, load_huggingface_text


class Counted:
    """A classifier that counts the texts it answers."""

    def __init__(self, classifier: HuggingFaceTextClassifier) -> None:
        self.classifier, self.texts = classifier, 0

    def __getattr__(self, name: str) -> Any:
        """Return what the classifier has."""
        return getattr(self.classifier, name)

    def logits(self, texts: Sequence[Any]) -> Any:
        """Return its answers."""
        self.texts += len(texts)
        return self.classifier.logits(texts)


def main() -> None:
    """Print a row for either way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--survivors", type=int, default=30)
    parser.add_argument("--recipes", nargs="+", default=["deepwordbug", "pruthi"])
    parser.add_argument("--query-budget", type=int, default=300)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    examples = read(asked.data, asked.samples, 0)
    manifest = ModelManifest.model_validate(
        {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "huggingface"}}
    )
    model = Counted(load_huggingface_text(manifest, asked.model, torch.device("cpu")))
    widths, costs = [], []
    for survivors in (None, asked.survivors):
        params = TemperatureAttackParams(
            kind="temperature_attack",
            recipes=asked.recipes,
            arms=[],
            survivors=survivors,
            query_budget=asked.query_budget,
        )
        model.texts, began = 0, time.process_time()
        result = audit(ScoringService(model, max_bytes=2**30), examples, [], params)
        texts, seconds = model.texts, time.process_time() - began
        found = result.estimates["adversarial_accuracy[arm=as_served]"]
        widths.append(found.high - found.low)
        costs.append(texts)
        name = "every text" if survivors is None else f"{survivors} survivors"
        interval = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
        print(f"{name}: {interval}, {texts:,} texts asked, {seconds:.0f} CPU-s", flush=True)
    narrower = (widths[0] / widths[1]) ** 2 * costs[0] / costs[1]
    print(f"passes {costs[0] / costs[1]:.2f}x fewer, narrower {narrower:.2f}x")


if __name__ == "__main__":
    main()
