"""Doubts about the numbers, each with what it means and what to do.

A doubt about one arm is a note where another arm, in good order, answers the same question, and a warning where none
does.
"""

from collections import Counter
from typing import Literal

import numpy as np

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY
from seatrial.statistics.paired import discordant
from seatrial.statistics.proportions import score_interval
from workers.calibration.scaling import START
from workers.families.temperature_attack.arms import rounded_to
from workers.families.temperature_attack.audit import Audit
from workers.families.temperature_attack.score_flags import doubt_scores, few_label_queries
from workers.models.endpoint_messages import LOG_ZERO

SEEKING = ("calibrated", "optimized", "platt_vector", "platt_matrix")
"""Arms that find a fitting scale whatever the model was served at."""

SATURATED = 0.1
"""Share of clean texts whose served probability is exactly 1 from which on the search is without a signal."""

TIED = 0.01
"""Share of clean texts whose two largest served probabilities are equal: an attack then starts on the wrong class."""

LOST_ERROR = 0.1
"""Share of clean texts with such a logit from which on the fitted arms are not to be relied on."""

FEW = 50
"""Validation examples below which a temperature is a guess: its 95% interval spans a factor of 2 and more."""

DISAGREEING = 0.01
"""Share of texts on which TextAttack's count and the unmodified model may differ."""

ERRORED_FRACTION = 0.05
"""Share of examples that may err before a recipe's numbers are in doubt: the error rate an audit allows by default."""

UNFINISHED_FRACTION = 0.1
"""Share of attacks that the query budget may end before what is left standing is in doubt."""

ONE_PART = {"textfooler": "hypothesis"}
"""Recipes that were published to edit one part of a pair."""

_REASONS = {
    "no_examples": "no validation example answered, so nothing was fitted and the served scores were used",
    "constant_logits": "all logits of every validation example are equal, so every temperature is the same",
    "no_errors": "the model is right on every validation example, so the likelihood grows as T falls to 0",
    "no_signal": "the model's scores tell right from wrong no better than chance on the validation examples, so the "
    "likelihood grows with T",
    "beyond_range": "the best temperature lies beyond the range from 1e-10 to 1e6 for the raw logits",
    "separable": "Platt scaling gets every validation example right, so its weights would grow without end; they were "
    "held by a small penalty",
    "not_converged": "the fit did not converge",
    "nothing_evaluated": "no validation example was attacked without an error, so 1 was taken",
    "budget_spent": "the search ended before the paper's ten iterations; raise temperature_evaluations",
}


def doubt(audit: Audit) -> list[Flag]:
    """Return all flags of a finished audit."""
    flags = (
        illusion(audit)
        + nothing_compared(audit)
        + few_label_queries(audit)
        + errored_examples(audit)
        + unfinished_attacks(audit)
    )
    if len(audit.clean):
        flags += saturated_softmax(audit) + underconfident_ties(audit) + unrecoverable_scores(audit)
    return [
        *flags,
        *degenerate_temperature(audit),
        *paper_code(audit),
        *calibration_did_not_help(audit),
        *few_validation_examples(audit),
        *search_disagreement(audit),
        *one_part_edited(audit),
        *doubt_scores(audit),
    ]


def illusion(audit: Audit) -> list[Flag]:
    """Flag robustness that is surely there as served alone, with the worst recipe for each example."""
    gap = audit.gap()
    if gap is None or gap.interval[0] <= 0:
        return []
    arm = audit.arms.others[gap.lowest]
    served, lowest = (float(audit.robust(name).mean()) for name in (AS_SERVED, arm))
    return [
        Flag(
            code="illusion",
            severity="warning",
            message=f"As served the model keeps {served:.1%} accuracy under attack, and in arm {arm} {lowest:.1%}: at "
            f"least {gap.interval[0]:.1%} of all texts only look robust because the served scores give an attack "
            "nothing to follow. Do not rely on the accuracy as served; compare models by the lowest arm, and serve "
            "calibrated scores.",
        )
    ]


