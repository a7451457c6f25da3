"""Events of an audit, read over SSE and resumable by sequence number."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from seatrial.contracts.base import Read

EventKind = Literal["audit", "check", "progress", "verdict"]


class EventRead(Read):
    """One thing that happened to an audit."""

    seq: int = Field(description="Position in this audit's history, from 1 without gaps.")
    kind: EventKind = Field(
        description="`audit` and `check` tell a change of state, `progress` how far a stage is, `verdict` what the "
        "gate says."
    )
    data: dict[str, Any] = Field(
        description="`audit`: state; `check`: check, state; `progress`: check, stage, done, total; `verdict`: verdict, "
        "judgement."
    )
    created_at: datetime = Field(description="When it was recorded (UTC).")
