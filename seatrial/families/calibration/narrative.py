"""What a table of predictions says about confidence, in sentences.

The order of judgement: a calibration error that is shown to be large is bad news whatever the doubts; answers in doubt
prove nothing good; only a small error of informative confidences reads as real.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Result
from seatrial.families.shared.estimates_in_words import at_least, at_most, defined, in_digits, in_round, number_of
from seatrial.families.shared.figures import describe
from seatrial.reporting.schemas import Answer, Scale

POOR_ECE, GOOD_ECE = 0.1, 0.05
"""Expected calibration errors from which, and up to which, by the ends of the interval, confidence is called wrong and
right. Guo et al. (2017), Table 1: 0.046 of a ResNet-110 on CIFAR-10, 0.165 on CIFAR-100."""

_FIGURES = {
    "reliability": "Reliability diagram: accuracy against mean confidence in each bin, with the share of examples. "
    "Below the diagonal the model claims more than it achieves.",
    "risk_coverage": "Error of the surest examples against the share that is answered. A curve that is flat says that "
    "confidence does not tell where errors are.",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Calibration of predictions"


def subject() -> str:
    """Return what a check doubts."""
    return "confidence"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    return "Do the probabilities in the table say how often the answers are right?"


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, _FIGURES)


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries the family uses."""
    return ["clean", "confidence", "confidence interval", "ECE", "s-ECE", "Brier score", "AUROC", "FPR95", "flag"]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return nothing: nobody controls a table."""
    return None


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return whether the confidence is real, and why."""
    findings = [*_findings(result, params)]
    ece, failure = defined(result, "ece"), defined(result, "failure_auroc")
    doubts = [flag for flag in result.flags if flag.severity != "info" and flag.code != "group_below_rest"]
    if ece is None:
        return Answer(standing="unproven", headline="Not shown: there is no clean example.", findings=findings)
    if at_least(ece) >= POOR_ECE:
        headline = f"No: its confidence differs from its accuracy by {100 * number_of(ece):.0f} points."
        return Answer(standing="not_real", headline=headline, findings=findings)
    if doubts:
        headline = f"Not shown: {doubts[0].message.partition('. ')[0].rstrip('.')}."
        return Answer(standing="unproven", headline=headline, findings=findings)
    if at_most(ece) <= GOOD_ECE and failure is not None and at_least(failure) > 0.5:
        headline = "Yes, on examples like these: its probabilities come true, and are lower for wrong answers."
        return Answer(standing="real", headline=headline, findings=findings)
    headline = "In part: its probabilities are neither shown to be far off nor shown to be right."
    return Answer(standing="partly", headline=headline, findings=findings)


def _findings(result: Result, params: Mapping[str, Any]) -> Iterator[str]:
    for name, told in (
        ("accuracy", "Its accuracy is"),
        ("accuracy[arm=attacked]", "Its accuracy under attack is"),
        ("ece", "Its expected calibration error is"),
        ("failure_auroc", "A wrong answer has a lower confidence than a right one with probability"),
        ("temperature", "The temperature that fits best is"),
        ("worst_group_accuracy", "The accuracy of the worst group is"),
        ("worst_group_ece", "The calibration error of the worst group is"),
        ("ood_auroc", "An outlier has a lower confidence than a clean example with probability"),
    ):
        estimate = defined(result, name)
        if estimate is not None:
            yield f"{told} {in_round(estimate) if name == 'temperature' else in_digits(estimate)}."
    coverage, size = defined(result, "conformal_coverage"), defined(result, "conformal_set_size")
    if coverage is not None and size is not None:
        promised = 1 - float(params.get("conformal_miss", 0.1))
        yield (
            f"Sets of {number_of(size):.2f} classes on average hold the label for {number_of(coverage):.1%} of the "
            f"examples; {promised:.1%} were promised."
        )