def nothing_compared(audit: Audit) -> list[Flag]:
    """Flag an audit that asked for no other arm, or for no recipe that can flip a prediction."""
    if audit.params.arms and audit.flipping:
        return []
    lacking = "arm that reads the scores in another way" if audit.flipping else "recipe that changes the prediction"
    return [
        Flag(
            code="nothing_compared",
            severity="warning",
            message=f"No {lacking} was asked for, so the illusion gap rests on nothing or on labels alone: that "
            "cannot tell a robust model from one whose scores give an attack little to follow.",
        )
    ]


def errored_examples(audit: Audit) -> list[Flag]:
    """Flag examples that errored under attack, with what they leave open."""
    flags = []
    for recipe, sample in audit.attacks.items():
        errored = sample.size - len(sample.clean)
        if not errored or recipe not in audit.flipping:
            continue
        kept = int(sample.robust(AS_SERVED).sum())
        reason, times = Counter(sample.errors).most_common(1)[0]
        flags.append(
            Flag(
                code="errored_examples",
                severity="warning" if errored > ERRORED_FRACTION * sample.size else "info",
                message=f"{errored} of {sample.size} examples errored under {recipe} and count in none of its numbers; "
                f"the most frequent reason ({times} times): {reason[:300]}. Examples that were right take more "
                "queries, and so error more often, than those that were wrong: over all examples, accuracy as served "
                f"lies between {kept / sample.size:.1%} and {(kept + errored) / sample.size:.1%}.",
            )
        )
    return flags


def unfinished_attacks(audit: Audit) -> list[Flag]:
    """Flag attacks that the query budget ended: an attack that was not let work says nothing about the model."""
    flags = []
    for recipe in audit.counted:
        sample = audit.attacks[recipe]
        fractions = {
            arm: float(ended.unfinished[ended.attacked].mean())
            for arm, ended in sample.arms.items()
            if ended.attacked.any()
        }
        arm, fraction = max(fractions.items(), key=lambda pair: pair[1], default=(AS_SERVED, 0.0))
        if fraction:
            flags.append(
                Flag(
                    code="unfinished_attacks",
                    severity="warning" if fraction > UNFINISHED_FRACTION else "info",
                    message=f"The query budget of {audit.params.query_budget} ended {fraction:.0%} of the attacks with "
                    f"{recipe} on arm {arm} before they were finished. The texts they left standing have not been "
                    "shown to withstand them: raise query_budget, or leave it out.",
                )
            )
    return flags


def saturated_softmax(audit: Audit) -> list[Flag]:
    """Flag served probabilities of exactly 1, which no change of a word moves."""
    fraction = float(np.mean(audit.confidence(AS_SERVED, audit.clean.logits) == 1))
    if fraction < SATURATED:
        return []
    return [
        Flag(
            code="saturated_softmax",
            severity=_severity(audit),
            message=f"The served probability of {fraction:.0%} of the clean texts is exactly 1. An attack as served "
            "cannot tell one word from another there: that it fails says nothing about the model."
            + ("" if unrecoverable_scores(audit) else " Rely on the calibrated or the optimized arm."),
        )
    ]


def underconfident_ties(audit: Audit) -> list[Flag]:
    """Flag served probabilities that tie at the top, so that an attack may take another class for the prediction."""
    top = audit.probabilities(AS_SERVED, audit.clean.logits).topk(2, dim=1).values
    fraction = float((top[:, 0] == top[:, 1]).double().mean())
    if fraction < TIED:
        return []
    own = audit.clean.logits.topk(2, dim=1).values
    if float((own[:, 0] == own[:, 1]).double().mean()) > fraction / 2:
        cause = "because the model gives both classes the same score. No temperature separates them: the first of the "
        cause += "two counts as its prediction, and there an attack begins as if with the toss of a coin."
    else:
        cause = "although the logits differ. As served the attacks see another prediction than the model makes and "
        cause += "stop too early; rely on the arms that compute in float64."
    return [
        Flag(
            code="underconfident_ties",
            severity=_severity(audit),
            message=f"The two largest served probabilities of {fraction:.0%} of the clean texts are equal {cause}",
        )
    ]


