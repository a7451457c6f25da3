"""The attack on what a network computes inside, and on some of its pixels alone, where its answer waits for that."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.levelled import (
    BESIDE_PATIENCE,
    FOR_CONFINED,
    FOR_DISTORTED,
    FOR_LEAKING,
    INNER_SCORES,
    follow_steps,
)
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from workers.attacks.altered_passes import Place
from workers.attacks.closed_gates import ClosedGate, follow
from workers.attacks.confined import confine
from workers.attacks.distortion import Measures, distort
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.evened_scores import Group
from workers.attacks.inner_scores import InnerScores, beside_answer
from workers.attacks.kinks import Kink
from workers.attacks.leaky_gradients import climb_leaking
from workers.attacks.losses import entropy, margin
from workers.attacks.meeting_thresholds import Meeting, meet
from workers.attacks.momentum import Descent
from workers.attacks.regions import make_region
from workers.attacks.tried import Trial, spread_of
from workers.attacks.whitening import Whitening
from workers.families.contexts import Batch, Columns, ImageContext, Records
from workers.families.uncertainty_span.further import SURROGATE, FurtherAttack
from workers.families.uncertainty_span.records import first_of
from workers.models.memory import forward

INNER = "inner_scores"
"""Column of the surrogate's records, in its first row: of each of the scores whether their tensor is of one of several
passes, which it is there, and which of those stacked in it; of those that are levelled together one after the other.
Records from before it was kept have none."""

GATE = "gate"
"""Column beside it, in its first row: the places of what hardly decides until all it is computed of says nothing, each
a tensor likewise, or which of those that a call is given; and the tensors that is seen by with what each is moved to,
null where that is the mean of an image's own numbers. Records from before it was kept have none."""

_CUT = pa.struct([("is_part", pa.bool_()), ("number", pa.int64()), ("silent", pa.list_(pa.float64()))])

_PLACE = pa.struct(
    [("is_part", pa.bool_()), ("number", pa.int64()), ("given", pa.int64()), ("units", pa.list_(pa.int64()))]
)

GATE_TYPE = pa.struct([("places", pa.list_(_PLACE)), ("cut", pa.list_(_CUT))])
"""Of that column."""

MEETING = "meetings"
"""Column beside it, in its first row: each of the kinks whose thresholds an attack makes meet, by the number of its
call likewise and which of several of that it is, how far its numbers differ between images, infinitely those that are
left out, and at which each bends, null where all do at 0; and how many times as many steps it takes. Records from
before it was kept have none."""

_KINK = pa.struct(
    [
        *(("is_part", pa.bool_()), ("number", pa.int64()), ("which", pa.int64())),
        *((name, pa.list_(pa.float64())) for name in ("spreads", "thresholds")),
    ]
)

MEETING_TYPE = pa.struct([("kinks", pa.list_(_KINK)), ("patience", pa.int64())])
"""Of that column."""

LEAKING = "leaking_slope"
"""Column beside it, in its first row: the share of the gradients of units that are off by which an attack leads
farther. Records from before it was kept have none."""

DISTORTED = "led_away"
"""Column beside it, in its first row: the calls whose first tensor an attack leads far from what it was, each likewise,
and how many numbers that has; and what changes of all these numbers are measured by on either way. Records from before
it was kept have none."""

_CALL = pa.struct([("is_part", pa.bool_()), ("number", pa.int64()), ("count", pa.int64())])

_WHITENING = pa.struct([("scales", pa.list_(pa.float64())), ("along", pa.list_(pa.list_(pa.float32())))])

DISTORTED_TYPE = pa.struct([("calls", pa.list_(_CALL)), ("led", _WHITENING), ("drawn", _WHITENING)])
"""Of that column."""

CONFINED = "confined"
"""Column beside it, in its first row: what perturbations are confined to that move the answer farther than others.
Records from before it was kept have none."""

NARROWER = 20.0
"""How many times the first temperature the last is. The first is an example's spread of the scores, at which all
classes draw near, and the last one at which two do. Of three fakes that wait for about three others within .6 of a
class, with a spread of 7, it reaches 1.35 to 1.43 nat, and 1.17 to 1.27 with 12 (40 MNIST images, l_inf .15, 60
steps)."""


def kept_inner_scores(surrogate: Records | None) -> list[Group]:
    """Return the scores inside that the check found, given the surrogate's records; None: it has none."""
    return [
        tuple(InnerScores((bool(of[0]), of[1]), of[2]) for of in np.reshape(row, (-1, 3)).tolist())
        for row in first_of(surrogate, INNER) or []
    ]


