"""What makes the interval of each metric, on a sample of a population: the groups that ``benchmarks.coverage`` runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.populations import (
    CONFIDENCES,
    MANY,
    MEANS,
    NATS,
    NOISE,
    SCORES,
    SIGNED,
    TAGS,
    UNBOUNDED,
    Draw,
)
from benchmarks.simulated_certificates import CERTIFICATES
from benchmarks.simulated_predictions import (
    CLASSES,
    GROUPED,
    GROUPED_CONFIDENCE,
    classes_truth,
    confidence_truth,
    group_errors_truth,
    groups_truth,
    of_classes,
    of_confidence,
    of_group_errors,
    of_groups,
)
from seatrial.contracts.estimates import Estimate
from seatrial.statistics.calibration import bin_of, ece, ece_centre
from seatrial.statistics.clusters import BinnedErrors, correlations
from seatrial.statistics.estimating import calibration, mean, share
from seatrial.statistics.intervals import Interval
from seatrial.statistics.macro_auroc import MacroAuroc
from seatrial.statistics.paired import discordant, gap_to_lowest
from seatrial.statistics.proportions import score_interval
from seatrial.statistics.ranking import METRICS as RANKING
from seatrial.statistics.ranking import aupr_in, aupr_out, auroc, fpr95, rank
from seatrial.statistics.ranks import rank_interval, ranks
from seatrial.statistics.spread import deviation_interval
from workers.calibration.scaling import fit_temperature, temperature_interval
from workers.certification.system_calibration import system_calibration_error
from workers.certification.worst_calibration import worst_calibration_error
from workers.families.certified_calibration.estimates import system_estimate, worst_estimate
from workers.families.certified_calibration.sample import Certified
from workers.families.low_level_attack.areas import Areas
from workers.families.low_level_attack.audit import Scored
from workers.families.low_level_attack.intervals import (
    correlation_interval,
    drop_interval,
    kept_interval,
    surely_below,
)
from workers.families.transductive_attack import estimates as games
from workers.families.transductive_attack.sample import Outcomes
from workers.families.transductive_attack.sample import gap_to_lowest as gap_of_games

Truth = Mapping[str, Any]
Ends = dict[str, Interval | None]
BINS = 15


@dataclass(frozen=True)
class Group:
    """Metrics whose intervals come out of one function.

    Attributes:
        populations: By name; the first is the ordinary one.
        ends: (sample, seed) to intervals by the metrics' names.
        truth: A draw to the true values by the same names, and what else :attr:`of_sample` wants.
        of_sample: (sample, truths) to truths that depend on which examples were drawn.
    """

    populations: Mapping[str, Draw]
    ends: Callable[[Any, int], Ends]
    truth: Callable[[Draw, np.random.Generator], Truth]
    of_sample: Callable[[Any, Truth], Truth] = lambda sample, truth: truth


def _told(found: Estimate) -> Interval | None:
    return None if found.low is None or found.high is None else (found.low, found.high)


def _mean_of(draw: Draw, rng: np.random.Generator) -> Truth:
    return {"": float(draw(rng, 4 * MANY).mean())}


def _span(lowest: float, highest: float | None) -> Callable[[Any, int], Ends]:
    return lambda values, seed: {"": _told(mean(values, (lowest, highest)))}


def _calibration_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    confidence, correct = draw(rng, 2 * MANY)
    index, gap = bin_of(confidence, BINS), correct - confidence
    count = np.bincount(index, minlength=BINS)
    in_bins = np.abs(np.bincount(index, gap, BINS)) / np.maximum(count, 1)
    found = {"s_ece": gap.mean(), "brier": (gap**2).mean(), "in bins": in_bins}
    return found | {"ece": ece(confidence, correct, BINS), "ece_centre": ece_centre(confidence, correct, BINS)}


def _largest_of_bins(sample: Any, truth: Truth) -> Truth:
    return {**truth, "mce": truth["in bins"][np.unique(bin_of(sample[0], BINS))].max()}


def _calibrated(sample: Any, seed: int) -> Ends:
    return {name: _told(one) for name, one in calibration(*sample, BINS, seed=[seed]).items()}


def _ranked(sample: Any, seed: int) -> Ends:
    return rank(*sample, seed=seed, lowest=0.0, highest=NATS).intervals


def _ranking_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    sample = draw(rng, MANY // 2)
    return {name: of(*sample) for name, of in zip(RANKING, (auroc, aupr_in, aupr_out, fpr95), strict=True)}


def _certified(draw: Draw, width: float) -> Draw:
    def certified(rng: np.random.Generator, n: int) -> Certified:
        confidence, correct = draw(rng, n)
        below, above = width * rng.random((2, n))
        ends = np.clip(confidence - below, 0, 1), np.clip(confidence + above, 0, 1)
        return Certified(np.ones(n, dtype=bool), *ends, confidence, correct.astype(bool))

    return certified


PARAMS: Any = SimpleNamespace(bins=BINS)
FREE = 0.1
"""Share of the examples that are not certified, where the whole system is judged."""


class _Certify:
    """The records of as many examples of a model with ten classes, as far as ``system_estimate`` looks."""

    def __init__(self, valid: int) -> None:
        self.valid = valid

    def floats(self, name: str) -> Any:
        return np.full(1, 10.0)


def _worst(sample: Certified, seed: int) -> Ends:
    n = len(sample)
    kept = np.random.default_rng([seed, n]).random(n) >= FREE
    some = Certified(kept, *(one[kept] for one in (sample.lower, sample.upper, sample.confidence, sample.correct)))
    system = system_estimate(PARAMS, _Certify(n), some, [seed])  # type: ignore[arg-type]
    return {"cce": _told(worst_estimate(PARAMS, sample, [seed])), "cce_system": _told(system)}


def _worst_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    sample = draw(rng, MANY // 4)
    given = sample.lower, sample.upper, sample.correct
    free = round(len(sample) * FREE / (1 - FREE))
    system = system_calibration_error(*given, free=free, least=0.01, bins=BINS).value
    return {"cce": worst_calibration_error(*given, BINS).value, "cce_system": system}


def _gap_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    before, after = draw(rng, 2 * MANY)
    return {"": float((before.mean() - after.mean(axis=0)).max())}


def _gap(sample: Any, seed: int) -> Ends:
    found = gap_to_lowest(sample[0], list(sample[1].T))
    return {"": None if found is None else found.interval}


REPEATS = 3


def _repeated(draw: Draw) -> Draw:
    """Return a draw of outcomes (repeats, n) of a reference and of attacks; a defender's draws flip one in ten."""

    def repeated(rng: np.random.Generator, n: int) -> Any:
        before, after = draw(rng, n)
        kept = rng.random((REPEATS, n, after.shape[1])) >= 0.1
        return before.astype(bool), (after[None].astype(bool) & kept)

    return repeated


