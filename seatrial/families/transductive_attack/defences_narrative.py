"""What a result of transductive_attack holds of each defence: what it keeps, adds, and only seems to add."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.contracts.estimates import Estimate, Flag, Result, metric_name, split_name
from seatrial.families.shared.estimates_in_words import defined, number_of
from seatrial.families.transductive_attack.params import (
    ADAPTIVE,
    CORRUPTIONS,
    MODEL_SPACE,
    TRANSFERS,
    UNBOUNDED,
    TransductiveAttackParams,
)
from seatrial.reporting.balls import format_radius
from seatrial.reporting.numbers import format_percentage_points
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import enumerate_words

CLEAN = "clean"
"""In place of an attack: none."""

REFERENCE = "identity"
"""The defence that is the static model: measured beside others and not judged."""

ALONE = ("defence_autoattack", *TRANSFERS)
"""What an evaluation that simulates no defence would have gone by, the first that was run."""

OF_ONE = frozenset(
    {
        *("adaptive_weaker_than_transfer", "clean_accuracy_lost", "defence_failed", "nearly_all_refused"),
        *("overestimated", "refuses_harmless", "worse_than_static"),
    }
)
"""Flags about single defences, whose messages name them."""

OF_UNSIMULATED = frozenset({"defence_not_simulated", "no_adaptive_attack"})
"""Flags about the defences that no attack simulated, which the numbers tell."""


@dataclass(frozen=True)
class Defended:
    """What is known of one defence; an estimate is None where it was not published or is undefined.

    Attributes:
        name: As asked for.
        clean: Accuracy without an attack.
        under: Robustness by attack, where it is defined.
        failed: Attacks without a number, and ``clean``, in the order asked.
        unplayed: Attacks that cannot be run on this defence at all: they were asked for and never begun.
        overestimate: Robustness under transferred attacks less the lowest under one that knows the defence.
        gain: Lowest robustness less that of the static model.
        least: The lowest, with an interval that knows it was chosen; None of results from before it was told.
        seeming: What it seems to add to the static model under the attack of ``ALONE``, and that attack.
        spread: Standard deviation of the robustness over repeats, by attack.
        rejected: Share of examples it rejects, by attack, corruption and ``clean``.
        selective: Share of wrong answers among those it gives, likewise, where it gives any.
        clean_rejected: Share of the unperturbed copies it rejects, by attack and corruption.
        beside: Robustness in rows that are no attack within the radius: corruptions, and attacks without one.
    """

    name: str
    clean: Estimate | None
    under: dict[str, Estimate]
    failed: list[str]
    unplayed: list[str]
    overestimate: Estimate | None
    gain: Estimate | None
    least: Estimate | None
    seeming: tuple[str, float] | None
    spread: dict[str, Estimate]
    rejected: dict[str, Estimate]
    selective: dict[str, Estimate]
    clean_rejected: dict[str, Estimate]
    beside: dict[str, Estimate]

    @property
    def abstains(self) -> bool:
        """Whether it may reject, so that what it answers and what it rejects are its primary numbers."""
        return bool(self.rejected)

    @property
    def told(self) -> str:
        """What people call it."""
        return value_words("defence", self.name)

    @property
    def lowest(self) -> tuple[str, Estimate] | None:
        """The strongest attack, and what it left; of those that tie one that knows the defence."""
        strongest = min(self.under.items(), key=lambda pair: (_rate(pair[1]), pair[0] not in ADAPTIVE), default=None)
        return strongest if strongest is None or self.least is None else (strongest[0], self.least)

    @property
    def is_outdone(self) -> bool:
        """Whether an attack made on the static model left less than every one that knows the defence."""
        return self.is_known_to_attacker and self.lowest is not None and self.lowest[0] not in ADAPTIVE

    @property
    def is_known_to_attacker(self) -> bool:
        """Whether an attack that knows the defence has a number."""
        return any(attack in ADAPTIVE for attack in self.under)

    @property
    def is_simulated(self) -> bool:
        """Whether an attack that simulates the defence has a number."""
        return any(attack in MODEL_SPACE for attack in self.under)


def _rate(estimate: Estimate) -> float:
    # Means over repeats of equal outcomes may differ in their last digits.
    return round(number_of(estimate), 9)


def known_defences(result: Result, params: Mapping[str, Any]) -> list[Defended]:
    """Return what is known of each defence: those asked for, then others with numbers."""
    qualifiers = [split_name(name)[1] for name in result.estimates]
    names = [*named_defences(params), *(one["defence"] for one in qualifiers if "defence" in one)]
    attacks = [
        *(params.get("corruptions") or []),
        *(params.get("attacks") or []),
        *(one["attack"] for one in qualifiers if one.get("attack", CLEAN) != CLEAN),
    ]
    return [_known(result, name, list(dict.fromkeys(attacks))) for name in dict.fromkeys(names)]


def named_defences(params: Mapping[str, Any]) -> list[str]:
    """Return the defences asked for, by name."""
    return [str(one.get("name")) for one in params.get("defences") or []]


def asked(params: Mapping[str, Any], name: str) -> Any:
    """Return a parameter, or its default in a check that a version without it has stored."""
    return params.get(name, TransductiveAttackParams.model_fields[name].get_default(call_default_factory=True))


@dataclass(frozen=True)
class Iterated:
    """What an attack that simulates a defence chose to send, over all examples and repeats.

    Attributes:
        attack: Its name.
        iterations: Perturbed batches made in a round, at most.
        first: Accuracy of the model that the first of them induces; None where it was not told.
        best: The lowest over a round, on average; likewise.
        most_sent: The iteration sent most often, and to what share; None where none was.
        clean_share: Share of the examples sent unperturbed.
    """

    attack: str
    iterations: int
    first: float | None
    best: float | None
    most_sent: tuple[int, float] | None
    clean_share: float

    @property
    def falls(self) -> bool:
        """Whether further iterations got lower than the first."""
        return self.first is not None and self.best is not None and self.best < self.first


def iterated(result: Result, name: str) -> list[Iterated]:
    """Return what each attack that simulates a defence chose, from the series behind the figure ``iterations``."""
    rows = [row for row in result.series.get("iterations") or [] if row.get("defence") == name and row.get("n")]
    return [_iterated(row) for row in rows if row.get("points")]


def _iterated(row: Mapping[str, Any]) -> Iterated:
    each = row["points"]
    best = [float(one["best"]) for one in each if one.get("best") is not None]
    first = each[0].get("score")
    most = max(each, key=lambda one: int(one.get("selected") or 0))
    sent = int(most.get("selected") or 0)
    return Iterated(
        attack=str(row.get("attack")),
        iterations=len(each),
        first=None if first is None else float(first),
        best=min(best, default=None),
        most_sent=(int(most.get("iteration") or 0), sent / int(row["n"])) if sent else None,
        clean_share=int(row.get("clean_sent") or 0) / int(row["n"]),
    )


def _known(result: Result, name: str, attacks: list[str]) -> Defended:
    def by_attack(metric: str) -> dict[str, Estimate]:
        estimates = {one: defined(result, metric_name(metric, defence=name, attack=one)) for one in (CLEAN, *attacks)}
        return {attack: estimate for attack, estimate in estimates.items() if estimate is not None}

    clean = defined(result, metric_name("clean_accuracy", defence=name))
    rows = {attack: estimate for attack, estimate in by_attack("robustness").items() if attack != CLEAN}
    beside: dict[str, Estimate] = {row: one for row, one in rows.items() if row in (*CORRUPTIONS, *UNBOUNDED)}
    under = {attack: estimate for attack, estimate in rows.items() if attack not in beside}
    static = defined(result, "static_robustness")
    without = [attack for attack in attacks if attack not in rows]
    unplayed = [attack for attack in without if _is_unplayed(result, name, attack)]
    alone = next((attack for attack in ALONE if attack in under), None)
    return Defended(
        name=name,
        clean=clean,
        under=under,
        failed=[*([CLEAN] if clean is None else []), *(attack for attack in without if attack not in unplayed)],
        unplayed=unplayed,
        overestimate=defined(result, metric_name("overestimate", defence=name)),
        gain=defined(result, metric_name("gain_over_static", defence=name)),
        least=defined(result, metric_name("lowest_robustness", defence=name)),
        seeming=None if alone is None or static is None else (alone, number_of(under[alone]) - number_of(static)),
        spread=by_attack("robustness_std"),
        rejected=by_attack("rejection_rate"),
        selective=by_attack("selective_error"),
        clean_rejected=by_attack("clean_rejection_rate"),
        beside=beside,
    )


def _is_unplayed(result: Result, defence: str, attack: str) -> bool:
    counts = [result.counts.get(metric_name(name, defence=defence, attack=attack)) for name in ("failed", "repeats")]
    return attack == "defence_autoattack" and counts == [0, 0]


def concerns(flag: Flag, defence: Defended, among: list[Defended]) -> bool:
    """Return whether a flag speaks of a defence: of all where nothing tells of which."""
    if flag.code in OF_UNSIMULATED:
        spoken_of = [one.name for one in among if not one.is_simulated]
    elif flag.code in OF_ONE:
        spoken_of = [one.name for one in among if _names(flag.message, one.name)]
    else:
        return True
    return not spoken_of or defence.name in spoken_of


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message, re.IGNORECASE) is not None


def place_of(params: Mapping[str, Any]) -> str:
    """Return how far an attacker may go, in words."""
    norm = {"linf": "l_inf", "l2": "l_2"}.get(str(asked(params, "norm")), str(asked(params, "norm")))
    return f"{norm} {format_radius(asked(params, 'epsilon'))}"


def missing(defence: Defended) -> str:
    """Return where a defence has no numbers, in words."""
    attacks = [value_words("attack", attack) for attack in defence.failed if attack != CLEAN]
    places = ["without an attack"] if CLEAN in defence.failed else []
    return " and ".join([*places, *([f"under {enumerate_words(attacks)}"] if attacks else [])])


def change(estimate: Estimate) -> str:
    """Return a difference of shares in points, with its interval."""
    if estimate.low is None or estimate.high is None:
        return format_percentage_points(estimate.value)
    return f"{format_percentage_points(estimate.value)} [{plain(estimate.low)}, {plain(estimate.high)}]"


def plain(difference: float) -> str:
    """Return a difference of shares in points without their name.

    >>> plain(0.208), plain(-0.01)
    ('20.8', '-1')
    """
    return format_percentage_points(difference).split(" ")[0]
