"""Randomness that the vendor of a model behind a URL cannot know before its audit.

What is asked of a text model follows from the seed, the same for whoever asks, and the model may be served by them: it
could work out every edited text beforehand. So audits of such models draw a salt, which nobody is told before there is
nothing left to measure: somebody who read it could cancel the audit, and have it go on once the model knows.
"""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from seatrial.contracts.states import RunState

GIVEN, DRAWN = "salt", "drawn_salt"
"""Names in a specification: by whoever asked, and by the service."""


def draw_salt() -> str:
    """Return a new one: 128 bits, in hex."""
    return token_hex(16)


def salt_of(spec: Mapping[str, Any]) -> str | None:
    """Return the salt of an audit; None of one that has none."""
    return spec.get(GIVEN) or spec.get(DRAWN)


def told_spec(spec: Mapping[str, Any], state: str) -> dict[str, Any]:
    """Return a specification as anybody may read it while its audit is in a state.

    >>> told_spec({"seed": 1, "drawn_salt": "ab"}, "running")
    {'seed': 1}
    """
    return {name: value for name, value in spec.items() if name != DRAWN or state == RunState.SUCCEEDED}
