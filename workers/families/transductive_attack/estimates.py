"""Records to numbers: every estimate of the family with its interval, and the counts they can be recomputed from."""

from collections.abc import Mapping, Sequence

import numpy as np

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from seatrial.families.transductive_attack.records import STATIC_ATTACKS
from seatrial.statistics.estimating import estimate, proportion
from seatrial.statistics.exact import clopper_pearson
from workers.families.contexts import Records
from workers.families.transductive_attack.sample import (
    ALPHA,
    CLEAN,
    STATIC,
    UNADAPTED,
    Games,
    Gap,
    Outcomes,
    loss_to_static,
    overestimate,
    under_strongest,
)

Estimates = dict[str, Estimate]


def estimate_all(params: TransductiveAttackParams, done: Mapping[str, Records]) -> Estimates:
    """Return every estimate of the family.

    Intervals are about the population the examples are drawn from, given what defenders drew in these repeats. What
    rests on games of which every repeat failed has the value None and n 0; of a game some of whose repeats failed, the
    others count.

    Args:
        params: Of the check.
        done: Records by stage: ``static`` and those of :func:`game_of`.
    """
    games = Games(params, done)
    robust = games.static_robust()
    estimates = {
        "static_accuracy": rate(games.static("correct")),
        "static_robustness": rate(None if robust is None else robust[1]),
    }
    for defence in games.defences:
        estimates |= defence_estimates(games, defence)
    return estimates


def defence_estimates(games: Games, defence: str) -> Estimates:
    """Return what one defence keeps without an attack and under each, and what that is worth."""
    estimates = abstaining(games, defence) if games.is_rejecting(defence) else {}
    estimates[metric_name("clean_accuracy", defence=defence)] = rate(games.outcomes(defence, CLEAN))
    for attack in games.rows[1:]:
        outcomes = games.outcomes(defence, attack)
        named = {"defence": defence, "attack": attack}
        estimates[metric_name("robustness", **named)] = rate(outcomes)
        if games.params.repeats > 1:
            estimates[metric_name("robustness_std", **named)] = spread(outcomes)
    if defence != UNADAPTED:
        # That of no defence is the static model's, which a policy on defences is not about.
        estimates[metric_name("lowest_robustness", defence=defence)] = least(under_strongest(games, defence))
    estimates[metric_name("overestimate", defence=defence)] = paired(overestimate(games, defence))
    estimates[metric_name("gain_over_static", defence=defence)] = paired(loss_to_static(games, defence), turned=True)
    return estimates


def abstaining(games: Games, defence: str) -> Estimates:
    """Return the primary numbers of a defence that may refuse: the error on what it answers, and what it refuses."""
    estimates = {}
    for attack in games.rows:
        named = {"defence": defence, "attack": attack}
        estimates[metric_name("selective_error", **named)] = selective_error(games.pair(defence, attack))
        estimates[metric_name("rejection_rate", **named)] = rate(games.outcomes(defence, attack, "rejected"))
        if attack != CLEAN:
            refused = games.outcomes(defence, attack, "clean_rejected")
            estimates[metric_name("clean_rejection_rate", **named)] = rate(refused)
    return estimates


def selective_error(pair: tuple[Outcomes, Outcomes] | None) -> Estimate:
    """Return wrong answers over answers, with its Clopper-Pearson interval; None where nothing was answered.

    Guarantee: given how many examples were answered, each end is wrong with probability at most 2.5 % for one repeat,
    or several that agree on every example. Over several the value is the ratio of the means; of the whole numbers of
    wrong answers and of answers around these the farthest ends count: an example's shares vary no more than a hit or
    miss with their means. ``n`` are the examples answered in a repeat. Failure: as :func:`rate`.
    """
    if pair is None:
        return estimate(None, None, 0)
    wrong, kept = pair
    answered = kept.whole_successes
    if answered[1] == 0:
        return estimate(None, None, 0)
    value = float(wrong.successes.sum() / kept.successes.sum())
    sizes = [size for size in answered if size]
    low = min(clopper_pearson(min(wrong.whole_successes[0], size), size)[0] for size in sizes)
    high = max(clopper_pearson(min(wrong.whole_successes[1], size), size)[1] for size in sizes)
    return Estimate(value=value, low=low, high=high, n=sizes[0], method="clopper-pearson")


