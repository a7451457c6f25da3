"""Draws of noise through a model, added up: how often each class, and how the scores of one are distributed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from seatrial.families.shared.smoothing import NOISY_COPIES
from seatrial.statistics.arrays import Ints
from workers.certification.class_scores import ClassScores
from workers.certification.confidence import LEVELS
from workers.certification.grid import GRID, to_grid
from workers.certification.noise import BLOCK_VALUES, Noise
from workers.models.memory import is_out_of_memory, run_with_oom_split

Indices = Sequence[int] | Ints

UNITS = 2**28
"""Scores are rounded to multiples of 1 / UNITS, 1/16 of float32's step below 1, so that their sum is exact.

A float64 holds every multiple up to 2^25: the sum of 33 million draws does not depend on the order of additions.
"""
COUNTED_VALUES = 2**20
"""Logits held until they are counted, about: a GPU runs the dozen small kernels of counting for many images at once."""
TIES, TIES_OF_HALF = 2, 8
"""Of a few dozen copies, those whose two largest logits may be so close that another batch size swaps them.

One in a million is so close in float32. In half precision one in a hundred may be, and nine of 32 are once in 10^10
images.
"""


@dataclass(frozen=True)
class Selection:
    """What the selection draws showed.

    Attributes:
        counts: (batch, classes) int64, how often each class had the largest logit, the first on ties.
        answers: (batch, kept) int64, that class for the first draws.
    """

    counts: Tensor
    answers: Tensor


@dataclass
class DrawStatistics:
    """What the draws have shown so far, by example, on the device; its size does not depend on how many there were.

    Attributes:
        draws: (batch,) int64, draws so far.
        counts: (batch, classes) int64, how often each class had the largest logit, the first on ties.
        total: (batch,) float64, the sum of the candidate's scores.
        histogram: (batch, LEVELS) int32, the candidate's scores by cell min(floor(score LEVELS), LEVELS - 1). Where all
            classes' are counted elsewhere, (batch, 0).
        non_finite: (batch,) bool, some logit was not finite; the example's other numbers mean nothing then.
    """

    draws: Tensor
    counts: Tensor
    total: Tensor
    histogram: Tensor
    non_finite: Tensor


class Smoother:
    """Passes noisy copies of images through a model, one image at a time.

    Image and noise are added on the grid (:mod:`workers.certification.grid`): the model is given a function of an
    integer, and an image that is off the grid is rounded to it.

    Guarantee: an image's numbers depend on nothing but itself, its noise, the kind of device and at which draws it was
    extended; not on the images beside it, nor on which of them are still being drawn for. Extensions that end at
    multiples of NOISY_COPIES give the same bits as one; others may differ in the last bits of a score, because the size
    of a batch picks the kernels. It fails where memory runs out: passes are then halved, and stay so, and what is
    computed after that may differ in last bits too.

    Args:
        logits: Images (rows, channels, height, width) to logits (rows, classes). It leaves its input as it is,
            and keeps no view of it: the next copies are written there.
        classes: Number of logits.
        scalars: Further numbers of an image that stand behind its logits (rows, classes + scalars).
        check_cancelled: Called before every forward pass; may raise to stop. Statistics that were being extended are
            then spoilt.
        autocast: What the model may compute in. Scores are always computed in float32.
    """

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        *,
        classes: int,
        scalars: int = 0,
        check_cancelled: Callable[[], None] = lambda: None,
        autocast: torch.dtype | None = None,
    ) -> None:
        self._logits = logits
        self._classes, self._width = classes, classes + scalars
        self._check_cancelled = check_cancelled
        self._autocast = autocast
        self._fitting_batch: int | None = None
        self._takes_channels_last: bool | None = None

    def select(
        self, images: Tensor, noise: Noise, draws: int, example_ids: Sequence[int], *, keep: int = 0
    ) -> Selection:
        """Return which class had the largest logit in the first draws.

        Args:
            images: (batch, channels, height, width) in pixels.
            noise: Unrelated to what anything is then estimated with.
            draws: Draws from number 0 on, at least 1.
            example_ids: Ids of the images.
            keep: How many draws to tell one by one, at most.

        Raises:
            ValueError: Images, ids and noise do not fit each other.
            torch.OutOfMemoryError: One noisy copy alone does not fit.
        """
        kept = min(keep, draws)
        counts = torch.zeros(len(images), self._classes, dtype=torch.int64, device=images.device)
        answers = torch.full((len(images), kept), -1, dtype=torch.int64, device=images.device)
        for first, examples, logits in self._outputs(images, range(len(images)), noise, 0, draws, example_ids):
            found = logits[:, :, : self._classes].argmax(2)
            _count(counts, examples, found)
            if first < kept:
                answers[examples, first : first + found.shape[1]] = found[:, : kept - first]
        return Selection(counts, answers)

    def answers_apart(self, images: Tensor, noise: Noise, draws: int, example_ids: Sequence[int]) -> Tensor:
        """Return the class with the largest logit in each of the first draws (batch, draws) int64, asked for apart.

        A pass holds one copy of each image, with a draw of its own also where noise is shared, so that nothing in it
        tells what an image is without noise: neither a mean of copies nor a difference. Whether the answers are those
        of :meth:`select` shows whether the model is a function of one image; at most ``allowed_ties`` of a few dozen
        differ if it is.

        Args:
            images: (batch, channels, height, width) in pixels.
            noise: As given to :meth:`select`.
            draws: Draws from number 0 on, a few dozen.
            example_ids: Ids of the images.
        """
        steps, layout, held = to_grid(images), self._memory_format(images), max(1, BLOCK_VALUES // prod(noise.shape))
        found = torch.empty(len(images), draws, dtype=torch.int64, device=images.device)
        for low, high in _cut(0, draws, min(draws, held)):
            rows = max(1, min(high - low, held // (high - low)))
            for first, last in _cut(0, len(images), rows):
                # Independent noise is made example by example, and the one before is forgotten.
                drawn = torch.stack([noise.draws(low, high, one) for one in example_ids[first:last]])
                row = torch.arange(last - first, device=images.device)
                noisy = torch.empty((last - first, *noise.shape), device=images.device, memory_format=layout)
                logits = torch.empty(last - first, self._width, device=images.device)
                for number in range(high - low):
                    self._check_cancelled()
                    # Each row another draw.
                    which = (number + row) % (high - low)
                    self._add(steps[first:last], drawn[row, which], noisy)
                    self._forward(noisy, logits)
                    found[first + row, low + which] = logits[:, : self._classes].argmax(1)
        return found

    @property
    def allowed_ties(self) -> int:
        """Answers of a few dozen that may differ between two ways to ask for them."""
        return TIES_OF_HALF if self._autocast is not None else TIES

    def start(self, images: Tensor, scores: ClassScores | None = None) -> DrawStatistics:
        """Return the statistics of a batch of images before any draw; ``scores`` counts all classes beside them."""
        batch, device = len(images), images.device
        return DrawStatistics(
            draws=torch.zeros(batch, dtype=torch.int64, device=device),
            counts=torch.zeros(batch, self._classes, dtype=torch.int64, device=device),
            total=torch.zeros(batch, dtype=torch.float64, device=device),
            histogram=torch.zeros(batch, LEVELS if scores is None else 0, dtype=torch.int32, device=device),
            non_finite=torch.zeros(batch, dtype=torch.bool, device=device),
        )

    def extend(
        self,
        statistics: DrawStatistics,
        images: Tensor,
        candidates: Tensor,
        indices: Indices,
        noise: Noise,
        start: int,
        stop: int,
        example_ids: Sequence[int],
        scores: ClassScores | None = None,
    ) -> None:
        """Add draws ``start`` to ``stop`` of some examples to their statistics.

        Args:
            statistics: Statistics of the batch; changed in place.
            images: (batch, channels, height, width) in pixels.
            candidates: (batch,) int64, the class whose scores are wanted; the same in every extension.
            indices: Positions in the batch of the examples to extend, each once.
            noise: The same in every extension.
            start: First draw: as many as each of ``indices`` has.
            stop: One past the last draw.
            example_ids: (batch,) of the images.
            scores: What is to count all classes, of the same batch, as given to :meth:`start`; changed in place.

        Raises:
            ValueError: Images, ids and noise do not fit each other, or a draw would be left out or counted twice.
            torch.OutOfMemoryError: One noisy copy alone does not fit.
        """
        chosen = torch.as_tensor(np.asarray(indices, dtype=np.int64), device=images.device)
        if len(np.unique(indices)) != len(indices) or bool((statistics.draws[chosen] != start).any()):
            raise ValueError(f"draws from {start} on do not continue these examples, each once")
        for _, examples, outputs in self._outputs(images, indices, noise, start, stop, example_ids):
            logits = outputs[:, :, : self._classes]
            _add(statistics, examples, logits, candidates)
            if scores is not None:
                scores.add(examples, logits, outputs[:, :, self._classes :])
        statistics.draws[chosen] += stop - start

    def _outputs(
        self, images: Tensor, indices: Indices, noise: Noise, start: int, stop: int, example_ids: Sequence[int]
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the first draw, positions of examples (n,), and their logits and scalars (n, draws, classes + scalars).

        These are overwritten by the next.
        Block by block on the outside, so that shared noise is made once; pass by pass on the inside.
        """
        if tuple(images.shape[1:]) != noise.shape or len(example_ids) != len(images) or not 0 <= start < stop:
            raise ValueError(
                f"not to be drawn for: images {tuple(images.shape)}, {len(example_ids)} ids, noise for {noise.shape}, "
                f"draws {start} to {stop}"
            )
        positions = [int(index) for index in indices]
        if not positions:
            return
        kind = "cpu" if images.device.type == "cpu" else "cuda"
        length = min(noise.block, stop - start)
        together = min(max(1, COUNTED_VALUES // (length * self._width)), len(positions))
        steps, pass_size = to_grid(images), min(NOISY_COPIES[kind], length)
        if kind == "cpu":
            _keep_freed_memory()
        layout = self._memory_format(images)
        noisy = torch.empty((pass_size, *noise.shape), device=images.device, memory_format=layout)
        held = torch.empty(together, length, self._width, device=images.device)
        on_device = torch.tensor(positions, device=images.device)
        for first, last in _cut(start, stop, noise.block):
            for group in range(0, len(positions), together):
                members = positions[group : group + together]
                for slot, position in enumerate(members):
                    for low, high in _cut(first, last, NOISY_COPIES[kind]):
                        self._check_cancelled()
                        drawn = noise.draws(low, high, example_ids[position])
                        self._add(steps[position], drawn, noisy[: high - low])
                        self._forward(noisy[: high - low], held[slot, low - first : high - first])
                yield first, on_device[group : group + together], held[: len(members), : last - first]

    def _add(self, steps: Tensor, drawn: Tensor, out: Tensor) -> None:
        """Write what the network is given, as :func:`~workers.certification.grid.to_pixels`, without a copy more."""
        torch.add(steps, drawn, out=out).mul_(1 / GRID)

    def _forward(self, noisy: Tensor, out: Tensor) -> None:
        """Write logits and scalars (rows, classes + scalars) to ``out``, in pieces where memory runs out."""

        def piece(start: int, stop: int) -> int:
            with torch.inference_mode(), self._precision(noisy.device):
                out[start:stop] = self._logits(noisy[start:stop])
            return stop - start

        fitting = self._fitting_batch or len(noisy)
        for first in range(0, len(noisy), fitting):
            done = run_with_oom_split(piece, first, min(first + fitting, len(noisy)))
            if len(done) > 1:
                # Trying what does not fit again and again would cost more than the pass.
                self._fitting_batch = max(done)

    def _precision(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, self._autocast, enabled=self._autocast is not None)

    def _memory_format(self, images: Tensor) -> torch.memory_format:
        """Return how to lay out noisy copies: channels last where that is faster and the model takes it.

        The weights stay as they are: others use them too. On one CPU thread a ResNet-20 is 1.2 times as fast, 1.1 times
        in bfloat16; with one channel nothing is gained. The tensor cores of a GPU want it for half precision.
        """
        if images.shape[1] == 1 or (images.device.type != "cpu" and self._autocast is None):
            return torch.contiguous_format
        if self._takes_channels_last is None:
            self._takes_channels_last = self._try_channels_last(images)
        return torch.channels_last if self._takes_channels_last else torch.contiguous_format

    def _try_channels_last(self, images: Tensor) -> bool:
        # Some models flatten by view(), which refuses any other layout than they were written for.
        probe = images[:1].clone(memory_format=torch.channels_last)
        try:
            self._forward(probe, torch.empty(1, self._width, device=images.device))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            return False
        return True


def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory instead of giving it back; elsewhere nothing happens.

    What a forward pass frees, it gives back and faults in again in the next pass, or not, as the heap happens to lie: a
    small CNN took 2.3 times as long in some processes, with 3.5 MB of faults a pass. Freeing a mapped chunk raises the
    threshold to twice its size (mallopt(3), M_MMAP_THRESHOLD), and 32 MiB is the largest that does. It is never
    touched, so it costs microseconds.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def _cut(start: int, stop: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range between multiples of ``length``."""
    for first in range(start - start % length, stop, length):
        yield max(first, start), min(first + length, stop)


def _count(counts: Tensor, examples: Tensor, cells: Tensor) -> None:
    """Add 1 to ``counts`` (batch, k) in each of an example's ``cells`` (n, draws)."""
    flat = (examples.unsqueeze(1) * counts.shape[1] + cells).flatten()
    counts.view(-1).scatter_add_(0, flat, torch.ones_like(flat, dtype=counts.dtype))


def _add(statistics: DrawStatistics, examples: Tensor, logits: Tensor, candidates: Tensor) -> None:
    """Add logits (n, draws, classes) of ``examples`` (n,) to the statistics; nothing here waits for a GPU."""
    # By the logits: the softmax of two that differ may be the same.
    _count(statistics.counts, examples, logits.argmax(2))
    classes = candidates[examples].view(-1, 1, 1).expand(-1, logits.shape[1], 1)
    scores = logits.softmax(2).gather(2, classes).squeeze(2)
    units = scores.nan_to_num_(nan=0.0).mul_(UNITS).round_().long()
    statistics.total.index_add_(0, examples, units.sum(1).double() / UNITS)
    if statistics.histogram.shape[1]:
        _count(statistics.histogram, examples, (units // (UNITS // LEVELS)).clamp_(max=LEVELS - 1))
    # 0 times what is not finite is NaN. isfinite() takes ten times as long on a CPU.
    statistics.non_finite[examples] |= logits.mul(0).sum((1, 2)).isnan()
