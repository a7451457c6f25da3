import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tests.models.builders import CPU, manifest
from workers.errors import PreflightError, TargetError
from workers.models import checks
from workers.models.checks import ERRORED, PreflightReport, check_target, preflight
from workers.models.image_classifier import ImageClassifier
from workers.models.repeating import repeat_flags

LABELS = ["cat", "dog", "eel", "fox"]
SHAPE = (1, 2, 2)


class Brightest(nn.Module):
    """Class k is right when pixel k is the brightest."""

    def forward(self, images: Tensor) -> Tensor:
        return 5 * images.flatten(1)


class Wrapped(nn.Module):
    def __init__(self, change) -> None:
        super().__init__()
        self.change = change
        self.inner = Brightest()

    def forward(self, images: Tensor) -> Tensor:
        return self.change(self.inner(images))


class Examples:
    """Images whose brightest pixel is their label."""

    def __init__(self, labels, names: list[str] | None = LABELS, wrong: int = 0) -> None:
        self.labels: NDArray[np.int64] = np.asarray(labels, np.int64)
        self.label_names = names
        bright = (self.labels + (np.arange(len(self.labels)) < wrong)) % 4
        self.pixels = torch.full((len(self.labels), 4), 0.25)
        self.pixels[torch.arange(len(self.labels)), torch.from_numpy(bright)] = 0.75
        # No two are alike.
        self.pixels += 0.1 * torch.rand(self.pixels.shape, generator=torch.Generator().manual_seed(1))

    def images(self, positions) -> Tensor:
        return self.pixels[list(positions)].view(-1, *SHAPE)


def _classifier(change=lambda logits: logits, labels: list[str] = LABELS) -> ImageClassifier:
    return ImageClassifier(Wrapped(change), labels=labels, input_shape=SHAPE, mean=[0.0], std=[1.0], device=CPU)


def _manifest(**changes):
    architecture = {"kind": "layers", "layers": [["flatten"], ["linear", 4, 4]]}
    return manifest(architecture, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=LABELS, **changes)


def _preflight(classifier: ImageClassifier, data: Examples, **changes) -> PreflightReport:
    return preflight(classifier, data, range(len(data.labels)), manifest=_manifest(**changes), batch_size=7)


def test_a_good_model_is_measured() -> None:
    report = check_target(_classifier(), _manifest())
    assert report.flags == []
    assert (report.facts.classes, report.facts.parameters, report.facts.device) == (4, 0, "cpu")
    assert report.facts.input_shape == list(SHAPE)
    assert 0 < report.facts.forward_s < 1
    assert 0 < report.facts.backward_s < 1
    assert report.facts.memory_bytes_per_example is None


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        (lambda logits: logits[:, :3], "class-count-mismatch", "/manifest/labels"),
        (lambda logits: logits[..., None], "class-count-mismatch", "/manifest/labels"),
        (lambda logits: logits / 0, "outputs-not-finite", "/file"),
        (lambda logits: logits * 0 + 1, "constant-outputs", "/file"),
        (lambda logits: logits @ torch.zeros(9, 4), "forward-failed", "/manifest/input/shape"),
    ],
)
def test_outputs_that_are_no_logits_are_refused(change, code: str, field: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_target(_classifier(change), _manifest())
    assert (caught.value.problem.code, caught.value.problem.field) == (code, field)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda logits: logits + torch.rand_like(logits), "non_deterministic"),
        # What is the same for all classes hides nothing.
        (lambda logits: logits + torch.rand_like(logits) + 1e5, "non_deterministic"),
        (lambda logits: logits.softmax(1), "probabilities_instead_of_logits"),
    ],
)
def test_doubts_are_flagged(change, code: str) -> None:
    assert [flag.code for flag in check_target(_classifier(change), _manifest()).flags] == [code]
    assert code in [flag.code for flag in _preflight(_classifier(change), Examples(list(range(4)) * 10)).flags]


