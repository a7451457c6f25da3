"""What a shard is given while it runs, by what it needs: images, texts, checkpoints.

A function of a family says in its signature which of them it uses.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import torch
from torch import Tensor

from seatrial.statistics.samples import ByColumn
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.data.predictions import Predictions
from workers.models import Classifier

Records: TypeAlias = pa.Table
"""One row per example, in the order of the stage's source; never only an average."""


@runtime_checkable
class ReadsColumns(Protocol):
    """Records by stage that can be read column by column, too."""

    def by_column(self, stage: str) -> ByColumn | None:
        """Return the records of a stage; None where there are none."""
        ...


def by_column(done: Mapping[str, Records], stage: str) -> ByColumn:
    """Return the records of a stage that is done, to be read column by column: whole, large ones take much memory."""
    found = done.by_column(stage) if isinstance(done, ReadsColumns) else done[stage]
    if found is None:
        raise KeyError(stage)
    return found


Columns: TypeAlias = dict[str, Tensor]
"""Columns of records to be, by name: (batch,) on the CPU."""


@dataclass(frozen=True)
class Batch:
    """Examples that go through the model together.

    Attributes:
        example_ids: Position of each example in its dataset.
        images: (batch, channels, height, width) in [0, 1], on the classifier's device.
        labels: (batch,) int64, on the classifier's device.
    """

    example_ids: list[int]
    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class TextExample:
    """A labelled text.

    Attributes:
        example_id: Position in its dataset.
        text: The text, or premise and hypothesis.
        label: Class number.
    """

    example_id: int
    text: Text
    label: int


@dataclass(frozen=True)
class LabelledText:
    """A text of any task and the truth about it.

    Attributes:
        example_id: Position in its dataset.
        text: The text; premise and hypothesis; or, of a tagged sentence, its tokens.
        truths: The class, one number; of multi-label texts 0 or 1 for each class; of a sentence a tag for each token.
    """

    example_id: int
    text: Text
    truths: tuple[int, ...]


class Checkpoint(Mapping[str, Tensor]):
    """What a shard had reached: tensors by name, on the CPU, and ``notes``, the strings saved with them."""

    def __init__(self, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
        self._tensors = dict(tensors)
        self.notes = dict(notes)

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class RunContext(Protocol):
    """What every shard is given. Every method may raise :class:`Interrupted`; let it through."""

    @property
    def examples(self) -> int:
        """How many examples the stage has, all its shards together."""
        ...

    def check_cancelled(self) -> None:
        """Look for cancellation (cheap: call it at every gradient step)."""
        ...

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done; for those who do not take batches."""
        ...

    def seed(self, purpose: str, example_id: int) -> int:
        """Return a 63-bit seed made of (audit seed, family, purpose, example id) alone."""
        ...

    @property
    def samples(self) -> int:
        """Examples that the audit draws."""
        ...

    def salted_seed(self, purpose: str, example_id: int) -> int:
        """Return one that nobody can know before an audit of a model behind a URL: its salt goes into it as well."""
        ...

    def records(self, stage: str) -> Records:
        """Return the records of a finished stage of this check."""
        ...


class ImageContext(RunContext, Protocol):
    """What a shard of images is given besides."""

    @property
    def classifier(self) -> Classifier:
        """The model under audit."""
        ...

    @property
    def model_digest(self) -> str:
        """Digest of the file of the model under audit."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the classifier computes."""
        ...

    @property
    def autocast(self) -> torch.dtype | None:
        """The dtype the operator allows networks to compute in where a method does not need float32; None: none."""
        ...

    def shared(self, purpose: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return what several shards of this check need alike: made by one of a process, kept for the others.

        Records must not depend on who made it: for one check, the same purpose has to be the same tensors to the bit.
        Whatever ``make`` raises is let through, and nothing is kept then; nor is what the process has no room for.

        Args:
            purpose: What it is.
            make: Makes it: tensors by name, on the CPU, which nobody may change afterwards.
        """
        ...

    def batches(self) -> Iterator[Batch]:
        """Yield the shard's batches in order; looks for cancellation before each and counts each as progress after."""
        ...

    def together(self) -> Batch:
        """Return all of the shard's examples as one batch, for methods that see them together; progress is yours."""
        ...

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        """Return one CPU generator per example, seeded by (audit seed, family, purpose, example id) alone."""
        ...

    def model(self, parameter: str) -> Classifier:
        """Return the further model a parameter names (``transfer_model``)."""
        ...

    def examples_of(self, parameter: str) -> tuple[Tensor, Tensor]:
        """Return the images (n, channels, height, width) and labels (n,) of the further dataset a parameter names.

        On the CPU, in [0, 1], at the model's size and channels; all of them.
        """
        ...


class TextContext(RunContext, Protocol):
    """What a shard of texts is given besides."""

    @property
    def task(self) -> str:
        """What the model under audit does."""
        ...

    def texts(self) -> list[TextExample]:
        """Return the shard's examples of a text dataset, in order."""
        ...

    def labelled(self) -> list[LabelledText]:
        """Return the shard's examples of a dataset of texts of any task, in order; ``scoring`` answers their texts."""
        ...

    def scoring(self, parameter: str | None = None) -> ScoringService:
        """Return the scoring service of the text model under audit, or of the further model a parameter names."""
        ...


class PredictionsContext(RunContext, Protocol):
    """What a shard of a table of predictions is given besides."""

    def predictions(self) -> Predictions:
        """Return the shard's examples, in order, with what the model answered to each."""
        ...


class CheckpointContext(RunContext, Protocol):
    """What a shard is given that may go on where an earlier attempt at it ended."""

    def checkpoint(self) -> Checkpoint | None:
        """Return what this shard saved last, or None when it begins at its beginning. Ask once, before anything else.

        A shard may be begun again: its worker died, was frozen beyond its lease, was asked to stop, or an error came
        that nobody foresaw. The next attempt begins from the checkpoint; one that fails there too without having saved
        again is followed by an attempt that begins anew, since the state itself may be to blame. Only what the same
        code saved for the same shard comes back. A shard of a failed audit that is retried begins anew.
        """
        ...

    def save(self, state: Mapping[str, Tensor], notes: Mapping[str, str] | None = None, *, force: bool = False) -> None:
        """Keep a state from which the shard can go on; it replaces the one before and goes when the shard ends.

        Call it after every round, however short: a call soon after the last checkpoint only looks for cancellation, as
        :meth:`check_cancelled` does. A worker asked to stop saves what it is given here, then interrupts. A checkpoint
        that cannot be stored is logged and the shard goes on.

        The records must not depend on where a shard was resumed: save everything that persists between rounds,
        generators too (``generator.get_state()``), and the rows of the examples that are done.

        Args:
            state: Tensors by name, on any device; copied here, so that they may change afterwards.
            notes: Strings by name, for what is no tensor: the reason an attack failed, a summary as JSON.
            force: Save now, however young the last checkpoint is: after a round whose repetition would cost minutes.

        Raises:
            Interrupted: The shard was cancelled or lost, and nothing is stored; or the worker is asked to stop.
        """
        ...


class ResumableImageContext(ImageContext, CheckpointContext, Protocol):
    """What a shard of images is given that may go on where it ended."""


class ResumableTextContext(TextContext, CheckpointContext, Protocol):
    """What a shard of texts is given that may go on where it ended."""
