"""Counts of what happened to the work, for ``/metrics``: in the database, since workers come and go.

They are written in the transaction that does what is counted: a killed process loses none, and what is rolled back
counts for nothing. Call these functions last in a transaction. A count's row is locked until its end, and a transaction
that waited for an audit's row with a count in its hands could wait in a circle.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.contracts.registry import families
from seatrial.contracts.training import methods
from seatrial.store.database import insert_into
from seatrial.store.tables import CounterRow

BOUNDS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Upper bounds of the buckets of durations, in seconds: from a look at ten images to a certificate of a large model."""


@dataclass(frozen=True)
class _Counted:
    """Something that is counted.

    Attributes:
        name: Its name; ``/metrics`` puts ``seatrial_`` before it, and ``_total`` behind that of a counter.
        text: What it is, for people.
        labels: What tells its counts apart.
    """

    name: str
    text: str
    labels: tuple[str, ...]


class Counter(_Counted):
    """Something that only grows."""


class Durations(_Counted):
    """Something of which durations are counted, in buckets."""


SHARD_FAILURES = Counter("shard_failures", "Shards that failed, by the code of their problem.", ("family", "code"))
SHARDS_REQUEUED = Counter(
    "shards_requeued",
    "Shards put back into the queue: worker_died, error, put_off (trouble of the machine), worker_stopped.",
    ("family", "reason"),
)
LEASE_EXPIRIES = Counter("lease_expiries", "Claims whose worker died or hung.", ("claim", "family"))
SHARD_SECONDS = Durations("shard_seconds", "Seconds that shards took which succeeded.", ("family", "stage"))
CHECK_SECONDS = Durations("check_seconds", "Seconds from a check's first stage to its end.", ("family", "state"))

_REASONS = ("worker_died", "error", "put_off", "worker_stopped")
_CODES = ("out-of-memory", "worker-died")
"""Those of the problems of shards that come of machines; a family, a model or a plugin may have others."""

COUNTERS = (SHARD_FAILURES, SHARDS_REQUEUED, LEASE_EXPIRIES)
DURATIONS = (SHARD_SECONDS, CHECK_SECONDS)

_SUM = "sum"

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""Values by the values of labels; of durations with one label more: an upper bound, or ``sum``."""


def count(session: Session, counter: Counter, *labels: str, by: float = 1.0) -> None:
    """Add to a count; the last thing in a transaction.

    Raises:
        ValueError: These are not as many labels as the counter has.
    """
    _add(session, counter, {labels: by})


def observe(session: Session, durations: Durations, *labels: str, seconds: float) -> None:
    """Count a duration; the last thing in a transaction.

    Raises:
        ValueError: These are not as many labels as the durations have.
    """
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    bucket = bounds[bisect_left(BOUNDS_S, seconds)]
    _add(session, durations, {(*labels, bucket): 1.0, (*labels, _SUM): seconds})


def _add(session: Session, counted: Counter | Durations, values: Values) -> None:
    wanted = len(counted.labels) + isinstance(counted, Durations)
    if any(len(labels) != wanted for labels in values):
        raise ValueError(f"{counted.name} has the labels {', '.join(counted.labels)}, not {sorted(values)}")
    # In order: two transactions that count the same wait for each other, never in a circle.
    rows = [
        {"name": counted.name, "labels": json.dumps(list(labels)), "value": value}
        for labels, value in sorted(values.items())
    ]
    stored = insert_into(session, CounterRow).values(rows)
    added = {"value": CounterRow.value + stored.excluded.value}
    session.execute(stored.on_conflict_do_update(index_elements=["name", "labels"], set_=added))


def read_counts(session: Session) -> Mapping[str, Values]:
    """Return all counts by name, then by the values of their labels."""
    counts: dict[str, dict[tuple[str, ...], float]] = {}
    for name, labels, value in session.execute(select(CounterRow.name, CounterRow.labels, CounterRow.value)):
        counts.setdefault(name, {})[tuple(json.loads(labels))] = value
    return counts


def zeros(counter: Counter) -> dict[tuple[str, ...], float]:
    """Return 0 for what a counter may count here, so that its first event is an increase.

    Prometheus sees no increase in a series that is born at 1. Codes of problems are an open set: shard failures of
    other codes are told from their first event on, which only a difference of sums over all codes sees.
    """
    return dict.fromkeys(_expected(counter), 0.0)


def _expected(counter: Counter) -> Iterator[tuple[str, ...]]:
    if counter is SHARD_FAILURES:
        yield from ((family, code) for family in families() for code in _CODES)
    elif counter is SHARDS_REQUEUED:
        yield from ((family, reason) for family in families() for reason in _REASONS)
    elif counter is LEASE_EXPIRIES:
        yield from ((claim, family) for claim in ("shard", "check") for family in families())
        yield "model", "none"
        yield from (("training", method) for method in methods())


def histograms(values: Values) -> dict[tuple[str, ...], tuple[list[tuple[str, float]], float]]:
    """Return, by labels, the cumulative counts up to each upper bound, and the sum of durations.

    >>> histograms({("a", "1.0"): 2.0, ("a", "+Inf"): 1.0, ("a", "sum"): 4001.5})[("a",)]
    ([('0.1', 0.0), ('0.3', 0.0), ('1.0', 2.0), ('3.0', 2.0), ('10.0', 2.0), ('30.0', 2.0), ('100.0', 2.0), \
('300.0', 2.0), ('1000.0', 2.0), ('3000.0', 2.0), ('+Inf', 3.0)], 4001.5)
    """
    found: dict[tuple[str, ...], tuple[list[tuple[str, float]], float]] = {}
    for labels in {key[:-1] for key in values}:
        buckets: list[tuple[str, float]] = []
        reached = 0.0
        for bound in (*map(str, BOUNDS_S), "+Inf"):
            reached += values.get((*labels, bound), 0.0)
            buckets.append((bound, reached))
        found[labels] = buckets, values.get((*labels, _SUM), 0.0)
    return found
