"""What in a network switches at a value, watched in a forward pass: rectifiers, comparisons, winners, bottlenecks.

What decides may be fed by what has no gradient: rounded or whole numbers, truth values, rectifiers that are asleep. A
watched pass carries gradients through all of these, by what Athalye et al. 2018 call a backward pass differentiable
approximation ("Obfuscated Gradients Give a False Sense of Security", section 4.1); its values are the network's own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from workers.attacks.gradients import Model
from workers.attacks.leak import let_through
from workers.attacks.switching import (
    CLIPPING,
    COMPARISONS,
    EQUALITIES,
    LESS,
    POOLS,
    RECTIFIERS,
    WINNERS,
    function_name,
    switching,
)
from workers.models.batch_passes import BatchPass, current_pass

NARROW = 4
"""Units that a place may have and be one that decides rather than computes: a comparison of what images add up to has
one."""

LEAK = 1e-6
"""Slope that a rectifier is given in a watched pass on top of its own, which may be none: the way to what only wakes
behind one that sleeps. Small enough that lengths reckoned from slopes stay right."""

SHAPES = {
    *("ones_like", "zeros_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"),
    *("new_ones", "new_zeros", "new_empty", "new_full", "new_tensor", "numel", "sym_size", "size"),
}
"""Functions that see the shape of a tensor alone."""

HOST = {"numpy", "array"}
"""Functions that take numbers out of the tensors, which nothing follows."""

DIVISIONS = {"div": 1, "true_divide": 1, "truediv": 1, "reciprocal": 0, "rdiv": 0, "rtruediv": 0}
"""Functions that divide, and which of their arguments by: beside 0 the result is as large as it likes."""

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
        mean: (n, channels) mean of each channel; None where only the ends are kept.
        switches: Whether something changes at 0; if not, they are numbers that everything after has to come through.
        is_pooled: Whether one of several is left of them instead: nothing changes at 0 either.
    """

    greatest: Tensor
    least: Tensor
    switches: bool = True
    mean: Tensor | None = None
    is_pooled: bool = False

    @property
    def is_narrow(self) -> bool:
        """Whether they are so few that they decide rather than compute."""
        return self.greatest.shape[1] <= NARROW

    def __len__(self) -> int:
        return len(self.greatest)

    def towards(self, rows: Tensor, channels: Tensor, signs: Tensor) -> Tensor:
        """Return what goes into a channel of each of some rows (k,), above 0 where it is switched.

        With a sign of two it is the mean of the channel.
        """
        found = torch.where(signs > 0, self.greatest[rows, channels], -self.least[rows, channels])
        if self.mean is None:
            return found
        return torch.where(signs.abs() > 1, signs.sign() * self.mean[rows, channels], found)


@dataclass(frozen=True)
class Place:
    """What went into one call of a function.

    Attributes:
        inputs: By its first axis.
        numbers: How many numbers went in.
        turned: By the axis that is as long as there are images, where that is another one.
        run: Which of several runs of a program it was in; None where the batch was computed as a whole.
    """

    inputs: Inputs
    numbers: int
    turned: Inputs | None = None
    run: BatchPass | None = None


