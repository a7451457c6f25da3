"""An ONNX file as plain data: operators, tensors by where they are in the file, inputs and outputs.

Format: ``onnx.proto3`` of IR versions 3 to 13. What can run or read something else is refused here: external data,
functions, operators of other domains, graphs inside of operators, training graphs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from seatrial.ingest.inspection.errors import (
    ContentError,
    MalformedFileError,
    OperatorRefusedError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.onnx.wire import Budget, floats, integers, message, signed, text

OPSETS = range(13, 24)
"""Versions of ONNX's operators that mean here what they mean there."""
ML_OPSETS = range(1, 6)
DOMAINS = {"": "", "ai.onnx": "", "ai.onnx.ml": "ai.onnx.ml"}
MAX_NODES = 20_000
MAX_FAN = 4096
MAX_AXES = 16
MAX_TENSORS = 50_000
MAX_LIST = 2**20
"""Most numbers an attribute lists; weights of a linear classifier are attributes."""

# Of `TensorProto.DataType`: name in torch, and bytes of one value.
TYPES = {
    1: ("float32", 4),
    2: ("uint8", 1),
    3: ("int8", 1),
    5: ("int16", 2),
    6: ("int32", 4),
    7: ("int64", 8),
    9: ("bool", 1),
    10: ("float16", 2),
    11: ("float64", 8),
}


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file.

    Attributes:
        type: Of its values, as torch calls it.
        sizes: Its shape.
        raw: Its values, little-endian, where they stand in the file or as read off its numbers.
    """

    type: str
    sizes: tuple[int, ...]
    raw: memoryview | bytes


@dataclass(frozen=True)
class Node:
    """An operator of the graph.

    Attributes:
        kind: Its name, that of its domain before it where it is not ONNX's own.
        inputs: Names of what it takes; empty for what is left out.
        outputs: Names of what it gives.
        attributes: By name.
        where: The operator, for messages.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    where: str


@dataclass
class Port:
    """An input or output of the graph: its name, type and sizes, None where one varies or nothing is said."""

    name: str = ""
    type: int = 0
    sizes: list[int | None] | None = None
    is_tensor: bool = True


@dataclass
class Model:
    """A file's graph."""

    opset: int = 0
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)


def parse_model(data: memoryview) -> Model:
    """Return the graph of a file.

    Raises:
        InspectionError: It is no ONNX file that can be read; the message says why.
    """
    return _Reader().model(data)


