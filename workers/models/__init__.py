"""Models under audit, behind small protocols: one for images, one for texts."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from workers.data import Text

Box: TypeAlias = tuple[float, float] | tuple[Tensor, Tensor]
"""Least and greatest valid value: of all pixels alike, or (columns,) of each column of a table."""

VALID_PIXELS: Box = (0.0, 1.0)

GREY_LEVELS = 255
"""Steps of a pixel's 8 bits between black and white."""


def box_of(model: object) -> Box:
    """Return the box a model's inputs lie in: its own, or that of pixels.

    >>> box_of(None)
    (0.0, 1.0)
    """
    box: Box = getattr(model, "box", VALID_PIXELS)
    return box


def gives_gradients(model: object) -> bool:
    """Tell whether logits can be differentiated: those of an endpoint cannot.

    >>> gives_gradients(None)
    True
    """
    return bool(getattr(model, "has_gradients", True))


def levels_of(model: object) -> int | None:
    """Return into how many steps a model's inputs are rounded between 0 and 1 before it sees them; None: not at all."""
    levels: int | None = getattr(model, "levels", None)
    return levels


def passes_of(model: object) -> int:
    """Return the forward passes whose mean probabilities are a model's prediction: 1 unless several are known apart.

    >>> passes_of(None)
    1
    """
    return int(getattr(model, "passes", 1))


class Classifier(Protocol):
    """A frozen model in eval mode that turns inputs into logits.

    Images are float tensors (batch, channels, height, width) in [0, 1]; normalisation lives inside.
    """

    @property
    def classes(self) -> int:
        """Number of logits per example."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def logits(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes); differentiable with respect to ``images``."""
        ...


class UnansweredError(Exception):
    """A text has no scores: an endpoint did not answer, or its budget is spent. Its example is errored."""


Answer: TypeAlias = Tensor | UnansweredError
"""Of one text: its logits, or why there are none."""


class TextClassifier(Protocol):
    """A frozen classifier of texts, or of the tokens of sentences, in eval mode.

    What it returns for a text depends on that text alone, bit for bit: not on the texts beside it, nor on how many
    there are. Records are byte-identical however a stage is cut because of that.
    """

    @property
    def classes(self) -> int:
        """Number of logits per text, or per token."""
        ...

    @property
    def labels(self) -> list[str]:
        """Names of classes or tags in the order of the logits."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes; the CPU for an endpoint."""
        ...

    @property
    def preferred_texts(self) -> int:
        """Texts that are best asked for at once."""
        ...

    def logits(self, texts: Sequence[Text]) -> list[Answer]:
        """Return logits on the CPU for each text, in order, or why there are none.

        (classes,) for a text or a pair; (tokens, tags) for a sentence, NaN throughout in the row of a token the model
        gives no tag: it stands beyond what the model takes, say. float32 where a module computed them; float64 where
        they are logarithms of probabilities somebody sent.
        """
        ...
