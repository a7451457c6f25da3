"""A webhook's secret is rotated: which one signs, and until when."""

from datetime import datetime, timedelta

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from tests.conftest import TestClient
from tests.scripted import Scripted
from tests.web.test_problems import assert_problem
from tests.webhooks.hooks import make, send, verified


def test_during_a_rotation_either_secret_verifies_and_then_the_new_one_alone(
    quiet: TestClient, receiver: Scripted
) -> None:
    hook = make(quiet, receiver.url)
    rotated = quiet.post(f"/v1/webhooks/{hook['id']}/rotate-secret", json={"overlap_s": 60})
    assert rotated.status_code == 200
    new = rotated.json()["secret"]
    quiet.post(f"/v1/webhooks/{hook['id']}/ping")
    send(quiet)
    assert len(receiver.asked[0].headers["webhook-signature"].split(" ")) == 2
    assert verified(receiver.asked[0], hook["secret"]) == verified(receiver.asked[0], new)
    quiet.post(f"/v1/webhooks/{hook['id']}/ping")
    send(quiet, timedelta(seconds=61))
    assert verified(receiver.asked[1], new)
    with pytest.raises(WebhookVerificationError):
        verified(receiver.asked[1], hook["secret"])


def test_a_secret_that_leaked_ends_at_once(quiet: TestClient, receiver: Scripted) -> None:
    hook = make(quiet, receiver.url)
    path = f"/v1/webhooks/{hook['id']}/rotate-secret"
    assert quiet.post(path, json={}).json()["previous_until"]
    new = quiet.post(path, json={"overlap_s": 0}).json()
    assert new["previous_until"] is None
    quiet.post(f"/v1/webhooks/{hook['id']}/ping")
    send(quiet)
    assert len(receiver.asked[0].headers["webhook-signature"].split(" ")) == 1
    assert verified(receiver.asked[0], new["secret"])


def test_a_rotation_needs_no_body_and_then_overlaps_for_a_day(quiet: TestClient) -> None:
    path = f"/v1/webhooks/{make(quiet)['id']}/rotate-secret"
    bare, told = quiet.post(path), quiet.post(path, json={})
    assert bare.status_code == 200, bare.text
    first, second = (datetime.fromisoformat(one.json()["previous_until"]) for one in (bare, told))
    assert abs(second - first) < timedelta(minutes=1)
    assert_problem(quiet.post(path, content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    assert_problem(quiet.post(path, json={"overlap_s": -1}), 422)


def test_secrets_do_not_pile_up(quiet: TestClient) -> None:
    path = f"/v1/webhooks/{make(quiet)['id']}/rotate-secret"
    answers = [quiet.post(path, json={}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 409]
    assert_problem(answers[3], 409, "conflict")
    assert quiet.post(path, json={"overlap_s": 0}).status_code == 200
