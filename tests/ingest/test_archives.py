import io
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from seatrial.ingest.archives import check_archive, extract_archive, walk_archive
from seatrial.ingest.inspection.errors import (
    InspectionError,
    MalformedFileError,
    UnsafeArchiveError,
    UnsupportedFormatError,
    UploadTooLargeError,
)
from seatrial.store.settings import Settings
from tests.ingest.builders import tarred, zipped

LIMITS = Settings()
FILES = {"a.txt": b"one", "sub/b.txt": b"two" * 1000, "sub/empty": b""}


def _store(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "upload"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [zipped(FILES), tarred(FILES), tarred(FILES, "w:gz")], ids=["zip", "tar", "tar.gz"])
def test_extracts_what_was_packed(tmp_path: Path, data: bytes) -> None:
    entries = extract_archive(_store(tmp_path, data), tmp_path / "out", LIMITS)
    assert {entry.name: (tmp_path / "out" / entry.name).read_bytes() for entry in entries} == FILES
    assert all(stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) == 0o600 for name in FILES)
    with pytest.raises(FileExistsError):
        extract_archive(tmp_path / "upload", tmp_path / "out", LIMITS)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar_entries_give_their_offset(tmp_path: Path, mode: str) -> None:
    plain = tarred(FILES)
    with walk_archive(_store(tmp_path, tarred(FILES, mode)), LIMITS) as walk:
        for entry, stream in walk:
            assert entry.offset is not None
            assert stream.read() == plain[entry.offset : entry.offset + entry.size] == FILES[entry.name]


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "a/../../up",
        "/etc/passwd",
        "..\\up",
        "C:/up",
        "C:up",
        "a\nb",
        "x" * 300,
        "y/" * 600 + "z",
        ".",
        "././.",
    ],
)
@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar"])
def test_names_that_lead_elsewhere_are_refused_before_anything_is_written(tmp_path: Path, pack, name: str) -> None:
    path = _store(tmp_path, pack({"good.txt": b"x", name: b"x"}))
    with pytest.raises(UnsafeArchiveError):
        extract_archive(path, tmp_path / "out", LIMITS)
    assert not list((tmp_path / "out").iterdir())
    assert sorted(child.name for child in tmp_path.iterdir()) == ["out", "upload"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_tar_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("inside")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(UnsafeArchiveError, match=r"link|device"):
        check_archive(_store(tmp_path, tarred({"inside": info})), LIMITS)


def test_zip_symlink_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("inside")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UnsafeArchiveError, match="link"):
        check_archive(_store(tmp_path, buffer.getvalue()), LIMITS)


def test_encrypted_entry_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"a": b"secret"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UnsafeArchiveError, match="encrypted"):
        check_archive(_store(tmp_path, bytes(data)), LIMITS)


def test_duplicates_and_file_folder_conflicts_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("same", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("same", "2")
    with pytest.raises(UnsafeArchiveError, match="twice"):
        check_archive(_store(tmp_path, buffer.getvalue()), LIMITS)
    for files in ({"a": b"", "a/b": b""}, {"a/b": b"", "a": b""}):
        with pytest.raises(UnsafeArchiveError, match="both as a file and as a folder"):
            check_archive(_store(tmp_path, zipped(files)), LIMITS)


@pytest.mark.slow
def test_compression_bombs_are_refused(tmp_path: Path) -> None:
    bomb = bytes(80 * 2**20)
    with pytest.raises(UnsafeArchiveError, match="bomb"):
        check_archive(_store(tmp_path, zipped({"zeros": bomb})), LIMITS)
    with pytest.raises(UnsafeArchiveError, match="bomb"):
        check_archive(_store(tmp_path, zipped({"zeros": bomb[: 2**25], "ones": bomb[2**23 :]})), LIMITS)
    with pytest.raises(UnsafeArchiveError, match="bomb"):
        check_archive(_store(tmp_path, tarred({"zeros": bomb}, "w:gz")), LIMITS)


def test_a_header_that_lies_about_the_size_is_found_out(tmp_path: Path) -> None:
    data = bytearray(zipped({"zeros": bytes(5 * 2**20)}))
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(signature) + at, 1000)
    with pytest.raises(MalformedFileError):
        check_archive(_store(tmp_path, bytes(data)), LIMITS)
    # The checksum may be made to agree with the shortened entry: then 1000 bytes are all that come out.
    for signature, at in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        struct.pack_into("<I", data, data.index(signature) + at, zlib.crc32(bytes(1000)))
    entries = extract_archive(_store(tmp_path, bytes(data)), tmp_path / "out", LIMITS)
    assert (tmp_path / "out" / entries[0].name).stat().st_size == 1000


def test_size_and_count_limits(tmp_path: Path) -> None:
    few = Settings(max_archive_entries=2)
    small = Settings(max_archive_bytes=1000)
    for pack in (zipped, tarred, lambda files: tarred(files, "w:gz")):
        path = _store(tmp_path, pack(FILES))
        for limits in (few, small):
            with pytest.raises(UploadTooLargeError):
                check_archive(path, limits)


def test_a_directory_of_a_million_entries_is_not_parsed(tmp_path: Path) -> None:
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"a"
    directory = entry * 500_000
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(directory), 4, 0)
    with pytest.raises(UploadTooLargeError):
        check_archive(_store(tmp_path, b"PK\x03\x04" + directory + end), LIMITS)


def test_truncated_archives_are_refused_wherever_they_end(tmp_path: Path) -> None:
    for data in (zipped(FILES), tarred(FILES)[: 512 * 10], tarred(FILES, "w:gz")):
        for end in {1, 100, 511, 512, 600, 1024, 1025, 1536, 2000, len(data) - 600, len(data) - 1}:
            if not 0 < end < len(data) or (data[:2] != b"\x1f\x8b" and data[:2] != b"PK" and end >= 512 * 9):
                continue
            with pytest.raises((MalformedFileError, UnsupportedFormatError)):
                check_archive(_store(tmp_path, data[:end]), LIMITS)


def test_many_extension_headers_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    pax = tarfile.TarInfo("pax")
    pax.type, pax.size = tarfile.XHDTYPE, 0
    data = pax.tobuf(tarfile.USTAR_FORMAT) * 5000 + bytes(1024)
    with pytest.raises(InspectionError):
        check_archive(_store(tmp_path, data), LIMITS)


def test_a_giant_extension_header_is_not_read(tmp_path: Path) -> None:
    pax = tarfile.TarInfo("pax")
    pax.type, pax.size = tarfile.XHDTYPE, 2**33
    with pytest.raises(InspectionError):
        check_archive(_store(tmp_path, pax.tobuf(tarfile.GNU_FORMAT) + bytes(2048)), LIMITS)


def test_what_desktops_leave_behind_is_passed_over(tmp_path: Path) -> None:
    names = {"__MACOSX/._a": b"x", ".DS_Store": b"x", "sub/.DS_Store": b"x", "a": b"x"}
    assert [entry.name for entry in check_archive(_store(tmp_path, zipped(names)), LIMITS)] == ["a"]
