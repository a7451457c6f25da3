"""Small files that would unpack to much: refused, or read, within some memory and time of a child process."""

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.datasets.inspection import inspect_dataset
from seatrial.ingest.archives import check_archive
from seatrial.ingest.inspection.errors import (
    ContentError,
    InspectionError,
    MalformedFileError,
    UnsafeArchiveError,
    UploadTooLargeError,
)
from seatrial.store.settings import Settings
from tests.bounded import MIB, bounded
from tests.ingest.builders import dataset_manifest, images_npz, npz, tarred, zipped

LIMITS = Settings()


def _refusal(work: Callable[[], object], *, extra_bytes: int = 128 * MIB, deadline_s: float = 20.0) -> InspectionError:
    """Return the refusal of something that must be refused in a child with little memory."""

    def refuse() -> InspectionError:
        with pytest.raises(InspectionError) as refused:
            work()
        return type(refused.value)(refused.value.detail)

    return bounded(refuse, extra_bytes=extra_bytes, deadline_s=deadline_s)


def _store(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "upload"
    path.write_bytes(data)
    return path


def _packed(tmp_path: Path, data: bytes) -> Callable[[], object]:
    path = _store(tmp_path, data)
    return lambda: check_archive(path, LIMITS)


def _dataset(tmp_path: Path, data: bytes, **manifest: object) -> Callable[[], object]:
    path = _store(tmp_path, data)
    return lambda: inspect_dataset(path, "upload", dataset_manifest(**manifest), LIMITS)


@pytest.mark.parametrize("pack", [zipped, lambda files: tarred(files, "w:gz")], ids=["zip", "tar.gz"])
def test_deep_paths_are_refused(tmp_path: Path, pack) -> None:
    files = {f"{number}/" + "a/" * 400 + "x": b"" for number in range(3000)}
    assert isinstance(_refusal(_packed(tmp_path, pack(files))), UnsafeArchiveError)
    check_archive(_store(tmp_path, pack({"a/" * 31 + "x": b""})), LIMITS)
    with pytest.raises(UnsafeArchiveError, match="32"):
        check_archive(_store(tmp_path, pack({"a/" * 32 + "x": b""})), LIMITS)


@pytest.mark.drill
@pytest.mark.slow
def test_names_may_take_so_many_bytes_in_all(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as packed:
        for number in range(15_000):
            info = tarfile.TarInfo("/".join(f"{number}{letter * 190}" for letter in "abcde"))
            packed.write(info.tobuf(tarfile.GNU_FORMAT))
        packed.write(bytes(1024))
    refusal = _refusal(_packed(tmp_path, buffer.getvalue()))
    assert isinstance(refusal, UploadTooLargeError)
    assert "names" in refusal.detail


def _extension(kind: bytes, data: bytes, repeat: int = 1) -> bytes:
    info = tarfile.TarInfo("extension")
    info.type, info.size = kind, len(data)
    block = info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
    return gzip.compress(block * repeat + tarfile.TarInfo("file").tobuf() + bytes(1024), 1)


def _records(count: int, prefix: str = "") -> bytes:
    records = []
    for number in range(count):
        body = f" {prefix}{number}=v\n"
        length = len(body) + 1
        length = len(body) + len(str(length + len(str(length)) - 1))
        records.append(f"{length}{body}")
    return "".join(records).encode()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_large_extension_headers_are_refused(tmp_path: Path, kind: bytes) -> None:
    data = _records(800_000) if kind != tarfile.GNUTYPE_LONGNAME else b"a/" * 15 * MIB
    assert isinstance(_refusal(_packed(tmp_path, _extension(kind, data))), UnsafeArchiveError)


@pytest.mark.slow
def test_chains_of_extension_headers_are_refused(tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE):
        refusal = _refusal(_packed(tmp_path, _extension(kind, _records(60_000), 50)))
        assert isinstance(refusal, UnsafeArchiveError)


def test_global_headers_do_not_add_up(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as packed:
        for number in range(20):
            data = _records(20_000, f"{number}.")
            info = tarfile.TarInfo("global")
            info.type, info.size = tarfile.XGLTYPE, len(data)
            packed.write(info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512))
            packed.write(tarfile.TarInfo(f"file{number}").tobuf())
        packed.write(bytes(1024))
    assert isinstance(_refusal(_packed(tmp_path, buffer.getvalue())), UnsafeArchiveError)


def test_ordinary_extension_headers_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "from git archive"}
    ) as archive:
        info = tarfile.TarInfo("ä" * 100 + "/b")
        info.pax_headers = {"SCHILY.xattr.user.note": "x" * 200_000}
        archive.addfile(info)
    assert [entry.name for entry in check_archive(_store(tmp_path, buffer.getvalue()), LIMITS)] == ["ä" * 100 + "/b"]


