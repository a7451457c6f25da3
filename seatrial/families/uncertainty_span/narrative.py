"""What an uncertainty span says about a model, in sentences.

The order of judgement: numbers in doubt prove nothing good; a large span is bad news even as the lower bound that a
hampered attack gives; only a small span without a doubt reads as real.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result
from seatrial.families.shared.figures import describe
from seatrial.families.shared.robust_accuracy_narrative import robust_findings, robust_terms
from seatrial.families.uncertainty_span.part_narrative import OF_PARTS, part_findings
from seatrial.reporting.balls import format_radius
from seatrial.reporting.schemas import Answer, Scale
from seatrial.reporting.words import flags_mean
from seatrial.statistics.prediction_sets import SET_SCORES

SMALL_SHARE, LARGE_SHARE = 0.1, 1 / 3
"""Mean span as a share of log C, below which uncertainty holds and from which it means little under attack. Ours. For
scale: adversarially trained CIFAR-10 models of the paper's Table IV lie between 0.06 and 0.25; making a sure answer a
coin toss between two of ten classes takes 0.30."""

WHOLE_SHARE = 0.9
"""Mean span as a share of log C from which an attacker sets the uncertainty of nearly every example at will."""

NOTABLE = 0.05
"""Nats by which all attacks together must reach further than the paper's two to be told apart."""

POOR_ECE = 0.1
"""Expected calibration error from which (by the lower end of its interval) confidence is wrong without any attack."""

_FIGURES = {
    "attack_reliability": "Reliability diagrams without an attack and under each label-preserving attack: accuracy "
    "against mean confidence in each bin, while no prediction has changed.",
    "reliability": "Reliability diagram: accuracy against mean confidence in each bin, unattacked and under both "
    "attacks. Below the diagonal the model claims more than it achieves.",
    "entropy": "Histograms of predictive entropy, unattacked and under both attacks. The further the attacked ones lie "
    "apart, the less the model's uncertainty means.",
    "span_by_epsilon": "Mean uncertainty span against the attack radius. It grows, until it nears the whole range, "
    "unless gradients are masked.",
    "outlier": "How well entropy separates outliers from in-distribution data (AUROC, and FPR at 95% TPR) as the "
    "attack on the outliers grows.",
    "parts": "The aleatoric and the epistemic part of the predictive entropy: means unattacked, under the two attacks "
    "on the whole entropy, and between what attacks on the part itself move it.",
    "attack": "Calibration error under each label-preserving attack.",
}


def title(kind: str) -> str:
    """Return what the family measures."""
    return "Uncertainty span"


def subject() -> str:
    """Return what a check doubts."""
    return "confidence"


def question(params: Mapping[str, Any]) -> str:
    """Return what a check asks."""
    return f"How far can {_attacker(params)} push the model's uncertainty, up and down?"


def describe_figure(name: str) -> str:
    """Return what a figure shows, for those who do not see it."""
    return describe(name, _FIGURES)


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the glossary entries the family uses."""
    return [
        *("adversarial accuracy", "attack radius (epsilon)", "clean", "confidence", "confidence interval", "entropy"),
        *("ECE", "s-ECE", "MCE", "Brier score", "MUS", "MSUS", "NUD", "over-confidence attack"),
        *("under-confidence attack", "label-preserving attack", "masked gradients", "saturated softmax"),
        *("AUROC", "AUPR-in, AUPR-out", "FPR95", "flag"),
        *(("aleatoric and epistemic uncertainty",) if params.get("parts") else ()),
        *robust_terms(params),
    ]


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return the range of mean entropy an attacker controls; none where the plain attack misses most of it."""
    return None if _is_exceeded(result, by=2) else _range(result, classes)


