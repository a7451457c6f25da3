"""The families there are: those shipped, and those other distributions bring by the entry point ``seatrial.families``.

A distribution says ``[project.entry-points."seatrial.families"]`` and ``mine = "package.spec:SPEC"``, where ``SPEC`` is
a :class:`seatrial.contracts.family.FamilySpec` of the kind ``mine``. One that cannot be loaded is left out and told
under its name (:func:`broken`); a shipped one is never replaced.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, NamedTuple, get_args, get_origin

from seatrial.contracts.estimates import Flag, split_name
from seatrial.contracts.family import FamilyParams, FamilySpec, FlagSpec, Metric
from seatrial.contracts.flags import SHARED

GROUP = "seatrial.families"

SHIPPED = tuple(
    EntryPoint(name=name, value=f"seatrial.families.{name}.spec:SPEC", group=GROUP)
    for name in (
        "uncertainty_span",
        "temperature_attack",
        "certified_calibration",
        "transductive_attack",
        "low_level_attack",
        "calibration",
    )
)
"""Declared here as well as in pyproject.toml: a checkout with older metadata has them all the same."""

log = logging.getLogger(__name__)


class _Families(NamedTuple):
    specs: Mapping[str, FamilySpec]
    broken: Mapping[str, str]


class InvalidSpecError(ValueError):
    """An entry point does not lead to a family."""


class UnregisteredFlagError(ValueError):
    """A check raised a doubt that its family does not declare, or one graver or lighter than it declares."""


def families() -> Mapping[str, FamilySpec]:
    """Return every family by its kind: the shipped ones in their order, then the others by name."""
    return _found().specs


def broken() -> Mapping[str, str]:
    """Return why families of other distributions were left out, by name."""
    return _found().broken


def find_family(kind: str) -> FamilySpec | None:
    """Return a family; None where there is none of that kind, as in what a version with more of them has stored."""
    return families().get(kind)


def family(kind: str) -> FamilySpec:
    """Return a family.

    Raises:
        KeyError: There is none of that kind.
    """
    return families()[kind]


def params_contract(kind: str) -> type[FamilyParams]:
    """Return the parameters of a family.

    Raises:
        KeyError: There is no such family.
    """
    return family(kind).params


def as_meant(kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored parameters of a check with what was done for those that the version before did not have."""
    spec = find_family(kind)
    return {**({} if spec is None else spec.formerly), **params}


def metrics_of(kind: str) -> tuple[Metric, ...]:
    """Return what a family publishes; nothing for one that is not there."""
    spec = find_family(kind)
    return () if spec is None else spec.metrics


def each_once(metrics: Iterable[str]) -> list[str]:
    """Return full names of numbers without those that are another name of one among them."""
    names = list(dict.fromkeys(metrics))
    return [name for name in names if _same_as(name) not in names]


def _same_as(metric: str) -> str | None:
    kind, _, name = metric.partition(".")
    spec = find_family(kind)
    found = None if spec is None else spec.find_metric(*split_name(name))
    return f"{kind}.{found.same_as}" if found is not None and found.same_as else None


def flags_of(kind: str) -> Mapping[str, FlagSpec]:
    """Return by code the doubts a check may carry: its family's own, and those about its model and data."""
    spec = find_family(kind)
    return {flag.code: flag for flag in (*SHARED, *(() if spec is None else spec.flags))}


def require_registered(kind: str, flags: Iterable[Flag]) -> None:
    """Let flags pass that say what somebody can look up.

    Raises:
        UnregisteredFlagError: One is not among :func:`flags_of`, or not of a severity it may have.
    """
    known = flags_of(kind)
    for flag in flags:
        if flag.code not in known:
            raise UnregisteredFlagError(f"{kind} does not declare the flag {flag.code!r}: add a FlagSpec of it")
        if flag.severity not in known[flag.code].severities:
            declared = ", ".join(known[flag.code].severities)
            raise UnregisteredFlagError(f"{kind} raised {flag.code} as {flag.severity}; it declares {declared}")


@cache
def _found() -> _Families:
    ours = {point.name: point.value for point in SHIPPED}
    # Our own metadata offers the shipped ones again.
    points = [point for point in entry_points(group=GROUP) if ours.get(point.name) != point.value]
    theirs = sorted(points, key=lambda one: (one.name, one.value))
    times = Counter(point.name for point in theirs)
    specs = {point.name: _load(point) for point in SHIPPED}
    failed: dict[str, str] = {}
    for point in theirs:
        if point.name in ours:
            failed[point.name] = f"{point.value} cannot take the place of the family that is shipped"
            continue
        if times[point.name] > 1:
            values = sorted({one.value for one in theirs if one.name == point.name})
            failed[point.name] = f"offered {times[point.name]} times ({', '.join(values)}): uninstall all but one"
            continue
        try:
            specs[point.name] = _load(point)
        except Exception as error:
            # Another distribution may fail in any way when imported.
            failed[point.name] = f"{point.value} cannot be loaded: {error!r}"
    for name, why in failed.items():
        log.error("the family %s of another distribution is left out: %s", name, why)
    return _Families(specs, failed)


def _load(point: EntryPoint) -> FamilySpec:
    spec = point.load()
    if not isinstance(spec, FamilySpec):
        raise InvalidSpecError(f"{point.value} is a {type(spec).__name__}, not a FamilySpec")
    if spec.kind != point.name:
        raise InvalidSpecError(f"its kind is {spec.kind!r}, its entry point {point.name!r}")
    kind = spec.params.model_fields.get("kind")
    if kind is None or get_origin(kind.annotation) is not Literal or get_args(kind.annotation) != (spec.kind,):
        raise InvalidSpecError(f"its parameters need a field `kind: Literal[{spec.kind!r}]`")
    return spec
