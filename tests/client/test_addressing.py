"""Which service is asked, with which key, and about what: an id, or what a client returned."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import httpx
import pytest

from seatrial.client import (
    AsyncClient,
    Audit,
    Client,
    Model,
    ProblemResponseError,
)
from seatrial.net.trust import trusted
from tests.client.asking import AUDIT, MODEL, Asking, page, said, status

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3, "effort": "quick"}


def test_what_a_client_returned_stands_for_its_id(asking: Callable[..., Asking]) -> None:
    model, audit = Model.model_validate(MODEL), Audit.model_validate(AUDIT)
    data = SimpleNamespace(id="dat_1")
    ended, verdict = {**AUDIT, "state": "succeeded"}, status(404)
    one = asking(said(AUDIT), said(ended), page(), *[verdict] * 4)
    one.ask("submit", model, data, [CHECK], policy="standard", baseline=audit)
    body = json.loads(one.bodies[0])
    assert (body["model"], body["dataset"], body["baseline"]) == ("mdl_1", "dat_1", "aud_1")
    assert one.ask("wait", audit).id == "aud_1"
    one.every("audits", model=model)
    asked = ("compare", [audit, "aud_2"]), ("leaderboard", data, "calibration"), ("judge", audit, "standard")
    for name, *arguments in (*asked, ("harden", model, data, "pgd_at", {"dataset": model, "checks": [CHECK]})):
        with pytest.raises(ProblemResponseError):
            one.ask(name, *arguments)
    paths = [f"{request.url.path}?{request.url.query.decode()}" for request in one.requests[1:-1]]
    audits, comparison = "/v1/audits?model=mdl_1", "/v1/comparison?audit=aud_1&audit=aud_2"
    leaderboard = "/v1/leaderboard?dataset=dat_1&check=calibration"
    assert paths == ["/v1/audits/aud_1?", audits, comparison, leaderboard, "/v1/audits/aud_1/judge?"]
    hardening = json.loads(one.bodies[-1])
    assert (hardening["model"], hardening["dataset"], hardening["audit"]["dataset"]) == ("mdl_1", "dat_1", "mdl_1")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_environment_names_the_service_and_its_key(
    kind: type[Client] | type[AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SEATRIAL_URL", "SEATRIAL_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert kind().base_url == "http://127.0.0.1:8000"
    monkeypatch.setenv("SEATRIAL_URL", "http://service:1/")
    monkeypatch.setenv("SEATRIAL_KEY", "sea_env")
    sent = [kind(), kind(api_key="sea_own"), kind("http://other:2")]
    assert [one.base_url for one in sent] == ["http://service:1", "http://service:1", "http://other:2"]
    # The key of one service goes to no other.
    keys = [one._http.headers.get("Authorization") for one in sent]
    assert keys == ["Bearer sea_env", "Bearer sea_own", None]


def test_a_key_is_sent_without_the_newline_of_its_file() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Authorization", "none"))
        return page()(request)

    for key in ("sea_secret\n", "\n", None):
        with Client("http://service", key, transport=httpx.MockTransport(answer)) as client:
            list(client.models())
    assert sent == ["Bearer sea_secret", "none", "none"]


@pytest.mark.parametrize("address", ["service:8000", "", "ftp://service", "http://", "http://[::"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_is_no_address_is_refused(kind: type[Client] | type[AsyncClient], address: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        kind(address)


def test_authorities_are_read_once_for_all_clients() -> None:
    with Client("http://127.0.0.1:1") as one, Client("https://seatrial.example") as other:
        assert {speaking._http._transport._pool._ssl_context for speaking in (one, other)} == {trusted()}
