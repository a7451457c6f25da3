"""Which records a metric is the mean of.

``MEANS`` says it for every metric that is a mean over examples, or over the decisions about them. Those that are not
(calibration errors, rankings, gaps, rates among the examples one model got right) have no entry: of these two audits
are compared by their intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from seatrial.contracts.models import MULTI_LABEL, SINGLE_LABEL_TEXTS, TAGGING
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.shared.robust_accuracy import ATTACKS
from seatrial.families.transductive_attack.params import game_of
from seatrial.statistics.arrays import Floats

Columns = Mapping[str, NDArray[Any]]

ABSTAIN = -1
LEAST_ANSWERED = 0.5
"""Share of the examples an attacker must have been answered on to be compared with others."""
UNCOUNTED = "input_reduction"
"""A recipe that keeps the prediction by design, so that no accuracy is counted under it."""


@dataclass(frozen=True)
class Values:
    """What a metric is the mean of.

    Attributes:
        example_ids: (n,) ascending.
        values: (n,).
        decisions: (n,) how many decisions each value is the sum of, where the metric is the sum of the values over that
            of these; None where it is their mean.
    """

    example_ids: NDArray[np.int64]
    values: Floats
    decisions: Floats | None = None

    def on(self, example_ids: NDArray[np.int64]) -> Floats:
        """Return the values of some of its examples, ascending."""
        return self.values[np.searchsorted(self.example_ids, example_ids)]

    def decided(self, example_ids: NDArray[np.int64]) -> Floats:
        """Return the decisions about some of its examples, ascending; 1 each where the metric is a mean."""
        if self.decisions is None:
            return np.ones(len(example_ids))
        return self.decisions[np.searchsorted(self.example_ids, example_ids)]


@dataclass(frozen=True)
class Records:
    """The records of one check, with what a metric asks of them.

    Attributes:
        params: Of the check.
        qualifiers: Of the metric.
        read: Stage to its records; None where there are none.
    """

    params: Mapping[str, Any]
    qualifiers: Mapping[str, str]
    read: Callable[[str], pa.Table | None]

    def columns(self, stage: str, names: Sequence[str], *, where: str | None = None) -> Columns | None:
        """Return columns of a stage by the names they were asked by, ``{arm}`` filled in from the metric.

        None where they are not recorded.

        Args:
            stage: Its name.
            names: Of columns.
            where: A column that is not null in the rows to keep; by default those that did not error.
        """
        table = self.read(stage.format(**self.qualifiers))
        if table is None:
            return None
        told = {name: name.format(**self.qualifiers) for name in ("example_id", *names)}
        if not {where or "errored", *told.values()} <= set(table.column_names):
            # Recorded by a version that kept less.
            return None
        kept = pc.invert(table["errored"]) if where is None else pc.is_valid(table[where])
        table = table.select(list(dict.fromkeys(told.values()))).filter(kept)
        return {name: table[column].to_numpy() for name, column in told.items()}


class NoMeanError(Exception):
    """Of what the model does, a metric is no mean over examples."""


Mean = Callable[[Records], Values | None]


def _mean(stage: str, *names: str, of: Callable[..., NDArray[Any]]) -> Mean:
    """Return the mean of what ``of`` makes of the columns; undefined values are left out."""

    def read(records: Records) -> Values | None:
        columns = records.columns(stage, names)
        return None if columns is None else _values(columns["example_id"], of(*[columns[name] for name in names]))

    return read


def _values(example_ids: NDArray[Any], values: NDArray[Any]) -> Values:
    order = np.argsort(example_ids, kind="stable")
    found = values[order].astype(np.float64)
    defined = np.isfinite(found)
    return Values(example_ids[order].astype(np.int64)[defined], found[defined])


def _equals(stage: str, column: str, to: str = "label") -> Mean:
    return _mean(stage, column, to, of=lambda found, wanted: found == wanted)


def _value(stage: str, column: str) -> Mean:
    return _mean(stage, column, of=lambda values: values)


def _difference(stage: str, upper: str, lower: str, *, power: int = 1) -> Mean:
    return _mean(stage, upper, lower, of=lambda above, below: (above - below) ** power)


def _entropy_change(arm: str) -> Mean:
    """Return |H_arm - H_clean| / (log C - H_clean), which is undefined where the clean output is uniform."""

    def share(entropy: Floats, clean: Floats, classes: Floats) -> Floats:
        room = np.log(classes) - clean
        return np.where(room > 1e-9, np.abs(entropy - clean) / np.where(room > 1e-9, room, 1), np.nan)

    return _mean("attack", f"entropy_{arm}", "entropy_clean", "classes", of=share)


def _worst_span(records: Records) -> Values | None:
    """Return the widest span any attack reached, on the examples of the white-box one."""
    names = ("best_entropy_over", "best_entropy_under")
    attack = records.columns("attack", names)
    if attack is None:
        return None
    ids, lowest, highest = (attack[name] for name in ("example_id", *names))
    for stage in ("tempered", "transfer"):
        other = records.columns(stage, ("entropy_over", "entropy_under"))
        if other is not None:
            lowest = np.fmin(lowest, _aligned(ids, other, "entropy_over"))
            highest = np.fmax(highest, _aligned(ids, other, "entropy_under"))
    return _values(ids, highest - lowest)


def _aligned(example_ids: NDArray[Any], other: Columns, name: str) -> Floats:
    order = np.argsort(other["example_id"], kind="stable")
    known, values = other["example_id"][order], other[name].astype(np.float64)[order]
    if not len(known):
        return np.full(len(example_ids), np.nan)
    at = np.minimum(np.searchsorted(known, example_ids), len(known) - 1)
    return np.where(known[at] == example_ids, values[at], np.nan)


def _holding(records: Records) -> Values | None:
    """Return who is right and held AutoAttack, all of it or up to an attack; who errored did not."""
    columns = records.columns("robust_accuracy", ("correct", "errored", "broken_by"), where="example_id")
    asked = records.params.get("robust_accuracy") or {}
    # What an attack left is what it and those before it left.
    order, last = ATTACKS.get(asked.get("version", ""), ()), records.qualifiers.get("attack")
    if columns is None or (last is not None and last not in order):
        return None
    breaking = set(order if last is None else order[: order.index(last) + 1])
    # Flags are null where an example errored.
    rows = zip(columns["correct"], columns["errored"], columns["broken_by"], strict=True)
    held = [bool(right) and not errored and by not in breaking for right, errored, by in rows]
    return _values(columns["example_id"], np.array(held))


def _answered(records: Records) -> Values | None:
    """Return whether a text's class is right, of every text any recipe had an answer for."""
    found: dict[int, bool] = {}
    for recipe in records.params.get("recipes", ()):
        columns = records.columns(f"attack_{recipe}", ("prediction", "label"), where="prediction")
        if columns is None:
            return None
        right = columns["prediction"] == columns["label"]
        found = dict(zip(columns["example_id"].tolist(), right.tolist(), strict=True)) | found
    return _values(np.array(list(found)), np.array(list(found.values())))


