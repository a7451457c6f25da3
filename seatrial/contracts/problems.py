"""A stored problem: why a model was rejected or a check failed (a subset of RFC 9457)."""

from pydantic import BaseModel, Field


class StoredProblem(BaseModel):
    """What went wrong, where, and what would be right."""

    code: str = Field(
        description="Kebab-case name of the error, stable across versions.", examples=["state-dict-mismatch"]
    )
    title: str = Field(description="One line for a person.")
    detail: str = Field(description="What was wrong, where, and what would be right.")
    field: str | None = Field(
        default=None, description="JSON pointer into the request or the manifest, when one field is to blame."
    )
