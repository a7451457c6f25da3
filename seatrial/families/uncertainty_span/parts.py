"""What ``uncertainty_span`` publishes of the two parts of a predictive entropy: parameter ``parts``."""

import math
from collections.abc import Callable

from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FROM_ZERO, Dependence, Measurement, Metric, Qualifiers, Range, difference, value
from seatrial.families.uncertainty_span.effort import Budget

LOWEST, HIGHEST = "part_lowest", "part_highest"
"""Columns of a part's stage: the least and the most of it that any attack reached."""


def part_passes(steps: int, further: Budget | None) -> Passes:
    """Return what the attacks on one part of one example cost at most.

    Args:
        steps: Gradient steps of the paper's attacks, all restarts together.
        further: Of the effort; None for ``quick``.
    """
    # The clean image, and where each of two attacks ends.
    forward, backward = 3, 2 * steps
    if further is not None:
        forward += 5 + further.starts + further.queries + max(1, further.queries // 5) + 2
        backward += (1 + further.starts) * further.climb + further.cross + 2 * further.refine + 2 * further.sure
    return Passes(forward, backward)


def part_metrics(depends: Callable[[Qualifiers], Dependence]) -> tuple[Metric, ...]:
    """Return the spans of parts, and what the paper's two attacks do to them.

    Args:
        depends: Qualifiers to what a number depends on.
    """
    return (
        Metric(
            name="part_span",
            qualifiers=("part",),
            label="Uncertainty an attacker can shift, {part} part",
            claim="attackers can swing its {part} uncertainty over {value}",
            unit="nat",
            better="lower",
            description="Mean span of a part of the predictive entropy, the widest that attacks on this part reached: "
            "`aleatoric`, the mean entropy of the passes, or `epistemic`, the mutual information of class and pass. Of "
            "ensembles and Monte-Carlo dropout.",
            range=FROM_ZERO,
            example_range=_part,
            depends_on=depends,
            per_example=difference("{part}", HIGHEST, LOWEST),
        ),
        Metric(
            name="part_lowest",
            qualifiers=("part",),
            label="Lowest {part} uncertainty attacks reached",
            unit="nat",
            better="neither",
            description="Mean of the least of a part that attacks on it reached.",
            range=FROM_ZERO,
            example_range=_part,
            depends_on=depends,
            per_example=value("{part}", LOWEST),
        ),
        Metric(
            name="part_highest",
            qualifiers=("part",),
            label="Highest {part} uncertainty attacks reached",
            unit="nat",
            better="neither",
            description="Mean of the most of a part that attacks on it reached; of an epistemic part near 0 there is "
            "nothing that could be attacked.",
            range=FROM_ZERO,
            example_range=_part,
            depends_on=depends,
            per_example=value("{part}", HIGHEST),
        ),
        Metric(
            name="entropy_part",
            qualifiers=("part", "arm"),
            label="Mean {part} uncertainty ({arm})",
            unit="nat",
            better="neither",
            description="Mean part of the predictive entropy in an arm; the two add up to entropy[arm].",
            range=FROM_ZERO,
            example_range=_part,
            depends_on=depends,
            per_example=value("attack", "{part}_{arm}"),
        ),
    )


def _part(measured: Measurement) -> Range | None:
    # The histogram of entropies ends at log C. How many passes there were is counted.
    if measured.result is None:
        return None
    edges = measured.result.series.get("entropy_histogram", {}).get("edges")
    if not edges:
        return None
    passes = measured.result.counts.get("passes", 0)
    is_epistemic = measured.qualifiers.get("part") == "epistemic" and passes > 0
    return (0.0, min(float(edges[-1]), math.log(passes)) if is_epistemic else float(edges[-1]))