@pytest.mark.parametrize("constant", [0.0, 1e4])
def test_what_rounding_does_is_not_flagged(constant: float) -> None:
    logits = 50 * torch.rand(8, 4, generator=torch.Generator().manual_seed(1)) + constant
    assert repeat_flags(logits, logits * (1 + 3e-7)) == []


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_model_that_is_another_one_in_small_company_is_flagged(most: int) -> None:
    def alone(logits: Tensor) -> Tensor:
        return logits.flip(1) if len(logits) == most else logits

    def far(logits: Tensor) -> Tensor:
        return alone(logits) + 1e4

    for change, codes in ((alone, ["depends_on_company"]), (far, ["depends_on_company"]), (lambda logits: logits, [])):
        report = _preflight(_classifier(change), Examples(list(range(4)) * 10))
        assert [flag.code for flag in report.flags] == codes


def test_preflight_gives_predictions_and_an_exact_interval() -> None:
    data = Examples(list(range(4)) * 25, wrong=10)
    report = _preflight(_classifier(), data, clean_accuracy=0.9)
    assert int((report.predictions == data.labels).sum()) == 90
    accuracy = report.clean_accuracy
    assert (accuracy.value, accuracy.n, accuracy.method) == (0.9, 100, "clopper-pearson")
    assert (round(accuracy.low or 0, 4), round(accuracy.high or 0, 4)) == (0.8238, 0.951)
    assert report.flags == []


def test_one_example_without_finite_logits_is_errored_and_the_others_go_on() -> None:
    def change(logits: Tensor) -> Tensor:
        return torch.where((logits[:, :1] == 0), torch.nan, logits)

    data = Examples(list(range(4)) * 25)
    data.pixels[2, 0] = 0.0
    report = _preflight(_classifier(change), data)
    assert report.predictions[2] == ERRORED
    assert (report.predictions == data.labels).sum() == 99
    assert report.clean_accuracy.value == 0.99
    assert report.flags == []


def test_a_stated_accuracy_outside_the_interval_is_flagged() -> None:
    report = _preflight(_classifier(), Examples(list(range(4)) * 25), clean_accuracy=0.8)
    assert [flag.code for flag in report.flags] == ["clean_accuracy_differs"]


@pytest.mark.parametrize(
    ("labels", "names", "code"),
    [
        ([0, 1, 2, 4], None, "label-out-of-range"),
        ([0, 1, 2, -1], None, "label-out-of-range"),
        ([0, 1, 2, 3], ["dog", "cat", "eel", "fox"], "label-order-mismatch"),
        ([0, 1, 2, 3], [" Dog", "CAT"], "label-order-mismatch"),
        ([], None, "empty-sample"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[int], names: list[str] | None, code: str) -> None:
    with pytest.raises(PreflightError) as caught:
        _preflight(_classifier(), Examples(labels, names))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/dataset")


def test_other_names_are_only_noted() -> None:
    report = _preflight(_classifier(labels=["0", "1", "2", "3"]), Examples(list(range(4)) * 5))
    assert [(flag.code, flag.severity) for flag in report.flags] == [("label_names_differ", "info")]
    assert _preflight(_classifier(), Examples(list(range(4)) * 5, ["cat", "dog"])).flags == []


def test_images_of_another_shape_or_range_are_refused() -> None:
    data = Examples(list(range(4)) * 5)
    wide = ImageClassifier(Brightest(), labels=LABELS, input_shape=(3, 2, 2), mean=[0.0], std=[1.0], device=CPU)
    with pytest.raises(PreflightError, match=r"\(1, 2, 2\).*\(3, 2, 2\)"):
        _preflight(wide, data)
    data.pixels = data.pixels * 255
    with pytest.raises(PreflightError, match=r"\[0, 1\]"):
        _preflight(_classifier(), data)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda logits: logits * 0 + 1, "constant-outputs"),
        (lambda logits: logits.roll(1, 1), "accuracy-at-chance"),
        (lambda logits: logits / 0, "outputs-not-finite"),
    ],
)
def test_a_model_that_does_not_classify_is_refused(change, code: str) -> None:
    with pytest.raises(PreflightError) as caught:
        _preflight(_classifier(change), Examples(list(range(4)) * 10))
    assert (caught.value.problem.code, caught.value.problem.field) == (code, "/model")