def _standing(recipe: str) -> Mean:
    """Return who is right and stays so under a recipe against the metric's arm."""
    names = ("prediction", "{arm}.prediction", "label")
    return _mean(f"attack_{recipe}", *names, of=lambda before, after, label: (before == label) & (after == label))


def _standing_all(records: Records) -> Values | None:
    """Return who stays right under every recipe, of the examples that errored under none."""
    recipes = [recipe for recipe in records.params.get("recipes", ()) if recipe != UNCOUNTED]
    return _over([_standing(recipe)(records) for recipe in recipes], lambda columns: np.min(columns, axis=0))


def _certified(records: Records, *, asks_right: bool) -> Values | None:
    names = ("certified_class", "radius", "candidate", "label")
    columns = records.columns("certify", names)
    asked = [radius for radius in records.params["radii"] if f"{radius:g}" == records.qualifiers["radius"]]
    if columns is None or not asked:
        return None
    reached = (columns["certified_class"] != ABSTAIN) & (columns["radius"].astype(np.float64) >= asked[0])
    return _values(columns["example_id"], reached & ((columns["candidate"] == columns["label"]) | (not asks_right)))


def _static_robust(records: Records) -> Values | None:
    """Return who of the static model holds against AutoAttack, or PGD where that was not asked for."""
    for attack, column in (("transfer_autoattack", "robust_autoattack"), ("transfer_pgd", "robust_pgd")):
        if attack in records.params["attacks"]:
            return _value("static", column)(records)
    return None


