"""Quotas, rate limits and deadlines: what is told at once, and what is waited for."""

from collections.abc import Callable

import httpx
import pytest

from seatrial.client import (
    DeadlineError,
    ProblemResponseError,
    WaitTimeoutError,
)
from seatrial.client.deadlines import within
from tests.client.asking import AUDIT, Answer, Asking, failing, said, status

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3, "effort": "quick"}


def used_up(limit: str) -> Answer:
    """Answer as a service does where a quota refuses."""
    body = {"title": "T", "detail": "D", "status": 429, "code": "quota-exceeded", "limit": {"name": limit}}
    return lambda request: httpx.Response(429, headers={"Retry-After": "30"}, json=body)


@pytest.mark.parametrize("limit", ["daily_s", "unfinished_audits"])
def test_a_quota_that_is_used_up_is_told_at_once(
    asking: Callable[..., Asking], pauses: list[float], limit: str
) -> None:
    one = asking(used_up(limit))
    with pytest.raises(ProblemResponseError, match="T: D"):
        one.ask("submit", "mdl_1", "dat_1", [CHECK])
    assert pauses == []


@pytest.mark.parametrize("limit", ["requests_per_s", "open_uploads"])
def test_a_rate_is_waited_for_under_the_code_of_a_quota_too(
    asking: Callable[..., Asking], pauses: list[float], limit: str
) -> None:
    one = asking(used_up(limit), said(AUDIT))
    assert one.ask("submit", "mdl_1", "dat_1", [CHECK]).id == "aud_1"
    assert pauses == [30.0]


def test_a_rate_limit_of_an_hour_is_told_and_an_outage_of_an_hour_tried_again(
    asking: Callable[..., Asking], pauses: list[float]
) -> None:
    one = asking(status(429, **{"Retry-After": "3600"}))
    with pytest.raises(ProblemResponseError, match="T: D"):
        one.ask("audit", "aud_1")
    assert pauses == []
    assert asking(status(503, **{"Retry-After": "3600"}), said(AUDIT)).ask("audit", "aud_1").id == "aud_1"
    assert pauses == [120.0]


def test_nothing_is_sent_again_beyond_a_deadline(asking: Callable[..., Asking], pauses: list[float]) -> None:
    limited = status(429, **{"Retry-After": "60"})
    one, unreachable = asking(limited), asking(failing(httpx.ReadError))
    with within(30), pytest.raises(DeadlineError, match="no time is left to ask again: T: D"):
        one.ask("submit", "mdl_1", "dat_1", [CHECK])
    assert one.requests[0].extensions["timeout"]["read"] <= 30
    # The earlier of two deadlines holds.
    with within(0), within(30), pytest.raises(DeadlineError, match="GET /v1/models: no"):
        unreachable.every("models")
    assert pauses == []
    # It is over with its block.
    assert asking(limited, said(AUDIT)).ask("audit", "aud_1").id == "aud_1"


def test_waiting_for_an_audit_ends_in_time_also_where_the_service_asks_for_longer(
    asking: Callable[..., Asking], pauses: list[float]
) -> None:
    one = asking(said(AUDIT), status(429, **{"Retry-After": "60"}))
    with pytest.raises(WaitTimeoutError, match="still queued after 30 s"):
        one.ask("wait", "aud_1", timeout_s=30)
    assert pauses == [0.2]
