"""How long and how much memory a model takes per example: what estimates rest on."""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

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


def graph_bytes(module: nn.Module, run: Callable[[], object]) -> int:
    """Return the bytes that a forward pass in train mode keeps for the backward pass; weights and buffers are left out.

    Memory that several tensors share counts once. The module is left as it was: frozen, its buffers and the modes of
    its parts, and so is torch's generator.
    """
    parameters = [each for each in module.parameters() if each.is_floating_point()]
    own = {each.untyped_storage().data_ptr() for each in (*parameters, *module.buffers())}
    buffers = [(each, each.detach().clone()) for each in module.buffers()]
    modes = [(each, each.training) for each in module.modules()]
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        # Detached: a result that its own node keeps would never be freed.
        return tensor.detach()

    frozen = [each for each in parameters if not each.requires_grad]
    try:
        module.train()
        for each in frozen:
            each.requires_grad_(True)
        with torch.random.fork_rng(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = run()
        del result
    finally:
        for each in frozen:
            each.requires_grad_(False)
        for part, mode in modes:
            part.training = mode
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    return sum(size for place, size in kept.items() if place not in own)


def quadratic(values: Mapping[int, float]) -> tuple[float, float]:
    """Return a and b >= 0 of a n + b n^2 through one value, or the two that lie furthest apart.

    >>> quadratic({2: 10.0, 4: 28.0}), quadratic({5: 10.0})
    ((3.0, 1.0), (2.0, 0.0))
    """
    least, most = min(values), max(values)
    slope = values[most] / most
    if least == most or (bend := (slope - values[least] / least) / (most - least)) < 0:
        return slope, 0.0
    return slope - bend * most, bend


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
