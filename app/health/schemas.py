"""Bodies of the health routes."""

from typing import Literal

from pydantic import BaseModel, Field


class Health(BaseModel):
    """The process is up."""

    status: Literal["ok"] = Field(description="Always `ok`: a process that is not up does not answer.")
    version: str = Field(description="Version of Seatrial.")


class Readiness(BaseModel):
    """Whether requests can be answered."""

    status: Literal["ready", "not-ready"] = Field(description="`not-ready` comes with status 503.")
    database: str = Field(description="`ok`, or what is wrong.")
    storage: str = Field(description="`ok`, or what is wrong.")
    broker: str = Field(description="`ok`, `none` where workers poll the database, or what is wrong.")
    workers: int = Field(
        description="Workers seen within 30 seconds, idle or at work; a killed one is counted that long. None is no "
        "reason not to take requests."
    )
    scheduler_age_s: float | None = Field(
        default=None,
        description="Seconds since the scheduler swept last; null where none ever did, as without a broker. Without it "
        "workers and API processes take back leases all the same.",
    )
