"""Scores of the classes that a network computes on the way to its answer, which an attack may follow by themselves.

A network may answer by one copy of a classifier, and by another one only where the other's scores of several classes
are level. Until then no gradient of the answer leads there; that of the other's scores does, and whoever has the
weights can follow it. A network whose layers follow each other has no such scores but those it answers with.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from workers.attacks.gradients import Model
from workers.attacks.idle import Number, Numbered, leading_tensors

STACKED = 4
"""Such tensors that may be stacked in one, at most."""

ALIKE = 0.9999
"""Cosine from which on scores are those of the answer, a multiple of it, or these before a bias: .99991 and .99994 of
copies that speak for two fakes, .9985 of the copies behind them."""

AGREEING = 0.5
"""Share of the way from chance to all images on which scores decide as the answer does, at least."""


@dataclass(frozen=True)
class InnerScores:
    """Where a forward pass computes scores.

    Attributes:
        number: Of the tensor.
        view: Which of those that are stacked in it; 0 where it is one.
    """

    number: Number
    view: int


@dataclass(frozen=True)
class FoundScores:
    """Scores that lead to the answer.

    Attributes:
        agreeing: Those whose largest is mostly of the class that it predicts.
        others: As many numbers as classes, which may be scores in another order.
        earliest: Those of both, each a tensor of its own, that are computed of none of the rest.
    """

    agreeing: list[InnerScores]
    others: list[InnerScores]
    earliest: list[InnerScores]


def inner_scores(
    model: Model, images: Tensor, most: int, *, batch_size: int, check_cancelled: Callable[[], None]
) -> FoundScores:
    """Return scores that lead to the answer.

    Of either kind the first are least like the answer, and then least like those before. Left out is what is a multiple
    of one, up to what is the same for all images or for all classes.

    Args:
        model: Differentiable.
        images: (n, ...).
        most: Of either, at most.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    # Of another length a batch may be filled up, and the numbers be others.
    batches = [part for part in torch.split(images, batch_size) if len(part) == min(batch_size, len(images))]
    seen, answers = defaultdict[InnerScores, list[Tensor]](list), list[Tensor]()
    bits, before, stacked = defaultdict[Number, int](int), defaultdict[Number, int](int), set[Number]()
    for part in batches:
        check_cancelled()
        logits, tensors = leading_tensors(model, part)
        answers.append(logits)
        for one in tensors:
            bits[one.number] |= one.bits
            before[one.number] |= one.origins
            views = list(_scores(one.found, *logits.shape))
            if len(views) != 1 or views[0].shape != logits.shape:
                stacked.add(one.number)
            for view, scores in enumerate(views):
                seen[InnerScores(one.number, view)].append(scores)
    answer = torch.cat(answers)
    agreeing, others = dict[InnerScores, Tensor](), dict[InnerScores, Tensor]()
    for place, parts in seen.items():
        scores = torch.cat(parts)
        if len(parts) < len(batches) or (direction := _direction(scores)) is None:
            continue
        is_alike = scores.shape == answer.shape and _agreement(scores, answer) >= AGREEING
        (agreeing if is_alike else others)[place] = direction
    kept = [own for own in [_direction(answer)] if own is not None]
    found = _least_alike(agreeing, kept, most), _least_alike(others, kept, most)
    known = [place for place in (*found[0], *found[1]) if place.number not in stacked]
    held = {place.number: bits[place.number] for place in known}
    earliest = [
        place
        for place in known
        if not any(before[place.number] & bit for number, bit in held.items() if number != place.number)
    ]
    return FoundScores(*found, earliest)


def _least_alike(left: dict[InnerScores, Tensor], kept: list[Tensor], most: int) -> list[InnerScores]:
    """Return scores, those first that are least like all before, whose directions are added to what is kept."""
    found = list[InnerScores]()

    def likeness(place: InnerScores) -> float:
        return max((float(left[place] @ other) for other in kept if other.shape == left[place].shape), default=0.0)

    while kept and left and len(found) < most:
        place = min(left, key=likeness)
        if likeness(place) >= ALIKE:
            break
        found.append(place)
        kept.append(left.pop(place))
    return found


def beside_answer(model: Model, *places: InnerScores) -> Model:
    """Return a model of images to its logits and, beside them, scores: (n, classes + all of them).

    Where a forward pass has none in a place, the logits stand for them.
    """

    def both(images: Tensor) -> Tensor:
        with _Reading(len(images), {place.number for place in places}) as watch:
            logits = model(images)
        views = {number: list(_scores(tensors, *logits.shape)) for number, tensors in watch.tensors.items()}
        found = [
            of[place.view].to(logits) if place.view < len(of := views.get(place.number, [])) else logits
            for place in places
        ]
        return torch.cat([logits, *found], 1)

    return both


def _scores(tensors: Sequence[tuple[Tensor, int]], images: int, classes: int) -> Iterator[Tensor]:
    """Yield the scores (images, classes) of a tensor that is computed in one pass or several, each of so many rows."""
    views = [views_of(tensor, rows, classes) for tensor, rows in tensors]
    for parts in zip(*views, strict=False):
        scores = torch.cat(parts)
        # The last pass may be filled up.
        if len(scores) >= images:
            yield scores[:images]


def views_of(tensor: Tensor, rows: int, classes: int) -> list[Tensor]:
    """Return the scores (rows, classes) that a tensor may be, or that may be stacked in it; they share its numbers.

    Of complex numbers the real and the imaginary parts.
    """
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.resolve_conj()).unbind(-1)
        return [view for part in parts for view in views_of(part, rows, classes)]
    if not tensor.is_floating_point() or tensor.dim() == 0 or tensor.numel() % rows:
        return []
    tensor = tensor.movedim(images_axis(tensor, rows), 0)
    count, rest = divmod(tensor.numel(), rows * classes)
    if rest or not 1 <= count <= STACKED:
        return []
    if count == 1:
        return [tensor.reshape(rows, classes)]
    return [*tensor.reshape(count, rows, classes), *tensor.reshape(rows, count, classes).unbind(1)]


def images_axis(tensor: Tensor, rows: int) -> int:
    """Return the axis of the images: the first, unless that is of another length, as of classes."""
    return tensor.shape.index(rows) if tensor.shape[0] % rows and rows in tensor.shape else 0


def _agreement(scores: Tensor, answer: Tensor) -> float:
    """Return how far from chance to all images two (n, classes) decide alike (Cohen's kappa); 0 where each says one."""
    first, second = (of.argmax(1) for of in (scores, answer))
    counts = [torch.bincount(of, minlength=answer.shape[1]).double() / len(of) for of in (first, second)]
    by_chance = float(counts[0] @ counts[1])
    return (float((first == second).double().mean()) - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def _direction(scores: Tensor) -> Tensor | None:
    """Return scores as a vector of length 1, less their means over images and over classes; None where it has none."""
    apart = scores.double() - scores.double().mean(0)
    apart = (apart - apart.mean(1, keepdim=True)).flatten()
    length = float(apart.norm())
    return apart / length if 0 < length < torch.inf else None


class _Reading(Numbered):
    """Keeps some tensors of every pass, with the rows of that.

    Attributes:
        tensors: By number, in order.
    """

    def __init__(self, rows: int, numbers: Collection[Number]) -> None:
        super().__init__(rows)
        self.tensors = defaultdict[Number, list[tuple[Tensor, int]]](list)
        self._asked = numbers

    def computed(self, name: str, given: Sequence[Tensor], found: object) -> object:
        """Return what was found."""
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                number, rows = self.numbered()
                if number in self._asked:
                    self.tensors[number].append((leaf, rows))
        return found
