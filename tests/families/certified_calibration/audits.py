"""Whole certified-calibration checks in memory, on models whose certificates are known or worth attacking."""

from typing import Any

import torch

from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from tests.families.in_memory import Data, Model, run_check
from workers.families.certified_calibration.family import FAMILY
from workers.families.contexts import Records


def parameters(**changes: Any) -> CertifiedCalibrationParams:
    """Return parameters that take a second."""
    small = {"kind": "certified_calibration", "sigma": 0.25, "n0": 50, "n": 2000, "radii": [0.0, 0.1, 0.25, 0.5]}
    return CertifiedCalibrationParams.model_validate(small | changes)


def audit(
    params: CertifiedCalibrationParams, model: Model, data: Data, **more: Any
) -> tuple[Result, dict[str, Records]]:
    """Run every stage and reduce."""
    return run_check(FAMILY, params, model, data, **more)


def measure(params: CertifiedCalibrationParams, model: Model, data: Data, **more: Any) -> dict[str, Records]:
    """Run every stage and return its records; estimates of them take as long again."""
    return run_check(FAMILY, params, model, data, reduce=False, **more)[1]


def network(seed: int = 0, classes: int = 4) -> Model:
    """A small fixed network on 1x4x4 images."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(24, 16, generator=generator)
    second = torch.randn(classes, 24, generator=generator) * 0.4
    return Model(lambda x: torch.relu((x.flatten(1) - 0.5) @ first.T) @ second.T, classes)


NETWORK = network()
IMAGES = torch.rand(24, 1, 4, 4, generator=torch.Generator().manual_seed(1))
PREDICTIONS = NETWORK.logits(IMAGES).argmax(1)
# Three of four labels are what the network says.
LABELS = torch.where(torch.arange(24) % 4 > 0, PREDICTIONS, (PREDICTIONS + 1) % 4)
DATA = (IMAGES, LABELS)

WEIGHTS = torch.randn(16, generator=torch.Generator().manual_seed(2))


def margins() -> torch.Tensor:
    """Return the signed l_2 distance (n,) of each of ``IMAGES`` to the boundary of :data:`LINEAR`, float64."""
    weights = WEIGHTS.double()
    return ((IMAGES.flatten(1).double() - 0.5) @ weights) / weights.norm()


def _linear(images: torch.Tensor) -> torch.Tensor:
    score = (images.flatten(1) - 0.5) @ WEIGHTS
    return torch.stack([-score, score], 1)


LINEAR = Model(_linear, 2)
"""Two classes, sides of a hyperplane; class 1 has the score sigmoid(2 w (x - 1/2))."""
