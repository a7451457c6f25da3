"""Doubts that checks of ``calibration`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

_CALIBRATION = ("ece*", "s_ece", "ks*", "brier", "nll", "temperature", "confidence")

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="guesses",
        severities=("error",),
        speaks_of=("*",),
        shown_by=("accuracy",),
        meaning="The answers are not shown to be better than guessing: columns in another order than the labels look "
        "like that, and so do rows that belong to other examples.",
        remedy="See that labels names the classes in the order of the columns, and that example_id means the same on "
        "both sides.",
    ),
    FlagSpec(
        code="perfect_accuracy",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Every answer is right. That is what labels leaking into the predictions look like, or training "
        "examples among those audited; a table of predictions cannot show that it is not so.",
        remedy="Audit predictions made by somebody who could not see the labels.",
    ),
    FlagSpec(
        code="repeated_answers",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Different examples have the same label and the very same scores to the last digit: rows seem to have "
        "been copied. Copies are counted as if they were evidence of their own, so intervals are too narrow, and "
        "copying the easy ones raises every number.",
        remedy="Take copies out of the dataset; of a model with few distinct answers, such as a small tree, read this "
        "as a note.",
    ),
    FlagSpec(
        code="uninformative_scores",
        severities=("warning",),
        speaks_of=(*_CALIBRATION, "aurc", "failure_auroc"),
        shown_by=("aurc", "failure_auroc"),
        meaning="Confidence does not tell right answers from wrong ones. One that is the same everywhere and equal to "
        "the accuracy has no calibration error and is of no use.",
        remedy="Judge failure_auroc or aurc beside the calibration errors; see that scores were not rounded, clipped "
        "or replaced by a constant.",
    ),
    FlagSpec(
        code="saturated_scores",
        severities=("warning",),
        speaks_of=(*_CALIBRATION, "aurc", "failure_auroc", "conformal*", "ood*"),
        meaning="Most confidences are 1 to six digits: a softmax that ran into its end, or scores that were rounded. "
        "They cannot be ordered, and what the model knew beyond that is lost.",
        remedy="Write logits, or probabilities of full precision; of one-hot answers only the accuracy means anything.",
    ),
    FlagSpec(
        code="impossible_labels",
        severities=("warning",),
        speaks_of=("nll*",),
        meaning="Some labels were given a probability of exactly 0. Their likelihood is taken for 2^-52, so that the "
        "mean is about that number and not about the model.",
        remedy="Write logits, or probabilities of full precision.",
    ),
    FlagSpec(
        code="group_below_rest",
        severities=("warning",),
        speaks_of=("accuracy", "worst_group_accuracy"),
        shown_by=("worst_group_accuracy", "accuracy"),
        meaning="A group is answered right less often than the rest, by more than chance explains after correcting for "
        "the number of groups.",
        remedy="Judge worst_group_accuracy; look at the group's examples and its share of the training data.",
    ),
    FlagSpec(
        code="group_miscalibrated",
        severities=("info",),
        speaks_of=("ece", "worst_group_ece"),
        meaning="The confidences of a group are shown not to be true, by a Kolmogorov-Smirnov test with Holm's "
        "correction for the number of groups. Errors of two groups in opposite directions cancel in the ECE of all.",
        remedy="Judge worst_group_ece; fit a temperature for the group, or look at what sets it apart.",
    ),
    FlagSpec(
        code="small_groups",
        severities=("info",),
        speaks_of=("worst_group_accuracy", "worst_group_ece"),
        meaning="Groups of fewer than smallest_group examples are not judged by themselves.",
        remedy="Collect more examples of them, or lower smallest_group and expect wide intervals.",
    ),
    FlagSpec(
        code="no_temperature",
        severities=("info",),
        speaks_of=("temperature",),
        meaning="No temperature fits best: either no answer is wrong, or the scores say nothing about the labels.",
        remedy="Read the calibration errors instead.",
    ),
    FlagSpec(
        code="vacuous_sets",
        severities=("warning",),
        speaks_of=("conformal*",),
        meaning="There are too few examples to promise the coverage asked for, so that every set holds every class.",
        remedy="Raise samples or conformal_miss.",
    ),
)
