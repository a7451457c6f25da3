"""Preflight of models that give several labels, or tag tokens; that of single labels is in test_text_checks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seatrial.contracts.models import ModelManifest
from tests import texts
from tests.models.builders import CPU, manifest
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.errors import PreflightError
from workers.models import UnansweredError
from workers.models.hf_text import load_huggingface_text
from workers.models.hf_tokens import HuggingFaceTokenClassifier, load_huggingface_tokens
from workers.models.text_preflight import preflight_tags, preflight_texts
from workers.models.validating import PreflightReport

MULTI, TAGS = "multi-label-classification", "token-classification"
NAMES = ["praise", "blame", "music"]
SENTENCES = [tuple(tokens) for tokens, _ in texts.tagged(60, seed=5)]


class Several:
    """Texts with several labels each."""

    def __init__(self, rows: list[Text], labels: Any, names: list[str] | None = NAMES) -> None:
        self.rows, self.labels, self.label_names = rows, np.asarray(labels, np.int64), names

    def texts(self, positions: Sequence[int]) -> list[Text]:
        return [self.rows[position] for position in positions]


class Tagged:
    """Tagged sentences."""

    def __init__(self, rows: list[tuple[str, ...]], tags: list[list[int]], names: list[str] | None = None) -> None:
        self.rows, self.numbers, self.label_names = rows, tags, names or texts.TAGS

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tags(self) -> np.ndarray:
        return np.concatenate([np.asarray(tags, np.int64) for tags in self.numbers])

    def sentence(self, position: int) -> tuple[list[str], list[int]]:
        return list(self.rows[position]), self.numbers[position]


class Wordy:
    """Gives the label k to texts that hold the word of its name."""

    labels, classes, device, preferred_texts = NAMES, 3, CPU, 8

    def __init__(self, change: Any = lambda rows: rows) -> None:
        self.change = change

    def logits(self, asked: Sequence[Text]) -> list[Tensor | UnansweredError]:
        rows = [torch.tensor([2.0 * (name in text) - 1 for name in NAMES]) for text in asked]
        numbers = [int(str(text).split()[1]) for text in asked]
        return list(self.change([row + 1e-3 * number for row, number in zip(rows, numbers, strict=True)]))


def _manifest(task: str, **changes: Any) -> ModelManifest:
    return manifest({"kind": "huggingface"}, task=task, **{"input": None, "labels": None, **changes})


def _wordy(n: int = 60, wrong: int = 0) -> Several:
    rng = np.random.default_rng(0)
    labels = (rng.random((n, 3)) < 0.4).astype(int)
    rows: list[Text] = [
        f"text {place} " + " ".join(name for name, has in zip(NAMES, row, strict=True) if has)
        for place, row in enumerate(labels)
    ]
    labels[:wrong, 0] ^= 1
    return Several(rows, labels)


def _several(model: Any, data: Any, task: str = MULTI, **changes: Any) -> PreflightReport:
    return preflight_texts(model, data, range(len(data.labels)), manifest=_manifest(task, **changes))


def _tags(model: Any, data: Tagged, **changes: Any) -> PreflightReport:
    return preflight_tags(model, data, range(len(data)), manifest=_manifest(TAGS, **changes))


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceTokenClassifier:
    folder = texts.tiny_tagger(tmp_path_factory.mktemp("tagger") / "model")
    return load_huggingface_tokens(_manifest(TAGS), folder, CPU)


@pytest.fixture(scope="module")
def data(tagger: HuggingFaceTokenClassifier) -> Tagged:
    """Sentences with the tags the tagger gives them, some of them wrong."""
    found = [rows.argmax(1).tolist() for rows in tagger.logits(SENTENCES) if isinstance(rows, Tensor)]
    for place in range(0, 60, 6):
        found[place][0] = (found[place][0] + 1) % 4
    return Tagged(list(SENTENCES), found)


def test_several_labels_are_judged_text_by_text() -> None:
    report = _several(Wordy(), _wordy(60, wrong=6), clean_accuracy=0.9)
    assert (report.clean_accuracy.value, report.flags) == (0.9, [])
    assert report.several is not None
    assert report.several.correct.tolist() == [2] * 6 + [3] * 54


def test_a_sample_is_judged_by_the_labels_of_its_own_texts() -> None:
    positions = list(range(59, 2, -1))
    report = preflight_texts(Wordy(), _wordy(60, wrong=6), positions, manifest=_manifest(MULTI))
    assert report.several is not None
    assert report.several.correct.tolist() == [3] * 54 + [2] * 3


def test_a_real_model_of_several_labels_passes(tmp_path: Path) -> None:
    rows: list[Text] = [text for text, _ in texts.sentences(60, seed=5)]
    model = load_huggingface_text(_manifest(MULTI), texts.tiny_multi_label(tmp_path / "model"), CPU)
    logits = torch.stack([row for row in model.logits(rows) if isinstance(row, Tensor)])
    report = _several(model, Several(rows, (logits > logits.median(0).values).long().numpy()))
    # Untrained, it decides nothing; but it ranks as the labels do, which it made.
    assert [flag.code for flag in report.flags] == ["constant_predictions"]


def test_a_tagger_is_judged_token_by_token(tagger: HuggingFaceTokenClassifier, data: Tagged) -> None:
    report = _tags(tagger, data)
    tokens = sum(map(len, SENTENCES))
    assert report.clean_accuracy.value == pytest.approx((tokens - 10) / tokens)
    assert report.flags == []
    assert [flag.code for flag in _tags(tagger, data, clean_accuracy=0.5).flags] == ["clean_accuracy_differs"]


def test_sentences_are_asked_for_once_and_remembered(tagger: HuggingFaceTokenClassifier, data: Tagged) -> None:
    service = ScoringService(tagger, max_bytes=1 << 24)
    stated = _manifest(TAGS)
    asked = preflight_tags(tagger, data, range(60), manifest=stated, ask=service.scores)
    assert asked.clean_accuracy == _tags(tagger, data).clean_accuracy
    again = service.scores(SENTENCES)
    assert service.meters.forward_passes == len(set(SENTENCES))
    for answer, rows in zip(again, tagger.logits(SENTENCES), strict=True):
        assert isinstance(answer, Tensor)
        assert isinstance(rows, Tensor)
        assert torch.equal(answer, rows)


def test_a_sentences_logits_do_not_depend_on_the_sentences_before_it_in_a_service(
    tagger: HuggingFaceTokenClassifier,
) -> None:
    alone = {sentence: tagger.logits([sentence])[0] for sentence in SENTENCES[:20]}
    service = ScoringService(tagger, max_bytes=1 << 16)
    for start in (0, 7, 3):
        wanted = SENTENCES[start : start + 13]
        for sentence, answer in zip(wanted, service.scores(wanted), strict=True):
            want = alone[sentence]
            assert isinstance(answer, Tensor)
            assert isinstance(want, Tensor)
            assert torch.equal(answer, want)
    assert service.cached_bytes <= 1 << 16


@pytest.mark.parametrize(
    ("labels", "names", "code"),
    [
        (np.eye(4, dtype=int), None, "label-out-of-range"),
        (np.eye(3, dtype=int), ["blame", "praise", "music"], "label-order-mismatch"),
        ([0, 1, 2], NAMES, "task-mismatch"),
        (np.zeros((0, 3), dtype=int), NAMES, "empty-sample"),
    ],
    ids=["number", "order", "single", "empty"],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, names: list[str] | None, code: str) -> None:
    rows: list[Text] = [f"text {place}" for place in range(len(labels))]
    with pytest.raises(PreflightError) as caught:
        _several(Wordy(), Several(rows, labels, names))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/dataset")


def test_labels_nobody_annotated_are_told() -> None:
    data = _wordy()
    data.labels, data.label_names = data.labels[:, :2], NAMES[:2]
    flags = _several(Wordy(), data).flags
    assert [(flag.code, flag.severity) for flag in flags] == [("labels_not_annotated", "warning")]
    assert "music" in flags[0].message
    # A column that is all zeros and has no class of the model's is no label.
    wide = _wordy()
    wide.labels, wide.label_names = np.pad(wide.labels, ((0, 0), (0, 2))), None
    assert _several(Wordy(), wide).flags == []


def test_pairs_of_texts_are_not_for_a_model_of_several_labels() -> None:
    with pytest.raises(PreflightError, match="pairs of texts") as caught:
        _several(Wordy(), Several([("a", "b")] * 3, np.eye(3, dtype=int)))
    assert caught.value.problem.code == "task-mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: [row * 0 for row in rows], "constant-outputs"),
        (lambda rows: [row / 0 * 0 for row in rows], "outputs-not-finite"),
        (lambda rows: [row.roll(1) for row in rows], "accuracy-at-chance"),
        (lambda rows: [UnansweredError("no") for _ in rows], "texts-unanswered"),
    ],
    ids=["constant", "not finite", "mixed up", "silent"],
)
def test_a_model_that_does_not_label_is_refused(change: Any, code: str) -> None:
    with pytest.raises(PreflightError) as caught:
        _several(Wordy(change), _wordy(80))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/model")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: [row + 0.01 * torch.rand(3) for row in rows], "non_deterministic"),
        (lambda rows: [row.sigmoid() for row in rows], "probabilities_instead_of_logits"),
    ],
    ids=["random", "sigmoid"],
)
def test_doubts_about_several_labels_are_flagged(change: Any, code: str) -> None:
    assert code in [flag.code for flag in _several(Wordy(change), _wordy(80)).flags]


class Altered:
    """A tagger whose answers are changed on the way."""

    labels, classes, device, preferred_texts = texts.TAGS, 4, CPU, 8

    def __init__(self, tagger: HuggingFaceTokenClassifier, change: Any) -> None:
        self.tagger, self.change = tagger, change

    def logits(self, asked: Sequence[Text]) -> list[Tensor | UnansweredError]:
        return [self.change(rows) for rows in self.tagger.logits(asked)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: rows * 0 + 1, "constant-outputs"),
        (lambda rows: rows * float("nan"), "outputs-not-finite"),
        (lambda rows: rows / 0, "outputs-not-finite"),
        (lambda rows: rows.roll(1, dims=1), "accuracy-at-chance"),
        (lambda rows: UnansweredError("no"), "texts-unanswered"),
    ],
    ids=["constant", "nan", "inf", "mixed up", "silent"],
)
def test_a_model_that_does_not_tag_is_refused(
    tagger: HuggingFaceTokenClassifier, data: Tagged, change: Any, code: str
) -> None:
    with pytest.raises(PreflightError) as caught:
        _tags(Altered(tagger, change), data)
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/model")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: rows + 1e-3 * torch.rand(rows.shape), "non_deterministic"),
        (lambda rows: rows.softmax(1), "probabilities_instead_of_logits"),
    ],
    ids=["random", "softmax"],
)
def test_doubts_about_a_tagger_are_flagged(
    tagger: HuggingFaceTokenClassifier, data: Tagged, change: Any, code: str
) -> None:
    assert [flag.code for flag in _tags(Altered(tagger, change), data).flags] == [code]


def test_tags_that_do_not_fit_are_refused(tagger: HuggingFaceTokenClassifier, data: Tagged) -> None:
    for tags, names, code in (
        ([[0, 4]], None, "label-out-of-range"),
        ([[0, 1]], ["NOUN", "ADJ", "VERB", "X"], "label-order-mismatch"),
    ):
        # Beyond the sample, too.
        wrong = Tagged([*data.rows, ("a", "film")], [*data.numbers, *tags], names)
        with pytest.raises(PreflightError) as caught:
            preflight_tags(tagger, wrong, range(60), manifest=_manifest(TAGS))
        assert (caught.value.problem.code, caught.value.problem.field) == (code, "/dataset")
    with pytest.raises(PreflightError, match="no examples"):
        preflight_tags(tagger, data, [], manifest=_manifest(TAGS))


def test_sentences_cut_off_and_unknown_tokens_are_told(tagger: HuggingFaceTokenClassifier, data: Tagged) -> None:
    rows, tags = list(data.rows), list(data.numbers)
    rows[1], tags[1] = ("film",) * 150, [tags[1][0]] * 150
    rows[2:30] = [(*row, "映", "画", "館", "。") for row in rows[2:30]]
    found = [answer.argmax(1).tolist() for answer in tagger.logits(rows[2:30]) if isinstance(answer, Tensor)]
    tags[2:30] = found
    flags = {flag.code: flag for flag in _tags(tagger, Tagged(rows, tags)).flags}
    assert set(flags) == {"unknown_tokens", "texts_truncated", "tokens_untagged"}
    assert "1 of 60 sentences" in flags["texts_truncated"].message
    # Two of 128 tokens are special ones.
    assert flags["tokens_untagged"].message.startswith("24 of ")
    with pytest.raises(PreflightError, match="another model's tokenizer") as caught:
        _tags(tagger, Tagged([("映", "画", "館")] * 60, [[0, 1, 2]] * 60))
    assert caught.value.problem.code == "tokenizer-mismatch"


def test_a_tagger_reads_tokens_and_takes_no_strings(tagger: HuggingFaceTokenClassifier) -> None:
    one, none, long = tagger.read([("a", "映", "soundtrack"), (), ("film",) * 130])
    assert (one.pieces, one.unknown, one.is_truncated) == (4, 1, False)
    assert (none.pieces, none.unknown, none.is_truncated) == (0, 0, False)
    assert (long.pieces, long.is_truncated) == (130, True)
    assert tagger.read([()])[0].pieces == 0
    with pytest.raises(TypeError, match="tuples of tokens"):
        tagger.logits(["a film"])
