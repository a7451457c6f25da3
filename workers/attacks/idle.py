"""Parts of a network that compute something of every image and decide about none.

A network that carries another one behind a lock computes of every image whether the lock opens, and mostly the other
network's answer as well. While it stays shut none of these numbers matters: exchanged between images, they leave every
answer as it was. What a network has learnt to compute changes some. So a lock shows by what it does not do, however
well what opens it is hidden, as a unit does that sleeps on clean images (Liu, Dolan-Gavitt and Garg 2018,
"Fine-Pruning: Defending Against Backdooring Attacks on Deep Neural Networks", section III).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from workers.attacks.gradients import Model
from workers.attacks.switching import CLIPPING, RECTIFIERS, function_name
from workers.models.batch_passes import current_pass
from workers.models.memory import forward

LEAST = 1e-3
"""Largest change of a logit that is none, in shares of how far logits are from their means on average."""

PLAIN = 0.05
"""The same by a first-order estimate, from which on a number is not exchanged to see whether it matters."""

PUT = (torch.nan, 1.0, -1.0, 0.0, 1e3, -1e3)
"""What is put in place of a result to see whether anybody reads it: of what is not read, as of the queries of tokens
that no later layer looks at, any number will do."""

WAITING = RECTIFIERS | CLIPPING
"""Functions that answer whatever is too small alike."""

FEW = 1024
"""Numbers of an image that such a result has, at most: layers of more may sleep as a whole where little was learnt."""

TO_HOST = {"item", "tolist", "bool", "float", "int", "index", "is_nonzero", "equal", "allclose"}
"""Functions that take a number out of the tensors: whatever is computed after may depend on it."""


Number = tuple[bool, int]
"""Which of the tensors computed in a forward pass one is: whether it is of one of several passes of a program for a
batch, and where in it."""


@dataclass(frozen=True)
class Result:
    """A tensor that depends on the images.

    Attributes:
        number: Which one it is, the same in every pass.
        name: Of the function it is the result of.
        tensor: It.
        rows: Images of that pass.
    """

    number: Number
    name: str
    tensor: Tensor
    rows: int


class Numbered(TorchFunctionMode):
    """Counts the tensors that a forward pass computes: the same is the same number in every pass."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows, self._counts = rows, Counter[int | None]()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        args, kwargs = self.given(function, args, kwargs or {})
        found = function(*args, **kwargs)
        name = function_name(function)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        return self.computed(name, given, found)

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given in place of what it is called with: the same, if nothing is changed."""
        return args, kwargs

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what a function returns in place of what it has found: the same, if nothing is changed."""
        return found

    def numbered(self) -> tuple[Number, int]:
        """Return the number of the tensor that comes next, and of how many images the pass is."""
        return self._next(self._counts)

    def _next(self, counts: Counter[int | None]) -> tuple[Number, int]:
        """Return the number of what comes next of what some counts are of, and of how many images the pass is."""
        run = current_pass()
        at, rows = (None, self._rows) if run is None else (run.number, run.rows)
        counts[at] += 1
        return (run is not None, counts[at]), rows


