"""Models of texts in bfloat16: what the manifest asks for, and what it does to decisions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from seatrial.contracts.models import ModelManifest
from tests import texts
from tests.models.builders import CPU, manifest
from workers.models.hf_text import HuggingFaceTextClassifier, load_huggingface_text
from workers.models.text_preflight import preflight_texts

REDUCED = {"kind": "huggingface", "precision": "bfloat16"}
SENTENCES = texts.sentences(60, seed=3)
REVIEWS = [text for text, _ in SENTENCES]


class Reviews:
    """The reviews of ``tests.texts`` as a dataset."""

    label_names = texts.LABELS
    labels = np.array([label for _, label in SENTENCES])

    def texts(self, positions: list[int]) -> list[str]:
        return [REVIEWS[position] for position in positions]


def _manifest(architecture: dict[str, str]) -> ModelManifest:
    return manifest(architecture, task="text-classification", input=None, labels=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return texts.tiny_sentiment(tmp_path_factory.mktemp("sentiment") / "model")


@pytest.fixture
def reduced(folder: Path) -> HuggingFaceTextClassifier:
    return load_huggingface_text(_manifest(REDUCED), folder, CPU)


def test_logits_are_those_of_bfloat16_and_of_the_text_alone(folder: Path, reduced: HuggingFaceTextClassifier) -> None:
    whole = load_huggingface_text(_manifest({"kind": "huggingface"}), folder, CPU)
    together, exact = torch.stack(reduced.logits(REVIEWS)), torch.stack(whole.logits(REVIEWS))
    assert together.dtype == torch.float32
    assert not torch.equal(together, exact)
    assert torch.allclose(together, exact, atol=0.1)
    assert all(torch.equal(row, reduced.logits([text])[0]) for text, row in zip(REVIEWS, together, strict=True))
    with reduced.in_float32():
        assert torch.equal(torch.stack(reduced.logits(REVIEWS)), exact)
    assert reduced.in_bfloat16
    assert not whole.in_bfloat16


@pytest.mark.parametrize(("moved", "severity"), [(0, "info"), (3, "warning")])
def test_decisions_that_differ_are_counted(
    reduced: HuggingFaceTextClassifier, monkeypatch: pytest.MonkeyPatch, moved: int, severity: str
) -> None:
    # The tiny model's decisions are the same in both: some are turned where it is asked in float32.
    own = reduced.logits

    def logits(asked: list[str]) -> list[torch.Tensor]:
        answers = own(asked)
        return answers if reduced.in_bfloat16 else [*[-row for row in answers[:moved]], *answers[moved:]]

    monkeypatch.setattr(reduced, "logits", logits)
    report = preflight_texts(reduced, Reviews(), range(60), manifest=_manifest(REDUCED))
    [flag] = [flag for flag in report.flags if flag.code == "computed_in_bfloat16"]
    assert flag.message.startswith(f"{moved} of 60 texts ({moved / 60:.1%})")
    assert flag.severity == severity


def test_in_float32_nothing_is_said(folder: Path) -> None:
    plain = _manifest({"kind": "huggingface"})
    report = preflight_texts(load_huggingface_text(plain, folder, CPU), Reviews(), range(60), manifest=plain)
    assert "computed_in_bfloat16" not in {flag.code for flag in report.flags}


def test_images_are_computed_in_float32() -> None:
    with pytest.raises(ValidationError, match="precision is of models of texts"):
        manifest(REDUCED, labels=["a", "b"])
