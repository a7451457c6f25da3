"""The outlier protocol: whether attacked outliers still look uncertain (Ledda et al., sec. V, in OpenOOD's convention).

Inliers are the audit's own sample and are never attacked; outliers are attacked towards over-confidence, which makes
them look like inliers. The score is the predictive entropy, outliers are the positive class.
"""

from torch import Tensor

from seatrial.families.uncertainty_span.params import OutlierParams, UncertaintySpanParams
from workers.attacks.losses import entropy
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.span import attack_with, make_search, over_confidence, select
from workers.models.memory import forward


def epsilons_of(outliers: OutlierParams) -> list[float]:
    """Return the radii of the protocol, ascending, the clean 0 among them; radii that print alike are one.

    >>> epsilons_of(OutlierParams(dataset="dat_1", epsilons=[0.1, 0.05, 0.1]))
    [0.0, 0.05, 0.1]
    """
    return sorted({f"{epsilon:g}": float(epsilon) for epsilon in [0.0, *outliers.epsilons]}.values())


def column_of(epsilon: float) -> str:
    """Return the name of the column of entropies under an attack of radius ``epsilon``.

    >>> column_of(4 / 255)
    'entropy_0.0156863'
    """
    return f"entropy_{epsilon:g}"


def attack_outliers(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch of outliers at every radius.

    Returns:
        Entropies by :func:`column_of`, and which examples had an output that is not finite (batch,).

    Raises:
        ValueError: The parameters have no outliers.
    """
    if params.outliers is None:
        raise ValueError("the parameters have no outliers")
    clean = forward(context.classifier.logits, batch.images)
    non_finite = ~clean.isfinite().all(1)
    columns = {column_of(0.0): entropy(clean)}
    for epsilon in epsilons_of(params.outliers)[1:]:
        search = make_search(params, context, epsilon)
        outcome = attack_with(search, context, batch, f"outliers_{epsilon:g}")(over_confidence(clean.argmax(1)))
        columns[column_of(epsilon)] = entropy(select(params, batch.images, outcome, lowers=True)[1])
        non_finite |= outcome.non_finite
    return columns, non_finite
