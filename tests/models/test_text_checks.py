from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seatrial.contracts.models import ModelManifest
from tests import texts
from tests.models.builders import CPU, manifest
from workers.data import Text
from workers.errors import PreflightError, TargetError
from workers.models import UnansweredError
from workers.models.endpoint import NoScoresError
from workers.models.hf_text import load_huggingface_text
from workers.models.hf_tokens import load_huggingface_tokens
from workers.models.text_checks import PROBES, TIMED_TOKENS, check_text_target
from workers.models.text_preflight import preflight_texts
from workers.models.validating import ERRORED, PreflightReport, check_same_classes

LABELS = ["few", "some", "many"]
ENDPOINT = {"kind": "endpoint", "url": "https://models.example.com/", "request": {"inputs": "{{texts}}"}}
Change = Callable[[list[Tensor]], Sequence[Any]]


class Counting:
    """Class k is right for a text of 3n + k words."""

    def __init__(self, change: Change = lambda rows: rows, labels: list[str] = LABELS) -> None:
        self.change = change
        self.labels = labels
        self.classes = len(labels)
        self.device = CPU
        self.preferred_texts = 8
        self.calls: list[list[Text]] = []

    def logits(self, asked: Sequence[Text]) -> list[Any]:
        self.calls.append(list(asked))
        rows = []
        for text in asked:
            words = len(text.split() if isinstance(text, str) else (" ".join(text)).split())
            row = torch.zeros(3)
            row[words % 3] = 4 + words / 100
            rows.append(row)
        return list(self.change(rows))


class Numbered:
    """Texts of as many words as the label says, in different lengths."""

    def __init__(self, labels: Any, names: list[str] | None = LABELS, wrong: int = 0) -> None:
        self.labels = np.asarray(labels, np.int64)
        self.label_names = names
        words = self.labels + 3 * (1 + np.arange(len(self.labels)) % 4) + (np.arange(len(self.labels)) < wrong)
        # No two are the same.
        self.rows: list[Text] = [f"no{at} " + "word " * int(count - 1) for at, count in enumerate(words)]

    def texts(self, positions: Sequence[int]) -> list[Text]:
        return [self.rows[position] for position in positions]


def _manifest(task: str = "text-classification", architecture: Any = None, **changes: Any) -> ModelManifest:
    stated = {"input": None, "labels": LABELS, **changes}
    return manifest(architecture or {"kind": "huggingface"}, task=task, **stated)


def _preflight(classifier: Any, data: Any, **changes: Any) -> PreflightReport:
    return preflight_texts(classifier, data, range(len(data.labels)), manifest=_manifest(**changes), batch_size=7)


def _everywhere(value: float) -> Change:
    return lambda rows: [torch.full((3,), value) for _ in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "task", "classes"),
    [
        (texts.tiny_sentiment, "text-classification", 2),
        (texts.tiny_pairs, "text-pair-classification", 2),
        (texts.tiny_multi_label, "multi-label-classification", 3),
    ],
)
def test_a_good_model_is_measured(tmp_path: Path, make: Any, task: str, classes: int) -> None:
    stated = _manifest(task, labels=None)
    classifier = load_huggingface_text(stated, make(tmp_path / "model"), CPU)
    report = check_text_target(classifier, stated)
    assert report.flags == []
    facts = report.facts
    assert (facts.classes, facts.device, facts.parameters) == (classes, "cpu", classifier.parameters)
    assert (facts.tokens, facts.backward_s, facts.memory_bytes_per_example) == (TIMED_TOKENS, None, None)
    assert 0 < facts.forward_s < 0.1


def test_a_good_tagger_is_measured(tmp_path: Path) -> None:
    stated = _manifest("token-classification", labels=None)
    tagger = load_huggingface_tokens(stated, texts.tiny_tagger(tmp_path / "model"), CPU)
    report = check_text_target(tagger, stated)
    assert (report.flags, report.facts.classes, report.facts.tokens) == ([], len(texts.TAGS), TIMED_TOKENS)
    assert report.facts.parameters == tagger.parameters > 0
    assert 0 < report.facts.forward_s < 0.1


def test_labels_of_another_number_than_the_heads_are_refused(tmp_path: Path) -> None:
    for load, make, check, task in (
        (load_huggingface_text, texts.tiny_sentiment, check_text_target, "text-classification"),
        (load_huggingface_tokens, texts.tiny_tagger, check_text_target, "token-classification"),
    ):
        stated = _manifest(task, labels=["one", "two", "three"])
        classifier: Any = load(stated, make(tmp_path / task), CPU)
        with pytest.raises(TargetError, match="3 labels") as caught:
            check(classifier, stated)
        assert (caught.value.problem.code, caught.value.problem.field) == ("class-count-mismatch", "/manifest/labels")