def _of_games(sample: Any, seed: int) -> Ends:
    before, after = sample
    ids = np.arange(len(before))
    others = {str(at): Outcomes(ids, after[:, :, at]) for at in range(after.shape[2])}
    gap = gap_of_games("reference", Outcomes(ids, before[None]), others)
    # What the second attack leaves right is answered, and what the first does not is wrong then.
    wrong, kept = after[:, :, 1] & ~after[:, :, 0], after[:, :, 1]
    selective = games.selective_error((Outcomes(ids, wrong), Outcomes(ids, kept)))
    return {
        "share": _told(games.rate(others["0"])),
        "selective_error": _told(selective),
        "gap": None if gap is None else gap.interval,
        "least": _told(games.least(list(others.values()))),
    }


def _games_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    before, after = draw(rng, MANY // 2)
    rates = after.mean(axis=(0, 1))
    wrong = float((after[:, :, 1] & ~after[:, :, 0]).sum() / after[:, :, 1].sum())
    return {"share": rates[0], "selective_error": wrong, "gap": float((before.mean() - rates).max())} | {
        "least": float(rates.min())
    }


def _noise_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    before, after = draw(rng, 2 * MANY)
    kept = after.sum(axis=0) / before.sum()
    # Rates as near as these are drawn from the same: they share a rank.
    told = np.round(kept, 3)
    found = {"relative_score": kept[0], "mean_relative_score": kept.mean(), "score_drop": (before - after[:, 0]).mean()}
    return found | {"rank": float(ranks(told[None])[0, 0]), "edit_correlation": float(np.corrcoef(CHANGED, kept)[0, 1])}


CHANGED = np.array([0.05, 0.12, 0.2, 0.3])
"""Characters changed by each of the four attackers, which every text's differ from by a fifth at most."""


def _noisy(sample: Any, seed: int) -> Ends:
    before, after = sample
    n, rng = len(before), np.random.default_rng(seed)
    ones, columns = np.ones(n), list(after.T)
    changed = CHANGED * rng.uniform(0.8, 1.2, (n, 4))
    weights = np.concatenate([np.ones((1, n)), rng.multinomial(n, np.full(n, 1 / n), 1000)])
    kept = (weights @ after) / np.maximum(weights @ before, 1)[:, None]
    correlation = None
    if np.isfinite(correlations(changed.mean(axis=0)[None], kept[:1])[0]):
        correlation = correlation_interval(weights @ changed / n, kept, n, [seed])
    return {
        "relative_score": kept_interval(columns[0], before, ones),
        "mean_relative_score": kept_interval(after.mean(axis=1), before, ones),
        "score_drop": score_interval(*discordant(before, columns[0])),
        "rank": rank_interval(0, surely_below(columns, ones)),
        "edit_correlation": correlation,
    }


def _tagged_noise(sample: Any, seed: int) -> Ends:
    after, before, sizes = sample
    return {"relative_score": kept_interval(after, before, sizes), "score_drop": drop_interval(after, before, sizes)}


def _tags_under_noise(draw: Draw) -> Draw:
    def noisy(rng: np.random.Generator, n: int) -> Any:
        right, sizes = draw(rng, n)
        before = rng.binomial(sizes.astype(int), 0.9).astype(np.float64)
        return np.minimum(before, right), before, sizes

    return noisy


def _tagged_noise_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    after, before, sizes = draw(rng, 2 * MANY)
    return {"relative_score": after.sum() / before.sum(), "score_drop": (before - after).sum() / sizes.sum()}


def _tagged_confidences(draw: Draw) -> Draw:
    def tagged(rng: np.random.Generator, n: int) -> Any:
        right, sizes = draw(rng, n)
        owner = np.repeat(np.arange(n), sizes.astype(int))
        place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes.astype(int))
        return rng.uniform(0.85, 1, len(owner)), (place < right[owner]).astype(np.float64), owner, n

    return tagged


