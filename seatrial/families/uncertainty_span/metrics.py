"""What ``uncertainty_span`` publishes."""

from collections.abc import Callable

from seatrial.contracts.estimates import Result
from seatrial.contracts.family import (
    FROM_ZERO,
    SIGNED_SHARE,
    UNLIMITED,
    Dependence,
    Measurement,
    Metric,
    Qualifiers,
    Range,
    all_but,
    difference,
    equals,
    formula,
    only,
    value,
)
from seatrial.families.shared import robust_accuracy
from seatrial.families.uncertainty_span.effort import STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.parts import part_metrics
from seatrial.families.uncertainty_span.prediction_sets import set_metrics

RECORDS = "seatrial.families.uncertainty_span.records:"


def entropies(measured: Measurement) -> Range | None:
    """Return from where to where entropies and their spans lie: 0 to log C, where the histogram of entropies ends."""
    edges = {} if measured.result is None else measured.result.series.get("entropy_histogram", {}).get("edges")
    return (0.0, float(edges[-1])) if edges else None


def squared_entropies(measured: Measurement) -> Range | None:
    """Return the range of squared spans."""
    found = entropies(measured)
    return None if found is None else (0.0, found[1] ** 2)


def entropy_differences(measured: Measurement) -> Range | None:
    """Return the range of one span less another."""
    found = entropies(measured)
    return None if found is None else (-found[1], found[1])


def relative_changes(measured: Measurement) -> Range | None:
    """Return the range of nud, which ends in the arm that raises entropy alone."""
    return (0.0, 1.0) if measured.qualifiers.get("arm", "under") == "under" else None


def smaller_sample(result: Result) -> int:
    """Return how many examples a ranking rests on: the outliers, or the inliers where these are fewer."""
    counts = result.counts
    outliers = counts.get("outliers_n", 0) - counts.get("outliers_errored", 0)
    return min(outliers, counts.get("n", 0) - counts.get("errored", 0))


def _depends(
    *,
    is_binned: bool = False,
    has_outliers: bool = False,
    has_all: bool = False,
    has_sets: bool = False,
    has_effort: bool = False,
) -> Callable[[Qualifiers], Dependence]:
    """Return what a number depends on: unattacked on the bins at most, else on what attacked it."""

    def of(qualifiers: Qualifiers) -> Dependence:
        if qualifiers.get("arm") == "clean":
            return only(*(name for name, counts in (("bins", is_binned), ("conformal", has_sets)) if counts))
        attack = qualifiers.get("attack")
        idle = {"attacks": True, "robust_accuracy": True, "bins": not is_binned, "outliers": not has_outliers}
        idle |= {"conformal": not has_sets, "parts": True}
        idle |= {"transfer_model": not has_all and attack != "transfer"}
        idle |= {"effort": not has_all and not has_effort and attack not in (*STAGES, TRANSFORMED)}
        return all_but(*(name for name, is_idle in idle.items() if is_idle))

    return of


