"""What in a network switches at a value, watched in a forward pass: rectifiers, comparisons, winners, bottlenecks.

What decides may be fed by what has no gradient: rounded or whole numbers, truth values, rectifiers that are asleep. A
watched pass carries gradients through all of these, by what Athalye et al. 2018 call a backward pass differentiable
approximation ("Obfuscated Gradients Give a False Sense of Security", section 4.1); its values are the network's own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from workers.attacks.gradients import Model

NARROW = 4
"""Units that a place may have and be one that decides rather than computes: a comparison of what images add up to has
one."""

LEAK = 1e-6
"""Slope that a rectifier is given in a watched pass on top of its own, which may be none: the way to what only wakes
behind one that sleeps. Small enough that lengths reckoned from slopes stay right."""

RECTIFIERS = {
    *("relu", "relu6", "leaky_relu", "prelu", "prelu_kernel", "elu", "selu", "celu", "gelu", "silu", "mish"),
    *("softplus", "threshold", "hardswish", "hardsigmoid", "hardtanh", "sigmoid", "logsigmoid", "log_sigmoid"),
    *("hardshrink", "softshrink", "tanh", "exp", "expm1", "erf", "abs", "sign"),
}
"""Functions of one tensor that answer otherwise on either side of 0."""

EQUALITIES = {"eq", "ne", "equal", "not_equal"}
LESS = {"lt", "le", "less", "less_equal"}
COMPARISONS = {"gt", "ge", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin", *LESS}
"""Functions of two that answer otherwise on either side of where these are equal."""

CLIPPING = {"clamp", "clip", "clamp_min", "clamp_max"}
"""Functions of a tensor and of the values it is cut off at."""

WINNERS = {"argmax", "max", "topk", "sort", "argsort", "softmax", "log_softmax"}
"""Functions of numbers of which one is the largest: each number but this one has to rise to be it."""

STRAIGHT = {"round", "floor", "ceil", "trunc", "fix", "detach"}
"""Functions that are looked through: in a backward pass they are taken for no change."""

CONVERSIONS = {"to", "to_copy", "long", "int", "short", "char", "byte", "bool", "float", "double", "type", "type_as"}
"""Functions that may change a tensor's dtype alone."""

LOGIC: dict[str, Callable[..., Tensor]] = {
    "and": torch.mul,
    "logical_and": torch.mul,
    "bitwise_and": torch.mul,
    "or": torch.maximum,
    "logical_or": torch.maximum,
    "bitwise_or": torch.maximum,
    "invert": lambda one: 1 - one,
    "logical_not": lambda one: 1 - one,
    "bitwise_not": lambda one: 1 - one,
    "any": torch.amax,
    "all": torch.amin,
    "where": lambda asked, one, other: asked * one + (1 - asked) * other,
}
"""What does the same to 0 and 1, and has a gradient."""


@dataclass(frozen=True)
class Inputs:
    """What goes into the units of one place.

    Attributes:
        greatest: (n, channels) greatest of each channel.
        least: (n, channels) least.
        switches: Whether something changes at 0; if not, they are numbers that everything after has to come through.
    """

    greatest: Tensor
    least: Tensor
    switches: bool = True

    @property
    def is_narrow(self) -> bool:
        """Whether they are so few that they decide rather than compute."""
        return self.greatest.shape[1] <= NARROW

    def towards(self, rows: Tensor, channels: Tensor, signs: Tensor) -> Tensor:
        """Return what goes into a channel of each of some rows (k,), above 0 where it is switched."""
        return torch.where(signs > 0, self.greatest[rows, channels], -self.least[rows, channels])


