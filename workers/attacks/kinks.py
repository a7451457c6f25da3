"""The kinks of a network: what is 0 where its functions bend, of every call of one."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from workers.attacks.altered_passes import Calls, numbers_of
from workers.attacks.bends import bends, is_known
from workers.attacks.gradients import Model
from workers.attacks.idle import Number
from workers.attacks.switching import function_name

UNITS = 4
"""Numbers of an image that go into a kink whose thresholds may meet, at least."""


@dataclass(frozen=True)
class Kink:
    """Where the calls of a function bend.

    Attributes:
        number: Of the call.
        which: Of several places where it does.
    """

    number: Number
    which: int = 0


class _Kinks(Calls):
    """Keeps what is 0 where functions bend; gradients lead on.

    Attributes:
        found: It, by kink: the numbers of each image in one pass after the other of a program.
        results: What the call of each returned that has a gradient.
    """

    def __init__(self, rows: int, asked: Collection[Kink] | None, most: int) -> None:
        super().__init__(rows)
        self._asked, self._most = None if asked is None else {one.number for one in asked}, most
        self.found = defaultdict[Kink, list[Tensor]](list)
        self.results = defaultdict[Kink, list[Tensor]](list)
        self._called: list[Kink] = []

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, as it is."""
        number, rows = self.numbered_call()
        self._called = []
        if self._asked is not None and number not in self._asked:
            return args, kwargs
        name = function_name(function)
        # What a call is given of which it is measured where it bends (workers.attacks.measured_bends).
        read = bends(name, args, kwargs) if self._asked is None or is_known(name) else _tensors((args, kwargs))
        for which, values in enumerate(read):
            if values.requires_grad and (numbers := numbers_of(values, rows)) is not None:
                # A copy, as it may be written into.
                self.found[kink := Kink(number, which)].append(some_of(numbers, self._most).clone())
                self._called.append(kink)
        return args, kwargs

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found."""
        for kink in self._called:
            self.results[kink] += [tensor for tensor in _tensors(found) if tensor.requires_grad]
        return found


def kinks_of(
    model: Model, images: Tensor, most: int, asked: Collection[Kink] | None = None
) -> tuple[Tensor, Mapping[Kink, Tensor]]:
    """Return the logits of images, and what is 0 where functions bend, by kink: (n, numbers), with gradients.

    Args:
        model: Differentiable.
        images: (n, ...).
        most: Numbers of an image, of more of which some from everywhere among them are looked at.
        asked: Kinks that are looked at; None: all that lead to the logits, but for those of the logits themselves.
    """
    followed = images if images.requires_grad else images.detach().requires_grad_(True)
    with torch.enable_grad(), _Kinks(len(images), asked, most) as watch:
        logits = model(followed)
        found = {kink: torch.cat(parts)[: len(images)] for kink, parts in watch.found.items() if _alike(parts)}
    kept = {kink: of for kink, of in found.items() if len(of) == len(images)}
    if asked is not None:
        return logits, {kink: of for kink, of in kept.items() if kink in asked}
    if not any(watch.results[kink] for kink in kept) or not logits.requires_grad:
        return logits, kept
    results = [(kink, result) for kink in kept for result in watch.results[kink]]
    slopes = torch.autograd.grad(logits.sum(), [of for _, of in results], retain_graph=True, allow_unused=True)
    leading = {kink for (kink, _), slope in zip(results, slopes, strict=True) if slope is not None}
    answering = {kink for kink, of in results if of is logits}
    # What a comparison returns has no gradient: who looks at it is not known.
    chosen = [kink for kink in kept if kink not in answering and (kink in leading or not watch.results[kink])]
    return logits, {kink: kept[kink] for kink in chosen}


def some_of(numbers: Tensor, most: int) -> Tensor:
    """Return every so many of the numbers of each image (n, numbers), ``most`` at most."""
    return numbers[:, :: -(-numbers.shape[1] // most)] if numbers.shape[1] > most else numbers


def _tensors(of: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(of) if isinstance(leaf, Tensor)]


def _alike(parts: Sequence[Tensor]) -> bool:
    return len({part.shape[1] for part in parts}) == 1
