"""Projects: how they share the workers, how long they keep things, what they take of the disk."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from seatrial.contracts.base import Read, Real, Request

KeepDays = Annotated[int, Field(ge=1, le=36_500)]


class Retention(Request):
    """For how many days a project keeps what is of each kind; null: for ever."""

    audits: KeepDays | None = Field(
        default=None,
        description="Audits, from their end; but for baselines, and those whose verdict is attested.",
        examples=[90],
    )
    attested_audits: KeepDays | None = Field(
        default=None,
        description="Audits whose verdict is attested, from their end; the attestation stays in the tombstone. "
        "Baselines stay.",
    )
    hardenings: KeepDays | None = Field(
        default=None,
        description="Hardenings, from their end; the version that was made and its audits are kept as others are.",
    )
    models: KeepDays | None = Field(
        default=None, description="Models that no audit measured or names, from when they were stored."
    )
    datasets: KeepDays | None = Field(
        default=None, description="Datasets that no audit ran on or names, from when they were stored."
    )


class Quotas(Request):
    """What a project may use at most; null: without limit."""

    unfinished_audits: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Audits, and trainings of hardenings, that are queued or running.",
        examples=[20],
    )
    audit_s: Real | None = Field(
        default=None,
        gt=0,
        description="Seconds that one audit or one training may take, as estimated.",
        examples=[3600.0],
    )
    daily_s: Real | None = Field(
        default=None,
        gt=0,
        description="Seconds that the audits and trainings submitted within 24 hours may take, as estimated; deleted "
        "ones count.",
    )
    stored_bytes: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="Bytes of a project's files, as `disk` counts them; a file counts once.",
    )
    requests_per_s: Real | None = Field(
        default=None, gt=0, description="Requests a second to each API process; a second's worth may come at once."
    )
    open_uploads: int | None = Field(
        default=None, ge=0, le=1_000_000, description="Uploads open at a time at each API process."
    )


class ProjectChange(Request):
    """What is to change of a project: what is left out stays."""

    weight: Real | None = Field(
        default=None,
        ge=0.01,
        le=1000,
        description="Share of the workers, beside the weights of the others that have work. Of the operator.",
    )
    priority: int | None = Field(
        default=None,
        ge=-100,
        le=100,
        description="While projects of a higher one have work, those of a lower one have no workers. Of the operator.",
    )
    retention: Retention | None = Field(
        default=None, description="How long things are kept: of the kinds that are named, null for ever."
    )
    quotas: Quotas | None = Field(
        default=None,
        description="What it may use at most: of the limits that are named, null for none. Of the operator.",
    )


class DiskRead(Read):
    """Bytes of a project's files, each counted once, as far as they were counted when they were stored."""

    models: int = Field(
        description="Of models, as they were uploaded or trained, and of the weights of those that were trained."
    )
    datasets: int = Field(description="Of datasets.")
    records: int = Field(description="Of audits' records.")
    figures: int = Field(description="Of audits' figures; those drawn by older versions count for each check.")
    checkpoints: int = Field(description="Of what audits and trainings that go on have saved, to be resumed from it.")
    total: int = Field(description="All of them.")


class SpentRead(Read):
    """What a project uses of what it may."""

    unfinished_audits: int = Field(description="Audits, and trainings of hardenings, that are queued or running.")
    daily_s: float = Field(
        description="Seconds that the audits and trainings submitted within 24 hours may take, deleted ones too."
    )


class ProjectSummary(Read):
    """A project."""

    id: str = Field(description="Identifier.", examples=["prj_..."])
    name: str = Field(description="Name.", examples=["vision"])
    weight: float = Field(description="Share of the workers, beside the weights of the others that have work.")
    priority: int = Field(description="While projects of a higher one have work, those of a lower one have no workers.")
    worked_s: float = Field(description="Seconds of workers it has had, over its weight; the least has the next turn.")
    created_at: datetime = Field(description="When it was made (UTC).")


class ProjectRead(ProjectSummary):
    """A project, what it keeps and what it uses."""

    retention: Retention = Field(description="For how many days it keeps things; null: for ever.")
    quotas: Quotas = Field(description="What it may use at most; null: without limit.")
    spent: SpentRead = Field(description="What it uses of that, beside the disk.")
    disk: DiskRead = Field(description="What it takes of the disk.")


class ActivityRead(Read):
    """One thing somebody did."""

    id: str = Field(description="Identifier.", examples=["act_..."])
    actor: str = Field(
        description="Who: the id of a key, `operator` (the bootstrap key, or a service without keys), `command line` "
        "(beside the database) or `retention`."
    )
    action: str = Field(description="What: `audit.deleted`, `key.created`, `project.changed`, ...")
    subject: str = Field(description="Id or name of what it was done to.")
    details: dict[str, object] = Field(description="What else there is to say of it.")
    request_id: str | None = Field(description="Of the request, as the log has it.")
    created_at: datetime = Field(description="When (UTC).")
