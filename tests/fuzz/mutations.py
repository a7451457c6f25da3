"""What fuzzers change."""

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (
    0, 1, -1, 2, 7, 127, 128, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**53, 2**63 - 1,
    2**63, 2**64, 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
TEXTS = (
    "", " ", ".", "..", "/", "\\", "\0", "\n", "\r", "\ud800", "😀", "ü", "é", "%s", "{}", "$(id)", "null", "NaN", "O",
    "../x", "/dev/zero", "C:x", "a/" * 40, "a" * 300, "x" * 70_000, "__proto__", "-1", "1e999", "9" * 5000, "<U0", "|O",
    "F32", "RLE", "http://[", "auto_map",
)  # fmt: skip


def value(random: Random) -> Any:
    """Return something a field should not be."""
    kind = random.randrange(8)
    if kind < 3:
        return random.choice(NUMBERS)
    if kind < 6:
        return random.choice(TEXTS)
    if kind == 6:
        return random.choice((None, True, False, [], {}, [[]], [None] * 3, {"": {}}))
    deep: Any = random.choice(NUMBERS)
    for _ in range(random.choice((3, 30, 500))):
        deep = [deep] if random.random() < 0.5 else {"a": deep}
    return deep


def document(random: Random, given: Any, changes: int = 3) -> Any:
    """Return JSON with some places changed: replaced, dropped, copied, renamed or repeated."""
    changed = copy.deepcopy(given)
    for _ in range(random.randint(0, changes)):
        places = list(_places(changed))
        if not places:
            return value(random)
        holder, key = random.choice(places)
        kind = random.randrange(6)
        if kind < 2:
            holder[key] = value(random)
        elif kind == 2:
            del holder[key]
        elif kind == 3:
            other, name = random.choice(places)
            # The place may be gone with one that held it.
            if (isinstance(other, dict) and name in other) or (isinstance(other, list) and name < len(other)):
                holder[key] = copy.deepcopy(other[name])
        elif kind == 4 and isinstance(holder, dict):
            holder[random.choice((str(random.choice(TEXTS)), key.upper(), key + "s"))] = holder.pop(key)
        elif isinstance(holder, list):
            holder.extend([holder[key]] * random.choice((1, 5, 300)))
        else:
            holder[key] = [holder[key]] * random.choice((1, 2, 300))
    return changed


def _places(given: Any) -> Any:
    stack = [given]
    while stack:
        at = stack.pop()
        keys = at.keys() if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            yield at, key
            stack.append(at[key])


def encoded(random: Random, given: Any) -> bytes:
    """Return a document as JSON, now and then broken."""
    try:
        text = json.dumps(given, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    except RecursionError:
        text = b"[" * 3000
    return text if random.random() < 0.8 else damaged(random, text)


def damaged(random: Random, data: bytes, changes: int = 4, within: Sequence[int] | None = None) -> bytes:
    """Return bytes with some of them changed, dropped, repeated or cut off.

    Args:
        random: Of the case.
        data: The bytes.
        changes: Most changes.
        within: First and last place to change; anywhere by default.
    """
    changed = bytearray(data)
    for _ in range(random.randint(0, changes)):
        if not changed:
            break
        first, last = within or (0, len(changed))
        at = min(random.randrange(first, max(last, first + 1)), len(changed) - 1)
        kind = random.randrange(8)
        if kind < 3:
            changed[at] = random.choice(
                (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256), changed[at] ^ 1 << random.randrange(8))
            )
        elif kind < 5:
            width = random.choice((2, 4, 8))
            number = random.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data))) % 256**width
            changed[at : at + width] = number.to_bytes(width, random.choice(("little", "big")))
        elif kind == 5:
            del changed[at : at + random.choice((1, 4, 64))]
        elif kind == 6:
            changed[at:at] = changed[at : at + random.choice((1, 8, 64))] * random.choice((1, 2, 40))
        elif random.random() < 0.3:
            del changed[at:]
    return bytes(changed)
