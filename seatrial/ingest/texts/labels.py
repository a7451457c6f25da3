"""Labels as tables write them: class numbers or class names, one kind per column."""

import re
from collections.abc import Collection, Sequence

from seatrial.ingest.inspection.errors import ContentError, InspectionError, ManifestMismatchError

MAX_CLASSES = 100_000
MAX_NAME_CHARS = 200
"""Longest class name taken from a file; a column of longer ones holds texts, not labels."""

_NUMBER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]+)")
# What pandas and others write for a value that is not there.
_MISSING = frozenset({"nan", "NaN", "null", "NULL"})
_DIGITS = 18


class LabelColumn:
    """Reads the labels of a column one by one and refuses the first that is none, or of another kind than the others.

    A whole number, also one in quotes, is a class number from 0; other text is a class name, spaces around it dropped.

    Args:
        name: Of the column, for messages.
        known: Class names in the order of their numbers, where they are known: no others may occur then.
        field: JSON pointer to where ``known`` came from.
        only_names: Whether numbers are names too, as in CoNLL-U.
    """

    def __init__(
        self, name: str, known: Sequence[str] | None, *, field: str = "/file", only_names: bool = False
    ) -> None:
        self._name = name
        self._known = None if known is None else {known_name: number for number, known_name in enumerate(known)}
        self._limit = MAX_CLASSES if known is None else len(known)
        self._field = field
        self._only_names = only_names
        self._is_number: bool | None = None
        self._since = ""
        # Class names as the file has them: most cells hold what an earlier one did.
        self._seen: dict[str, str] = {}

    def read(self, value: object, where: str, position: int | None = None) -> int | str:
        """Return a class number or a class name.

        Args:
            value: As the file has it.
            where: The row, for messages.
            position: Place in a list of labels.

        Raises:
            ContentError: It is no label.
            ManifestMismatchError: It is not among the known names.
        """
        if type(value) is str and value in self._seen:
            return self._seen[value]
        place = f"{where}, column {self._name!r}" + ("" if position is None else f", item {position}")
        number = self._number(value, place)
        if number is not None:
            self._same_kind(True, value, place)
            if not 0 <= number < self._limit:
                raise self._out_of_range(number, place)
            return number
        name = self._class_name(str(value), place)
        self._same_kind(False, value, place)
        if name not in self._seen:
            if len(self._seen) >= MAX_CLASSES:
                raise ContentError(
                    f"{place}: the labels are more than {MAX_CLASSES:,} different names: is this the right column?",
                    field=self._field,
                )
            self._seen[name] = name
        return name

    def _number(self, value: object, place: str) -> int | None:
        """Return a class number, or None for what must be a name."""
        if value is None or value != value:
            raise ContentError(f"{place}: the label is missing: every example needs one")
        if isinstance(value, bool):
            raise ContentError(f"{place}: the label is {str(value).lower()}: write class numbers, 0 or 1, or names")
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            if not value.is_integer():
                raise ContentError(f"{place}: the label is {value!r}: class numbers are whole, from 0")
            return int(value)
        if isinstance(value, str):
            text = value.strip()
            if self._only_names or not _NUMBER.fullmatch(text):
                return None
            # No class has such a number, and Python refuses to read very long ones.
            return int(text) if len(text) <= _DIGITS else MAX_CLASSES * (-1 if text.startswith("-") else 1)
        if isinstance(value, list):
            raise ContentError(
                f"{place}: the label is a list: for several labels per text, the task is multi-label-classification",
                field="/manifest/task",
            )
        raise ContentError(f"{place}: the label is an object: write a class number from 0, or a class name")

    def _class_name(self, value: str, place: str) -> str:
        name = value.strip()
        if self._known is not None:
            if value in self._known or name in self._known:
                return value if value in self._known else name
        elif _DECIMAL.fullmatch(name):
            raise ContentError(
                f"{place}: the label is {name[:50]!r}: class numbers are written without decimals, 1 and not 1.0"
            )
        elif len(name) > MAX_NAME_CHARS:
            raise ContentError(
                f"{place}: the label {name[:50] + '...'!r} has {len(name):,} characters, more than {MAX_NAME_CHARS}: "
                "is this the right column?"
            )
        if not name or name in _MISSING:
            raise ContentError(f"{place}: the label is missing ({value[:50]!r}): every example needs one")
        if self._known is not None:
            raise ManifestMismatchError(
                f"{place}: the label {name!r:.200} is not among the class names ({_some(self._known)})",
                field=self._field,
            )
        check_characters(name, place)
        return name

    def _same_kind(self, is_number: bool, value: object, place: str) -> None:
        if self._is_number is None:
            self._is_number, self._since = is_number, f"{place} has {value!r:.100}"
        elif self._is_number != is_number:
            raise ContentError(
                f"{place}: the label {value!r:.100} is a {'number' if is_number else 'name'}, but {self._since}: all "
                "labels must be class numbers, or all class names"
            )

    def _out_of_range(self, label: int, place: str) -> InspectionError:
        shown = str(label)[:30]
        hint = ": leave out examples without a class" if label == -1 else ""
        if self._known is None:
            return ContentError(
                f"{place}: the label is {shown}: labels are class numbers from 0 to {MAX_CLASSES - 1:,}{hint}"
            )
        if str(label) in self._known:
            hint = ", so write them from 0, or as names that are no numbers"
        return ContentError(
            f"{place}: the label is {shown}: labels that are numbers are class numbers from 0 to {self._limit - 1} "
            f"({self._limit} class names are given){hint}",
            field=self._field,
        )


def check_characters(text: str, place: str) -> None:
    """Refuse text that cannot be encoded or stored.

    Raises:
        ContentError: It holds NUL, or half of a surrogate pair.
    """
    if "\0" in text:
        raise ContentError(f"{place} holds a NUL character: remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ContentError(
                f"{place} holds half of a surrogate pair (\\u{ord(text[error.start]):04x}): write both halves"
            ) from error


def _some(names: Collection[str]) -> str:
    shown = ", ".join(name[:40] for name in list(names)[:10])
    return f"{shown}, ... {len(names):,} in all" if len(names) > 10 else shown
