"""What stays of what was deleted."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from seatrial.contracts.base import Read

SubjectKind = Literal["audit", "model", "dataset", "hardening"]


class TombstoneSummary(Read):
    """That something was deleted."""

    id: str = Field(description="Identifier of the tombstone.", examples=["tmb_..."])
    subject: str = Field(description="Id of what was deleted.", examples=["aud_..."])
    kind: SubjectKind = Field(description="What it was.")
    name: str = Field(
        description="Name and version of the model or dataset; of an audit or a hardening, those of its model."
    )
    actor: str = Field(
        description="Who deleted it: the id of a key, `operator` (the bootstrap key, or a service without keys), or "
        "`retention`, which does as the project was told to."
    )
    cascade_of: str | None = Field(description="Id of what it was deleted along with; null where it was named itself.")
    created_at: datetime = Field(description="When what was deleted had been made (UTC).")
    deleted_at: datetime = Field(description="When it was deleted (UTC).")


class TombstoneRead(TombstoneSummary):
    """What was deleted, and what others may have relied on."""

    details: dict[str, Any] = Field(
        description="Of a model or dataset: name, version, task, digest, size. Of an audit: the name and digest of its "
        "model and dataset, what it asked and with which seed, how it ended, its judgements, its `attestations` as "
        "they were given out (`content`), the pre-registration among them, and the baselines it was. Of a hardening: "
        "its model, datasets and the version it made, what it asked, its audits, and what it was worth (`result`)."
    )
    along: list[str] = Field(description="Ids of what was deleted along with it.")
