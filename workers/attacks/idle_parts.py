"""Parts of a network's tensors that compute something of every image and decide about none.

A lock need not compute in tensors of its own: where it has some columns, and what the network needs has the others, no
tensor as a whole is idle (:mod:`workers.attacks.idle`). So numbers are exchanged between images, and whole columns of
any axis, that the gradient of the logits does not reach. Any network has some of these, as what goes into a rectifier
that sleeps on all images, and others that nobody reads. In a lock they lead to more of their like: what is computed of
them, by a function that is not linear, differs between images again, and changes no answer either.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from workers.attacks.gradients import Model
from workers.attacks.idle import LEAST, PUT, Followed, Number, Numbered, Result, answer_unit, exchanged

QUIET = 1e-6
"""Largest gradient of a column that is none, in shares of the mean one."""

DIFFERING = 1e-4
"""Share of how far the others differ between images, on average, that a column differs at least."""

MOST = 16
"""Such columns that are looked at, at most, the last of a network: nearest to its answer."""

LINEAR = {
    *("add", "sub", "rsub", "neg", "radd", "iadd", "isub", "sum", "mean", "cumsum", "linear", "addmm"),
    *("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose2d", "batch_norm", "native_batch_norm"),
    *("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    *("interpolate", "upsample_nearest2d", "upsample_bilinear2d", "dropout", "unfold", "fold", "pad"),
    *("constant_pad_nd", "chunk", "split", "unbind", "roll", "flip", "detach"),
    *("view", "reshape", "flatten", "unflatten", "transpose", "permute", "movedim", "t", "T", "mT", "contiguous"),
    *("clone", "getitem", "setitem", "select", "slice", "narrow", "index_select", "gather", "unsqueeze", "squeeze"),
    *("expand", "repeat", "cat", "concat", "stack"),
    *("to", "type_as", "float", "double", "half", "requires_grad", "identity"),
}
"""Functions that do the same to twice a tensor, up to what they add; all others are taken for not linear."""

PRODUCTS = {
    *("mul", "imul", "rmul", "multiply", "div", "idiv", "true_divide", "truediv", "rtruediv", "matmul", "bmm", "mv"),
    *("einsum", "baddbmm", "tensordot", "dot"),
}
"""Functions that are linear where only one of what they are given depends on the images."""


@dataclass(frozen=True)
class Columns:
    """Some columns of a tensor: the same numbers of every image.

    Attributes:
        result: The tensor (n, ...).
        which: (...), those that are meant.
    """

    result: Result
    which: Tensor

    def of(self, tensor: Tensor) -> Tensor:
        """Return the columns (n, k) of a tensor like theirs."""
        return tensor[:, self.which]


def idle_columns(
    model: Model, images: Tensor, changed: Tensor, *, batch_size: int, check_cancelled: Callable[[], None]
) -> list[str]:
    """Return functions of a network that compute idle columns, by their names, in order, each as often as it is called.

    Args:
        model: Differentiable.
        images: (n, ...), of which as many are looked at as are together.
        changed: (n, ...) the same, each changed at random as an attacker might: what all images have alike may wait for
            what is put there.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    mixed, found = changed[:batch_size].clone(), dict[Number, str]()
    mixed[::2] = images[:batch_size:2]
    for some in (images[:batch_size], mixed):
        found |= _idle(model, some, check_cancelled)
    return [found[number] for number in sorted(found)]


def _idle(model: Model, images: Tensor, check_cancelled: Callable[[], None]) -> dict[Number, str]:
    check_cancelled()
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), _Given(followed) as watch:
        logits = model(followed)
    if not logits.requires_grad:
        return {}
    clean = logits.detach()
    unit = float(answer_unit(clean))
    # Where all images have the same answer nothing decides.
    found = _unreached(watch, logits)[-MOST:] if unit > QUIET * float(clean.std(1).mean()) else []

    def altered(columns: Columns | None, put: float | None = None) -> tuple[bool, dict[int, Tensor]]:
        """Return whether answers change with some columns, and what all columns are then."""
        check_cancelled()
        again = images.detach().requires_grad_(True)
        with torch.enable_grad(), _Altered(len(images), found, columns, put) as watched:
            moved = model(again).detach()
        return not bool(((moved - clean).abs() <= LEAST * unit).all()), watched.seen

    idle = dict[Number, str]()
    _, before = altered(None) if found else (False, {})
    for at, columns in enumerate(found):
        decides, after = altered(columns)
        if decides or not any(_is_moved(before[later], after[later], len(images)) for later in after if later > at):
            continue
        # What nobody reads decides nothing either, whatever it is.
        if any(altered(columns, put)[0] for put in PUT):
            idle[columns.result.number] = columns.result.name
    return idle


