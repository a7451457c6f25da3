"""Working examples of the body, and the formats of the answer."""

from typing import Any, Literal

from app.web.problems import NotAcceptableError

PERTURB_EXAMPLES: dict[str, Any] = {
    "Three attackers at the paper's levels": {
        "texts": ["A gripping film from its first minute to its last.", "Not for me."],
        "attackers": ["visual", "keyboard_typo", "segment"],
    },
    "Pairs of premise and hypothesis, as an audit of seed 7 gives them": {
        "texts": [["A man is sleeping on a bench.", "Nobody is awake."]],
        "attackers": ["intrude"],
        "levels": [0.8],
        "phi": 0.2,
        "seed": 7,
    },
    "Five misspelt copies of a tagged sentence, for training": {
        "sentences": [["The", "ship", "may", "leave", "the", "harbour", "."]],
        "attackers": ["combined"],
        "levels": [0.5],
        "draws": 5,
    },
}

PerturbFormat = Literal["json", "jsonl"]

JSON = "application/json"
JSONL = "application/x-ndjson"
MEDIA_TYPES: dict[PerturbFormat, str] = {"json": JSON, "jsonl": JSONL}

_BY_MEDIA_TYPE: dict[str, PerturbFormat] = {
    JSON: "json",
    JSONL: "jsonl",
    "application/jsonl": "jsonl",
    "application/*": "json",
    "*/*": "json",
}


def choose_format(asked: PerturbFormat | None, accept: str | None) -> PerturbFormat:
    """Return the format to answer in: the query's, else the first acceptable one of the Accept header.

    Raises:
        NotAcceptableError: Only other formats would do.

    >>> choose_format(None, "application/jsonl, application/json"), choose_format(None, None)
    ('jsonl', 'json')
    """
    if asked is not None:
        return asked
    for part in (accept or "*/*").split(","):
        media_type = part.partition(";")[0].strip().lower()
        if media_type in _BY_MEDIA_TYPE:
            return _BY_MEDIA_TYPE[media_type]
    raise NotAcceptableError(f"Noise comes as {JSON} or {JSONL} (or ask with ?format=json or ?format=jsonl).")
