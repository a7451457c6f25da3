"""Units of a network that no clean image switches, and changes of an image that do.

A network can carry another one that a trigger lets out. What waits for the trigger is dormant on clean images (Liu,
Dolan-Gavitt and Garg 2018, "Fine-Pruning: Defending Against Backdooring Attacks on Deep Neural Networks", section III),
and adds nothing to the gradient of the logits. The gradient of what goes into the unit leads to the trigger all the
same, and whoever has the weights can follow it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from workers.attacks.gradients import Model
from workers.attacks.losses import entropy
from workers.attacks.regions import Norm, make_region
from workers.models import Box
from workers.models.memory import forward

NARROW = 4
"""Units that a place may have and be one that decides rather than computes: a comparison of what images add up to has
one."""

BEYOND = 0.5
"""How far beyond where it switches a unit is pushed, in shares of the distance from there."""

RECTIFIERS = {
    "relu",
    "relu6",
    "leaky_relu",
    "prelu",
    "prelu_kernel",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "threshold",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "sigmoid",
    "logsigmoid",
    "log_sigmoid",
    "hardshrink",
    "softshrink",
    "tanh",
    "exp",
    "expm1",
    "erf",
    "abs",
    "sign",
}
"""Functions of one tensor that answer otherwise on either side of 0."""

COMPARISONS = {"gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "maximum", "minimum", "fmax"}
"""Functions of two that answer otherwise on either side of where these are equal."""

CLIPPING = {"clamp": 1, "clip": 1, "clamp_min": 1, "clamp_max": 1}
"""Functions of a tensor and of the values it is cut off at, by the place of the first of these."""

STRAIGHT = {"round", "floor", "ceil", "trunc", "fix", "detach"}
"""Functions that are looked through: in a backward pass they are taken for no change, as Athalye et al. 2018 do
("Obfuscated Gradients Give a False Sense of Security", section 4.1)."""


@dataclass(frozen=True)
class Unit:
    """One input of a function that switches.

    Attributes:
        place: Which call of such a function in a forward pass, counted from 0.
        channel: Which of its channels; of a transformer's tokens, which of their features.
        sign: 1 where the input has to rise to switch it, -1 where it has to fall.
    """

    place: int
    channel: int
    sign: int


@dataclass(frozen=True)
class Inputs:
    """What goes into the units of one place: the greatest and the least of each channel, (n, channels)."""

    greatest: Tensor
    least: Tensor

    def towards(self, rows: Tensor, channels: Tensor, signs: Tensor) -> Tensor:
        """Return what goes into a channel of each of some rows (k,), above 0 where it is switched."""
        return torch.where(signs > 0, self.greatest[rows, channels], -self.least[rows, channels])


Group = tuple[Unit, ...]
"""Units to be switched together."""


class _Watch(TorchFunctionMode):
    """Keeps what goes into functions that switch, where it depends on the images, and looks through roundings."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Inputs] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        # `relu_`, `Tensor.__gt__` and an operator's `relu.default` are one function each.
        name = getattr(function, "__name__", "").split(".")[0].strip("_")
        for values in _switching(name, args, kwargs):
            # Before the call, which may overwrite it.
            if values.requires_grad and values.dim() > 0:
                self.seen.append(_by_channel(values))
        found = function(*args, **kwargs)
        if name in STRAIGHT and isinstance(args[0], Tensor) and args[0].requires_grad:
            return found.detach() + (args[0] - args[0].detach())
        return found


