"""What chats accept: the longest headline fits the limits that Slack and Microsoft Teams document."""

import json
from typing import Any

import pytest

from app.webhooks.chat import MOST_CHARACTERS, body_for

SLACK = "https://hooks.slack.com/services/T/B/X"
TEAMS = "https://prod-1.westeurope.logic.azure.com/workflows/1"
LINK = "https://seatrial.example/audits/aud_1"

SLACK_TEXT = 4000
"""Characters of a message's text that Slack asks for at most; longer ones are cut off at 40,000."""

TEAMS_BYTES = 28 * 1024
"""Of a whole message to a webhook of Teams, which counts two bytes a character where no charset is given."""


def judged(headline: str) -> dict[str, Any]:
    return {"type": "audit.judged", "data": {"audit": "aud_1", "verdict": "failed", "headline": headline}}


@pytest.mark.parametrize("headline", ["Do not ship.", "x" * 100_000, "&<>" * 5000, "\u4e16" * 9000], ids=len)
def test_the_longest_headline_fits_and_keeps_its_link(headline: str) -> None:
    text = body_for(SLACK, judged(headline), "https://seatrial.example")["text"]
    # Slack counts characters as people see them, not what escaping makes of them.
    seen = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert len(seen) <= SLACK_TEXT
    assert seen.endswith(f" {LINK}")
    assert headline[:MOST_CHARACTERS] in seen
    card = body_for(TEAMS, judged(headline), "https://seatrial.example")
    assert len(json.dumps(card, ensure_ascii=False).encode("utf-16")) <= TEAMS_BYTES
    (block,) = card["attachments"][0]["content"]["body"]
    assert block["text"] == seen


def test_slack_is_sent_text_alone() -> None:
    """Without blocks there are no limits of blocks to keep: 50 of them, 3,000 characters each."""
    assert set(body_for(SLACK, judged("Do not ship."))) == {"text", "unfurl_links"}


def test_what_a_label_holds_is_no_mention() -> None:
    text = body_for(SLACK, judged("Do not ship: <!channel> & <@U1>"))["text"]
    assert "<" not in text
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in text
