"""What ``uncertainty_span`` publishes of outliers: parameter ``outliers``."""

from collections.abc import Callable

from seatrial.contracts.estimates import Result
from seatrial.contracts.family import FROM_ZERO, Dependence, Measurement, Metric, Qualifiers, Range


def smaller_sample(result: Result) -> int:
    """Return how many examples a ranking rests on: the outliers, or the inliers where these are fewer."""
    counts = result.counts
    outliers = counts.get("outliers_n", 0) - counts.get("outliers_errored", 0)
    return min(outliers, counts.get("n", 0) - counts.get("errored", 0))


def outlier_metrics(
    depends: Callable[[Qualifiers], Dependence], entropies: Callable[[Measurement], Range | None]
) -> tuple[Metric, ...]:
    """Return how well entropy tells outliers, and what an attack on them makes of it.

    Args:
        depends: Qualifiers to what a number depends on.
        entropies: From where to where entropies lie.
    """
    return (
        Metric(
            name="auroc",
            qualifiers=("epsilon",),
            label="Outliers told by their uncertainty (AUROC), attack radius {epsilon}",
            unit="1",
            better="higher",
            description="AUROC of entropy, outliers positive.",
            depends_on=depends,
            examples=smaller_sample,
        ),
        Metric(
            name="aupr_in",
            qualifiers=("epsilon",),
            label="Area under precision and recall of inliers, attack radius {epsilon}",
            unit="1",
            better="higher",
            description="Area under precision-recall by trapezoid, inliers positive.",
            depends_on=depends,
            examples=smaller_sample,
        ),
        Metric(
            name="aupr_out",
            qualifiers=("epsilon",),
            label="Area under precision and recall of outliers, attack radius {epsilon}",
            unit="1",
            better="higher",
            description="Area under precision-recall by trapezoid, outliers positive.",
            depends_on=depends,
            examples=smaller_sample,
        ),
        Metric(
            name="fpr95",
            qualifiers=("epsilon",),
            label="Inliers flagged where 95% of the outliers are, attack radius {epsilon}",
            unit="1",
            better="lower",
            description="Share of inliers flagged at the first threshold that flags 95% of the outliers.",
            depends_on=depends,
            examples=smaller_sample,
        ),
        Metric(
            name="outlier_entropy",
            qualifiers=("epsilon",),
            label="Mean uncertainty on outliers, attack radius {epsilon}",
            unit="nat",
            better="higher",
            description="Mean entropy of the outliers under the over-confidence attack.",
            depends_on=depends,
            range=FROM_ZERO,
            example_range=entropies,
        ),
    )
