"""Which calls of a network switch at a value, and what goes into them: rectifiers, comparisons, winners."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

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

WINNERS = {"argmax", "max", "topk", "sort", "argsort", "softmax", "log_softmax", "safe_softmax"}
"""Functions of numbers of which one is the largest: each number but this one has to rise to be it."""

POOLS = {"max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "amax", "amin"}
"""Functions of which one number of several is left: all of them have to rise, or to fall, for it to."""

FEW_SCORES = 64
"""Numbers of an example of which one wins, at most, where they are no row of logits: attention among a few keys."""

ATTENTION = {"scaled_dot_product_attention"}
"""Functions with winners inside."""


def function_name(function: Callable[..., Any]) -> str:
    """Return the name by which a function is known here: `relu_`, `Tensor.__gt__` and `relu.default` are one each.

    >>> function_name(torch.Tensor.relu_), function_name(torch.ops.aten.relu.default)
    ('relu', 'relu')
    """
    return str(getattr(function, "__name__", "")).split(".")[0].strip("_")


def switching(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[Tensor]:
    """Yield what a call switches at 0: one tensor for each switch, nothing where it has none.

    Args:
        name: Of the function, as torch calls it, without underscores around it.
        args: It is called with.
        kwargs: The same by name.
    """
    if name in ATTENTION:
        yield from _attended(*args, **kwargs)
        return
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
        yield _behind_the_first(given)
    elif name in WINNERS and given.dim() > 2:
        places = {"topk": 2, "sort": 1, "argsort": 1}
        at = places.get(name, 1)
        along = kwargs.get("dim", args[at] if len(args) > at else -1 if name in places else None)
        if isinstance(along, int) and not isinstance(along, bool) and -given.dim() <= along < given.dim():
            yield from _few_winners(given.movedim(along, -1))
        elif along is None:
            yield from _few_winners(given.flatten(1)[:, None])
    elif name in CLIPPING:
        for end in (*args[1:3], *(kwargs[end] for end in ("min", "max") if end in kwargs)):
            if isinstance(end, int | float | Tensor):
                yield given - end


def _behind_the_first(scores: Tensor) -> Tensor:
    """Return by how much each of some scores (..., k) lies above the largest other one.

    Its gradient leads away from all that are near to the largest: whoever passes one of many rivals meets the next.
    """
    first, second = torch.split(scores.topk(2, dim=-1).values, 1, dim=-1)
    apart = scores - torch.where(scores == first, second, first)
    spread = (first - scores.mean(-1, keepdim=True)).clamp_min(1e-12)
    near = ((scores - first) / spread).softmax(-1).nan_to_num(nan=0.0).detach()
    rivals = ((near * scores).sum(-1, keepdim=True) - near * scores) / (1 - near).clamp_min(1e-6)
    soft = (scores - rivals).nan_to_num(nan=0.0)
    return apart.detach() + (soft - soft.detach())


def _few_winners(scores: Tensor) -> Iterable[Tensor]:
    """Yield what scores (n, ..., k) switch, where an example has few of them."""
    if scores.shape[-1] > 1 and 0 < scores.numel() <= FEW_SCORES * len(scores):
        yield _behind_the_first(scores).flatten(1)


def _attended(*args: Any, **more: Any) -> Iterable[Tensor]:
    """Yield what the scores inside an attention switch, where an example has few of them."""
    asked, keys = (args[at] if len(args) > at else more.get(name) for at, name in enumerate(("query", "key")))
    if not isinstance(asked, Tensor) or not isinstance(keys, Tensor) or asked.dim() < 3 or keys.dim() != asked.dim():
        return
    if asked.shape[1:-1].numel() * keys.shape[-2] <= FEW_SCORES:
        yield from (found for scores in attention_scores(*args, **more) for found in _few_winners(scores))


def attention_scores(*args: Any, **more: Any) -> Iterator[Tensor]:
    """Yield the scores (n, ..., queries, keys) of which an attention takes a softmax; none where it is of no tensors.

    Args:
        args: It is called with.
        more: The same by name.
    """
    named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | more
    asked, keys, mask = named.get("query"), named.get("key"), named.get("attn_mask")
    if not isinstance(asked, Tensor) or not isinstance(keys, Tensor) or not asked.is_floating_point():
        return
    if asked.dim() == 4 and asked.shape[1] != keys.shape[1]:
        keys = keys.repeat_interleave(asked.shape[1] // keys.shape[1], 1)
    scale = named.get("scale")
    scores = (asked @ keys.transpose(-2, -1)) * (keys.shape[-1] ** -0.5 if scale is None else scale)
    if isinstance(mask, Tensor):
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if named.get("is_causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    yield scores
