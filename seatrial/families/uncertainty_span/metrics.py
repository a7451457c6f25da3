"""What ``uncertainty_span`` publishes."""

from collections.abc import Callable

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
from seatrial.families.uncertainty_span.effort import INTEGRATED, STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.families.uncertainty_span.outliers import outlier_metrics
from seatrial.families.uncertainty_span.parts import part_metrics
from seatrial.families.uncertainty_span.prediction_sets import set_metrics

RECORDS = "seatrial.families.uncertainty_span.records:"

BY_EFFORT = (*STAGES, TRANSFORMED, INTEGRATED, LEVELLED)
"""Attacks whose steps the effort says."""


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
        idle |= {"effort": not has_all and not has_effort and attack not in BY_EFFORT}
        return all_but(*(name for name, is_idle in idle.items() if is_idle))

    return of


METRICS = (
    Metric(
        name="mus",
        label="Uncertainty the method's two attacks can shift",
        claim="the method's two attacks swing its uncertainty over {value}",
        unit="nat",
        better="lower",
        description="Mean uncertainty span: the entropy the under-confidence attack drives an image up to less the one "
        "the over-confidence attack drives it down to (H_under - H_over), on average.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "SPAN",
    ),
    Metric(
        name="mus",
        qualifiers=("attack",),
        label="Uncertainty one attack can shift ({attack})",
        unit="nat",
        better="lower",
        description="Mean span of another attack on the unmodified model: `ascent` (of the entropy itself, towards "
        "sure classes, and from the decision boundary), `smoothed` (gradients of a smoothed copy), `score` (random "
        "search by scores alone), `distilled` (made on a surrogate), `repeated` (these four, and further starts where "
        "they disagree), `transformed` (after plain changes of light, contrast, sharpness or grey levels, or "
        "changes that switch dormant units, of 26 examples at most), `integrated` (each pixel moved to where gradients "
        "from all over the ball add up to least, of 32 examples at most), `levelled` (along the gradients of scores "
        "inside the network, when it has others than it answers with, behind a gate, or to where thresholds of many "
        "units meet), `tempered` (through scaled logits, when the softmax is saturated) or `transfer` (made on the "
        "transfer model). All but `integrated`, "
        "`transfer` and `tempered` go on with plain gradients from where they end.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=difference("{attack}", "entropy_under", "entropy_over"),
    ),
    Metric(
        name="mus_worst",
        label="Uncertainty an attacker can shift",
        claim="attackers can swing its uncertainty over {value}",
        unit="nat",
        better="lower",
        description="Mean over examples of the widest span that any of the attacks reached: the number to gate on.",
        depends_on=_depends(has_all=True),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "worst_span",
    ),
    Metric(
        name="mus_calibrated",
        label="Uncertainty an attacker can shift, at a calibrated temperature",
        claim="attackers can swing its uncertainty over {value}, measured at a calibrated temperature",
        unit="nat",
        better="lower",
        description="Mean widest span after dividing the logits by the temperature that fits the clean examples best, "
        "with one more counted as wrong: models that differ only in the scale of their logits have the same value. "
        "From effort `standard` on.",
        depends_on=_depends(has_all=True),
        range=FROM_ZERO,
        example_range=entropies,
        per_example=RECORDS + "calibrated_span",
    ),
    Metric(
        name="adversarial_accuracy",
        label="Accuracy that attacks on the uncertainty leave",
        claim="attacks on its uncertainty leave {value} of its predictions right",
        unit="1",
        better="higher",
        description="Share of examples that are predicted rightly, and still so at every image that the attacks on the "
        "uncertainty asked about: some go for the decision boundary, by gradients and by scores. These are fewer means "
        "than AutoAttack's, so `robust_accuracy` may be lower; where it is low, a small span is of an uncertainty that "
        "does not follow the decisions. From effort `standard` on, and without gradients.",
        depends_on=_depends(has_effort=True),
        per_example=RECORDS + "decision_kept",
    ),
    Metric(
        name="mus_scaled",
        label="Uncertainty an attacker can shift, of scaled logits",
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
        label="Spread of the uncertainty span over examples",
        unit="nat",
        better="neither",
        description="Standard deviation of the span (n - 1).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=entropies,
    ),
    Metric(
        name="msus",
        label="Mean squared uncertainty span",
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
        label="Spread of the squared uncertainty span over examples",
        unit="nat^2",
        better="neither",
        description="Standard deviation of squared spans (n - 1).",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=squared_entropies,
    ),
    Metric(
        name="span_growth",
        label="Growth of the uncertainty span at twice the radius",
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
        label="Relative change of uncertainty under attack",
        same_as="nud[arm=under]",
        unit="1",
        better="lower",
        description="How far the under-confidence attack raises the entropy H of an image, as a share of the room "
        "above its unattacked entropy, on average: |H_under - H_clean| / (log C - H_clean) with C classes.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=relative_changes,
        per_example=RECORDS + "CHANGE_UNDER",
    ),
    Metric(
        name="nud",
        qualifiers=("arm",),
        label="Relative change of uncertainty ({arm})",
        unit="1",
        better="lower",
        description="How far an attack moves the entropy H of an image, as a share of the room above its unattacked "
        "entropy, on average: |H_arm - H_clean| / (log C - H_clean). The over-confidence attack can exceed 1, where "
        "the unattacked entropy is near log C.",
        depends_on=_depends(),
        range=FROM_ZERO,
        example_range=relative_changes,
        per_example=RECORDS + "CHANGE",
    ),
    Metric(
        name="clean_accuracy",
        label="Accuracy without an attack",
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
        label="Accuracy ({arm})",
        unit="1",
        better="higher",
        description="Share of right predictions in an arm. Its attack aims at the confidence, not at the prediction, "
        "so this is not a robust accuracy: `robust_accuracy` is, after AutoAttack.",
        depends_on=_depends(),
        per_example=equals("attack", "prediction_{arm}"),
    ),
    Metric(
        name="entropy",
        qualifiers=("arm",),
        label="Mean uncertainty ({arm})",
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
        label="Mean confidence ({arm})",
        unit="1",
        better="neither",
        description="Mean top-label confidence.",
        depends_on=_depends(),
        per_example=value("attack", "confidence_{arm}"),
    ),
    Metric(
        name="ece",
        qualifiers=("arm",),
        label="Calibration error ({arm})",
        claim="its calibration error ({arm}) is {value}",
        unit="1",
        better="lower",
        description="Expected calibration error, mean-confidence form.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_equal_mass",
        qualifiers=("arm",),
        label="Calibration error in bins of equal mass ({arm})",
        unit="1",
        better="lower",
        description="Expected calibration error in bins of equally many examples (AdaECE; Nguyen and O'Connor 2015).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_centre",
        qualifiers=("arm",),
        label="Calibration error against bin centres ({arm})",
        unit="1",
        better="lower",
        description="ECE against bin centres (the paper's eq. 4).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="s_ece",
        qualifiers=("arm",),
        label="Accuracy minus confidence ({arm})",
        unit="1",
        better="neither",
        description="Signed ECE, accuracy minus confidence: negative is over-confident.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="mce",
        qualifiers=("arm",),
        label="Largest calibration error of any bin ({arm})",
        unit="1",
        better="lower",
        description="Largest calibration error of any bin.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="brier",
        qualifiers=("arm",),
        label="Brier score ({arm})",
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
        label="Calibration error under attack ({attack})",
        unit="1",
        better="lower",
        description="ECE under a label-preserving attack, mean-confidence form.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="ece_equal_mass",
        qualifiers=("attack",),
        label="Calibration error in bins of equal mass, under attack ({attack})",
        unit="1",
        better="lower",
        description="ECE under a label-preserving attack, in bins of equally many examples, cut after the attack "
        "(AdaECE).",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="s_ece",
        qualifiers=("attack",),
        label="Accuracy minus confidence under attack ({attack})",
        unit="1",
        better="neither",
        description="Signed ECE under a label-preserving attack: negative is over-confident.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="confidence",
        qualifiers=("attack",),
        label="Mean confidence under attack ({attack})",
        unit="1",
        better="neither",
        description="Mean top-label confidence under a label-preserving attack.",
        depends_on=_depends(),
        per_example=value("{attack}", "confidence_attacked"),
    ),
    Metric(
        name="accuracy",
        qualifiers=("attack",),
        label="Accuracy under attack ({attack})",
        unit="1",
        better="higher",
        description="Accuracy under a label-preserving attack (unchanged by design).",
        depends_on=_depends(),
        per_example=equals("{attack}", "prediction_attacked"),
    ),
    *outlier_metrics(_depends(has_outliers=True), entropies),
    *set_metrics(_depends(has_sets=True)),
    *part_metrics(_depends(has_effort=True)),
    *robust_accuracy.METRICS,
)