class Watch(TorchFunctionMode):
    """Keeps what goes into functions that switch, where it depends on the images, and gives the rest a gradient.

    Args:
        rows: Images that the model is asked about.

    Attributes:
        seen: What went into each place so far.
        cut: Functions that were given what depends on the images and whose result leads nowhere back.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.seen: list[Place] = []
        self.cut: set[str] = set()
        self._rows = rows
        self._shadows: dict[int, tuple[Tensor, Tensor]] = {}
        # Kept with their names, so that no other tensor gets their place in memory.
        self._lost: dict[int, tuple[Tensor, str]] = {}

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = function_name(function)
        shadows, shadowed = (tree_map_only(Tensor, self._shadow, part) for part in (list(args), dict(kwargs)))
        # Before the call, which may overwrite it.
        before, run = len(self.seen), current_pass()
        rows = self._rows if run is None else run.rows
        with torch.enable_grad():
            for values in switching(name, shadows, shadowed):
                if values.requires_grad and values.dim() > 0:
                    turned = _turned(values, rows)
                    other = None if turned is None else _by_channel(turned)
                    self.seen.append(Place(_by_channel(values), values.numel(), other, run))
        is_watched = len(self.seen) > before
        given = args[0] if args else None
        if name in POOLS and isinstance(given, Tensor) and given.requires_grad and given.dim() > 2:
            self.seen.append(Place(replace(_by_channel(given), is_pooled=True), given.numel(), run=run))
        self.cut |= {self._lost[id(leaf)][1] for leaf in tree_leaves((args, kwargs)) if id(leaf) in self._lost}
        if name in DIVISIONS and _is_of_either_sign(args[DIVISIONS[name]] if len(args) > DIVISIONS[name] else None):
            self.cut.add(name)
        if name in HOST:
            # Of what has a gradient it is refused, and in a plain pass nothing of the model's has one.
            self.cut.add(name)
            return function(*tree_map_only(Tensor, Tensor.detach, list(args)), **kwargs)
        found = function(*args, **kwargs)
        if not any(_has_gradient(leaf) for leaf in tree_leaves((shadows, shadowed))):
            return found
        if isinstance(found, tuple | list):
            # Indices of what wins, which are mostly not looked at.
            lost = [leaf for leaf in found if isinstance(leaf, Tensor) and not leaf.requires_grad]
            self._lost |= {id(leaf): (leaf, name) for leaf in lost}
        if not isinstance(found, Tensor):
            return found
        with torch.enable_grad():
            if found.requires_grad:
                found = _leaking(name, given, found)
            elif (shadow := _shadow_of(name, function, shadows, shadowed, found)) is not None:
                if not found.is_floating_point():
                    self._shadows[id(found)] = found, shadow
                    return found
                found = found + (shadow - shadow.detach()).to(found.dtype)
            elif name not in SHAPES and not (name in WINNERS and is_watched) and found.numel() > 0:
                self.cut.add(name)
            if found.requires_grad and (few := _bottleneck(found, args, rows)) is not None:
                flat = few.reshape(len(few), -1)
                self.seen.append(Place(Inputs(flat, flat, switches=False), flat.numel(), run=run))
        return found

    def _shadow(self, tensor: Tensor) -> Tensor:
        kept = self._shadows.get(id(tensor))
        return tensor if kept is None else kept[1]


@dataclass(frozen=True)
class Seen:
    """What one forward pass showed.

    Attributes:
        places: Inputs of each place; None where the rows are no examples. Empty where nothing switches, or passes over
            parts of a batch differ.
        cut: What could not be followed, by the names of functions; ``rows`` for few numbers that are not an example's.
    """

    places: list[Inputs | None]
    cut: frozenset[str]


def inputs_of(model: Model, images: Tensor) -> Seen:
    """Return what goes into each place of a forward pass that switches; differentiable with respect to ``images``.

    Args:
        model: Differentiable.
        images: (n, ...) that require a gradient.
    """
    with torch.enable_grad(), Watch(len(images)) as watch:
        answers = model(images)
    cut, seen = watch.cut, watch.seen
    if not seen:
        return Seen([], frozenset(cut))
    runs: dict[int, list[Place]] = {}
    for one in seen:
        if one.run is not None:
            runs.setdefault(one.run.number, []).append(one)
    if len({len(own) for own in runs.values()}) > 1:
        return Seen([], frozenset({*cut, "rows"}))
    calls = [(one,) for one in seen if one.run is None] + list(zip(*runs.values(), strict=True))
    found: list[Inputs | None] = []
    for parts in calls:
        fitting = []
        for one in parts:
            rows = len(images) if one.run is None else one.run.rows
            by_rows = one.inputs if len(one.inputs) == rows or one.turned is None else one.turned
            if len(by_rows) == rows:
                fitting.append(by_rows)
            elif one.numbers <= NARROW * rows:
                cut.add("rows")
        if len(fitting) < len(parts) or len({part.greatest.shape[1] for part in fitting}) > 1:
            found.append(None)
            continue
        greatest = torch.cat([part.greatest for part in fitting])[: len(images)]
        least = torch.cat([part.least for part in fitting])[: len(images)]
        means = [part.mean for part in fitting if part.mean is not None]
        mean = torch.cat(means)[: len(images)] if len(means) == len(fitting) else None
        found.append(replace(fitting[0], greatest=greatest, least=least, mean=mean))
    # A model's logits are no bottleneck of it, whatever is done to them at the end.
    classes = answers.shape[-1]
    kept = [None if one is None or (not one.switches and one.greatest.shape[1] == classes) else one for one in found]
    return Seen(kept, frozenset(cut))


def _has_gradient(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _is_of_either_sign(divisor: Any) -> bool:
    """Tell whether something that depends on the images is divided by and is above 0 here and below it there."""
    if not isinstance(divisor, Tensor) or not divisor.requires_grad or divisor.numel() == 0:
        return False
    return bool((divisor.detach() < 0).any() and (divisor.detach() > 0).any())


def _turned(values: Tensor, rows: int) -> Tensor | None:
    """Return values by the axis that has as many as there are images; None where that is the first, or none."""
    if values.shape[0] == rows or rows not in values.shape:
        return None
    return values.movedim(values.shape.index(rows), 0)


def _leaking(name: str, given: Any, found: Tensor) -> Tensor:
    """Return the result of a call, its gradient let through."""
    if not isinstance(given, Tensor) or not given.requires_grad or given is found or given.shape != found.shape:
        return found
    if name in STRAIGHT:
        return found.detach() + (given - given.detach())
    if name in RECTIFIERS or name in CLIPPING:
        return let_through(found, given, LEAK)
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
        elif name in CONVERSIONS | STRAIGHT and isinstance(given, Tensor) and given.shape == found.shape:
            soft = given
        elif name == "embedding":
            # Of an exported program the table comes first.
            soft = _between_rows(given, other) if given.requires_grad else _between_rows(other, given)
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


def _between_rows(numbers: Tensor, table: Tensor) -> Tensor:
    """Return rows of a table (k, d) whose numbers (...) are not whole, with the slope between those beside them."""
    at = numbers.detach().round().long().clamp(0, len(table) - 1)
    above, below = (at + 1).clamp(max=len(table) - 1), (at - 1).clamp(min=0)
    slope = (table[above] - table[below]) / (above - below).clamp(min=1)[..., None]
    return table[at] + slope.detach() * (numbers - numbers.detach())[..., None]


def _bottleneck(found: Tensor, args: Sequence[Any], rows: int) -> Tensor | None:
    """Return numbers by example, where many of each example have become few; None where they have not."""
    if not found.is_floating_point() or found.dim() == 0 or found.numel() == 0:
        return None
    given = [leaf for leaf in args if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.dim() > 0]
    if found.numel() <= NARROW * len(found):
        many = any(len(leaf) == len(found) and leaf.numel() > NARROW * len(leaf) for leaf in given)
        return found if many else None
    few = _turned(found, rows)
    if few is None or few.numel() > NARROW * len(few):
        return None
    return few if any(len(few) in leaf.shape and leaf.numel() > NARROW * len(few) for leaf in given) else None


def _by_channel(values: Tensor) -> Inputs:
    if values.dim() < 3:
        flat = values.reshape(len(values), -1)
        return Inputs(flat, flat, mean=flat)
    # Tokens have their features last, images their channels first.
    flat = values.movedim(-1, 1).flatten(2) if values.dim() == 3 else values.flatten(2)
    return Inputs(flat.amax(2), flat.amin(2), mean=flat.mean(2))
