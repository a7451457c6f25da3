"""What a family's work is cut into. Without torch: who hands the work out needs none."""

from dataclasses import dataclass

SAMPLE = "sample"
"""The source of a stage that runs over the audit's own sample."""

HELD_OUT = "held_out"
"""The source of a stage that runs over examples of the audit's dataset that are not in its sample."""


@dataclass(frozen=True)
class Stage:
    """A pass over one source of examples.

    Attributes:
        name: Unique within the check; also the name of its table of records.
        source: ``SAMPLE``, ``HELD_OUT``, or the parameter naming a further dataset (``outliers/dataset``).
        limit: At most so many examples of the source (its first ones; a sample is stratified at every length). Without
            it as many as the audit samples.
        is_whole: Whether an audit that stops when it is decided runs all of it before the first look, as what other
            stages rest on. Stages over another source than the sample always are.
        is_closing: Whether it comes after the attacks of the look that ends such an audit, which it looks back on.
        grain: Examples that must stay together in a shard; None for a whole batch, so that floating-point sums inside a
            batch are the same however a stage is cut.
    """

    name: str
    source: str = SAMPLE
    limit: int | None = None
    grain: int | None = None
    is_whole: bool = False
    is_closing: bool = False


@dataclass(frozen=True)
class Shard:
    """The part of a stage to run: positions ``start`` to ``stop`` of its source, whole batches."""

    stage: str
    start: int
    stop: int
