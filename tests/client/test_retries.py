"""Both clients against servers that misbehave: the same scripts, waited for and awaited."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest

from seatrial.client import (
    AsyncClient,
    Client,
    NotJudgedError,
    ProblemResponseError,
    ServiceUnreachableError,
    UnexpectedAnswerError,
    async_audits,
    sync_audits,
)
from seatrial.client.retries import asked_pause_s, backoff_s
from seatrial.contracts.events import EventRead
from seatrial.contracts.policies import Policy
from tests.client.asking import AUDIT, MODEL, NOW, Answer, Asking, Broken, failing, page, said, status
from tests.servers import free_port

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3, "effort": "quick"}
POLICY = {"name": "p", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 1}]}


def test_reads_are_tried_again_with_growing_pauses(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(failing(httpx.ReadError), status(503), status(429, **{"Retry-After": "7"}), page())
    assert one.every("models") == []
    assert len(one.requests) == 4
    assert pauses == [0.2, 0.4, 7.0]


def test_patience_ends_with_the_last_problem(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(*[status(503)] * 4)
    with pytest.raises(ProblemResponseError, match="T: D"):
        one.ask("audit", "aud_1")
    assert len(one.requests) == 4


def test_pauses_are_shortened_by_chance_to_half_at_most_and_grow_to_ten_seconds() -> None:
    drawn = [[backoff_s(attempt) for _ in range(200)] for attempt in range(12)]
    for attempt, pauses in enumerate(drawn):
        most = min(0.2 * 2**attempt, 10.0)
        assert most / 2 <= min(pauses) < max(pauses) <= most


def test_a_date_or_seconds_say_how_long_to_wait() -> None:
    def asked(value: str) -> float:
        return asked_pause_s(httpx.Response(503, headers={"Retry-After": value}))

    assert 25 < asked(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)) <= 30
    assert asked("3600") == 3600.0
    assert asked("soon") == asked("-1") == asked("") == 0.0


def test_an_audit_is_submitted_once_however_often_it_is_sent(
    asking: Callable[..., Asking], pauses: list[float]
) -> None:
    one = asking(failing(httpx.ReadTimeout), status(503), said(AUDIT))
    assert one.ask("submit", "mdl_1", "dat_1", [CHECK], seed=3).id == "aud_1"
    keys = {request.headers["Idempotency-Key"] for request in one.requests}
    assert len(one.requests) == 3
    assert len(keys) == 1
    another = asking(said(AUDIT))
    another.ask("submit", "mdl_1", "dat_1", [CHECK])
    assert another.requests[0].headers["Idempotency-Key"] not in keys


def test_a_key_of_the_caller_is_sent_as_it_is(asking: Callable[..., Asking]) -> None:
    one = asking(said(AUDIT))
    one.ask("submit", "mdl_1", "dat_1", [CHECK], idempotency_key="build-7")
    assert one.requests[0].headers["Idempotency-Key"] == "build-7"


def test_what_must_not_be_done_twice_is_sent_once(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one, two = asking(status(503)), asking(failing(httpx.ReadTimeout))
    with pytest.raises(ProblemResponseError):
        one.ask("retry", "aud_1")
    with pytest.raises(ServiceUnreachableError):
        two.ask("retry", "aud_1")
    assert len(one.requests) == len(two.requests) == 1
    assert pauses == []


def test_whatever_was_not_begun_is_tried_again(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(failing(httpx.ConnectError), status(429), status(422))
    with pytest.raises(ProblemResponseError, match="T: D"):
        one.ask("retry", "aud_1")
    assert len(one.requests) == 3


def test_an_upload_is_read_from_its_beginning_each_time(
    asking: Callable[..., Asking], pauses: list[float], tmp_path: Path
) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"weights")
    one = asking(status(503), failing(httpx.WriteError), said(MODEL))
    assert one.ask("add_model", weights, {"name": "m"}).id == "mdl_1"
    assert len(one.requests) == 3
    assert one.requests[0].headers["Prefer"] == "wait=30"
    # A service reads a large upload to its end before it answers.
    assert one.requests[0].extensions["timeout"]["read"] == 630
    for body in one.bodies:
        assert b'filename="w.safetensors"' in body
        assert b"weights" in body
        assert json.dumps({"name": "m"}).encode() in body
    assert all(int(request.headers["Content-Length"]) == len(one.bodies[0]) for request in one.requests)


def test_an_endpoint_is_sent_again_and_waited_for(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(status(503), failing(httpx.ReadTimeout), status(422))
    with pytest.raises(ProblemResponseError, match="T: D"):
        one.ask("add_endpoint", {"name": "e"}, wait_s=60)
    assert [request.headers["Prefer"] for request in one.requests] == ["wait=60"] * 3
    assert one.requests[0].extensions["timeout"]["read"] == 90


def test_what_is_no_problem_document_is_told_all_the_same(asking: Callable[..., Asking]) -> None:
    one = asking(lambda request: httpx.Response(418, text="<html>teapot"))
    with pytest.raises(ProblemResponseError, match="HTTP 418: <html>teapot"):
        one.ask("audit", "aud_1")


def test_lists_are_read_page_by_page(asking: Callable[..., Asking]) -> None:
    one = asking(page(MODEL, cursor="next"), page({**MODEL, "id": "mdl_0"}))
    assert [model.id for model in one.every("models", name="m", state=None)] == ["mdl_1", "mdl_0"]
    assert [dict(request.url.params) for request in one.requests] == [{"name": "m"}, {"name": "m", "cursor": "next"}]


def test_a_list_whose_pages_do_not_end_ends(asking: Callable[..., Asking]) -> None:
    one = asking(page(MODEL, cursor="next"), page(MODEL, cursor="next"))
    with pytest.raises(UnexpectedAnswerError, match="do not end"):
        one.every("models")


def test_a_lost_answer_to_a_cancellation_is_found_out(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(failing(httpx.ReadError), status(409), said({**AUDIT, "state": "cancelled"}))
    assert one.ask("cancel", "aud_1").state == "cancelled"
    ended = asking(status(409), said({**AUDIT, "state": "succeeded"}))
    with pytest.raises(ProblemResponseError):
        ended.ask("cancel", "aud_1")
    unknown = asking(status(404))
    with pytest.raises(ProblemResponseError):
        unknown.ask("cancel", "aud_1")
    assert len(unknown.requests) == 1


def test_waiting_survives_a_restart_of_the_service(asking: Callable[..., Asking], pauses: list[float]) -> None:
    away = [failing(httpx.ConnectError)] * 8
    one = asking(said(AUDIT), *away, said({**AUDIT, "state": "failed"}), retries=1)
    seen: list[str] = []
    assert one.ask("wait", "aud_1", progress=lambda audit: seen.append(audit.state)).state == "failed"
    assert seen == ["queued", "failed"]
    gone = asking(*away, retries=1)
    with pytest.raises(ServiceUnreachableError):
        gone.ask("wait", "aud_1", outage_s=0)


def test_waiting_for_the_verdict_goes_on_after_the_end(asking: Callable[..., Asking], pauses: list[float]) -> None:
    ended = {**AUDIT, "state": "succeeded"}
    one = asking(said(AUDIT), said(ended), said(ended), said({**ended, "verdict": "failed"}))
    assert one.ask("wait", "aud_1", until_judged=True).verdict == "failed"
    assert len(one.requests) == 4


def test_the_verdict_is_waited_for_where_a_policy_was_submitted(
    asking: Callable[..., Asking], pauses: list[float]
) -> None:
    ended = {**AUDIT, "state": "succeeded"}
    gated = {**ended, "spec": {"policy": POLICY}}
    judged = {**gated, "verdict": "passed"}
    assert asking(said(gated), said(judged)).ask("wait", "aud_1").verdict == "passed"
    assert asking(said(gated)).ask("wait", "aud_1", until_judged=False).verdict is None
    # As a service answers without a policy.
    assert asking(said({**ended, "spec": {"policy": None}})).ask("wait", "aud_1").verdict is None


def test_a_verdict_that_does_not_come_is_not_waited_for_for_ever(
    asking: Callable[..., Asking], pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100 + sum(pauses), sleep=pauses.append)
    for module in (sync_audits, async_audits):
        monkeypatch.setattr(module, "time", clock)
    one = asking(said(AUDIT), *[said({**AUDIT, "state": "succeeded"})] * 400)
    with pytest.raises(NotJudgedError, match="succeeded and not judged after 60 s"):
        one.ask("wait", "aud_1", until_judged=True)
    # From its end on, as often as at the beginning.
    assert 60 < sum(pauses[1:]) < 60.5
    assert set(pauses) == {0.2}


def event(seq: int, kind: str = "progress", **data: Any) -> bytes:
    told = json.dumps({"seq": seq, "kind": kind, "data": data, "created_at": NOW})
    return f"id: {seq}\nevent: {kind}\ndata: {told}\n\n".encode()


def streamed(*pieces: bytes) -> Answer:
    return lambda request: httpx.Response(200, content=b"".join(pieces))


def test_events_go_on_where_the_stream_broke(asking: Callable[..., Asking], pauses: list[float]) -> None:
    cut = event(3)[:-10]
    one = asking(
        lambda request: httpx.Response(200, stream=Broken(b"retry: 2000\n\n", event(1), event(2), cut)),
        failing(httpx.ConnectError),
        # Ended as cleanly as by a proxy that had enough, while the audit goes on.
        streamed(event(3)),
        said(AUDIT),
        streamed(b": heartbeat\n\n", event(4, "audit", state="succeeded")),
        said({**AUDIT, "state": "succeeded"}),
        streamed(event(5, "verdict", verdict="passed")),
        said({**AUDIT, "state": "succeeded"}),
        streamed(),
    )
    assert [one.seq for one in one.every("events", "aud_1")] == [1, 2, 3, 4, 5]
    resumed = [request.headers.get("Last-Event-ID") for request in one.requests]
    assert resumed == ["0", "2", "2", None, "3", None, "4", None, "5"]


def test_a_stream_that_breaks_often_is_followed_while_it_brings_something(
    asking: Callable[..., Asking], pauses: list[float]
) -> None:
    def breaking(seq: int) -> Answer:
        return lambda request: httpx.Response(200, stream=Broken(event(seq)))

    ended = said({**AUDIT, "state": "succeeded"})
    one = asking(*[breaking(seq) for seq in range(1, 7)], streamed(), ended, streamed(), retries=1)
    assert [one.seq for one in one.every("events", "aud_1")] == [1, 2, 3, 4, 5, 6]
    assert pauses == [0.2] * 6


def test_a_stream_that_keeps_breaking_is_given_up(asking: Callable[..., Asking], pauses: list[float]) -> None:
    one = asking(*[lambda request: httpx.Response(200, stream=Broken())] * 4)
    with pytest.raises(ServiceUnreachableError, match="broke off"):
        one.every("events", "aud_1")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_stream_that_is_left_early_is_closed(kind: type[Client] | type[AsyncClient]) -> None:
    class Left(Broken):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

        async def aclose(self) -> None:
            self.close()

    body = Left(event(1), event(2))
    transport: Any = httpx.MockTransport(lambda request: httpx.Response(200, stream=body))
    client: Any = kind("http://service", transport=transport)
    events = client.events("aud_1")

    async def first() -> EventRead:
        found: EventRead = await anext(events)
        assert not body.is_closed
        await events.aclose()
        return found

    if kind is AsyncClient:
        assert anyio.run(first).seq == 1
    else:
        assert next(events).seq == 1
        assert not body.is_closed
        events.close()
    assert body.is_closed


def test_a_download_is_there_whole_or_not_at_all(
    asking: Callable[..., Asking], pauses: list[float], tmp_path: Path
) -> None:
    target = tmp_path / "bundle.zip"
    one = asking(lambda request: httpx.Response(200, stream=Broken(b"ha")), streamed(b"whole"))
    assert one.ask("bundle", "aud_1", target) == target
    assert target.read_bytes() == b"whole"
    problem = httpx.ByteStream(b'{"title": "T", "detail": "D"}')
    refused = asking(status(503), lambda request: httpx.Response(404, stream=problem))
    with pytest.raises(ProblemResponseError, match="T: D"):
        refused.ask("bundle", "aud_1", target)
    broken = asking(*[lambda request: httpx.Response(200, stream=Broken(b"ha"))] * 4)
    with pytest.raises(ServiceUnreachableError, match="broke off"):
        broken.ask("records", "aud_1", "0", target)
    assert target.read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.zip"]


def test_files_may_be_named_by_their_paths(asking: Callable[..., Asking], tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    one = asking(said(MODEL), streamed(b"whole"))
    assert one.ask("add_model", f"{tmp_path}/w.safetensors", {}).id == "mdl_1"
    assert b'filename="w.safetensors"' in one.bodies[0]
    assert one.ask("records", "aud_1", "0", f"{tmp_path}/records.parquet") == tmp_path / "records.parquet"


def test_only_fields_that_are_given_are_sent_beside_the_defaults(asking: Callable[..., Asking]) -> None:
    one = asking(said(AUDIT), said(AUDIT))
    one.ask("submit", "mdl_1", "dat_1", [CHECK])
    one.ask("submit", "mdl_1", "dat_1", iter([CHECK]), policy=Policy.model_validate(POLICY), seed=3, later=[1])
    defaults = {"seed": 0, "batch_size": 64, "max_error_rate": 0.05}
    plain = {"model": "mdl_1", "dataset": "dat_1", "checks": [CHECK], **defaults}
    sent = [json.loads(body) for body in one.bodies]
    policy = sent[1].pop("policy")
    assert sent == [plain, {**plain, "seed": 3, "later": [1]}]
    assert policy["rules"][0]["max"] == 1.0


def test_an_id_stays_one_step_of_the_path(asking: Callable[..., Asking]) -> None:
    one = asking(status(404))
    with pytest.raises(ProblemResponseError):
        one.ask("policy", "../audits?x=1#y")
    assert one.requests[0].url.raw_path == b"/v1/policies/..%2Faudits%3Fx%3D1%23y"


def test_nobody_there(pauses: list[float]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, retries=2) as client, pytest.raises(ServiceUnreachableError, match=f"no service at {url}"):
        list(client.models())
    assert len(pauses) == 2