def rate(outcomes: Outcomes | None) -> Estimate:
    """Return the fraction of successes with its Clopper-Pearson interval, however many repeats it is the mean of.

    Guarantee: each end is wrong with probability at most 2.5 % for one repeat, or several that agree on every example.
    For several that do not, the examples' fractions add up to some number of successes, and the ends are those of the
    whole numbers below and above it. A share in [0, 1] varies no more between examples than a hit or miss of the same
    mean, so this errs on the wide side, near 0 and 1 too, where a bootstrap over examples has next to nothing to
    resample. Failure: as the pairs', it is given what these repeats drew.
    """
    if outcomes is None or len(outcomes) == 0 or (outcomes.successes == outcomes.successes[0]).all():
        return proportion(np.zeros(0, dtype=bool) if outcomes is None else outcomes.successes[0])
    below, above = (clopper_pearson(successes, len(outcomes)) for successes in outcomes.whole_successes)
    value = float(outcomes.fractions.mean())
    return Estimate(value=value, low=below[0], high=above[1], n=len(outcomes), method="clopper-pearson")


def least(several: Sequence[Outcomes]) -> Estimate:
    """Return the least of several rates of the same examples, with an interval that knows of the choice.

    Guarantee: each end is wrong with probability at most 2.5 %. The lower is the least of their lower ends, among which
    that of the truly least is; the upper the least of upper ends that all hold together (Bonferroni), as whichever is
    too low is too low for the least as well. Failure: as :func:`rate`.
    """
    if not several:
        return estimate(None, None, 0)
    n = len(several[0])
    whole = [outcomes.whole_successes for outcomes in several]
    low = min(clopper_pearson(below, n)[0] for below, _ in whole)
    high = min(clopper_pearson(above, n, alpha=ALPHA / len(several))[1] for _, above in whole)
    return estimate(min(float(outcomes.fractions.mean()) for outcomes in several), (low, high), n, "least")


def spread(outcomes: Outcomes | None) -> Estimate:
    """Return the standard deviation (n - 1) over repeats; None for fewer than two."""
    if outcomes is None or len(outcomes) == 0 or len(outcomes.successes) < 2:
        return estimate(None, None, 0)
    return estimate(float(outcomes.successes.mean(axis=1).std(ddof=1)), None, len(outcomes))


def paired(gap: Gap | None, *, turned: bool = False) -> Estimate:
    """Return a gap as an estimate; ``turned``, how far the lowest lies above the reference."""
    if gap is None:
        return estimate(None, None, 0)
    value, (low, high) = gap.value, gap.interval
    if turned:
        # Subtracted from 0, so that no difference comes out as -0.
        value, low, high = 0 - value, 0 - high, 0 - low
    return Estimate(value=value, low=low, high=high, n=gap.n, method="paired")


def count(params: TransductiveAttackParams, done: Mapping[str, Records]) -> dict[str, int]:
    """Return the whole numbers behind every rate.

    Of a game, ``n`` examples errored in none of the ``repeats`` that did not fail; the others are over all of these, so
    a rate is ``correct / (n * repeats)``. ``correct`` were answered rightly. Of a defence that may refuse, ``robust``
    hold, ``rejected`` were not answered, ``wrong`` were answered wrongly, and of the unperturbed copies beside them
    ``clean_rejected`` were not answered.
    """
    games = Games(params, done)
    correct = games.static("correct")
    counts = {
        "n": done[STATIC].num_rows,
        "errored": done[STATIC].num_rows - (0 if correct is None else len(correct)),
        "static_correct": 0 if correct is None else int(correct.successes.sum()),
    }
    for attack, column in STATIC_ATTACKS.items():
        robust = games.static(column)
        if robust is not None:
            counts[metric_name("static_robust", attack=attack)] = int(robust.successes.sum())
    for defence in games.defences:
        is_rejecting = games.is_rejecting(defence)
        for attack in games.rows:
            counts |= _count(games, defence, attack, is_rejecting=is_rejecting)
    return counts


def _count(games: Games, defence: str, attack: str, *, is_rejecting: bool) -> dict[str, int]:
    outcomes = games.outcomes(defence, attack, "correct")
    counts = {"failed": len(games.failures(defence, attack)), "n": 0, "errored": 0, "repeats": 0, "correct": 0}
    if outcomes is not None:
        counts["n"], counts["repeats"] = len(outcomes), len(outcomes.successes)
        counts["errored"] = max(games.sizes(defence, attack)) - len(outcomes)
        counts["correct"] = int(outcomes.successes.sum())
    if is_rejecting:
        pair = games.pair(defence, attack)
        counts["wrong"] = 0 if pair is None else int(pair[0].successes.sum())
        for column in ("robust", "rejected", *(() if attack == CLEAN else ("clean_rejected",))):
            happened = games.outcomes(defence, attack, column)
            counts[column] = 0 if happened is None else int(happened.successes.sum())
    return {metric_name(name, defence=defence, attack=attack): number for name, number in counts.items()}
