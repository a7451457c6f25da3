"""Records to numbers: every estimate of the family with its interval, and the counts they can be recomputed from."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from seatrial.contracts.estimates import Estimate, IntervalMethod, Result, metric_name
from seatrial.contracts.family import SHARE
from seatrial.contracts.models import MULTI_LABEL
from seatrial.contracts.noise import COMBINED
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.clusters import correlations, ratio
from seatrial.statistics.estimating import estimate, mean, proportion, share
from seatrial.statistics.intervals import Interval
from seatrial.statistics.paired import discordant
from seatrial.statistics.proportions import score_interval
from seatrial.statistics.ranks import rank_interval, ranks
from workers.families.contexts import Records
from workers.families.low_level_attack import flags
from workers.families.low_level_attack.audit import Answers, Audit, Scored
from workers.families.low_level_attack.intervals import correlation_interval, drop_interval, kept_interval
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
        seed: Of the intervals, and of which examples are shown.
        check_cancelled: Called before whatever takes a second.
    """
    audit = Audit(params, done, check_cancelled)
    drawn = Resampled(audit, seed, check_cancelled)
    found = clean_estimates(drawn)
    for attacker in audit.attackers:
        for level in audit.levels:
            found |= cell_estimates(drawn, attacker, level)
    worst = {level: worst_of(audit, level) for level in audit.levels}
    found |= worst_estimates(drawn, worst) | compared_estimates(drawn)
    return Result(
        estimates=found,
        series=make_series(audit, drawn, worst, found, seed),
        flags=flags.doubt(audit, drawn, found),
        counts=count(audit, worst),
    )


def clean_estimates(drawn: Resampled) -> Estimates:
    """Return what the model is without noise."""
    audit, cell = drawn.audit, drawn.clean
    return {
        metric_name("score", level=0): _score(drawn, cell.score, audit.clean.scored),
        metric_name("ece", level=0): _measured(cell.ece, len(audit), cell.ece_interval),
        metric_name("mean_confidence", level=0): _confidence(audit, cell.confidence, audit.clean),
    }


def cell_estimates(drawn: Resampled, attacker: str, level: float) -> Estimates:
    """Return what one attacker did at one level, on the examples it was answered on."""
    audit, attacked = drawn.audit, drawn.attacked(attacker)
    cell, noise = attacked.cells[level], audit.noise(attacker, level)
    n, scored = len(noise.answers), noise.answers.scored
    found = {
        "score": _score(drawn, cell.score, scored),
        "relative_score": _relative(drawn, attacker, level),
        "score_drop": _drop(drawn, attacker, level),
        "flip_rate": _rate(audit, cell.flip_rate, noise.flipped, noise.answers.rows),
        "characters_changed": _changed(noise.characters_changed),
        "tokens_changed": mean(noise.tokens_changed, SHARE),
        "ece": _measured(cell.ece, n, cell.ece_interval),
        "mean_confidence": _confidence(audit, cell.confidence, noise.answers),
    }
    if audit.params.draws > 1:
        persistent = audit.worst(attacker, level).answers
        found["persistent_score"] = _score(drawn, attacked.persistent[level], persistent.scored)
    return {metric_name(name, attacker=attacker, level=level): value for name, value in found.items()}


def worst_estimates(drawn: Resampled, worst: Mapping[float, Worst]) -> Estimates:
    """Return the score when each example is met by its worst attacker, on the examples common to all compared."""
    scores = drawn.scores([worst[level].scored for level in drawn.audit.levels])
    return {
        metric_name("worst_case_score", level=level): _score(drawn, scores[:, at], worst[level].scored)
        for at, level in enumerate(drawn.audit.levels)
    }


def compared_estimates(drawn: Resampled) -> Estimates:
    """Return what compares attackers with each other, on the examples common to all compared.

    An attacker answered on less than half the examples has no rank and is left out of the rest.
    """
    audit, relative = drawn.audit, drawn.relative
    n = len(audit.common)
    found: Estimates = {}
    ranked, is_below = ranks(relative[:1, :, -1])[0], drawn.surely_below
    for attacker in audit.attackers:
        name = metric_name("rank", attacker=attacker)
        if attacker not in audit.compared:
            found[name] = estimate(None, None, 0)
            continue
        place = audit.compared.index(attacker)
        interval = rank_interval(place, is_below) if n > 1 else None
        found[name] = estimate(float(ranked[place]), interval, n, "paired")
    asked = [at for at, attacker in enumerate(audit.compared) if attacker != COMBINED]
    for at, level in enumerate(audit.levels):
        value = float(relative[0, asked, at].mean()) if asked else np.nan
        after = [audit.noise(audit.compared[place], level).answers.scored.of(audit.common) for place in asked]
        interval = _kept(drawn, value, after, audit.clean.scored.of(audit.common))
        found[metric_name("mean_relative_score", level=level)] = _compared(value, interval, n, _method(audit))
    found["edit_correlation"] = edit_correlation(drawn)
    return found


