"""Training data that hold examples of the audit: found by content, whatever the files are called."""

import hashlib
from collections.abc import Iterable
from unicodedata import normalize

import numpy as np
from torch import Tensor

from workers.data import Text
from workers.errors import PreflightError
from workers.models import GREY_LEVELS
from workers.training.data import TrainingData

READ_AT_ONCE = 256
NAMED = 5


def content_digest(example: Tensor | Text) -> bytes:
    """Return a digest of what an example shows, not of how it is stored.

    Images are rounded to 256 levels and hashed with their shape, rows of a table are hashed as they are, texts in
    Unicode's NFKC, case folded, with runs of white space as one space. It is no measure of likeness: an image of
    which one pixel is another level is another image.

    >>> content_digest(" A  film.") == content_digest("a film.")
    True
    >>> content_digest(("a", "b c")) == content_digest(("a b", "c"))
    False
    """
    if isinstance(example, Tensor):
        values = example.detach().cpu().float()
        is_image = values.ndim == 3
        # Adding 0 makes one of the two zeros that floats have.
        numbers = values.numpy() + 0
        if is_image:
            # A file of floats holds the same image as the PNG it was read from.
            numbers = (values * GREY_LEVELS).round().clamp(0, GREY_LEVELS).numpy().astype(np.uint8)
        content = repr(tuple(values.shape)).encode() + numbers.tobytes()
    else:
        parts = (example,) if isinstance(example, str) else example
        content = repr([" ".join(normalize("NFKC", part).casefold().split()) for part in parts]).encode(
            "utf-8", "replace"
        )
    return hashlib.sha256(content).digest()


def overlap(training: TrainingData, audited: Iterable[Tensor | Text]) -> list[int]:
    """Return the positions of training examples that are among the audited ones, labels aside."""
    kept = {content_digest(each) for each in audited}
    found: list[int] = []
    for start in range(0, len(training.labels), READ_AT_ONCE):
        positions = range(start, min(start + READ_AT_ONCE, len(training.labels)))
        found += [
            at for at, one in zip(positions, training.read(positions), strict=True) if content_digest(one) in kept
        ]
    return found


def refuse_overlap(training: TrainingData, audited: Iterable[Tensor | Text], *, field: str = "/dataset") -> None:
    """Let training data pass that hold none of the audited examples.

    Raises:
        PreflightError: With how many there are, and the first of them.
    """
    found = overlap(training, audited)
    if found:
        first = ", ".join(map(str, found[:NAMED]))
        raise PreflightError(
            "training-overlaps-audit",
            "The training data hold examples of the audit",
            f"{len(found)} of {len(training.labels)} training examples are among those audited, the first at {first}: "
            "train on a split the audit does not draw from",
            field=field,
        )
