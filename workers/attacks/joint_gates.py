"""Places in a network that decide, each by itself, and together hardly do.

What is added to a number of a gate, and taken off behind it, hides that the gate hardly matters: exchanged between
images, what is added no longer is what is taken off. Exchanged together both cancel, whatever they are. So do their
first-order effects on the answer, of which all sums can be looked at without another pass.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from workers.attacks.altered_passes import Calls, Place, numbers_of, together
from workers.attacks.gradients import Model
from workers.attacks.idle import Followed, Number
from workers.attacks.tried import directions

PROBES = 4
"""Sums of the logits, of random signs, by which effects are told apart."""

MOST = 3
"""Places that are looked at together, at most."""

SMALL, SMALLER = 0.75, 0.25
"""Length of the sum of two effects from which on they do not cancel, in lengths of the longest; and of three."""

SAME = 1e-3
"""Distance up to which effects are the same, in lengths of one, as of what is only reshaped in between."""

UNITS, QUIETER = 1024, 0.02
"""Numbers of an image up to which those of them that hardly turn the answer are a place, too; and how much less than
the one that does most: in one tensor there may be a gate and the answer."""

LOOKED = 160
"""Effects that are looked at, at most, the last of a network: nearest to its answer."""


@dataclass(frozen=True, eq=False)
class Effect:
    """What a place does to the answer where images exchange the numbers there, to first order.

    Attributes:
        place: It.
        change: (images times probes,) on the CPU: by how much logit vectors of length 1 move, along some directions.
        turn: By how much they turn, root mean square: a gate may make an answer longer for some images than for others.
        origins: Tensors that its numbers are computed of, itself among them.
        numbers: Of each image (images, k).
    """

    place: Place
    change: Tensor
    turn: float
    origins: frozenset[Number]
    numbers: Tensor


def effects(model: Model, images: Tensor, widest: int) -> list[Effect]:
    """Return the effects of all places of a network, in order: of its tensors, and of those given to several functions.

    Args:
        model: Differentiable.
        images: (n, ...), a few.
        widest: Numbers of an image that a place has, at most.
    """
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), _Used(followed) as watch:
        logits = model(followed)
    asked = [
        (place, tensor, rows, before)
        for place, tensor, rows, before in watch.places()
        if tensor.requires_grad and _width(tensor, rows) in range(1, widest + 1)
    ]
    if not asked or not logits.requires_grad:
        return []
    probes, gradients = _probed(logits, [one[1] for one in asked])
    changes, numbers = defaultdict[Place, list[Tensor]](list), defaultdict[Place, list[Tensor]](list)
    bits = defaultdict[Place, int](int)
    for (place, tensor, rows, before), found in zip(asked, gradients, strict=True):
        own, of = numbers_of(tensor.detach(), rows), [numbers_of(one, rows) for one in found]
        # What is only asked how large it is leads nowhere.
        if own is None or len(of) < len(probes):
            continue
        each = [(one * (own.roll(1, 0) - own)).double().nan_to_num(nan=0.0) for one in of if one is not None]
        changes[place].append(torch.stack(each))
        numbers[place].append(own)
        bits[place] |= before
    effects_of = list[Effect]()
    for place, parts in changes.items():
        own = together([(one, len(one)) for one in numbers[place]])
        change = torch.cat(parts, 1) if own is not None else parts[0]
        if own is not None and change.shape[1] == len(images):
            effects_of += _effects_at(place, own, change, probes, watch.numbers_in(bits[place]))
    return effects_of


def _probed(logits: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, list[list[Tensor]]]:
    """Return directions (1 + PROBES, images, classes) of logits, and of each tensor the gradients of moves along them.

    The first is along the answer itself, where it only becomes longer; the others are random signs.

    Args:
        logits: (images, classes), with gradients.
        tensors: That they are computed of; one that no direction leads to has no gradients.
    """
    moved = (logits - logits.mean(1, keepdim=True)).double()
    clean, generator = moved.detach(), torch.Generator().manual_seed(0)
    signs = torch.where(torch.rand(PROBES, logits.shape[1], generator=generator) < 0.5, -1.0, 1.0).to(clean)
    probes = torch.stack([directions(clean), *(sign.expand_as(clean) for sign in signs)])
    totals = [(moved * probe / clean.norm(dim=1, keepdim=True)).nan_to_num(nan=0.0).sum() for probe in probes]
    along = [torch.autograd.grad(total, tensors, allow_unused=True, retain_graph=True) for total in totals]
    return probes, [[one for one in found if one is not None] for found in zip(*along, strict=True)]


def _effects_at(
    place: Place, own: Tensor, change: Tensor, probes: Tensor, origins: frozenset[Number]
) -> Iterator[Effect]:
    """Yield the effect of a place, and of those of its units that hardly turn the answer.

    Args:
        place: It.
        own: Numbers (images, k) there.
        change: (1 + PROBES, images, k) what exchanging each does along the probes.
        probes: (1 + PROBES, images, classes) the first along the answer.
        origins: Tensors that the numbers are computed of.
    """
    # What an exchange does along the answer makes it longer, and does not turn it.
    ahead = (probes[1:] * probes[0]).sum(2)
    across = change[1:] - ahead.unsqueeze(2) * change[0]

    def effect(place: Place, own: Tensor, change: Tensor, across: Tensor) -> Effect:
        turn = float(across.sum(2).square().mean().sqrt())
        return Effect(place, change[1:].sum(2).T.flatten().cpu(), turn, origins, own)

    yield effect(place, own, change, across)
    if place.given is None and own.shape[1] <= UNITS and (units := _quiet(across, own)):
        which = torch.tensor(units, device=own.device)
        part = Place(place.number, units=tuple(units))
        yield effect(part, own[:, which], change[:, :, which], across[:, :, which])


def _quiet(across: Tensor, numbers: Tensor) -> list[int]:
    """Return which units of a tensor hardly turn the answer, and differ between images; none where all do.

    Args:
        across: (probes, images, units) by how much.
        numbers: (images, units).
    """
    turns = across.square().mean((0, 1)).sqrt()
    differs = (numbers - numbers[:1]).abs().amax(0) > 0
    quiet = differs & (turns <= QUIETER * turns.amax())
    return quiet.nonzero().flatten().tolist() if bool((differs & ~quiet).any()) else []


def cancelling(found: Sequence[Effect], most: int) -> list[tuple[Effect, ...]]:
    """Return those of some effects whose sum is next to nothing beside each of them, first the least.

    Of effects that are the same the last is taken, nearest to the answer.

    Args:
        found: In order.
        most: Such sums that are returned, at most.
    """
    left = _different([one for one in reversed(found) if 0 < one.change.norm() < torch.inf][: 4 * LOOKED])[:LOOKED]
    if len(left) < 2:
        return []
    changes = torch.stack([effect.change for effect in left])
    lengths, inner = changes.norm(dim=1), changes @ changes.T
    sums = list[tuple[float, tuple[int, ...]]]()
    for size, small in zip(range(2, MOST + 1), (SMALL, SMALLER), strict=True):
        which = torch.combinations(torch.arange(len(left)), size)
        if not len(which):
            continue
        squared = sum(inner[which[:, first], which[:, second]] for first in range(size) for second in range(size))
        ratios = torch.as_tensor(squared).clamp_min(0).sqrt() / lengths[which].amax(1)
        near = (ratios < small).nonzero().flatten()
        sums += [(float(ratios[at]), tuple(which[at].tolist())) for at in near[ratios[near].argsort()[:most]]]
    sums.sort()
    kept = list[tuple[float, tuple[int, ...]]]()
    for ratio_of, which_of in sums:
        # What cancels already does with anything beside it.
        if not any(ratio < SMALLER and set(smaller) < set(which_of) for ratio, smaller in kept):
            kept.append((ratio_of, which_of))
    return [tuple(left[at] for at in one) for _, one in kept[:most]]


def _different(found: Sequence[Effect]) -> list[Effect]:
    """Return effects without those that are the same as one before."""
    if not found:
        return []
    changes = torch.stack([effect.change for effect in found])
    lengths = changes.norm(dim=1)
    apart = torch.cdist(changes, changes, compute_mode="donot_use_mm_for_euclid_dist")
    same = (apart <= SAME * lengths).triu(1).any(0)
    return [effect for effect, is_same in zip(found, same.tolist(), strict=True) if not is_same]


def _width(tensor: Tensor, rows: int) -> int:
    """Return how many numbers of an image a tensor has, 0 where it has none of images."""
    numbers = numbers_of(tensor.detach(), rows)
    return 0 if numbers is None or numbers.shape[0] != rows else numbers.shape[1]


class _Use(NamedTuple):
    """A tensor that a function is given: where, which one, what shows its numbers, images, and results before."""

    place: Place
    tensor: Tensor
    shown: Tensor
    rows: int
    after: int


class _Used(Followed, Calls):
    """Keeps also what each function is given, by a tensor of its own, so that a gradient tells one use from others."""

    def __init__(self, images: Tensor) -> None:
        super().__init__(images)
        self._uses = list[_Use]()

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the same, tensors that the images lead to by others that show the same numbers."""
        number, rows = self.numbered_call()
        if _is_in_place(function):
            return args, kwargs
        leaves, spec = tree_flatten((tuple(args), dict(kwargs)))
        tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        for which, at in enumerate(tensors):
            tensor = leaves[at]
            origins = self.origins(tensor)
            if origins and tensor.requires_grad and tensor.layout == torch.strided:
                leaves[at] = shown = tensor.view_as(tensor)
                self._origins[id(shown)] = origins
                self._uses.append(_Use(Place(number, which), tensor, shown, rows, len(self.results)))
        changed: tuple[Sequence[Any], Mapping[str, Any]] = tree_unflatten(leaves, spec)
        return changed

    def places(self) -> list[tuple[Place, Tensor, int, int]]:
        """Return the tensors by place, each with the images that it is of and what it depends on, in order."""
        uses = Counter(id(use.tensor) for use in self._uses)
        found = [
            (after, (Place(one.number), one.tensor, one.rows, self.origins(one.tensor)))
            for after, one in enumerate(self.results)
        ]
        # Before what the function returns, which is the next.
        shared = [
            (use.after - 0.5, (use.place, use.shown, use.rows, self.origins(use.shown)))
            for use in self._uses
            if uses[id(use.tensor)] > 1
        ]
        return [place for _, place in sorted([*found, *shared], key=lambda one: one[0])]

    def numbers_in(self, origins: int) -> frozenset[Number]:
        """Return which tensors some bits stand for."""
        return frozenset(one.number for bit, one in enumerate(self.results, 1) if origins >> bit & 1)


def _is_in_place(function: Callable[..., Any]) -> bool:
    """Return whether a function writes into what it is given."""
    name = str(getattr(function, "__name__", "")).split(".")[0]
    plain = name.strip("_")
    return (name.endswith("_") and not name.endswith("__")) or plain in IN_PLACE


IN_PLACE = {
    "setitem",
    *(f"i{name}" for name in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")),
}
"""Functions that write into what they are given, whose names do not say so by an underscore."""
