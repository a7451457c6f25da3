"""Submitting a hardening: model, data and method, then what it can be told, then its cost, then the button."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse

from app.console import repository, service
from app.console.fitting import HELD_OUT, LEFT_OPEN, newest_fitting, options
from app.console.forms import REST, Form
from app.console.method_fields import POINTER, PREFIX, fields_of, methods_for, read_params
from app.console.pages import page
from app.console.requests import checks_of, field_of, whole_or_text
from app.console.submission import KEY, joined, named_row, offered_checks
from app.console.values import read_fraction
from app.console.viewer import ConsoleRoute, Posted, Runner, Viewer, first
from app.datasets import repository as datasets
from app.hardenings import service as hardenings
from app.hardenings.submitting import estimate, look_up, why_not
from app.models import repository as models
from app.web.bodies import parse_json
from app.web.problems import ProblemError
from app.web.services import Service, Services
from seatrial.contracts.hardenings import HardeningCreate
from seatrial.contracts.states import ModelState
from seatrial.contracts.training import MethodSpec, methods
from seatrial.store.tables import ModelRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

STARTING = {"samples": "500", "seed": "0", "policy": "standard", "max_accuracy_loss": "0.05"}
_CHOSEN = ("model", "dataset", "audited", "method", "change")
_TEXTS = ("model", "dataset", "validation_dataset", "method", "version", "promote")
_AUDIT = {"/audit/dataset": "audited", "/audit/samples": "samples", "/audit/policy": "policy"}


@router.get("/harden")
def ask(
    request: Request,
    viewer: Runner,
    services: Service,
    model: str = "",
    dataset: str = "",
    audited: str = "",
    method: str = "",
) -> Response:
    """Ask for model, data and method, then for what that method can be told."""
    chosen = {"model": model, "dataset": dataset, "audited": audited, "method": method}
    return _form(request, viewer, services, Form({**STARTING, **chosen}), kinds=[])


@router.post("/harden")
def estimate_cost(request: Request, viewer: Runner, services: Service, posted: Posted) -> Response:
    """Show what a hardening would cost, and spend nothing."""
    form, kinds = Form(joined(posted)), posted.get("checks", [])
    if "change" in posted:
        return _form(request, viewer, services, form, kinds=kinds)
    try:
        with services.database.read() as session:
            form = _completed(session, viewer.project_id, form)
            asked = request_of(form.values, kinds)
            wanted = look_up(session, viewer.project_id, asked, services.settings)
            cost = estimate(wanted, refused=why_not(session, viewer.project_id, wanted))
    except ProblemError as error:
        form.refuse_all(error, _field_of(kinds, form.values))
        return _form(request, viewer, services, form, kinds=kinds, status=error.status)
    confirmed = {
        "request": asked.model_dump_json(),
        "key": f"console-{uuid4()}",
        "samples": asked.audit.samples,
    }
    return _form(request, viewer, services, form, kinds=kinds, cost=cost, confirmed=confirmed)


@router.post("/harden/confirmed")
def submit(viewer: Runner, services: Service, posted: Posted) -> Response:
    """Queue the hardening whose cost was shown."""
    asked = parse_json(first(posted, "request"), HardeningCreate)
    key = first(posted, "key") if KEY.fullmatch(first(posted, "key")) else None
    answer, _ = hardenings.submit(services, viewer.project_id, asked, key)
    return RedirectResponse(f"/hardenings/{answer.body['id']}", status_code=303)


def request_of(fields: Mapping[str, str], kinds: list[str]) -> HardeningCreate:
    """Return the request a form stands for.

    Raises:
        InvalidRequestError: Something in it does not fit; ``errors`` points at it as in the API's body.
    """
    spec = methods().get(fields.get("method", ""))
    audit: dict[str, Any] = {
        "dataset": fields.get("audited", ""),
        "checks": checks_of(fields, kinds, root="/audit"),
    }
    audit |= {"samples": whole_or_text(fields["samples"])} if fields.get("samples") else {}
    audit |= {"policy": fields["policy"]} if fields.get("policy") else {}
    body: dict[str, Any] = {name: fields[name] for name in _TEXTS if fields.get(name)}
    body |= {"params": {} if spec is None else read_params(spec, fields), "audit": audit}
    body |= {"seed": whole_or_text(fields["seed"])} if fields.get("seed") else {}
    loss = fields.get("max_accuracy_loss", "")
    body |= {"max_accuracy_loss": read_fraction(loss)} if loss else {}
    return parse_json(json.dumps(body), HardeningCreate)


def _field_of(kinds: list[str], fields: Mapping[str, str]) -> Callable[[str], str]:
    def field(pointer: str) -> str:
        """Return the field of the page that a JSON pointer into the request is about."""
        if pointer.startswith(POINTER):
            return PREFIX + pointer.removeprefix(POINTER).partition("/")[0]
        if pointer.startswith("/audit/checks"):
            return field_of(pointer.removeprefix("/audit"), kinds, fields)
        name = _AUDIT.get(pointer) or pointer.strip("/").partition("/")[0]
        return name if name in (*_TEXTS, *_AUDIT.values(), "seed", "max_accuracy_loss") else REST

    return field


def _form(
    request: Request,
    viewer: Viewer,
    services: Services,
    form: Form,
    *,
    kinds: list[str],
    cost: Any = None,
    confirmed: dict[str, Any] | None = None,
    status: int = 200,
) -> Response:
    with services.database.read() as session:
        usable = [
            row for row in repository.recent_models(session, viewer.project_id) if row.state != ModelState.REJECTED
        ]
        data = repository.recent_datasets(session, viewer.project_id)
        model = named_row(models.find, session, viewer.project_id, form.said("model"))
        form = _completed(session, viewer.project_id, form)
        trained, audited = (
            named_row(datasets.find, session, viewer.project_id, form.said(name)) for name in ("dataset", "audited")
        )
        missing = {} if model is None else {"trained on": trained, "audited on": audited}
        policies = service.policy_names(session, viewer.project_id)
    spec = methods().get(form.said("method"))
    is_asked = None not in (model, trained, audited, spec)
    refusal = _misfit(model, trained, audited, spec) if is_asked else ""
    is_fitting = is_asked and not refusal
    fields = fields_of(spec) if is_fitting and spec is not None else []
    # What was typed in stays; a form that is shown first has the defaults.
    starting = {one.field: one.starting() for one in fields if one.field not in form.values}
    abouts = _methods(model)
    shown = Form({**starting, **form.values}, form.errors, form.problem)
    return page(
        request,
        "harden.html",
        title="Harden a model",
        status=status,
        form=shown,
        models=[(row.id, f"{row.name} {row.version}, {row.task} ({row.state})") for row in usable],
        datasets=[("", LEFT_OPEN), *options(data)],
        others=options(data),
        methods=[(slug, slug.replace("_", " ")) for slug in abouts],
        abouts=abouts,
        carried=_carried(form, kinds) if request.method == "POST" and not is_fitting else [],
        model=model,
        refusal=refusal,
        missing=[what for what, row in missing.items() if row is None],
        is_fitting=is_fitting,
        about=spec.params.__doc__.partition("\n")[0] if spec is not None and spec.params.__doc__ else "",
        trains=spec is not None and spec.trains,
        fields=fields,
        checks=offered_checks(model, form, kinds) if is_fitting else [],
        audited=audited,
        policies=[("", "none: only numbers"), *((name, name) for name in policies)],
        cost=cost,
        confirmed=confirmed,
    )


def _completed(session: Session, project_id: str, form: Form) -> Form:
    """Return a form whose datasets, where they are left open, are the newest that fit; none where none do."""
    model = named_row(models.find, session, project_id, form.said("model"))
    if model is None or (form.said("dataset") and form.said("audited")):
        return form
    data = repository.recent_datasets(session, project_id)
    trained, audited = (named_row(datasets.find, session, project_id, form.said(one)) for one in ("dataset", "audited"))
    if not form.said("audited"):
        audited = newest_fitting(session, project_id, model, data, splits=HELD_OUT, other_than=trained)
    if not form.said("dataset"):
        # What is meant for it, or else whatever is not audited: the overlap is looked for all the same.
        trained = newest_fitting(session, project_id, model, data, splits=("train",), other_than=audited)
        trained = trained or newest_fitting(session, project_id, model, data, other_than=audited)
    found = {"dataset": trained, "audited": audited}
    return replace(form, values={**form.values, **{name: row.id for name, row in found.items() if row is not None}})


def _carried(form: Form, kinds: list[str]) -> list[tuple[str, str]]:
    """Return what stands in the fields below the first four, to be kept while they are not shown."""
    kept = [(name, value) for name, value in form.values.items() if name not in _CHOSEN]
    return [*kept, *(("checks", kind) for kind in kinds)]


def _methods(model: ModelRow | None) -> dict[str, str]:
    """Return the methods to choose from, and what each does."""
    specs = methods() if model is None else methods_for(model.task, model.format)
    return {slug: (spec.params.__doc__ or "").partition("\n")[0] for slug, spec in specs.items()}


def _misfit(model: Any, trained: Any, audited: Any, spec: MethodSpec | None) -> str:
    """Return why these do not go together; nothing where they do."""
    for row, what in ((trained, "trained on"), (audited, "audited on")):
        if row.task != model.task:
            return f"The model does {model.task}, what it would be {what} is for {row.task}: choose others."
    if trained.digest == audited.digest:
        return "The model would be audited on what it is trained on: choose another split for one of them."
    if spec is not None and spec.slug not in methods_for(model.task, model.format):
        return f"{spec.slug} cannot harden this model: choose another method."
    return ""
