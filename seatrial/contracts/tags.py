"""Tags, and what a search finds."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from seatrial.contracts.base import Read, Request
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Verdict

MAX_TAGS = 32
"""Most tags on one thing."""
TAG = r"^[A-Za-z0-9][A-Za-z0-9._:/=+-]{0,63}$"

Tag = Annotated[str, StringConstraints(pattern=TAG)]
"""A word: letters, digits and ``._:/=+-``, so that ``team:vision`` and ``stage=prod`` are tags."""

SearchKind = Literal["models", "datasets", "audits"]


class TagChange(Request):
    """Tags to put on and to take off, at once: what others put on stays."""

    add: list[Tag] = Field(
        default_factory=list, max_length=MAX_TAGS, description="Tags to put on.", examples=[["prod"]]
    )
    remove: list[Tag] = Field(default_factory=list, max_length=MAX_TAGS, description="Tags to take off.")


class TagsRead(Read):
    """The tags of a model, a dataset or an audit."""

    id: str = Field(description="What they are on.", examples=["mdl_..."])
    tags: list[str] = Field(description="Its tags, in alphabetical order.")


class SearchHit(Read):
    """Something that was found."""

    id: str = Field(description="Identifier.", examples=["aud_..."])
    name: str = Field(description="Name and version; of an audit those of its model and its dataset.")
    digest: str = Field(description="SHA-256 of its bytes; of an audit that of its specification.")
    state: str | None = Field(description="State; null of datasets, which have none.")
    verdict: Verdict | None = Field(
        description="Verdict of an audit; null of everything else, and before there is one."
    )
    tags: list[str] = Field(description="Its tags.")
    created_at: datetime = Field(description="When it was stored or submitted (UTC).")
    url: str = Field(description="Where all of it is.")
    estimate: Estimate | None = Field(description="The number that was asked about; null where none was.")
