"""What is refused before anything is attacked, and where it stands in the request."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import nn

from seatrial.families.transductive_attack.params import TransductiveAttackParams
from tests.defences import builders
from tests.families.transductive_attack.test_family import FAULTY as FAULTY
from tests.families.transductive_attack.test_family import Faulty, parameters
from workers.defences import registry
from workers.defences.protocol import DefenceError
from workers.errors import PreflightError
from workers.families.protocol import DataInfo, TargetInfo
from workers.families.transductive_attack.family import FAMILY
from workers.models.image_classifier import ImageClassifier


@pytest.mark.parametrize(
    ("defence", "field", "told"),
    [
        ({"name": "nobody"}, "", "known are"),
        ({"name": "faulty", "preset": "imagenet"}, "/preset", "it has small"),
        ({"name": "faulty", "changes": {"faults": "x"}}, "/changes/faults", "it has fault, round"),
        ({"name": "faulty", "changes": {"round": 1.5}}, "/changes/round", "round of faulty is int"),
        ({"name": "faulty", "changes": {"round": True}}, "/changes/round", "not True"),
        ({"name": "faulty", "changes": {"fault": 3}}, "/changes/fault", "fault of faulty is str"),
        ({"name": "faulty", "changes": {"round": -1}}, "/changes", "no such round"),
    ],
    ids=["name", "preset", "unknown", "half", "flag", "text", "range"],
)
def test_a_defence_that_is_not_there_is_refused_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, defence: dict[str, Any], field: str, told: str
) -> None:
    points = [EntryPoint("faulty", f"{__name__}:FAULTY", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    target, data = TargetInfo(10, None, (1, 8, 8)), DataInfo(40, 10, 0.9)
    with pytest.raises(PreflightError) as refused:
        FAMILY.preflight(target, data, parameters("identity", defence))
    assert refused.value.problem.field == f"defences/1{field}"
    assert told in refused.value.problem.detail


def preflight(params: TransductiveAttackParams, classifier: Any) -> None:
    target = TargetInfo(10, None, tuple(classifier.input_shape), classifier=classifier)
    FAMILY.preflight(target, DataInfo(40, 10, 0.9), params)


def convolutional(*, size: int = 8) -> ImageClassifier:
    """Without batch norm or a linear layer."""
    layers = (nn.Conv2d(1, 10, size), nn.Flatten())
    return builders.classifier(nn.Sequential(*layers), size=size)


@pytest.mark.parametrize(
    ("defence", "told"),
    [("dent", "no BatchNorm2d layer"), ("tent", "no BatchNorm2d layer"), ("rmc", "no linear layer")],
)
def test_a_model_a_defence_cannot_work_on_is_refused_before_anything_is_attacked(defence: str, told: str) -> None:
    params = parameters("identity", defence, training_dataset="dat_1")
    with pytest.raises(PreflightError) as refused:
        preflight(params, convolutional())
    assert refused.value.problem.field == "defences/1"
    assert told in refused.value.problem.detail
    preflight(params, builders.base())


@pytest.mark.parametrize("defence", ["dann", "tadv", "urejectron"])
def test_images_too_small_for_the_network_of_a_defence_are_refused(defence: str) -> None:
    params = parameters(defence, training_dataset="dat_1")
    with pytest.raises(PreflightError, match="2x2 pixels are too small"):
        preflight(params, convolutional(size=2))
    large, drawn = convolutional(), torch.random.get_rng_state()
    preflight(params, large)
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_an_operators_defence_may_refuse_a_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("faulty", f"{__name__}:FAULTY", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)

    def check(self: Any, base: Any) -> None:
        raise DefenceError(f"not on {base.classes} classes")

    preflight(parameters("faulty"), builders.base())
    monkeypatch.setattr(Faulty, "check", check, raising=False)
    with pytest.raises(PreflightError, match="not on 10 classes"):
        preflight(parameters("faulty"), builders.base())
