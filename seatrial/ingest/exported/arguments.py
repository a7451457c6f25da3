"""Arguments of an exported program's operators: numbers, names of types, and numbered values.

Format: ``Argument`` of ``torch/_export/serde/schema.py``: an object with one key, which says what the value is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from seatrial.ingest.inspection.errors import MalformedFileError, OperatorRefusedError

MAX_STRING = 200
"""Longest string an operator takes: a mode, an equation of ``einsum``."""

# Of `ScalarType`: name in torch, and bytes of one value. Complex and 8-bit floats have no place in a classifier.
TYPES: Mapping[int, tuple[str, int]] = {
    1: ("uint8", 1),
    2: ("int8", 1),
    3: ("int16", 2),
    4: ("int32", 4),
    5: ("int64", 8),
    6: ("float16", 2),
    7: ("float32", 4),
    8: ("float64", 8),
    12: ("bool", 1),
    13: ("bfloat16", 2),
}
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
_STRIDED = 7
_NOT_FINITE = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


@dataclass(frozen=True)
class Value:
    """A tensor or an integer that the graph has by then, by its number."""

    slot: int


@dataclass(frozen=True)
class TorchName:
    """An attribute of torch: ``float32``, ``channels_last``, ``strided``."""

    name: str


class Place(Enum):
    """Where to compute: wherever the model does, whatever the device of the machine it was exported on."""

    HERE = "here"


Argument: TypeAlias = bool | int | float | str | Value | TorchName | Place | tuple["Argument", ...] | None


def parse_argument(raw: Any, slots: Mapping[str, int], where: str) -> Argument:
    """Return an operator's argument.

    Args:
        raw: As the JSON has it.
        slots: Numbers of the values that are there by now, by name.
        where: The operator, for messages.

    Raises:
        MalformedFileError: It is none, or names a value that is not there.
        OperatorRefusedError: It is a graph, an operator, or an object of a class.

    >>> parse_argument({"as_sym_ints": [{"as_name": "n"}, {"as_int": 3}]}, {"n": 7}, "view")
    (Value(slot=7), 3)
    """
    kind, value = member(raw, where)
    if kind in ("as_graph", "as_operator", "as_custom_obj"):
        raise OperatorRefusedError(
            f"{where} takes {kind.removeprefix('as_').replace('_', ' ')}: operators that run graphs or objects of a "
            "class are not run"
        )
    parse = _PARSERS.get(kind)
    if parse is None:
        raise MalformedFileError(f"{where} has an argument of the kind {kind!r:.60}, which no operator here takes")
    try:
        return parse(value, slots)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MalformedFileError(f"{where} has an argument {kind} that cannot be read: {value!r:.100}") from error


def member(raw: Any, where: str) -> tuple[str, Any]:
    """Return the one key of a union and its value.

    Raises:
        MalformedFileError: It is none.
    """
    if not isinstance(raw, dict) or len(raw) != 1:
        raise MalformedFileError(f"{where}: {raw!r:.100} must be an object with one key")
    return next(iter(raw.items()))


def values_in(argument: Argument) -> Iterator[int]:
    """Yield the number of every value that an argument holds."""
    if isinstance(argument, Value):
        yield argument.slot
    elif isinstance(argument, tuple):
        for one in argument:
            yield from values_in(one)


def _integer(value: Any, _slots: Mapping[str, int]) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _boolean(value: Any, _slots: Mapping[str, int]) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _float(value: Any, _slots: Mapping[str, int]) -> float:
    if isinstance(value, str):
        return _NOT_FINITE[value]
    if type(value) not in (int, float):
        raise ValueError
    return float(value)


def _string(value: Any, _slots: Mapping[str, int]) -> str:
    if not isinstance(value, str) or len(value) > MAX_STRING:
        raise ValueError
    return value


def _tensor(value: Any, slots: Mapping[str, int]) -> Value:
    return Value(slots[value["name"]])


def _none(_value: Any, _slots: Mapping[str, int]) -> None:
    return None


def _type(value: Any, slots: Mapping[str, int]) -> TorchName:
    return TorchName(TYPES[_integer(value, slots)][0])


def _format(value: Any, slots: Mapping[str, int]) -> TorchName:
    return TorchName(_FORMATS[_integer(value, slots)])


def _layout(value: Any, _slots: Mapping[str, int]) -> TorchName:
    if value != _STRIDED:
        raise ValueError
    return TorchName("strided")


def _device(value: Any, _slots: Mapping[str, int]) -> Place:
    if not isinstance(value, dict):
        raise TypeError
    return Place.HERE


_Parser: TypeAlias = Callable[[Any, Mapping[str, int]], Argument]


def _of_union(**parsers: _Parser) -> _Parser:
    def parse(value: Any, slots: Mapping[str, int]) -> Argument:
        kind, inner = member(value, "an argument")
        return parsers[kind](inner, slots)

    return parse


def _named(value: Any, slots: Mapping[str, int]) -> Value:
    return Value(slots[_string(value, slots)])


def _each(parse: _Parser) -> _Parser:
    def parse_list(values: Any, slots: Mapping[str, int]) -> Argument:
        if not isinstance(values, list):
            raise TypeError
        return tuple(parse(value, slots) for value in values)

    return parse_list


_SYM_INT = _of_union(as_name=_named, as_int=_integer)
_SYM_BOOL = _of_union(as_name=_named, as_bool=_boolean)
_OPTIONAL_TENSOR = _of_union(as_tensor=_tensor, as_none=_none)
_PARSERS: Mapping[str, _Parser] = {
    "as_none": _none,
    "as_tensor": _tensor,
    "as_tensors": _each(_tensor),
    "as_optional_tensor": _OPTIONAL_TENSOR,
    "as_optional_tensors": _each(_OPTIONAL_TENSOR),
    "as_int": _integer,
    "as_ints": _each(_integer),
    "as_float": _float,
    "as_floats": _each(_float),
    "as_bool": _boolean,
    "as_bools": _each(_boolean),
    "as_string": _string,
    "as_sym_int": _SYM_INT,
    "as_sym_ints": _each(_SYM_INT),
    "as_sym_bool": _SYM_BOOL,
    "as_scalar_type": _type,
    "as_memory_format": _format,
    "as_layout": _layout,
    "as_device": _device,
}
