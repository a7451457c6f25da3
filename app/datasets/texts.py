"""Inspecting a table of texts: every row is read once, as the workers will read it."""

from collections import Counter
from pathlib import Path

from app.datasets.labels import agree_on_names
from seatrial.contracts.datasets import DatasetFacts, DatasetFormat, DatasetManifest
from seatrial.contracts.models import IMAGES
from seatrial.ingest.inspection.errors import (
    ContentError,
    ManifestMismatchError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.inspection.magic import ARCHIVES, Kind, is_safetensors, looks_like, refuse_impostor, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.texts.examples import MULTI_LABEL, TAGGED, Example, columns_of, read_examples
from seatrial.ingest.texts.parquet_rows import names_in_parquet
from seatrial.noise.unspaced import count_words
from seatrial.store.settings import Settings

MAX_MULTI_LABEL_VALUES = 2**28
"""Most examples times classes of multi-label texts: a worker holds a matrix of them, 8 bytes each."""

PACKED = ARCHIVES | {Kind.GZIP, Kind.BZIP2, Kind.XZ, Kind.ZSTD, Kind.SEVEN_ZIP, Kind.RAR}

_WORKBOOKS = (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04")


def wanted_texts(task: str) -> str:
    """Return what would be right for a task, to end the sentence "send ..."."""
    if task == TAGGED:
        return "CoNLL-U, or JSON Lines or Parquet with lists of tokens and tags"
    return "texts and their labels as CSV with a header, JSON Lines or Parquet"


def inspect_texts(path: Path, where: str, manifest: DatasetManifest, limits: Settings) -> DatasetFacts:
    """Return the facts of a file of labelled texts.

    Args:
        path: The upload on disk.
        where: The upload, as its sender knows it.
        manifest: What its sender said of it.
        limits: Longest text and most examples.

    Raises:
        InspectionError: With the line or row, the column and what would be right.
    """
    layout = text_format(path, where, manifest)
    in_file = None
    if layout == "parquet":
        *_, answer = columns_of(manifest).values()
        in_file = names_in_parquet(path, answer, limits)
    names = agree_on_names(in_file, manifest)
    if names is not None and len(set(names)) != len(names):
        raise ManifestMismatchError(
            "Two labels of the manifest are equal: class names differ", field="/manifest/labels"
        )
    statistics = _TextStatistics()
    for example in read_examples(path, layout, manifest, names, limits):
        statistics.add(example)
    if not statistics.examples:
        raise ContentError(f"{where} holds no examples")
    if in_file is None and manifest.labels is not None:
        _refuse_two_readings(manifest.labels, statistics.numbers)
    if names is None and statistics.names:
        names = sorted(statistics.names)
    counts = statistics.counts(names)
    if not counts and names is None:
        raise ContentError("No example has a label: labels must name the classes then", field="/manifest/labels")
    if manifest.task == MULTI_LABEL:
        _check_matrix(statistics.examples, len(names) if names else max(counts) + 1)
    return DatasetFacts(
        format=layout,
        examples=statistics.examples,
        classes=len(names) if names else len(counts),
        label_counts={str(number): count for number, count in counts.items()},
        labels=names,
        mean_words=statistics.words(is_tokens=manifest.task == TAGGED) / statistics.examples,
        word_means=statistics.word_means(is_tokens=manifest.task == TAGGED),
    )


def text_format(path: Path, where: str, manifest: DatasetManifest) -> DatasetFormat:
    """Return the format of a file of texts, judged by its first bytes.

    Raises:
        InspectionError: It is none that can hold texts for the task.
    """
    wanted = wanted_texts(manifest.task)
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    kind = sniff(head, path.stat().st_size)
    refuse_impostor(kind, where, wanted)
    if kind is Kind.PARQUET:
        return "parquet"
    if head.startswith(_WORKBOOKS[0]) or (head.startswith(_WORKBOOKS[1]) and b"[Content_Types].xml" in head):
        raise UnsupportedFormatError(f"{where} is a spreadsheet: save it as CSV in UTF-8; send {wanted}")
    # Text of another encoding, or with control characters, is unknown to `sniff`: the reader says where it goes wrong.
    is_text = kind in (Kind.TEXT, Kind.UNKNOWN) or (kind is Kind.SAFETENSORS and not is_safetensors(head))
    if kind is Kind.ZIP and b".npy" in head[:100]:
        raise UnsupportedFormatError(
            f"{where} is an .npz: arrays are images, with the task {IMAGES}; for {manifest.task} send {wanted}",
            field="/manifest/task",
        )
    if not is_text:
        hint = ", unpacked" if kind in PACKED else ""
        raise UnsupportedFormatError(f"{where} is not a dataset of texts: {looks_like(kind)}; send {wanted}{hint}")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    if start.startswith(b"[") and start[1:].lstrip().startswith(b"{"):
        raise UnsupportedFormatError(
            f"{where} is a JSON array: write its objects as lines, without brackets and commas"
        )
    if manifest.task != TAGGED:
        return "csv"
    if start.startswith(b"#") or b"\t" in start.partition(b"\n")[0]:
        return "conllu"
    raise UnsupportedFormatError(f"{where} has no lists of tokens: a CSV cell is one text; send {wanted}")


LENGTH_GROUPS = 20
"""Groups of texts by length whose means are kept."""


class _TextStatistics:
    """Counts of examples, labels and words."""

    def __init__(self) -> None:
        self.examples = 0
        self._parts: Counter[int] = Counter()
        self._words: Counter[int] = Counter()
        self._labels: Counter[int | str] = Counter()

    def add(self, example: Example) -> None:
        self.examples += 1
        self._parts[len(example.parts)] += 1
        self._words[sum(count_words(part) for part in example.parts)] += 1
        self._labels.update(example.labels)

    @property
    def names(self) -> set[str]:
        return {label for label in self._labels if isinstance(label, str)}

    @property
    def numbers(self) -> set[int]:
        return {label for label in self._labels if isinstance(label, int)}

    def counts(self, names: list[str] | None) -> dict[int, int]:
        """Return how often each class number occurs, smallest number first."""
        numbers = {name: number for number, name in enumerate(names or [])}
        counts = {label if isinstance(label, int) else numbers[label]: count for label, count in self._labels.items()}
        return dict(sorted(counts.items()))

    def words(self, *, is_tokens: bool) -> int:
        return sum(count * texts for count, texts in (self._parts if is_tokens else self._words).items())

    def word_means(self, *, is_tokens: bool) -> list[float]:
        """Return the mean words of each of up to ``LENGTH_GROUPS`` groups of equal size, the shortest texts first."""
        counts = sorted((self._parts if is_tokens else self._words).items())
        groups = min(LENGTH_GROUPS, self.examples)
        edges = [self.examples * edge / groups for edge in range(groups + 1)]
        means, before = [0.0] * groups, 0
        for words, texts in counts:
            for group in range(groups):
                inside = min(edges[group + 1], before + texts) - max(edges[group], before)
                means[group] += words * max(0.0, inside) * groups / self.examples
            before += texts
        return [round(mean, 1) for mean in means]


def _refuse_two_readings(names: list[str], numbers: set[int]) -> None:
    """Refuse numbers that are as well names of other classes: 1 may be the second class, or the class called 1."""
    by_name = {name: position for position, name in enumerate(names)}
    places = {number: by_name.get(str(number)) for number in numbers}
    if places and None not in places.values() and any(number != place for number, place in places.items()):
        shown = ", ".join(str(number) for number in sorted(numbers)[:5])
        raise ManifestMismatchError(
            f"The labels in the file ({shown}) are class numbers from 0, but labels also uses them as names of other "
            "classes: name the classes in words, or leave labels out",
            field="/manifest/labels",
        )


def _check_matrix(examples: int, classes: int) -> None:
    if examples * classes > MAX_MULTI_LABEL_VALUES:
        raise UploadTooLargeError(
            f"The file has {examples:,} texts and {classes:,} classes: their product may be at most "
            f"{MAX_MULTI_LABEL_VALUES:,}"
        )
