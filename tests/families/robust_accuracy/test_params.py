"""What a check accepts of the block, what it fills in, what it says otherwise, and what it costs."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.shared.robust_accuracy import LOOKS, SLOPE_STEPS, RobustAccuracyParams
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.attacks.autoattack.networks import Linear, near_the_middle
from tests.families.in_memory import Model
from tests.families.robust_accuracy.stages import attack
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.families.robust_accuracy import make_ensemble


def span(block: Any, **changes: Any) -> UncertaintySpanParams:
    return UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "robust_accuracy": block} | changes)


def certified(block: Any, **changes: Any) -> CertifiedCalibrationParams:
    return CertifiedCalibrationParams.model_validate(
        {"kind": "certified_calibration", "robust_accuracy": block} | changes
    )


def ball(params: UncertaintySpanParams | CertifiedCalibrationParams) -> tuple[str, float]:
    assert params.robust_accuracy is not None
    return params.robust_accuracy.norm, params.robust_accuracy.radius


def test_it_is_not_asked_for_unless_it_is() -> None:
    assert span(None).robust_accuracy is None
    assert certified(None).robust_accuracy is None


def test_the_ball_is_the_check_s_unless_the_block_says_so() -> None:
    assert ball(span({})) == ("linf", 8 / 255)
    assert ball(span({}, norm="l2", epsilon=2)) == ("l2", 2.0)
    assert ball(span({"epsilon": None, "norm": None}, epsilon=0.1)) == ("linf", 0.1)
    assert ball(span({"epsilon": 0.2}, epsilon=0.1)) == ("linf", 0.2)
    assert ball(span({"norm": "l2", "epsilon": 1.0})) == ("l2", 1.0)


def test_of_certificates_it_is_the_radius_that_attacks_would_take() -> None:
    assert ball(certified({})) == ("l2", 0.25)
    assert ball(certified({}, sigma=0.01)) == ("l2", 0.05)
    assert ball(certified({}, attack_radius=0.5)) == ("l2", 0.5)
    assert ball(certified({}, radii=[0.0, 0.7], ace_attacks=["ace_lower_true"])) == ("l2", 0.7)
    assert ball(certified({"norm": "linf", "epsilon": 0.1}, radii=[0.0])) == ("linf", 0.1)


@pytest.mark.parametrize("check", [span, certified], ids=["span", "certified"])
def test_what_is_stored_says_all_and_is_read_back_the_same(check: Any) -> None:
    params = check({"steps": 7})
    stored = params.model_dump(mode="json")
    assert stored["robust_accuracy"].keys() == {"version", "norm", "epsilon", "steps", "queries", "survivors"}
    assert [name for name, value in stored["robust_accuracy"].items() if value is None] == ["survivors"]
    assert type(params).model_validate(stored) == params


@pytest.mark.parametrize(
    ("check", "block", "changes", "field", "told"),
    [
        (span, {"epsilon": 0}, {}, "epsilon", "greater than or equal to 0.000001"),
        (span, {"epsilon": 1.5}, {}, "epsilon", "at most 1 in linf"),
        (span, {"norm": "l2"}, {}, "epsilon", "the check has no radius in l2 to attack at: give epsilon"),
        (span, {"norm": "l1", "epsilon": 1}, {}, "norm", "'linf' or 'l2'"),
        (span, {"version": "plus"}, {}, "version", "'standard' or 'rand'"),
        (span, {"steps": 0}, {}, "steps", "greater than or equal to 1"),
        (span, {"queries": -1}, {}, "queries", "greater than or equal to 0"),
        (span, {"step": 3}, {}, "step", "not permitted"),
        (certified, {"norm": "linf"}, {}, "epsilon", "no radius in linf"),
        (certified, {}, {"radii": [0.0]}, "epsilon", "no radius in l2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_names_the_field(check: Any, block: dict, changes: dict, field: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        check(block, **changes)
    (error,) = refused.value.errors()
    assert error["loc"] == ("robust_accuracy", field)
    assert told in error["msg"]


def test_what_is_wrong_with_the_check_is_not_said_of_the_block() -> None:
    for check, changes in ((span, {"epsilon": -1}), (span, {"norm": "l3"}), (certified, {"radii": []})):
        with pytest.raises(ValidationError) as refused:
            check({}, **changes)
        assert [error["loc"] for error in refused.value.errors()] == [tuple(changes)]


@pytest.mark.parametrize("version", ["standard", "rand"])
def test_it_never_costs_more_than_was_said(version: str) -> None:
    """Twelve classes, more than are targeted, and a radius at which everything holds: nothing is cut short."""
    model, images = Linear(12), near_the_middle(3)
    plain = backward = 0

    def counting(images: Tensor) -> Tensor:
        nonlocal plain, backward
        if images.requires_grad:
            backward += len(images)
        else:
            plain += len(images)
        return model(images)

    params = RobustAccuracyParams(version=version, epsilon=1e-6, steps=4, queries=9)
    records = attack(params, Model(counting, 12), (images, model(images).argmax(1)))
    assert all(records["robust"].to_pylist())
    told = params.passes(3)
    assert backward == told.backward
    # FAB looks along the line to the nearest misclassified image where it found one.
    assert plain <= told.forward <= plain + 3 * 3 * 9


@pytest.mark.parametrize("version", ["standard", "rand"])
@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_the_cost_covers_what_autoattack_says_itself(version: str, classes: int) -> None:
    params = RobustAccuracyParams(version=version, epsilon=0.1, steps=17, queries=23)
    ensemble = make_ensemble(params)
    each = ensemble.passes(classes).values()
    # What is left of the gradient near by is looked at where it is no average.
    told, slopes = params.passes(1), version == "standard"
    looks = LOOKS + 1 + ensemble.draws + SLOPE_STEPS * slopes
    assert told.backward >= sum(one.backward for one in each)
    assert told.forward >= sum(one.forward for one in each) + looks
    if classes >= 10:
        forward, backward = sum(one.forward for one in each), sum(one.backward for one in each)
        assert told[:5] == (forward + looks, backward + slopes, 0, 1.0, 0.0)


def test_the_check_s_cost_counts_it() -> None:
    alone = RobustAccuracyParams(epsilon=0.1).passes(50)
    for check in (span, certified):
        without, with_it = check(None).passes(50, {}), check({}).passes(50, {})
        assert with_it.forward - without.forward == alone.forward
        assert with_it.backward - without.backward == alone.backward


def test_the_attack_is_the_published_one_unless_it_is_changed() -> None:
    assert make_ensemble(RobustAccuracyParams(epsilon=0.1)) == AutoAttack.standard("linf", 0.1)
    assert make_ensemble(RobustAccuracyParams(epsilon=0.1, version="rand")) == AutoAttack.rand("linf", 0.1)


def test_defences_count_autoattack_s_passes_on_the_static_model() -> None:
    given = {"kind": "transductive_attack", "defences": [{"name": "tent"}], "autoattack_queries": 40}
    params = TransductiveAttackParams.model_validate(given | {"attacks": ["transfer_autoattack"]})
    ensemble = AutoAttack(params.norm, params.epsilon, queries=40).passes(10).values()
    told = params.passes(1, {})
    assert told.forward >= sum(one.forward for one in ensemble) + LOOKS + 2
    assert told.backward >= sum(one.backward for one in ensemble)
    assert torch.tensor(told[:2]).isfinite().all()
