"""Why a shard stops before its end.

::

    Interrupted
    +-- ShardCancelled   the audit was cancelled: the shard ends as cancelled
    +-- LeaseLost        somebody else has the shard: nothing may be written
    +-- ShuttingDown     this process was asked to stop: the shard is given back
"""

from collections.abc import Mapping
from typing import ClassVar


class Interrupted(BaseException):
    """A shard stops at the next batch. Not an ``Exception``, so that no attack's own error handling swallows it.

    Attributes:
        reason: What it is called between processes.
    """

    reason: ClassVar[str]


class ShardCancelled(Interrupted):
    """The audit was cancelled."""

    reason = "cancelled"


class LeaseLost(Interrupted):
    """The claim ran out and somebody else may have it."""

    reason = "lost"


class ShuttingDown(Interrupted):
    """The process was asked to stop."""

    reason = "stopping"


BY_REASON: Mapping[str, type[Interrupted]] = {kind.reason: kind for kind in (ShardCancelled, LeaseLost, ShuttingDown)}
