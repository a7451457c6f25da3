"""Reads a bundle nobody vouches for: what it holds is what was written, or it is refused."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from app.reports.bundle_layout import INDEX, RESULTS, SUMS, BundleIndex, BundleInput, BundleRecords, BundleResult
from seatrial.ingest.archives import extract_archive
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.strict_json import strict_json
from seatrial.store.records import read_parquet
from seatrial.store.settings import Settings

_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>[^\n]+)")
MAX_TEXT_BYTES = 64 * 2**20
"""Largest JSON file, or list of digests, of a bundle; records are no JSON."""
_RESULTS = TypeAdapter(list[BundleResult])


class BundleError(ValueError):
    """A file is no bundle, or not the one that was made."""


@dataclass(frozen=True)
class Bundle:
    """An unpacked bundle whose files have the digests it lists.

    Attributes:
        folder: Where it is unpacked.
        index: ``audit.json``.
        results: ``results.json``, by position of the check.
    """

    folder: Path
    index: BundleIndex
    results: dict[int, BundleResult]

    def manifest(self, one: BundleInput) -> dict[str, Any]:
        """Return the manifest of a model or dataset.

        Raises:
            BundleError: It is missing or no JSON object.
        """
        manifest = _read_json(self.path(one.manifest))
        if not isinstance(manifest, dict):
            raise BundleError(f"{one.manifest} holds no JSON object")
        return manifest

    def records(self, one: BundleRecords) -> Any:
        """Return the records of a stage (a pyarrow Table).

        Raises:
            BundleError: They are missing or no Parquet.
        """
        path = self.path(one.file)
        try:
            table = read_parquet([path])
        except (OSError, ValueError, pa.ArrowException) as error:
            raise BundleError(f"{one.file[:200]} is not Parquet: {str(error)[:500]}") from error
        if len(set(table.column_names)) != table.num_columns:
            raise BundleError(f"{one.file[:200]} has two columns of one name")
        return table

    def path(self, name: str) -> Path:
        """Return where a file of the bundle is.

        Raises:
            BundleError: The bundle names it and does not hold it, or it is outside.
        """
        path = self.folder / name
        try:
            is_inside = path.resolve().is_relative_to(self.folder.resolve()) and path.is_file()
        except (OSError, ValueError, RuntimeError):
            # A NUL, half a character, a name longer than a file system takes.
            is_inside = False
        if not is_inside:
            raise BundleError(f"{name[:200]!r} is not in the bundle, though {INDEX} names it")
        return path


def open_bundle(path: Path, folder: Path) -> Bundle:
    """Unpack a bundle into an empty folder and return it.

    Guarantee: every file has the digest ``SHA256SUMS`` lists for it, no file is unlisted, and nothing was written
    outside of ``folder``. Who made the list is another question.

    Raises:
        BundleError: It is no bundle, or not whole, or was changed.
    """
    try:
        entries = [entry.name for entry in extract_archive(path, folder, Settings())]
    except (InspectionError, OSError, EOFError, ValueError, RuntimeError) as error:
        raise BundleError(f"{path.name} cannot be unpacked: {getattr(error, 'detail', error)}") from error
    _check_sums(folder, entries)
    try:
        index = BundleIndex.model_validate(_read_json(folder / INDEX))
        results = _RESULTS.validate_python(_read_json(folder / RESULTS))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = "/".join(map(str, first["loc"]))[:200]
        raise BundleError(f"{path.name} is no bundle this version reads: /{where}: {first['msg'][:500]}") from error
    if missing := [name for name in ("model", "dataset", "checks") if name not in index.spec]:
        raise BundleError(f"{INDEX}: /spec has no {', '.join(missing)}")
    if [one.position for one in results] != [one.position for one in index.checks]:
        raise BundleError(f"{INDEX} and {RESULTS} are of different checks")
    return Bundle(folder, index, {one.position: one for one in results})


def _check_sums(folder: Path, entries: list[str]) -> None:
    if SUMS not in entries:
        raise BundleError(f"it holds no {SUMS}")
    listed = {}
    for line in _read_text(folder / SUMS, errors="replace").splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            raise BundleError(f"{SUMS} has a line that is no digest and name: {line[:100]!r}")
        listed[match["name"]] = match["digest"]
    for name in sorted(set(entries) - {SUMS} | set(listed)):
        if name not in listed:
            raise BundleError(f"{name!r} is not listed in {SUMS}")
        if name not in entries:
            raise BundleError(f"{name!r} is missing")
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != listed[name]:
                raise BundleError(f"{name!r} is not what was written: its digest differs from that in {SUMS}")


def _read_json(path: Path) -> Any:
    try:
        return strict_json(_read_text(path))
    except (OSError, ValueError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{path.name} is missing or no JSON: {str(error)[:500]}") from error


def _read_text(path: Path, errors: str = "strict") -> str:
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise BundleError(f"{path.name} has more than {MAX_TEXT_BYTES:,} bytes, which none of Seatrial's has")
    return path.read_text(encoding="utf-8", errors=errors)
