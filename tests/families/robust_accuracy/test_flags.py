"""Every flag is raised by a model that deserves it, and by none that does not."""

from collections.abc import Callable

import pyarrow as pa
import pytest
import torch
from torch import Tensor

from seatrial.families.shared.robust_accuracy_flags import OWN_RADIUS
from tests.attacks import test_confined as confined
from tests.attacks.autoattack.networks import NET, Linear, near_the_middle
from tests.families.in_memory import Model
from tests.families.robust_accuracy.stages import DATA, IMAGES, LABELS, attack, flags, parameters
from workers.families.robust_accuracy import doubt, make_ensemble


def noisy(images: Tensor) -> Tensor:
    return NET(images) + 1e-2 * torch.randn(len(images), 5, dtype=torch.float64)


def probabilities(images: Tensor) -> Tensor:
    return NET(images).softmax(1)


def quantised(images: Tensor) -> Tensor:
    return NET((images * 16).round() / 16)


def adapting(images: Tensor) -> Tensor:
    with torch.enable_grad():
        moved = images.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(NET(moved).logsumexp(1).sum(), moved)
    return NET(images - 0.001 * gradient)


# Ten wrong classes to choose from, so no loss has to stand in for another.
TEN = Model(Linear(11), 11)
SOUND = (near_the_middle(9), TEN.logits(near_the_middle(9)).argmax(1))


@pytest.mark.parametrize("version", ["standard", "rand"])
def test_of_a_sound_model_nothing_is_said(version: str) -> None:
    assert flags(parameters(version=version, epsilon=0.05), TEN, SOUND) == {}


def test_of_one_with_few_classes_only_that_losses_were_replaced() -> None:
    found = flags(parameters())
    assert set(found) == {"losses_replaced"}
    assert found["losses_replaced"].severity == "info"
    assert "4 wrong classes there are instead of 9" in found["losses_replaced"].message
    assert "losses_replaced" not in flags(parameters(version="rand", steps=4))