def edit_correlation(drawn: Resampled) -> Estimate:
    """Return the correlation of characters changed and relative score over attackers and levels (Figure 5)."""
    audit, relative = drawn.audit, drawn.relative
    n = len(audit.common)
    if not n:
        return estimate(None, None, 0)
    cells = [drawn.attacked(attacker).cells[level] for attacker in audit.compared for level in audit.levels]
    changed, kept = np.stack([cell.characters_changed for cell in cells], axis=1), relative.reshape(len(relative), -1)
    value = float(correlations(changed[:1], kept[:1])[0])
    interval = None
    if n > 1 and np.isfinite(value):
        interval = correlation_interval(changed, kept, n, drawn.seed_of("edit correlation"))
    return estimate(value, interval, n if np.isfinite(value) else 0)


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


def _score(drawn: Resampled, found: Floats, scored: Scored) -> Estimate:
    audit = drawn.audit
    if audit.task != MULTI_LABEL:
        return _rate(audit, found, scored.correct, scored.rows)
    value, n = float(found[0]), len(scored.rows)
    return _measured(found, n, drawn.areas.score(value, scored) if n > 1 else None)


def _rate(audit: Audit, found: Floats, hits: Floats, rows: Ints) -> Estimate:
    """Return a share of decisions: with an exact interval of single ones, else with that of a ratio over examples."""
    if audit.is_single:
        return proportion(hits > 0)
    return _share(found, hits, audit.decisions[rows])


def _share(found: Floats, hits: Floats, decisions: Floats) -> Estimate:
    """Return a ratio over examples, to the last digit as it is resampled: what else is derived is derived from that."""
    told = share(hits, decisions)
    if told.low is None or told.high is None:
        return told
    return estimate(float(found[0]), (told.low, told.high), told.n, told.method)


def _relative(drawn: Resampled, attacker: str, level: float) -> Estimate:
    audit, attacked = drawn.audit, drawn.attacked(attacker)
    answers = audit.noise(attacker, level).answers
    value = float(ratio(attacked.cells[level].score[:1], attacked.before[:1])[0])
    interval = _kept(drawn, value, [answers.scored], audit.clean.scored.of(answers.rows))
    return _compared(value, interval, len(answers), _method(audit))


def _kept(drawn: Resampled, value: float, after: Sequence[Scored], before: Scored) -> Interval | None:
    """Return the interval of the mean of relative scores, of one attacker or of several on the same examples."""
    if not after or len(before.rows) < 2 or not np.isfinite(value):
        return None
    if drawn.audit.task == MULTI_LABEL:
        return drawn.areas.kept(value, after, before)
    left: Floats = np.mean([one.correct for one in after], axis=0)
    return kept_interval(left, before.correct, drawn.audit.decisions[before.rows])


def _drop(drawn: Resampled, attacker: str, level: float) -> Estimate:
    audit, attacked = drawn.audit, drawn.attacked(attacker)
    answers = audit.noise(attacker, level).answers
    value, n = float((attacked.before[:1] - attacked.cells[level].score[:1])[0]), len(answers)
    before = audit.clean.of(answers.rows)
    interval: Interval | None
    if n < 2 or not np.isfinite(value):
        interval = None
    elif audit.is_single:
        interval = score_interval(*discordant(before.right, answers.right))
    elif audit.task == MULTI_LABEL:
        interval = drawn.areas.drop(value, answers.scored, before.scored)
    else:
        interval = drop_interval(answers.correct, before.correct, audit.decisions[answers.rows])
    return _compared(value, interval, n, "paired" if audit.is_single else _method(audit))


def _changed(values: Floats) -> Estimate:
    """Return a mean distance per character: at most 1 unless a text may come out longer than it was."""
    return mean(values, (0.0, 1.0 if len(values) and float(values.max()) <= 1 else None))


def _confidence(audit: Audit, found: Floats, answers: Answers) -> Estimate:
    """Return the mean confidence of the decisions that were made."""
    made = np.isfinite(answers.confidences)
    owner, sure = answers.owner[made], answers.confidences[made]
    sums: Floats = np.bincount(owner, sure, len(audit)).astype(np.float64)
    count: Floats = np.bincount(owner, minlength=len(audit)).astype(np.float64)
    return _share(found, sums[answers.rows], count[answers.rows])


def _compared(value: float, interval: Interval | None, n: int, method: IntervalMethod) -> Estimate:
    return estimate(value, interval, n if np.isfinite(value) else 0, method)


def _method(audit: Audit) -> IntervalMethod:
    """Return how what is left of a score, and of a tagger what is lost, gets its interval."""
    return "resampled" if audit.task == MULTI_LABEL else "gaffke"


def _measured(drawn: Floats, n: int, interval: Interval | None) -> Estimate:
    return estimate(float(drawn[0]), interval, n if np.isfinite(drawn[0]) else 0)
