"""Which examples a number is over, and who answered them rightly: the records of games, read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seatrial.families.transductive_attack.params import (
    ADAPTIVE,
    TRANSFERS,
    UNBOUNDED,
    TransductiveAttackParams,
    game_of,
)
from seatrial.families.transductive_attack.records import ROBUST, STATIC_ATTACKS, is_wrong_answer
from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.intervals import Interval
from seatrial.statistics.proportions import score_interval
from seatrial.statistics.samples import Sample

STATIC = "static"

CLEAN = "clean"
"""The attack that is none."""

UNADAPTED = "identity"
"""It does not adapt, so an attack on the static model knows all of it."""

ALPHA = 0.05

ROUNDING = 1e-6
"""Examples: more than the sum of a million means of thirds is off by."""


@dataclass(frozen=True)
class Outcomes:
    """What came of the same examples in every repeat of a game.

    Attributes:
        example_ids: (n,) ascending.
        successes: (repeats, n) bool; right answers unless another column was asked for.
    """

    example_ids: Ints
    successes: Mask

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def fractions(self) -> Floats:
        """Share of the repeats with a hit, for each example (n,)."""
        rates: Floats = self.successes.mean(axis=0, dtype=np.float64)
        return rates

    @property
    def whole_successes(self) -> tuple[int, int]:
        """The whole numbers of examples below and above the sum of the shares; both are it where it is whole."""
        successes, repeats = int(self.successes.sum()), len(self.successes)
        return successes // repeats, -(-successes // repeats)

    def on(self, example_ids: Ints) -> "Outcomes":
        """Return these examples alone, ascending; all of them must be among its own."""
        return Outcomes(example_ids, self.successes[:, np.searchsorted(self.example_ids, example_ids)])


class Games:
    """The records of all stages; columns are read when asked for, so that nobody copies the images beside them.

    Attributes:
        params: Of the check.
        defences: Their names.
        attacks: Those asked for.
        within: Those of them that keep within the radius: what comparisons are between.
        rows: What a defence is asked under: ``CLEAN``, corruptions, attacks.
    """

    def __init__(self, params: TransductiveAttackParams, done: Mapping[str, pa.Table]) -> None:
        self.params = params
        self.defences = [defence.name for defence in params.defences]
        self.attacks: list[str] = list(params.attacks)
        self.within: list[str] = [attack for attack in self.attacks if attack not in UNBOUNDED]
        self.rows: list[str] = [CLEAN, *params.corruptions, *self.attacks]
        self._done = done

    def failures(self, defence: str, attack: str) -> dict[int, str]:
        """Return why repeats of a game have no numbers, by repeat; those never played are not among them."""
        reasons = {repeat: _reason(table) for repeat, table in self._played(defence, attack).items()}
        return {repeat: reason for repeat, reason in reasons.items() if reason is not None}

    def samples(self, defence: str, attack: str, columns: Iterable[str]) -> dict[int, Sample]:
        """Return columns of the examples that did not error, by repeat; failed repeats are left out."""
        wanted = list(columns)
        played = self._played(defence, attack)
        return {repeat: _read(table, wanted) for repeat, table in played.items() if _reason(table) is None}

    def outcomes(self, defence: str, attack: str, column: str = ROBUST) -> Outcomes | None:
        """Return a column of flags of the examples that errored in no repeat; None where every repeat failed.

        None as well where not every example has the flag, as of a defence that refuses nothing.
        """
        tables = [table for table in self._played(defence, attack).values() if _reason(table) is None]
        if column == ROBUST and any(column not in table.column_names for table in tables):
            column = "correct"
        if any(column not in table.column_names or table[column].null_count > _errored(table) for table in tables):
            return None
        return _outcomes([_read(table, [column]) for table in tables], column)

    def pair(self, defence: str, attack: str) -> tuple[Outcomes, Outcomes] | None:
        """Return which answers are wrong, and which examples were answered at all; None where every repeat failed."""
        correct, rejected = (self.outcomes(defence, attack, column) for column in ("correct", "rejected"))
        if correct is None or rejected is None:
            return None
        wrong = is_wrong_answer(correct.successes, rejected.successes)
        return Outcomes(correct.example_ids, wrong), Outcomes(correct.example_ids, ~rejected.successes)

    def static(self, column: str) -> Outcomes | None:
        """Return a column of the static model, as of one repeat; None where that was not asked for."""
        table = self._done.get(STATIC)
        if table is None or (table.num_rows and table[column].null_count == table.num_rows):
            return None
        return _outcomes([_read(table, [column])], column)

    def static_robust(self) -> tuple[str, Outcomes] | None:
        """Return the attack the static model is judged by, and who withstood it."""
        for attack, column in STATIC_ATTACKS.items():
            outcomes = self.static(column)
            if attack in self.attacks and outcomes is not None:
                return attack, outcomes
        return None

    def sizes(self, defence: str, attack: str) -> list[int]:
        """Return how many examples each repeat was played over, errored and failed ones included."""
        return [table.num_rows for table in self._played(defence, attack).values()]

    def is_rejecting(self, defence: str) -> bool:
        """Tell whether a defence gave a rejection score in any game that has numbers."""
        return any(
            np.isfinite(sample.floats("rejection_score")).any()
            for attack in self.rows
            for sample in self.samples(defence, attack, ["rejection_score"]).values()
        )

    def _played(self, defence: str, attack: str) -> dict[int, pa.Table]:
        named = {repeat: game_of(defence, attack, repeat) for repeat in range(self.params.repeats)}
        return {repeat: self._done[name] for repeat, name in named.items() if name in self._done}


@dataclass(frozen=True)
class Gap:
    """How far the lowest of several rates lies below a reference, on the same examples.

    Attributes:
        reference: What it is measured from: an attack's name.
        lowest: The attack that is lowest; the first of those that tie.
        reference_rate: Mean over examples and repeats.
        lowest_rate: Likewise.
        interval: At 95%, of the true difference to the truly lowest.
        n: Examples that errored in none of the games compared.
    """

    reference: str
    lowest: str
    reference_rate: float
    lowest_rate: float
    interval: Interval
    n: int

    @property
    def value(self) -> float:
        """The reference less the lowest; negative where the reference is lower."""
        return self.reference_rate - self.lowest_rate


def overestimate(games: Games, defence: str) -> Gap | None:
    """Return how far the lowest attack that knows a defence gets below those that do not; None where one is lacking."""
    asked = _asked(games, defence, games.within)
    baseline: str | None = next((attack for attack in TRANSFERS if attack in asked), None)
    if baseline is None:
        return None
    adaptive: dict[str, Outcomes] = {attack: outcomes for attack, outcomes in asked.items() if attack in ADAPTIVE}
    return gap_to_lowest(baseline, asked[baseline], adaptive)


def loss_to_static(games: Games, defence: str) -> Gap | None:
    """Return how far a defence under its worst attack lies below the static model: the gain, with its sign turned."""
    static = games.static_robust()
    return None if static is None else gap_to_lowest(*static, _asked(games, defence, games.within))


def under_strongest(games: Games, defence: str) -> list[Outcomes]:
    """Return the outcomes under every attack within the radius that has any, of the examples all have."""
    asked = list(_asked(games, defence, games.within).values())
    if not asked:
        return []
    common = _common(asked)
    return [outcomes.on(common) for outcomes in asked] if len(common) else []


def gap_to_lowest(name: str, reference: Outcomes, others: Mapping[str, Outcomes]) -> Gap | None:
    """Return the gap to the lowest of several others, with an interval that knows of the choice.

    Guarantee: for one repeat that of :func:`seatrial.statistics.paired.gap_to_lowest`, which this then equals: each end
    is wrong with probability at most 2.5 %, however many of the others tie. A bootstrap that chooses the lowest again
    in each resample does not have it: it is centred above the sample, which is above the truth already where others
    tie.
    For several repeats an example's difference is the mean of those; it varies no more between examples than one of -1,
    0 or 1 with that expectation, for which the interval is made, so it errs on the wide side. Failure: it is of the
    population of examples, given what these repeats drew. That a defender's luck strikes all examples of a repeat at
    once is not in it.

    Args:
        name: Of the reference.
        reference: Its outcomes.
        others: Theirs, by name.

    Returns:
        None without others, or without examples that all have.
    """
    if not others:
        return None
    common = _common([reference, *others.values()])
    if len(common) == 0:
        return None
    first = reference.on(common).fractions
    rates = {other: outcomes.on(common).fractions for other, outcomes in others.items()}
    lowest = min(rates, key=lambda other: float(rates[other].mean()))
    low = max(_ends(first - fractions, ALPHA / len(rates))[0] for fractions in rates.values())
    high = max(_ends(first - fractions, ALPHA)[1] for fractions in rates.values())
    return Gap(name, lowest, float(first.mean()), float(rates[lowest].mean()), (low, high), len(common))


def drop(first: Outcomes, second: Outcomes) -> tuple[float, Interval] | None:
    """Return how far the second rate lies below the first on the examples both have, with its interval."""
    gap = gap_to_lowest("first", first, {"second": second})
    return None if gap is None else (gap.value, gap.interval)


def _ends(differences: Floats, alpha: float) -> Interval:
    """Return an interval of the mean of differences in [-1, 1]."""
    above, below, n = float(differences.clip(0).sum()), float((-differences).clip(0).sum()), len(differences)
    # Counts of examples are whole: they are rounded so that neither end comes closer.
    low = score_interval(_whole(above), -_whole(-below), n, alpha=alpha)[0]
    high = score_interval(-_whole(-above), _whole(below), n, alpha=alpha)[1]
    return low, high


def _whole(total: float) -> int:
    """Return a sum rounded down, unless it is whole but for the rounding of means."""
    return math.floor(total + ROUNDING)


def _asked(games: Games, defence: str, attacks: Sequence[str]) -> dict[str, Outcomes]:
    """Return the outcomes under the attacks that have any."""
    played = {attack: games.outcomes(defence, attack) for attack in attacks}
    return {attack: outcomes for attack, outcomes in played.items() if outcomes is not None and len(outcomes)}


def _outcomes(samples: Sequence[Sample], column: str) -> Outcomes | None:
    if not samples:
        return None
    read = []
    for sample in samples:
        order = np.argsort(sample["example_id"], kind="stable")
        read.append(Outcomes(sample["example_id"][order].astype(np.int64), sample[column][order].astype(bool)[None]))
    common = _common(read)
    return Outcomes(common, np.concatenate([outcomes.on(common).successes for outcomes in read]))


def _common(outcomes: Sequence[Outcomes]) -> Ints:
    common = outcomes[0].example_ids
    for other in outcomes[1:]:
        common = np.intersect1d(common, other.example_ids, assume_unique=True)
    return common


def _read(table: pa.Table, columns: Iterable[str]) -> Sample:
    return Sample(table.select(["example_id", "errored", *columns]))


def _errored(table: pa.Table) -> int:
    return int(pc.sum(table["errored"]).as_py() or 0)


def _reason(table: pa.Table) -> str | None:
    reasons = table["failed"].drop_null()
    return str(reasons[0].as_py()) if len(reasons) else None
