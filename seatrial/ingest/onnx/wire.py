"""Protocol buffers on the wire: fields of a message, found without copying a byte.

Format: https://protobuf.dev/programming-guides/encoding. A message is a run of fields, each a number, a type and a
value; nothing in it says what a field means, and nothing is executed.
"""

import struct
from collections.abc import Iterator

from seatrial.ingest.inspection.errors import MalformedFileError

MAX_FIELDS = 2_000_000
"""Most fields of all messages of a file; a graph of 20,000 operators has some 500,000."""
MAX_NAME = 1000
"""Longest name of a value, an operator or an attribute."""

Field = tuple[int, int | float | memoryview]


class Budget:
    """Counts the fields read, so that a file made of nothing else ends."""

    def __init__(self) -> None:
        self._left = MAX_FIELDS

    def fields(self, data: memoryview) -> Iterator[Field]:
        """Yield the number and value of every field of a message: an integer, a float32, or bytes.

        Raises:
            MalformedFileError: It is no message, or there are too many fields.
        """
        at, end = 0, len(data)
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise MalformedFileError(f"the ONNX file has more than {MAX_FIELDS:,} fields")
            key, at = _varint(data, at)
            number, kind = key >> 3, key & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield number, value
            elif kind == 2:
                length, at = _varint(data, at)
                if length > end - at:
                    raise MalformedFileError("the ONNX file ends within a value: it is damaged, or not ONNX")
                yield number, data[at : at + length]
                at += length
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
                if length > end - at:
                    raise MalformedFileError("the ONNX file ends within a number: it is damaged, or not ONNX")
                yield number, float(struct.unpack_from("<d" if kind == 1 else "<f", data, at)[0])
                at += length
            else:
                raise MalformedFileError(f"the ONNX file has a field of the unknown type {kind}: is it ONNX?")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise MalformedFileError("the ONNX file holds no number where one must be: it is damaged, or not ONNX")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7


def signed(value: object) -> int:
    """Return a 64-bit integer, which is negative where its highest bit is set.

    >>> signed(2**64 - 1)
    -1

    Raises:
        MalformedFileError: It is none.
    """
    if not isinstance(value, int):
        raise MalformedFileError("the ONNX file has other values where it must have whole numbers")
    return value - 2**64 if value >= 2**63 else value


def integers(value: object, *, most: int) -> list[int]:
    """Return the integers of a repeated field, one or many packed together.

    Raises:
        MalformedFileError: They are none, or more than ``most``.
    """
    if not isinstance(value, memoryview):
        return [signed(value)]
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(signed(one))
        if len(found) > most:
            raise MalformedFileError(f"the ONNX file lists more than {most:,} whole numbers where sizes must be")
    return found


def floats(value: object) -> list[float]:
    """Return the float32 numbers of a repeated field, one or many packed together."""
    if isinstance(value, float):
        return [value]
    if not isinstance(value, memoryview) or len(value) % 4 or len(value) > 2**22:
        raise MalformedFileError("the ONNX file has other values where it must have numbers")
    return list(struct.unpack(f"<{len(value) // 4}f", value))


def text(value: object) -> str:
    """Return a string.

    Raises:
        MalformedFileError: It is none, or too long.
    """
    if not isinstance(value, memoryview) or len(value) > MAX_NAME:
        raise MalformedFileError(f"the ONNX file has a name that is none, or longer than {MAX_NAME:,} bytes")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise MalformedFileError("the ONNX file has a name that is not UTF-8") from error


def message(value: object) -> memoryview:
    """Return an embedded message.

    Raises:
        MalformedFileError: It is none.
    """
    if not isinstance(value, memoryview):
        raise MalformedFileError("the ONNX file has a number where a message must be")
    return value
