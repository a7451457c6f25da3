"""From rows of any format to labelled texts: the one parser of both sides."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from seatrial.contracts.datasets import COLUMNS, DatasetFormat, DatasetManifest
from seatrial.ingest.inspection.errors import ContentError, UploadTooLargeError
from seatrial.ingest.texts.conllu_rows import read_conllu
from seatrial.ingest.texts.csv_rows import read_csv
from seatrial.ingest.texts.jsonl_rows import read_jsonl
from seatrial.ingest.texts.labels import LabelColumn, check_characters
from seatrial.ingest.texts.parquet_rows import read_parquet
from seatrial.ingest.texts.rows import Columns, Row
from seatrial.store.settings import Settings

TAGGED = "token-classification"
MULTI_LABEL = "multi-label-classification"

_READERS: dict[DatasetFormat, Callable[[Path, Columns, Settings], Iterator[Row]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "conllu": read_conllu,
}


class Example(NamedTuple):
    """A labelled text, pair or sentence.

    Attributes:
        parts: One text; premise and hypothesis; or the tokens of a sentence.
        labels: Class numbers, or class names: one; of multi-label texts any number, distinct; of a sentence one per
            token.
    """

    parts: tuple[str, ...]
    labels: tuple[int | str, ...]


def columns_of(manifest: DatasetManifest) -> dict[str, str]:
    """Return the name of the column that holds each role, in the order of the task's roles.

    >>> about = {"name": "d", "version": "1", "task": "text-classification", "columns": {"text": "review"}}
    >>> columns_of(DatasetManifest(**about))
    {'text': 'review', 'label': 'label'}
    """
    named = manifest.columns or {}
    return {role: named.get(role, role) for role in COLUMNS[manifest.task]}


def read_examples(
    path: Path, layout: DatasetFormat, manifest: DatasetManifest, names: Sequence[str] | None, limits: Settings
) -> Iterator[Example]:
    """Yield the examples of a file of texts, one at a time; memory does not grow with the file.

    Args:
        path: The file.
        layout: Its format: ``csv``, ``jsonl``, ``parquet`` or ``conllu``.
        manifest: Task and columns.
        names: Class names in the order of their numbers, where they are known.
        limits: Longest text and most examples.

    Raises:
        InspectionError: With the line or row that is no example, its column and what would be right.
    """
    columns = columns_of(manifest)
    unit = "Row {} (counted from 0)" if layout == "parquet" else "Line {}"
    *parts, answer = columns.values()
    labels = LabelColumn(
        answer,
        names,
        field="/file" if manifest.labels is None else "/manifest/labels",
        only_names=layout == "conllu",
    )
    for count, row in enumerate(_READERS[layout](path, columns, limits)):
        if count >= limits.max_examples:
            raise UploadTooLargeError(f"The file has more than {limits.max_examples:,} examples")
        where = unit.format(row.number)
        if manifest.task == TAGGED:
            tokens, tags = (_list(value, where, name) for value, name in zip(row.values, columns.values(), strict=True))
            yield _tagged(tokens, tags, labels, where, parts[0], answer, limits)
        else:
            texts = tuple(_text(value, where, name, limits) for value, name in zip(row.values[:-1], parts, strict=True))
            if manifest.task == MULTI_LABEL:
                yield Example(texts, _several(row.values[-1], labels, where, answer, is_csv=layout == "csv"))
            else:
                yield Example(texts, (labels.read(row.values[-1], where),))


def _text(value: object, where: str, name: str, limits: Settings) -> str:
    if not isinstance(value, str):
        what = "missing" if value is None or value != value else f"a {type(value).__name__}"
        raise ContentError(f"{where}, column {name!r}: the text is {what}: every example needs a string")
    if not value or value.isspace():
        raise ContentError(f"{where}, column {name!r}: the text is empty: leave such examples out")
    if len(value) > limits.max_text_chars:
        raise UploadTooLargeError(
            f"{where}, column {name!r}: the text has {len(value):,} characters; at most {limits.max_text_chars:,} are "
            "accepted"
        )
    check_characters(value, f"{where}, column {name!r}: the text")
    return value


def _several(value: object, column: LabelColumn, where: str, name: str, *, is_csv: bool) -> tuple[int | str, ...]:
    place = f"{where}, column {name!r}"
    if is_csv:
        try:
            value = json.loads(str(value))
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, list):
            raise ContentError(
                f'{place}: in CSV the labels of a text are a JSON list: [0, 2], ["joy", "fear"], or [] for none'
            )
    if value is None or value != value:
        raise ContentError(f"{place}: the list of labels is missing: write an empty list where there are none")
    if not isinstance(value, list):
        raise ContentError(
            f"{place}: the labels are no list: write [0, 2]; for one label per text, the task is text-classification",
            field="/manifest/task",
        )
    labels = tuple(column.read(label, where, position) for position, label in enumerate(value))
    if len(set(labels)) != len(labels):
        twice = Counter(labels).most_common(1)[0][0]
        raise ContentError(f"{place}: the label {twice!r} stands twice in the list")
    return labels


def _list(value: object, where: str, name: str) -> list[object]:
    if not isinstance(value, list):
        raise ContentError(f"{where}, column {name!r}: a list is needed, one value per token of the sentence")
    return value


def _tagged(
    tokens: list[object], tags: list[object], column: LabelColumn, where: str, words: str, answer: str, limits: Settings
) -> Example:
    if not tokens:
        raise ContentError(f"{where}, column {words!r}: the sentence has no tokens: leave it out")
    if len(tokens) != len(tags):
        raise ContentError(
            f"{where} has {len(tokens):,} tokens in {words!r} and {len(tags):,} tags in {answer!r}: every token needs "
            "a tag"
        )
    texts = tuple(_token(token, f"{where}, column {words!r}, item {position}") for position, token in enumerate(tokens))
    characters = sum(map(len, texts)) + len(texts) - 1
    if characters > limits.max_text_chars:
        raise UploadTooLargeError(
            f"{where}: the sentence has {characters:,} characters; at most {limits.max_text_chars:,} are accepted"
        )
    return Example(texts, tuple(column.read(tag, where, position) for position, tag in enumerate(tags)))


def _token(value: object, place: str) -> str:
    if not isinstance(value, str) or not value or value.isspace():
        what = "empty" if isinstance(value, str) else "missing" if value is None else f"a {type(value).__name__}"
        raise ContentError(f"{place}: the token is {what}: tokens are strings")
    check_characters(value, f"{place}: the token")
    return value