def test_an_imbalanced_sample_with_one_prediction_is_a_warning() -> None:
    rare = Examples([0] * 95 + [1] * 5)
    rare.pixels[:, 0] = torch.linspace(0.8, 0.9, 100)
    report = _preflight(_classifier(), rare)
    assert report.clean_accuracy.value == 0.95
    assert [(flag.code, flag.severity) for flag in report.flags] == [("constant_predictions", "warning")]


def test_one_prediction_on_a_balanced_sample_is_still_at_chance() -> None:
    with pytest.raises(PreflightError) as caught:
        _preflight(_classifier(lambda logits: logits * torch.tensor([1.0, 0, 0, 0])), Examples(list(range(4)) * 15))
    assert caught.value.problem.code == "accuracy-at-chance"


def test_the_same_image_again_and_again_may_give_the_same_output() -> None:
    data = Examples([2] * 12)
    assert _preflight(_classifier(), data).flags == []
    data.pixels[-1, 2] = 0.8
    with pytest.raises(PreflightError) as caught:
        _preflight(_classifier(lambda logits: logits * 0 + torch.tensor([0.0, 0, 1, 0])), data)
    assert caught.value.problem.code == "constant-outputs"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("is_backward", [False, True])
def test_too_little_memory_is_told_from_a_model_that_fails(error: Exception, is_backward: bool) -> None:
    def change(logits: Tensor) -> Tensor:
        if logits.requires_grad == is_backward:
            raise error
        return logits

    with pytest.raises(TargetError, match="more memory") as caught:
        check_target(_classifier(change), _manifest())
    assert caught.value.problem.code == "out-of-memory"


def test_images_that_do_not_fit_into_memory_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(checks, "_probe_images", refuse)
    with pytest.raises(TargetError) as caught:
        check_target(_classifier(), _manifest())
    assert caught.value.problem.code == "out-of-memory"


@pytest.mark.parametrize(
    ("values_per_image", "batches"), [(None, {8, 64}), (2**25, {8}), (2**26, {4}), (2**28, {2}), (2**40, {2})]
)
def test_a_large_model_is_probed_and_timed_with_fewer_images(values_per_image: int | None, batches: set[int]) -> None:
    seen = set()

    def change(logits: Tensor) -> Tensor:
        seen.add(len(logits))
        return logits

    classifier = _classifier(change)
    classifier.values_per_image = values_per_image
    check_target(classifier, _manifest())
    assert seen == batches


def test_too_few_examples_to_tell_from_chance_are_a_warning_and_many_are_refused() -> None:
    few = Examples(list(range(4)) * 4, wrong=10)
    assert [flag.code for flag in _preflight(_classifier(), few).flags] == ["accuracy_near_chance"]
    with pytest.raises(PreflightError) as caught:
        _preflight(_classifier(), Examples(list(range(4)) * 20, wrong=55))
    assert caught.value.problem.code == "accuracy-at-chance"


def test_one_class_may_get_one_prediction() -> None:
    assert _preflight(_classifier(), Examples([2] * 30)).clean_accuracy.value == 1.0


def test_preflight_can_be_cancelled_between_batches() -> None:
    seen = []

    def check_cancelled() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        preflight(
            _classifier(),
            Examples([0] * 40),
            range(40),
            manifest=_manifest(),
            batch_size=10,
            check_cancelled=check_cancelled,
        )
    assert len(seen) == 3


def test_a_sample_of_one_image_many_times_is_doubted() -> None:
    data = Examples([0, 1, 2, 3] * 10)
    data.pixels = data.pixels[torch.arange(40) % 4]
    (flag,) = _preflight(_classifier(), data).flags
    assert (flag.code, flag.severity) == ("repeated_examples", "warning")
    assert "Of 40 images 4 are different" in flag.message
