"""JSON nobody vouches for, parsed and measured within bounds."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from seatrial.ingest.inspection.errors import ContentError, MalformedFileError, RemoteCodeRefusedError

MAX_DOCUMENT_BYTES = 4 * 2**20
MAX_DEPTH = 32
"""Lists and objects within each other; a TemplateProcessing in a Sequence needs 8."""
MAX_STRUCTURE = 2**20
"""`{[:,` of a small document: one of 4 MiB made of nothing else would become 200 MB of objects."""
MAX_LIST = 10_000
MAX_STRING = 200
MAX_INTEGER = 2**31 - 1

CODE_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code")
_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Keys of these forms name something outside the document: a file, a folder, an address, a repository.
_OUTSIDE = re.compile(r"(^|_)(files?|filenames?|paths?|dirs?|directory|folder|urls?|uri|repo|repo_id|ckpt)$")


def parse_object(data: bytes, where: str, *, max_structure: int = MAX_STRUCTURE, encoding: str = "utf-8") -> Any:
    """Return the object a JSON document holds; its names differ from each other and its numbers are finite.

    Args:
        data: The whole document.
        where: The document, as its sender knows it.
        max_structure: Most `{[:,` in it, which bounds the memory the objects take.
        encoding: How to read the bytes.

    Raises:
        MalformedFileError: It is no such document.
    """
    if sum(data.count(mark) for mark in (b"{", b"[", b":", b",")) > max_structure:
        raise MalformedFileError(f"{where} holds more than {max_structure:,} brackets, colons and commas")
    try:
        document = json.loads(
            data.decode(encoding),
            object_pairs_hook=_unique,
            parse_constant=_not_finite,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedFileError(f"{where} must be a JSON object")
    _check_depth(document, where)
    if _SURROGATE.search(data):
        _check_characters(document, where)
    return document


def asks_for_something(value: Any) -> bool:
    """Return whether a value could name anything: not null, false, a number or empty.

    >>> [asks_for_something(value) for value in (None, False, True, 3, "", {}, "model.bin", ["a"])]
    [False, False, False, False, False, False, True, True]
    """
    return bool(value) and not isinstance(value, bool | int | float)


def refuse_key(key: str, value: Any, where: str, forbidden: frozenset[str]) -> bool:
    """Return whether a key is of those that name code, files or addresses; such a key asks for nothing here.

    Args:
        key: Of a configuration.
        value: What stands under it.
        where: The document.
        forbidden: Names that are refused whenever they are set, besides those of the telling forms.

    Raises:
        RemoteCodeRefusedError: It asks for code.
        ContentError: It asks for anything else.
    """
    if key in CODE_KEYS:
        if value:
            raise RemoteCodeRefusedError(
                f"{where} asks for its own code ({key}): this service runs none; remove the key"
            )
        return True
    if key in forbidden:
        if value:
            raise _outside(key, where)
        return True
    if _OUTSIDE.search(key):
        if asks_for_something(value):
            raise _outside(key, where)
        # A switch may be called use_mem_eff_path.
        return value is None or isinstance(value, str | list | dict)
    return False


def _outside(key: str, where: str) -> ContentError:
    return ContentError(
        f"{where}: {key} names a file, an address or options of another library: a model is loaded from the known "
        "files of its own folder alone; remove the key"
    )


def check_name(key: str, where: str) -> None:
    """Raise unless a key is a name: letters, digits and underscores."""
    if not _NAME.fullmatch(key):
        raise ContentError(
            f"{where} has the key {key[:100]!r}: keys must be 1 to 100 letters, digits or underscores; remove it"
        )


def check_string(value: str, key: str, where: str) -> None:
    """Raise for a string that is long, holds control characters, or could be a path or an address."""
    if len(value) > MAX_STRING:
        raise ContentError(f"{where}: {key} holds a string of {len(value):,} characters; at most {MAX_STRING} are read")
    if any(character in value for character in "/\\") or has_controls(value):
        raise ContentError(
            f"{where}: {key} holds a path, an address or control characters ({value[:60]!r}): a model is loaded from "
            "its own folder alone; remove the key"
        )


def has_controls(value: str) -> bool:
    """Return whether a text holds control characters."""
    return any(ord(character) < 32 or 127 <= ord(character) < 160 for character in value)


def check_integer(value: int, key: str, where: str, *, low: int = -MAX_INTEGER, high: int = MAX_INTEGER) -> None:
    """Raise for a whole number beyond its bounds."""
    if not low <= value <= high:
        # Python refuses to write numbers of more than some thousand digits.
        shown = f"{value:,}" if abs(value) < 10**40 else "a huge number"
        raise ContentError(f"{where}: {key} is {shown}; it must lie between {low:,} and {high:,}")


def check_list(value: list[Any] | Mapping[str, Any], key: str, where: str, *, longest: int = MAX_LIST) -> None:
    """Raise for a list or an object of too many entries."""
    if len(value) > longest:
        raise ContentError(f"{where}: {key} has {len(value):,} entries; at most {longest:,} are read")


def whole_numbers(value: Any) -> Iterator[int]:
    """Give every whole number inside a value, however deep."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, int) and not isinstance(value, bool):
            yield value


def _check_depth(document: Any, where: str) -> None:
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise MalformedFileError(f"{where} holds lists and objects more than {MAX_DEPTH} deep")
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]


def _check_characters(document: Any, where: str) -> None:
    """Raise for half of a surrogate pair: no answer, log or database can carry a class name that holds one."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise MalformedFileError(
            f"{where} holds half of a surrogate pair (\\u{ord(error.object[error.start]):04x}): write both halves, or "
            "the character itself"
        ) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice[:100]!r} stands twice")
    return members


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), -float("inf")):
        raise ValueError(f"{text[:40]} is too large a number")
    return value
