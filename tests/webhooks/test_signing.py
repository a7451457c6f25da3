"""Signatures against the library receivers use, and the rotation of secrets."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.webhooks.signing import SECRET_PREFIX, in_force, new_secret, rotated, sign, signed_headers, stored

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)

keys = st.binary(min_size=24, max_size=64).map(lambda key: SECRET_PREFIX + base64.b64encode(key).decode())
message_ids = st.from_regex(r"dlv_[0-9a-f]{32}", fullmatch=True)


@given(keys, message_ids, st.integers(0, 2**33), st.text())
def test_the_library_signs_the_same(secret: str, message_id: str, timestamp: int, text: str) -> None:
    body = json.dumps(text)
    theirs = Webhook(secret).sign(message_id, datetime.fromtimestamp(timestamp, UTC), body)
    assert sign(secret, message_id, timestamp, body.encode()) == theirs


@given(st.lists(keys, min_size=1, max_size=4, unique=True), message_ids, st.dictionaries(st.text(), st.integers()))
def test_every_secret_in_force_verifies_a_message(secrets: list[str], message_id: str, data: dict[str, int]) -> None:
    body = json.dumps(data, ensure_ascii=False).encode()
    headers = signed_headers(secrets, message_id, datetime.now(UTC), body)
    for secret in secrets:
        assert Webhook(secret).verify(body, headers) == data


@pytest.mark.parametrize("changed", ["webhook-id", "webhook-timestamp", "body", "secret"])
def test_whatever_is_changed_is_noticed(changed: str) -> None:
    secret, body = new_secret(), b'{"verdict": "failed"}'
    headers = signed_headers([secret], "dlv_1", datetime.now(UTC), body)
    if changed == "webhook-id":
        headers[changed] = "dlv_2"
    elif changed == "webhook-timestamp":
        headers[changed] = str(int(headers[changed]) + 1)
    elif changed == "body":
        body = b'{"verdict": "passed"}'
    else:
        secret = new_secret()
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers)


def test_secrets_are_new_and_long_enough() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(24 <= len(base64.b64decode(one.removeprefix(SECRET_PREFIX))) <= 64 for one in made)


def test_the_old_secret_signs_until_the_overlap_is_over() -> None:
    kept = rotated([stored("old")], "new", NOW, DAY)
    for later, wanted in ((timedelta(0), ["new", "old"]), (DAY, ["new"]), (100 * DAY, ["new"])):
        assert [one["secret"] for one in in_force(kept, NOW + later)] == wanted


def test_a_second_rotation_changes_no_end_that_was_promised() -> None:
    kept = rotated([stored("first")], "second", NOW, DAY)
    kept = rotated(kept, "third", NOW + DAY / 2, 7 * DAY)
    assert [one["secret"] for one in in_force(kept, NOW + DAY / 2)] == ["third", "second", "first"]
    assert [one["secret"] for one in in_force(kept, NOW + DAY)] == ["third", "second"]


def test_without_an_overlap_every_old_secret_ends_at_once() -> None:
    kept = rotated(rotated([stored("first")], "second", NOW, DAY), "third", NOW, timedelta(0))
    assert kept == [stored("third")]