def unrecoverable_scores(audit: Audit) -> list[Flag]:
    """Flag probabilities an endpoint rounded to 0, whose logits no temperature brings back."""
    # Exactly: a model's own logits may lie far below it.
    fraction = float((audit.clean.logits == LOG_ZERO).any(dim=1).double().mean())
    if fraction == 0:
        return []
    digits = rounded_to(audit.params, audit.clean)
    if digits is not None and fraction < LOST_ERROR:
        return [
            Flag(
                code="unrecoverable_scores",
                severity="info",
                message=f"The endpoint rounds its probabilities to {digits} digits, and {fraction:.0%} of the clean "
                "texts have one of exactly 0. Temperatures are fitted on the intervals that the numbers stand for; on "
                "these texts attacks that read scores begin without a signal.",
            )
        ]
    return [
        Flag(
            code="unrecoverable_scores",
            severity="error" if fraction >= LOST_ERROR else "warning",
            message=f"The endpoint gave a probability of exactly 0 for {fraction:.0%} of the clean texts. What it was "
            "before rounding is lost, and no temperature restores it: that the other arms do no more harm than the "
            "scores as served proves nothing. Let the endpoint answer with logits, or with log probabilities.",
        )
    ]


def degenerate_temperature(audit: Audit) -> list[Flag]:
    """Flag every arm whose fit is none, with its reason."""
    flags = []
    for name, arm in audit.arms.by_name.items():
        if arm.degenerate not in _REASONS:
            continue
        at = "" if arm.temperature is None else f" Its temperature, {arm.temperature:.4g}, is no estimate."
        flags.append(
            Flag(
                code="degenerate_temperature",
                severity=_severity(audit, name),
                message=f"Arm {name} is not what its name says: {_REASONS[arm.degenerate]}.{at} Use more validation "
                "examples, some of which the model gets wrong, or rely on another arm.",
            )
        )
    return flags


def paper_code(audit: Audit) -> list[Flag]:
    """Flag where the paper's own code, asked for, does not do what it is for."""
    flags = []
    optimized = audit.arms.by_name.get("optimized")
    if optimized is not None and optimized.degenerate == "bracket_refused":
        flags.append(
            Flag(
                code="paper_bracket_failed",
                severity=_severity(audit, "optimized"),
                message="SciPy refuses the paper's bracket on this model, as it does on most: the accuracy in its "
                "middle is not below that at both ends. The optimized arm runs at the best temperature seen, "
                f"{optimized.temperature:.4g}. Use temperature_search = bounded.",
            )
        )
    paper = audit.arms.by_name.get("calibrated_paper")
    if paper is not None and paper.degenerate in ("vanishing_gradient", "crossed_zero"):
        why = (
            f"never left its start at T = {START:g}, where its gradient vanishes on logits of this scale"
            if paper.degenerate == "vanishing_gradient"
            else f"would have crossed zero and was stopped at T = {paper.temperature:.4g}"
        )
        flags.append(
            Flag(
                code="paper_optimizer_stuck",
                severity=_severity(audit, "calibrated_paper"),
                message=f"The paper's LBFGS {why}. That calibration seems not to help here is the optimiser's doing: "
                "arm calibrated solves the same problem exactly.",
            )
        )
    return flags


def calibration_did_not_help(audit: Audit) -> list[Flag]:
    """Flag an illusion that calibration leaves standing, wholly or in part, while another arm removes it."""
    gap = audit.gap()
    if gap is None or "calibrated" not in audit.arms.by_name:
        return []
    lowest = audit.arms.others[gap.lowest]
    served, calibrated, least = (audit.robust(arm) for arm in (AS_SERVED, "calibrated", lowest))
    removed = score_interval(*discordant(served, calibrated))
    left = score_interval(*discordant(calibrated, least))
    if lowest in ("calibrated", LABEL_ONLY) or gap.interval[0] <= 0:
        return []
    if removed[0] <= 0:
        return [
            Flag(
                code="calibration_did_not_help",
                severity="info",
                message=f"Calibration reveals {served.mean() - calibrated.mean():.1%} of an illusion of "
                f"{gap.value:.1%}, which may be chance; arm {lowest} shows the rest. The temperature of greatest "
                "likelihood is not the one that helps an attacker most: judge by the lowest arm.",
            )
        ]
    if left[0] <= 0:
        return []
    return [
        Flag(
            code="optimized_beats_calibrated" if lowest == "optimized" else "calibration_falls_short",
            severity="info",
            message=f"Arm {lowest} takes {calibrated.mean() - least.mean():.1%} more accuracy than calibration does "
            f"(at least {left[0]:.1%}): calibrating the model removes part of the illusion only. Judge by the lowest "
            "arm.",
        )
    ]


