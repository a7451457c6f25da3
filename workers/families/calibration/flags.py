"""What makes the numbers of a table of predictions doubtful: mistakes, and what somebody might do to look good."""

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag
from workers.families.calibration.estimates import Audit
from workers.families.calibration.sample import ArmSample
from workers.models.guessing import one_class

CROWDED = 0.9
"""Share of examples with one and the same confidence from which on it cannot order them."""

SATURATED, SATURATED_FROM = 0.5, 1 - 1e-6
"""Share of examples with a confidence of at least this from which on scores are called saturated."""

REPEATED = 0.05
"""Share of examples that repeat another's scores and label to the last digit."""

DIGITS = 6
"""Scores of no more decimals are alike by rounding."""

FEWEST = 50
"""Examples from which on guessing and perfection are no accidents."""

FEWEST_WRONG = 10
"""Wrong answers from which on confidence can be shown to tell nothing about them."""

SIGNIFICANT = 0.05


def doubt(audit: Audit, estimates: dict[str, Estimate]) -> list[Flag]:
    """Return the flags of a table of predictions."""
    return [
        *guesses(audit.clean, estimates["accuracy"]),
        *perfect_accuracy(audit.clean),
        *one_class(audit.clean.labels, audit.clean.classes, "example"),
        *repeated_answers(audit.clean),
        *saturated_scores(audit.clean),
        *uninformative_scores(audit.clean, estimates["failure_auroc"]),
        *impossible_labels(audit.clean),
        *group_below_rest(audit),
        *group_miscalibrated(audit),
        *no_temperature(audit),
        *vacuous_sets(audit),
    ]


def guesses(clean: ArmSample, accuracy: Estimate) -> list[Flag]:
    """Flag answers that are not shown to be better than guessing."""
    chance = 1 / clean.classes
    if len(clean) < FEWEST or accuracy.low is None or accuracy.low > chance:
        return []
    return [
        Flag(
            code="guesses",
            severity="error",
            message=f"{int(clean.correct.sum())} of {len(clean)} answers are right, which is not shown to be better "
            f"than guessing among {clean.classes} classes ({chance:.3g}). See that the columns stand in the order of "
            "the labels, and that example_id means the same on both sides.",
        )
    ]


def perfect_accuracy(clean: ArmSample) -> list[Flag]:
    """Flag a table without an error."""
    if len(clean) < FEWEST or not clean.correct.all():
        return []
    return [
        Flag(
            code="perfect_accuracy",
            severity="warning",
            message=f"All {len(clean)} answers are right. Labels that leaked into the predictions look like that, and "
            "so do training examples; a table cannot show otherwise. Audit predictions that were made without sight "
            "of the labels.",
        )
    ]


def repeated_answers(clean: ArmSample) -> list[Flag]:
    """Flag rows that seem to have been copied: scores of many digits, equal to the last one, under other ids."""
    spread = np.abs(clean.scores * 10**DIGITS - np.round(clean.scores * 10**DIGITS)).max(axis=1)
    is_told_apart = (spread > 1e-3) & (clean.confidence < SATURATED_FROM)
    rows = np.column_stack([clean.scores[is_told_apart], clean.labels[is_told_apart]])
    copies = len(rows) - len(np.unique(rows, axis=0)) if len(rows) else 0
    if copies < max(2.0, REPEATED * len(clean)):
        return []
    return [
        Flag(
            code="repeated_answers",
            severity="warning",
            message=f"{copies} of {len(clean)} examples have label and scores of another one to the last digit: rows "
            "seem to have been copied under new ids. Each copy is counted as evidence of its own, so the intervals are "
            "too narrow. A model with few distinct answers, such as a small tree, looks like that as well.",
        )
    ]


def saturated_scores(clean: ArmSample) -> list[Flag]:
    """Flag confidences that are mostly 1."""
    share = float((clean.confidence >= SATURATED_FROM).mean())
    if share < SATURATED:
        return []
    return [
        Flag(
            code="saturated_scores",
            severity="warning",
            message=f"{share:.0%} of the confidences are 1 to six digits: they cannot be ordered, and what the model "
            "knew beyond that is lost. Write logits, or probabilities of full precision.",
        )
    ]


