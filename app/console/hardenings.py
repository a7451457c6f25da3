"""Pages of hardenings: the list, one of them with its curves as it trains, and what it was worth."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse

from app.access.principal import author_of
from app.comparisons.differences import trend_of
from app.console import curves, repository
from app.console.following import follow
from app.console.pages import STATE_WORDS, duration, fragment, page
from app.console.paging import paged
from app.console.viewer import Admin, ConsoleRoute, Reader, Runner
from app.deletions.service import delete, missing
from app.hardenings import repository as stored
from app.hardenings import service as hardenings
from app.hardenings.report import ReportFormat, flags_of, judgement_of
from app.hardenings.routes import read_hardening_report
from app.models.routes import read_model_weights
from app.web.identifiers import HardeningId
from app.web.pagination import decode_cursor
from app.web.problems import NotFoundError
from app.web.services import Service
from seatrial.contracts.hardenings import HardeningRead
from seatrial.contracts.states import TERMINAL

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 25
DONE = {
    "cancelled": "Cancelling: the training stops at its next step, its audits with it.",
    "retried": "What failed is run again.",
    "deleted": "The hardening is deleted; the version it made and its audits are kept.",
}
_ACCURACIES = {"accuracy": "clean accuracy", "attacked_accuracy": "under the method's attack"}
_LOSSES = {"train_loss": "training loss", "loss": "validation, cross-entropy in nats"}
_ECE = {"ece": "expected calibration error, 15 bins"}


@dataclass(frozen=True)
class Shown:
    """A hardening as its page has it.

    Attributes:
        read: What the API tells of it.
        names: Name and version of its models and datasets.
        audits: State and verdict of its audits, by id.
        drawings: Its curves.
        said: What a screen reader is told when it changes.
    """

    read: HardeningRead
    names: dict[str, str]
    audits: dict[str, Any]
    drawings: list[curves.Curves]
    said: str

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.read.state in TERMINAL

    @property
    def share(self) -> float | None:
        """How much of the training is done."""
        told = self.read.progress
        return None if told is None else min(1.0, (told.epoch - 1 + told.step / max(told.steps, 1)) / told.epochs)

    @property
    def remaining(self) -> str:
        """Time left of the training, as fast as it was estimated to be."""
        known = self.share is not None and self.read.estimated_s is not None
        return duration((1 - (self.share or 0)) * (self.read.estimated_s or 0) if known else None)


@router.get("/hardenings")
def list_hardenings(request: Request, viewer: Reader, services: Service, cursor: str = "", done: str = "") -> Response:
    """List hardenings, newest first."""
    before = decode_cursor(cursor, "hrd") if cursor else None
    with services.database.read() as session:
        rows = list(
            stored.list_hardenings(
                session, viewer.project_id, state=None, model=None, before=before, limit=PER_PAGE + 1
            )
        )
        ids = {each for row in rows for each in (row.model_id, row.hardened_id, row.dataset_id) if each is not None}
        names = repository.names_of(session, viewer.project_id, ids)
    return page(
        request,
        "hardenings.html",
        title="Hardenings",
        done=DONE.get(done),
        names=names,
        **paged(rows, "/hardenings", per_page=PER_PAGE, is_first=not cursor),
    )


@router.get("/hardenings/{hardening_id}")
def show_hardening(
    request: Request, hardening_id: HardeningId, viewer: Reader, services: Service, done: str = ""
) -> Response:
    """Show a hardening: its curves, both versions side by side, and the verdict."""
    with services.database.read() as session:
        shown = _shown(session, viewer.project_id, hardening_id)
        judgement = judgement_of(session, shown.read)
        has_flags = shown.read.result is not None and shown.read.audit_after is not None
        flags = flags_of(session, str(shown.read.audit_after)) if has_flags else []
    result = shown.read.result
    rows = [] if result is None else result.shown
    return page(
        request,
        "hardening.html",
        title=f"{shown.names.get(shown.read.model, shown.read.model)} hardened by {shown.read.method}",
        shown=shown,
        size=curves,
        done=None if done == "cancelled" and shown.is_over else DONE.get(done),
        judgement=judgement,
        flags=flags,
        # Worse for the new version is what the pair tells; nothing here makes it again.
        compared=[(one, trend_of(one.worse_by, str(one.better or "neither"))) for one in rows],
    )


@router.get("/hardenings/{hardening_id}/progress")
def show_progress(hardening_id: HardeningId, viewer: Reader, services: Service) -> Response:
    """Return the part of a hardening's page that changes while it runs."""
    with services.database.read() as session:
        shown = _shown(session, viewer.project_id, hardening_id)
    return fragment("hardening_progress.html", shown=shown, size=curves)