def few_validation_examples(audit: Audit) -> list[Flag]:
    """Flag temperatures that rest on too little."""
    if audit.validation is None or len(audit.validation) >= FEW:
        return []
    return [
        Flag(
            code="few_validation_examples",
            severity="warning",
            message=f"The fitted arms rest on {len(audit.validation)} validation examples; fewer than {FEW} leave a "
            "temperature uncertain by a factor of two or more. Raise validation_samples, or give a "
            "validation_dataset.",
        )
    ]


def search_disagreement(audit: Audit) -> list[Flag]:
    """Flag arms in which the attack's own success is not what the unmodified model makes of its texts."""
    fractions: dict[str, float] = {}
    for recipe in audit.counted:
        sample = audit.attacks[recipe]
        for arm, ended in sample.arms.items():
            # What fools the source model need not fool this one: that is what transfer measures.
            if arm == "transfer" or not len(sample.clean):
                continue
            # A skipped text counts as fooled without an attack, as TextAttack counts it: wrong from the start.
            fooled = ended.succeeded | ~ended.attacked
            fraction = float(np.mean(fooled == sample.robust(arm)))
            fractions[arm] = max(fraction, fractions.get(arm, 0.0))
    differing = {arm: fraction for arm, fraction in fractions.items() if fraction > DISAGREEING}
    if not differing:
        return []
    named = ", ".join(f"{arm} ({fraction:.1%} of the texts)" for arm, fraction in differing.items())
    sound = [arm for arm in _sound(audit) if arm not in differing]
    return [
        Flag(
            code="search_disagreement",
            severity="info" if sound else "warning",
            message=f"In {named} an attack counts successes the unmodified model does not share, or misses some: the "
            "scores it saw tie or are reordered by rounding or by Platt scaling. Adversarial accuracy is the "
            "unmodified model's and stands; such an attack may have stopped too early, so it is an upper bound there.",
        )
    ]


def one_part_edited(audit: Audit) -> list[Flag]:
    """Flag pairs of which an attack left one part alone: a model may rest its decision on that one."""
    parts = audit.params.pair_parts
    by_recipe = ONE_PART if parts == "published" else dict.fromkeys(audit.counted, parts)
    edited = {
        recipe: by_recipe[recipe]
        for recipe in audit.counted
        if recipe in by_recipe and any(len(text) > 1 for text in audit.attacks[recipe].texts)
    }
    if not edited or parts == "both":
        return []
    others = [recipe for recipe in audit.counted if recipe not in edited]
    told = ", ".join(f"{recipe} edited the {part} alone" for recipe, part in edited.items())
    rest = f"; {', '.join(others)} edited both parts" if others else " and no recipe the other part"
    return [
        Flag(
            code="one_part_edited",
            severity="info" if others else "warning",
            message=f"Of each pair of texts {told}{rest}. That a text withstands may be due to the part that was left "
            "alone: set pair_parts to both where an attacker may write both.",
        )
    ]


def _sound(audit: Audit) -> list[str]:
    """Return the arms that look for a fitting scale and found one."""
    return [name for name in SEEKING if name in audit.arms.by_name and audit.arms[name].degenerate is None]


def _severity(audit: Audit, about: str | None = None) -> Literal["info", "warning"]:
    """Return ``info`` where an arm in good order, other than the one in doubt, answers; else ``warning``."""
    return "info" if [name for name in _sound(audit) if name != about] else "warning"
