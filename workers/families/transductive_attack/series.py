"""Records to the tables and curves behind the figures, as JSON values: no NaN, nothing undefined but null."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seatrial.families.transductive_attack.params import ADAPTIVE, MODEL_SPACE, TransductiveAttackParams
from seatrial.statistics.arrays import Floats
from seatrial.statistics.samples import Sample
from workers.defences.urejectron import THRESHOLDS, accepted_errors, errors_among_accepted, rejection_rates
from workers.families.contexts import Records
from workers.families.transductive_attack.sample import Games, Gap, Outcomes, loss_to_static, overestimate


def make_series(params: TransductiveAttackParams, done: Mapping[str, Records]) -> dict[str, Any]:
    """Return every series of the family.

    Returns:
        ``robustness``: each defence under each attack, ``clean`` and corruptions first, and every repeat.
        ``compared``: which attacks ``overestimate`` and ``gain_over_static`` are between, for each defence.
        ``iterations``: of each attack that simulates a defence, how its iterations did and which were sent.
        ``rejection``: of each game of a defence that may reject, errors and rejection rates at 100 thresholds.
    """
    games = Games(params, done)
    defences = games.defences
    attacks = games.rows
    simulating = [attack for attack in games.attacks if attack in MODEL_SPACE]
    iterated = [iterations(games, defence, attack) for defence in defences for attack in simulating]
    rejecting = [defence for defence in defences if games.is_rejecting(defence)]
    curves = [rejection(games, defence, attack) for defence in rejecting for attack in attacks]
    return {
        "robustness": [_row(games, defence, attack) for defence in defences for attack in attacks],
        "compared": [_compared(games, defence) for defence in defences],
        "iterations": [one for one in iterated if one is not None],
        "rejection": [one for one in curves if one is not None],
    }


def iterations(games: Games, defence: str, attack: str) -> dict[str, Any] | None:
    """Return how an attack's iterations did in the attacker's simulation, or None where no game has numbers.

    All repeats and examples count, each with its round's scores: the accuracy of the model that an iteration induced.
    A round that ends at its first success keeps its last score, as who is left alone is hardest to fool; ``n`` counts
    those that came as far. ``best`` is of the lowest score until then: what the attacker would go by had he stopped
    there. ``selected`` counts those that were sent an iteration's images.

    Returns:
        ``points`` by iteration; ``clean_sent``, how often no iteration was good enough; ``n``, examples times repeats;
        ``clean_score``, of the clean batch where rounds begin with judging it, else null.
    """
    samples = games.samples(defence, attack, ["scores", "clean_score", "selected"])
    rounds: list[list[float]] = []
    selected: list[int] = []
    for sample in samples.values():
        for scores, sent in zip(sample["scores"], sample.floats("selected"), strict=True):
            # An example without either was not attacked this way.
            if scores is not None and np.isfinite(sent):
                rounds.append([float(score) for score in scores])
                selected.append(int(sent))
    if not any(rounds):
        return None
    attacks = _table(rounds)
    best = np.fmin.accumulate(attacks, axis=1)
    points = [
        {
            "iteration": number,
            "score": _mean(attacks[:, number]),
            "n": sum(len(scores) > number for scores in rounds),
            "best": _mean(best[:, number]),
            "selected": selected.count(number),
        }
        for number in range(attacks.shape[1])
    ]
    return {
        "defence": defence,
        "attack": attack,
        "n": len(rounds),
        "points": points,
        "clean_sent": sum(sent < 0 for sent in selected),
        "clean_score": _mean(np.concatenate([sample.floats("clean_score") for sample in samples.values()])),
    }


def rejection(games: Games, defence: str, attack: str) -> dict[str, Any] | None:
    """Return a rejecting defence's curves over the threshold, the mean over repeats; None where it gave no scores.

    They are over all points of a round: the perturbed ones and, where the defence sees them too, their clean twins
    (Chen et al., x~). The answer counts that would be given were the point not rejected.

    Returns:
        ``rejection_rate``; ``error_among_accepted``, wrong answers over accepted points, 0 where none is (the official
        code); ``error_over_all``, over all points (eq. 1); ``clean_rejection_rate``, of the twins alone (z), null where
        there are none; ``n``, points.
    """
    columns = ["label", "prediction", "rejection_score", "clean_prediction", "clean_rejection_score"]
    samples = [sample for sample in games.samples(defence, attack, columns).values() if _is_scored(sample)]
    if not samples:
        return None
    clean = [sample.floats("clean_rejection_score") for sample in samples]
    scores, wrong = [], []
    for sample, of_twins in zip(samples, clean, strict=True):
        twins = np.isfinite(of_twins)
        scores.append(np.concatenate([of_twins[twins], sample.floats("rejection_score")]))
        wrong_twins = (sample.floats("clean_prediction") != sample["label"])[twins]
        wrong.append(np.concatenate([wrong_twins, sample["prediction"] != sample["label"]]))
    has_twins = all(np.isfinite(of_twins).any() for of_twins in clean)
    return {
        "defence": defence,
        "attack": attack,
        "n": len(scores[0]),
        "thresholds": THRESHOLDS.tolist(),
        "rejection_rate": _mean_curve(rejection_rates(each) for each in scores),
        "error_among_accepted": _mean_curve(map(errors_among_accepted, scores, wrong)),
        "error_over_all": _mean_curve(map(accepted_errors, scores, wrong)),
        "clean_rejection_rate": _mean_curve(rejection_rates(one[np.isfinite(one)]) for one in clean)
        if has_twins
        else None,
    }


def _mean_curve(curves: Iterable[Floats]) -> list[float]:
    mean: list[float] = np.mean(list(curves), axis=0).tolist()
    return mean


def _row(games: Games, defence: str, attack: str) -> dict[str, Any]:
    outcomes: Outcomes | None = games.outcomes(defence, attack)
    has_numbers = outcomes is not None and len(outcomes) > 0
    return {
        "defence": defence,
        "attack": attack,
        "is_adaptive": attack in ADAPTIVE,
        "robustness": float(outcomes.successes.mean()) if outcomes is not None and has_numbers else None,
        "repeats": outcomes.successes.mean(axis=1).tolist() if outcomes is not None and has_numbers else [],
        "failed": len(games.failures(defence, attack)),
    }


def _compared(games: Games, defence: str) -> dict[str, Any]:
    return {
        "defence": defence,
        "overestimate": _named(overestimate(games, defence)),
        "gain_over_static": _named(loss_to_static(games, defence)),
    }


def _named(gap: Gap | None) -> dict[str, Any] | None:
    """Return both sides of a gap; rates are over the examples they share, and may differ from those of either alone."""
    if gap is None:
        return None
    return {
        "reference": gap.reference,
        "reference_rate": gap.reference_rate,
        "lowest": gap.lowest,
        "lowest_rate": gap.lowest_rate,
        "n": gap.n,
    }


def _table(rounds: Sequence[Sequence[float]]) -> Floats:
    """Return ragged rows as one array; shorter ones keep their last value, empty ones are NaN."""
    table = np.full((len(rounds), max(len(scores) for scores in rounds)), np.nan)
    for row, scores in enumerate(rounds):
        table[row, : len(scores)] = scores
        table[row, len(scores) :] = scores[-1] if scores else np.nan
    return table


def _is_scored(sample: Sample) -> bool:
    # An operator's defence may score on a scale of its own, on which these thresholds say nothing.
    scores, of_twins = sample.floats("rejection_score"), sample.floats("clean_rejection_score")
    every = np.concatenate([scores, of_twins[np.isfinite(of_twins)]])
    return bool(len(scores) and ((every >= 0) & (every <= 1)).all())


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
