"""An ONNX graph as steps over numbered values, in the operators exported programs may name.

ONNX computes sizes by tensors (``Shape``, ``Gather``, ``Concat``, ``Reshape``). Here such a tensor is a list of
integers, known or worked out by the graph's own integer operators when it runs: see :class:`Ints`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from seatrial.ingest.exported.arguments import Argument, TorchName, Value
from seatrial.ingest.exported.operators import ARITHMETIC, OPERATORS, PREFIX
from seatrial.ingest.exported.program import Batch, Program, Source, Step, with_frees
from seatrial.ingest.inspection.errors import (
    ContentError,
    MalformedFileError,
    OperatorRefusedError,
    UploadTooLargeError,
)
from seatrial.ingest.onnx.model import MAX_FAN, TYPES, Model, Node, Port, Tensor

MAX_STEPS = 100_000
MAX_REFERENCES = 500_000
MAX_KNOWN = 1024
"""Most values of a tensor that may be a list of sizes or axes."""

Size: TypeAlias = int | Value


@dataclass(frozen=True)
class Ints:
    """A tensor of whole numbers that says sizes or axes.

    Attributes:
        values: The numbers, or numbers of values that the graph works out.
        is_scalar: Whether it has no axis.
    """

    values: tuple[Size, ...]
    is_scalar: bool = False


@dataclass(frozen=True)
class Shape:
    """All sizes of a tensor whose number of axes is not known: those asked for are looked up."""

    tensor: Value


Item: TypeAlias = Value | Tensor | Ints | Shape
Operator: TypeAlias = Callable[["Lowering", Node], Item | list[Item]]


class Lowering:
    """What a graph has become so far: steps, and by name what each value is.

    Args:
        model: The graph.
        operators: How each operator is written in torch's, by its name.
    """

    def __init__(self, model: Model, operators: Mapping[str, Operator]) -> None:
        self._model = model
        self._operators = operators
        self._items: dict[str, Item] = dict(model.tensors)
        self._steps: list[Step] = []
        self._slots = 0
        self._references = 0
        self.tensors: dict[int, Tensor] = {}
        self._placed: dict[int, Value] = {}
        self.opset = model.opset

    def program(self, output: str | None, *, is_probability: bool = False) -> Program:
        """Return the program that computes one output.

        Args:
            output: Its name; None: the only one that holds a row of numbers for each example.
            is_probability: Whether it gives probabilities; their logarithms are logits.

        Raises:
            InspectionError: It cannot be run; the message says why.
        """
        taken = self._input()
        given = _output(self._model.outputs, output)
        start = self.new()
        self._items[taken.name] = start
        for node in self._needed(given.name):
            self._lower(node)
        result = self._items.get(given.name)
        if result is None:
            raise MalformedFileError(f"the ONNX graph gives {given.name!r:.100}, which no operator of it computes")
        last = self._logits(self.value(result), is_probability)
        sizes, shape = taken.sizes or [], given.sizes or [None, None]
        if len(sizes) < 2 or len(shape) != 2:
            raise ContentError(
                f"the ONNX graph takes {_told(sizes)} and gives {_told(shape)}: it must take a batch of examples, and "
                "give a row of logits for each"
            )
        return Program(
            steps=with_frees(self._steps, keep={last.slot, *self.tensors}),
            sources={
                slot: Source("onnx", f"tensor {slot}", is_parameter=one.type.startswith("float"))
                for slot, one in self.tensors.items()
            },
            slots=self._slots,
            input=start.slot,
            output=last.slot,
            input_type=TYPES[taken.type][0],
            input_shape=tuple(sizes[1:]),
            output_shape=tuple(shape[1:]),
            batch=Batch(sizes[0], sizes[0]) if sizes[0] is not None and sizes[0] > 1 else Batch(1, sizes[0]),
        )

    def _logits(self, last: Value, is_probability: bool) -> Value:
        """Return the logits behind an output: what goes into a softmax at its end; else logarithms of probabilities."""
        made_by = {one: step for step in self._steps for one in step.outputs}
        step = made_by.get(last.slot)
        while step is not None and step.target == f"{PREFIX}to.dtype":
            step = made_by.get(step.references()[0])
        if step is not None and step.target == f"{PREFIX}softmax.int" and step.args[1] in (1, -1):
            return Value(step.references()[0])
        if step is not None and step.target == f"{PREFIX}sigmoid.default":
            return self.run("log_sigmoid.default", Value(step.references()[0]))
        if not is_probability:
            return last
        return self.run("log.default", self.run("clamp_min.default", last, 1e-30))

    def _input(self) -> Port:
        # Of old files: tensors stand among the inputs as well.
        ports = [port for port in self._model.inputs if port.name not in self._model.tensors]
        if len(ports) != 1 or not ports[0].is_tensor or ports[0].type not in TYPES:
            raise ContentError(
                f"the ONNX graph takes {len(ports)} inputs ({', '.join(repr(port.name) for port in ports[:5])[:200]}): "
                "it must take one tensor, a batch of examples; a pipeline takes all its columns as one matrix"
            )
        return ports[0]

    def _needed(self, output: str) -> list[Node]:
        """Return the operators that the output needs, in order: a classifier's label is computed beside its scores."""
        wanted, needed = {output}, []
        for node in reversed(self._model.nodes):
            if not wanted.isdisjoint(node.outputs):
                needed.append(node)
                wanted.update(one for one in node.inputs if one)
        return list(reversed(needed))

    def _lower(self, node: Node) -> None:
        operator = self._operators.get(node.kind)
        if operator is None:
            raise OperatorRefusedError(f"{node.where} is not one of the operators that are run: {_hint(node.kind)}")
        try:
            given = operator(self, node)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise MalformedFileError(
                f"{node.where} has inputs or attributes that do not fit it: {error!r:.100}"
            ) from error
        results = given if isinstance(given, list) else [given]
        for name, item in zip(node.outputs, results, strict=False):
            if name in self._items:
                raise MalformedFileError(f"the ONNX graph names the value {name!r:.100} twice")
            if name:
                self._items[name] = item

    def item(self, node: Node, position: int) -> Item | None:
        """Return what an operator takes at a position; None where it is left out.

        Raises:
            MalformedFileError: No operator before it computes that.
        """
        name = node.inputs[position] if position < len(node.inputs) else ""
        if not name:
            return None
        if name not in self._items:
            raise MalformedFileError(f"{node.where} takes {name!r:.100}, which nothing before it computes")
        return self._items[name]

    def taken(self, node: Node, position: int) -> Value:
        """Return a tensor an operator takes."""
        item = self.item(node, position)
        if item is None:
            raise MalformedFileError(f"{node.where} lacks its input {position}")
        return self.value(item)

    def value(self, item: Item) -> Value:
        """Return an item as a tensor of the graph.

        Raises:
            OperatorRefusedError: It is a size that varies.
        """
        if isinstance(item, Value):
            return item
        if isinstance(item, (Ints, Shape)):
            if isinstance(item, Shape) or not all(isinstance(one, int) for one in item.values):
                raise OperatorRefusedError(
                    "the ONNX graph computes with the batch's size as a number: export it with sizes that are fixed "
                    "but for the batch"
                )
            item = _as_tensor(item)
        key = id(item)
        if key not in self._placed:
            self._placed[key] = self.new()
            self.tensors[self._placed[key].slot] = item
        return self._placed[key]

    def ints(self, node: Node, position: int) -> Ints | None:
        """Return sizes or axes that an operator takes; None where they are left out.

        Raises:
            OperatorRefusedError: They depend on values of examples.
        """
        item = self.item(node, position)
        if item is None or isinstance(item, Ints):
            return item
        found = known_ints(item) if isinstance(item, Tensor) else None
        if found is None:
            what = (
                "all sizes of a value" if isinstance(item, Shape) else "a shape that depends on the values of examples"
            )
            raise OperatorRefusedError(
                f"{node.where} takes {what}: export it with sizes that are fixed but for the batch"
            )
        return found

    def known(self, node: Node, position: int) -> tuple[int, ...] | None:
        """Return whole numbers that do not vary; None where they are left out."""
        found = self.ints(node, position)
        if found is None:
            return None
        values = tuple(one for one in found.values if isinstance(one, int))
        if len(values) != len(found.values):
            raise OperatorRefusedError(f"{node.where} takes axes that vary")
        return values

    def number(self, node: Node, position: int) -> float | None:
        """Return the one number an operator takes; None where it is left out."""
        item = self.item(node, position)
        if item is None:
            return None
        if not isinstance(item, Tensor) or prod(item.sizes) != 1:
            raise OperatorRefusedError(f"{node.where} takes a bound that varies")
        return float(values_of(item).reshape(())[()])

    def new(self) -> Value:
        """Return the next value."""
        self._slots += 1
        return Value(self._slots - 1)

    def run(self, name: str, *args: Argument, outputs: int = 1, several: bool = False, **named: Argument) -> Value:
        """Add a step, and return its first result."""
        return self.run_all(name, *args, outputs=outputs, several=several, **named)[0]

    def run_all(
        self, name: str, *args: Argument, outputs: int = 1, several: bool = False, **named: Argument
    ) -> list[Value]:
        """Add a step, and return its results."""
        target = name if name in ARITHMETIC else PREFIX + name
        if target not in OPERATORS and target not in ARITHMETIC:
            raise AssertionError(f"{target} is not on the list")
        results = [self.new() for _ in range(outputs)]
        step = Step(target, args, named, tuple(one.slot for one in results), several or outputs > 1)
        taken = len(step.references())
        self._references += taken
        if len(self._steps) >= MAX_STEPS or taken > MAX_FAN or self._references > MAX_REFERENCES:
            raise UploadTooLargeError(
                f"the ONNX graph takes more than {MAX_STEPS:,} steps, or {MAX_FAN:,} values in one of them"
            )
        self._steps.append(step)
        return results