def _range(result: Result, classes: int | None) -> Scale | None:
    low, mark, high = (_value(result, f"entropy[arm={arm}]") for arm in ("over", "clean", "under"))
    if low is None or mark is None or high is None or not classes:
        return None
    return Scale(label="Mean entropy", unit="nat", low=low, mark=mark, high=high, maximum=math.log(classes))


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return whether the confidence is real, and why."""
    span = _worst_span(result)
    doubts = [flag for flag in result.flags if flag.severity != "info" and flag.code not in OF_PARTS]
    findings = [*_findings(result, params, classes)]
    if span is None or span.value is None or not classes:
        return Answer(
            standing="unproven", headline="Not shown: the span is undefined on this sample.", findings=findings
        )
    share = span.value / math.log(classes)
    cautious = (span.value if span.high is None else span.high) / math.log(classes)
    if share >= LARGE_SHARE:
        worse = flags_mean(doubts, "the true span may be larger still")
        done = f"moves this model's uncertainty over {share:.0%} of its whole range"
        done += _calibrated(result, share, classes)
        if share >= WHOLE_SHARE:
            done = "can make the model about as certain or uncertain as they like"
        headline = f"No: {_attacker(params)} {done}.{worse}"
        return Answer(standing="not_real", headline=headline, findings=findings)
    ece = result.estimates.get("ece[arm=clean]")
    if ece is not None and ece.value is not None and (ece.low or 0.0) >= POOR_ECE:
        headline = f"No: even unattacked, its confidence differs from its accuracy by {100 * ece.value:.0f} points."
        return Answer(standing="not_real", headline=headline, findings=findings)
    if doubts:
        return Answer(standing="unproven", headline=_doubt(doubts), findings=findings)
    if _is_blind_to_attacked_outliers(result):
        headline = "In part: it holds on the data it knows, but attacked outliers look more certain than those."
        return Answer(standing="partly", headline=headline, findings=findings)
    if cautious <= SMALL_SHARE:
        headline = f"Yes, against this attack: {_attacker(params)} hardly moves the model's uncertainty."
        return Answer(standing="real", headline=headline, findings=findings)
    headline = f"In part: {_attacker(params)} can shift the model's uncertainty, but not at will."
    return Answer(standing="partly", headline=headline, findings=findings)


NOTABLE = 0.05
"""Difference between two shares of the range that is worth telling."""


def _calibrated(result: Result, share: float, classes: int) -> str:
    """Return the same at a calibrated temperature, where that is another number: a verdict may name either."""
    span = result.estimates.get("mus_calibrated")
    if span is None or span.value is None or abs(span.value / math.log(classes) - share) < NOTABLE:
        return ""
    return f", and over {span.value / math.log(classes):.0%} at a calibrated temperature"


def _worst_span(result: Result) -> Estimate | None:
    """Return the span to trust: that of all attacks together."""
    worst, span = result.estimates.get("mus_worst"), result.estimates.get("mus")
    return worst if worst is not None and worst.value is not None else span


def _is_exceeded(result: Result, *, by: float = 1.0) -> bool:
    """Return whether all attacks together reached notably further than ``by`` times the paper's two."""
    worst, plain = _value(result, "mus_worst"), _value(result, "mus")
    return worst is not None and plain is not None and worst > by * plain + NOTABLE


def _doubt(doubts: list[Flag]) -> str:
    codes = ", ".join(flag.code.replace("_", " ") for flag in doubts)
    return (
        f"Not shown: the span is no evidence of real confidence ({codes}). The attack may have failed for "
        "reasons that would not stop another; do not trust this model's confidence until the flags are resolved."
    )


def _attacker(params: Mapping[str, Any]) -> str:
    norm = {"linf": "l_inf", "l2": "l_2"}.get(str(params.get("norm")), str(params.get("norm")))
    return f"an attacker within {norm} {format_radius(params.get('epsilon'))}"


def _value(result: Result, name: str) -> float | None:
    estimate = result.estimates.get(name)
    return None if estimate is None else estimate.value


def _interval(estimate: Estimate, *, scale: float = 1.0, digits: int = 2) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" (95% interval {estimate.low * scale:.{digits}f} to {estimate.high * scale:.{digits}f})"


def _findings(result: Result, params: Mapping[str, Any], classes: int | None) -> Iterator[str]:
    bar = _range(result, classes)
    if bar is not None:
        yield (
            f"The method's two attacks move the mean entropy between {bar.low:.2f} and {bar.high:.2f} nat "
            f"(unattacked {bar.mark:.2f}); it can lie between 0, certain, and log {classes} = {bar.maximum:.2f} nat, "
            "all classes equally likely."
        )
    span, worst = result.estimates.get("mus"), _worst_span(result)
    if span is not None and span.value is not None:
        yield f"The span of an example is {span.value:.2f} nat on average{_interval(span)}, over {span.n:,} examples."
    if worst is not None and worst is not span and not _is_exceeded(result):
        yield f"By the widest of all attacks for each (mus_worst) it is {worst.value:.2f} nat{_interval(worst)}."
    if worst is not None and _is_exceeded(result):
        yield (
            f"That is not all: taking the widest of all attacks for every example, the span (mus_worst) is "
            f"{worst.value:.2f} nat{_interval(worst)}. The larger number is the one to trust."
        )
    yield from _calibration(result)
    yield from _outliers(result)
    yield from part_findings(result)
    yield from _sets(result, params)
    yield from _label_preserving(result)
    yield from robust_findings(result, params)
    if errored := result.counts.get("errored", 0):
        yield (
            f"{errored:,} of {result.counts.get('n', errored):,} examples gave no finite output; they are in no "
            "estimate and never count as robust."
        )


