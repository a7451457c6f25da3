"""Files of texts rewritten row by row: the texts perturbed, all else as it was; memory does not grow with the file.

What becomes of a row is a ``Change``: from the number of the row and its texts to copies of them, each of which is
written as the row was. Rows are counted as examples of a dataset are.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, Protocol

from seatrial.contracts.perturb import Cell
from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.texts.conllu_rows import refuse_without_text, word_fields
from seatrial.ingest.texts.csv_rows import Table, open_table
from seatrial.ingest.texts.jsonl_rows import read_objects, values_of
from seatrial.ingest.texts.labels import check_characters
from seatrial.ingest.texts.lines import Lines
from seatrial.ingest.texts.rows import Columns
from seatrial.store.settings import Settings

Parts = tuple[str, ...]
"""One text; premise and hypothesis; or the tokens of a sentence."""

PARTS: tuple[tuple[str, ...], ...] = (("premise", "hypothesis"), ("tokens",), ("text",))
"""The columns of texts a table may have, the most telling first."""

_KINDS = {int: "an integer", bool: "true or false", float: "a number", list: "a list", dict: "an object"}

NOTES = Cell._fields
"""Columns that tell how a row was perturbed."""


class Copy(NamedTuple):
    """One row to write.

    Attributes:
        cell: How it was perturbed.
        parts: Its texts.
    """

    cell: Cell
    parts: Parts


Change = Callable[[int, Parts, bool], Iterable[Copy]]
"""From the number of a row, its texts, and whether they are tokens that have tags, to its copies."""


class Sink(Protocol):
    """Where rows go."""

    def write(self, data: bytes, /) -> object:
        """Take bytes."""
        ...


@dataclass(frozen=True)
class Rewriting:
    """What is to be done with a file.

    Attributes:
        change: What becomes of a row.
        roles: What the columns of texts are, one of ``PARTS``; None: their names tell.
        named: The names of columns by role, where they are not the role's.
        notes: Whether each row tells how it was perturbed.
        limits: Longest row.
    """

    change: Change
    roles: tuple[str, ...] | None
    named: Mapping[str, str]
    notes: bool
    limits: Settings = field(default_factory=Settings)

    @property
    def wanted(self) -> set[str]:
        """Every name a column of texts may have."""
        return {self.named.get(role, role) for roles in self._possible for role in roles}

    @property
    def _possible(self) -> list[tuple[str, ...]]:
        return [self.roles] if self.roles else [roles for roles in PARTS if set(self.named) <= set(roles)]

    def columns(self, present: Iterable[str]) -> Columns:
        """Return the columns that hold texts, by role, in a table with the columns found."""
        names = set(present)
        possible = [{role: self.named.get(role, role) for role in roles} for roles in self._possible]
        # Where nothing fits the last is looked for, and the refusal names it.
        return next((columns for columns in possible if names.issuperset(columns.values())), possible[-1])

    def check_notes(self, present: Iterable[str], where: str) -> None:
        """Refuse to write over columns of the file.

        Raises:
            ContentError: It has one of the names that notes have.
        """
        if self.notes and (taken := [name for name in present if name in NOTES]):
            raise ContentError(f"{where} has a column {taken[0]!r} already: leave the notes out, or rename it")

    def copies(self, number: int, values: tuple[Any, ...], columns: Columns, where: str) -> Iterable[Copy]:
        """Return the copies of a row.

        Args:
            number: Of the row, from 0.
            values: What stands in the columns.
            columns: By role.
            where: The row, for messages.

        Raises:
            ContentError: A text is none; it names row and column.
        """
        places = [f"{where}, column {name!r}" for name in columns.values()]
        if "tokens" in columns:
            return self.change(number, _tokens(values[0], places[0]), True)
        return self.change(number, tuple(map(_text, values, places)), False)

    def written(self, copy: Copy, columns: Columns) -> dict[str, Any]:
        """Return what a copy's row holds in place of what the row held, by the name of the column."""
        values = [list(copy.parts)] if "tokens" in columns else copy.parts
        notes = copy.cell._asdict() if self.notes else {}
        return dict(zip(columns.values(), values, strict=True)) | notes


def rewrite_lines(source: BinaryIO, sink: Sink, how: Rewriting) -> None:
    """Rewrite a text file: each line is a text, an empty one too.

    Raises:
        ContentError: With the line that is not UTF-8.
    """
    lines = Lines(source, how.limits)
    for line in lines:
        text = line.rstrip("\r\n")
        end = line[len(text) :]
        copies = how.change(lines.number - 1, (text,), False)
        # The last line of a file need not end.
        sink.write(((end or "\n").join(copy.parts[0] for copy in copies) + end).encode())
        lines.begin_row()


def rewrite_jsonl(source: BinaryIO, sink: Sink, how: Rewriting) -> None:
    """Rewrite a JSON Lines file: all other fields are kept, in their order. Blank lines are left out.

    Raises:
        ContentError: With the line that is no object or lacks a text, and the column.
    """
    columns: Columns = {}
    for row, (number, record) in enumerate(read_objects(source, how.limits)):
        where = f"Line {number}"
        columns = columns or how.columns(record)
        how.check_notes(record, where)
        for copy in how.copies(row, values_of(record, columns, number), columns, where):
            sink.write(_json_line(record | how.written(copy, columns)))