def kept_gate(surrogate: Records | None) -> ClosedGate | None:
    """Return the gate that the check found, given the surrogate's records; None: it has none."""
    if (kept := first_of(surrogate, GATE)) is None:
        return None
    cut = {
        (of["is_part"], of["number"]): None if of["silent"] is None else torch.tensor(of["silent"])
        for of in kept["cut"]
    }
    places = tuple(
        Place((of["is_part"], of["number"]), of["given"], None if of["units"] is None else tuple(of["units"]))
        for of in kept["places"]
    )
    return ClosedGate(places, cut)


def kept_meeting(surrogate: Records | None) -> Meeting | None:
    """Return the units that the check found, given the surrogate's records; None: it has none."""
    if (kept := first_of(surrogate, MEETING)) is None:
        return None
    spreads, thresholds = dict[Kink, Tensor](), dict[Kink, Tensor]()
    for of in kept["kinks"]:
        kink = Kink((of["is_part"], of["number"]), of["which"])
        spreads[kink] = torch.tensor(of["spreads"], dtype=torch.float64)
        # Records from before thresholds were measured have none.
        if (measured := of.get("thresholds")) is not None:
            thresholds[kink] = torch.tensor(measured, dtype=torch.float64)
    return Meeting(spreads, thresholds, kept["patience"])


def distorted_row(measures: Measures) -> dict[str, Any]:
    """Return places that are led away, as they are recorded."""
    calls = [
        {"is_part": place.number[0], "number": place.number[1], "count": count}
        for place, count in measures.places.items()
    ]
    return {"calls": calls, "led": _whitening_row(measures.led), "drawn": _whitening_row(measures.drawn)}


def _whitening_row(whitening: Whitening) -> dict[str, Any]:
    return {"scales": whitening.scales.tolist(), "along": whitening.along.tolist()}


def kept_measures(surrogate: Records | None) -> Measures | None:
    """Return the places that the check found, and what their numbers are measured by; None: it has none."""
    if (kept := first_of(surrogate, DISTORTED)) is None:
        return None

    def whitening(row: Mapping[str, Any]) -> Whitening:
        scales = torch.tensor(row["scales"], dtype=torch.float64)
        return Whitening(scales, torch.tensor(row["along"], dtype=torch.float64).view(-1, len(scales)))

    places = {Place((of["is_part"], of["number"]), 0): of["count"] for of in kept["calls"]}
    return Measures(places, whitening(kept["led"]), whitening(kept["drawn"]))


def kept_confinement(surrogate: Records | None) -> str | None:
    """Return what the check found perturbations to be confined to, given the surrogate's records; None: nothing."""
    where: str | None = first_of(surrogate, CONFINED)
    return where


def is_levelled(surrogate: Records | None) -> bool:
    """Return whether there is anything to attack, given the surrogate's records."""
    return any(first_of(surrogate, name) for name in (INNER, GATE, MEETING, LEAKING, DISTORTED, CONFINED))