def test_an_endpoint_is_sent_few_texts() -> None:
    classifier = Counting()
    report = check_text_target(classifier, _manifest(architecture=ENDPOINT))
    assert sum(map(len, classifier.calls)) == len(PROBES) + 2 == 10
    assert (report.facts.device, report.facts.tokens, report.facts.parameters) == ("endpoint", None, 0)
    assert 0 < report.facts.forward_s < 1


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        (lambda rows: [row[:2] for row in rows], "class-count-mismatch", "/manifest/labels"),
        (lambda rows: [row / 0 for row in rows], "outputs-not-finite", "/file"),
        (_everywhere(1.0), "constant-outputs", "/file"),
        (lambda rows: [row @ torch.zeros(9) for row in rows], "forward-failed", "/file"),
        (lambda rows: [rows[99]], "forward-failed", "/file"),
    ],
)
def test_outputs_that_are_no_logits_are_refused(change: Change, code: str, field: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_text_target(Counting(change), _manifest())
    assert (caught.value.problem.code, caught.value.problem.field) == (code, field)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), MemoryError(), RuntimeError("can't allocate memory")]
)
def test_too_little_memory_is_told_from_a_model_that_fails(error: Exception) -> None:
    def change(rows: list[Tensor]) -> list[Tensor]:
        raise error

    with pytest.raises(TargetError, match="more memory") as caught:
        check_text_target(Counting(change), _manifest())
    assert caught.value.problem.code == "out-of-memory"


def test_an_endpoint_that_does_not_answer_is_refused_with_its_own_reason() -> None:
    reason = NoScoresError("endpoint-refuses", "the endpoint answers HTTP 401: no token", field="/manifest/a/headers")
    with pytest.raises(TargetError, match="HTTP 401") as caught:
        check_text_target(Counting(lambda rows: [*rows[:3], reason]), _manifest(architecture=ENDPOINT))
    assert (caught.value.problem.code, caught.value.problem.field) == ("endpoint-refuses", "/manifest/a/headers")
    with pytest.raises(TargetError, match="no idea"):
        check_text_target(Counting(lambda rows: [UnansweredError("no idea")]), _manifest())
    with pytest.raises(TargetError, match="path to the scores") as caught:
        check_text_target(Counting(lambda rows: [row / 0 for row in rows]), _manifest(architecture=ENDPOINT))
    assert caught.value.problem.field == "/manifest/architecture"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: [row + torch.rand(3) for row in rows], "non_deterministic"),
        (lambda rows: [row.softmax(0) for row in rows], "probabilities_instead_of_logits"),
    ],
)
def test_doubts_are_flagged(change: Change, code: str) -> None:
    assert [flag.code for flag in check_text_target(Counting(change), _manifest()).flags] == [code]
    assert [flag.code for flag in _preflight(Counting(change), Numbered(list(range(3)) * 10)).flags] == [code]


def test_preflight_gives_predictions_and_an_exact_interval() -> None:
    data = Numbered(([0, 1, 2] * 34)[:100], wrong=10)
    report = _preflight(Counting(), data, clean_accuracy=0.9)
    assert int((report.predictions == data.labels).sum()) == 90
    accuracy = report.clean_accuracy
    assert (accuracy.value, accuracy.n, accuracy.method) == (0.9, 100, "clopper-pearson")
    assert (round(accuracy.low or 0, 4), round(accuracy.high or 0, 4)) == (0.8238, 0.951)
    assert report.flags == []
    stated = _preflight(Counting(), data, clean_accuracy=0.8)
    assert [flag.code for flag in stated.flags] == ["clean_accuracy_differs"]


def test_positions_are_looked_up_in_their_order() -> None:
    data = Numbered([0, 1, 2] * 10)
    report = preflight_texts(Counting(), data, np.array([2, 0, 1, 5]), manifest=_manifest())
    assert report.predictions.tolist() == [2, 0, 1, 2]


