"""What the clients send: requests as data, so that one can be sent again."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, overload
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from seatrial.client.deadlines import capped_s
from seatrial.contracts.base import Read

INSPECTED_S = 600.0
"""How long the response to an upload may take: a dataset is read to its end before it is accepted."""


class Source(Protocol):
    """A file, or what can be read like one from its beginning, as often as it must be sent."""

    @property
    def name(self) -> str:
        """What the service calls it in messages."""
        ...

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """Return its bytes from the beginning."""
        ...


class Stored(Protocol):
    """What the service stores under an id: a model, a dataset or an audit, as a client returns it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


@dataclass(frozen=True)
class Upload:
    """A file and its manifest.

    Attributes:
        source: The file.
        manifest: The manifest, as JSON.
    """

    source: Source
    manifest: str


@dataclass(frozen=True)
class Request:
    """One request, to be sent as often as it takes.

    Attributes:
        method: HTTP method.
        path: Path from ``/v1`` on.
        params: Query parameters.
        json: JSON body.
        headers: Further headers.
        upload: Multipart body.
        read_timeout_s: Seconds without a byte of the response; None for the client's own timeout.
        is_repeatable: Whether sending it twice is the same as sending it once, so that it may be sent again when an
            response is lost.
    """

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: Upload | None = None
    read_timeout_s: float | None = None
    is_repeatable: bool = True

    @contextmanager
    def arguments(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Give the arguments of httpx's ``build_request``; the file of an upload is open inside the block."""
        arguments = {
            "method": self.method,
            "url": self.path,
            "params": self.params or None,
            "json": self.json,
            "headers": self.headers,
            "timeout": httpx.Timeout(capped_s(timeout_s), read=capped_s(self.read_timeout_s or timeout_s)),
        }
        if self.upload is None:
            yield arguments
            return
        # httpx reads an open file in pieces, so its size costs no memory.
        with self.upload.source.open("rb") as file:
            manifest = (None, self.upload.manifest, "application/json")
            yield {**arguments, "files": {"manifest": manifest, "file": (self.upload.source.name, file)}}


def upload_request(path: str, file: Source | str, manifest: Mapping[str, Any], wait_s: int = 0) -> Request:
    """Return the upload of a file; the service waits up to ``wait_s`` seconds for a worker to check it."""
    source = Path(file) if isinstance(file, str) else file
    # Uploading the same again returns what is there already, so a lost response may be asked for again.
    options = {**prefer_wait(wait_s), "read_timeout_s": INSPECTED_S + wait_s}
    return Request("POST", path, upload=Upload(source, json.dumps(dict(manifest))), **options)


def prefer_wait(wait_s: int) -> dict[str, Any]:
    """Return what a request needs to ask for the final response within ``wait_s`` seconds."""
    if not wait_s:
        return {}
    return {"headers": {"Prefer": f"wait={wait_s}"}, "read_timeout_s": max(60.0, wait_s + 30.0)}


@overload
def id_of(given: str | Stored) -> str: ...
@overload
def id_of(given: str | Stored | None) -> str | None: ...
def id_of(given: str | Stored | None) -> str | None:
    """Return an id, of what is stored or as it is given; what is neither stays, for the service to name the field."""
    anything: Any = given
    identifier: str | None = getattr(anything, "id", anything)
    return identifier


def path_part(given: str | Stored) -> str:
    """Return text, or the id of something, as one segment of a path, whatever it holds.

    >>> path_part("../audits?x=1")
    '..%2Faudits%3Fx%3D1'
    """
    return quote(id_of(given), safe="")


def as_json(value: Any) -> Any:
    """Return a value as JSON has it, what is stored by its id.

    What JSON lacks stays as it is, for the service to name the field.
    """
    if isinstance(value, Read) and isinstance(stored := getattr(value, "id", None), str):
        return stored
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [as_json(item) for item in value]
    return value


def comparison_query(
    audits: Iterable[str | Stored | Iterable[str | Stored]],
    groups: Mapping[str, Iterable[str | Stored]],
    metrics: Iterable[str],
) -> dict[str, Any]:
    """Return the query of a comparison.

    >>> comparison_query(["aud_1"], {"mine": ["aud_2", "aud_3"]}, [])
    {'audit': ['aud_1'], 'group': ['mine:aud_2,aud_3']}
    >>> comparison_query(["aud_1", ["aud_2", "aud_3"]], {}, [])
    {'audit': ['aud_1', 'aud_2', 'aud_3']}
    """
    # What is stored can be iterated too, over its fields.
    asked: list[Any] = [[one] if isinstance(one, str) or hasattr(one, "id") else one for one in audits]
    named = [f"{name}:{','.join(map(id_of, members))}" for name, members in groups.items()]
    query = {"audit": [id_of(one) for some in asked for one in some], "group": named, "metric": list(metrics)}
    return {name: values for name, values in query.items() if values}


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are given, as JSON has them."""
    return {name: as_json(value) for name, value in values.items() if value is not None}