class Watch(TorchFunctionMode):
    """Keeps what goes into functions that switch, where it depends on the images, and gives the rest a gradient.

    Attributes:
        seen: What went into each place so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Inputs] = []
        self._shadows: dict[int, tuple[Tensor, Tensor]] = {}

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
        shadows, shadowed = (tree_map_only(Tensor, self._shadow, part) for part in (list(args), dict(kwargs)))
        # Before the call, which may overwrite it.
        for values in _switching(name, shadows, shadowed):
            if values.requires_grad and values.dim() > 0:
                self.seen.append(_by_channel(values))
        given = args[0] if args else None
        found = function(*args, **kwargs)
        if not isinstance(found, Tensor) or not any(_has_gradient(leaf) for leaf in tree_leaves((shadows, shadowed))):
            return found
        if found.requires_grad:
            found = _leaking(name, given, found)
        elif (shadow := _shadow_of(name, function, shadows, shadowed, found)) is not None:
            if not found.is_floating_point():
                self._shadows[id(found)] = found, shadow
                return found
            found = found + (shadow - shadow.detach()).to(found.dtype)
        if found.requires_grad and _is_bottleneck(found, args):
            flat = found.reshape(len(found), -1)
            self.seen.append(Inputs(flat, flat, switches=False))
        return found

    def _shadow(self, tensor: Tensor) -> Tensor:
        kept = self._shadows.get(id(tensor))
        return tensor if kept is None else kept[1]


def inputs_of(model: Model, images: Tensor) -> list[Inputs | None]:
    """Return what goes into each place of a forward pass that switches; differentiable with respect to ``images``.

    Args:
        model: Differentiable.
        images: (n, ...) that require a gradient.

    Returns:
        By place; None where the rows are no examples. Empty where passes over parts of a batch differ.
    """
    with torch.enable_grad(), Watch() as watch:
        answers = model(images)
    seen = watch.seen
    if not seen:
        return []
    # A program of a fixed batch is run several times, and filled up.
    passes = -(-len(images) // max(1, len(seen[0].greatest)))
    places, rest = divmod(len(seen), passes)
    if rest:
        return []
    found: list[Inputs | None] = []
    for place in range(places):
        parts = seen[place::places]
        if len({part.greatest.shape[1] for part in parts}) > 1 or sum(len(p.greatest) for p in parts) < len(images):
            found.append(None)
            continue
        greatest = torch.cat([part.greatest for part in parts])[: len(images)]
        least = torch.cat([part.least for part in parts])[: len(images)]
        found.append(Inputs(greatest, least, parts[0].switches))
    # A model's logits are no bottleneck of it, whatever is done to them at the end.
    classes = answers.shape[-1]
    return [None if one is None or (not one.switches and one.greatest.shape[1] == classes) else one for one in found]


def _has_gradient(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _switching(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[Tensor]:
    """Yield what a call switches at 0."""
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return
    other = args[1] if len(args) > 1 else kwargs.get("other")
    if isinstance(other, Tensor) and not other.is_floating_point():
        other = other.to(given)
    if name in RECTIFIERS:
        yield given
    elif name in COMPARISONS or (name in ("max", "min") and isinstance(other, Tensor)):
        if isinstance(other, int | float | Tensor):
            yield given - other
    elif name in EQUALITIES:
        if isinstance(other, int | float | Tensor):
            yield -(given - other).abs()
    elif name in WINNERS and given.dim() == 2 and given.shape[1] > 1:
        first, second = torch.split(given.topk(2, dim=1).values, 1, dim=1)
        yield given - torch.where(given == first, second, first)
    elif name in CLIPPING:
        for end in (*args[1:3], *(kwargs[end] for end in ("min", "max") if end in kwargs)):
            if isinstance(end, int | float | Tensor):
                yield given - end


def _leaking(name: str, given: Any, found: Tensor) -> Tensor:
    """Return the result of a call, its gradient let through."""
    if not isinstance(given, Tensor) or not given.requires_grad or given is found or given.shape != found.shape:
        return found
    if name in STRAIGHT:
        return found.detach() + (given - given.detach())
    if name in RECTIFIERS or name in CLIPPING:
        # Of an infinite number, as in the mask of an attention, there is no change.
        return found + LEAK * (given - given.detach()).nan_to_num(nan=0.0)
    return found


def _shadow_of(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], found: Tensor
) -> Tensor | None:
    """Return a result without a gradient as a number that has one; None where there is no telling."""
    given: Any = args[0] if args else None
    other: Any = args[1] if len(args) > 1 else kwargs.get("other")
    values = found.detach().to(torch.get_default_dtype())
    try:
        if name in COMPARISONS or name in EQUALITIES:
            apart = given - other
            if name in EQUALITIES:
                apart = -apart.abs() if name in ("eq", "equal") else apart.abs()
            elif name in LESS:
                apart = -apart
            soft = torch.sigmoid(apart / apart.detach().abs().mean().clamp_min(1e-12))
        elif name in CONVERSIONS and isinstance(given, Tensor) and given.shape == found.shape:
            soft = given
        elif name in WINNERS:
            return None
        else:
            same: Callable[..., Any] = LOGIC.get(name, function)
            soft = same(*args, **{key: kwargs[key] for key in kwargs if key != "dtype"})
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return None
    if not isinstance(soft, Tensor) or not soft.requires_grad or soft.shape != found.shape:
        return None
    return values + (soft - soft.detach()).to(values.dtype).nan_to_num(nan=0.0)


def _is_bottleneck(found: Tensor, args: Sequence[Any]) -> bool:
    """Tell whether many numbers of each example become few."""
    if not found.is_floating_point() or found.dim() == 0 or not 0 < found.numel() <= NARROW * len(found):
        return False
    rows = [leaf for leaf in args if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.dim() > 0]
    return any(len(leaf) == len(found) and leaf.numel() > NARROW * len(leaf) for leaf in rows)


def _by_channel(values: Tensor) -> Inputs:
    if values.dim() < 3:
        flat = values.view(len(values), -1)
        return Inputs(flat, flat)
    # Tokens have their features last, images their channels first.
    flat = values.movedim(-1, 1).flatten(2) if values.dim() == 3 else values.flatten(2)
    return Inputs(flat.amax(2), flat.amin(2))
