"""When a number of two audits means the same: which parameters it does not depend on, and which of the rest differ.

A parameter counts unless it is named here, so that one nobody thought of keeps audits apart instead of mixing them up.
What belongs to the model as it is served (``design_temperature``, ``sigma``) is part of what is compared, and does not
count.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from app.gates.ranges import named
from seatrial.contracts.policies import MetricName
from seatrial.families import params_contract
from seatrial.families.low_level_attack.params import ATTACKERS, COMBINED

_BINNED = frozenset({"ece", "ece_centre", "mce", "cce", "cce_system", "acce", "dece", "brier_ece"})
_AT_ALL = frozenset({"kind"})


def differences(metric: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Return in words which parameters change what a metric means, and differ between an audit and its baseline.

    Args:
        metric: Full name.
        now: Parameters of the audit's check.
        then: Those of the baseline's.
    """
    asked = named(metric)
    first, second = _meaning(asked, now), _meaning(asked, then)
    return [
        f"{name} is {in_words(name, first.get(name))} here and {in_words(name, second.get(name))} in the baseline"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _meaning(asked: MetricName, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that count; one that an older version did not have is at its default."""
    filled = _defaults(asked.family)
    idle = _IDLE[asked.family](asked) | ({"bins"} if asked.name not in _BINNED else set()) | _AT_ALL
    counting = {name: value for name, value in {**filled, **params}.items() if name not in idle}
    if counting.get("outliers"):
        # At which radii is in the metric's name.
        counting["outliers"] = {"dataset": counting["outliers"].get("dataset")}
    if asked.family == "low_level_attack":
        counting = _as_run(asked, {**filled, **params}, counting)
    if "defence" in asked.qualifiers and "defences" in counting:
        chosen = [one for one in counting["defences"] if one.get("name") == asked.qualifiers["defence"]]
        counting["defences"] = chosen
    return _flat(counting)


@cache
def _defaults(family: str) -> Mapping[str, Any]:
    """Return what a check's parameters are where they are not given: pydantic looks each up anew."""
    fields = params_contract(family).model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those inside others named like paths."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        found |= (
            _flat({f"{name}/{key}": one for key, one in value.items()}) if isinstance(value, dict) else {name: value}
        )
    return found


def _uncertainty_span(asked: MetricName) -> set[str]:
    every = set(params_contract("uncertainty_span").model_fields)
    if asked.name == "robust_accuracy":
        return every - {"robust_accuracy"}
    if asked.name == "clean_accuracy" or asked.qualifiers.get("arm") == "clean":
        return every - {"bins"}
    idle = {"attacks", "robust_accuracy"}
    if "epsilon" not in asked.qualifiers:
        idle.add("outliers")
    if asked.name != "mus_worst" and asked.qualifiers.get("attack") != "transfer":
        idle.add("transfer_model")
    return idle


def _temperature_attack(asked: MetricName) -> set[str]:
    every = set(params_contract("temperature_attack").model_fields)
    arm = asked.qualifiers.get("arm")
    if asked.name == "clean_accuracy":
        return every
    idle = {"design_temperature"}
    if arm is not None:
        idle.add("arms")
    if "recipe" in asked.qualifiers:
        idle.add("recipes")
    if asked.name in ("ece", "mce", "mean_confidence", "temperature"):
        idle |= {"recipes", "query_budget", "time_budget_s"}
    if arm in ("as_served", "transfer"):
        idle |= {"validation_samples", "validation_dataset"}
    if arm not in (None, "optimized"):
        idle |= {"temperature_evaluations", "temperature_search"}
    if arm not in (None, "transfer"):
        idle.add("source_model")
    return idle


def _certified_calibration(asked: MetricName) -> set[str]:
    if asked.name == "robust_accuracy":
        return set(params_contract("certified_calibration").model_fields) - {"robust_accuracy"}
    # Where it was attacked is in the metric's name.
    idle = {"radii", "solvers", "ace_attacks", "attack_radius", "sigma", "noise", "robust_accuracy"}
    if "attack" not in asked.qualifiers:
        idle |= {"attack_steps", "attack_draws"}
    if asked.name not in ("cce", "cce_system", "cbs", "acce", "dece", "brier_ece"):
        idle.add("confidence_bound")
    return idle


def _transductive_attack(asked: MetricName) -> set[str]:
    if asked.name == "static_accuracy":
        return set(params_contract("transductive_attack").model_fields)
    idle = {"repeats", "round_timeout_s"}
    if "attack" in asked.qualifiers:
        idle.add("attacks")
    if asked.name == "static_robustness":
        idle |= {"defences", "iterations", "order", "state", "training_dataset"}
    if asked.name == "clean_accuracy":
        idle |= {"attacks", "norm", "epsilon", "step_size", "steps", "iterations", "state", "autoattack_queries"}
    return idle


_OF_ALL_ATTACKERS = frozenset({"mean_relative_score", "worst_case_score", "rank", "edit_correlation"})
_OF_ALL_LEVELS = frozenset({"rank", "edit_correlation"})
_HEEDING_PHI = frozenset({"intrude", "visual", "segment"})
"""Attackers that hit a word as hard as `phi` says, in whichever reading."""
_OF_ALL_DRAWS = frozenset({"worst_case_score", "persistent_score"})


def _low_level_attack(asked: MetricName) -> set[str]:
    attacker = asked.qualifiers.get("attacker")
    if attacker is None and asked.name not in _OF_ALL_ATTACKERS:
        # Without noise.
        return set(params_contract("low_level_attack").model_fields) - {"bins"}
    idle: set[str] = set()
    # What a mixture draws from is part of it.
    if asked.name not in _OF_ALL_ATTACKERS:
        idle |= {"combined"} if attacker == COMBINED else {"attackers", "combined"}
        idle |= {"typos"} if attacker not in ("natural_typo", COMBINED) else set()
        idle |= {"glyphs"} if attacker not in ("visual", COMBINED) else set()
    idle |= {"levels"} if asked.name not in _OF_ALL_LEVELS else set()
    return idle | ({"draws"} if asked.name not in _OF_ALL_DRAWS else set())


def _as_run(asked: MetricName, params: Mapping[str, Any], counting: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of noise with what stands for others written out: the same noise in other words is the same."""
    found = dict(counting)
    if not _hits_by_phi(asked, params):
        found.pop("phi", None)
    if "attackers" in found:
        names = ATTACKERS if found["attackers"] == "all" else found["attackers"]
        found["attackers"] = sorted(names)
    if "selection" in found:
        found["selection"] = found["selection"] or found.get("variant")
    return found


def _hits_by_phi(asked: MetricName, params: Mapping[str, Any]) -> bool:
    """Tell whether `phi` says how hard one of the attackers behind a metric hits a word."""
    attacker = asked.qualifiers.get("attacker")
    heeding = _HEEDING_PHI | ({"keyboard_typo"} if params.get("variant") == "paper" else set())
    if attacker is not None and attacker != COMBINED and asked.name not in _OF_ALL_ATTACKERS:
        return attacker in heeding
    among = params.get("attackers", "all")
    return not heeding.isdisjoint(ATTACKERS if among == "all" else among)


_IDLE: dict[str, Callable[[MetricName], set[str]]] = {
    "uncertainty_span": _uncertainty_span,
    "temperature_attack": _temperature_attack,
    "certified_calibration": _certified_calibration,
    "transductive_attack": _transductive_attack,
    "low_level_attack": _low_level_attack,
}
"""By family: the parameters a metric does not depend on."""


_UNSET = {"phi": "not set (the level)", "selection": "not set (as the variant)"}
"""What parameters that are not given stand for."""


def in_words(name: str, value: Any) -> str:
    """Return the value of a parameter in words.

    >>> in_words("phi", None), in_words("combined", True), in_words("attackers", ["visual", "segment"])
    ('not set (the level)', 'on', 'visual, segment')
    """
    if value in (None, []):
        return _UNSET.get(name, "not given")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        return ", ".join(in_words(name, one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
