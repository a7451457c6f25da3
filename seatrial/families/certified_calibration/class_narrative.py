"""What certificates of all classes' scores say about a model, in sentences."""

from collections.abc import Iterator

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.passes import MEANT
from seatrial.families.certified_calibration.uncertainty import SMOOTHED
from seatrial.families.shared.estimates_in_words import defined, in_digits, number_of
from seatrial.reporting.balls import format_radius
from seatrial.reporting.numbers import format_percentage_estimate

FIGURES = {
    "span": "Mean span of uncertainty against the l_2 radius: of the entropy of the mean scores, of the mean entropy "
    "of one draw's scores, and of the parts of that entropy where they were asked for. Above, what is certified and no "
    "attack exceeds; below, what an attack reached, where one was run. The true span lies between them."
}

OF_SPANS = frozenset({"span_says_little", "passes_agree"})
"""Flags on spans of uncertainty, which the confidence of the predicted class has no part in."""


def class_findings(result: Result, radius: float) -> Iterator[str]:
    """Say what is certified of all classes at a radius; nothing where it was not asked for."""
    place = f"l_2 {format_radius(radius)}"

    def known(name: str, **more: str) -> Estimate | None:
        return defined(result, metric_name(name, **more, radius=radius))

    span, scalar = (known("certified_span", uncertainty=one) for one in ("entropy", "smoothed_entropy"))
    if span is not None and scalar is not None:
        yield (
            f"Entropies of two images within {place} of the same example differ by at most {in_digits(span)} nats "
            f"on average, and by at most {in_digits(scalar)} in the mean entropy under noise: the certified spans, "
            f"over all {span.n:,} examples."
        )
    attacked = known("attacked_span", uncertainty="entropy")
    if span is not None and attacked is not None:
        times = number_of(span) / number_of(attacked) if number_of(attacked) > 0 else None
        more = "" if times is None else f": the bound is {times:.1f} times as large"
        yield f"An attack moved entropy by {in_digits(attacked)} on average{more}."
    for part, name in SMOOTHED.items():
        told = [known(f"uncertainty_{side}", uncertainty=name) for side in ("low", "high")]
        least, most = (None if one is None else one.value for one in told)
        bound = known("certified_span", uncertainty=name)
        if least is None or most is None or bound is None:
            continue
        moved = known("attacked_span", uncertainty=name)
        more = "" if moved is None else f"; an attack on it moved it by {in_digits(moved)}"
        yield (
            f"Under noise, its {part} part ({MEANT[part]}, over {result.counts.get('passes', 0)} passes) stays between "
            f"{least:.3f} and {most:.3f} nats on average whatever is done within {place}: a certified span of "
            f"{in_digits(bound)}{more}."
        )
    classwise, brier = known("cce_classwise"), known("certified_brier")
    if classwise is not None and brier is not None:
        yield (
            f"Over all examples the classwise calibration error is at most {in_digits(classwise)} and the Brier score "
            f"of all classes at most {in_digits(brier)} under any attack within {place}."
        )
    kept, robust = known("certified_coverage"), known("robust_set_size")
    if kept is not None and robust is not None:
        yield (
            f"Conformal prediction sets hold the label whatever an attacker within {place} does on "
            f"{format_percentage_estimate(kept)} of the examples judged; sets that hold it as often as asked for "
            f"under any such attack have {in_digits(robust)} classes on average."
        )