def test_a_real_model_of_pairs_passes(tmp_path: Path) -> None:
    rows = texts.pairs(60, seed=5)
    data = Numbered([label for *_, label in rows], texts.PAIR_LABELS)
    data.rows = [(premise, hypothesis) for premise, hypothesis, _ in rows]
    stated = _manifest("text-pair-classification", labels=None)
    classifier = load_huggingface_text(stated, texts.tiny_pairs(tmp_path / "model"), CPU)
    report = preflight_texts(classifier, data, range(60), manifest=stated)
    assert (report.clean_accuracy.value, report.flags) == (1.0, [])


@pytest.mark.parametrize(
    ("labels", "names", "code"),
    [
        ([0, 1, 3], None, "label-out-of-range"),
        ([0, 1, -1], None, "label-out-of-range"),
        ([0, 1, 2], ["some", "few", "many"], "label-order-mismatch"),
        ([], None, "empty-sample"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, names: list[str] | None, code: str) -> None:
    with pytest.raises(PreflightError) as caught:
        _preflight(Counting(), Numbered(labels, names))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/dataset")


def test_a_label_beyond_the_sample_is_refused_too() -> None:
    data = Numbered([0, 1, 2] * 10 + [3])
    with pytest.raises(PreflightError, match="0 to 3"):
        preflight_texts(Counting(), data, range(30), manifest=_manifest())


@pytest.mark.parametrize(
    ("others", "code"),
    [
        (LABELS, None),
        (["Few ", "SOME", "many"], None),
        (["LABEL_0", "LABEL_1", "LABEL_2"], None),
        (LABELS[:2], "class-count-mismatch"),
        (["many", "some", "few"], "label-order-mismatch"),
    ],
)
def test_a_further_model_must_number_the_classes_alike(others: list[str], code: str | None) -> None:
    if code is None:
        check_same_classes(LABELS, others, field="source_model")
        return
    with pytest.raises(PreflightError) as caught:
        check_same_classes(LABELS, others, field="source_model")
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "source_model")


def test_texts_with_several_labels_are_refused() -> None:
    data = Numbered([0, 1, 2])
    data.labels = np.eye(3, dtype=np.int64)
    with pytest.raises(PreflightError) as caught:
        _preflight(Counting(), data)
    assert (caught.value.problem.code, caught.value.problem.field) == ("several-labels", "/dataset")


def test_other_names_are_only_noted() -> None:
    report = _preflight(Counting(labels=["0", "1", "2"]), Numbered([0, 1, 2] * 5))
    assert [(flag.code, flag.severity) for flag in report.flags] == [("label_names_differ", "info")]


def test_pairs_and_single_texts_are_not_mixed_up() -> None:
    with pytest.raises(PreflightError, match="single texts") as caught:
        _preflight(Counting(), Numbered([0, 1, 2]), task="text-pair-classification")
    assert (caught.value.problem.code, caught.value.problem.field) == ("task-mismatch", "/dataset")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_everywhere(1.0), "constant-outputs"),
        (lambda rows: [row.roll(1) for row in rows], "accuracy-at-chance"),
        (lambda rows: [row * torch.tensor([1.0, 0, 0]) for row in rows], "accuracy-at-chance"),
        (lambda rows: [row / 0 for row in rows], "outputs-not-finite"),
        (lambda rows: [UnansweredError("query budget of 5 is spent") for _ in rows], "texts-unanswered"),
    ],
)
def test_a_model_that_does_not_classify_is_refused(change: Change, code: str) -> None:
    with pytest.raises(PreflightError) as caught:
        _preflight(Counting(change), Numbered([0, 1, 2] * 20))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/model")
    if code == "texts-unanswered":
        assert "query budget of 5 is spent" in caught.value.problem.detail


def test_too_few_texts_to_tell_from_chance_are_a_warning() -> None:
    report = _preflight(Counting(), Numbered([0, 1, 2] * 5, wrong=9))
    assert [flag.code for flag in report.flags] == ["accuracy_near_chance"]


def test_texts_without_an_answer_are_errored_and_the_others_go_on() -> None:
    silent = UnansweredError("HTTP 503")
    classifier = Counting(lambda rows: [row if position % 7 else silent for position, row in enumerate(rows)])
    data = Numbered([0, 1, 2] * 20)
    report = preflight_texts(classifier, data, range(60), manifest=_manifest(architecture=ENDPOINT), batch_size=8)
    errored = report.predictions == ERRORED
    # Every batch of eight has two.
    assert int(errored.sum()) == 15
    assert (report.predictions[~errored] == data.labels[~errored]).all()
    assert report.clean_accuracy.value == 0.75
    assert [(flag.code, flag.severity) for flag in report.flags] == [("unanswered_texts", "warning")]
    assert "15 of 60" in report.flags[0].message
    assert "HTTP 503" in report.flags[0].message