def rewrite_csv(source: BinaryIO, sink: Sink, how: Rewriting) -> None:
    """Rewrite a CSV file with its delimiter and line ends: cells are quoted where they must be.

    Raises:
        ContentError: With the line that is no row, or the column there is not.
    """
    table = open_table(source, how.wanted, how.limits)
    stripped = [name.strip() for name in table.names]
    columns = how.columns(stripped)
    if "tokens" in columns:
        raise ContentError("CSV holds no lists of tokens: write them as .jsonl, .parquet or .conllu")
    places = table.places(columns)
    how.check_notes(stripped, f"The header (line {table.line})")
    sink.write(_csv_row([*table.names, *(NOTES if how.notes else ())], table))
    for row, (number, cells) in enumerate(table.rows):
        values = tuple(cells[place] for place in places)
        for copy in how.copies(row, values, columns, f"Line {number}"):
            for place, part in zip(places, copy.parts, strict=True):
                cells[place] = part
            sink.write(_csv_row([*cells, *(copy.cell if how.notes else ())], table))


def rewrite_conllu(source: BinaryIO, sink: Sink, how: Rewriting) -> None:
    """Rewrite a CoNLL-U file: FORM of syntactic words is perturbed, every other byte is kept.

    Of several copies of a sentence each is a sentence. Notes are a comment, ``# noise = visual 0.5 0``.

    Raises:
        ContentError: With the line that is no word.
    """
    lines = Lines(source, how.limits)
    sentence = Sentence()
    row = 0
    for line in lines:
        if line.isspace():
            row += _write_sentence(sentence, row, sink, how)
            sink.write(line.encode())
            sentence = Sentence()
        else:
            sentence.add(line, lines.number)
        lines.begin_row()
    _write_sentence(sentence, row, sink, how)


@dataclass
class Sentence:
    """The lines of a sentence read so far.

    Attributes:
        start: Line of its first word.
        lines: As they stand.
        words: Which of them are syntactic words: neither comments, nor multiword ranges, nor empty nodes.
        forms: What stands in their column FORM.
    """

    start: int = 0
    lines: list[str] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)

    def add(self, line: str, number: int) -> None:
        """Take a line.

        Raises:
            ContentError: It is neither comment nor word.
        """
        if not line.startswith("#"):
            fields = word_fields(line, number, after=len(self.words))
            if fields is not None:
                self.start = self.start or number
                self.words.append(len(self.lines))
                self.forms.append(fields[1])
        self.lines.append(line)

    def with_forms(self, forms: Iterable[str]) -> list[str]:
        """Return its lines with other forms."""
        lines = list(self.lines)
        for place, form in zip(self.words, forms, strict=True):
            fields = lines[place].split("\t")
            fields[1] = form
            lines[place] = "\t".join(fields)
        return lines


def _write_sentence(sentence: Sentence, row: int, sink: Sink, how: Rewriting) -> int:
    """Write the copies of a sentence and return how many examples it is: 1, or 0 without words."""
    if not sentence.words:
        sink.write("".join(sentence.lines).encode())
        return 0
    refuse_without_text(sentence.start, sentence.forms)
    end = "\r\n" if sentence.lines[0].endswith("\r\n") else "\n"
    for position, copy in enumerate(how.change(row, tuple(sentence.forms), True)):
        note = f"# noise = {copy.cell.attacker} {copy.cell.level:g} {copy.cell.draw}{end}" if how.notes else ""
        before = end if position else ""
        sink.write((before + note + "".join(sentence.with_forms(copy.parts))).encode())
    return 1


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ContentError(f"{place}: the text is {_kind(value)}: a string is needed")
    check_characters(value, f"{place}: the text")
    return value


def _kind(value: object) -> str:
    return "missing" if value is None or value != value else _KINDS.get(type(value), f"a {type(value).__name__}")


def _tokens(value: object, place: str) -> Parts:
    if not isinstance(value, list):
        raise ContentError(f"{place}: a list is needed, one string per token of the sentence")
    for position, token in enumerate(value):
        if not isinstance(token, str):
            raise ContentError(f"{place}, item {position}: the token is {_kind(token)}: a string is needed")
        if not token or token.isspace():
            raise ContentError(f"{place}, item {position}: the token is empty: leave it out")
        check_characters(token, f"{place}, item {position}: the token")
    return tuple(value)


def _json_line(row: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, in a field that is no text: JSON writes it as a number, UTF-8 cannot.
        return (json.dumps(row) + "\n").encode()


def _csv_row(cells: Iterable[object], table: Table) -> bytes:
    buffer = io.StringIO(newline="")
    # Before Python 3.13 a lone carriage return is quoted only where it is part of the line end.
    csv.writer(buffer, delimiter=table.delimiter, lineterminator="\r\n").writerow(cells)
    return (buffer.getvalue().removesuffix("\r\n") + table.line_end).encode()
