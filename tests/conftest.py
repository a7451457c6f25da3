"""The API in this process on a migrated SQLite database of its own, and small uploads for it."""

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from app.access.service import create_key
from app.main import create_app
from app.web.periodic import PeriodicRunner
from app.web.services import Services
from seatrial.sandbox.calls import Call
from seatrial.sandbox.zygote import named
from seatrial.store.settings import Settings
from tests import shared
from tests.databases import database, migrated_file, postgres_url
from tests.memory import keep_temporary_files_in_memory
from workers.processors import keep_places_apart

with warnings.catch_warnings():
    # Starlette would rather have httpx2; we have httpx for our own client.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

# Fixtures of every module from here: one imported into several modules is one for each, and so was its server.
__all__ = ["database", "postgres_url"]

# A busy machine is no failure, and neither may a lucky draw be: the same examples every time, others with test-all.
# The same examples every time find nothing new: a quarter of what is drawn where it searches (make test-all).
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("searching", deadline=None)
hypothesis.settings.load_profile(os.environ.get("SEATRIAL_HYPOTHESIS", "repeatable"))

keep_temporary_files_in_memory()

# Models of tests compute in the tests' process, as those of workers do in theirs.
keep_places_apart()

# Workers take every core unless told: two threads that wait for each other on shared cores took ten times as long.
os.environ.setdefault("SEATRIAL_TORCH_THREADS", "1")

BASE_URL = "http://127.0.0.1"

# What is imported and collected stays to the end: looking it through for garbage took a fifth of the tests' time.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, of what the tests make."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `tests/fuzz` is asked for; see its conftest."""
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz-cases", type=int, default=100, help="cases of each fuzzer")
    group.addoption("--fuzz-seed", type=int, default=0, help="what the cases follow from")
    group.addoption("--fuzz-case", type=int, default=None, help="run only the case of this number")


SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text().split())
"""Tests that were measured to take too long for `make test-fast`; `scripts/slow_tests.py` writes them down."""

LONG = frozenset(Path(__file__).with_name("long.txt").read_text().split())
"""Tests that show one thing on several set-ups and take long: the first is for `make test`, the others are drills."""

DRILLS = frozenset(Path(__file__).with_name("drills.txt").read_text().split())
"""Tests of minutes in all, of whose guarantees `make test` has a shorter one each: they are for `make test-all`."""

# Fixtures that start a server or a process, whatever test asks for them.
SERVED = {"server", "postgres_url", "valkey", "broker_url", "shared", "browser", "tab", "service", "serving"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a server as ``served``, and begin with files of real processes: the last file bounds the run."""
    begun: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in DRILLS or (name in LONG and name in begun):
            item.add_marker(pytest.mark.drill)
        begun.add(name)
        wanted = set(getattr(item, "fixturenames", ()))
        chosen = getattr(getattr(item, "callspec", None), "params", {})
        if wanted & SERVED or chosen.get("database") == "postgres":
            item.add_marker(pytest.mark.served)
        if name in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.path.parent.name == "e2e":
        return 0
    marks = getattr(getattr(item, "module", None), "pytestmark", [])
    return 1 if any(mark.name == "slow" for mark in (marks if isinstance(marks, list) else [marks])) else 2


@pytest.fixture(scope="session", autouse=True)
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Share what takes seconds to make with the other processes of the run."""
    own = tmp_path_factory.getbasetemp()
    shared.use(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let no test leave torch with more threads: processes share the cores, and waiting threads take them away."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def inspected_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect what is uploaded to an application of this process here: a child for each takes as long as all the rest.

    Real servers have children always, and so has what is marked ``inspected_apart``: what is about the children.
    """
    if request.node.get_closest_marker("inspected_apart") is None:
        monkeypatch.setattr("app.web.inspecting.Call", Here)


class Here(Call):
    """An inspection without a child."""

    def __call__(self) -> Any:
        return named(self._function)(*self._arguments, self._settings)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Keyless, in a folder of its own, with low limits."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_file(), home / "seatrial.db")
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    return Settings(
        home=home,
        require_keys=False,
        allowed_paths=[allowed],
        max_model_bytes=200_000,
        max_dataset_bytes=400_000,
        max_json_bytes=20_000,
    )


class Idle(PeriodicRunner):
    """Periodic work that nobody does: a first round of it is two thirds of what an application takes to start."""

    def start(self) -> None:
        """Do nothing."""


@contextmanager
def opened(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Open an application that does nothing by itself: what it would do, tests do where it matters, or serve it."""
    client = TestClient(create_app(settings), base_url=BASE_URL, raise_server_exceptions=False)
    with monkeypatch.context() as patch:
        patch.setattr("app.main.PeriodicRunner", Idle)
        client.__enter__()
    try:
        yield client
    finally:
        client.__exit__()


@pytest.fixture
def client(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A client of the keyless API."""
    with opened(settings, monkeypatch) as client:
        yield client


@pytest.fixture
def services(client: TestClient) -> Services:
    """What the API of ``client`` works with."""
    return client.app.state.services  # type: ignore[attr-defined]


@pytest.fixture
def keyed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A client of an API that wants keys; ``key_for`` makes them."""
    with opened(settings.model_copy(update={"require_keys": True}), monkeypatch) as client:
        yield client


def key_for(client: TestClient, scope: Any = "run", project: str = "vision") -> dict[str, str]:
    """Return the header of a new key."""
    secret, _ = create_key(client.app.state.services.database, project, f"{scope} key", scope)  # type: ignore[attr-defined]
    return {"Authorization": f"Bearer {secret}"}
