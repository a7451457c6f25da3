"""Images of an archive of class folders, read straight from the archive."""

import gzip
import shutil
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.ingest.archives import ArchiveEntry, walk_archive
from seatrial.ingest.inspection.image_layout import IMAGE_SUFFIXES, index_image_folder
from seatrial.store.settings import Settings
from workers.data.channels import decode_image, stack_images
from workers.errors import DataError


class FolderImages:
    """Images and labels of class folders in a zip or tar; implements :class:`workers.data.ImageDataset`.

    Nothing is unpacked, except that a compressed tar, which cannot be read from the middle, is decompressed once into
    an unnamed temporary file.
    """

    def __init__(
        self, manifest: DatasetManifest, facts: DatasetFacts, path: Path, channels: int, limits: Settings
    ) -> None:
        self._channels = channels
        self._limits = limits
        with walk_archive(path, limits) as walk:
            by_name = {entry.name: entry for entry, _ in walk}
        images = [name for name in by_name if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES]
        index = index_image_folder(images, manifest)
        if len(index.paths) != facts.examples:
            raise DataError(
                "dataset-changed",
                "The dataset is not what it was when it was uploaded",
                f"{len(index.paths)} images, expected {facts.examples}",
            )
        self.labels: NDArray[np.int64] = np.asarray(index.labels, dtype=np.int64)
        self.label_names: list[str] | None = index.names
        self._source = _source(path, [by_name[name] for name in index.paths])
        weakref.finalize(self, self._source.close)
        self._paths = index.paths

    def images(self, positions: Sequence[int]) -> Tensor:
        """Return float32 images (len(positions), channels, height, width) in [0, 1], on the CPU.

        Raises:
            DataError: An image does not decode, or has another size than the others.
        """
        decoded = (
            decode_image(self._source.read(int(position)), self._channels, f"image {self._paths[int(position)]!r}")
            for position in positions
        )
        return stack_images(decoded, len(positions), "the archive", self._limits)


class _ZipSource:
    def __init__(self, path: Path, names: list[str]) -> None:
        self._archive = zipfile.ZipFile(path)
        by_name = {str(PurePosixPath(info.filename)): info for info in self._archive.infolist()}
        self._infos = [by_name[name] for name in names]

    def read(self, position: int) -> bytes:
        return self._archive.read(self._infos[position])

    def close(self) -> None:
        self._archive.close()


class _TarSource:
    def __init__(self, file: BinaryIO, spans: list[tuple[int, int]]) -> None:
        self._file = file
        self._spans = spans
        self._lock = threading.Lock()

    def read(self, position: int) -> bytes:
        offset, size = self._spans[position]
        with self._lock:
            self._file.seek(offset)
            return self._file.read(size)

    def close(self) -> None:
        self._file.close()


def _source(path: Path, entries: list[ArchiveEntry]) -> _ZipSource | _TarSource:
    if any(entry.offset is None for entry in entries):
        return _ZipSource(path, [entry.name for entry in entries])
    spans = [(entry.offset or 0, entry.size) for entry in entries]
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    if not is_compressed:
        return _TarSource(path.open("rb"), spans)
    plain = tempfile.TemporaryFile(prefix="seatrial-images-")  # noqa: SIM115
    with gzip.open(path) as packed:
        shutil.copyfileobj(packed, plain, 2**20)
    return _TarSource(plain, spans)