@router.get("/hardenings/{hardening_id}/events")
async def follow_hardening(request: Request, hardening_id: HardeningId, services: Service) -> Response:
    """Stream what happens, as the API does."""
    return await follow(request, services, hardening_id, read=hardenings.read_events)


@router.get("/hardenings/{hardening_id}/report")
def show_report(
    hardening_id: HardeningId, viewer: Reader, services: Service, format: ReportFormat = "html"
) -> Response:
    """Return the report of both versions."""
    return read_hardening_report(hardening_id, viewer.principal, services, format)


@router.get("/hardenings/{hardening_id}/weights")
def download_weights(hardening_id: HardeningId, viewer: Reader, services: Service) -> Response:
    """Download the weights of the new version."""
    with services.database.read() as session:
        row = stored.find(session, viewer.project_id, hardening_id)
        if row is None:
            raise missing(session, viewer.project_id, hardening_id, "hardening")
    if row.hardened_id is None:
        raise NotFoundError(f"Hardening {hardening_id} has made no version.")
    return read_model_weights(row.hardened_id, viewer.principal, services)


@router.post("/hardenings/{hardening_id}/cancel")
def cancel_hardening(hardening_id: HardeningId, viewer: Runner, services: Service) -> Response:
    """Ask a hardening to stop."""
    hardenings.cancel(services, viewer.project_id, hardening_id)
    return RedirectResponse(f"/hardenings/{hardening_id}?done=cancelled", status_code=303)


@router.post("/hardenings/{hardening_id}/retry")
def retry_hardening(hardening_id: HardeningId, viewer: Runner, services: Service) -> Response:
    """Retry what failed."""
    hardenings.retry(services, viewer.project_id, hardening_id)
    return RedirectResponse(f"/hardenings/{hardening_id}?done=retried", status_code=303)


@router.post("/hardenings/{hardening_id}/delete")
def delete_hardening(request: Request, hardening_id: HardeningId, viewer: Admin, services: Service) -> Response:
    """Delete a hardening that has ended."""
    author = author_of(viewer.principal, request)
    delete(services, viewer.project_id, hardening_id, "hardening", author, cascade=False)
    return RedirectResponse("/hardenings?done=deleted", status_code=303)


def _shown(session: Session, project_id: str, hardening_id: str) -> Shown:
    read = HardeningRead.model_validate(hardenings.read_hardening(session, project_id, hardening_id))
    audited = str(read.spec["audit"]["dataset"])
    validation = read.spec.get("validation_dataset")
    ids = {each for each in (read.model, read.hardened, read.dataset, audited, validation) if each is not None}
    audits = {each for each in (read.audit_before, read.audit_after) if each is not None}
    points = [point.model_dump() for point in read.curves]
    drawings = [
        curves.draw("Accuracy on the validation examples", points, _ACCURACIES, kept=read.kept_epoch, within=(0, 1)),
        curves.draw("Loss", points, _LOSSES, kept=read.kept_epoch),
        curves.draw("Calibration on the validation examples", points, _ECE, kept=read.kept_epoch),
    ]
    return Shown(
        read=read,
        names=repository.names_of(session, project_id, ids),
        audits=repository.outcomes_of(session, audits),
        drawings=[each for each in drawings if each is not None],
        said=_said(read),
    )


def _said(read: HardeningRead) -> str:
    if read.state in TERMINAL:
        return f"The hardening {STATE_WORDS[read.state]}."
    if read.stage == "auditing":
        return "The training has ended; both versions are audited."
    epoch = f", epoch {read.progress.epoch} of {read.progress.epochs}" if read.progress is not None else ""
    return f"The training is {read.state}{epoch}."