def _game(attack: str, column: str) -> Mean:
    """Return an example's share of repeats, of those that did not fail and the examples that errored in none."""

    def read(records: Records) -> Values | None:
        found = []
        for repeat in range(records.params["repeats"]):
            stage = game_of(records.qualifiers["defence"], attack.format(**records.qualifiers), repeat)
            columns = records.columns(stage, (column, "failed"))
            if columns is None:
                return None
            if all(reason is None for reason in columns["failed"]):
                found.append(_values(columns["example_id"], columns[column]))
        return _over(found, lambda columns: np.mean(columns, axis=0))

    return read


def _over(found: Sequence[Values | None], of: Callable[[list[Floats]], Floats]) -> Values | None:
    """Return what ``of`` makes of several values of the examples that all have."""
    each = [values for values in found if values is not None]
    if not each or len(each) < len(found):
        return None
    common = reduce(lambda ids, values: np.intersect1d(ids, values.example_ids), each[1:], each[0].example_ids)
    return Values(common, of([values.on(common) for values in each]))


def _met(column: str) -> Mean:
    """Return a column of the texts one attacker has perturbed at a level."""
    return _value("attack_{attacker}", f"{column}[level={{level}}]")


def _task(records: Records) -> str | None:
    """Return what a model met by noise does; None where nothing is recorded."""
    clean = records.read("clean")
    return None if clean is None or not clean.num_rows else str(clean["task"][0].as_py())


def _of_tasks(*tasks: str, mean: Mean) -> Mean:
    """Return a mean that there is for models of some tasks only."""

    def read(records: Records) -> Values | None:
        if (task := _task(records)) is not None and task not in tasks:
            raise NoMeanError
        return mean(records)

    return read


def _of_decisions(mean: Mean) -> Mean:
    """Return the sum of what ``mean`` reads over that of the decisions, which of one class for each text is a mean."""

    def read(records: Records) -> Values | None:
        found, decisions = mean(records), _value("clean", "decisions")(records)
        if found is None or decisions is None or _task(records) in SINGLE_LABEL_TEXTS:
            return found
        counted = _over([found, decisions], lambda columns: columns[1])
        return counted and Values(counted.example_ids, found.on(counted.example_ids), counted.values)

    return read


def _of_right(mean: Mean) -> Mean:
    """Return a share of right decisions; of several labels the score is an area, and no mean over anything."""
    return _of_tasks(*SINGLE_LABEL_TEXTS, TAGGING, mean=_of_decisions(mean))


def _of_sureness(mean: Mean) -> Mean:
    """Return a mean over decisions where examples have equally many; under noise a token may lose its tag."""
    return _of_tasks(*SINGLE_LABEL_TEXTS, MULTI_LABEL, mean=mean)


def _dropped(records: Records) -> Values | None:
    """Return what is right without noise less what is right under it."""
    each = [_value("clean", "correct")(records), _met("correct")(records)]
    return _over(each, lambda columns: columns[0] - columns[1])


def _persisted(records: Records) -> Values | None:
    return _value("attack_{attacker}", "correct[level={level},draw=worst]")(records)


