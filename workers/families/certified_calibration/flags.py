"""Doubts about the numbers, and what they do not say: each with what it means and what to do."""

from collections.abc import Mapping, Sequence

import numpy as np

from seatrial.contracts.datasets import GRID
from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, BOUNDS, CertifiedCalibrationParams
from seatrial.statistics.exact import mcnemar
from seatrial.statistics.paired import discordant
from seatrial.statistics.samples import Sample
from workers.certification.anytime import fixed_schedule, geometric_schedule
from workers.certification.bernoulli import ABSTAIN, largest_radius
from workers.families.certified_calibration import class_flags
from workers.families.certified_calibration.certify import SERVED, certificate_alpha
from workers.families.certified_calibration.sample import attacked_at, is_answered

FEW = 30
"""Certified examples below which a calibration error is mostly chance: two for each of the paper's bins."""

ABSTAINS = 0.2
"""Share of examples; a model trained with the noise it is certified with abstains on 2 to 10 % at small sigma."""

LOST = 0.1
"""Accuracy that noise may cost before the model counts as not trained for it."""

SIGNIFICANT = 0.05

STANDARD_ERRORS = 4.0

HALF = 0.5
"""Share of the certificate below which an attack leaves the question open."""


def doubt(
    params: CertifiedCalibrationParams,
    certify: Sample,
    attacks: Mapping[str, Sample],
    estimates: Mapping[str, Estimate],
    spans: Mapping[str, Sample] | None = None,
) -> list[Flag]:
    """Return every flag of a result, the graver ones first; ``spans``: what attacks on uncertainty reached."""
    if not certify.valid:
        return radius_out_of_reach(params, certify)
    flags = [
        *attack_beyond_certificate(params, certify, attacks),
        *batch_dependent(certify),
        *function_assumed(certify),
        *radius_out_of_reach(params, certify),
        *too_few_certified(params, certify, estimates),
        *not_trained_for_noise(params, certify),
        *abstains_often(params, certify),
        *attack_far_below_certificate(params, attacks, estimates),
        *admm_below_exact(params, estimates),
        *per_example_alpha(params, certify),
        *shared_noise(params),
        *adaptive_intervals(params, certify),
        *rounded_to_grid(certify),
        *reduced_precision(certify),
        *class_flags.span_says_little(params, certify),
        *class_flags.passes_agree(params, certify),
        *class_flags.classes_summed(params, certify),
        *class_flags.attack_beyond_span(params, spans or {}),
        *class_flags.span_not_shown(params, estimates),
    ]
    return sorted(flags, key=lambda flag: ("error", "warning", "info").index(flag.severity))


def reach(params: CertifiedCalibrationParams, certify: Sample) -> float:
    """Return the l_2 radius above which nothing can be certified, were the class the same in every draw."""
    alpha = certificate_alpha(params, certify.size)
    schedule = (fixed_schedule if params.sampling == "fixed" else geometric_schedule)(params.n, alpha)
    return largest_radius(params.n, alpha=schedule.lower_alphas[-1], sigma=params.sigma)


def attack_beyond_certificate(
    params: CertifiedCalibrationParams, certify: Sample, attacks: Mapping[str, Sample]
) -> list[Flag]:
    """Flag confidences that an attack moved out of their certified interval, by more than chance explains.

    Chance is what an empirical Bernstein bound allows the mean of the attacked draws (Maurer and Pontil 2009, theorem
    4), at the level whose first term is ``STANDARD_ERRORS`` standard errors: those alone say nothing where every draw
    came out the same.
    """
    draws = min(params.n, ATTACKED_DRAWS)
    if not attacks or params.attack_radius is None or draws < 2:
        return []
    seldom = 7 * STANDARD_ERRORS**2 / 2 / (3 * (draws - 1))
    beyond: dict[str, int] = {}
    for name, attack in attacks.items():
        outside = np.zeros(0, dtype=bool)
        for bound in BOUNDS:
            attacked = attacked_at(params, certify, attack, bound=bound)
            slack = STANDARD_ERRORS * attacked.standard_error + seldom
            lower, upper = attacked.certified.lower, attacked.certified.upper
            out = (attacked.confidence < lower - slack) | (attacked.confidence > upper + slack)
            outside = out if not len(outside) else outside | out
        beyond[name] = int(outside.sum())
    if not any(beyond.values()):
        return []
    told = ", ".join(f"{name} {number}" for name, number in beyond.items() if number)
    return [
        Flag(
            code="attack_beyond_certificate",
            severity="error",
            message=f"Attacks within radius {params.attack_radius:g} moved smoothed confidences out of their certified "
            f"intervals by more than {STANDARD_ERRORS:g} standard errors (examples: {told}). Nothing within the radius "
            "should be able to: the certificates or the arithmetic are wrong, for instance because the model does not "
            "give the same output for the same input. Do not rely on any certified number of this check; see that the "
            "model is deterministic and in evaluation mode, and report it if it is.",
        )
    ]