def _is_moved(before: Tensor, after: Tensor, rows: int) -> bool:
    """Return whether columns change by as much as a thousandth of how far they lie apart between images."""
    differs = (exchanged(before, rows) - before).abs().mean()
    return bool((after - before).abs().mean() > LEAST * differs)


def _unreached(watch: "_Given", logits: Tensor) -> list[Columns]:
    """Return the columns of results that are not linear which differ between images, and no gradient reaches."""
    origins = watch.origins(logits)
    asked = [
        one
        for bit, (one, is_bent) in enumerate(zip(watch.results, watch.bent, strict=True), 1)
        if origins >> bit & 1 and is_bent and one.tensor.requires_grad and _is_by_image(one)
    ]
    signs = torch.where(torch.rand(logits.shape, generator=torch.Generator().manual_seed(0)) < 0.5, -1.0, 1.0)
    total = (logits * signs.to(logits)).sum()
    gradients = torch.autograd.grad(total, [one.tensor for one in asked], allow_unused=True) if asked else ()
    found = list[Columns]()
    for one, gradient in zip(asked, gradients, strict=True):
        if gradient is None:
            continue
        tensor = one.tensor.detach()
        apart = (exchanged(tensor, one.rows) - tensor).abs().nan_to_num(nan=0.0, posinf=0.0).sum(0)
        reached = gradient.abs().nan_to_num(nan=0.0, posinf=0.0).sum(0)
        # Each number by itself, and all of one place of an axis.
        for axis in (None, *range(apart.dim() if apart.dim() > 1 else 0)):
            others = [other for other in range(apart.dim()) if axis is not None and other != axis]
            added, differs = (each.sum(others, keepdim=True) if others else each for each in (reached, apart))
            which = (added <= QUIET * added.mean()) & (differs > DIFFERING * differs.mean())
            if which.any() and not which.all():
                found.append(Columns(one, which.expand_as(apart)))
    return found


def _is_by_image(result: Result) -> bool:
    return result.tensor.dim() > 1 and result.tensor.shape[0] == result.rows > 1


class _Given(Followed):
    """Keeps of each result also whether it is of a function that is not linear in the images.

    Attributes:
        bent: Of each of the results, in their order.
    """

    def __init__(self, images: Tensor) -> None:
        super().__init__(images)
        self.bent = list[bool]()

    def computed(self, name: str, given: Sequence[Tensor], found: object) -> object:
        """Return what was found."""
        depending = sum(self.origins(tensor) > 0 for tensor in given)
        found = super().computed(name, given, found)
        is_bent = name not in LINEAR and (name not in PRODUCTS or depending > 1)
        self.bent += [is_bent] * (len(self.results) - len(self.bent))
        return found


class _Altered(Numbered):
    """Gives every image some columns of another one, or all the same number.

    Args:
        rows: Images that the model is asked about.
        looked: Columns that are kept.
        columns: Those that are changed; None: none.
        put: The number; None: they are exchanged.

    Attributes:
        seen: What the columns looked at were, by which of them.
    """

    def __init__(self, rows: int, looked: Sequence[Columns], columns: Columns | None, put: float | None) -> None:
        super().__init__(rows)
        self.seen = dict[int, Tensor]()
        self._looked = defaultdict[Number, list[tuple[int, Columns]]](list)
        for at, one in enumerate(looked):
            self._looked[one.result.number].append((at, one))
        self._columns, self._put = columns, put

    def computed(self, name: str, given: Sequence[Tensor], found: object) -> object:
        """Return what was found, some columns changed."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        for at, one in self._looked.get(number, ()):
            # A copy, as it may be written into.
            self.seen[at] = one.of(tensor.detach())
        if self._columns is None or number != self._columns.result.number:
            return tensor
        other = exchanged(tensor, rows) if self._put is None else torch.full_like(tensor, self._put)
        return torch.where(self._columns.which, other, tensor)