class _Reader:
    def __init__(self) -> None:
        self._budget = Budget()

    def model(self, data: memoryview) -> Model:
        model, graph, domains = Model(), None, {}
        for number, value in self._budget.fields(data):
            if number == 7:
                graph = message(value)
            elif number == 8:
                domain, version = self._opset(message(value))
                domains[domain] = version
            elif number in (20, 25):
                what = "a graph for training" if number == 20 else "functions of its own"
                raise OperatorRefusedError(f"the ONNX file holds {what}: export the model alone, for inference")
        if graph is None or "" not in domains:
            raise MalformedFileError("the file is not ONNX: it holds no graph, or does not say which operators it uses")
        _check_versions(domains)
        model.opset = domains[""]
        self._graph(graph, model)
        return model

    def _opset(self, data: memoryview) -> tuple[str, int]:
        domain, version = "", 0
        for number, value in self._budget.fields(data):
            if number == 1:
                domain = text(value)
            elif number == 2:
                version = signed(value)
        # Domains that no operator uses do no harm: exporters list them all.
        return DOMAINS.get(domain, domain), version

    def _graph(self, data: memoryview, model: Model) -> None:
        for number, value in self._budget.fields(data):
            if number == 1:
                if len(model.nodes) >= MAX_NODES:
                    raise UploadTooLargeError(f"the ONNX graph has more than {MAX_NODES:,} operators")
                model.nodes.append(self._node(message(value), len(model.nodes)))
            elif number == 5:
                name, tensor = self.tensor(message(value))
                if name in model.tensors or len(model.tensors) >= MAX_TENSORS:
                    raise MalformedFileError(f"the ONNX graph names the tensor {name!r:.100} twice, or has too many")
                model.tensors[name] = tensor
            elif number == 11:
                model.inputs.append(self._port(message(value)))
            elif number == 12:
                model.outputs.append(self._port(message(value)))
            elif number == 15:
                raise OperatorRefusedError("the ONNX graph holds sparse tensors: export it with dense ones")

    def _node(self, data: memoryview, position: int) -> Node:
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: dict[str, Any] = {}
        kind = domain = ""
        raw: list[memoryview] = []
        for number, value in self._budget.fields(data):
            if number == 1:
                inputs.append(text(value))
            elif number == 2:
                outputs.append(text(value))
            elif number == 4:
                kind = text(value)
            elif number == 5:
                raw.append(message(value))
            elif number == 7:
                domain = text(value)
        where = f"operator {position} of the ONNX graph ({domain + ':' if domain else ''}{kind[:60]})"
        if max(len(inputs), len(outputs)) > MAX_FAN:
            raise UploadTooLargeError(f"{where} takes or gives more than {MAX_FAN:,} values")
        if domain not in DOMAINS:
            raise OperatorRefusedError(
                f"{where} is of the domain {domain!r:.60}: custom operators are code that is not in the file, and are "
                "never loaded; export the model with ONNX's own operators"
            )
        for one in raw:
            name, told = self._attribute(one, where)
            attributes[name] = told
        full = f"{DOMAINS[domain]}:{kind}" if DOMAINS[domain] else kind
        return Node(full, tuple(inputs), tuple(outputs), attributes, where)

    def _attribute(self, data: memoryview, where: str) -> tuple[str, Any]:
        name = ""
        told: Any = None
        numbers: list[int] = []
        values: list[float] = []
        strings: list[str] = []
        for number, value in self._budget.fields(data):
            if number == 1:
                name = text(value)
            elif number == 2:
                told = float(value) if isinstance(value, (int, float)) else None
            elif number == 3:
                told = signed(value)
            elif number == 4:
                told = text(value)
            elif number == 5:
                told = self.tensor(message(value))[1]
            elif number == 7:
                values += floats(value)
            elif number == 8:
                numbers += integers(value, most=MAX_LIST)
            elif number == 9:
                strings.append(text(value))
            elif number in (6, 10, 11, 14, 15, 21, 22, 23):
                raise OperatorRefusedError(
                    f"{where} holds a graph, a sparse tensor or a reference: control flow is not run; export the model "
                    "without loops and conditions"
                )
            if len(numbers) + len(values) + len(strings) > MAX_LIST:
                raise UploadTooLargeError(f"{where} lists more than {MAX_LIST:,} values in one attribute")
        lists = next((one for one in (numbers, values, strings) if one), None)
        return name, lists if lists is not None else told

    def tensor(self, data: memoryview) -> tuple[str, Tensor]:
        """Return the name of a tensor and the tensor.

        Raises:
            InspectionError: Its values are elsewhere, or are not as many as its shape says.
        """
        sizes: list[int] = []
        name, kind = "", 0
        raw: memoryview | None = None
        parts: list[bytes] = []
        for number, value in self._budget.fields(data):
            if number == 1:
                sizes += integers(value, most=MAX_AXES)
            elif number == 2:
                kind = signed(value)
            elif number == 8:
                name = text(value)
            elif number == 9:
                raw = message(value)
            elif number in (4, 5, 7, 10):
                parts.append(_packed(number, value, kind))
            elif number == 13 or (number == 14 and value == 1):
                raise OperatorRefusedError(
                    f"the tensor {name!r:.100} of the ONNX file is in another file (external data): no path in an "
                    "upload is followed; save the model in one file, `onnx.save(model, path, "
                    "save_as_external_data=False)`"
                )
        where = f"the tensor {name!r:.100} of the ONNX file"
        if kind not in TYPES:
            raise ContentError(f"{where} has the type number {kind}, which no classifier here takes")
        type_, size = TYPES[kind]
        if len(sizes) > MAX_AXES or any(not 0 <= one < 2**31 for one in sizes):
            raise MalformedFileError(f"{where} has the shape {sizes!r:.100}")
        found = raw if raw is not None else b"".join(parts)
        if prod(sizes) * size != len(found):
            raise MalformedFileError(
                f"{where} of shape {sizes!r:.100} and type {type_} needs {prod(sizes) * size:,} bytes, and has "
                f"{len(found):,}"
            )
        return name, Tensor(type_, tuple(sizes), found)

    def _port(self, data: memoryview) -> Port:
        port = Port()
        for number, value in self._budget.fields(data):
            if number == 1:
                port.name = text(value)
            elif number == 2:
                self._type(message(value), port)
        return port

    def _type(self, data: memoryview, port: Port) -> None:
        port.is_tensor = False
        for number, value in self._budget.fields(data):
            if number != 1:
                continue
            port.is_tensor = True
            for inner, told in self._budget.fields(message(value)):
                if inner == 1:
                    port.type = signed(told)
                elif inner == 2:
                    port.sizes = list(self._sizes(message(told)))

    def _sizes(self, data: memoryview) -> Iterator[int | None]:
        for count, (number, value) in enumerate(self._budget.fields(data)):
            if count >= MAX_AXES:
                raise MalformedFileError(f"the ONNX graph takes or gives a tensor of more than {MAX_AXES} axes")
            if number == 1:
                size: int | None = None
                for inner, told in self._budget.fields(message(value)):
                    if inner == 1:
                        size = signed(told)
                # Some exporters write 0 or -1 for a size that varies.
                yield size if size is None or 0 < size < 2**31 else None


def _check_versions(domains: dict[str, int]) -> None:
    for domain, allowed, name in (("", OPSETS, "opset"), ("ai.onnx.ml", ML_OPSETS, "opset of ai.onnx.ml")):
        if domain in domains and domains[domain] not in allowed:
            raise UnsupportedFormatError(
                f"the ONNX file has {name} {domains[domain]}, and {allowed[0]} to {allowed[-1]} are read here: export "
                "it with opset 17, or convert it with `onnx.version_converter`"
            )


def _packed(number: int, value: object, kind: int) -> bytes:
    """Return the bytes of numbers that stand in a field of their own."""
    name = TYPES.get(kind, ("", 0))[0]
    if number in (4, 10):
        if not isinstance(value, memoryview):
            if isinstance(value, float):
                return np.array([value], dtype="<f4" if number == 4 else "<f8").tobytes()
            raise MalformedFileError("the ONNX file has other values where it must have numbers")
        return bytes(value)
    if name == "":
        raise MalformedFileError("a tensor of the ONNX file has values before its type")
    listed = integers(value, most=MAX_LIST)
    if name == "float16":
        return np.array([one & 0xFFFF for one in listed], dtype="<u2").tobytes()
    try:
        return np.array(listed, dtype=np.dtype(name).newbyteorder("<")).tobytes()
    except (OverflowError, TypeError) as error:
        raise MalformedFileError(f"a tensor of the ONNX file has values that are no {name}") from error
