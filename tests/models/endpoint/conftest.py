"""An endpoint classifier of a server that answers as it is told, on a clock that only sleeping moves."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seatrial.store.settings import Settings
from tests.models.endpoint.asked import Clock, classifying, manifest, settings
from tests.scripted import Scripted, serving
from workers.models.endpoint import EndpointClassifier


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving(classifying()) as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def classifier(server: Scripted, clock: Clock) -> Iterator[Callable[..., EndpointClassifier]]:
    """Return a function that makes a classifier of the server."""
    made: list[EndpointClassifier] = []

    def make(
        allowed: Settings | None = None, spent: int = 0, project: str = "default", **more: Any
    ) -> EndpointClassifier:
        said = manifest(more.pop("url", server.url), **more)
        made.append(
            EndpointClassifier(said, allowed or settings(), project, spent=spent, clock=clock, sleep=clock.sleep)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
