"""Records to the numbers of a predictive entropy's parts, and to doubts about them."""

from collections.abc import Mapping

import numpy as np

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.contracts.passes import Part
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from seatrial.families.uncertainty_span.parts import HIGHEST, LOWEST
from seatrial.statistics.arrays import Floats
from seatrial.statistics.estimating import mean, seed_of
from seatrial.statistics.intervals import paired_difference
from seatrial.statistics.samples import Sample
from workers.attacks.parts import NOTHING, largest_part
from workers.families.uncertainty_span.evidence import NOTABLE_SHARE

ROUNDING = 1e-6
"""Nats of mutual information that equal passes may show: float32 logits that differ by rounding have 1e-12."""


def stages_of(params: UncertaintySpanParams, samples: Mapping[str, Sample]) -> dict[Part, Sample]:
    """Return the records of the parts that were attacked."""
    return {part: samples[part] for part in params.parts if part in samples}


def part_estimates(attack: Sample, parts: Mapping[Part, Sample]) -> dict[str, Estimate]:
    """Return the span of every part, its two ends, and what the paper's two attacks do to it."""
    found = {}
    for part, sample in parts.items():
        most = most_of(part, sample)
        limits = (0.0, most) if sample.valid else (0.0, None)

        def of(values: Floats, limits: tuple[float, float | None] = limits) -> Estimate:
            # Rounding may put what is as large as can be a hair above that.
            return mean(values if limits[1] is None else values.clip(0, limits[1]), limits)

        lowest, highest = sample.floats(LOWEST), sample.floats(HIGHEST)
        found[metric_name("part_span", part=part)] = of(highest - lowest)
        found[metric_name("part_lowest", part=part)] = of(lowest)
        found[metric_name("part_highest", part=part)] = of(highest)
        for arm in ARMS:
            found[metric_name("entropy_part", part=part, arm=arm)] = of(attack.floats(f"{part}_{arm}"))
    return found


def doubt_parts(parts: Mapping[Part, Sample], seed: int) -> list[Flag]:
    """Return what speaks against the spans of parts."""
    found = [flag for part, sample in parts.items() if sample.valid for flag in masked_part(part, sample, seed)]
    epistemic = parts.get("epistemic")
    return found if epistemic is None or not epistemic.valid else [*found, *passes_agree(epistemic)]


def passes_agree(sample: Sample) -> list[Flag]:
    """Flag passes that agree on all images looked at, or disagree alike on all of them: there is nothing to attack."""
    most, highest = most_of("epistemic", sample), sample.floats(HIGHEST)
    count, top = int(sample.floats("passes")[0]), float(highest.mean())
    moved = float((highest - sample.floats(LOWEST)).mean())
    if highest.max() <= ROUNDING:
        return [
            Flag(
                code="passes_agree",
                severity="error",
                message=f"The {count} passes give the same answer to every image, attacked ones too (epistemic part at "
                f"most {highest.max():.1g} nat): they are one model. It has no epistemic uncertainty, so it says "
                "nothing that no attack moves it.",
            )
        ]
    if top < NOTHING * most:
        seen = (
            f"The {count} passes agree on the images looked at, attacked ones too: the epistemic part is at most "
            f"{top:.2g} nat on average, of {most:.3g} there could be"
        )
    elif moved < NOTHING * most and float(np.std(sample.floats("part_clean"))) < NOTHING * most:
        seen = (
            f"The {count} passes disagree alike on all images looked at: the epistemic part is {top:.2g} nat whatever "
            "the image"
        )
    else:
        return []
    return [
        Flag(
            code="passes_agree",
            severity="warning",
            message=f"{seen}. Its span is small for that reason alone: there was nothing to attack. Look at the "
            "epistemic part on data of another kind before relying on it.",
        )
    ]


def masked_part(part: Part, sample: Sample, seed: int) -> list[Flag]:
    """Flag gradients of a part that hide what the model does: a search by scores alone reaches further than they do."""
    if not sample.has(f"score_{LOWEST}"):
        return []
    least, found = NOTABLE_SHARE * most_of(part, sample), []
    for end, sign in ((HIGHEST, 1.0), (LOWEST, -1.0)):
        by_scores, by_gradients = (sign * sample.floats(f"{name}_{end}") for name in ("score", "gradient"))
        interval = paired_difference(by_scores, by_gradients, seed=seed_of(seed, f"masked {part} {end}"))
        further = float((by_scores - by_gradients).mean())
        if interval is None or interval[0] <= 0 or further <= least:
            continue
        found.append(
            Flag(
                code="masked_gradients",
                severity="error",
                message=f"Attacks that follow the gradients of the {part} part take it to "
                f"{sign * float(by_gradients.mean()):.3g} nat on average, a search by scores alone to "
                f"{sign * float(by_scores.mean()):.3g} ({further:.3g} further, 95% interval {interval[0]:.3g} to "
                f"{interval[1]:.3g}, {len(by_scores)} examples): the gradients are masked, and the true span may be "
                "larger still.",
            )
        )
    return found


def most_of(part: Part, sample: Sample) -> float:
    """Return what a part is at most; NaN of no examples."""
    if sample.valid == 0:
        return float("nan")
    return largest_part(part, int(sample.floats("passes")[0]), int(sample.floats("classes")[0]))
