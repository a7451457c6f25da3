"""How much memory a pass takes, counted in tensors and not in what the allocator holds: the same on every machine."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def graph_bytes(module: nn.Module, run: Callable[[], object]) -> int:
    """Return the bytes that a forward pass in train mode keeps for the backward pass; weights and buffers are left out.

    Memory that several tensors share counts once. The module is left as it was: frozen, its buffers and the modes of
    its parts, and so is torch's generator.
    """
    parameters = [each for each in module.parameters() if each.is_floating_point()]
    buffers = [(each, each.detach().clone()) for each in module.buffers()]
    modes = [(each, each.training) for each in module.modules()]
    frozen = [each for each in parameters if not each.requires_grad]
    try:
        module.train()
        for each in frozen:
            each.requires_grad_(True)
        with torch.random.fork_rng():
            return _kept(module, run)
    finally:
        for each in frozen:
            each.requires_grad_(False)
        for part, mode in modes:
            part.training = mode
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


def attack_bytes(module: nn.Module, logits: Callable[[Tensor], Tensor], images: Tensor) -> int:
    """Return the bytes that a forward pass keeps for the gradient at its images; weights and buffers are left out."""
    return _kept(module, lambda: logits(images.clone().requires_grad_(True)))


def _kept(module: nn.Module, run: Callable[[], object]) -> int:
    own = {each.untyped_storage().data_ptr() for each in (*module.parameters(), *module.buffers())}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        # Detached: a result that its own node keeps would never be freed.
        return tensor.detach()

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    del result
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


def forward_bytes(module: nn.Module, run: Callable[[], object]) -> int:
    """Return the most bytes that a forward pass without a graph holds at once; weights, buffers and input are left out.

    Memory that several tensors share counts once, what a kernel takes for itself does not count.
    """
    living = _Living([*module.parameters(), *module.buffers()])
    with torch.no_grad(), living:
        run()
    return living.most


class _Living(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that operators have made and that are still held."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # A view of a weight is not made by the pass.
        self._seen = {each.untyped_storage().data_ptr() for each in known}
        self._held = 0
        self.most = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and take in what it returns."""
        inputs = {tensor.untyped_storage().data_ptr() for tensor in _dense((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for tensor in _dense(result):
            self._take(tensor.untyped_storage(), inputs)
        return result

    def _take(self, storage: torch.UntypedStorage, inputs: set[int]) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._seen or place in inputs:
            return
        self._seen.add(place)
        self._held += size
        self.most = max(self.most, self._held)
        weakref.finalize(storage, self._let_go, place, size)

    def _let_go(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self._held -= size


def _dense(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested values; those without memory of their own, as sparse ones, are passed over."""
    for one in tree_leaves(values):
        if isinstance(one, Tensor) and one.layout is torch.strided:
            yield one
