"""Scores of the classes that a network computes on the way to its answer, which an attack may follow by themselves.

A network may answer by one copy of a classifier, and by another one only where the other's scores of several classes
are level. Until then no gradient of the answer leads there; that of the other's scores does, and whoever has the
weights can follow it. A network whose layers follow each other has no such scores but those it answers with.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from workers.attacks.gradients import Model
from workers.attacks.idle import Followed, Number, Numbered

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


def inner_scores(
    model: Model, images: Tensor, most: int, *, batch_size: int, check_cancelled: Callable[[], None]
) -> list[InnerScores]:
    """Return scores that lead to the answer, whose largest is mostly of the class that it predicts.

    The first are least like the answer, the others least like those before. Left out is what is a multiple of one, up
    to what is the same for all images or for all classes.

    Args:
        model: Differentiable.
        images: (n, ...).
        most: Scores, at most.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    # Of another length a batch may be filled up, and the numbers be others.
    batches = [part for part in torch.split(images, batch_size) if len(part) == min(batch_size, len(images))]
    seen, answers = defaultdict[InnerScores, list[Tensor]](list), list[Tensor]()
    for part in batches:
        check_cancelled()
        followed = part.detach().requires_grad_(True)
        with torch.enable_grad(), Followed(followed) as watch:
            logits = model(followed)
        answers.append(logits.detach())
        origins, runs = watch.origins(logits), defaultdict[Number, list[tuple[Tensor, int]]](list)
        for bit, one in enumerate(watch.results, 1):
            if origins >> bit & 1 and one.tensor.requires_grad:
                runs[one.number].append((one.tensor.detach(), one.rows))
        for number, tensors in runs.items():
            for view, scores in enumerate(_scores(tensors, *logits.shape)):
                seen[InnerScores(number, view)].append(scores)
    answer = torch.cat(answers)
    left = dict[InnerScores, Tensor]()
    for place, parts in seen.items():
        scores = torch.cat(parts)
        is_alike = len(parts) == len(batches) and _agreement(scores, answer) >= AGREEING
        if is_alike and (direction := _direction(scores)) is not None:
            left[place] = direction
    kept = [own for own in [_direction(answer)] if own is not None]
    found = list[InnerScores]()

    def likeness(place: InnerScores) -> float:
        return max(float(left[place] @ other) for other in kept)

    while kept and left and len(found) < most:
        place = min(left, key=likeness)
        if likeness(place) >= ALIKE:
            break
        found.append(place)
        kept.append(left.pop(place))
    return found


def beside_answer(model: Model, place: InnerScores) -> Model:
    """Return a model of images to its logits and, beside them, the scores: (n, 2 classes).

    Where a forward pass has none in that place, the logits stand for them.
    """

    def both(images: Tensor) -> Tensor:
        with _Reading(len(images), place.number) as watch:
            logits = model(images)
        views = list(_scores(watch.tensors, *logits.shape))
        scores = views[place.view].to(logits) if place.view < len(views) else logits
        return torch.cat([logits, scores], 1)

    return both


def _scores(tensors: Sequence[tuple[Tensor, int]], images: int, classes: int) -> Iterator[Tensor]:
    """Yield the scores (images, classes) of a tensor that is computed in one pass or several, each of so many rows."""
    views = [_views(tensor, rows, classes) for tensor, rows in tensors]
    for parts in zip(*views, strict=False):
        scores = torch.cat(parts)
        # The last pass may be filled up.
        if len(scores) >= images:
            yield scores[:images]


def _views(tensor: Tensor, rows: int, classes: int) -> list[Tensor]:
    count, rest = divmod(tensor.numel(), rows * classes)
    if rest or not 0 < count <= STACKED or not tensor.is_floating_point():
        return []
    if count == 1:
        return [tensor.reshape(rows, classes)]
    return [*tensor.reshape(count, rows, classes), *tensor.reshape(rows, count, classes).unbind(1)]


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
    """Keeps one tensor of every pass, with the rows of that.

    Attributes:
        tensors: It, in order.
    """

    def __init__(self, rows: int, number: Number) -> None:
        super().__init__(rows)
        self.tensors = list[tuple[Tensor, int]]()
        self._asked = number

    def computed(self, name: str, given: Sequence[Tensor], found: object) -> object:
        """Return what was found."""
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                number, rows = self.numbered()
                if number == self._asked:
                    self.tensors.append((leaf, rows))
        return found
