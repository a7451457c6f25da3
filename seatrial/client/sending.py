"""How what a client is given goes into a request."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from seatrial.client.steps import Request, Source, Upload

INSPECTED_S = 600.0
"""How long the answer to an upload may take: a dataset is read to its end before it is one."""


def path_part(text: str) -> str:
    """Return a path segment: whatever an id holds, it stays one."""
    return quote(text, safe="")


def waiting(wait_s: int) -> dict[str, Any]:
    """Return how a request asks for the final answer, and how long that may take."""
    if not wait_s:
        return {}
    return {"headers": {"Prefer": f"wait={wait_s}"}, "read_timeout_s": max(60.0, wait_s + 30.0)}


def upload(path: str, file: Source, manifest: Mapping[str, Any], wait_s: int) -> Request:
    """Return the upload of a file; waits up to ``wait_s`` seconds for what a worker finds."""
    # The same again is what is there already, and the file is read from its beginning each time.
    asked = {**waiting(wait_s), "read_timeout_s": INSPECTED_S + wait_s}
    return Request("POST", path, upload=Upload(file, json.dumps(dict(manifest))), **asked)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has not goes as it is, for the service to name the field."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain(one) for one in value]
    return value
