"""Attacked images from the records of a check, as PNG, beside what the model says of them."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seatrial.reporting.adversarial_texts import class_name

STAGE = "pictures"
"""The stage whose records hold the images."""

ARMS = {"over": "pushed to look sure", "under": "pushed to look lost"}

_GREY, _RGB = 0, 2


@dataclass(frozen=True)
class Attacked:
    """What an attack made of an image.

    Attributes:
        name: What it was after, in words.
        prediction: Class the model predicts, in words.
        is_changed: Whether it predicts another class than of the image itself.
        confidence: In that class.
        entropy: Of the prediction, nats.
        image: The attacked image, a data URL.
        difference: What was added to it around mid-grey, a data URL; empty where nothing was.
        gain: How many times larger the difference is drawn than it is.
    """

    name: str
    prediction: str
    is_changed: bool
    confidence: float
    entropy: float
    image: str
    difference: str
    gain: float


@dataclass(frozen=True)
class Picture:
    """An image and what attacks made of it.

    Attributes:
        example: Position in its dataset.
        label: Class it has, in words.
        prediction: Class the model predicts of it unattacked.
        is_correct: Whether that is its class.
        confidence: In that class.
        entropy: Of the prediction, nats.
        span: Widest range of entropy that the audit's attacks reached, nats.
        share: The same, of the largest there is.
        image: The image, a data URL.
        attacked: What attacks made of it.
    """

    example: int
    label: str
    prediction: str
    is_correct: bool
    confidence: float
    entropy: float
    span: float
    share: float | None
    image: str
    attacked: tuple[Attacked, ...]


def pictures_of(records: Any, labels: list[str] | None, classes: int | None) -> list[Picture]:
    """Return the images in records of the stage, those first that an attacker can do most with.

    Args:
        records: A pyarrow Table.
        labels: Names of the classes, where known.
        classes: Their number, where known.
    """
    kept = records.filter(records.column("pixels").is_valid()).to_pylist()
    kept.sort(key=lambda row: (-row["span"], row["example_id"]))
    return [_picture(row, labels, classes) for row in kept]


def png(pixels: bytes, channels: int, height: int, width: int) -> bytes:
    r"""Return an image as PNG (W3C, third edition).

    Args:
        pixels: 8-bit values (channels, height, width).
        channels: 1, grey, or 3, red, green and blue.
        height: Rows.
        width: Columns.

    Raises:
        ValueError: There are not as many values, or other than one or three channels.

    >>> png(bytes(4), 1, 2, 2)[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    size = height * width
    if channels not in (1, 3) or size == 0 or len(pixels) != channels * size:
        raise ValueError(f"not an image: {len(pixels)} values for {channels} x {height} x {width}")
    interleaved = bytearray(len(pixels))
    for channel in range(channels):
        interleaved[channel::channels] = pixels[channel * size : (channel + 1) * size]
    row = channels * width
    # Each row begins with the number of its filter, none.
    rows = b"".join(b"\0" + interleaved[at : at + row] for at in range(0, len(interleaved), row))
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if channels == 1 else _RGB, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _picture(row: dict[str, Any], labels: list[str] | None, classes: int | None) -> Picture:
    shape = row["channels"], row["height"], row["width"]
    return Picture(
        example=row["example_id"],
        label=class_name(row["label"], labels),
        prediction=class_name(row["prediction_clean"], labels),
        is_correct=row["prediction_clean"] == row["label"],
        confidence=row["confidence_clean"],
        entropy=row["entropy_clean"],
        span=row["span"],
        share=row["span"] / math.log(classes) if classes is not None and classes > 1 else None,
        image=_data_url(row["pixels"], shape),
        attacked=tuple(_attacked(row, arm, labels, shape) for arm in ARMS),
    )


def _attacked(row: dict[str, Any], arm: str, labels: list[str] | None, shape: Sequence[int]) -> Attacked:
    step = row[f"step_{arm}"]
    change = np.frombuffer(row[f"change_{arm}"], dtype=np.int8).astype(np.float64)
    pixels = np.frombuffer(row["pixels"], dtype=np.uint8).astype(np.float64)
    moved = np.rint(pixels + 255 * step * change).clip(0, 255).astype(np.uint8)
    is_moved = bool(change.any())
    return Attacked(
        name=ARMS[arm],
        prediction=class_name(row[f"prediction_{arm}"], labels),
        is_changed=row[f"prediction_{arm}"] != row["prediction_clean"],
        confidence=row[f"confidence_{arm}"],
        entropy=row[f"entropy_{arm}"],
        image=_data_url(moved.tobytes(), shape),
        difference=_data_url((128 + change).astype(np.uint8).tobytes(), shape) if is_moved else "",
        # A step of the change is drawn as one of 255 levels.
        gain=1 / (255 * step) if is_moved else 1.0,
    )


def _data_url(pixels: bytes, shape: Sequence[int]) -> str:
    return "data:image/png;base64," + base64.b64encode(png(pixels, *shape)).decode()
