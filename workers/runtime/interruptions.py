"""Why a shard stops before its end.

::

    Interrupted
    +-- ShardCancelled   the audit was cancelled: the shard ends as cancelled
    +-- LeaseLost        somebody else has the shard: nothing may be written
    +-- ShuttingDown     this process was asked to stop: the shard is given back
"""


class Interrupted(BaseException):
    """A shard stops at the next batch. Not an ``Exception``, so that no attack's own error handling swallows it."""


class ShardCancelled(Interrupted):
    """The audit was cancelled."""


class LeaseLost(Interrupted):
    """The claim ran out and somebody else may have it."""


class ShuttingDown(Interrupted):
    """The process was asked to stop."""