def _calibration(result: Result) -> Iterator[str]:
    accuracy = result.estimates.get("clean_accuracy")
    signed = {arm: _value(result, f"s_ece[arm={arm}]") for arm in ("clean", "over", "under")}
    clean = signed["clean"]
    if accuracy is not None and accuracy.value is not None:
        claim = "" if clean is None else f", with a mean confidence of {100 * (accuracy.value - clean):.1f}%"
        yield (
            f"Unattacked, it is right on {accuracy.value:.1%} of the "
            f"examples{_interval(accuracy, scale=100, digits=1)}{claim}."
        )
    for arm, value in signed.items():
        if arm == "clean" or value is None:
            continue
        side = "above" if value < 0 else "below"
        ece = _value(result, f"ece[arm={arm}]")
        yield (
            f"Under the {arm}-confidence attack its confidence is on average {abs(100 * value):.1f} points {side} its "
            f"accuracy" + ("." if ece is None else f" (ECE {ece:.3f}).")
        )


def _qualified(result: Result, name: str, key: str) -> dict[str, float]:
    """Return the values of ``name[key=...]`` by what stands after the equals sign."""
    start = f"{name}[{key}="
    return {
        full.removeprefix(start).removesuffix("]"): estimate.value
        for full, estimate in result.estimates.items()
        if full.startswith(start) and estimate.value is not None
    }


def _is_blind_to_attacked_outliers(result: Result) -> bool:
    return any(value < 0.5 for value in _qualified(result, "auroc", "epsilon").values())


def _outliers(result: Result) -> Iterator[str]:
    found = _qualified(result, "auroc", "epsilon")
    clean = found.pop("0", None)
    if clean is not None:
        yield f"Its entropy separates clean outliers from in-distribution data with AUROC {clean:.2f} (0.5 is chance)."
    if found:
        epsilon, worst = min(found.items(), key=lambda pair: pair[1])
        after = (
            "Attacked outliers look more certain than in-distribution data"
            if worst < 0.5
            else "It remains above chance"
        )
        yield f"With outliers attacked at {format_radius(epsilon)}, AUROC is {worst:.2f}. {after}."


def _sets(result: Result, params: Mapping[str, Any]) -> Iterator[str]:
    """Say what becomes of conformal sets, by the score whose coverage falls most."""
    asked = (params.get("conformal") or {}).get("coverage")
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for score in SET_SCORES:
        arms = {}
        for arm in ("clean", "over", "under"):
            held, size = (
                _value(result, f"conformal_{one}[score={score},arm={arm}]") for one in ("coverage", "set_size")
            )
            if held is not None and size is not None:
                arms[arm] = (held, size)
        if len(arms) == 3:
            found[score] = arms
    if not found or asked is None:
        return
    worst = min(found, key=lambda score: min(held for held, _ in found[score].values()))
    clean, over, under = (found[worst][arm] for arm in ("clean", "over", "under"))
    yield (
        f"Conformal sets ({worst}) that are to hold the label of {asked:.0%} of the examples hold that of "
        f"{clean[0]:.1%} without an attack, with {clean[1]:.1f} classes on average; of {over[0]:.1%} "
        f"({over[1]:.1f} classes) under the over-confidence attack, of {under[0]:.1%} ({under[1]:.1f}) under the "
        "under-confidence attack."
    )


def _label_preserving(result: Result) -> Iterator[str]:
    found = _qualified(result, "ece", "attack")
    clean = _value(result, "ece[arm=clean]")
    if found and clean is not None:
        name, worst = max(found.items(), key=lambda pair: pair[1])
        yield (
            f"Without changing one prediction, the {name.replace('_', ' ')} attack takes the ECE from {clean:.3f} to "
            f"{worst:.3f}."
        )
