"""How long a model takes per example, and on a GPU how much memory: what estimates rest on."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from workers.models.image_classifier import ImageClassifier

TIMED_EXAMPLES = 64
"""Examples of a timed batch, where memory allows: the default of an audit, cheaper per example than eight are."""

BUDGET_S = 0.5
MOST_RUNS = 50


def measure(classifier: ImageClassifier, images: Tensor, *, most: int) -> tuple[float, float, int | None]:
    """Return seconds per example of a forward pass and of forward and backward, and bytes per example where known.

    Args:
        classifier: The model.
        images: A few images (n, channels, height, width); repeated to a batch.
        most: Examples that fit into memory.
    """
    size = max(len(images), min(TIMED_EXAMPLES, most))
    batch = images.repeat(-(-size // len(images)), 1, 1, 1)[:size]

    def backward() -> None:
        leaf = batch.clone().requires_grad_(True)
        torch.autograd.grad(classifier.logits(leaf).logsumexp(1).sum(), leaf)

    def forward() -> None:
        with torch.no_grad():
            classifier.logits(batch)

    memory = None
    if classifier.device.type == "cuda":
        torch.cuda.synchronize(classifier.device)
        before = torch.cuda.memory_allocated(classifier.device)
        torch.cuda.reset_peak_memory_stats(classifier.device)
        backward()
        torch.cuda.synchronize(classifier.device)
        memory = (torch.cuda.max_memory_allocated(classifier.device) - before) // size
    return (
        shortest(forward, classifier.device) / size,
        shortest(backward, classifier.device) / size,
        memory,
    )


def shortest(run: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the shortest of several runs after a warm-up.

    Two runs were not enough: on a busy machine, one pause of the scheduler made a model's estimates wrong by a factor
    of up to 200 for as long as it was stored. Anything that disturbs a run makes it longer, so the shortest is the one.
    """
    best, spent = float("inf"), 0.0
    for attempt in range(MOST_RUNS + 1):
        started = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if attempt:
            seconds = time.perf_counter() - started
            best, spent = min(best, seconds), spent + seconds
        if attempt >= 3 and spent >= BUDGET_S:
            break
    return best