def _switching(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[Tensor]:
    """Yield what a call switches at 0."""
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return
    if name in RECTIFIERS:
        yield given
    elif name in COMPARISONS or (name in ("max", "min") and len(args) > 1 and isinstance(args[1], Tensor)):
        other = args[1] if len(args) > 1 else kwargs.get("other")
        if isinstance(other, int | float | Tensor):
            yield given - other
    elif name in CLIPPING:
        ends = [*args[1:3], *(kwargs[end] for end in ("min", "max") if end in kwargs)]
        for end in ends:
            if isinstance(end, int | float | Tensor):
                yield given - end


def _by_channel(values: Tensor) -> Inputs:
    if values.dim() < 3:
        flat = values.view(len(values), -1)
        return Inputs(flat, flat)
    # Tokens have their features last, images their channels first.
    flat = values.movedim(-1, 1).flatten(2) if values.dim() == 3 else values.flatten(2)
    return Inputs(flat.amax(2), flat.amin(2))


def inputs_of(model: Model, images: Tensor) -> list[Inputs | None]:
    """Return what goes into each place of a forward pass that switches; differentiable with respect to ``images``.

    Args:
        model: Differentiable.
        images: (n, ...) that require a gradient.

    Returns:
        By place; None where the rows are no examples. Empty where passes over parts of a batch differ.
    """
    with torch.enable_grad(), _Watch() as watch:
        model(images)
    if not watch.seen:
        return []
    # A program of a fixed batch is run several times, and filled up.
    passes = -(-len(images) // max(1, len(watch.seen[0].greatest)))
    places, rest = divmod(len(watch.seen), passes)
    if rest:
        return []
    found: list[Inputs | None] = []
    for place in range(places):
        parts = watch.seen[place::places]
        if len({part.greatest.shape[1] for part in parts}) > 1 or sum(len(p.greatest) for p in parts) < len(images):
            found.append(None)
            continue
        greatest = torch.cat([part.greatest for part in parts])[: len(images)]
        found.append(Inputs(greatest, torch.cat([part.least for part in parts])[: len(images)]))
    return found


def dormant_units(
    model: Model, images: Tensor, most: int, *, batch_size: int, check_cancelled: Callable[[], None]
) -> list[Unit]:
    """Return the units that none of ``images`` switches, of every place as many as it has and there is room for.

    Args:
        model: Images (n, ...) to logits.
        images: (n, ...).
        most: Units, at most.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    greatest: list[Tensor | None] = []
    least: list[Tensor | None] = []
    for number, part in enumerate(torch.split(images, batch_size)):
        check_cancelled()
        seen = inputs_of(model, part.detach().requires_grad_(True))
        highs = [None if one is None else one.greatest.detach().amax(0) for one in seen]
        lows = [None if one is None else one.least.detach().amin(0) for one in seen]
        if number == 0:
            greatest, least = highs, lows
        if len(seen) != len(greatest):
            return []
        greatest = [_both(old, new, torch.maximum) for old, new in zip(greatest, highs, strict=True)]
        least = [_both(old, new, torch.minimum) for old, new in zip(least, lows, strict=True)]
    by_place = []
    for place, (high, low) in enumerate(zip(greatest, least, strict=True)):
        if high is not None and low is not None:
            rising = [Unit(place, channel, 1) for channel in (high <= 0).nonzero().flatten().tolist()]
            by_place.append(rising + [Unit(place, channel, -1) for channel in (low > 0).nonzero().flatten().tolist()])
    in_turn = [unit for units in zip_longest(*by_place) for unit in units if unit is not None]
    return in_turn[:most]


def _both(old: Tensor | None, new: Tensor | None, choose: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    return None if old is None or new is None or old.shape != new.shape else choose(old, new)


@dataclass(frozen=True)
class Switching:
    """How units are switched.

    Attributes:
        norm: Of the radius.
        epsilon: How far an image may be changed.
        steps: Lengths of the steps along the gradient of what goes into a unit, as shares of the radius.
        box: Least and greatest value an input may have.
        check_cancelled: Called before every step; may raise.
    """

    norm: Norm
    epsilon: float
    steps: Sequence[float]
    box: Box
    check_cancelled: Callable[[], None]

    def run(self, model: Model, images: Tensor, groups: Sequence[Group]) -> Tensor:
        """Return images (n, ...) within the radius, each changed towards where all units of a group switch.

        Args:
            model: Differentiable.
            images: (n, ...).
            groups: One for each image.
        """
        region = make_region(self.norm, images, self.epsilon, self.box)
        by_place: dict[int, list[tuple[int, int, int]]] = {}
        for row, group in enumerate(groups):
            for unit in group:
                by_place.setdefault(unit.place, []).append((row, unit.channel, unit.sign))
        asked = {place: torch.tensor(found, device=images.device).T for place, found in by_place.items()}
        moved, distances = images.detach(), dict[int, Tensor]()
        for share in self.steps:
            self.check_cancelled()
            moved.requires_grad_(True)
            left = []
            for place, inputs in enumerate(inputs_of(model, moved)):
                if inputs is None or place not in asked:
                    continue
                towards = inputs.towards(*asked[place])
                distances.setdefault(place, towards.detach().abs().clamp_min(1e-12))
                # In shares of its own distance, and none that is there already.
                left.append((towards / distances[place]).clamp(max=BEYOND).sum())
            if not left:
                break
            (gradient,) = torch.autograd.grad(torch.stack(left).sum(), moved)
            moved = region.step(moved.detach(), -gradient, share * self.epsilon)
        return moved.detach()

    def most_decisive(
        self, model: Model, images: Tensor, groups: Sequence[Group], most: int, *, batch_size: int
    ) -> list[Group]:
        """Return those of ``groups`` whose switching moves the answer most, the most decisive first.

        How far one moves it is the mean over ``images`` of how much the entropy changes, in shares of log C, and of how
        often the prediction does.

        Args:
            model: Differentiable.
            images: (n, ...) on which they are tried.
            groups: Candidates.
            most: Groups, at most.
            batch_size: Images at once.
        """
        if not groups:
            return []
        clean = forward(model, images)
        entropies, predictions, log_classes = entropy(clean), clean.argmax(1), math.log(clean.shape[1])
        rows = torch.arange(len(images), device=images.device).repeat(len(groups))
        repeated = [group for group in groups for _ in range(len(images))]
        moves = []
        for begin in range(0, len(rows), batch_size):
            at = rows[begin : begin + batch_size]
            logits = forward(model, self.run(model, images[at], repeated[begin : begin + batch_size]))
            changed = (entropy(logits) - entropies[at]).abs() / log_classes
            moves.append(changed + (logits.argmax(1) != predictions[at]))
        by_group = torch.cat(moves).nan_to_num(nan=0.0).view(len(groups), len(images)).mean(1)
        order = by_group.argsort(descending=True, stable=True)[:most].tolist()
        return [groups[at] for at in order if by_group[at] > 0]


def groups_of(units: Sequence[Unit], most: int) -> list[Group]:
    """Return what is tried of units: each by itself, each place's together, those of narrow places, and all of them.

    Args:
        units: Dormant ones.
        most: Groups, at most: units by themselves are left out where there are too many.
    """
    places: dict[int, list[Unit]] = {}
    for unit in units:
        places.setdefault(unit.place, []).append(unit)
    narrow = [unit for found in places.values() if len(found) <= NARROW for unit in found]
    together = [tuple(units), tuple(narrow), *(tuple(found) for found in places.values())]
    together = [group for group in dict.fromkeys(together) if len(group) > 1][:most]
    # Alone first: of those that move the answer as much, the first are kept.
    return [(unit,) for unit in units[: most - len(together)]] + together
