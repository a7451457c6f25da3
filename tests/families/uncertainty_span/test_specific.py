"""The label-preserving attacks: what each is for, and ACE against a literal reading of its algorithm."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    LABELS,
    NETWORK,
    PREDICTIONS,
    Context,
    audit,
    parameters,
)
from workers.families.protocol import Shard
from workers.families.uncertainty_span.specific import ace, maximum_miscalibration

CLEAN = NETWORK.logits(IMAGES)
RIGHT = (LABELS == PREDICTIONS).numpy()


def attacked(name: str, **changes) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    result, done = audit(parameters(attacks=[name], **changes), NETWORK, DATA)
    table = {column: np.asarray(done[name][column]) for column in done[name].column_names}
    clean = np.asarray(done["attack"]["confidence_clean"])
    assert (table["prediction_attacked"] == PREDICTIONS.numpy()).all()
    assert result.estimates[f"accuracy[attack={name}]"].value == 0.75
    return table | {"confidence_clean": clean}, {key: estimate.value for key, estimate in result.estimates.items()}


def literal_ace(x: Tensor, y: int, epsilon: float = 0.005, max_iterations: int = 15) -> Tensor:
    """Algorithm 1 of Galil and El-Yaniv, one sample, as printed."""
    x = x.clone().requires_grad_()
    scores = NETWORK.logits(x.unsqueeze(0)).softmax(1)[0]
    predicted = int(scores.argmax())
    (gradient,) = torch.autograd.grad(scores[predicted], x)
    direction = -1 if predicted == y else 1
    for _ in range(max_iterations):
        moved = (x.detach() + epsilon * direction * gradient.sign()).clamp(0, 1)
        if int(NETWORK.logits(moved.unsqueeze(0)).argmax()) == predicted:
            return moved
        epsilon *= 0.5
    return x.detach()


def test_ace_is_the_published_algorithm() -> None:
    # Beside the sample, points a hair from the decision boundary, where the step has to shrink.
    near = torch.stack([IMAGES[i] + t * (IMAGES[j] - IMAGES[i]) for i, j, t in boundary_points()])
    images = torch.cat([IMAGES, near]).clamp(0, 1)
    labels = torch.cat([LABELS, NETWORK.logits(near).argmax(1)])
    context = Context(NETWORK, (images, labels), Shard("ace", 0, len(images)), 64)
    found, logits = ace(context, images, labels, NETWORK.logits(images))
    expected = torch.stack([literal_ace(x, int(y)) for x, y in zip(images, labels, strict=True)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)
    torch.testing.assert_close(logits, NETWORK.logits(expected), rtol=1e-4, atol=1e-4)
    shortened = ((found - images).flatten(1).abs().amax(1) < 0.004)[40:]
    assert shortened.any()


def boundary_points() -> list[tuple[int, int, float]]:
    points = []
    for i in range(8):
        j = next(k for k in range(40) if PREDICTIONS[k] != PREDICTIONS[i])
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = (low + high) / 2
            same = NETWORK.logits((IMAGES[i] + middle * (IMAGES[j] - IMAGES[i]))[None]).argmax() == PREDICTIONS[i]
            low, high = (middle, high) if same else (low, middle)
        points.append((i, j, low))
    return points


def test_ace_lowers_the_confidence_of_right_answers_and_raises_that_of_wrong_ones() -> None:
    table, value = attacked("ace")
    assert (table["confidence_attacked"] < table["confidence_clean"])[RIGHT].mean() > 0.8
    assert (table["confidence_attacked"] > table["confidence_clean"])[~RIGHT].mean() > 0.8
    assert value["confidence[attack=ace]"] != value["confidence[arm=clean]"]


@pytest.mark.parametrize(("name", "sign"), [("ace_lower_predicted", -1), ("ace_raise_predicted", 1)])
def test_eta_omega_on_the_predicted_class_moves_every_confidence_one_way(name, sign) -> None:
    table, _ = attacked(name)
    moved = sign * (table["confidence_attacked"] - table["confidence_clean"])
    assert (moved[table["moved"]] > -1e-9).all()
    assert moved.mean() > 0.05


def test_eta_omega_on_the_true_class_equals_the_predicted_one_where_that_is_right() -> None:
    for direction in ("lower", "raise"):
        true, _ = attacked(f"ace_{direction}_true")
        predicted, _ = attacked(f"ace_{direction}_predicted")
        assert np.allclose(true["confidence_attacked"][RIGHT], predicted["confidence_attacked"][RIGHT])
        assert not np.allclose(true["confidence_attacked"][~RIGHT], predicted["confidence_attacked"][~RIGHT])


def test_maximum_miscalibration_is_the_worst_of_them_for_ece() -> None:
    table, value = attacked("max_miscalibration", steps=30)
    assert (table["confidence_attacked"] <= table["confidence_clean"] + 1e-9)[RIGHT].all()
    assert (table["confidence_attacked"] >= table["confidence_clean"] - 1e-9)[~RIGHT].all()
    _, ace_value = attacked("ace")
    assert value["ece[attack=max_miscalibration]"] > ace_value["ece[attack=ace]"]
    assert value["ece[attack=max_miscalibration]"] > value["ece[arm=clean]"] + 0.1
    # The bound for accuracy q and K classes (Obadinma et al.): 1 - q / K.
    assert value["ece[attack=max_miscalibration]"] <= 1 - 0.75 / 4


def test_maximum_miscalibration_is_near_the_least_confidence_that_keeps_the_label() -> None:
    objective = maximum_miscalibration(PREDICTIONS, PREDICTIONS)
    context = Context(NETWORK, DATA, Shard("max_miscalibration", 0, 40), 64)
    from workers.families.uncertainty_span.span import make_search

    found = make_search(parameters(steps=60, epsilon=0.2), context).run([context.classifier.logits], IMAGES, objective)
    second = found.best_logits[:, 0].topk(2).values
    assert ((second[:, 0] - second[:, 1]) < 0.6).float().mean() > 0.5


def test_random_confidence_heads_for_its_target() -> None:
    table, _ = attacked("random_confidence", steps=40, epsilon=0.2)
    before = np.abs(table["confidence_clean"] - table["target_confidence"])
    after = np.abs(table["confidence_attacked"] - table["target_confidence"])
    assert (after <= before).all()
    assert np.median(after) < 0.1 < np.median(before)
    assert ((table["target_confidence"] >= 0.3) & (table["target_confidence"] <= 0.99)).all()