def _withstood(records: Records) -> Values | None:
    """Return what is right whichever attacker made the noise, in the worst of its draws.

    An attacker that fewer than half of the examples were answered under is not among them.
    """
    params = LowLevelAttackParams.model_validate(records.params)
    clean = _value("clean", "correct")(records)
    found = []
    for attacker in params.runs(_task(records) or SINGLE_LABEL_TEXTS[0]):
        asked = replace(records, qualifiers={**records.qualifiers, "attacker": attacker})
        values = _met("correct")(asked) if params.draws == 1 else _persisted(asked)
        if clean is None or values is None:
            return None
        if len(values.example_ids) >= LEAST_ANSWERED * len(clean.example_ids):
            found.append(values)
    return _over(found, lambda columns: np.min(columns, axis=0))


_ROBUST: dict[tuple[str, ...], Mean] = {("robust_accuracy",): _holding, ("robust_accuracy", "attack"): _holding}

MEANS: dict[str, dict[tuple[str, ...], Mean]] = {
    "uncertainty_span": {
        ("mus",): _difference("attack", "entropy_under", "entropy_over"),
        ("mus", "attack"): _difference("{attack}", "entropy_under", "entropy_over"),
        ("mus_worst",): _worst_span,
        ("mus_scaled",): _difference("tempered", "scaled_entropy_under", "scaled_entropy_over"),
        ("msus",): _difference("attack", "entropy_under", "entropy_over", power=2),
        ("nud",): _entropy_change("under"),
        ("nud", "arm"): _entropy_change("{arm}"),
        ("clean_accuracy",): _equals("attack", "prediction_clean"),
        ("accuracy", "arm"): _equals("attack", "prediction_{arm}"),
        ("accuracy", "attack"): _equals("{attack}", "prediction_attacked"),
        ("entropy", "arm"): _value("attack", "entropy_{arm}"),
        ("confidence", "arm"): _value("attack", "confidence_{arm}"),
        ("confidence", "attack"): _value("{attack}", "confidence_attacked"),
        ("brier", "arm"): _mean(
            "attack",
            "confidence_{arm}",
            "prediction_{arm}",
            "label",
            of=lambda confidence, prediction, label: (confidence - (prediction == label)) ** 2,
        ),
        **_ROBUST,
    },
    "temperature_attack": {
        ("clean_accuracy",): _answered,
        ("adversarial_accuracy", "arm", "recipe"): _standing("{recipe}"),
        ("adversarial_accuracy", "arm"): _standing_all,
    },
    "certified_calibration": {
        ("accuracy",): _equals("certify", "predicted_class"),
        ("certified_accuracy", "radius"): lambda records: _certified(records, asks_right=True),
        ("certified_share", "radius"): lambda records: _certified(records, asks_right=False),
        ("abstention_rate",): _mean("certify", "certified_class", of=lambda found: found == ABSTAIN),
        ("average_certified_radius",): _mean(
            "certify",
            "certified_class",
            "candidate",
            "label",
            "radius",
            of=lambda found, candidate, label, radius: np.where((found != ABSTAIN) & (candidate == label), radius, 0),
        ),
        **_ROBUST,
    },
    "transductive_attack": {
        ("static_accuracy",): _value("static", "correct"),
        ("static_robustness",): _static_robust,
        ("clean_accuracy", "defence"): _game("clean", "correct"),
        ("robustness", "attack", "defence"): _game("{attack}", "correct"),
        ("rejection_rate", "attack", "defence"): _game("{attack}", "rejected"),
    },
    "low_level_attack": {
        ("score", "level"): _of_right(_value("clean", "correct")),
        ("score", "attacker", "level"): _of_right(_met("correct")),
        ("score_drop", "attacker", "level"): _of_right(_dropped),
        ("worst_case_score", "level"): _of_right(_withstood),
        ("persistent_score", "attacker", "level"): _of_right(_persisted),
        ("flip_rate", "attacker", "level"): _of_decisions(_met("flipped")),
        ("mean_confidence", "level"): _of_sureness(_value("clean", "mean_confidence")),
        ("mean_confidence", "attacker", "level"): _of_sureness(_met("mean_confidence")),
        ("characters_changed", "attacker", "level"): _met("characters_changed"),
        ("tokens_changed", "attacker", "level"): _met("tokens_changed"),
    },
}
"""By family, and by name and sorted qualifiers."""