def attack_levelled(params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> tuple[Columns, Tensor]:
    """Attack one batch by the gradients of scores inside: level those of several classes, and change the largest.

    Returns:
        What :func:`workers.families.uncertainty_span.ascent.attack_by_ascent` returns, and with ``alone_`` before them
        the entropies reached without a gradient of the answer.
    """
    attack = FurtherAttack.begin(params, context, batch)
    alone = attack.reach.copy()
    surrogate = context.records(SURROGATE)
    meeting, where = kept_meeting(surrogate), kept_confinement(surrogate)
    is_patient = meeting is not None and meeting.patience > 1
    measures = None if is_patient else kept_measures(surrogate)
    slope: float | None = first_of(surrogate, LEAKING)
    count = BESIDE_PATIENCE if is_patient else INNER_SCORES
    count -= FOR_CONFINED * (where is not None) + FOR_LEAKING * (slope is not None)
    count -= FOR_DISTORTED * (measures is not None)
    groups = kept_inner_scores(surrogate)[: max(0, count)]
    ends = [end for group in groups for end in _level(attack, alone, group)]
    if (gate := kept_gate(surrogate)) is not None:
        ends.append(_follow(attack, alone, gate))
    if meeting is not None:
        ends.append(_meet(attack, alone, meeting))
    if slope is not None:
        ends.append(_leak(attack, alone, slope))
    if measures is not None:
        ends.append(_distort(attack, alone, measures))
    if where is not None:
        ends += _confine(attack, alone, where)
    attack.reach.take_in(alone)
    first = torch.stack([end.value for end in ends]).argmin(0)
    everyone = torch.arange(len(first), device=first.device)
    attack.climb(attack.budget.refine, torch.stack([end.best for end in ends])[first, everyone])
    return attack.columns(alone)


def _follow(attack: FurtherAttack, alone: EntropyRange, gate: ClosedGate) -> Descent:
    """Return where the answer is made unsure with what a gate is computed of near to saying nothing, and less so."""
    found = follow(attack.model, attack.batch.images, gate, follow_steps(attack.budget), _trial(attack))
    return _seen(attack, alone, found)


def _meet(attack: FurtherAttack, alone: EntropyRange, meeting: Meeting) -> Descent:
    """Return where as many units as may be are at their thresholds."""
    found = meet(attack.model, attack.batch.images, meeting, follow_steps(attack.budget), _trial(attack))
    return _seen(attack, alone, found)


def _leak(attack: FurtherAttack, alone: EntropyRange, slope: float) -> Descent:
    """Return where the answer is made unsure by gradients that go through units that are off."""
    spread, steps = spread_of(attack.clean), follow_steps(attack.budget)
    found = climb_leaking(attack.model, attack.batch.images, spread, slope, steps, _trial(attack))
    return _seen(attack, alone, found)


def _distort(attack: FurtherAttack, alone: EntropyRange, measures: Measures) -> Descent:
    """Return where the answer is made unsure by leading what the network computes far from what it was."""
    images, trial = attack.batch.images, _trial(attack)
    spread, steps = spread_of(attack.clean), follow_steps(attack.budget)
    starts = make_region(trial.norm, images, trial.epsilon, trial.box).draw(attack.generators(DISTORTED))
    return _seen(attack, alone, distort(attack.model, images, spread, starts, measures, steps, trial))


def _confine(attack: FurtherAttack, alone: EntropyRange, where: str) -> list[Descent]:
    """Return where the answer is least and most sure of perturbations that are confined to some pixels."""
    images, steps = attack.batch.images, follow_steps(attack.budget)
    ways = [torch.full((len(images),), is_up, device=images.device) for is_up in (True, False)]
    found = [
        confine(attack.model, images, where, steps, _trial(attack), upwards=upwards, is_annealed=True)[0]
        for upwards in ways
    ]
    return [_seen(attack, alone, end) for end in found]


def _trial(attack: FurtherAttack) -> Trial:
    return Trial(attack.params.norm, attack.params.epsilon, attack.box, attack.context.check_cancelled)


def _seen(attack: FurtherAttack, alone: EntropyRange, found: Tensor) -> Descent:
    """Return images (batch, ...) with what the answers to them are worth."""
    everyone = torch.arange(len(found), device=found.device)
    reached = alone.raising()(forward(attack.model, found), everyone)
    return Descent(found, found, reached.nan_to_num(nan=torch.inf))


def _level(attack: FurtherAttack, alone: EntropyRange, group: Group) -> list[Descent]:
    """Return where scores become level, first those of all classes and then those of ever fewer, and where they change.

    Of either way it is the image of which the model is least sure. Of several scores all are to, in sum.
    """
    classes, (count, *_) = attack.classes, attack.clean.shape
    spread = torch.ones(count, len(group), dtype=torch.float64, device=attack.clean.device)
    largest = torch.zeros(count, len(group), dtype=torch.int64, device=attack.clean.device)

    def beside(logits: Tensor) -> Tensor:
        """Return the scores, those of an image after each other."""
        return logits[:, classes:].reshape(len(logits) * len(group), -1)

    def level(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
        scores = beside(logits).double()
        if progress == 0:
            spread[indices] = spread_of(scores).view(-1, len(group))
        temperature = spread[indices].view(-1, 1) * NARROWER**-progress
        return -entropy(scores / temperature).view(-1, len(group)).sum(1)

    def lead(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
        scores = beside(logits)
        if progress == 0:
            largest[indices] = scores.argmax(1).view(-1, len(group))
        return margin(scores, largest[indices].flatten()).view(-1, len(group)).sum(1)

    raising, both = alone.raising(), beside_answer(attack.model, *group)
    return [
        attack.descend(
            steps,
            loss,
            lambda logits, indices: raising(logits[:, :classes], indices),
            goal=attack.highest,
            model=both,
        )
        for steps, loss in ((attack.budget.climb, level), (attack.budget.cross, lead))
    ]