def values_of(tensor: Tensor) -> np.ndarray:
    """Return a small tensor's values."""
    kind = np.dtype(tensor.type).newbyteorder("<")
    return np.frombuffer(tensor.raw, dtype=kind).reshape(tensor.sizes)


def known_ints(tensor: Tensor) -> Ints | None:
    """Return a tensor as whole numbers; None where it is no list of them."""
    if tensor.type not in ("int64", "int32") or len(tensor.sizes) > 1 or prod(tensor.sizes) > MAX_KNOWN:
        return None
    return Ints(tuple(int(one) for one in values_of(tensor).reshape(-1)), is_scalar=not tensor.sizes)


def _as_tensor(item: Ints) -> Tensor:
    known = [one for one in item.values if isinstance(one, int)]
    sizes = () if item.is_scalar else (len(known),)
    return Tensor("int64", sizes, np.array(known, dtype="<i8").tobytes())


def cast_name(code: object) -> TorchName:
    """Return the type of a number of ``TensorProto.DataType``."""
    if not isinstance(code, int) or code not in TYPES:
        raise ValueError(f"type {code!r:.20}")
    return TorchName(TYPES[code][0])


def _output(ports: Sequence[Port], name: str | None) -> Port:
    listed = ", ".join(repr(port.name) for port in ports[:10])[:300]
    if name is not None:
        found = [port for port in ports if port.name == name]
        if not found:
            raise ContentError(
                f"the ONNX graph gives no {name!r:.100}; it gives {listed}", field="/manifest/architecture/output"
            )
        chosen = found[0]
    else:
        rows = [
            port
            for port in ports
            if port.is_tensor
            and TYPES.get(port.type, ("", 0))[0].startswith("float")
            and len(port.sizes or [0, 0]) == 2
        ]
        if len(rows) != 1:
            raise ContentError(
                f"the ONNX graph gives {listed}, and {len(rows)} of these are rows of numbers: say which by `output` "
                "of the architecture. Of scikit-learn, convert with `options={'zipmap': False}`",
                field="/manifest/architecture",
            )
        chosen = rows[0]
    return chosen


_OTHER_DOORS = (
    "send its predictions (`seatrial gate --predictions`), or serve it by onnxruntime and describe it as an endpoint, "
    "which is attacked by scores and decisions"
)


def _hint(kind: str) -> str:
    if "TreeEnsemble" in kind or "SVM" in kind:
        return f"it has no gradients; {_OTHER_DOORS}"
    if kind == "ai.onnx.ml:ZipMap":
        return "convert with `options={'zipmap': False}`"
    if kind in ("If", "Loop", "Scan"):
        return "control flow is not run; export the model without it"
    if kind.startswith("Random") or kind in ("Bernoulli", "Multinomial"):
        return "a classifier draws no random numbers when it is used"
    return f"export the model with other operators; or {_OTHER_DOORS}"


def _told(sizes: Sequence[int | None]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in sizes)}]"
