"""ONNX files written by hand: no onnx, and in no time."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TYPES = {"float32": 1, "int64": 7, "float64": 11, "bool": 9}
WEIGHT = (np.arange(48, dtype="<f4").reshape(3, 16) - 24) / 24
BIAS = np.array([0.1, -0.2, 0.3], dtype="<f4")


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    told = bytearray()
    while value >= 0x80:
        told.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*told, value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Return one field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, values: np.ndarray, *more: bytes) -> bytes:
    dims = b"".join(field(1, size) for size in values.shape)
    kind = TYPES[values.dtype.name]
    return dims + field(2, kind) + field(8, name) + field(9, values.tobytes()) + b"".join(more)


def attribute(name: str, value: Any) -> bytes:
    told = field(1, name)
    if isinstance(value, list):
        return told + b"".join(field(8 if isinstance(one, int) else 7, one) for one in value)
    number = {float: 2, int: 3, str: 4, bytes: 5}[type(value)]
    return told + field(number, value)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str = "", **attributes: Any) -> bytes:
    told = b"".join(field(1, one) for one in inputs) + b"".join(field(2, one) for one in outputs) + field(4, kind)
    told += b"".join(field(5, attribute(name, value)) for name, value in attributes.items())
    return told + (field(7, domain) if domain else b"")


def port(name: str, sizes: Sequence[int | str], kind: int = 1) -> bytes:
    dims = b"".join(field(1, field(1, one) if isinstance(one, int) else field(2, one)) for one in sizes)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def model(
    nodes: Sequence[bytes],
    tensors: Mapping[str, np.ndarray | bytes],
    *,
    inputs: Sequence[bytes] = (port("x", ["n", 1, 4, 4]),),
    outputs: Sequence[bytes] = (port("y", ["n", 3]),),
    opset: int = 17,
    more: bytes = b"",
) -> bytes:
    """Return a file; ``tensors`` are arrays, or messages as they are."""
    graph = b"".join(field(1, one) for one in nodes)
    graph += b"".join(
        field(5, values if isinstance(values, bytes) else tensor(name, values)) for name, values in tensors.items()
    )
    graph += b"".join(field(11, one) for one in inputs) + b"".join(field(12, one) for one in outputs)
    domains = field(8, field(2, opset)) + field(8, field(1, "ai.onnx.ml") + field(2, 3))
    return field(1, 9) + domains + field(7, graph) + more


def linear(**changes: Any) -> bytes:
    """Return ``flatten, then gemm`` on images (1, 4, 4)."""
    nodes = [node("Flatten", ["x"], ["flat"]), node("Gemm", ["flat", "w", "b"], ["y"], transB=1)]
    return model(changes.pop("nodes", nodes), changes.pop("tensors", {"w": WEIGHT, "b": BIAS}), **changes)


def body(**changes: Any) -> dict[str, Any]:
    """Return the manifest of :func:`linear`."""
    return {
        "name": "graph",
        "version": "1",
        "task": "image-classification",
        "architecture": {"kind": "onnx"},
        "input": {"shape": [1, 4, 4], "mean": [0.0], "std": [1.0]},
        "labels": ["a", "b", "c"],
        **changes,
    }
