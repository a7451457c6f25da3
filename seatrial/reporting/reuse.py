"""That an audit took records over instead of measuring, as people read it."""

from seatrial.contracts.audits import Reused


def reused_in_words(reused: Reused) -> str:
    """Say whose records the numbers of a check are.

    >>> from datetime import UTC, datetime
    >>> reused_in_words(Reused(audit="aud_1", check="chk_1", measured_at=datetime(2026, 11, 25, tzinfo=UTC)))
    'Not measured again: its records are those of audit aud_1 (check chk_1), measured until 2026-11-25 00:00 UTC'
    """
    when = f"{reused.measured_at:%Y-%m-%d %H:%M} UTC"
    whose = f"audit {reused.audit} (check {reused.check}), measured until {when}"
    return f"Not measured again: its records are those of {whose}"
