"""Further searches where the attacks before disagree: what one found and others missed, none may have found yet."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.families.uncertainty_span.effort import MOST_ROOM, REPEATED_SHARE, STAGES, Round
from seatrial.families.uncertainty_span.levelled import rounds_left
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.records import CALIBRATED, CHANGED
from seatrial.statistics.arrays import Floats
from seatrial.statistics.samples import Sample
from workers.attacks.regions import per_example
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.flags import is_saturated
from workers.families.uncertainty_span.further import SURROGATE, FurtherAttack
from workers.families.uncertainty_span.levelled import is_levelled

OPEN = 0.005
"""Share of log C by which the entropies that the attacks before reached have to differ."""


FAR = 0.75
"""Share of the entropy that ascents reached, below which searches by scores are left: of a ResNet-20 that is .61, and
rounds of these found nothing; of a PGD-trained MNIST network .94 and 1.02, and they found most."""

NEARBY = 0.1
"""Share of the image that the first squares cover of a search from the least sure image so far."""

AWAY = (1.0, 0.5, 0.25)
"""How far rounds step away from the least sure image, in turn, as shares of the way to a random point of the ball."""


def attack_repeatedly(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Search again, round by round, on those of a batch that are among the sample's most doubtful.

    Most doubtful is where the highest entropies that the attacks before reached differ most: of an adversarially
    trained MNIST model at its own radius, the quarter of the examples that hold 0.8 of what those miss. Where the
    softmax saturates it is wherever they differ. Ascents go on where they reached far more there than searches by
    scores.

    Returns:
        ``entropy_over`` and ``entropy_under``, and with ``calibrated_`` before them those of calibrated logits: the
        widest of the attacks before and of this one; whether a prediction was ``changed`` in any; and which examples
        errored in all of these (batch,).
    """
    stages = [stage for stage in STAGES if stage != "repeated"]
    before = [context.records(stage) for stage in stages]
    ids = np.asarray(before[0]["example_id"])
    rows = [int(np.flatnonzero(ids == example)[0]) for example in batch.example_ids]

    def known(name: str) -> Floats:
        # What errored is null, which is NaN here.
        return np.stack([np.asarray(table[name].to_numpy(), dtype=np.float64) for table in before])

    names = ["entropy_over", "entropy_under", CHANGED]
    names += [name for name in map(CALIBRATED.format, ("over", "under")) if name in before[0].column_names]
    columns = {
        name: torch.from_numpy((np.fmin if name.endswith("over") else np.fmax).reduce(known(name)[:, rows]))
        for name in names
    }
    non_finite = columns["entropy_under"].isnan()
    saturated = is_saturated(Sample(context.records("attack")))
    share = 1.0 if saturated else REPEATED_SHARE
    doubtful = _most_doubtful(known("entropy_under"), context.classifier.classes, share)
    chosen = np.flatnonzero(doubtful[rows])
    if len(chosen):
        at = torch.from_numpy(chosen)
        places = at.to(batch.images.device)
        part = Batch([batch.example_ids[i] for i in chosen], batch.images[places], batch.labels[places])
        room = min(MOST_ROOM, share * len(doubtful) / doubtful.sum())
        attack = FurtherAttack.begin(params, context, part)
        reached = dict(zip(stages, known("entropy_under")[:, doubtful], strict=True))
        by_ascents = bool(np.nanmean(reached["score"]) < FAR * np.nanmean(reached["smoothed"]))
        rounds = attack.budget.rounds_again(params.norm, is_saturated=saturated, room=room, by_ascents=by_ascents)
        if saturated and is_levelled(context.records(SURROGATE)):
            rounds = rounds_left(attack.budget, rounds, room)
        for name, found in _attack(attack, rounds).items():
            best = torch.fmin if name.endswith("over") else torch.fmax
            columns[name][at] = best(columns[name][at], found.cpu().to(columns[name]))
    columns[CHANGED] = columns[CHANGED] > 0
    return columns, non_finite


def _most_doubtful(highest: Floats, classes: int, share: float = REPEATED_SHARE) -> NDArray[np.bool_]:
    """Return which examples (n,) are attacked again, given the entropies (attacks, n) reached; NaN: errored."""
    spread = np.nan_to_num(np.fmax.reduce(highest) - np.fmin.reduce(highest))
    first = np.argsort(-spread, kind="stable")[: math.ceil(share * len(spread))]
    found = np.zeros(len(spread), dtype=bool)
    found[first] = spread[first] > OPEN * math.log(classes)
    return found


def _attack(attack: FurtherAttack, rounds: Sequence[Round]) -> Columns:
    """Attack anew, round by round; each goes on by plain gradients from where it ends."""
    budget = attack.budget
    best, value = attack.batch.images, -attack.reach.highest[0]
    for number, name in enumerate(rounds):
        images = _end(attack, name, number, best)
        found = attack.climb(budget.refine if name in ("afresh", "ascent") else budget.climb_again, images)
        is_better = found.value < value
        best, value = torch.where(per_example(is_better, best), found.best, best), torch.minimum(found.value, value)
    return attack.columns()[0]


def _end(attack: FurtherAttack, name: Round, number: int, best: Tensor) -> Tensor:
    """Return where one round ends (batch, ...), before plain gradients go on; ``best`` is the least sure so far."""
    match name:
        case "search":
            return attack.ask_squares(
                attack.budget.squares_again,
                attack.reach.raising(),
                f"repeated {number}",
                goal=attack.highest,
                starts=None,
            )
        case "nearby":
            return attack.ask_squares(
                attack.budget.squares_nearby,
                attack.reach.raising(),
                f"repeated nearby {number}",
                goal=attack.highest,
                starts=best,
                first=NEARBY,
            )
        case "away":
            region, images = attack.region(), attack.batch.images
            drawn = region.draw(attack.generators(f"repeated away {number}"))
            moved = best + AWAY[number % len(AWAY)] * (drawn - images)
            return region.step(moved, torch.zeros_like(moved), 0.0)
        case "afresh":
            return attack.anneal(f"repeated annealed {number}", steps=attack.budget.anneal_again, is_longer=True)
        case "ascent":
            return attack.anneal(f"repeated annealed {number}", best, steps=attack.budget.anneal_again)
