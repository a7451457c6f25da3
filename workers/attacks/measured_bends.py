"""Where what a network computes of each of some numbers by itself bends, seen by giving it others.

Which functions bend at which number is known of most (:mod:`workers.attacks.bends`), but one can be put together of
many that do not: a table that is looked up, a quotient, what a remainder leaves. Of a call that is not known, and
that is not linear in what it is given, the numbers it is given are moved from one end of where they lie to the other,
all at once, and what depends on each alone is watched.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from workers.attacks.altered_passes import Calls, in_place_of, numbers_of
from workers.attacks.bends import is_known
from workers.attacks.gradients import Model
from workers.attacks.idle import Number, Numbered
from workers.attacks.inner_scores import images_axis
from workers.attacks.kinks import UNITS, Kink, some_of
from workers.attacks.switching import function_name
from workers.models.memory import is_out_of_memory

POINTS, TOGETHER = 192, 32
"""Values that each number is moved to, over twice as far as it lies apart of images, and how many at once: a band is
some hundredths of a standard deviation wide."""

SOURCES, LATER = 16, 12
"""Tensors of which it is looked where what is computed of them bends, at most, and how many of what comes after."""

SHARP = 16.0
"""How many times as much a number bends at one point as at all on average, from which on it does there alone."""

OFF = 1e-3
"""Share of the difference of two results from which on what lies between is not between them."""


@dataclass(frozen=True)
class _Source:
    """A tensor that an unknown call is given.

    Attributes:
        kink: The call, and which of its tensors it is.
        number: Of the tensor.
        numbers: What is in it, (n, k).
    """

    kink: Kink
    number: Number
    numbers: Tensor


def thresholds_of(
    model: Model, images: Tensor, most: int, check_cancelled: Callable[[], None]
) -> Mapping[Kink, Tensor]:
    """Return where what is computed of each number bends that an unknown call is given: (k,), NaN where nowhere.

    Args:
        model: Differentiable.
        images: (n, ...), by which it is known where numbers lie.
        most: Numbers of an image, of more of which some from everywhere among them are looked at.
        check_cancelled: Called before every forward pass; may raise.
    """
    check_cancelled()
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), _Sources(len(images), most) as watch:
        model(followed)
    found = dict[Kink, Tensor]()
    for source in watch.found[:SOURCES]:
        try:
            thresholds = _thresholds(model, images[:1], source, most, check_cancelled)
        except (RuntimeError, IndexError) as error:
            if is_out_of_memory(error):
                raise
            # Not every number may be another one, as where a row is looked up.
            continue
        if bool(thresholds.isfinite().any()):
            found[source.kink] = thresholds
    return found


class _Sources(Calls):
    """Finds what calls are given that are not known, and not linear in it."""

    def __init__(self, rows: int, most: int) -> None:
        super().__init__(rows)
        self._most = most
        self.found: list[_Source] = []
        # What is kept keeps its id.
        self._numbers, self._kept = dict[int, Number](), list[Tensor]()

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, as it is."""
        number, rows = self.numbered_call()
        if len(self.found) >= SOURCES or is_known(function_name(function)):
            return args, kwargs
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for which, tensor in enumerate(tensors):
            known = any(source.number == self._numbers.get(id(tensor)) for source in self.found)
            if id(tensor) not in self._numbers or known or (numbers := numbers_of(tensor, rows)) is None:
                continue
            if numbers.shape[1] < UNITS:
                continue

            def call(
                moved: Tensor, leaves: Sequence[Any] = leaves, spec: Any = spec, replaced: Tensor = tensor
            ) -> list[Tensor]:
                copies = [
                    moved.clone() if leaf is replaced else leaf.detach().clone() if isinstance(leaf, Tensor) else leaf
                    for leaf in leaves
                ]
                positional, named = tree_unflatten(copies, spec)
                return [one for one in tree_leaves(function(*positional, **named)) if isinstance(one, Tensor)]

            if tensor.requires_grad and not _is_linear(call, tensor.detach(), rows):
                some = some_of(numbers.detach(), self._most).clone()
                self.found.append(_Source(Kink(number, which), self._numbers[id(tensor)], some))
        return args, kwargs

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found."""
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._numbers[id(tensor)] = self.numbered()[0]
                self._kept.append(tensor)
        return found


def _is_linear(call: Callable[[Tensor], list[Tensor]], tensor: Tensor, rows: int) -> bool:
    """Return whether halfway between what two images have is what lies between what comes of each."""
    following = tensor.roll(1, images_axis(tensor, rows))
    try:
        with torch.no_grad():
            ends = call(tensor), call(following)
            between = call((tensor + following) / 2)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        # Whatever cannot be called so is left alone.
        return True
    for first, second, middle in zip(*ends, between, strict=False):
        if not first.shape == second.shape == middle.shape:
            return False
        if first.is_complex():
            continue
        one, other, half = (of.double() for of in (first, second, middle))
        least = OFF * float((one - other).abs().nan_to_num().amax()) if one.numel() else 0.0
        if one.numel() and float((half - (one + other) / 2).abs().nan_to_num().amax()) > least:
            return False
    return True


class _Moved(Numbered):
    """Puts numbers in place of a tensor's, and keeps what has as many after it."""

    def __init__(self, number: Number, values: Tensor, most: int) -> None:
        super().__init__(len(values))
        self._number, self._values, self._width, self._most = number, values, 0, most
        self.later: list[Tensor] | None = None

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, the one tensor changed."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        if rows != len(self._values):
            return tensor
        if number == self._number:
            self.later = []
            return self._put(tensor, rows)
        if self.later is not None and len(self.later) < LATER and tensor.dtype != torch.bool:
            of_images = numbers_of(tensor if tensor.is_floating_point() else tensor.double(), rows)
            if of_images is not None and of_images.shape[1] == self._width:
                self.later.append(some_of(of_images.detach(), self._most).double())
        return tensor

    def _put(self, tensor: Tensor, rows: int) -> Tensor:
        numbers = numbers_of(tensor, rows)
        if numbers is None or some_of(numbers, self._most).shape != self._values.shape:
            return tensor
        self._width, moved = numbers.shape[1], numbers.clone()
        some_of(moved, self._most).copy_(self._values)
        return in_place_of(tensor, moved, rows)


