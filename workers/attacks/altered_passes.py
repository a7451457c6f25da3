"""Forward passes in which some of the numbers that a network computes are others."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from workers.attacks.gradients import Model
from workers.attacks.idle import Number, Numbered
from workers.attacks.inner_scores import images_axis


@dataclass(frozen=True)
class Place:
    """Where numbers of the images are: in a tensor, or where a function is given one.

    Attributes:
        number: Of the tensor, or of the call.
        given: Which of the tensors that the call is given; None: a tensor, whoever is given it.
        units: Of the tensor, which of an image's numbers; None: all of them.
    """

    number: Number
    given: int | None = None
    units: tuple[int, ...] | None = None


Numbers = Mapping[Place, Sequence[tuple[Tensor, int]]]
"""At each place, what is there in one pass after the other of a program, and how many images that is of."""

Cut = Mapping[Number, Tensor | None]
"""Tensors by number, and what each is moved to: (numbers of an image,), or None for the mean of an image's own."""


class Calls(Numbered):
    """Counts calls too: the same is the same number in every pass."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._calls = Counter[int | None]()

    def numbered_call(self) -> tuple[Number, int]:
        """Return the number of the call that comes next, and of how many images the pass is."""
        return self._next(self._calls)


class _Altered(Calls):
    """Moves the tensors of a cut, keeps what is at some places, and puts something else there; gradients lead on.

    Attributes:
        kept: What was found there.
    """

    def __init__(self, rows: int, cut: Cut, share: float, asked: Collection[Place], put: Numbers) -> None:
        super().__init__(rows)
        self._cut, self._share, self._left = cut, share, {place: list(found) for place, found in put.items()}
        self.kept = {place: list[tuple[Tensor, int]]() for place in asked}
        self._opened = {place.number for place in (*asked, *put) if place.given is not None}
        self._parts = defaultdict[Number, dict[Place, None]](dict)
        for place in (*asked, *put):
            if place.units is not None:
                self._parts[place.number][place] = None

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, some of it changed."""
        number, rows = self.numbered_call()
        if number not in self._opened:
            return args, kwargs
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for which, at in enumerate(tensors):
            leaves[at] = self._passed(Place(number, which), leaves[at], rows)
        changed: tuple[Sequence[Any], Mapping[str, Any]] = tree_unflatten(leaves, spec)
        return changed

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, some of it changed."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        tensor = self._passed(Place(number), self._moved(number, tensor, rows), rows)
        for part in self._parts.get(number, ()):
            tensor = self._part_passed(part, tensor, rows)
        return tensor

    def _passed(self, place: Place, tensor: Tensor, rows: int) -> Tensor:
        """Return what stands at a place, which is kept if asked for."""
        if place in self.kept:
            # Copies, as either may be written into.
            self.kept[place].append((tensor.clone(), rows))
        left = self._left.get(place)
        return left.pop(0)[0].clone() if left and left[0][0].shape == tensor.shape else tensor

    def _part_passed(self, part: Place, tensor: Tensor, rows: int) -> Tensor:
        """Return a tensor some of whose units stand at a place."""
        if (numbers := numbers_of(tensor, rows)) is None or part.units is None or max(part.units) >= numbers.shape[1]:
            return tensor
        units = torch.tensor(part.units, device=tensor.device)
        own = numbers[:, units]
        passed = self._passed(part, own, rows)
        return tensor if passed is own else in_place_of(tensor, numbers.index_copy(1, units, passed), rows)

    def _moved(self, number: Number, tensor: Tensor, rows: int) -> Tensor:
        if number not in self._cut or (numbers := numbers_of(tensor, rows)) is None:
            return tensor
        silent = self._cut[number]
        if silent is None:
            silent = numbers.mean(1, keepdim=True)
        elif len(silent) != numbers.shape[1]:
            return tensor
        return in_place_of(tensor, silent.to(numbers) + (numbers - silent.to(numbers)) * self._share, rows)


def found_at(model: Model, images: Tensor, places: Collection[Place], cut: Cut, share: float) -> Numbers:
    """Return what is at some places where the tensors of a cut are nearer to saying nothing.

    Args:
        model: Images to logits.
        images: (n, ...).
        places: Of the network.
        cut: Tensors that are moved.
        share: Of how far each is from where it is moved to which is left.
    """
    return _answered(model, images, places, cut, share)[1]


def with_kept(model: Model, images: Tensor, places: Collection[Place]) -> tuple[Tensor, Numbers]:
    """Return the logits of images, and what is at some places; gradients lead on to both."""
    return _answered(model, images, places, {}, 1.0)


def _answered(
    model: Model, images: Tensor, places: Collection[Place], cut: Cut, share: float
) -> tuple[Tensor, Numbers]:
    altered = _Altered(len(images), cut, share, places, {})
    with altered:
        logits = model(images)
    return logits, altered.kept


def with_put(model: Model, images: Tensor, put: Numbers) -> Tensor:
    """Return the logits of images where something else is at some places."""
    with _Altered(len(images), {}, 1.0, (), put):
        return model(images)


def rolled(numbers: Numbers) -> Numbers:
    """Return what every image has at some places, given to the next one."""
    return {
        place: [(tensor.roll(1, images_axis(tensor, rows)), rows) for tensor, rows in found]
        for place, found in numbers.items()
    }


def of_one(numbers: Numbers, which: int, rows: int) -> Numbers | None:
    """Return what one image has at some places, given to as many images as there are; None where none has it alone.

    Args:
        numbers: Of one pass.
        which: Of its images.
        rows: Images.
    """
    found = dict[Place, Sequence[tuple[Tensor, int]]]()
    for place, of in numbers.items():
        if (
            len(of) != 1
            or numbers_of(*of[0]) is None
            or (tensor := of[0][0]).shape[axis := images_axis(*of[0])] != of[0][1]
        ):
            return None
        own = tensor.narrow(axis, which, 1)
        found[place] = [(own.expand(*(rows if at == axis else size for at, size in enumerate(own.shape))), rows)]
    return found


def numbers_of(tensor: Tensor, rows: int) -> Tensor | None:
    """Return the numbers of each image (rows, ...) in a tensor; None where it has none of images."""
    if not tensor.is_floating_point() or tensor.dim() == 0 or tensor.numel() == 0 or tensor.numel() % rows:
        return None
    return tensor.movedim(images_axis(tensor, rows), 0).reshape(rows, -1)


def in_place_of(tensor: Tensor, numbers: Tensor, rows: int) -> Tensor:
    """Return numbers of each image (rows, ...) as they lie in a tensor that had others."""
    axis = images_axis(tensor, rows)
    return numbers.reshape(tensor.movedim(axis, 0).shape).movedim(0, axis)


def together(found: Sequence[tuple[Tensor, int]]) -> Tensor | None:
    """Return the numbers of each image (images, ...) of one pass after the other; None where one has none."""
    numbers = [numbers_of(tensor, rows) for tensor, rows in found]
    parts = [part for part in numbers if part is not None]
    widths = {part.shape[1] for part in parts}
    return torch.cat(parts) if parts and len(parts) == len(numbers) and len(widths) == 1 else None
