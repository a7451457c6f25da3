"""Passes on a GPU that are recorded once and replayed: a small network's kernels take longer to launch than to run."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

AFTER = 3
"""Passes of a shape before it is recorded: a search makes tens of them, the last examples of a batch one each."""

MOST = 16
"""Shapes recorded at a time: batches from which examples leave have many, and each holds a network's memory."""

_WARM_UPS = 3
"""Passes before a recording, in which libraries choose their kernels and allocate what they keep."""

Record = Callable[[Callable[[], Tensor]], tuple[Tensor, Callable[[], None]]]
"""Runs work once and returns what it returned, and a call that does it again into the same memory."""

WarmUp = Callable[[Callable[[], object]], None]
"""Runs work a few times, as it is run before it is recorded."""


class Replayed:
    """A frozen module whose passes at shapes that come again are replayed, with or without their way back.

    A replay runs the kernels that the recording ran, on other numbers, so it gives what the module gives; what a module
    decides in Python by what it sees cannot be recorded, and is not: recording it fails, and that shape is computed as
    ever. Whoever watches what a module does, by hooks, under a mode of torch's or a profiler, sees the module itself.

    Args:
        module: Inputs (n, ...) to outputs (n, classes); holds no parameters that want a gradient.
        record: How work is recorded; by default as CUDA graphs.
        warm_up: What is done before.
        after: Passes of a shape before it is recorded.
        most: Shapes recorded at a time; the one not used for longest goes.

    Attributes:
        module: The module.
    """

    def __init__(
        self,
        module: Callable[[Tensor], Tensor],
        *,
        record: Record | None = None,
        warm_up: WarmUp | None = None,
        after: int = AFTER,
        most: int = MOST,
    ) -> None:
        self.module = module
        self._by = on_gpu() if record is None else record, warm_up or beside
        self._after, self._most = after, most
        self._seen: Counter[Any] = Counter()
        self._recorded: OrderedDict[Any, _Recording | None] = OrderedDict()
        self._turns = _Turns()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return what the module returns; differentiable once with respect to ``inputs``."""
        if len(inputs) == 0 or _is_watched() or _is_changing(self.module):
            return self.module(inputs)
        wants_gradient = torch.is_grad_enabled() and inputs.requires_grad
        key = inputs.shape, inputs.stride(), inputs.dtype, wants_gradient
        recording = self._find(key, inputs, wants_gradient)
        if recording is None:
            return self.module(inputs)
        return _Pass.apply(inputs, recording) if wants_gradient else recording.forward(inputs)  # type: ignore[no-untyped-call]

    def _find(self, key: Any, inputs: Tensor, wants_gradient: bool) -> "_Recording | None":
        if key in self._recorded:
            self._recorded.move_to_end(key)
            return self._recorded[key]
        self._seen[key] += 1
        if self._seen[key] <= self._after:
            return None
        while len(self._recorded) >= self._most:
            self._seen.pop(self._recorded.popitem(last=False)[0])
        try:
            recording = _Recording(self.module, inputs, self._turns, *self._by, wants_gradient=wants_gradient)
        except RuntimeError:
            # It waits for the GPU within a pass, or there is no memory for it.
            recording = None
        self._recorded[key] = recording
        return recording


@dataclass
class _Turns:
    """Which pass wrote last into the memory that all recordings share."""

    last: int = 0

    def take(self) -> int:
        self.last += 1
        return self.last


class _Recording:
    """Passes of one shape."""

    def __init__(
        self,
        module: Callable[[Tensor], Tensor],
        inputs: Tensor,
        turns: _Turns,
        record: Record,
        warm_up: WarmUp,
        *,
        wants_gradient: bool,
    ) -> None:
        self._turns = turns
        self._inputs = torch.empty_like(inputs).copy_(inputs.detach()).requires_grad_(wants_gradient)
        live: list[Tensor] = []

        def forward() -> Tensor:
            with torch.set_grad_enabled(wants_gradient):
                live[:] = [module(self._inputs)]
            return live[0].detach()

        def backward() -> Tensor:
            # Raises where the outputs do not depend on the inputs.
            (found,) = torch.autograd.grad(live[0], self._inputs, self._gradient)
            return found

        self._gradient = torch.ones_like(forward())
        warm_up(lambda: (forward(), backward() if wants_gradient else None))
        # Whatever is recorded may lie where a pass under way has left something.
        self._turns.take()
        self._outputs, self._replay_forward = record(forward)
        if wants_gradient:
            self._back, self._replay_backward = record(backward)

    def forward(self, inputs: Tensor) -> Tensor:
        self._turns.take()
        with torch.no_grad():
            self._inputs.copy_(inputs)
        self._replay_forward()
        # The next pass writes over it.
        return self._outputs.clone()

    def backward(self, inputs: Tensor, gradient: Tensor, turn: int) -> Tensor:
        if turn != self._turns.last:
            # Another pass has been made since, or this way back: what it needs is no longer there.
            self.forward(inputs)
        self._turns.take()
        self._gradient.copy_(gradient)
        self._replay_backward()
        return self._back.clone()

    @property
    def turn(self) -> int:
        return self._turns.last


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, recording: _Recording) -> Tensor:
        context.save_for_backward(inputs)
        context.recording = recording
        outputs = recording.forward(inputs)
        context.turn = recording.turn
        return outputs

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (inputs,) = context.saved_tensors
        return context.recording.backward(inputs, gradient, context.turn), None


def beside(work: Callable[[], object]) -> None:
    """Run work a few times on a stream of its own: the way of :func:`torch.cuda.make_graphed_callables`."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(stream)


def on_gpu() -> Record:
    """Return a record of CUDA graphs that share their memory."""
    pool = torch.cuda.graph_pool_handle()

    def record(work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        graph = torch.cuda.CUDAGraph()
        # Other threads may go on allocating memory.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            found = work()
        return found, graph.replay

    return record


def _is_changing(module: Callable[[Tensor], Tensor]) -> bool:
    """Tell whether a module does more than compute: a replay runs no Python, and so no hook."""
    if not isinstance(module, nn.Module):
        return False
    return module.training or any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def _is_watched() -> bool:
    return bool(
        torch.is_inference_mode_enabled()
        or torch.is_autocast_enabled("cuda")
        or torch._C._autograd._profiler_enabled()
        or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
        or torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
    )
