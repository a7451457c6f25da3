"""Sentences of a CoNLL-U file (https://universaldependencies.org/format.html)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from seatrial.ingest.inspection.errors import ContentError, UploadTooLargeError
from seatrial.ingest.texts.lines import Lines
from seatrial.ingest.texts.rows import Columns, Row
from seatrial.store.settings import Settings

FIELDS = 10
_TAGS = {"upos": 3, "xpos": 4}
_NOT_WORDS = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")


def read_conllu(path: Path, columns: Columns, limits: Settings) -> Iterator[Row]:
    """Yield each sentence's words and their tags, with the line it begins in.

    Words are the syntactic words: the ranges of multiword tokens (``1-2``) and empty nodes (``1.1``) are skipped.
    ``columns`` gives ``tags`` as ``upos`` (also by the name ``tags``) or ``xpos``.

    Raises:
        ContentError: With the line that is no word.
    """
    column, place = _tag_column(columns)
    words: list[str] = []
    tags: list[str] = []
    start = characters = 0
    with path.open("rb") as file:
        lines = Lines(file, limits)
        for line in lines:
            number = lines.number
            if line.isspace():
                lines.begin_row()
                if words:
                    yield _sentence(start, words, tags)
                    words, tags, characters = [], [], 0
                continue
            if line.startswith("#"):
                continue
            fields = word_fields(line, number, after=len(words))
            if fields is None:
                continue
            if fields[place] in ("", "_"):
                raise ContentError(
                    f"Line {number}: the word {fields[1]!r:.100} has no {column} tag ({fields[place]!r}). Every word "
                    "needs one; columns.tags may be upos or xpos",
                    field="/manifest/columns/tags",
                )
            start = start if words else number
            characters += len(fields[1]) + 1
            # One space between two words.
            if characters - 1 > limits.max_text_chars:
                raise UploadTooLargeError(
                    f"The sentence that begins in line {start} has more than {limits.max_text_chars:,} characters"
                )
            words.append(fields[1])
            tags.append(fields[place])
    if words:
        yield _sentence(start, words, tags)


def word_fields(line: str, number: int, *, after: int) -> list[str] | None:
    """Return the columns of a syntactic word, None of a multiword range or an empty node.

    Args:
        line: Neither blank nor a comment.
        number: Of the line, for messages.
        after: Words of the sentence before it.

    Raises:
        ContentError: It is no word, or not the next.
    """
    fields = line.rstrip("\r\n").split("\t")
    if len(fields) != FIELDS:
        raise ContentError(
            f"Line {number} has {len(fields)} columns: a word of CoNLL-U has {FIELDS}, separated by tabs"
        )
    if _NOT_WORDS.fullmatch(fields[0]):
        return None
    if fields[0] != str(after + 1):
        raise ContentError(
            f"Line {number} has the id {fields[0]!r:.50}, expected {after + 1}: words are counted from 1, "
            "and a blank line ends a sentence"
        )
    return fields


def refuse_without_text(start: int, words: Sequence[str]) -> None:
    """Refuse a sentence that is not there.

    Raises:
        ContentError: Each of its words is ``_``; it names the line the sentence begins in.
    """
    # Treebanks whose text may not be shared come with `_` for every word; one `_` alone may be the word itself.
    if len(words) > 1 and set(words) == {"_"}:
        raise ContentError(f"The sentence that begins in line {start} has `_` for every word: its text was left out")


def _tag_column(columns: Columns) -> tuple[str, int]:
    if columns["tokens"].lower() not in ("tokens", "form"):
        raise ContentError(
            f"CoNLL-U keeps words in its column FORM, not in {columns['tokens']!r:.100}: leave columns.tokens out",
            field="/manifest/columns/tokens",
        )
    column = columns["tags"].lower()
    column = "upos" if column == "tags" else column
    if column not in _TAGS:
        raise ContentError(
            f"CoNLL-U has no tags in {columns['tags']!r:.100}: columns.tags may be upos or xpos",
            field="/manifest/columns/tags",
        )
    return column.upper(), _TAGS[column]


def _sentence(start: int, words: list[str], tags: list[str]) -> Row:
    refuse_without_text(start, words)
    return Row(start, (words, tags))