@pytest.mark.parametrize(
    ("code", "model"),
    [
        ("randomized_forward", noisy),
        ("softmax_output", probabilities),
        ("optimizes_at_inference", adapting),
    ],
    ids=["randomized_forward", "softmax_output", "optimizes_at_inference"],
)
def test_what_a_model_does_is_told(code: str, model: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    found = flags(parameters(steps=4, queries=10), Model(model, 5))
    assert found[code].severity == "warning"
    assert found[code].message.startswith("AutoAttack: ")


def test_randomness_is_no_news_to_attacks_that_average_over_it() -> None:
    torch.manual_seed(0)
    assert "randomized_forward" not in flags(parameters(version="rand", steps=3), Model(noisy, 5))


def test_hidden_gradients_are_told_twice() -> None:
    images = (IMAGES * 16).round() / 16
    # Half a level is 0.031: beyond it random squares reach the next level, and no gradient shows the way.
    params = parameters(epsilon=0.06, steps=5, queries=150)
    found = flags(params, Model(quantised, 5), (images, quantised(images).argmax(1)))
    assert {"zero_gradients", "square_improves"} <= set(found)
    assert found["zero_gradients"].severity == "error"
    assert found["square_improves"].severity in ("warning", "error")
    assert "square_improves" not in flags(parameters(epsilon=0.06, queries=0), Model(quantised, 5), DATA)


def sound(n: int = 40, **columns: list[object]) -> pa.Table:
    """Records without a sign: all right, all held."""
    rows = {
        "errored": [False] * n,
        "correct": [True] * n,
        "broken_by": [None] * n,
        "answers_right": [5] * n,
        "answers_apart": [0.0] * n,
        "is_probability": [False] * n,
        "runs_backward": [False] * n,
        "zero_gradient": [False] * n,
        "classes": [10] * n,
    }
    return pa.table(rows | columns)


def codes(records: pa.Table, **changes: object) -> dict[str, str]:
    found = doubt(records, make_ensemble(parameters(**changes)))
    return {flag.code: flag.severity for flag in found}


def test_flags_are_read_off_the_records() -> None:
    assert codes(sound()) == {}
    assert codes(sound(answers_right=[5] * 39 + [4])) == {"randomized_forward": "warning"}
    assert codes(sound(answers_apart=[0.0] * 39 + [1e-3])) == {"randomized_forward": "warning"}
    assert codes(sound(is_probability=[True] * 39 + [False])) == {}
    assert codes(sound(is_probability=[True] * 40)) == {"softmax_output": "warning"}
    assert codes(sound(runs_backward=[True] + [False] * 39)) == {"optimizes_at_inference": "warning"}
    for broken, severity in ((1, "info"), (7, "warning"), (12, "error")):
        assert codes(sound(broken_by=["square"] * broken + [None] * (40 - broken))) == {"square_improves": severity}
    assert codes(sound(broken_by=["fab-t"] + [None] * 39)) == {}
    assert codes(sound(classes=[3] * 40)) == {"losses_replaced": "info"}


def test_slopes_that_are_gone_near_by_count_where_the_image_held() -> None:
    # The interval of 11 of 40 begins at .146, of 12 at .166.
    assert codes(sound(slope_gone=[True] * 11 + [False] * 29)) == {}
    assert codes(sound(slope_gone=[True] * 12 + [False] * 28)) == {"failed_gradient_check": "error"}
    broken_by = ["apgd-ce"] * 12 + [None] * 28
    assert codes(sound(slope_gone=[True] * 12 + [False] * 28, broken_by=broken_by)) == {}


def test_a_radius_that_hardly_anybody_asks_about_is_told() -> None:
    told, below = {"autoattack_small_radius": "warning"}, {"autoattack_radius_below_a_level": "warning"}
    for values, norm, epsilon, found in (
        (784, "linf", 1e-6, below),
        (784, "linf", 0.0074, told),
        (784, "linf", 0.0078, {}),
        (0, "linf", 1e-6, {}),
        (784, "l2", 0.13, told),
        (784, "l2", 0.142, {}),
        (150_528, "l2", 0.3, below),
        (150_528, "l2", 0.5, {}),
    ):
        assert codes(sound(values=[values] * 40), epsilon=epsilon, norm=norm) == found
    assert "autoattack_radius_below_a_level" in flags(parameters(epsilon=0.001), TEN, SOUND)
    assert not OWN_RADIUS & flags(parameters(epsilon=0.01), TEN, SOUND).keys()


def test_a_model_that_watches_what_every_step_moves_is_told() -> None:
    data = (confined.IMAGES, torch.zeros(len(confined.IMAGES), dtype=torch.int64))
    params = parameters(epsilon=confined.EPSILON, steps=5, queries=20)
    assert flags(params, Model(confined.watching, 2), data)["failed_gradient_check"].severity == "error"
    assert "failed_gradient_check" not in flags(params, Model(lambda images: confined.linear(images, 0.1), 2), data)


@pytest.mark.parametrize(("stuck", "severity"), [(1, "info"), (4, "warning"), (20, "error")], ids=["1", "4", "20"])
def test_zero_gradients_are_as_grave_as_they_are_many(stuck: int, severity: str) -> None:
    found = doubt(sound(zero_gradient=[True] * stuck + [False] * (40 - stuck)), make_ensemble(parameters()))
    assert [(flag.code, flag.severity) for flag in found] == [("zero_gradients", severity)]
    assert f"{stuck} of 40 examples" in found[0].message


def test_zero_gradients_are_counted_where_a_ratio_of_logits_was_attacked() -> None:
    """Those broken by the cross-entropy, and those wrong before, never came so far."""
    broken_by, correct = ["apgd-ce"] * 20 + [None] * 20, [True] * 30 + [False] * 10
    records = sound(broken_by=broken_by, correct=correct, zero_gradient=[False] * 20 + [True] * 10 + [False] * 10)
    (flag,) = doubt(records, make_ensemble(parameters()))
    assert "for 10 of 10 examples" in flag.message
    assert flag.severity == "error"


def test_examples_that_errored_are_no_evidence() -> None:
    lost = [True] * 2 + [False] * 38
    gone = sound(
        errored=lost,
        answers_right=[None] * 2 + [5] * 38,
        answers_apart=[None] * 2 + [0.0] * 38,
        is_probability=[None] * 2 + [True] * 38,
    )
    assert codes(gone) == {"softmax_output": "warning"}
    assert codes(sound(errored=[True] * 40, zero_gradient=[None] * 40)) == {}


def test_a_shard_of_its_own_kind_is_enough_to_be_told() -> None:
    """The signs of all shards count, not those of the first batch alone."""

    def adapts_to_the_last(images: Tensor) -> Tensor:
        return adapting(images) if bool((images[:, 0, 0, 0] == IMAGES[20, 0, 0, 0]).any()) else NET(images)

    records = attack(
        parameters(steps=3, queries=5), Model(adapts_to_the_last, 5), (IMAGES, LABELS), batch_size=3, shards=7
    )
    assert records["runs_backward"].to_pylist() == [False] * 18 + [True] * 3
    assert "optimizes_at_inference" in codes(records)
