"""Messages for people: what Slack and Microsoft Teams accept in place of our own message.

Which form a webhook gets follows from the host it is sent to; neither service accepts any other.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_SLACK = ("hooks.slack.com", "hooks.slack-gov.com")
_TEAMS = (".webhook.office.com", ".logic.azure.com", ".powerplatform.com")
MOST_CHARACTERS = 3000
"""Of a message: Slack cuts a text off beyond 4,000, and Teams refuses a card of more than 28 KB, in UTF-16."""

_MARKS = {"passed": "\u2705", "failed": "\u274c", "inconclusive": "\u2754", "errored": "\u26a0\ufe0f"}


def body_for(url: str, payload: Mapping[str, Any], console: str = "") -> Mapping[str, Any]:
    """Return what is sent to a URL: the message itself, or its form for a chat.

    Args:
        url: Where to.
        payload: The message.
        console: Address of the console, for a link; none without.

    >>> judged = {"type": "audit.judged", "data": {"audit": "aud_1", "verdict": "failed", "headline": "Do not ship."}}
    >>> body_for("https://hooks.slack.com/services/T/B/X", judged, "https://s.example")["text"].partition(" ")[2]
    'Do not ship. https://s.example/audits/aud_1'
    >>> body_for("https://ci.example.com", judged) is judged
    True
    """
    host = (urlsplit(url).hostname or "").lower()
    if host in _SLACK:
        return {"text": _slack(text_of(payload, console)), "unfurl_links": False}
    if host.endswith(_TEAMS):
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "TextBlock", "text": text_of(payload, console), "wrap": True}],
        }
        content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        return {"type": "message", "attachments": [content]}
    return payload


def text_of(payload: Mapping[str, Any], console: str = "") -> str:
    """Return a message in one line."""
    data = payload.get("data", {})
    audit = data.get("audit")
    link = f"{console}/audits/{audit}" if console and audit else audit or ""
    verdict = data.get("verdict")
    what = str(payload.get("type", "")).replace(".", " ").replace("_", " ")
    said = data.get("headline") or (f"Seatrial: {what}" + (f", {verdict}" if verdict else ""))
    if len(said) > MOST_CHARACTERS:
        said = said[:MOST_CHARACTERS].rstrip() + " ..."
    return " ".join(part for part in (_MARKS.get(str(verdict), ""), said, link) if part)


def _slack(text: str) -> str:
    # What a rule's label holds must not become a mention or a link (Slack: "Formatting text", escaping).
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
