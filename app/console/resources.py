"""Pages of models and datasets: lists, and the forms that upload them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from app.console import architectures
from app.console.forms import Form
from app.console.manifests import dataset_manifest, field_of, model_fields, model_manifest
from app.console.pages import page
from app.console.paging import paged
from app.console.viewer import ConsoleRoute, Reader, Runner, Viewer
from app.datasets import repository as datasets
from app.datasets.service import store_dataset
from app.models import repository as models
from app.models.service import store_model
from app.web.identifiers import is_id
from app.web.pagination import decode_cursor
from app.web.problems import InvalidRequestError, ProblemError
from app.web.services import Service, Services
from app.web.uploads import receive
from seatrial.contracts.datasets import COLUMNS, DatasetManifest, DatasetReference
from seatrial.contracts.endpoints import SERVED
from seatrial.contracts.models import ModelManifest, ModelReference, Task
from seatrial.ingest.conversion import CONVERT
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.tables import DatasetRow, ModelRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 50
TASKS = [(task, task.replace("-", " ")) for task in get_args(Task)]
SHOWN_LABELS = 4
LABEL_CHARS = 200
SPLITS = [(split, split) for split in ("test", "validation", "train")]


@dataclass(frozen=True)
class Line:
    """A model or a dataset in a list: little, whatever the length of its manifest.

    Attributes:
        id: Identifier.
        name: Name.
        version: Version.
        task: What it is for.
        created_at: When it was stored.
        classes: Number of classes, where known.
        label_count: Number of class names; 0 where there are none.
        labels: The first of them.
        more: What only models, or only datasets, have.
    """

    id: str
    name: str
    version: str
    task: str
    created_at: datetime
    classes: int | None
    label_count: int
    labels: list[str]
    more: dict[str, Any]


@router.get("/models")
def list_models(
    request: Request, viewer: Reader, services: Service, cursor: str = "", done: str = "", again: str = ""
) -> Response:
    """List models, newest first, over a form to upload one; ``again``: the form has what was said of that one."""
    starting = {"architecture": "huggingface", "mean": "0", "std": "1"}
    with services.database.read() as session:
        row = models.find(session, viewer.project_id, again) if is_id(again) else None
    form = Form(starting if row is None else {**starting, **model_fields(row.manifest)})
    return _models(request, viewer, services, form, cursor=cursor, done=done)


@router.post("/models")
async def upload_model(request: Request, viewer: Runner, services: Service) -> Response:
    """Store a model, or show beside each field what is wrong with it."""
    form = Form()

    def compose(fields: dict[str, str]) -> str:
        form.values = fields
        return model_manifest(fields)

    try:
        async with receive(
            request,
            services,
            viewer.project_id,
            manifest=ModelManifest,
            reference=ModelReference,
            max_bytes=services.settings.max_model_bytes,
            compose=compose,
        ) as upload:
            if upload.is_manifest and upload.manifest.architecture.kind not in SERVED:
                raise InvalidRequestError("Choose the file with the weights.", pointer="/file")
            await store_model(request, services, viewer.project_id, upload)
    except (ProblemError, InspectionError) as error:
        kind = form.said("architecture")
        form.refuse_all(error, lambda pointer: field_of(pointer, kind))
        return await run_in_threadpool(_models, request, viewer, services, form, status=error.status)
    return RedirectResponse("/models?done=stored#main", status_code=303)


def _models(
    request: Request,
    viewer: Viewer,
    services: Services,
    form: Form,
    *,
    cursor: str = "",
    done: str = "",
    status: int = 200,
) -> Response:
    before = decode_cursor(cursor, "mdl") if cursor else None
    with services.database.read() as session:
        stored = models.list_models(
            session, viewer.project_id, name=None, task=None, state=None, before=before, limit=PER_PAGE + 1
        )
        rows = [_model_line(row) for row in stored]
    context: dict[str, Any] = {
        "form": form,
        "tasks": TASKS,
        "architectures": architectures.ARCHITECTURES,
        "convert": CONVERT,
        "is_stored": bool(done),
        "here": "/models" + (f"?{urlencode({'cursor': cursor})}" if cursor else ""),
    }
    return page(
        request,
        "models.html",
        title="Models",
        status=status,
        **context,
        **paged(rows, "/models", per_page=PER_PAGE, is_first=not cursor),
    )


@router.get("/datasets")
def list_datasets(request: Request, viewer: Reader, services: Service, cursor: str = "") -> Response:
    """List datasets, newest first, over a form to upload one."""
    return _datasets(request, viewer, services, Form(), cursor=cursor)


@router.post("/datasets")
async def upload_dataset(request: Request, viewer: Runner, services: Service) -> Response:
    """Store a dataset, or show beside each field what is wrong with it."""
    form = Form()

    def compose(fields: dict[str, str]) -> str:
        form.values = fields
        return dataset_manifest(fields)

    try:
        async with receive(
            request,
            services,
            viewer.project_id,
            manifest=DatasetManifest,
            reference=DatasetReference,
            max_bytes=services.settings.max_dataset_bytes,
            compose=compose,
        ) as upload:
            if upload.is_manifest:
                raise InvalidRequestError("Choose the file with the examples.", pointer="/file")
            row = await store_dataset(request, services, viewer.project_id, upload)
    except (ProblemError, InspectionError) as error:
        form.refuse_all(error, field_of)
        return await run_in_threadpool(_datasets, request, viewer, services, form, status=error.status)
    return RedirectResponse(f"/datasets/{row.id}?done=stored#main", status_code=303)


def _datasets(
    request: Request,
    viewer: Viewer,
    services: Services,
    form: Form,
    *,
    cursor: str = "",
    status: int = 200,
) -> Response:
    before = decode_cursor(cursor, "dat") if cursor else None
    with services.database.read() as session:
        stored = datasets.list_datasets(
            session, viewer.project_id, name=None, task=None, before=before, limit=PER_PAGE + 1
        )
        rows = [_dataset_line(row) for row in stored]
    columns = {task: ", ".join(names) for task, names in COLUMNS.items()}
    context: dict[str, Any] = {
        "form": form,
        "tasks": TASKS,
        "splits": SPLITS,
        "columns": columns,
    }
    return page(
        request,
        "datasets.html",
        title="Datasets",
        status=status,
        **context,
        **paged(rows, "/datasets", per_page=PER_PAGE, is_first=not cursor),
    )


def _line(row: ModelRow | DatasetRow, labels: list[Any] | None, **more: Any) -> Line:
    shown = [str(label)[:LABEL_CHARS] for label in (labels or [])[:SHOWN_LABELS]]
    facts = row.facts or {}
    return Line(
        id=row.id,
        name=row.name,
        version=row.version,
        task=row.task,
        created_at=row.created_at,
        classes=facts.get("classes"),
        label_count=len(labels or ()),
        labels=shown,
        more=more,
    )


def _model_line(row: ModelRow) -> Line:
    labels = row.manifest.get("labels") or (row.facts or {}).get("labels")
    architecture = str((row.manifest.get("architecture") or {}).get("kind", "unknown"))
    return _line(row, labels, architecture=architecture, state=row.state, problem=row.problem)


def _dataset_line(row: DatasetRow) -> Line:
    labels = row.facts.get("labels") or row.manifest.get("labels")
    examples, shape = row.facts.get("examples"), row.facts.get("shape")
    return _line(row, labels, split=row.split, format=row.format, examples=examples, shape=shape)
