"""When a number of two audits means the same: which parameters it does not depend on, and which of the rest differ.

A parameter counts unless the metric says otherwise, so that one nobody thought of keeps audits apart instead of mixing
them up. What belongs to the model as it is served is part of what is compared, and does not count.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from app.gates.ranges import described, named
from seatrial.contracts.registry import family, params_contract


def differences(metric: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Return in words which parameters change what a metric means, and differ between an audit and its baseline.

    Args:
        metric: Full name.
        now: Parameters of the audit's check.
        then: Those of the baseline's.
    """
    first, second = _meaning(metric, now), _meaning(metric, then)
    unset = family(named(metric).family).unset
    return [
        f"{name} is {in_words(first.get(name), unset.get(name))} here and "
        f"{in_words(second.get(name), unset.get(name))} in the baseline"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _meaning(metric: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that count; one that an older version did not have is at its default."""
    asked = named(metric)
    depended_on = described(metric).depends(asked.qualifiers)
    filled = {**_defaults(asked.family), **params}
    written = family(asked.family).canonical(asked.name, asked.qualifiers, filled)
    return _flat({name: value for name, value in written.items() if name != "kind" and name in depended_on})


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


def in_words(value: Any, unset: str | None = None) -> str:
    """Return the value of a parameter in words.

    Args:
        value: As stored.
        unset: What the parameter stands for where it is not given.

    >>> in_words(None, "not set (the level)"), in_words(True), in_words(["visual", "segment"])
    ('not set (the level)', 'on', 'visual, segment')
    """
    if value in (None, []):
        return unset or "not given"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        return ", ".join(in_words(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
