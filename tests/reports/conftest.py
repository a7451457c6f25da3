"""A database and a store with fabricated audits, and the API over them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.main import create_app
from app.reports.service import compose_report
from seatrial.reporting.outcomes import Judged
from seatrial.reporting.schemas import ReportRead
from seatrial.store.artifacts import ArtifactStore, open_store
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, ProjectRow
from tests.databases import migrated
from tests.reports import fabricated, fabricated_judgements, fabricated_texts


@dataclass
class Reports:
    """What report tests work with."""

    database: Database
    store: ArtifactStore
    client: TestClient

    def finished(self, **measured: Any) -> str:
        """Store a finished audit of the operator's project and return its id."""
        return self.own(fabricated.finished(self.database, self.store, **measured))

    def finished_texts(self, **measured: Any) -> str:
        """Store a finished audit of a text classifier and return its id."""
        return self.own(fabricated_texts.finished(self.database, self.store, **measured))

    def own(self, audit_id: str) -> str:
        """Give the audit's project to the operator, who asks without a key."""
        with self.database.write() as session:
            project = session.get_one(ProjectRow, session.get_one(AuditRow, audit_id).project_id)
            session.query(ProjectRow).filter_by(name="default").update({"name": f"was-{project.id}"})
            session.flush()
            project.name = "default"
        return audit_id

    def compose(self, audit_id: str, *, judged: Judged | None = None) -> ReportRead:
        """Return the report without HTTP."""
        with self.database.read() as session:
            project_id = session.get_one(AuditRow, audit_id).project_id
            return compose_report(session, self.store, project_id, audit_id, judged=judged)

    def get(self, audit_id: str, accept: str | None = None, **params: str) -> Any:
        """Ask the API for a report."""
        headers = {"Accept": accept} if accept else {}
        return self.client.get(f"/v1/audits/{audit_id}/report", headers=headers, params=params)


@contextmanager
def serving(home: Path, **more: Any) -> Iterator[Reports]:
    """Run an API without keys over an empty database."""
    settings = Settings(home=home, require_keys=False, **more)
    database = migrated(settings)
    with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
        yield Reports(database, open_store(settings), client)
    database.dispose()


@pytest.fixture
def reports(tmp_path: Path) -> Iterator[Reports]:
    """An API of its own."""
    with serving(tmp_path) as running:
        yield running


@dataclass
class OneAudit:
    """A finished audit that the tests of a module share; each gives it the judgement it wants."""

    reports: Reports
    id: str

    def get(self, accept: str | None = None, **params: str) -> Any:
        """Ask the API for its report."""
        return self.reports.get(self.id, accept, **params)

    def store(self, judged: Judged, *, is_own: bool = True) -> str:
        """Give it a judgement and return that one's id."""
        return fabricated_judgements.store(self.reports.database, self.id, judged, is_own=is_own)

    def change(self, **values: Any) -> None:
        """Overwrite columns."""
        fabricated.change(self.reports.database, self.id, **values)


@pytest.fixture(scope="module")
def one_audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneAudit]:
    """An API with one finished audit."""
    with serving(tmp_path_factory.mktemp("home")) as running:
        yield OneAudit(running, running.finished())
