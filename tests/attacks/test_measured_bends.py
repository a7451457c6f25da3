"""Where what is computed of single numbers bends: found in tables and remainders, and nowhere else."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workers.attacks.kinks import kinks_of
from workers.attacks.measured_bends import POINTS, thresholds_of
from workers.models.memory import is_out_of_memory

UNITS = 24
PLACES = 60
WEIGHTS = torch.randn(8, UNITS, generator=torch.Generator().manual_seed(1))
TEETH = torch.randint(15, 45, (UNITS,), generator=torch.Generator().manual_seed(2))
TABLE = torch.nn.functional.one_hot(TEETH, PLACES).float()
IMAGES = torch.rand(8, 8, generator=torch.Generator().manual_seed(3))


def positions(images: Tensor) -> Tensor:
    return 30 + 8 * ((images - 0.5) @ WEIGHTS)


def looked_up(images: Tensor) -> Tensor:
    at = positions(images).clamp(0, PLACES - 2)
    row = at.floor()
    table = TABLE.expand(len(images), -1, -1)
    ends = [table.gather(2, (row.long() + beside)[..., None])[..., 0] for beside in (0, 1)]
    return torch.lerp(ends[0], ends[1], at - row)


def remainders(images: Tensor) -> Tensor:
    return torch.remainder(positions(images) - TEETH, 1000.0)


def answered(hidden: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def network(images: Tensor) -> Tensor:
        score = hidden(images).mean(1)
        return torch.stack([score, 1 - score], 1)

    return network


@pytest.mark.parametrize("hidden", [looked_up, remainders])
def test_it_is_where_the_curve_of_each_number_has_its_sharpest_bend(hidden: Callable[[Tensor], Tensor]) -> None:
    network = answered(hidden)
    kink, found = next(iter(thresholds_of(network, IMAGES, 1000, lambda: None).items()))
    given = kinks_of(network, IMAGES, 1000, [kink])[1][kink]
    assert given.requires_grad
    given = given.detach()
    # What the call is given less the tooth is a shift of the position less the tooth.
    shift = (given - positions(IMAGES)).mean(0)
    step = 2 * (given.amax(0) - given.amin(0)) / POINTS
    is_within = (TEETH + shift > given.amin(0)) & (TEETH + shift < given.amax(0))
    assert int(is_within.sum()) >= 8
    far = ((found - (TEETH + shift)).abs() / step)[is_within]
    assert float(far.nan_to_num(nan=1e9).median()) <= 1.5


def whole(images: Tensor) -> Tensor:
    hidden = positions(images)
    gate = torch.sigmoid(hidden.mean(1, keepdim=True))
    return torch.nn.functional.layer_norm((hidden * gate).relu(), (UNITS,))


def shared(images: Tensor) -> Tensor:
    hidden = positions(images)
    # Each number depends on all others.
    return hidden / hidden.std(1, keepdim=True)


def smooth(images: Tensor) -> Tensor:
    hidden = positions(images)
    return hidden * hidden


@pytest.mark.parametrize("hidden", [whole, shared, smooth])
def test_it_is_nowhere_of_known_calls_nor_of_what_is_smooth_or_depends_on_others(
    hidden: Callable[[Tensor], Tensor],
) -> None:
    assert not thresholds_of(answered(hidden), IMAGES, 1000, lambda: None)


def test_a_table_is_not_read_beyond_its_end() -> None:
    def narrow(images: Tensor) -> Tensor:
        row = positions(images).clamp(28, 32).floor().long() - 28
        return torch.arange(5.0).index_select(0, row.flatten()).view_as(row) + 0 * positions(images)

    assert isinstance(thresholds_of(answered(narrow), IMAGES, 1000, lambda: None), dict)


@pytest.mark.parametrize(("error", "is_raised"), [(IndexError("no row"), False), (MemoryError(), True)])
def test_a_network_that_takes_no_other_numbers_is_left_alone(error: Exception, is_raised: bool) -> None:
    def fragile(images: Tensor) -> Tensor:
        hidden = positions(images).frac()
        if len(images) != len(IMAGES):
            raise error
        return hidden

    assert is_out_of_memory(error) == is_raised
    if is_raised:
        with pytest.raises(MemoryError):
            thresholds_of(answered(fragile), IMAGES, 1000, lambda: None)
    else:
        assert not thresholds_of(answered(fragile), IMAGES, 1000, lambda: None)
