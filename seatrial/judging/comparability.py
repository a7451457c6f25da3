"""When a number of two audits means the same: which parameters it does not depend on, and which of the rest differ.

A parameter counts unless the metric says otherwise, so that one nobody thought of keeps audits apart instead of mixing
them up. What belongs to the model as it is served is part of what is compared, and does not count.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from seatrial.contracts.registry import as_meant, family, find_family, params_contract
from seatrial.judging.ranges import described, named


def differences(
    metric: str, now: Mapping[str, Any], then: Mapping[str, Any], *, here: str = "here", there: str = "in the baseline"
) -> list[str]:
    """Return in words which parameters change what a metric means, and differ between an audit and its baseline.

    Args:
        metric: Full name.
        now: Parameters of the audit's check.
        then: Those of the baseline's.
        here: Where the first are, in words.
        there: Where the others are.
    """
    kind, first, second = named(metric).family, _meaning(metric, now), _meaning(metric, then)
    return [
        f"{name} is {in_words(kind, name, first.get(name))} {here} and {in_words(kind, name, second.get(name))} {there}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def departures(kind: str, params: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Return in words in which parameters a check departs from what a policy asks for; nothing where it is that.

    Args:
        kind: Family of both.
        params: Of the check.
        asked: Of the policy's.
    """
    ours, theirs = (_flat(filled(kind, one)) for one in (params, asked))
    return [
        f"{name} is {in_words(kind, name, ours.get(name))} and not {in_words(kind, name, theirs.get(name))}"
        for name in dict.fromkeys([*theirs, *ours])
        if ours.get(name) != theirs.get(name) and name != "kind"
    ]


def nearest_departure(kind: str, run: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in what the nearest check departs from one a policy is about; nothing where each of those is run.

    Args:
        kind: Family of all.
        run: Parameters of the checks that are run.
        asked: Of those the policy is about.
    """
    apart = [[departures(kind, params, one) for params in run] for one in asked]
    lacking = [row for row in apart if all(row)]
    return min(lacking[0], key=len) if lacking else []


def _meaning(metric: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that count; one that an older version did not have is at what that did."""
    asked = named(metric)
    depended_on = described(metric).depends(asked.qualifiers)
    written = family(asked.family).canonical(asked.name, asked.qualifiers, filled(asked.family, params))
    return _flat({name: value for name, value in written.items() if name != "kind" and name in depended_on})


def filled(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a check; those that an older version did not have are at what that did.

    Raises:
        KeyError: There is no such family.
    """
    return {**_defaults(kind), **as_meant(kind, params)}


@cache
def _defaults(kind: str) -> Mapping[str, Any]:
    """Return what a check's parameters are where they are not given: pydantic looks each up anew."""
    fields = params_contract(kind).model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those inside others named like paths."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        found |= (
            _flat({f"{name}/{key}": one for key, one in value.items()}) if isinstance(value, dict) else {name: value}
        )
    return found


def in_words(kind: str, name: str, value: Any) -> str:
    """Return the value of a parameter in words.

    Args:
        kind: Family.
        name: Of the parameter.
        value: As stored.

    >>> in_words("any", "epsilon", None), in_words("any", "joint", True), in_words("any", "recipes", ["pwws", "bae"])
    ('not given', 'on', 'pwws, bae')
    """
    if value in (None, []):
        spec = find_family(kind)
        return "not given" if spec is None else spec.unset.get(name, "not given")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        return ", ".join(in_words(kind, name, one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
