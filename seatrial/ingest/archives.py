"""Walking and unpacking archives nobody vouches for: zip, tar, tar.gz.

Nothing an archive declares is trusted. Names, kinds, counts and sizes are checked entry by entry, bytes are counted as
they come out, and the memory used does not depend on the archive's size.
"""

import gzip
import io
import re
import stat
import tarfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from seatrial.ingest.inspection.errors import (
    MalformedFileError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.ingest.inspection.magic import Kind, sniff
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.inspection.streams import CHUNK_BYTES, EntryStream, TarSource, ZipSource, readable_archive
from seatrial.store.settings import Settings

MAX_NAME_BYTES = 1024
MAX_PART_BYTES = 255
MAX_DEPTH = 32
"""Most parts of a path. Published datasets and model folders stay below 10."""
MAX_NAMES_BYTES = 32 * 2**20
"""Most bytes of all names, with the folders they imply; 200,000 paths of ordinary length take half of it."""
MAX_GLOBAL_HEADERS = 100
"""Most keywords in the global headers of a tar, which hold for all that follows; ``git archive`` writes one."""
# A million sorted int64 labels honestly compress 1000 to 1; up to here a ratio says nothing, and little can be hidden.
RATIO_FLOOR_BYTES = 64 * 2**20

# Of a zip entry, before its name.
_LOCAL_HEADER_BYTES = 30
_DRIVE = re.compile(r"^[A-Za-z]:")
_JUNK = re.compile(r"(^|/)(__MACOSX|\.DS_Store|Thumbs\.db|\.gitattributes|\.gitignore|\.cache|\._[^/]*)(/|$)")


@dataclass(frozen=True)
class ArchiveEntry:
    """A regular file in an archive.

    Attributes:
        name: Relative path with forward slashes, checked.
        size: Bytes it unpacks to, as declared; reading raises when that is not so.
        offset: Where its bytes begin in the tar, decompressed if it was compressed; None in a zip.
    """

    name: str
    size: int
    offset: int | None = None


Walk = Generator[tuple[ArchiveEntry, BinaryIO], None, None]
"""Regular files in file order, each with a stream that is good until the next one is asked for."""


@contextmanager
def walk_archive(path: Path, limits: Settings) -> Iterator[Walk]:
    """Give the archive's regular files in file order, each with a stream of its bytes.

    A stream is good until the next file is asked for. Directories are checked and passed over, and so are files that
    desktops leave behind (``__MACOSX``, ``.DS_Store``).

    Raises:
        UnsafeArchiveError: A path leaves the archive, an entry is a link, a device, encrypted or a duplicate, or
            unpacks beyond the ratio limit.
        UploadTooLargeError: More files or bytes than the limits allow.
        MalformedFileError: The archive is truncated or contradicts itself.
        UnsupportedFormatError: Not an archive of a known kind.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES), size)
        file.seek(0)
        if kind is Kind.ZIP:
            walk = _walk_zip(file, size, limits)
        elif kind in (Kind.TAR, Kind.TAR_GZ):
            walk = _walk_tar(file, kind, limits)
        else:
            raise UnsupportedFormatError("The file is not an archive: send .zip, .tar or .tar.gz")
        with closing(walk):
            yield _guarded(walk)


def _guarded(walk: Walk) -> Walk:
    while True:
        with readable_archive():
            step = next(walk, None)
        if step is None:
            return
        yield step


def check_archive(path: Path, limits: Settings) -> list[ArchiveEntry]:
    """Read the whole archive once, checksums included, and return its regular files.

    Raises:
        InspectionError: As :func:`walk_archive`.
    """
    entries = []
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            drain(stream)
            entries.append(entry)
    return entries


def extract_archive(path: Path, destination: Path, limits: Settings) -> list[ArchiveEntry]:
    """Unpack the archive's regular files below ``destination``, which must be empty or absent, and return them.

    All entries are checked before the first byte is written; files get mode 0600, whatever the archive says.

    Raises:
        InspectionError: As :func:`walk_archive`; what was already written stays, for the caller to remove.
        FileExistsError: ``destination`` holds something.
    """
    destination.mkdir(parents=True, exist_ok=True)
    if any(destination.iterdir()):
        raise FileExistsError(f"{destination.name} is not empty")
    check_archive(path, limits)
    entries = []
    with walk_archive(path, limits) as walk:
        for entry, stream in walk:
            target = destination.joinpath(*PurePosixPath(entry.name).parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                target.chmod(0o600)
                while chunk := stream.read(CHUNK_BYTES):
                    file.write(chunk)
            entries.append(entry)
    return entries


def drain(stream: BinaryIO) -> int:
    """Read a stream to its end and return how many bytes that were; a zip's checksum is verified at its end."""
    count = 0
    while chunk := stream.read(CHUNK_BYTES):
        count += len(chunk)
    return count


class _Ledger:
    """What an archive has shown so far, against the limits."""

    def __init__(self, limits: Settings) -> None:
        self.limits = limits
        self.count = 0
        self.declared = 0
        self.name_bytes = 0
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def admit(self, raw_name: str, size: int, *, is_folder: bool) -> str:
        """Check one entry and return its normalised name."""
        self.count += 1
        if self.count > self.limits.max_archive_entries:
            raise UploadTooLargeError(f"The archive has more than {self.limits.max_archive_entries:,} entries")
        self.declared += max(size, 0)
        if size < 0 or self.declared > self.limits.max_archive_bytes:
            raise UploadTooLargeError(f"The archive unpacks to more than {self.limits.max_archive_bytes:,} bytes")
        name = _checked_name(raw_name)
        if not is_folder and name == ".":
            raise UnsafeArchiveError(f"The archive has a file without a name: {raw_name!r:.200}")
        if not is_folder and name in self.files:
            raise UnsafeArchiveError(f"The archive holds {name!r} twice: which one counts would be a guess")
        if name in (self.files if is_folder else self.folders):
            raise _two_uses(name)
        self._note(name, self.folders if is_folder else self.files)
        parent = name.rpartition("/")[0]
        # The parents of a folder already noted are noted as well, and none of them is a file.
        while parent and parent not in self.folders:
            if parent in self.files:
                raise _two_uses(name)
            self._note(parent, self.folders)
            parent = parent.rpartition("/")[0]
        return name

    def _note(self, name: str, names: set[str]) -> None:
        if name not in names:
            self.name_bytes += len(name)
            if self.name_bytes > MAX_NAMES_BYTES:
                raise UploadTooLargeError(
                    f"The names of the archive's files and folders take more than {MAX_NAMES_BYTES:,} bytes: shorten "
                    "the paths, or send fewer files"
                )
            names.add(name)


def _two_uses(name: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(f"The archive uses {name!r} both as a file and as a folder")


def _checked_name(name: str) -> str:
    shown = repr(name[:200])
    if len(name) > MAX_NAME_BYTES:
        raise UnsafeArchiveError(f"The archive has a name longer than {MAX_NAME_BYTES} bytes: {shown}...")
    if "\x00" in name or any(ord(character) < 32 for character in name):
        raise UnsafeArchiveError(f"The archive has an entry whose name holds control characters: {shown}")
    if "\\" in name or _DRIVE.match(name):
        raise UnsafeArchiveError(f"The archive has the entry {shown}: use forward slashes and no drive letter")
    if name.startswith("/"):
        raise UnsafeArchiveError(f"The archive has the absolute path {shown}: all paths must be relative")
    try:
        parts = PurePosixPath(name).parts
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError as error:
        raise UnsafeArchiveError(f"The archive has an entry whose name is not valid text: {shown}") from error
    if ".." in parts:
        raise UnsafeArchiveError(f"The archive has the entry {shown}, which leads out of the folder it is unpacked to")
    if sum(lengths) + len(lengths) > MAX_NAME_BYTES or max(lengths, default=0) > MAX_PART_BYTES:
        raise UnsafeArchiveError(f"The archive has a name longer than {MAX_NAME_BYTES} bytes: {shown}...")
    if len(parts) > MAX_DEPTH:
        raise UnsafeArchiveError(
            f"The archive has the entry {shown}, which lies {len(parts)} folders deep: at most {MAX_DEPTH} are accepted"
        )
    return str(PurePosixPath(*parts))


def _is_junk(name: str) -> bool:
    return bool(_JUNK.search(name))


def _walk_zip(file: BinaryIO, size: int, limits: Settings) -> Walk:
    guarded = ZipSource(file, size, limits.max_archive_entries)
    with zipfile.ZipFile(cast(BinaryIO, guarded)) as archive:
        ledger = _Ledger(limits)
        infos = archive.infolist()
        _refuse_overlaps(infos)
        names = [_checked_zip_entry(info, ledger) for info in infos]
        if ledger.declared > max(RATIO_FLOOR_BYTES, limits.max_compression_ratio * size):
            raise UnsafeArchiveError(
                f"The archive unpacks to {ledger.declared / size:.0f} times its size, the limit is "
                f"{limits.max_compression_ratio:g}: a zip bomb looks like this"
            )
        for info, name in zip(infos, names, strict=True):
            if info.is_dir() or _is_junk(name):
                continue
            with archive.open(info) as stream:
                yield ArchiveEntry(name, info.file_size), cast(BinaryIO, EntryStream(stream, info.file_size, name))


def _refuse_overlaps(infos: list[zipfile.ZipInfo]) -> None:
    """Refuse entries that share bytes: each is small, and the same bytes unpack as often as they are named."""
    end, before = 0, ""
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise UnsafeArchiveError(
                f"The archive entries {before[:200]!r} and {info.orig_filename[:200]!r} overlap: a zip bomb looks like "
                "this"
            )
        # The extra field of a local header may be shorter than the directory's; its name may not.
        end = info.header_offset + _LOCAL_HEADER_BYTES + len(info.orig_filename) + info.compress_size
        before = info.orig_filename


def _checked_zip_entry(info: zipfile.ZipInfo, ledger: _Ledger) -> str:
    # ZipFile cuts a name at its first NUL; the original says what was really written.
    name = ledger.admit(info.orig_filename, info.file_size, is_folder=info.is_dir())
    mode = info.external_attr >> 16
    if info.flag_bits & 0x1:
        raise UnsafeArchiveError(f"The archive entry {name!r} is encrypted: send it without a password")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UnsafeArchiveError(
            f"The archive entry {name!r} is a link or a device: only files and folders are accepted"
        )
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsupportedFormatError(f"The archive entry {name!r} uses an unusual compression: store or deflate it")
    ratio = info.file_size / max(info.compress_size, 1)
    if info.file_size > RATIO_FLOOR_BYTES and ratio > ledger.limits.max_compression_ratio:
        raise UnsafeArchiveError(
            f"The archive entry {name!r} unpacks to {ratio:.0f} times its size, "
            f"the limit is {ledger.limits.max_compression_ratio:g}: a zip bomb looks like this"
        )
    return name


def _walk_tar(file: BinaryIO, kind: Kind, limits: Settings) -> Walk:
    source: AbstractContextManager[BinaryIO] = (
        cast("AbstractContextManager[BinaryIO]", gzip.GzipFile(fileobj=file, mode="rb"))
        if kind is Kind.TAR_GZ
        else closing(file)
    )
    packed_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    with source as plain:
        most = limits.max_archive_bytes + 4096 * (limits.max_archive_entries + 1)
        ratio = limits.max_compression_ratio if kind is Kind.TAR_GZ else None
        forward = TarSource(plain, most, None if ratio is None else max(RATIO_FLOOR_BYTES, int(packed_bytes * ratio)))
        ledger = _Ledger(limits)
        with tarfile.open(fileobj=forward, mode="r:") as archive:
            while (info := archive.next()) is not None:
                # TarFile keeps every entry it has seen.
                archive.members = []  # type: ignore[attr-defined]
                forward.pass_headers(info.offset_data + (max(info.size, 0) if info.isreg() else 0))
                if len(archive.pax_headers) > MAX_GLOBAL_HEADERS:
                    raise UnsafeArchiveError(
                        f"The archive's global headers have more than {MAX_GLOBAL_HEADERS} keywords"
                    )
                name = _checked_tar_entry(info, ledger)
                if info.isdir() or _is_junk(name):
                    continue
                stream = archive.extractfile(info)
                if stream is None:
                    raise MalformedFileError(f"The archive entry {name!r} has no bytes")
                entry = ArchiveEntry(name, info.size, info.offset_data)
                yield entry, cast(BinaryIO, EntryStream(stream, info.size, name))
                drain(cast(BinaryIO, stream))
        # TarFile takes a damaged or missing header for the end; a whole archive ends with a block of zeros.
        if forward.last_read != bytes(tarfile.BLOCKSIZE):
            raise MalformedFileError("The archive is truncated or damaged: it stops before its end marker")
        forward.skip_to_end()


def _checked_tar_entry(info: tarfile.TarInfo, ledger: _Ledger) -> str:
    name = ledger.admit(info.name, info.size, is_folder=info.isdir())
    if info.issym() or info.islnk():
        raise UnsafeArchiveError(
            f"The archive entry {name!r} is a link to {info.linkname!r:.200}: send the file itself"
        )
    if not (info.isreg() or info.isdir()) or info.issparse():
        raise UnsafeArchiveError(
            f"The archive entry {name!r} is a device, a pipe or sparse: only files and folders are accepted"
        )
    return name