def _thresholds(model: Model, image: Tensor, source: _Source, most: int, check_cancelled: Callable[[], None]) -> Tensor:
    """Return where what is computed of each number of a tensor bends: (k,), NaN where nowhere."""
    seen = source.numbers.double()
    apart = seen.amax(0) - seen.amin(0)
    # No farther than any of them is: beyond, there may be no row of a table.
    least = (seen.amin(0) - apart / 2).clamp_min(float(seen.min()))
    greatest = (seen.amax(0) + apart / 2).clamp_max(float(seen.max()))
    shares = torch.linspace(0, 1, POINTS, dtype=torch.float64, device=apart.device)
    values = least + shares[:, None] * (greatest - least)
    bends = [_sharpest_bend(curve) for curve in _curves(model, image, source, values, most, check_cancelled)]
    found, sharpest = torch.full_like(apart, torch.nan), torch.zeros_like(apart)
    if not any(bool(share.any()) for _, share, _ in bends):
        return found
    # By themselves: what depends on others too is another number when these are moved otherwise.
    shifts = torch.randint(POINTS, apart.shape, generator=torch.Generator().manual_seed(0)).to(apart.device)
    order = (torch.arange(POINTS, device=apart.device)[:, None] + shifts) % POINTS
    shifted = _curves(model, image, source, values.gather(0, order), most, check_cancelled)
    for (curve, share, at), other in zip(bends, shifted, strict=False):
        ranges = curve.amax(0) - curve.amin(0)
        is_own = ((other - curve.gather(0, order)).abs() <= OFF * ranges).all(0)
        own = torch.where(is_own, share, 0.0)
        found = torch.where(own > sharpest, values.gather(0, at[None])[0], found)
        sharpest = torch.maximum(own, sharpest)
    return found


def _sharpest_bend(curve: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return curves (points, k), by what share of its range each bends at one point (k,), 0 if nowhere, and which."""
    ranges, bent = curve.amax(0) - curve.amin(0), curve.diff(n=2, dim=0).abs()
    greatest, at = bent.max(0)
    is_sharp = (greatest >= SHARP * bent.mean(0)) & (ranges > 0) & ranges.isfinite()
    return curve, torch.where(is_sharp, greatest / ranges, 0.0), at + 1


def _curves(
    model: Model, image: Tensor, source: _Source, values: Tensor, most: int, check_cancelled: Callable[[], None]
) -> Iterator[Tensor]:
    """Yield what comes after a tensor and has as many numbers, (points, k), where it has some values (points, k)."""
    parts = list[list[Tensor]]()
    for some in torch.split(values, TOGETHER):
        check_cancelled()
        # With gradients, as when the tensors were numbered: some networks take other ways without.
        images = image.detach().expand(len(some), *image.shape[1:]).requires_grad_(True)
        with torch.enable_grad(), _Moved(source.number, some, most) as moved:
            model(images)
        parts.append(moved.later or [])
    for of in zip(*parts, strict=False):
        yield torch.cat(of)
