"""What ``uncertainty_span`` asks and publishes of conformal prediction sets: block ``conformal``."""

import math
from collections.abc import Callable

from pydantic import Field

from seatrial.contracts.base import Real, Request
from seatrial.contracts.family import FROM_ZERO, SHARE, Dependence, Measurement, Metric, Qualifiers, Range
from seatrial.statistics.selective import conformal_threshold


class ConformalParams(Request):
    """Calibrate conformal prediction sets on half of the examples, unattacked, and judge them on the others."""

    coverage: Real = Field(
        default=0.9,
        ge=0.5,
        le=0.999,
        description="Probability with which sets are to hold the label. Half of the examples, drawn by the audit's "
        "seed, calibrate them; the others are judged.",
    )
    penalty: Real = Field(
        default=0.1, ge=0, le=10, description="Added by `raps` to the score of a class for every rank beyond `free`."
    )
    free: int = Field(default=2, ge=0, le=100_000, description="Ranks that `raps` leaves without a penalty.")

    def fewest(self) -> int:
        """Return the least number of examples that can promise the coverage, both halves counted.

        >>> ConformalParams(coverage=0.9).fewest()
        18
        """
        half = 1
        while conformal_threshold([0.0] * half, 1 - self.coverage) > 0:
            half += 1
        return 2 * half


def set_metrics(depends: Callable[[Qualifiers], Dependence]) -> tuple[Metric, ...]:
    """Return coverage and size of the sets.

    Args:
        depends: Qualifiers to what a number depends on.
    """
    return (
        Metric(
            name="conformal_coverage",
            qualifiers=("score", "arm"),
            label="Conformal sets that hold the label ({score}, {arm})",
            claim="its conformal sets ({score}, {arm}) hold the label for {value}",
            unit="1",
            better="higher",
            description="Share of the judged half whose conformal prediction set holds the label. The threshold is "
            "that of the unattacked other half. `score`: `lac` (1 - p), `aps` or `raps`, none of them randomised.",
            range=SHARE,
            depends_on=depends,
        ),
        Metric(
            name="conformal_set_size",
            qualifiers=("score", "arm"),
            label="Mean size of a conformal set ({score}, {arm})",
            unit="classes",
            better="lower",
            description="Mean number of classes in these sets; one may be empty.",
            range=FROM_ZERO,
            example_range=_set_sizes,
            depends_on=depends,
        ),
    )


def _set_sizes(measured: Measurement) -> Range | None:
    # The histogram of entropies ends at the logarithm of their number.
    edges = {} if measured.result is None else measured.result.series.get("entropy_histogram", {}).get("edges")
    return (0.0, float(round(math.exp(edges[-1])))) if edges else None
