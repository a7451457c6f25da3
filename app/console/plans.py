"""Pages of plans: the list, and one of them with the jobs its steps began."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse

from app.console import repository
from app.console.pages import fragment, page
from app.console.paging import paged
from app.console.viewer import ConsoleRoute, Reader, Runner
from app.plans import repository as stored
from app.plans import service as plans
from app.plans.routes import PlanId
from app.web.pagination import decode_cursor
from app.web.services import Service
from seatrial.contracts.plans import PlanRead
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.tables import PlanStepRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 25
DONE = {
    "cancelled": "The plan is cancelled, and the job it waited for with it.",
    "retried": "The step that failed is done again.",
}
DOES = {
    "harden": "make the next version of the model",
    "audit": "measure it",
    "judge": "hold the numbers against a policy",
    "attest": "sign the verdict",
    "notify": "tell a webhook",
}


@dataclass(frozen=True)
class Shown:
    """A plan as its page has it.

    Attributes:
        read: What the API tells of it.
        names: Name and version of the models it is about.
        said: What a screen reader is told when it changes.
    """

    read: PlanRead
    names: dict[str, str]
    said: str

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.read.state in TERMINAL

    @property
    def may_be_retried(self) -> bool:
        """Whether a step has failed: a verdict is changed by no retry."""
        return self.read.state == RunState.FAILED and any(one.state == RunState.FAILED for one in self.read.steps)

    @property
    def results(self) -> dict[str, str]:
        """What came of the steps, all of them together: ids by name."""
        told = (one.result or {} for one in self.read.steps)
        return {name: str(value) for each in told for name, value in each.items() if value is not None}


@router.get("/plans")
def list_plans(request: Request, viewer: Reader, services: Service, cursor: str = "") -> Response:
    """List plans, newest first."""
    before = decode_cursor(cursor, "pln") if cursor else None
    with services.database.read() as session:
        rows = list(stored.list_plans(session, viewer.project_id, before=before, limit=PER_PAGE + 1))
        steps = stored.steps_of(session, [row.id for row in rows])
    return page(
        request,
        "plans.html",
        title="Plans",
        steps=steps,
        where={row.id: _where(steps[row.id]) for row in rows},
        **paged(rows, "/plans", per_page=PER_PAGE, is_first=not cursor),
    )


@router.get("/plans/{plan_id}")
def show_plan(request: Request, plan_id: PlanId, viewer: Reader, services: Service, done: str = "") -> Response:
    """Show a plan: its steps, the job of each and what came of it."""
    with services.database.read() as session:
        shown = _shown(session, viewer.project_id, plan_id)
    title = shown.read.name or "Plan"
    return page(request, "plan.html", title=title, shown=shown, does=DOES, done=DONE.get(done))


@router.get("/plans/{plan_id}/progress")
def show_progress(plan_id: PlanId, viewer: Reader, services: Service) -> Response:
    """Return the part of a plan's page that changes while it runs."""
    with services.database.read() as session:
        shown = _shown(session, viewer.project_id, plan_id)
    return fragment("plan_progress.html", shown=shown, does=DOES)


@router.post("/plans/{plan_id}/cancel")
def cancel_plan(plan_id: PlanId, viewer: Runner, services: Service) -> Response:
    """End a plan."""
    plans.cancel(services, viewer.project_id, plan_id)
    return RedirectResponse(f"/plans/{plan_id}?done=cancelled", status_code=303)


@router.post("/plans/{plan_id}/retry")
def retry_plan(plan_id: PlanId, viewer: Runner, services: Service) -> Response:
    """Go on from the step that failed."""
    plans.retry(services, viewer.project_id, plan_id)
    return RedirectResponse(f"/plans/{plan_id}?done=retried", status_code=303)


def _shown(session: Session, project_id: str, plan_id: str) -> Shown:
    read = PlanRead.model_validate(plans.read_plan(session, project_id, plan_id))
    made = {str((one.result or {}).get("model")) for one in read.steps}
    return Shown(read, repository.names_of(session, project_id, made), _said(read))


def _said(read: PlanRead) -> str:
    if read.state in TERMINAL:
        return f"The plan is {read.state}."
    at = next((one for one in read.steps if one.state not in TERMINAL), None)
    return f"The plan is {read.state}{'' if at is None else f', {at.kind} is {at.state}'}."


def _where(steps: Sequence[PlanStepRow]) -> PlanStepRow:
    """Return the step a plan is at: the first that has not succeeded, else the last."""
    return next((one for one in steps if one.state != RunState.SUCCEEDED), steps[-1])
