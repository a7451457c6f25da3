"""What a client does, as data: an operation is written once, as steps, and each client takes them in its own way.

A step is given to a generator's caller, who answers it: :class:`Request` with a response, :class:`Read` with a piece of
a streamed one. What goes wrong on the way (``httpx.TransportError``) is raised at the step.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """A file, or what can be read like one from its beginning, as often as it must be sent."""

    @property
    def name(self) -> str:
        """What the service calls it in messages."""
        ...

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """Return its bytes from the beginning."""
        ...


@dataclass(frozen=True)
class Upload:
    """A file and what it means.

    Attributes:
        source: The file.
        manifest: As JSON.
    """

    source: Source
    manifest: str

    @contextmanager
    def parts(self) -> Iterator[dict[str, Any]]:
        """Give the parts of a multipart body; an open file is read in pieces, so its size costs no memory."""
        with self.source.open("rb") as opened:
            yield {"manifest": (None, self.manifest, "application/json"), "file": (self.source.name, opened)}


@dataclass(frozen=True)
class Request:
    """Send a request; answered with the response.

    Attributes:
        method: HTTP method.
        path: From ``/v1`` on.
        params: Query parameters.
        json: Body, as JSON.
        headers: Further headers.
        upload: Body, as multipart.
        read_timeout_s: Seconds without a byte of the answer; None for the client's own patience.
        is_repeatable: Whether twice is the same as once, so that a lost answer may be asked for again.
        stream: How the body of the answer is read by the following :class:`Read` steps; None: at once.
    """

    method: Literal["GET", "POST"]
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: Upload | None = None
    read_timeout_s: float | None = None
    is_repeatable: bool = True
    stream: Literal["bytes", "lines"] | None = None


@dataclass(frozen=True)
class Read:
    """Read on in the answer to the last streamed request; answered with bytes or a line, None at its end."""


@dataclass(frozen=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True)
class Item(Generic[T]):
    """Give a value to whoever called."""

    value: T


Step = Request | Read | Pause
Steps = Generator[Step, Any, T]
"""The steps of an operation that returns a T."""
Items = Generator[Step | Item[T], Any, None]
"""The steps of an operation that yields any number of T."""


def as_items(steps: Steps[T]) -> Items[T]:
    """Return an operation that yields what another returns."""
    yield Item((yield from steps))


def advance(steps: Generator[Any, Any, None], outcome: object, error: Exception | None) -> Any:
    """Return the next step after telling how the last one went, or None after the last."""
    try:
        return steps.send(outcome) if error is None else steps.throw(error)
    except StopIteration:
        return None
