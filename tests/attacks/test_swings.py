"""Numbers that swing many times within a radius are found, in either norm and whatever batch a program takes."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from benchmarks.locked_image_fakes import apart, signs
from benchmarks.periodic_image_fakes import Comb, Combed, cosines, rectifiers, triangles
from seatrial.store.settings import Settings
from tests.models.builders import CPU, manifest
from tests.models.exportable import KINDS, SHAPE, export, made
from workers.attacks.regions import Norm
from workers.attacks.swings import half_swings, swinging_functions
from workers.models.loading import load_image_classifier

IMAGE = 0.3 + 0.4 * torch.rand(SHAPE, generator=torch.Generator().manual_seed(1))
RADII: dict[Norm, float] = {"linf": 0.1, "l2": 1.0}


def find(model: Callable[[Tensor], Tensor], norm: Norm = "linf", epsilon: float | None = None) -> list[str]:
    return swinging_functions(
        model, IMAGE, norm, epsilon or RADII[norm], (0.0, 1.0), batch_size=8, check_cancelled=lambda: None
    )


COMBS: dict[str, Comb] = {"cos": cosines, "remainder": triangles, "sum": rectifiers}
"""By what in them swings."""


def combed(name: str) -> Combed:
    """Return a network whose logits are turned round where four numbers are on a tooth of their combs at once."""
    network, patterns = made("plain"), apart(signs(3, SHAPE), 4)
    turned = nn.Sequential(network, Turned())
    return Combed(turned, network, patterns, RADII["linf"], COMBS[name], lambda teeth: teeth.prod(1)).eval()


class Turned(nn.Module):
    def forward(self, logits: Tensor) -> Tensor:
        return logits.flip(1)


@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("name", COMBS)
def test_a_comb_is_found_by_name(name: str, norm: Norm) -> None:
    assert name in find(combed(name), norm)


def test_within_a_radius_of_a_tooth_nothing_swings() -> None:
    assert find(combed("cos"), epsilon=0.002) == []


@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_network_swings(kind: str, norm: Norm) -> None:
    assert find(made(kind), norm) == []


@pytest.mark.parametrize("batch", [None, 3, *(pytest.param(batch, marks=pytest.mark.drill) for batch in (1, 16))])
def test_a_program_is_looked_at_whatever_batch_it_takes(tmp_path: Path, batch: int | None) -> None:
    described = manifest(
        {"kind": "exported"}, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=list("abcd")
    )
    for module, swings in ((made("plain"), False), (combed("sum").requires_grad_(False), True)):
        path = export(module, tmp_path / f"{swings}.pt2", batch=batch)
        model = load_image_classifier(described, path, "archive", CPU, limits=Settings()).logits
        assert bool(find(model)) == swings


@given(st.lists(st.integers(0, 8), min_size=2, max_size=40))
def test_half_swings_are_those_counted_one_by_one(numbers: list[int]) -> None:
    low, high = min(numbers), max(numbers)
    ends = [
        "low" if at - low <= (high - low) / 4 else "high"
        for at in numbers
        if abs(2 * (at - low) - (high - low)) * 2 >= high - low
    ]
    expected = sum(one != other for one, other in itertools.pairwise(ends)) if high > low else 0
    assert half_swings(torch.tensor(numbers, dtype=torch.float64)[:, None]).tolist() == [expected]


def test_what_is_rounded_off_is_no_swing() -> None:
    noise = 1 + 1e-7 * torch.tensor([0.0, 1.0] * 10)
    assert half_swings(noise[:, None]).tolist() == [0]
    assert half_swings(torch.stack([1e-9 * (noise - 1), noise], 1)).tolist() == [0, 0]