def _tagged(sample: Any, seed: int) -> Ends:
    confidence, correct, owner, n = sample
    errors = BinnedErrors.of(confidence, correct, owner, n, BINS)
    sums = np.bincount(owner, confidence, n).astype(np.float64)
    return {"ece": errors.interval(seed=seed), "mean_confidence": _told(share(sums, errors.count))}


def _tagged_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    confidence, correct, *_ = draw(rng, MANY // 2)
    return {"ece": ece(confidence, correct, BINS), "mean_confidence": confidence.mean()}


def _labelled(lost: float) -> Draw:
    """Return a draw of texts with four labels, the rarest on one in ten, and logits of which some are no good."""

    def labelled(rng: np.random.Generator, n: int) -> Any:
        truths = (rng.random((n, 4)) < [0.5, 0.35, 0.2, 0.1]).astype(np.float64)
        clean = 6 * (truths - 0.5) + 1.2 * rng.normal(size=(n, 4))
        is_lost = rng.random((n, 1)) < lost
        return truths, clean, np.where(is_lost, -clean, clean + 1.2 * rng.normal(size=(n, 4)))

    return labelled


class _Texts:
    """An audit of multi-label texts, as far as ``Areas`` looks."""

    def __init__(self, truths: Any) -> None:
        self.truths = truths

    def __len__(self) -> int:
        return len(self.truths)


def _areas(sample: Any, seed: int) -> Ends:
    truths, clean, noisy = sample
    audit: Any = _Texts(truths)
    rows = np.arange(len(truths))
    before, after = Scored(rows, truths[:, 0], clean), Scored(rows, truths[:, 0], noisy)
    ones = np.ones((1, len(truths)))
    without, under = (float(MacroAuroc(truths, logits)(ones)[0]) for logits in (clean, noisy))
    areas = Areas(audit, [seed])
    return {
        "score": areas.score(under, after),
        "relative_score": areas.kept(under / without, [after], before),
        "score_drop": areas.drop(without - under, after, before),
    }


def _areas_truth(draw: Draw, rng: np.random.Generator) -> Truth:
    truths, clean, noisy = draw(rng, MANY // 4)
    ones = np.ones((1, len(truths)))
    without, under = (float(MacroAuroc(truths, logits)(ones)[0]) for logits in (clean, noisy))
    return {"score": under, "relative_score": under / without, "score_drop": without - under}


def _served(margin: float) -> Draw:
    """Return a draw of logits three times too large, and labels; one in six is wrong at a mean margin of 1.8 nats."""

    def served(rng: np.random.Generator, n: int) -> Any:
        margins = margin * rng.gamma(6, 1 / 6, n)
        is_right = rng.random(n) < 1 / (1 + np.exp(-margins))
        labels = rng.integers(0, 2, n)
        logits = np.zeros((n, 2))
        logits[np.arange(n), np.where(is_right, labels, 1 - labels)] = 3 * margins
        return logits, labels

    return served


def _temperature(sample: Any, seed: int) -> Ends:
    fitted = fit_temperature(*sample)
    return {"": None if fitted.degenerate else temperature_interval(*sample, fitted.temperature)}


GROUPS: dict[str, Group] = {
    "means": Group(MEANS, _span(0.0, 1.0), _mean_of),
    "signed": Group(SIGNED, _span(-1.0, 1.0), _mean_of),
    "unbounded": Group(UNBOUNDED, _span(0.0, None), _mean_of),
    "deviation": Group(
        MEANS,
        lambda values, seed: {"": deviation_interval(values, 0, 1, seed=seed)},
        lambda draw, rng: {"": float(draw(rng, 4 * MANY).std())},
    ),
    "calibration": Group(CONFIDENCES, _calibrated, _calibration_truth, _largest_of_bins),
    "ranking": Group(SCORES, _ranked, _ranking_truth),
    "worst": Group({name: _certified(draw, 0.1) for name, draw in CONFIDENCES.items()}, _worst, _worst_truth),
    **{name: Group(*parts) for name, parts in CERTIFICATES.items()},
    "gap": Group(NOISE, _gap, _gap_truth),
    "repeats": Group({name: _repeated(draw) for name, draw in NOISE.items()}, _of_games, _games_truth),
    "noise": Group(NOISE, _noisy, _noise_truth),
    "tags": Group(
        TAGS,
        lambda sample, seed: {"": _told(share(*sample))},
        lambda draw, rng: {"": float(np.divide(*(one.sum() for one in draw(rng, 2 * MANY))))},
    ),
    "tagged noise": Group(
        {name: _tags_under_noise(draw) for name, draw in TAGS.items()}, _tagged_noise, _tagged_noise_truth
    ),
    "tagged calibration": Group(
        {name: _tagged_confidences(draw) for name, draw in TAGS.items()}, _tagged, _tagged_truth
    ),
    "areas": Group(
        {"even": _labelled(0.1), **{f"{lost:.0%} lost": _labelled(lost) for lost in (0.01, 0.02, 0.05)}},
        _areas,
        _areas_truth,
    ),
    "predictions": Group(CONFIDENCES, of_confidence, confidence_truth),
    "classwise": Group(CLASSES, of_classes, classes_truth),
    "slices": Group(GROUPED, of_groups, groups_truth),
    "slices of confidence": Group(GROUPED_CONFIDENCE, of_group_errors, group_errors_truth),
    "temperature": Group(
        {"16% wrong": _served(1.8), "3% wrong": _served(4.6), "1% wrong": _served(6.6)},
        _temperature,
        lambda draw, rng: {"": fit_temperature(*draw(rng, MANY // 4)).temperature},
    ),
}
"""By name; a metric is ``group`` or ``group.name``."""