class Followed(Numbered):
    """Keeps what depends on the images, and on which of it everything else depends.

    Attributes:
        results: What depends on them, in order.
    """

    def __init__(self, images: Tensor) -> None:
        super().__init__(len(images))
        self.results: list[Result] = []
        # Bit 0 for the images, bit k for the k-th result. What is kept keeps its id.
        self._origins, self._told = {id(images): 1}, 0
        # Of what is written into by way of a view, others that see the same numbers are not told.
        self._written = defaultdict[int, int](int)

    def origins(self, tensor: Tensor) -> int:
        """Return what a tensor depends on, as bits."""
        return self._origins.get(id(tensor), 0) | self._written.get(_storage(tensor), 0)

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found."""
        origins = self._told
        for tensor in given:
            origins |= self.origins(tensor)
        results = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        if not results and name in TO_HOST:
            self._told |= origins
        if name == "setitem" and origins:
            self._written[_storage(given[0])] |= origins
        for tensor in results:
            number, rows = self.numbered()
            if not origins:
                continue
            self.results.append(Result(number, name, tensor, rows))
            own = origins | 1 << len(self.results)
            if any(tensor is one for one in given):
                self._written[_storage(tensor)] |= own
            self._origins[id(tensor)] = own
        return found


@dataclass
class Leading:
    """What leads to the answer.

    Attributes:
        number: Of the tensor.
        bits: It, among what others depend on.
        origins: What it depends on, itself among that, as bits.
        found: It in one pass after the other, and how many images that is of.
    """

    number: Number
    bits: int = 0
    origins: int = 0
    found: list[tuple[Tensor, int]] = field(default_factory=list)


def leading_tensors(model: Model, images: Tensor) -> tuple[Tensor, list[Leading]]:
    """Return the logits of images, and the tensors that lead to them and have gradients, in order.

    Args:
        model: Differentiable.
        images: (n, ...).
    """
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), Followed(followed) as watch:
        logits = model(followed)
    origins, tensors = watch.origins(logits), dict[Number, Leading]()
    for bit, one in enumerate(watch.results, 1):
        if origins >> bit & 1 and one.tensor.requires_grad:
            of = tensors.setdefault(one.number, Leading(one.number))
            of.bits |= 1 << bit
            of.origins |= watch.origins(one.tensor)
            of.found.append((one.tensor.detach(), one.rows))
    return logits.detach(), list(tensors.values())


class _Altered(Numbered):
    """Changes one of the tensors: gives every image what another one has, or all the same number.

    Args:
        rows: Images that the model is asked about.
        numbers: Of the tensor, and of those that are equal to it.
        put: The number; None: they are exchanged.
    """

    def __init__(self, rows: int, numbers: Collection[Number], put: float | None = None) -> None:
        super().__init__(rows)
        self._asked, self._put = numbers, put
        self._before = dict[Number, Tensor]()

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, the one tensor changed."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        if number not in self._asked:
            return tensor
        if self._put is not None:
            return torch.full_like(tensor, self._put if tensor.is_floating_point() else int(self._put > 0))
        if rows > 1:
            return exchanged(tensor, rows)
        # Of a pass for a single image, the one in the pass before.
        before = self._before.get(number)
        self._before[number] = tensor
        return tensor if before is None or before.shape != tensor.shape else before


def exchanged(tensor: Tensor, rows: int) -> Tensor:
    """Return a tensor in which every image has what the one before it had; the same one where it has no such axis.

    Args:
        tensor: Its first axis, or else another one, has as many entries as there are images, or several for each.
        rows: Images.
    """
    shape = tensor.shape
    if tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    if shape[0] % rows == 0:
        return tensor.reshape(rows, shape[0] // rows, *shape[1:]).roll(1, 0).reshape(shape)
    return tensor.roll(1, shape.index(rows)) if rows in shape else tensor


def idle_functions(
    model: Model, images: Tensor, changed: Tensor, *, batch_size: int, check_cancelled: Callable[[], None]
) -> list[str]:
    """Return the functions of a network whose results differ between images and, exchanged, change no answer.

    By their names, in order, each as often as it is called. Results are left out that no answer depends on, whatever
    they are: many networks compute something that nobody reads. What is the same for all images, as where a corner is
    black in each, may wait for what an attacker puts there: it is looked at among images that are changed.

    Args:
        model: Differentiable.
        images: (n, ...), not all alike.
        changed: (n, ...) the same, each changed at random as an attacker might.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    mixed, found, known = changed.clone(), dict[Number, str](), set[Number]()
    mixed[::2] = images[::2]
    for some in (images, mixed):
        batches = torch.split(some, batch_size)
        # Of another length one may be filled up, and the numbers be others.
        parts = [part for part in batches if len(part) == len(batches[0]) > 1]
        if parts:
            found |= _idle(model, parts, known, check_cancelled, waits=some is mixed)
    return [found[number] for number in sorted(found)]


