"""Records to numbers: every estimate of the family with its interval, and the counts they can be recomputed from."""

from collections.abc import Callable, Mapping

import numpy as np

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.models import MULTI_LABEL
from seatrial.contracts.noise import COMBINED
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.clusters import correlations, interval_of, ratio
from seatrial.statistics.estimating import estimate, proportion
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import Interval
from seatrial.statistics.paired import discordant
from seatrial.statistics.proportions import score_interval
from seatrial.statistics.ranks import rank_interval, ranks
from workers.families.contexts import Records
from workers.families.low_level_attack import flags
from workers.families.low_level_attack.audit import Audit, Scored
from workers.families.low_level_attack.resampling import Resampled
from workers.families.low_level_attack.series import make_series
from workers.families.low_level_attack.worst import Worst, worst_of

Estimates = dict[str, Estimate]


def reduce(
    params: LowLevelAttackParams,
    done: Mapping[str, Records],
    seed: int,
    *,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Result:
    """Turn the records of all stages into estimates, series, flags and counts. Pure and seeded.

    Args:
        params: What was asked.
        done: Records by stage: ``clean`` and ``attack_<attacker>``.
        seed: Of the bootstraps, and of which examples are shown.
        check_cancelled: Called before whatever takes a second.
    """
    audit = Audit(params, done, check_cancelled)
    drawn = Resampled(audit, seed, check_cancelled)
    found = clean_estimates(drawn)
    for attacker in audit.attackers:
        for level in audit.levels:
            found |= cell_estimates(drawn, attacker, level)
    worst = {level: worst_of(audit, level) for level in audit.levels}
    found |= worst_estimates(drawn, worst) | compared_estimates(drawn, found)
    return Result(
        estimates=found,
        series=make_series(audit, drawn, worst, found, seed),
        flags=flags.doubt(audit, drawn, found),
        counts=count(audit, worst),
    )


def clean_estimates(drawn: Resampled) -> Estimates:
    """Return what the model is without noise."""
    audit, cell = drawn.audit, drawn.clean
    n = len(audit)
    return {
        metric_name("score", level=0): _score(audit, cell.score, audit.clean.scored),
        metric_name("ece", level=0): _measured(cell.ece, n, cell.ece_interval),
        metric_name("mean_confidence", level=0): _bootstrap(cell.confidence, n),
    }


def cell_estimates(drawn: Resampled, attacker: str, level: float) -> Estimates:
    """Return what one attacker did at one level, on the examples it was answered on."""
    audit, attacked = drawn.audit, drawn.attacked(attacker)
    cell, noise = attacked.cells[level], audit.noise(attacker, level)
    rows, n = noise.answers.rows, len(noise.answers)
    lost = None
    if audit.task != MULTI_LABEL and len(noise.answers.right):
        lost = drop_interval(audit.clean.of(rows).right, noise.answers.right)
    found = {
        "score": _score(audit, cell.score, noise.answers.scored),
        "relative_score": _paired(
            ratio(cell.score, attacked.before), n, _relative_ends(lost, float(attacked.before[0]))
        ),
        "score_drop": _paired(attacked.before - cell.score, n, lost, is_exact=audit.is_single),
        "flip_rate": _rate(audit, cell.flip_rate, noise.flipped, rows),
        "characters_changed": _bootstrap(cell.characters_changed, n),
        "tokens_changed": _bootstrap(cell.tokens_changed, n),
        "ece": _measured(cell.ece, n, cell.ece_interval),
        "mean_confidence": _bootstrap(cell.confidence, n),
    }
    if audit.params.draws > 1:
        persistent = audit.worst(attacker, level).answers
        found["persistent_score"] = _score(audit, attacked.persistent[level], persistent.scored)
    return {metric_name(name, attacker=attacker, level=level): value for name, value in found.items()}


def worst_estimates(drawn: Resampled, worst: Mapping[float, Worst]) -> Estimates:
    """Return the score when each example is met by its worst attacker, on the examples common to all compared."""
    scores = drawn.scores([worst[level].scored for level in drawn.audit.levels])
    return {
        metric_name("worst_case_score", level=level): _score(drawn.audit, scores[:, at], worst[level].scored)
        for at, level in enumerate(drawn.audit.levels)
    }


def compared_estimates(drawn: Resampled, single: Estimates) -> Estimates:
    """Return what compares attackers with each other, on the examples common to all compared.

    An attacker answered on less than half the examples has no rank and is left out of the rest.

    Args:
        drawn: The quantities.
        single: Those of each attacker on its own.
    """
    audit, relative = drawn.audit, drawn.relative
    n = len(audit.common)
    found: Estimates = {}
    ranked = ranks(relative[:, :, -1])
    for attacker in audit.attackers:
        name = metric_name("rank", attacker=attacker)
        if attacker not in audit.compared:
            found[name] = estimate(None, None, 0)
            continue
        drawn_ranks = ranked[:, audit.compared.index(attacker)]
        found[name] = estimate(float(drawn_ranks[0]), rank_interval(drawn_ranks), n)
    asked = [at for at, attacker in enumerate(audit.compared) if attacker != COMBINED]
    for at, level in enumerate(audit.levels):
        mean = relative[:, asked, at].mean(axis=1) if asked else np.full(1, np.nan)
        own = [single[metric_name("relative_score", attacker=audit.compared[place], level=level)] for place in asked]
        # A mean is no less sure than what it is of; where no resample tells, that is all there is.
        is_same = bool((mean == mean[0]).all())
        ends = (_mean([one.low for one in own]), _mean([one.high for one in own])) if is_same else None
        found[metric_name("mean_relative_score", level=level)] = _paired(mean, n, ends)
    found["edit_correlation"] = _bootstrap(edit_correlation(drawn), n)
    return found


def edit_correlation(drawn: Resampled) -> Floats:
    """Return the correlation of characters changed and relative score over attackers and levels (Figure 5)."""
    audit, relative = drawn.audit, drawn.relative
    if not len(audit.common):
        return np.full(1, np.nan)
    changed = [
        drawn.attacked(attacker).cells[level].characters_changed
        for attacker in audit.compared
        for level in audit.levels
    ]
    return correlations(np.stack(changed, axis=1), relative.reshape(len(relative), -1))


def count(audit: Audit, worst: Mapping[float, Worst]) -> dict[str, int]:
    """Return the whole numbers behind every rate.

    ``errored`` counts examples without an answer to some text. Of a decision that is missing under noise
    (``unanswered``) it is known that it is neither right nor the same.
    """
    sound = set(range(len(audit)))
    counts = {"n": audit.size, "errored": 0, "clean_n": len(audit), "decisions": int(audit.decisions.sum())}
    counts |= {"untagged": audit.untagged, "worst_n": len(audit.common)}
    counts[metric_name("correct", level=0)] = int(audit.clean.correct.sum())
    for attacker in audit.attackers:
        answers = audit.noise(attacker, audit.highest).answers
        sound &= set(answers.rows.tolist())
        counts[metric_name("n", attacker=attacker)] = len(answers)
        counts[metric_name("errored", attacker=attacker)] = audit.size - len(answers)
        counts[metric_name("decisions", attacker=attacker)] = int(audit.decisions[answers.rows].sum())
        counts[metric_name("correct_without", attacker=attacker)] = int(audit.clean.correct[answers.rows].sum())
        for level in audit.levels:
            noise = audit.noise(attacker, level)
            of = {
                "correct": noise.answers.correct.sum(),
                "flipped": noise.flipped.sum(),
                "unanswered": (noise.answers.predictions < 0).sum(),
                "texts_changed": (noise.characters_changed > 0).sum(),
            }
            counts |= {metric_name(key, attacker=attacker, level=level): int(number) for key, number in of.items()}
    counts["errored"] = audit.size - len(sound)
    for level in audit.levels:
        counts[metric_name("worst_correct", level=level)] = int(worst[level].scored.correct.sum())
    return counts


def drop_interval(before: Mask, after: Mask) -> Interval:
    """Return the interval of the share of decisions noise makes wrong, less those it makes right, were each alone."""
    return score_interval(*discordant(before, after))


def _relative_ends(lost: Interval | None, before: float) -> Interval | None:
    """Return the ends of a relative score where the score without noise is as it is in the sample."""
    if lost is None or not before > 0:
        return None
    return max(0.0, 1 - lost[1] / before), 1 - lost[0] / before


def _score(audit: Audit, drawn: Floats, scored: Scored) -> Estimate:
    if audit.task == MULTI_LABEL:
        return _bootstrap(drawn, len(scored.rows))
    return _rate(audit, drawn, scored.correct, scored.rows)


def _rate(audit: Audit, drawn: Floats, hits: Floats, rows: Ints) -> Estimate:
    """Return a share of decisions: exact of single ones, bootstrapped over examples otherwise.

    The bootstrap's interval covers the one there would be if each decision were alone: where all of them agree,
    resamples show no spread, and a handful of sentences would prove a share of 1.
    """
    if audit.is_single:
        return proportion(hits > 0)
    found, decisions = _bootstrap(drawn, len(rows)), int(audit.decisions[rows].sum())
    if found.low is None or found.high is None:
        return found
    low, high = clopper_pearson(int(hits.sum()), decisions)
    return found.model_copy(update={"low": min(low, found.low), "high": max(high, found.high)})


def _mean(ends: list[float | None]) -> float:
    known = [end for end in ends if end is not None]
    return sum(known) / len(known) if known else 1.0


def _measured(drawn: Floats, n: int, interval: Interval | None) -> Estimate:
    return estimate(float(drawn[0]), interval, n if np.isfinite(drawn[0]) else 0)


def _bootstrap(drawn: Floats, n: int) -> Estimate:
    return _measured(drawn, n, interval_of(drawn) if n > 1 else None)


def _paired(drawn: Floats, n: int, at_least: Interval | None = None, *, is_exact: bool = False) -> Estimate:
    """Return a comparison on the same examples.

    Args:
        drawn: It, on the sample and on resamples.
        n: Examples.
        at_least: An interval to be covered as well: where few examples differ, or none, resamples show no spread.
        is_exact: Whether that is the interval: better than resampling where there is one.
    """
    value = float(drawn[0])
    interval = at_least if is_exact else interval_of(drawn) if n > 1 else None
    if not np.isfinite(value) or interval is None:
        return estimate(value, None, n if np.isfinite(value) else 0)
    low, high = interval
    if at_least is not None:
        low, high = min(low, at_least[0]), max(high, at_least[1])
    return Estimate(value=value, low=min(low, value), high=max(high, value), n=n, method="paired")
