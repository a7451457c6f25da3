"""Running the graph of an exported program, operator by operator, as a module."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seatrial.ingest.exported.arguments import Argument, Place, TorchName, Value
from seatrial.ingest.exported.operators import ARITHMETIC, OPERATORS, PREFIX
from seatrial.ingest.exported.program import Program, Step
from workers.models.batch_passes import one_pass
from workers.models.memory import is_out_of_memory

LARGEST_SIZE = 2**48
"""Largest integer a graph may compute: beyond any size, and far from what an int64 holds."""


class ProgramError(RuntimeError):
    """An operator of the program cannot be run on what it is given; the message says which, the cause why."""


@dataclass(frozen=True)
class _Call:
    """A step with its operator at hand.

    Attributes:
        run: The operator.
        args: Of each positional argument: whether it is a value's number, and the number or the argument itself.
        kwargs: The same by name.
        has_nested: Whether an argument is a list that holds values, or a device.
        step: Where it came from.
    """

    run: Callable[..., Any]
    args: tuple[tuple[bool, Any], ...]
    kwargs: tuple[tuple[str, bool, Any], ...]
    has_nested: bool
    step: Step


class ExportedModule(nn.Module):
    """A frozen exported program; the same numbers, to the bit, as the module it was exported from, and its gradients.

    A batch larger than the program takes is computed in pieces, a smaller one is filled up with zeros.

    Args:
        program: The graph; its operators are on the list of those allowed.
        tensors: What it is given, by number.
    """

    def __init__(self, program: Program, tensors: Mapping[int, Tensor]) -> None:
        super().__init__()
        self.program = program
        self._names: list[tuple[int, str, bool]] = []
        for slot, source in program.sources.items():
            name = f"value_{slot}"
            if source.is_parameter:
                self.register_parameter(name, nn.Parameter(tensors[slot], requires_grad=False))
            else:
                self.register_buffer(name, tensors[slot])
            self._names.append((slot, name, source.is_parameter))
        self._calls = [_call(step) for step in program.steps]
        self._type: torch.dtype = getattr(torch, program.input_type)
        self.writes_to_images = False

    def forward(self, images: Tensor) -> Tensor:
        """Return float32 logits (batch, classes) of normalised images (batch, channels, height, width)."""
        batch = self.program.batch
        images = images.to(self._type)
        if batch.lowest <= len(images) and (batch.highest is None or len(images) <= batch.highest):
            return self._run(images).float()
        most = batch.highest or batch.lowest
        found = []
        for number, piece in enumerate(torch.split(images, most)):
            filled = _filled(piece, batch.lowest)
            # Around the program alone: its calls are the same in every pass.
            with one_pass(number, len(filled)):
                answers = self._run(filled)
            found.append(answers[: len(piece)])
        return torch.cat(found).float()

    def _run(self, images: Tensor) -> Tensor:
        program = self.program
        values: list[Any] = [None] * program.slots
        parameters, buffers = self._parameters, self._buffers
        for slot, name, is_parameter in self._names:
            values[slot] = parameters[name] if is_parameter else buffers[name]
        values[program.input] = images.clone() if self.writes_to_images else images
        for call in self._calls:
            try:
                _run_call(call, values, images.device)
            # What operators raise over arguments that do not fit has no common ancestor.
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                raise ProgramError(f"operator {call.step.target}") from error
        logits: Tensor = values[program.output]
        return logits


def find_writes(module: ExportedModule, images: Tensor) -> list[str]:
    """Run a module once, and return the names of the weights and constants it has written to.

    What it writes to its images is noted, and from then on it is given a copy of them.

    Args:
        module: May hold tensors without values.
        images: A batch it takes, beside its weights.
    """
    # Views share the counter with what they are views of, so that no way of writing is missed.
    own = {slot: module.get_parameter(n) if p else module.get_buffer(n) for slot, n, p in module._names}
    before = {slot: tensor._version for slot, tensor in own.items()}
    version = images._version
    module(images)
    module.writes_to_images = images._version != version
    return [module.program.sources[slot].name for slot, tensor in own.items() if tensor._version != before[slot]]


def _filled(images: Tensor, lowest: int) -> Tensor:
    """Return images with as many black ones behind them as make up a batch."""
    missing = lowest - len(images)
    return images if missing <= 0 else torch.cat([images, images.new_zeros(missing, *images.shape[1:])])


def _run_call(call: _Call, values: list[Any], device: torch.device) -> None:
    step = call.step
    if call.has_nested:
        result = call.run(
            *[_resolve(one, values, device) for one in step.args],
            **{name: _resolve(one, values, device) for name, one in step.kwargs.items()},
        )
    else:
        result = call.run(
            *[values[one] if is_value else one for is_value, one in call.args],
            **{name: values[one] if is_value else one for name, is_value, one in call.kwargs},
        )
    if step.is_several:
        if len(result) != len(step.outputs):
            raise ValueError(f"{len(result)} results, the graph names {len(step.outputs)}")
        for slot, one in zip(step.outputs, result, strict=True):
            if slot is not None:
                values[slot] = one
    elif step.outputs and step.outputs[0] is not None:
        values[step.outputs[0]] = result
    for slot in step.frees:
        values[slot] = None


def _call(step: Step) -> _Call:
    every = (*step.args, *step.kwargs.values())
    return _Call(
        run=_operator(step.target),
        args=tuple(_plain(one) for one in step.args),
        kwargs=tuple((name, *_plain(one)) for name, one in step.kwargs.items()),
        has_nested=any(isinstance(one, (tuple, Place)) and _varies(one) for one in every),
        step=step,
    )


def _operator(target: str) -> Callable[..., Any]:
    if target in ARITHMETIC:
        return _on_integers(getattr(operator, target.removeprefix("_operator.")))
    # The parser has refused all others; asked again where it matters.
    if target not in OPERATORS:
        raise ValueError(f"{target} is not on the list")
    name, overload = target.removeprefix(PREFIX).split(".")
    return getattr(getattr(torch.ops.aten, name), overload)  # type: ignore[no-any-return]


def _on_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*numbers: Any, **named: Any) -> int | bool:
        for number in (*numbers, *named.values()):
            if not isinstance(number, int):
                raise TypeError(f"an integer is needed, not a {type(number).__name__}")
        value: int | bool = function(*numbers, *named.values())
        if not -LARGEST_SIZE <= value <= LARGEST_SIZE:
            raise OverflowError("the graph computes a size beyond any memory")
        return value

    return compute


def _varies(argument: Argument) -> bool:
    if isinstance(argument, tuple):
        return any(_varies(one) for one in argument)
    return isinstance(argument, (Value, Place))


def _plain(argument: Argument) -> tuple[bool, Any]:
    if isinstance(argument, Value):
        return True, argument.slot
    return False, _constant(argument)


def _constant(argument: Argument) -> Any:
    if isinstance(argument, TorchName):
        return getattr(torch, argument.name)
    if isinstance(argument, tuple):
        return [_constant(one) for one in argument]
    return argument


def _resolve(argument: Argument, values: list[Any], device: torch.device) -> Any:
    if isinstance(argument, Value):
        return values[argument.slot]
    if isinstance(argument, tuple):
        return [_resolve(one, values, device) for one in argument]
    if argument is Place.HERE:
        return device
    return _constant(argument)