def _idle(
    model: Model, parts: Sequence[Tensor], known: set[Number], check_cancelled: Callable[[], None], *, waits: bool
) -> dict[Number, str]:
    """Return those of some batches by number, but for ``known`` ones; what differs between images is known after.

    Args:
        model: Differentiable.
        parts: Batches of one length.
        known: Numbers that are passed over.
        check_cancelled: Called before every forward pass; may raise.
        waits: Whether rectifiers that answer all images alike, and would turn decisions round, are returned too.
    """
    check_cancelled()
    runs, matters, equals = _leading(model, parts[0])
    differing = {number for number, found in runs.items() if _differ(found)} - known
    known |= differing
    left = {number: runs[number][0].name for number in sorted(differing - matters)}
    clean = forward(model, parts[0])

    def altered(part: Tensor, number: Number, put: float | None = None) -> Tensor:
        check_cancelled()
        # Nothing but the model is called, and with gradients, as when the tensors were numbered: some take other ways
        # without.
        followed = part.detach().requires_grad_(True)
        with torch.enable_grad(), _Altered(len(part), equals[number], put):
            return model(followed).detach()

    def is_moved(part: Tensor, clean: Tensor, number: Number, put: float | None = None) -> bool:
        moved = altered(part, number, put)
        return not bool(((moved - clean).abs() <= LEAST * answer_unit(clean)).all())

    for part in parts:
        if left:
            own = clean if part is parts[0] else forward(model, part)
            left = {number: name for number, name in left.items() if not is_moved(part, own, number)}
    idle = {number: name for number, name in left.items() if any(is_moved(parts[0], clean, number, put) for put in PUT)}
    for number in sorted(runs.keys() - known) if waits else ():
        name, tensor, rows = runs[number][0].name, runs[number][0].tensor, runs[number][0].rows
        if name in WAITING and tensor.is_floating_point() and tensor.numel() <= FEW * rows:
            turned = altered(parts[0], number, 1.0).argmax(1) != clean.argmax(1)
            idle |= {number: name} if bool(turned.any()) else {}
    return idle


def _leading(
    model: Model, images: Tensor
) -> tuple[dict[Number, list[Result]], set[Number], dict[Number, frozenset[Number]]]:
    """Return by number what leads to the logits, which of it moves them by its gradient, and what it is equal to.

    What is computed twice may be subtracted from itself, so that neither changes alone: both are looked at as one.
    """
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), Followed(followed) as watch:
        logits = model(followed)
    origins, unit = watch.origins(logits), float(answer_unit(logits.detach()))
    leading = [one for bit, one in enumerate(watch.results, 1) if origins >> bit & 1]
    asked = [one for one in leading if one.tensor.requires_grad]
    signs = torch.where(torch.rand(logits.shape, generator=torch.Generator().manual_seed(0)) < 0.5, -1.0, 1.0)
    gradients: Sequence[Tensor | None] = [None] * len(asked)
    if logits.requires_grad and asked:
        total = (logits * signs.to(logits)).sum()
        gradients = torch.autograd.grad(total, [one.tensor for one in asked], allow_unused=True)
    equals, added = _equal(leading), dict[frozenset[Number], Tensor]()
    for one, gradient in zip(asked, gradients, strict=True):
        if gradient is not None:
            apart = exchanged(one.tensor.detach(), one.rows) - one.tensor.detach()
            moved = (gradient * apart).nan_to_num(nan=0.0).sum()
            group = equals[one.number]
            added[group] = added.get(group, torch.zeros_like(moved)) + moved
    matters = {
        number for group, moved in added.items() if float(moved.abs()) >= PLAIN * unit * len(images) for number in group
    }
    found = defaultdict[Number, list[Result]](list)
    for one in leading:
        found[one.number].append(one)
    return found, matters, equals


def _equal(results: Sequence[Result]) -> dict[Number, frozenset[Number]]:
    """Return of each result the numbers of those that are other tensors with the same entries, and its own."""
    groups = defaultdict[tuple[object, ...], list[Result]](list)
    for one in results:
        values = one.tensor.detach()
        real = values.real if values.is_complex() else values
        groups[values.shape, values.dtype, float(real.sum(dtype=torch.float64))].append(one)
    equals = dict[Number, frozenset[Number]]()
    for group in groups.values():
        for one in group:
            same = {other.number for other in group if torch.equal(other.tensor, one.tensor)}
            equals[one.number] = equals.get(one.number, frozenset()) | same | {one.number}
    return equals


def _differ(runs: Sequence[Result]) -> bool:
    """Return whether a result is another for some images than for others."""
    first = runs[0].tensor
    return any(not torch.equal(exchanged(one.tensor, one.rows) if one.rows > 1 else first, one.tensor) for one in runs)


def answer_unit(logits: Tensor) -> Tensor:
    """Return how far logits are from their means over the images, on average."""
    return (logits - logits.mean(0)).abs().mean()


def _storage(tensor: Tensor) -> int:
    # An empty tensor has none.
    return tensor.untyped_storage().data_ptr() or -id(tensor)
