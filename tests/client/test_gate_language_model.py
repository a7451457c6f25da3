"""``seatrial gate --model llm.json --data reviews.csv`` against a language model behind a server of our own."""

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from seatrial.families.temperature_attack.params import MARKS, MEANING_FREE_EDITS
from tests.client.test_gate import Gate
from tests.models.endpoint.language_server import WORDS, LanguageServer, log_probabilities
from tests.scripted import Scripted, serving

pytestmark = [pytest.mark.slow, pytest.mark.drill]

TEMPLATE = "Review: {{text}}\nSentiment:"
LABELS = {"negative": [" negative", " Negative"], "positive": [" positive", " Positive"]}
POLICY = {
    "name": "language-model",
    "samples": 10,
    "checks": [
        {"kind": "temperature_attack", "arms": ["calibrated"], "validation_samples": 50, "label_queries": 10},
        {"kind": "low_level_attack", "attackers": ["keyboard_typo"], "levels": [0.5]},
    ],
    "rules": [{"metric": "temperature_attack.clean_accuracy", "min": 0.5}],
}


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving(LanguageServer()) as running:
        yield running


def reviews(path: Path) -> None:
    """Write texts with the label the model itself gives them."""
    draw = random.Random(3)
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for _ in range(80):
            text = "".join(draw.choice(WORDS[4:]) for _ in range(draw.randint(4, 8))).strip()
            chances = log_probabilities(TEMPLATE.replace("{{text}}", text))[-1].exp()
            by_label = {name: sum(float(chances[WORDS.index(one)]) for one in LABELS[name]) for name in LABELS}
            rows.writerow([text, max(by_label, key=lambda name: by_label[name])])


def test_both_families_of_texts_audit_it_by_scores_and_by_labels(server: Scripted, tmp_path: Path) -> None:
    architecture = {
        "kind": "chat",
        "url": f"{server.url.removesuffix('/classify')}/v1/chat/completions",
        "model": "tiny",
        "template": TEMPLATE,
        "labels": LABELS,
    }
    manifest = {"name": "llm", "task": "text-classification", "architecture": architecture}
    (tmp_path / "llm.json").write_text(json.dumps(manifest))
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    reviews(tmp_path / "reviews.csv")
    allowed = {"SEATRIAL_ENDPOINT_ALLOWED_NETWORKS": '["127.0.0.0/8"]'}
    gate = Gate(tmp_path, "--model", "llm.json", "--data", "reviews.csv", "--json", "report.json", **allowed)
    try:
        # Some hundred questions about each text, over HTTP.
        status, printed = gate.ended(timeout_s=600)
        said = gate.errors()
        assert (status, "May ship" in printed) == (0, True), f"{said}\n{printed}"
    finally:
        gate.close()
    # What the price says is no less than what was asked.
    (priced,) = [line for line in said.splitlines() if line.startswith("At most")]
    passes = int(priced.partition(" forward passes")[0].rpartition(" ")[2].replace(",", ""))
    assert len(server.asked) <= passes + 50
    report = json.loads((tmp_path / "report.json").read_text())
    found = {one["name"]: one["value"] for check in report["checks"] for one in check["estimates"]}
    asked = found["temperature_attack.mean_queries[arm=label_only,recipe=deepwordbug]"]
    assert 2 <= asked <= 10 + MEANING_FREE_EDITS + MARKS
    assert found["low_level_attack.score[attacker=keyboard_typo,level=0.5]"] is not None
    assert {one.json["model"] for one in server.asked} == {"tiny"}