def function_assumed(certify: Sample) -> list[Flag]:
    """Flag certificates of a server: that it answers each image by itself cannot be seen from outside."""
    if not certify.has(SERVED):
        return []
    return [
        Flag(
            code="function_assumed",
            severity="warning",
            message="The model is an endpoint. Certificates hold for a function of one image; a server that remembers "
            "what it was asked could average noise away, or give all noisy copies of an image one answer, and be "
            "certified for what it cannot do. They hold only as far as whoever runs the server vouches that it does "
            "not.",
        )
    ]


def batch_dependent(certify: Sample) -> list[Flag]:
    """Flag a model whose answer for an image depends on what else is asked for."""
    count = int(certify.floats("batch_dependent").sum())
    if count == 0:
        return []
    return [
        Flag(
            code="batch_dependent",
            severity="error",
            message=f"On {count} of {certify.valid} examples the model gave noisy copies other classes among copies of "
            "the same image than among copies of other images, or than it had given before. Its answer is not a "
            "function of one image alone: it may average the noise of a batch away, and no certificate holds. These "
            "examples count as certified at no radius; do not rely on the others either.",
        )
    ]


def radius_out_of_reach(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Flag radii that these draws could not certify for any model."""
    largest = reach(params, certify)
    beyond = [radius for radius in params.radii if not _is_within(radius, largest)]
    if not beyond:
        return []
    alpha = certificate_alpha(params, certify.size)
    return [
        Flag(
            code="radius_out_of_reach",
            severity="warning",
            message=f"No model could be certified at {_radii(beyond)}: with sigma {params.sigma:g}, {params.n} draws "
            f"and certificates that err with probability {alpha:.2g} the largest radius is {largest:.3g}, even if "
            f"every draw gives the same class{_reach_of_fixed(params, certify)}. Zeros there say nothing about the "
            "model. The reach grows in proportion to sigma and only slowly with n; a larger sigma wants a model "
            "trained with it.",
        )
    ]


def too_few_certified(
    params: CertifiedCalibrationParams, certify: Sample, estimates: Mapping[str, Estimate]
) -> list[Flag]:
    """Flag radii within reach at which nobody, or hardly anybody, is certified."""
    largest = reach(params, certify)
    within = [radius for radius in params.radii if _is_within(radius, largest)]
    numbers = {radius: estimates[metric_name("cce", radius=radius)].n for radius in within}
    none = [radius for radius, number in numbers.items() if number == 0]
    few = {radius: number for radius, number in numbers.items() if 0 < number < FEW}
    flags = []
    if none:
        flags.append(
            Flag(
                code="no_certified_examples",
                severity="warning",
                message=f"None of the {certify.valid} examples is certified at {_radii(none)}, so cce, cbs and what "
                "they are compared with are undefined there: that is no sign of good calibration. cce_system, over all "
                "examples, is defined there and says how little can be promised. Train with noise of this sigma, "
                "or ask for smaller radii.",
            )
        )
    if few:
        told = ", ".join(f"{number} at {radius:g}" for radius, number in few.items())
        flags.append(
            Flag(
                code="few_certified_examples",
                severity="warning",
                message=f"Few of the {certify.valid} examples are certified at some radii ({told}). Calibration errors "
                f"of fewer than {FEW} examples are mostly chance, their intervals are wide and not exact; and those "
                "certified far out are the model's easiest examples. Raise the number of samples, or read these radii "
                "by certified_share first.",
            )
        )
    return flags


def not_trained_for_noise(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Flag a model that is right much more often without the noise than smoothed with it.

    Where PREDICT abstains, the class selected counts: abstaining may be for want of draws.
    """
    label, predicted, candidate, unsmoothed = (
        certify[name].astype(np.int64) for name in ("label", "predicted_class", "candidate", "clean_prediction")
    )
    clean, smoothed = unsmoothed == label, np.where(predicted == ABSTAIN, candidate, predicted) == label
    clean_only, smoothed_only, n = discordant(clean, smoothed)
    if clean_only - smoothed_only < LOST * n or mcnemar(clean_only, smoothed_only) >= SIGNIFICANT:
        return []
    return [
        Flag(
            code="not_trained_for_noise",
            severity="warning",
            message=f"Without noise the model is right on {clean.mean():.1%} of the examples, smoothed with sigma "
            f"{params.sigma:g} on {smoothed.mean():.1%}: it was not trained for this noise. The certificates are "
            "valid, but of a smoothed model nobody would use. Train with Gaussian noise of this sigma, put a denoiser "
            "in front, or certify with the sigma the model was trained with.",
        )
    ]


def abstains_often(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Flag a model whose class under noise is often not shown to have half of the draws."""
    fraction = float(1 - is_answered(certify).mean())
    if fraction <= ABSTAINS:
        return []
    return [
        Flag(
            code="abstains_often",
            severity="warning",
            message=f"On {fraction:.0%} of the examples no class is shown to have at least half of the draws, so they "
            "are certified at no radius and count in neither cce nor cbs. The numbers are about the rest, which are "
            f"easier; cce_system is about all. Train for noise of sigma {params.sigma:g}, use a smaller one, or "
            "raise n if it is small.",
        )
    ]


def attack_far_below_certificate(
    params: CertifiedCalibrationParams, attacks: Mapping[str, Sample], estimates: Mapping[str, Estimate]
) -> list[Flag]:
    """Note how wide the gap is between what an attack reached and what is certified, where it leaves much open."""
    if params.attack_radius is None:
        return []
    radius = params.attack_radius
    certified = estimates[metric_name("cce", radius=radius)].value
    reached = {name: estimates[metric_name("ece", attack=name, radius=radius)].value for name in attacks}
    known = {name: value for name, value in reached.items() if value is not None}
    if certified is None or not known:
        return []
    best = max(known, key=lambda name: known[name])
    if known[best] >= HALF * certified:
        return []
    return [
        Flag(
            code="attack_far_below_certificate",
            severity="info",
            message=f"At radius {radius:g} the strongest attack, {best}, reached an ECE of {known[best]:.3f}; the "
            f"certificate allows {certified:.3f}. The true worst case lies in between. Both contribute to the gap: the "
            "intervals, which hold for any model with such scores under noise, and the attack, which seeks one "
            "direction for all examples. More attack_steps and attack_draws may close it from below, more draws n a "
            "little from above.",
        )
    ]


def admm_below_exact(params: CertifiedCalibrationParams, estimates: Mapping[str, Estimate]) -> list[Flag]:
    """Note how much of the exact worst case the paper's approximation finds."""
    fractions: dict[float, float] = {}
    for radius in params.radii:
        approximate, exact = (estimates.get(metric_name(name, radius=radius)) for name in ("acce", "cce"))
        if approximate is not None and approximate.value is not None and exact is not None and exact.value:
            fractions[radius] = approximate.value / exact.value
    if not fractions:
        return []
    least = min(fractions, key=lambda radius: fractions[radius])
    return [
        Flag(
            code="admm_below_exact",
            severity="info",
            message=f"The paper's ADMM finds {fractions[least]:.1%} of the exact worst calibration error at radius "
            f"{least:g}, and on average {np.mean(list(fractions.values())):.1%} over {len(fractions)} radii. It "
            "searches, so what it finds is a lower bound and certifies nothing: state cce as the certified number, "
            "acce only to compare with published ones.",
        )
    ]


def per_example_alpha(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Note that each certificate may be wrong by itself, unless they are made to hold together."""
    if params.joint:
        return []
    wrong = params.alpha * certify.valid
    return [
        Flag(
            code="per_example_alpha",
            severity="info",
            message=f"Each example's radius is wrong with probability at most {params.alpha:g}, and its confidence "
            f"interval likewise: of {certify.valid} examples, up to {wrong:.2g} of each are expected to be wrong. The "
            "field reports certificates this way. If cce and cbs are to hold as they stand with probability 1 - "
            "alpha, set joint: all certificates then hold at once, at slightly smaller radii.",
        )
    ]


def shared_noise(params: CertifiedCalibrationParams) -> list[Flag]:
    """Note that examples' errors are correlated where all see the same draws."""
    if params.noise != "shared":
        return []
    return [
        Flag(
            code="shared_noise",
            severity="info",
            message="All examples saw the same draws of noise. Every single guarantee holds as with draws of its own, "
            "and so does a joint one; but certificates that fail tend to fail together, and averages over examples "
            "vary with the draws more than their intervals say. Set noise to independent where that matters; it takes "
            "longer.",
        )
    ]


def adaptive_intervals(params: CertifiedCalibrationParams, certify: Sample) -> list[Flag]:
    """Note that confidences rest on fewer draws where sampling stops early."""
    if params.sampling != "adaptive":
        return []
    draws = certify.floats("draws")
    return [
        Flag(
            code="adaptive_intervals",
            severity="info",
            message=f"Draws ended once it was settled at which of the radii an example is certified: "
            f"{draws.mean():.0f} on average, {np.median(draws):.0f} at the median, of {params.n} allowed. Confidence "
            "intervals rest on these fewer draws and are wider, so cce and cbs are larger than fixed sampling would "
            "give, and certified radii are cut short between those asked for. They are just as valid. For the tightest "
            "numbers use fixed sampling.",
        )
    ]


def rounded_to_grid(certify: Sample) -> list[Flag]:
    """Note that what is certified are images moved a little: certificates are made on a grid."""
    moved = certify.floats("rounding")
    if not moved.any():
        return []
    return [
        Flag(
            code="rounded_to_grid",
            severity="info",
            message=f"{np.count_nonzero(moved)} of {certify.valid} images have values off the grid of 1/{GRID:,} that "
            "certificates are made on (8-bit images lie on it) and were rounded to it: they moved by an l_2 distance "
            f"of at most {moved.max():.2g}. Class and confidence are certified for the rounded image, against every "
            "8-bit image within the radius of it and everything else on the grid. Round to the grid where the model is "
            "served, too.",
        )
    ]


def reduced_precision(certify: Sample) -> list[Flag]:
    """Note that what is certified is the model computed in bfloat16."""
    if not certify.floats("in_bfloat16").any():
        return []
    return [
        Flag(
            code="reduced_precision",
            severity="info",
            message="The network was computed in bfloat16 under noise, as this service's operator allows. What is "
            "certified is the smoothed model computed that way: serve it in bfloat16 too, or audit it where float32 is "
            "used, before quoting these certificates for a float32 model.",
        )
    ]


def _reach_of_fixed(params: CertifiedCalibrationParams, certify: Sample) -> str:
    if params.sampling == "fixed":
        return ""
    return f" (adaptive sampling spends half of it on the way; fixed reaches {reach(_fixed(params), certify):.3g})"


def _fixed(params: CertifiedCalibrationParams) -> CertifiedCalibrationParams:
    return params.model_copy(update={"sampling": "fixed"})


def _is_within(radius: float, largest: float) -> bool:
    # A reach of 0 is none: every draw the same, and the example is abstained on nevertheless.
    return radius <= largest and largest > 0


def _radii(radii: Sequence[float]) -> str:
    return f"radius {radii[0]:g}" if len(radii) == 1 else "radii " + ", ".join(f"{radius:g}" for radius in radii)
