"""Walking Thrift's compact protocol, which Parquet writes its headers in, without making an object per field.

Format: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Iterator

STRUCT, LIST, BINARY, MAP = 12, 9, 8, 11
_TRUE, _FALSE, _BYTE, _DOUBLE, _SET = 1, 2, 3, 7, 10
_INTEGERS = frozenset({4, 5, 6})
_MAX_DEPTH = 16


class ThriftError(ValueError):
    """The bytes are not what they claim to be, or too many values."""


class ThriftReader:
    """Reads forwards through some bytes.

    Args:
        data: The bytes.
        most_values: Fields and list elements it passes before it gives up.

    Attributes:
        position: Of the next byte.
    """

    def __init__(self, data: bytes, most_values: int) -> None:
        self.position = 0
        self._data = data
        self._left = most_values

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the id and type of each field of a struct; whoever iterates reads or skips its value.

        Raises:
            ThriftError: The struct does not end, or has too many fields.
        """
        last = 0
        while True:
            self._count(1)
            head = self._byte()
            kind, step = head & 15, head >> 4
            if not head:
                return
            last = last + step if step else self.integer()
            yield last, kind

    def integer(self) -> int:
        """Return a whole number of any width.

        Raises:
            ThriftError: It has no end.
        """
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Return a string.

        Raises:
            ThriftError: It ends beyond the bytes.
        """
        start = self._skip_binary()
        return self._data[start : self.position]

    def elements(self) -> tuple[int, int]:
        """Return how many elements a list has and their type.

        Raises:
            ThriftError: There are not even bytes for them.
        """
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._varint()
        if count > len(self._data) - self.position:
            raise ThriftError(f"a list claims {count:,} elements")
        self._count(count)
        return count, head & 15

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value.

        Raises:
            ThriftError: It has no end, or is nested too deeply.
        """
        if depth > _MAX_DEPTH:
            raise ThriftError(f"values are nested more than {_MAX_DEPTH} deep")
        if kind in _INTEGERS:
            self._varint()
        elif kind == BINARY:
            self._skip_binary()
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, _SET):
            count, inner = self.elements()
            # In a list, a boolean has a byte of its own.
            inner = _BYTE if inner in (_TRUE, _FALSE) else inner
            for _ in range(count):
                self.skip(inner, depth + 1)
        elif kind in (_BYTE, _DOUBLE):
            self._advance(1 if kind == _BYTE else 8)
        elif kind not in (_TRUE, _FALSE):
            raise ThriftError(f"type {kind} is not one Parquet has")

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise ThriftError("it describes more than any table needs")

    def _byte(self) -> int:
        self._advance(1)
        return self._data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ThriftError("a number has more than 10 bytes")

    def _skip_binary(self) -> int:
        length = self._varint()
        start = self.position
        self._advance(length)
        return start

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > len(self._data):
            raise ThriftError("it ends in the middle of a value")
