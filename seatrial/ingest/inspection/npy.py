"""Reading `.npy` headers and arrays inside an `.npz` as streams, without `eval` and without pickle.

Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seatrial.ingest.inspection.errors import ContentError, MalformedFileError, PickleRefusedError

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 64 * 1024
CHUNK_BYTES = 4 * 2**20

_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([^'"]*)['"]""")
_FORTRAN = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([\d,\sL]*)\)""")
_PLAIN_TYPE = re.compile(r"[<>|=]?([?biufcSU])(\d{0,6})")


@dataclass(frozen=True)
class ArrayHeader:
    """What stands before an array's values.

    Attributes:
        dtype: Type of a value, never ``object``.
        shape: Length of each axis.
        fortran_order: Whether the first axis changes fastest.
        data_offset: Bytes before the first value.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    data_offset: int

    @property
    def data_bytes(self) -> int:
        """Bytes of all values."""
        return prod(self.shape) * self.dtype.itemsize


def read_array_header(stream: BinaryIO, where: str) -> ArrayHeader:
    """Read the header of an array from a stream at its first byte.

    Args:
        stream: Afterwards positioned at the first value.
        where: The array, as its sender knows it.

    Raises:
        PickleRefusedError: An object array, whose values are a pickle.
        MalformedFileError: Not an array, or a damaged header.
        ContentError: A structured array.
    """
    prefix = _read_all(stream, 8, where)
    if not prefix.startswith(MAGIC):
        raise MalformedFileError(f"{where} is not a NumPy array")
    version = prefix[6]
    if version not in (1, 2, 3):
        raise MalformedFileError(f"{where}: unknown .npy version {version}")
    length_bytes = _read_all(stream, 2 if version == 1 else 4, where)
    length = int.from_bytes(length_bytes, "little")
    if length > MAX_HEADER_BYTES:
        raise MalformedFileError(f"{where}: the array's header claims {length:,} bytes")
    text = _read_all(stream, length, where).decode("utf-8" if version == 3 else "latin-1", "replace")
    return _parse(text, 8 + len(length_bytes) + length, where)


def _parse(text: str, data_offset: int, where: str) -> ArrayHeader:
    descr, fortran, shape = _DESCR.search(text), _FORTRAN.search(text), _SHAPE.search(text)
    if descr is not None and "O" in descr[1]:
        raise PickleRefusedError(
            f"{where} is an object array: its values are a pickle, which can run code when read. Save plain numbers: "
            "arrays of equal length and a dtype such as uint8, float32 or int64"
        )
    if descr is None or fortran is None or shape is None:
        if "descr" in text and "[" in text:
            if re.search(r"""['"][|<>=]?O\d*['"]""", text):
                raise PickleRefusedError(
                    f"{where} has object fields: their values are a pickle. Save plain arrays of numbers"
                )
            raise ContentError(f"{where} is a structured array: save its fields as arrays of their own")
        raise MalformedFileError(f"{where}: the array's header does not parse")
    plain = _PLAIN_TYPE.fullmatch(descr[1])
    axes = [axis.strip().rstrip("L") for axis in shape[1].split(",") if axis.strip()]
    if (
        plain is None
        or not all(axis.isascii() and axis.isdigit() and len(axis) <= 18 for axis in axes)
        or len(axes) > 32
    ):
        raise MalformedFileError(
            f"{where}: the array's header has the type {descr[1]!r:.40} and shape ({shape[1]:.100})"
        )
    try:
        dtype = np.dtype(descr[1])
    except TypeError as error:
        raise MalformedFileError(f"{where}: {descr[1]!r:.40} is not a type of number") from error
    if not dtype.itemsize:
        raise MalformedFileError(
            f"{where} has the type {descr[1]!r:.40}, whose values take no bytes: any number of them would fit into it"
        )
    return ArrayHeader(dtype, tuple(int(axis) for axis in axes), fortran[1] == "True", data_offset)


def read_chunks(stream: BinaryIO, header: ArrayHeader, where: str) -> Iterator[NDArray[Any]]:
    """Yield an array's values in file order, flat, a few MiB at a time.

    Raises:
        MalformedFileError: The stream ends too early.
    """
    itemsize = header.dtype.itemsize
    step = max(CHUNK_BYTES // itemsize, 1) * itemsize
    left = header.data_bytes
    while left:
        chunk = _read_all(stream, min(step, left), where)
        left -= len(chunk)
        yield np.frombuffer(chunk, dtype=header.dtype)


def read_array(stream: BinaryIO, header: ArrayHeader, where: str, *, max_bytes: int) -> NDArray[Any]:
    """Read a small array whole.

    Raises:
        MalformedFileError: The stream ends too early.
        ContentError: The array has more than ``max_bytes`` bytes.
    """
    if header.data_bytes > max_bytes:
        raise ContentError(f"{where} has {header.data_bytes:,} bytes; at most {max_bytes:,} are read")
    order = "F" if header.fortran_order else "C"
    values = np.frombuffer(_read_all(stream, header.data_bytes, where), dtype=header.dtype)
    return values.reshape(header.shape, order=order)  # type: ignore[call-overload,no-any-return]


def _read_all(stream: BinaryIO, size: int, where: str) -> bytes:
    parts, left = [], size
    while left:
        part = stream.read(left)
        if not part:
            raise MalformedFileError(f"{where} is truncated: {left:,} bytes are missing")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
