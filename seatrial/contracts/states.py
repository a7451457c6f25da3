"""The states of everything that takes time."""

from enum import StrEnum


class ModelState(StrEnum):
    """Whether a model may be audited: the worker's checks decide."""

    CHECKING = "checking"
    READY = "ready"
    REJECTED = "rejected"


class RunState(StrEnum):
    """The state of an audit, a check, a shard, a plan or a step of one."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


PREFLIGHT = "preflight"
"""The stage of a check before its family's own: one shard that looks at model and data together."""

ACTIVE = (RunState.QUEUED, RunState.RUNNING)
"""States of what goes on by itself."""

UNFINISHED = (*ACTIVE, RunState.CANCELLING)
"""States of what has not ended, whose audits and trainings a project's quotas count."""

TERMINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})
"""States nothing leaves by itself; only a retry leaves ``failed``."""
