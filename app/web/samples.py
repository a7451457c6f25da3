"""A model and a dataset to try the service with: striped images, and the linear classifier that matches them.

Both are made here and now, from one seed: nothing is trained, downloaded or shipped.
"""

import io
import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 8
LABELS = ["horizontal", "vertical", "rising", "falling"]
IMAGES = 300
CONTRAST = 0.16
"""Amplitude of the stripes around a grey of 0.5."""
NOISE = 0.3
"""Standard deviation of what is added to each pixel, before it is rounded to 8 bits."""

MODEL_MANIFEST: dict[str, Any] = {
    "name": "stripes",
    "version": "1",
    "task": "image-classification",
    "architecture": {"kind": "layers", "layers": [["flatten"], ["linear", SIDE * SIDE, len(LABELS)]]},
    "input": {"shape": [1, SIDE, SIDE], "mean": [0.5], "std": [1.0]},
    "labels": LABELS,
}

DATASET_MANIFEST: dict[str, Any] = {
    "name": "stripes",
    "version": "1",
    "task": "image-classification",
    "labels": LABELS,
}


def patterns() -> NDArray[np.float64]:
    """Return the stripes of each class (4, 8, 8), -1 and 1."""
    row, column = np.indices((SIDE, SIDE))
    phases = np.stack([row, column, row + column, row - column])
    return np.where(phases // 2 % 2, 1.0, -1.0)


@cache
def dataset() -> bytes:
    """Return the images and labels as ``.npz``."""
    random = np.random.default_rng(0)
    labels = np.arange(IMAGES) % len(LABELS)
    pixels = 0.5 + CONTRAST * patterns()[labels] + NOISE * random.standard_normal((IMAGES, SIDE, SIDE))
    images = np.clip(np.rint(pixels * 255), 0, 255).astype(np.uint8)[:, None]
    written = io.BytesIO()
    np.savez(written, images=images, labels=labels)
    return written.getvalue()


@cache
def model() -> bytes:
    """Return the matched filters of the stripes as safetensors: the Bayes-optimal classifier but for the clipping.

    Of Gaussian noise the log posterior of a class is linear in the image (Bishop, Pattern Recognition and Machine
    Learning, 4.2.1), with weights ``CONTRAST * pattern / NOISE ** 2``.
    """
    weight = (CONTRAST / NOISE**2 * patterns()).reshape(len(LABELS), -1).astype("<f4").tobytes()
    bias = np.zeros(len(LABELS), "<f4").tobytes()
    header = {
        "1.weight": {"dtype": "F32", "shape": [len(LABELS), SIDE * SIDE], "data_offsets": [0, len(weight)]},
        "1.bias": {"dtype": "F32", "shape": [len(LABELS)], "data_offsets": [len(weight), len(weight) + len(bias)]},
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + weight + bias


FILES = {"stripes.safetensors": model, "stripes.npz": dataset}
