"""Long texts: CPU seconds of an audit per query over those of the bare forward pass of the same texts.

    python -m benchmarks.long_texts --model minilm_l6_rotten_tomatoes --data rotten_tomatoes.test.jsonl

Reviews of one label are joined to texts of a number of words. `temperature_attack` audits them (as served, DeepWordBug,
and the arm of labels alone; its probe as well), and every call of the model is answered twice: by the classifier of
the product, and by transformers' own tokenizer and model in batches of 8 texts of about one length, padded to the
longest of each. Both are timed in turns within this run, so that a busy machine slows both. The ratio is everything
but the second answer over the second answer: TextAttack's search, tokenisation, padding and rows that are filled up
included. Asked: at most 1.2. Ends with status 1 where it is more. What the audit was estimated at before it began, from
what the check of the model measured, stands beside what it took.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.text_attack import Context
from seatrial.contracts.models import ModelManifest
from seatrial.families.cost import cost_of
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import TextExample
from workers.models import Answer
from workers.models.hf_text import HuggingFaceTextClassifier, load_huggingface_text
from workers.models.text_checks import check_text_target
from workers.resources.library import Library

TARGET = 1.2
BARE_BATCH = 8


class TimedTwice:
    """A classifier whose every call is made a second time by transformers alone."""

    def __init__(self, classifier: HuggingFaceTextClassifier, folder: Path) -> None:
        self._classifier = classifier
        self._model = AutoModelForSequenceClassification.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        ).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.classes, self.labels, self.device = classifier.classes, classifier.labels, classifier.device
        self.preferred_texts = classifier.preferred_texts
        self.ours_s = self.bare_s = 0.0
        self.texts = 0

    def seen(self, text: Text) -> tuple[int, ...] | None:
        """Return how many characters of a text reach the model."""
        return self._classifier.seen(text)

    def logits(self, texts: Sequence[Text]) -> list[Answer]:
        """Return the product's answers; time both."""
        start = time.process_time()
        answers = self._classifier.logits(texts)
        middle = time.process_time()
        self._bare(texts)
        self.ours_s += middle - start
        self.bare_s += time.process_time() - middle
        self.texts += len(texts)
        return answers

    def _bare(self, texts: Sequence[Text]) -> None:
        encoded = self._tokenizer(list(texts), truncation=True, max_length=self._classifier.longest)
        order = sorted(range(len(texts)), key=lambda number: len(encoded["input_ids"][number]))
        for start in range(0, len(order), BARE_BATCH):
            chosen = order[start : start + BARE_BATCH]
            batch = self._tokenizer.pad(
                {name: [rows[number] for number in chosen] for name, rows in encoded.items()}, return_tensors="pt"
            )
            with torch.inference_mode():
                self._model(**batch)


def joined(path: Path, words: int, count: int) -> list[tuple[str, int]]:
    """Return texts of so many words, each of reviews of one label, the labels in turn."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found: list[tuple[str, int]] = []
    pending: dict[int, list[str]] = {}
    for row in rows:
        label = int(row["label"])
        pending.setdefault(label, []).extend(row["text"].split())
        if len(found) < count and len(pending[label]) >= words and label == len(found) % 2:
            found.append((" ".join(pending[label][:words]), label))
            pending[label] = []
    if len(found) < count:
        raise SystemExit(f"{path} has words for {len(found)} texts only")
    return found


def main() -> None:
    """Print what a query costs, part by part, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--data", type=Path, required=True, help="JSON lines with text and label 0 or 1")
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    manifest = ModelManifest.model_validate(
        {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "huggingface"}}
    )
    loaded = load_huggingface_text(manifest, arguments.model, torch.device("cpu"))
    texts = joined(arguments.data, arguments.words, arguments.examples)
    examples = [TextExample(number, text, label) for number, (text, label) in enumerate(texts)]
    # Imports of several seconds belong to no query.
    load_recipe("deepwordbug", Library.of())
    loaded.logits([examples[0].text])
    classifier = TimedTwice(loaded, arguments.model)
    service = ScoringService(classifier, max_bytes=2**30)
    params = TemperatureAttackParams(kind="temperature_attack", arms=[])
    facts = check_text_target(loaded, manifest).facts.model_dump()
    mean_words = sum(len(text.split()) for text, _ in texts) / len(texts)
    cost = cost_of(params, len(texts), {}, facts, mean_words=mean_words)
    start = time.process_time()
    Context(service, examples, []).audit(params)
    total_s = time.process_time() - start
    ratio = (total_s - classifier.bare_s) / classifier.bare_s
    own_s = total_s - classifier.bare_s - classifier.ours_s
    numbers: dict[str, Any] = {
        "words": arguments.words,
        "examples": arguments.examples,
        "estimated_s": cost.seconds,
        "took_s": total_s - classifier.bare_s,
        "estimated_queries": cost.queries,
        "queries": service.meters.queries,
        "forward_passes": classifier.texts,
        "bare_ms": 1e3 * classifier.bare_s / classifier.texts,
        "model_ms": 1e3 * classifier.ours_s / classifier.texts,
        "own_ms": 1e3 * own_s / classifier.texts,
        "ratio": ratio,
    }
    print(f"{arguments.examples} texts of {arguments.words} words, {classifier.texts} forward passes; CPU ms for each:")
    print(
        f"  bare {numbers['bare_ms']:.1f}; ours {numbers['model_ms']:.1f} in the model, {numbers['own_ms']:.1f} beside"
    )
    print(
        f"  estimated at {cost.seconds:.0f} s and {cost.queries} queries, took {numbers['took_s']:.0f} CPU s and "
        f"{service.meters.queries} queries"
    )
    print(f"  ratio {ratio:.3f}, at most {TARGET:g} asked")
    print(json.dumps(numbers))
    if ratio > TARGET:
        sys.exit(1)


if __name__ == "__main__":
    main()
