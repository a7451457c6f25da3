"""The console over audits that ended, with and without keys."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.access.service import create_key
from app.main import create_app
from app.web.services import Services
from seatrial.store.settings import Settings
from seatrial.store.tables import Base
from tests.conftest import BASE_URL, TestClient
from tests.console import seeding
from tests.databases import migrated_file

HERE = {"sec-fetch-site": "same-origin"}
"""What a browser says of a request that a page of this service makes."""


@dataclass
class Console:
    """A browser's view of a service."""

    client: TestClient
    services: Services

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page, and follow nothing."""
        return self.client.get(path, headers=headers, follow_redirects=False)

    def post(self, path: str, *, files: Any = None, **fields: Any) -> httpx.Response:
        """Send a form of one of its pages."""
        return self.client.post(path, data=fields, files=files, headers=HERE, follow_redirects=False)

    def finished(self, **more: Any) -> str:
        """Store a finished audit and return its id."""
        return seeding.finished(self.services.database, self.services.store, **more)

    def running(self, **more: Any) -> str:
        """Store a running audit and return its id."""
        return seeding.running(self.services.database, self.services.store, **more)

    def key(self, scope: Any = "run", project: str = "default") -> str:
        """Return the secret of a new key."""
        return create_key(self.services.database, project, f"{scope} key", scope)[0]

    def log_in(self, scope: Any = "run", project: str = "default") -> str:
        """Log in with a new key and return its secret."""
        secret = self.key(scope, project)
        answer = self.post("/login", key=secret)
        assert answer.status_code == 303, answer.text
        return secret


def _opened(folder: Path, *, require_keys: bool) -> Iterator[Console]:
    shutil.copy(migrated_file(), folder / "seatrial.db")
    settings = Settings(home=folder, require_keys=require_keys, max_model_bytes=200_000, max_dataset_bytes=400_000)
    app = create_app(settings)
    # Not entered: nobody judges in the background while a test looks.
    yield Console(TestClient(app, base_url=BASE_URL, raise_server_exceptions=False), app.state.services)
    app.state.services.database.dispose()


@pytest.fixture(scope="session")
def keyless_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A service for all tests: making one takes longer than most of them."""
    yield from _opened(tmp_path_factory.mktemp("keyless"), require_keys=False)


@pytest.fixture(scope="session")
def locked_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The same, with keys."""
    yield from _opened(tmp_path_factory.mktemp("locked"), require_keys=True)


def _emptied(console: Console) -> Console:
    console.client.cookies.clear()
    with console.services.database.write() as session:
        for table in reversed(Base.metadata.sorted_tables):
            # Processes remember the id of the operator's project.
            if table.name != "projects":
                session.execute(table.delete())
    for path in Path(console.services.settings.resolved_artifacts_url).rglob("*"):
        if path.is_file():
            path.unlink()
    return console


@pytest.fixture
def console(keyless_service: Console) -> Console:
    """An empty service on loopback without keys."""
    return _emptied(keyless_service)


@pytest.fixture
def locked(locked_service: Console) -> Console:
    """An empty service that wants keys; nobody is logged in."""
    return _emptied(locked_service)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def elements(page: httpx.Response, tag: str | None = None) -> list[dict[str, str | None]]:
    """Return the attributes of a page's elements of a kind."""
    parsed = _Page()
    parsed.feed(page.text)
    return [attributes for name, attributes in parsed.elements if tag in (None, name)]


def words(page: httpx.Response) -> str:
    """Return what a person reads."""
    parsed = _Page()
    parsed.feed(page.text)
    return " ".join("".join(parsed.words).split())


def actions(page: httpx.Response) -> set[str]:
    """Return where the forms of a page lead that change something."""
    return {str(form["action"]) for form in elements(page, "form") if form.get("method") == "post"}