def test_overlapping_zip_entries_are_refused(tmp_path: Path) -> None:
    kernel = bytes(MIB)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0", kernel)
        first = archive.infolist()[0]
        for number in range(1, 60):
            archive.filelist.append(twin := zipfile.ZipInfo(str(number)))
            for part in ("header_offset", "file_size", "compress_size", "CRC", "compress_type", "flag_bits"):
                setattr(twin, part, getattr(first, part))
    with pytest.raises(UnsafeArchiveError, match="overlap"):
        check_archive(_store(tmp_path, buffer.getvalue()), LIMITS)


def test_a_local_name_that_differs_from_the_directory_is_refused(tmp_path: Path) -> None:
    data = bytearray(zipped({"right": b"x"}))
    data[data.index(b"right")] ^= 1
    with pytest.raises(MalformedFileError):
        check_archive(_store(tmp_path, bytes(data)), LIMITS)


def _npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def _with_names(names: bytes) -> bytes:
    buffer = io.BytesIO(images_npz())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("class_names.npy", names)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("descr", "shape", "size"),
    [
        ("<U0", "(100000000,)", 0),
        ("<U0", "(1000000000000,)", 0),
        ("|S0", "(100000000,)", 0),
        ("U", "(1000000000000,)", 0),
        ("|S1", "(16000000,)", 16_000_000),
        ("<U1", "(4000000,)", 16_000_000),
        ("<U4000000", "(1,)", 16_000_000),
        ("<U1000000", "(100000000000000,)", 10),
        ("<U1", "(-1,)", 0),
        ("<U1", "(" + "9" * 18 + "," * 1 + ("9" * 18 + ",") * 31 + ")", 0),
        ("<U1", "(" + "9" * 5000 + ",)", 0),
        ("<U1", "(0, 1000000000000)", 0),
        (">U1", "(2,)", 8),
    ],
)
def test_class_names_take_no_more_than_their_bytes(tmp_path: Path, descr: str, shape: str, size: int) -> None:
    work = _dataset(tmp_path, _with_names(_npy(descr, shape, b"a" * size)))
    assert isinstance(_refusal(work, extra_bytes=96 * MIB), ContentError | MalformedFileError)


def test_class_names_in_the_other_byte_order_are_read(tmp_path: Path) -> None:
    names = np.array(list("abcd"))
    swapped = images_npz(class_names=names.astype(names.dtype.newbyteorder(">")))
    assert _dataset(tmp_path, swapped)().labels == list("abcd")  # type: ignore[attr-defined]


def test_arrays_of_no_bytes_are_no_images(tmp_path: Path) -> None:
    empty = npz(images=np.zeros((0, 3, 4, 4), np.uint8), labels=np.zeros(0, np.int64))
    assert "no examples" in _refusal(_dataset(tmp_path, empty)).detail


def test_a_folder_that_claims_a_size_does_not_let_a_large_header_through(tmp_path: Path) -> None:
    folder = tarfile.TarInfo("folder")
    folder.type, folder.size = tarfile.DIRTYPE, 2**30
    data = _records(200_000)
    info = tarfile.TarInfo("extension")
    info.type, info.size = tarfile.XHDTYPE, len(data)
    blocks = folder.tobuf() + info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
    with pytest.raises(UnsafeArchiveError, match="extension header"):
        _packed(tmp_path, blocks + tarfile.TarInfo("file").tobuf() + bytes(1024))()


@pytest.mark.slow
def test_sentences_whose_tags_have_no_end_are_refused(tmp_path: Path) -> None:
    tag = "x" * 4 * MIB
    data = "".join(f"{number}\tw\t_\t{tag}\t_\t_\t_\t_\t_\t_\n" for number in range(1, 41)).encode()
    refusal = _refusal(_dataset(tmp_path, data, task="token-classification"), extra_bytes=96 * MIB)
    assert "blank line" in refusal.detail


def test_a_line_made_of_brackets_is_not_parsed(tmp_path: Path) -> None:
    data = b'{"text": "a", "label": 1, "more": [' + b"[]," * 2_000_000 + b"0]}\n"
    refusal = _refusal(_dataset(tmp_path, data, task="text-classification"), extra_bytes=64 * MIB)
    assert "values" in refusal.detail


def test_numbers_of_a_million_digits_are_refused(tmp_path: Path) -> None:
    for number in (b"1" * MIB, b"-" + b"9" * 4300, b"1e999"):
        data = b'{"text": "a", "label": ' + number + b"}\n"
        assert isinstance(_refusal(_dataset(tmp_path, data, task="text-classification")), ContentError)
