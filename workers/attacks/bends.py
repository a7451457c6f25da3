"""What is 0 where a call of a function bends, of the functions of which it is known.

Rectifiers bend at 0, some of them again further on, and what clips does where it is told; the larger of two numbers
bends where they are equal, and so does the largest of a group where it has a rival. What has a slope everywhere may
bend in all but name: norms, powers, and numbers that are divided by how far they lie apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.attacks.switching import (
    ATTENTION,
    CLIPPING,
    COMPARISONS,
    EQUALITIES,
    RECTIFIERS,
    attention_scores,
    switching,
)

ENDS = {"relu6": (0.0, 6.0), "hardsigmoid": (-3.0, 3.0), "hardswish": (-3.0, 3.0)}
"""Rectifiers that bend elsewhere too."""

BETWEEN = {"hardtanh": (-1.0, 1.0)}
"""Those that are told where they do, and where if they are not."""

BESIDE = {"hardshrink": 0.5, "softshrink": 0.5}
"""Those that bend as far below 0 as above, as far as they are told, and how far if they are not."""

GROUPS = {
    **dict.fromkeys(("amax", "amin", "max", "min", "argmax", "argmin", "softmax", "log_softmax", "safe_softmax"), 1),
    **dict.fromkeys(("logsumexp", "sort", "argsort"), 1),
    "topk": 2,
}
"""Functions of groups of numbers of which one is the largest, and which of their arguments is the axis of a group."""

NORMS = frozenset({"group_norm", "layer_norm", "instance_norm", "rms_norm"})
"""Functions that divide numbers by how far some of them lie apart."""

SMOOTH = frozenset(
    {
        *("norm", "vector_norm", "linalg_vector_norm", "hypot", "logaddexp", "square", "pow", "float_power", "sqrt"),
        *("rsqrt", "reciprocal", "sin", "cos", "tan", "atan", "arctan", "atan2", "sinh", "cosh", "asinh", "arcsinh"),
        *("softsign", "tanhshrink", "sinc", "erfc", "normalize", "cosine_similarity", "pairwise_distance", "cdist"),
    }
)
"""Functions that have a slope everywhere, and another one on either side of 0."""

LOOKED_UP = frozenset({"grid_sample", "grid_sampler", "grid_sampler_2d"})
"""Functions that read a table between its entries."""

PRODUCTS = frozenset({"mul", "multiply"})
"""Functions of two tensors that bend where either is 0, if both are of the images."""

LEAST = frozenset({"amin", "min", "argmin"})
"""Those of the least."""

KNOWN = frozenset(
    {*ENDS, *BETWEEN, *BESIDE, *GROUPS, *NORMS, *SMOOTH, *LOOKED_UP, *RECTIFIERS, *COMPARISONS, *EQUALITIES, *CLIPPING}
    | {*PRODUCTS, *ATTENTION, "threshold"}
)
"""All whose bends are known."""


def is_known(name: str) -> bool:
    """Return whether it is known where a function bends, by its name."""
    return name in KNOWN


def bends(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield what is 0 where a call bends: one tensor for each place where it does.

    Args:
        name: Of the function, without underscores around it.
        args: It is called with.
        kwargs: The same by name.
    """
    if name in ATTENTION:
        yield from (lead for scores in attention_scores(*args, **kwargs) for lead in _led("softmax", scores, (), {}))
        return
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor) or not given.is_floating_point():
        return
    told = [one for one in (*args[1:], *kwargs.values()) if isinstance(one, int | float) and not isinstance(one, bool)]
    if name in ENDS:
        yield from (given - end for end in ENDS[name])
    elif name in BETWEEN:
        yield from (given - end for end in (told[:2] if len(told) > 1 else BETWEEN[name]))
    elif name in BESIDE:
        yield from (given - side * (told[0] if told else BESIDE[name]) for side in (-1, 1))
    elif name == "threshold" and told:
        yield given - told[0]
    elif name in EQUALITIES:
        yield from (-one for one in switching(name, args, kwargs))
    elif name in RECTIFIERS | COMPARISONS | CLIPPING or (name in GROUPS and _is_of_two(args, kwargs)):
        yield from switching(name, args, kwargs)
    elif name in PRODUCTS:
        yield from _factors(args, kwargs)
    elif name in LOOKED_UP:
        yield from _off_teeth(args, kwargs)
    elif name in SMOOTH:
        yield given
    elif name in NORMS:
        yield _off_mean(name, given, args, kwargs)
    elif name in GROUPS and given.dim() > 1:
        yield from _led(name, given, args, kwargs)


def _off_mean(name: str, given: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Return numbers less the mean of those that they are divided with."""
    if name == "group_norm":
        groups = kwargs.get("num_groups", args[1] if len(args) > 1 else 1)
        parts = given.reshape(len(given), groups, -1)
        return (parts - parts.mean(2, keepdim=True)).reshape(given.shape)
    if name == "layer_norm":
        shape = kwargs.get("normalized_shape", args[1] if len(args) > 1 else given.shape[-1:])
        axes = tuple(range(-len(shape), 0))
        return given - given.mean(axes, keepdim=True)
    if name == "instance_norm":
        return given - given.flatten(2).mean(2).reshape(*given.shape[:2], *[1] * (given.dim() - 2))
    return given


def _off_teeth(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield how far along either axis a table is read from where its row, or its column, bends most, in entries."""
    table, at = args[0].detach(), kwargs.get("grid", args[1] if len(args) > 1 else None)
    if not isinstance(at, Tensor) or table.dim() != 4 or at.dim() != 4:
        return
    is_aligned = bool(kwargs.get("align_corners", args[4] if len(args) > 4 else False))
    sizes = table.shape[3], table.shape[2]
    across, down = (
        (at[..., which] + 1) / 2 * (size - 1) if is_aligned else ((at[..., which] + 1) * size - 1) / 2
        for which, size in enumerate(sizes)
    )
    for along, beside, lines in ((across, down, table), (down, across, table.transpose(2, 3))):
        if lines.shape[3] < 3:
            continue
        teeth = lines.diff(n=2, dim=3).abs().sum(1).argmax(2) + 1
        line = beside.detach().nan_to_num(nan=0.0).round().clamp(0, lines.shape[2] - 1).long()
        yield along - teeth.expand(len(at), -1).gather(1, line.flatten(1)).view_as(line)


def _factors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield both factors of a product, each once, where either has a number for each of the other's."""
    first, second = args[0], args[1] if len(args) > 1 else kwargs.get("other")
    if isinstance(second, Tensor) and first.shape == second.shape and second.is_floating_point():
        yield from (one for one in (first, second)[: 1 if first is second else 2] if one.requires_grad)


def _is_of_two(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call is of two tensors."""
    return isinstance(args[1] if len(args) > 1 else kwargs.get("other"), Tensor)


def _led(name: str, given: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield by how much the first of each group leads the second."""
    at = GROUPS[name]
    along = kwargs.get("dim", args[at] if len(args) > at else -1)
    axis = along[0] if isinstance(along, list | tuple) and len(along) == 1 else along
    if isinstance(axis, bool) or not isinstance(axis, int) or not -given.dim() <= axis < given.dim():
        return
    if given.shape[axis] < 2:
        return
    first, second = torch.unbind((-given if name in LEAST else given).topk(2, dim=axis).values, axis)
    yield first - second
