"""What a check has asked of a text model, or of an endpoint."""

from pydantic import Field

from seatrial.contracts.base import Read


class Meters(Read):
    """What a check has asked of the text model, or of the endpoint, under audit so far."""

    queries: int = Field(description="Scores its attacks asked for.")
    forward_passes: int = Field(
        description="Texts the model computed, or texts or images the endpoint was sent; the rest was known."
    )
    hit_rate: float | None = Field(description="Share of queries answered from the cache of logits; null at 0 queries.")


def meters_of(asked: tuple[int, int] | None) -> Meters | None:
    """Return the meters of a sum of queries and forward passes.

    >>> meters_of((200, 50)).hit_rate
    0.75
    """
    if asked is None:
        return None
    queries, passes = asked
    # A text that is sent again is a pass without a query: never a hit rate below zero.
    rate = max(0.0, 1 - passes / queries) if queries else None
    return Meters(queries=queries, forward_passes=passes, hit_rate=rate)
