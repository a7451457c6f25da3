"""Submitting an audit: model and data, then checks, then what it costs, and only then the button that spends it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session
from starlette.responses import PlainTextResponse, RedirectResponse

from app.audits import service as audits
from app.audits.submitting import estimate, plan, why_not
from app.console import policy_choice, repository
from app.console.fitting import HELD_OUT, LEFT_OPEN, mismatch, newest_held_out, options
from app.console.forms import Form
from app.console.pages import page
from app.console.parameters import MOST_IN_SIGHT, fields_of, override, read_params
from app.console.repeating import repeated
from app.console.requests import about, families_for, field_of, request_of
from app.console.viewer import ConsoleRoute, Posted, Runner, Viewer, first
from app.datasets import repository as datasets
from app.models import repository as models
from app.web.bodies import parse_json
from app.web.identifiers import is_id
from app.web.problems import NotFoundError, ProblemError
from app.web.services import Service, Services
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.registry import families
from seatrial.contracts.states import ModelState
from seatrial.families.narratives import narrative_of
from seatrial.store.tables import ModelRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

KEY = re.compile(r"console-[0-9a-f-]{36}")
STARTING = {"seed": "0", "policy": "standard"}
_KEPT = ("samples", "seed", "reuse", "policy", "baseline")
"""Fields besides those of parameters that stay while no check is offered."""


@router.get("/submit")
def ask(
    request: Request,
    viewer: Runner,
    services: Service,
    model: str = "",
    dataset: str = "",
    audit: str = "",
    policy: str = "",
) -> Response:
    """Ask for model and data, then for the checks that fit them.

    With ``audit``, start with what that one was asked; with ``policy``, with the checks it is about.
    """
    if audit:
        if not is_id(audit):
            raise NotFoundError("There is no such audit in this project.")
        with services.database.read() as session:
            again = repeated(session, viewer.project_id, audit)
        form = Form({**STARTING, **again.values})
        return _form(request, viewer, services, form, kinds=again.kinds, left_behind=again.left_behind)
    form, told = Form({**STARTING, "model": model, "dataset": dataset}), policy_choice.Filled({}, [], [])
    if policy:
        with services.database.read() as session:
            told = policy_choice.checks_of(session, viewer.project_id, policy)
        form = Form({**form.values, "policy": policy, **told.values})
    return _form(request, viewer, services, form, kinds=told.kinds, left_behind=told.left_behind)


@router.post("/submit")
def estimate_cost(request: Request, viewer: Runner, services: Service, posted: Posted) -> Response:
    """Show what an audit would cost, and spend nothing; or only what another model or dataset changes in the form."""
    form, kinds = Form(joined(posted)), posted.get("checks", [])
    if "change" in posted:
        return _form(request, viewer, services, form, kinds=kinds)
    if "fill" in posted:
        return _filled(request, viewer, services, form, kinds)
    try:
        with services.database.read() as session:
            form = _completed(session, viewer.project_id, form)
            own = policy_choice.document_of(session, viewer.project_id, form.said("policy"))
            asked = request_of(form.values, kinds, own)
            planned = plan(session, viewer.project_id, asked, services.settings)
            refused = why_not(session, viewer.project_id, planned)
            asked, cost = planned.request, estimate(planned, refused=refused)
    except ProblemError as error:
        form.refuse_all(error, lambda pointer: field_of(pointer, kinds, form.values))
        return _form(request, viewer, services, form, kinds=kinds, status=error.status)
    # The button may be pressed twice: the same key is the same audit.
    shown = asked.model_dump_json(indent=2, exclude_none=True)
    confirmed = {
        "request": asked.model_dump_json(),
        "key": f"console-{uuid4()}",
        "shown": shown,
        "samples": planned.samples,
    }
    return _form(request, viewer, services, form, kinds=kinds, cost=cost, confirmed=confirmed)


def _filled(request: Request, viewer: Viewer, services: Services, form: Form, kinds: list[str]) -> Response:
    """Show the form with the checks that the chosen policy is about in place of those in it."""
    try:
        with services.database.read() as session:
            told = policy_choice.checks_of(session, viewer.project_id, form.said("policy"))
    except ProblemError as error:
        form.refuse_all(error, lambda _: "policy")
        return _form(request, viewer, services, form, kinds=kinds, status=error.status)
    form = replace(form, values={**form.values, **told.values})
    return _form(request, viewer, services, form, kinds=told.kinds or kinds, left_behind=told.left_behind)


@router.post("/submit/about")
def tell_about(viewer: Runner, posted: Posted) -> Response:
    """Say what a check with these parameters asks, for the script to put beside them."""
    kind = first(posted, "kind")
    if kind not in families():
        raise NotFoundError(f"There is no family {kind}.")
    return PlainTextResponse(about(kind, _typed(kind, joined(posted))))


@router.post("/submit/confirmed")
def submit(viewer: Runner, services: Service, posted: Posted) -> Response:
    """Queue the audit whose cost was shown."""
    asked = parse_json(first(posted, "request"), AuditCreate)
    # Our own key comes back; any other text is not looked up.
    key = first(posted, "key") if KEY.fullmatch(first(posted, "key")) else None
    answer, _ = audits.submit(services, viewer.project_id, asked, key)
    return RedirectResponse(f"/audits/{answer.body['id']}", status_code=303)


def _form(
    request: Request,
    viewer: Viewer,
    services: Services,
    form: Form,
    *,
    kinds: list[str],
    cost: Any = None,
    confirmed: dict[str, Any] | None = None,
    left_behind: list[str] | None = None,
    status: int = 200,
) -> Response:
    with services.database.read() as session:
        usable = [
            row for row in repository.recent_models(session, viewer.project_id) if row.state != ModelState.REJECTED
        ]
        data = repository.recent_datasets(session, viewer.project_id)
        model = named_row(models.find, session, viewer.project_id, form.said("model"))
        is_left_open = model is not None and not form.said("dataset")
        form = _completed(session, viewer.project_id, form)
        dataset = named_row(datasets.find, session, viewer.project_id, form.said("dataset"))
        misfit = None if model is None or dataset is None else mismatch(model, dataset)
        policies = policy_choice.options(session, viewer.project_id, form.said("policy"))
        about_checks = policy_choice.about_checks(session, viewer.project_id, form.said("policy"))
    is_fitting = model is not None and dataset is not None and misfit is None
    checks = offered_checks(model, form, kinds) if is_fitting else []
    return page(
        request,
        "submit.html",
        title="Submit an audit",
        status=status,
        form=form,
        models=[(row.id, f"{row.name} {row.version}, {row.task} ({row.state})") for row in usable],
        datasets=[("", LEFT_OPEN), *options(data)],
        has_data=bool(data),
        model=model,
        dataset=dataset,
        is_left_open=is_left_open,
        is_held_out=dataset is not None and dataset.split in HELD_OUT,
        carried=_carried(form, kinds) if request.method == "POST" and not checks else [],
        left_behind=left_behind or [],
        mismatch=misfit,
        checks=checks,
        policies=policies,
        about_checks=about_checks,
        cost=cost,
        confirmed=confirmed,
    )


def _completed(session: Session, project_id: str, form: Form) -> Form:
    """Return a form whose dataset, where it is left open, is the one that fits its model best; none where none does."""
    model = named_row(models.find, session, project_id, form.said("model"))
    if model is None or form.said("dataset"):
        return form
    found = newest_held_out(session, project_id, model, repository.recent_datasets(session, project_id))
    return replace(form, values={**form.values, "dataset": "" if found is None else found.id})


def _carried(form: Form, kinds: list[str]) -> list[tuple[str, str]]:
    """Return what stands in the fields below model and data, to be kept while they are not shown."""
    kept = [(name, value) for name, value in form.values.items() if name.startswith(("p-", "params-")) or name in _KEPT]
    return [*kept, *(("checks", kind) for kind in kinds)]


def named_row(find: Any, session: Any, project_id: str, said: str) -> Any:
    """Return what a form names; None where it names nothing of this project."""
    return find(session, project_id, said) if is_id(said) else None


def joined(posted: dict[str, list[str]]) -> dict[str, str]:
    """Return a form with the values of a field a line each: of some fields several are chosen."""
    return {name: "\n".join(values) for name, values in posted.items() if name != "checks"}


def _typed(kind: str, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters in a form as far as they can be read."""
    try:
        return override(read_params(kind, values, pointer=""), values.get(f"params-{kind}", ""), pointer="")
    except ProblemError:
        return {}


def offered_checks(model: ModelRow, form: Form, kinds: list[str]) -> list[dict[str, Any]]:
    """Return what can be audited of a model, with what stands in the form."""
    fitting = families_for(model.task, model.format)
    # Before anything is chosen, or where nothing of it fits any more: what `seatrial gate` runs by itself.
    chosen = [kind for kind in kinds if kind in fitting] or fitting[:1]
    return [
        {
            "kind": kind,
            "title": narrative_of(kind).title(kind),
            "about": about(kind, _typed(kind, form.values)),
            "is_chosen": kind in chosen,
            "in_sight": fields_of(kind)[:MOST_IN_SIGHT],
            "folded": fields_of(kind)[MOST_IN_SIGHT:],
            "errors": [name for name in form.errors if name.startswith((f"p-{kind}-", f"params-{kind}"))],
        }
        for kind in fitting
    ]