def uninformative_scores(clean: ArmSample, failure_auroc: Estimate) -> list[Flag]:
    """Flag confidence that does not tell right answers from wrong ones."""
    evidence = []
    _, counts = np.unique(clean.confidence, return_counts=True)
    commonest = float(counts.max()) / len(clean)
    if commonest >= CROWDED and len(clean) >= FEWEST:
        evidence.append(f"{commonest:.0%} of the examples have the same confidence")
    wrong = int((~clean.correct).sum())
    if failure_auroc.low is not None and wrong >= FEWEST_WRONG and failure_auroc.low <= 0.5:
        evidence.append(
            f"a wrong answer has a lower confidence than a right one with probability {failure_auroc.value:.2f}, which "
            "is not shown to be more than a half"
        )
    if not evidence:
        return []
    return [
        Flag(
            code="uninformative_scores",
            severity="warning",
            message=f"Confidence tells little about errors: {'; '.join(evidence)}. A constant that equals the accuracy "
            "has no calibration error and is of no use: judge failure_auroc or aurc as well.",
        )
    ]


def impossible_labels(clean: ArmSample) -> list[Flag]:
    """Flag labels whose probability is exactly 0."""
    count = 0 if clean.is_logits else int((clean.of_label == 0).sum())
    if not count:
        return []
    return [
        Flag(
            code="impossible_labels",
            severity="warning",
            message=f"{count} of {len(clean)} labels have a probability of exactly 0. In nll they count as 2^-52, 36 "
            "nats each. Write logits, or probabilities of full precision.",
        )
    ]


def group_below_rest(audit: Audit) -> list[Flag]:
    """Flag groups that are answered worse than the rest, and tell of groups that are too small to be judged."""
    flags = []
    groups = audit.groups
    below = {
        name: one
        for name, one in groups.items()
        if one.rest is not None and one.p < SIGNIFICANT and one.accuracy < one.rest
    }
    if below:
        told = ", ".join(
            f"{name} {one.accuracy:.1%} against {one.rest:.1%} (n = {one.n}, p = {one.p:.2g})"
            for name, one in sorted(below.items(), key=lambda pair: pair[1].accuracy)[:5]
        )
        flags.append(
            Flag(
                code="group_below_rest",
                severity="warning",
                message=f"{len(below)} of {len(groups)} groups are answered right less often than the rest, by "
                f"Fisher's exact test with Holm's correction: {told}. Judge worst_group_accuracy.",
            )
        )
    left_out = len(set(audit.clean.groups or [])) - len(groups)
    if left_out:
        flags.append(
            Flag(
                code="small_groups",
                severity="info",
                message=f"{left_out} groups have fewer than {audit.params.smallest_group} clean examples and are not "
                "judged by themselves.",
            )
        )
    return flags


def group_miscalibrated(audit: Audit) -> list[Flag]:
    """Tell of groups whose confidences are shown not to be true."""
    wrong = {name: one for name, one in audit.group_errors.items() if one.p < SIGNIFICANT}
    if not wrong:
        return []
    told = ", ".join(
        f"{name} {one.ece:.3f} (n = {one.n}, p = {one.p:.2g})"
        for name, one in sorted(wrong.items(), key=lambda pair: -pair[1].ece)[:5]
    )
    return [
        Flag(
            code="group_miscalibrated",
            severity="info",
            message=f"The confidences of {len(wrong)} of {len(audit.group_errors)} groups are shown not to be true, by "
            f"a Kolmogorov-Smirnov test with Holm's correction; their calibration errors: {told}. Judge "
            "worst_group_ece.",
        )
    ]


def no_temperature(audit: Audit) -> list[Flag]:
    """Tell why there is no temperature."""
    why = audit.temperature.degenerate
    if why is None:
        return []
    return [
        Flag(
            code="no_temperature",
            severity="info",
            message=f"No temperature fits best ({why.replace('_', ' ')}): read the calibration errors instead.",
        )
    ]


def vacuous_sets(audit: Audit) -> list[Flag]:
    """Flag prediction sets of all classes."""
    is_for_threshold, threshold = audit.halves
    if np.isfinite(threshold):
        return []
    return [
        Flag(
            code="vacuous_sets",
            severity="warning",
            message=f"{int(is_for_threshold.sum())} examples are too few to promise a coverage of "
            f"{1 - audit.params.conformal_miss:.1%}: every set holds all {audit.clean.classes} classes.",
        )
    ]
