"""What a file is, by its first bytes, whatever its name says."""

import tarfile
from enum import StrEnum

from seatrial.ingest.inspection.errors import (
    EmptyFileError,
    MalformedFileError,
    PickleRefusedError,
    UnsupportedFormatError,
)
from seatrial.ingest.inspection.pickles import HEAD_BYTES, decompressed_heads, looks_like_pickle

MAX_HEADER_BYTES = 8 * 2**20
"""Largest safetensors header read; the largest published checkpoints stay below 1 MiB per file."""


class Kind(StrEnum):
    """What the bytes are."""

    SAFETENSORS = "safetensors"
    ZIP = "zip"
    TAR = "tar"
    TAR_GZ = "tar.gz"
    PARQUET = "parquet"
    NPY = "npy"
    PICKLE = "pickle"
    HTML = "html"
    LFS_POINTER = "git-lfs pointer"
    EMPTY = "empty"
    HDF5 = "hdf5"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    ZSTD = "zstd"
    SEVEN_ZIP = "7z"
    RAR = "rar"
    GGUF = "gguf"
    IMAGE = "image"
    TEXT = "text"
    UNKNOWN = "unknown"


ARCHIVES = frozenset({Kind.ZIP, Kind.TAR, Kind.TAR_GZ})

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
    (b"PK\x07\x08", Kind.ZIP),
    (b"PAR1", Kind.PARQUET),
    (b"\x93NUMPY", Kind.NPY),
    (b"\x89HDF\r\n\x1a\n", Kind.HDF5),
    (b"BZh", Kind.BZIP2),
    (b"\xfd7zXZ\x00", Kind.XZ),
    (b"\x28\xb5\x2f\xfd", Kind.ZSTD),
    (b"7z\xbc\xaf\x27\x1c", Kind.SEVEN_ZIP),
    (b"Rar!\x1a\x07", Kind.RAR),
    (b"GGUF", Kind.GGUF),
    (b"\x89PNG\r\n\x1a\n", Kind.IMAGE),
    (b"\xff\xd8\xff", Kind.IMAGE),
    (b"GIF8", Kind.IMAGE),
)


def sniff(head: bytes, size: int) -> Kind:
    """Return what a file of ``size`` bytes is, from its first ``HEAD_BYTES``.

    >>> sniff(b"<!DOCTYPE html><html>", 21)
    <Kind.HTML: 'html'>
    >>> sniff(b"", 0)
    <Kind.EMPTY: 'empty'>
    """
    if size == 0:
        return Kind.EMPTY
    for magic, kind in _MAGIC:
        if head.startswith(magic) and not (kind in (Kind.BZIP2, Kind.XZ) and looks_like_pickle(head, size)):
            return kind
    if is_safetensors(head):
        return Kind.SAFETENSORS
    if is_tar(head):
        return Kind.TAR
    if looks_like_pickle(head, size):
        return Kind.PICKLE
    if head.startswith(b"\x1f\x8b"):
        return Kind.TAR_GZ if any(is_tar(inner) for inner in decompressed_heads(head)) else Kind.GZIP
    kind = _sniff_text(head)
    # An impossible length before a JSON object: safetensors with a damaged header, which its reader says best.
    return Kind.SAFETENSORS if kind is Kind.UNKNOWN and head[8:9] == b"{" else kind


def looks_like(kind: Kind) -> str:
    """Return what the bytes are as the end of a sentence about them.

    >>> looks_like(Kind.HDF5), looks_like(Kind.UNKNOWN)
    ('its bytes look like hdf5', 'its bytes are of no format known here')
    """
    return "its bytes are of no format known here" if kind is Kind.UNKNOWN else f"its bytes look like {kind.value}"


def is_safetensors(head: bytes) -> bool:
    """Return whether the bytes begin as safetensors do: a length of 8 bytes, then a JSON object."""
    return len(head) > 8 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= 2**32


def is_tar(head: bytes) -> bool:
    """Return whether the bytes begin with a tar header, whose checksum is right."""
    if len(head) < tarfile.BLOCKSIZE:
        return False
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def _sniff_text(head: bytes) -> Kind:
    if head.startswith(b"version https://git-lfs"):
        return Kind.LFS_POINTER
    start = head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    is_page = start.startswith((b"<!doctype html", b"<head", b"<body")) or (
        start.startswith(b"<") and b"<html" in start
    )
    if is_page:
        return Kind.HTML
    try:
        # The head may end inside a character.
        text = head.decode("utf-8") if len(head) < HEAD_BYTES else head[:-4].decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return Kind.UNKNOWN
    return Kind.TEXT if text.isprintable() or not any(c < " " and c not in "\t\r\n\f" for c in text) else Kind.UNKNOWN


def refuse_impostor(kind: Kind, where: str, wanted: str) -> None:
    """Raise for the kinds that are never right, saying what they are and what was wanted.

    Args:
        kind: What the bytes are.
        where: The file, as its sender knows it.
        wanted: What would be right, to end the sentence "send ...".

    Raises:
        EmptyFileError: There are no bytes.
        PickleRefusedError: A pickle.
        UnsupportedFormatError: An HTML page.
        MalformedFileError: A pointer instead of the file.
    """
    if kind is Kind.EMPTY:
        raise EmptyFileError(f"{where} has no bytes; send {wanted}")
    if kind is Kind.PICKLE:
        raise PickleRefusedError(
            f"{where} is a pickle, whatever its name: loading one runs code of its author's choice; send {wanted}"
        )
    if kind is Kind.HTML:
        raise UnsupportedFormatError(
            f"{where} is an HTML page, not {wanted}: a download link often gives a login or confirmation page instead"
        )
    if kind is Kind.LFS_POINTER:
        raise MalformedFileError(
            f"{where} is a git-lfs pointer of some lines, not the file it points to: run `git lfs pull`; send {wanted}"
        )
