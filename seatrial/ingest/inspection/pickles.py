"""Recognising pickles by content: every protocol, also compressed. Nothing here ever loads one."""

import bz2
import lzma
import pickletools
import zlib
from collections.abc import Callable

HEAD_BYTES = 64 * 1024
"""Enough of a file to tell what it is."""

# Opcodes a protocol 0 or 1 pickle can begin with: those that push something.
_OPENERS = frozenset(b"(c])}ILFSVNKMJGUTXl")
_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
# What `pickletools` calls an argument whose length stands before it: bytes of that length field.
_LENGTH_FIELDS = {-2: 1, -3: 4, -4: 4, -5: 8}
_LINE_ARGUMENTS = {"GLOBAL": 2, "INST": 2}
_ENOUGH_OPCODES = 64


def looks_like_pickle(head: bytes, size: int) -> bool:
    r"""Return whether a file of ``size`` bytes that begins with ``head`` is a pickle, compressed or not.

    Args:
        head: The first ``HEAD_BYTES`` bytes, or the whole file when it is shorter.
        size: Bytes of the whole file.

    >>> looks_like_pickle(b"\x80\x04K\x01.", 5)
    True
    >>> looks_like_pickle(b"cposix\nsystem\n(S'id'\ntR.", 24)
    True
    >>> looks_like_pickle(b"Neither is this sentence.", 25)
    False
    """
    return _is_bare_pickle(head, size) or any(_is_bare_pickle(inner, 2**63) for inner in decompressed_heads(head))


def _is_bare_pickle(head: bytes, size: int) -> bool:
    if len(head) < 2:
        return False
    # A safetensors header length of 0x0280, 0x0380, ... also begins with these two bytes; zero is no opcode.
    if head[0] == 0x80 and head[1] <= 5:
        return len(head) < 3 or head[2] in _OPCODES
    return head[0] in _OPENERS and _opcodes_run_through(head, size)


def _opcodes_run_through(head: bytes, size: int) -> bool:
    """Return whether the bytes are a complete pickle program, or a long valid beginning of one."""
    position, count = 0, 0
    while position < len(head):
        opcode = _OPCODES.get(head[position])
        if opcode is None:
            return False
        position += 1
        count += 1
        if opcode.name == "STOP":
            # One lone value and a full stop is also how a sentence may look: ask for the exact end.
            return position == size
        end = _end_of_argument(opcode, head, position)
        if end is None or end > size:
            is_cut_off = size > len(head) and b"\n" not in head[position:]
            return is_cut_off and count >= _ENOUGH_OPCODES
        position = end
    return size > len(head) and (count >= _ENOUGH_OPCODES or position > len(head))


def _end_of_argument(opcode: pickletools.OpcodeInfo, head: bytes, position: int) -> int | None:
    """Return where an opcode's argument ends, or None when it cannot be one."""
    if opcode.arg is None:
        return position
    if opcode.arg.n >= 0:
        return position + opcode.arg.n
    if opcode.arg.n in _LENGTH_FIELDS:
        width = _LENGTH_FIELDS[opcode.arg.n]
        return position + width + int.from_bytes(head[position : position + width], "little")
    for _ in range(_LINE_ARGUMENTS.get(opcode.name, 1)):
        newline = head.find(b"\n", position)
        if newline < 0 or not _is_line_argument(opcode.name, head[position:newline]):
            return None
        position = newline + 1
    return position


def _is_line_argument(name: str, line: bytes) -> bool:
    if name in ("INT", "LONG", "GET", "PUT"):
        return line.removesuffix(b"L").removeprefix(b"-").isdigit()
    if name == "FLOAT":
        return bool(line) and not line.strip(b"0123456789+-.einfa")
    if name in ("GLOBAL", "INST"):
        return bool(line) and not line.strip().translate(None, b"._<>").strip().translate(None, _WORD_BYTES)
    if name == "STRING":
        return len(line) >= 2 and line[:1] in b"'\"" and line[-1:] == line[:1]
    return True


_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def decompressed_heads(head: bytes) -> list[bytes]:
    """Return what the beginning unpacks to under each compression it claims (joblib writes all of these)."""
    openers: list[tuple[bytes, Callable[[], bytes]]] = [
        (b"\x1f\x8b", lambda: zlib.decompressobj(31).decompress(head, HEAD_BYTES)),
        (b"\x78", lambda: zlib.decompressobj().decompress(head, HEAD_BYTES)),
        (b"BZh", lambda: bz2.BZ2Decompressor().decompress(head, HEAD_BYTES)),
        (b"\xfd7zXZ", lambda: lzma.LZMADecompressor(memlimit=2**27).decompress(head, HEAD_BYTES)),
        (
            b"\x5d\x00\x00",
            lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=2**27).decompress(head, HEAD_BYTES),
        ),
    ]
    heads = []
    for magic, decompress in openers:
        if head.startswith(magic):
            try:
                heads.append(decompress())
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError):
                continue
    return heads
