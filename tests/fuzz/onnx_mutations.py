"""ONNX files, changed where they could do harm: operators, sizes, attributes, payloads, and bytes anywhere."""

from random import Random

from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.onnx.layers import OPERATORS
from seatrial.ingest.onnx.wire import Budget
from tests.fuzz.mutations import damaged
from tests.ingest.onnx_files import field

NAMES = (
    *(one.rpartition(":")[2] for one in OPERATORS),
    *("Loop", "If", "Scan", "RandomNormal", "../../etc/passwd", "__import__('os').system('true')", "x", "y", "w", ""),
)
SIZES = (0, 1, 2, 3, 5, 7, 16, 64, 4097, 2**20, 2**31, 2**33, 2**40, 2**62, -1, -2, -(2**40))
EXTERNAL = field(14, 1) + field(13, field(1, "location") + field(2, "/etc/passwd"))


def mutated(random: Random, data: bytes) -> bytes:
    """Return a file after one to three changes."""
    for _ in range(random.randint(1, 3)):
        data = damaged(random, data) if random.random() < 0.1 else _changed(random, data, depth=random.randint(1, 7))
    return data


def _changed(random: Random, data: bytes, depth: int) -> bytes:
    try:
        fields = list(Budget().fields(memoryview(data)))
    except InspectionError:
        return _payload(random, data)
    if not fields:
        return random.choice((b"", EXTERNAL))
    at = random.randrange(len(fields))
    number, value = fields[at]
    told = [_told(*one) for one in fields]
    kind = random.randrange(20)
    if isinstance(value, memoryview) and depth and kind < 15:
        told[at] = field(number, _changed(random, bytes(value), depth - 1))
    elif kind < 16:
        told[at] = _replaced(random, number, value)
    elif kind == 16:
        del told[at]
    elif kind == 17:
        told.insert(random.randrange(len(told) + 1), told[at])
    elif kind == 18:
        told.append(random.choice((EXTERNAL, field(random.randint(1, 26), random.choice(SIZES)), field(6, b""))))
    else:
        random.shuffle(told)
    return b"".join(told)


def _replaced(random: Random, number: int, value: int | float | memoryview) -> bytes:
    if isinstance(value, int):
        return field(number, random.choice(SIZES) if random.random() < 0.8 else random.randint(0, 20))
    if isinstance(value, float):
        return field(number, random.choice((0.0, -1.0, float("nan"), float("inf"), 1e30, 1e-30)))
    if random.random() < 0.6:
        return field(number, random.choice(NAMES))
    return field(number, _payload(random, bytes(value)))


def _payload(random: Random, data: bytes) -> bytes:
    """Return bytes that are no message, changed: a name, or a tensor's values."""
    if random.random() < 0.4:
        return random.choice(NAMES).encode()
    if len(data) % 8 == 0 and data and random.random() < 0.5:
        at = 8 * random.randrange(len(data) // 8)
        return data[:at] + random.choice(SIZES).to_bytes(8, "little", signed=True) + data[at + 8 :]
    return damaged(random, data) if data else data


def _told(number: int, value: int | float | memoryview) -> bytes:
    if isinstance(value, float):
        # A double may be larger than the float32 it is written back as.
        return field(number, value if abs(value) < 3e38 else 0.0)
    return field(number, bytes(value) if isinstance(value, memoryview) else value)