METRICS = (
    Metric(
        name="mus",
        claim="the method's two attacks swing its uncertainty over {value}",
        unit="nat",
        better="lower",
        description="Mean uncertainty span: mean of H_under - H_over.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "SPAN",
    ),
    Metric(
        name="mus",
        qualifiers=("attack",),
        unit="nat",
        better="lower",
        description="Mean span of another attack on the unmodified model: `ascent` (of the entropy itself, towards "
        "sure classes, and from the decision boundary), `smoothed` (gradients of a smoothed copy), `score` (random "
        "search by scores alone), `distilled` (made on a surrogate), `repeated` (these four, and further starts where "
        "they disagree), `transformed` (after plain changes of light, contrast, sharpness or grey levels, of 32 "
        "examples at most), `tempered` (through scaled logits, when the softmax is saturated) or `transfer` (made on "
        "the transfer model). All but `transfer` and `tempered` go on with plain gradients from where they end.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=difference("{attack}", "entropy_under", "entropy_over"),
    ),
    Metric(
        name="mus_worst",
        claim="attackers can swing its uncertainty over {value}",
        unit="nat",
        better="lower",
        description="Mean over examples of the widest span any of the attacks reached: the number to gate on.",
        depends_on=_depends(has_all=True),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "worst_span",
    ),
    Metric(
        name="mus_calibrated",
        claim="attackers can swing its uncertainty over {value}, measured at a calibrated temperature",
        unit="nat",
        better="lower",
        description="The same after dividing the logits by the temperature that fits the clean examples best, with one "
        "more counted as wrong: models that differ only in the scale of their logits have the same value. From effort "
        "`standard` on.",
        depends_on=_depends(has_all=True),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "calibrated_span",
    ),
    Metric(
        name="mus_scaled",
        unit="nat",
        better="lower",
        description="Mean span of the softmax of temperature-scaled logits, clean margins brought to 2 nats at most.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "SCALED_SPAN",
    ),
    Metric(
        name="mus_std",
        unit="nat",
        better="neither",
        description="Standard deviation of the span (n - 1).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
    ),
    Metric(
        name="msus",
        unit="nat^2",
        better="lower",
        description="Mean squared uncertainty span.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=squared_entropies,
        per_example=difference("attack", "entropy_under", "entropy_over", power=2),
    ),
    Metric(
        name="msus_std",
        unit="nat^2",
        better="neither",
        description="Standard deviation of squared spans (n - 1).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=squared_entropies,
    ),
    Metric(
        name="span_growth",
        unit="nat",
        better="neither",
        description="Mean span at twice epsilon less that at epsilon, on the first 100 examples; near 0 is suspect.",
        depends_on=_depends(),
        range=UNLIMITED,
        example_range=entropy_differences,
        is_fixed=True,
    ),
    Metric(
        name="nud",
        same_as="nud[arm=under]",
        unit="1",
        better="lower",
        description="Mean |H_under - H_clean| / (log C - H_clean).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=relative_changes,
        per_example=RECORDS + "CHANGE_UNDER",
    ),
    Metric(
        name="nud",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="Mean |H_arm - H_clean| / (log C - H_clean).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=relative_changes,
        per_example=RECORDS + "CHANGE",
    ),
    Metric(
        name="clean_accuracy",
        claim="its accuracy without an attack is {value}",
        unit="1",
        better="higher",
        description="Accuracy before any attack.",
        depends_on=only(),
        per_example=equals("attack", "prediction_clean"),
    ),
    Metric(
        name="accuracy",
        qualifiers=("arm",),
        unit="1",
        better="higher",
        description="Share of right predictions in an arm, whose attack moves confidence and is not after the "
        "prediction: no robust accuracy, which is what AutoAttack leaves (`robust_accuracy`).",
        depends_on=_depends(),
        per_example=equals("attack", "prediction_{arm}"),
    ),
    Metric(
        name="entropy",
        qualifiers=("arm",),
        unit="nat",
        better="neither",
        description="Mean predictive entropy.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=value("attack", "entropy_{arm}"),
    ),
    Metric(
        name="confidence",
        qualifiers=("arm",),
        unit="1",
        better="neither",
        description="Mean top-label confidence.",
        depends_on=_depends(),
        per_example=value("attack", "confidence_{arm}"),
    ),
    Metric(
        name="ece",
        qualifiers=("arm",),
        claim="its calibration error ({arm}) is {value}",
        unit="1",
        better="lower",
        description="Expected calibration error, mean-confidence form.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_equal_mass",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="Expected calibration error in bins of as many examples each (AdaECE; Nguyen and O'Connor 2015).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_centre",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="ECE against bin centres (the paper's eq. 4).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="s_ece",
        qualifiers=("arm",),
        unit="1",
        better="neither",
        description="Signed ECE, accuracy minus confidence: negative is over-confident.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="mce",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="Largest calibration error of any bin.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="brier",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="Top-label Brier score.",
        depends_on=_depends(),
        per_example=formula(
            "attack",
            "confidence_{arm}",
            "prediction_{arm}",
            "label",
            of=lambda confidence, prediction, label: (confidence - (prediction == label)) ** 2,
        ),
    ),
    Metric(
        name="ece",
        qualifiers=("attack",),
        unit="1",
        better="lower",
        description="ECE under a label-preserving attack, mean-confidence form.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_equal_mass",
        qualifiers=("attack",),
        unit="1",
        better="lower",
        description="ECE under a label-preserving attack, in bins of as many examples each, cut after it (AdaECE).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="s_ece",
        qualifiers=("attack",),
        unit="1",
        better="neither",
        description="Signed ECE under a label-preserving attack: negative is over-confident.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="confidence",
        qualifiers=("attack",),
        unit="1",
        better="neither",
        description="Mean top-label confidence under a label-preserving attack.",
        depends_on=_depends(),
        per_example=value("{attack}", "confidence_attacked"),
    ),
    Metric(
        name="accuracy",
        qualifiers=("attack",),
        unit="1",
        better="higher",
        description="Accuracy under a label-preserving attack (unchanged by design).",
        depends_on=_depends(),
        per_example=equals("{attack}", "prediction_attacked"),
    ),
    Metric(
        name="auroc",
        qualifiers=("epsilon",),
        unit="1",
        better="higher",
        description="AUROC of entropy, outliers positive.",
        depends_on=_depends(has_outliers=True),
        examples=smaller_sample,
    ),
    Metric(
        name="aupr_in",
        qualifiers=("epsilon",),
        unit="1",
        better="higher",
        description="Area under precision-recall by trapezoid, inliers positive.",
        depends_on=_depends(has_outliers=True),
        examples=smaller_sample,
    ),
    Metric(
        name="aupr_out",
        qualifiers=("epsilon",),
        unit="1",
        better="higher",
        description="Area under precision-recall by trapezoid, outliers positive.",
        depends_on=_depends(has_outliers=True),
        examples=smaller_sample,
    ),
    Metric(
        name="fpr95",
        qualifiers=("epsilon",),
        unit="1",
        better="lower",
        description="Share of inliers flagged at the first threshold that flags 95% of the outliers.",
        depends_on=_depends(has_outliers=True),
        examples=smaller_sample,
    ),
    Metric(
        name="outlier_entropy",
        qualifiers=("epsilon",),
        unit="nat",
        better="higher",
        description="Mean entropy of the outliers under the over-confidence attack.",
        depends_on=_depends(has_outliers=True),
        range=FROM_ZERO,
        example_range=entropies,
    ),
    *set_metrics(_depends(has_sets=True)),
    *part_metrics(_depends(has_effort=True)),
    *robust_accuracy.METRICS,
)