def test_an_endpoint_that_is_down_is_not_taken_for_one_that_guesses() -> None:
    silent = UnansweredError("HTTP 503")
    classifier = Counting(lambda rows: [row if position == 0 else silent for position, row in enumerate(rows)])
    report = preflight_texts(
        classifier, Numbered([0, 1, 2] * 40), range(120), manifest=_manifest(architecture=ENDPOINT)
    )
    assert [flag.code for flag in report.flags] == ["unanswered_texts", "accuracy_near_chance"]


def test_one_text_without_finite_logits_is_errored() -> None:
    def change(rows: list[Tensor]) -> list[Tensor]:
        return [row if row.max() < 4.1 else row * torch.nan for row in rows]

    data = Numbered([0, 1, 2] * 20)
    data.rows[2] = "word " * 20
    report = _preflight(Counting(change), data)
    # From ten words on the logits are not finite.
    assert report.predictions[2] == ERRORED
    finite = report.predictions != ERRORED
    assert 0 < finite.sum() < 60
    assert (report.predictions[finite] == data.labels[finite]).all()


def test_cut_off_texts_and_unknown_tokens_are_told(tmp_path: Path) -> None:
    rows = texts.sentences(80, seed=5)
    data = Numbered([label for _, label in rows], texts.LABELS)
    data.rows = [text for text, _ in rows]
    stated = _manifest(labels=None)
    classifier = load_huggingface_text(stated, texts.tiny_sentiment(tmp_path / "model"), CPU)
    assert preflight_texts(classifier, data, range(80), manifest=stated).flags == []
    upper = Numbered(data.labels, texts.LABELS)
    upper.rows = [str(text).upper() for text in data.rows]
    assert preflight_texts(classifier, upper, range(80), manifest=stated).flags == []

    data.rows[0] = f"{data.rows[0]} {'film ' * 150}"
    data.rows[1:40] = [f"{text} 映 画 館 。" for text in data.rows[1:40]]
    flags = preflight_texts(classifier, data, range(80), manifest=stated).flags
    assert [(flag.code, flag.severity) for flag in flags] == [
        ("unknown_tokens", "warning"),
        ("texts_truncated", "info"),
    ]
    assert "1 of 80 texts (1.2%)" in flags[1].message
    assert "128 tokens" in flags[1].message
    for cut, severity in ((3, "info"), (4, "warning")):
        data.rows = [f"{text} {'film ' * 150}" if at < cut else text for at, (text, _) in enumerate(rows)]
        flags = preflight_texts(classifier, data, range(80), manifest=stated).flags
        assert [(flag.code, flag.severity) for flag in flags] == [("texts_truncated", severity)]

    data.rows = ["映 画 館 。"] * 80
    with pytest.raises(PreflightError, match="another model's tokenizer") as caught:
        preflight_texts(classifier, data, range(80), manifest=stated)
    assert (caught.value.problem.code, caught.value.problem.field) == ("tokenizer-mismatch", "/model")


def test_dropout_left_on_is_flagged(tmp_path: Path) -> None:
    stated = _manifest(labels=None)
    classifier = load_huggingface_text(stated, texts.tiny_sentiment(tmp_path / "model"), CPU)
    classifier._module.train()
    assert [flag.code for flag in check_text_target(classifier, stated).flags] == ["non_deterministic"]


def test_preflight_can_be_cancelled_between_batches() -> None:
    seen = []

    def check_cancelled() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt

    classifier = Counting()
    with pytest.raises(KeyboardInterrupt):
        preflight_texts(
            classifier,
            Numbered([0] * 40),
            range(40),
            manifest=_manifest(),
            batch_size=10,
            check_cancelled=check_cancelled,
        )
    assert [len(call) for call in classifier.calls] == [10, 10]


def test_a_sample_of_few_texts_many_times_is_doubted() -> None:
    data = Numbered([0, 1, 2] * 10)
    data.rows = [data.rows[at % 26] for at in range(30)]
    data.labels = data.labels[np.arange(30) % 26]
    (flag,) = _preflight(Counting(), data).flags
    assert (flag.code, flag.severity) == ("repeated_examples", "warning")
    assert "Of 30 texts 26 are different" in flag.message
    data.rows[26:] = [f"{row}word word word" for row in data.rows[26:]]
    assert _preflight(Counting(), data).flags == []
