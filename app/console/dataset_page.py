"""The page of a dataset, and the first rows of a table, on it or before it is uploaded."""

import json
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from app.console.manifests import dataset_manifest
from app.console.pages import fragment, page
from app.console.viewer import ConsoleRoute, Reader, Runner, Viewer
from app.datasets.preview import Preview
from app.datasets.service import get_dataset
from app.web.identifiers import DatasetId
from app.web.problems import ProblemError
from app.web.services import Service, Services
from app.web.uploads import receive
from seatrial.contracts.datasets import DatasetManifest, DatasetReference
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.store.artifact_protocol import ArtifactDamagedError, ArtifactMissingError
from seatrial.store.settings import MIB
from seatrial.store.tables import DatasetRow

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

MAX_PREVIEWED_BYTES = 32 * MIB
"""Largest file of which a preview is made before it is uploaded. Of CSV and JSON Lines its beginning is enough."""

SHOWN_LABELS = 20


@router.post("/dataset-preview")
async def preview_upload(request: Request, viewer: Runner, services: Service) -> Response:
    """Show the first rows of a file before it is uploaded and which columns the form has read; nothing is stored."""
    try:
        async with receive(
            request,
            services,
            viewer.project_id,
            manifest=DatasetManifest,
            reference=DatasetReference,
            max_bytes=MAX_PREVIEWED_BYTES,
            # Its name and its class names do not matter yet.
            compose=lambda fields: dataset_manifest({**fields, "name": "preview", "version": "0", "labels": ""}),
        ) as upload:
            arguments = [upload.path, upload.filename, upload.manifest]
            told = await _preview(request, viewer, services, arguments, size_bytes=upload.size_bytes)
    except (ProblemError, InspectionError) as error:
        told = _nothing(error.detail)
    return await run_in_threadpool(fragment, "preview.html", preview=told)


@router.get("/datasets/{dataset_id}")
async def show_dataset(
    request: Request, viewer: Reader, services: Service, dataset_id: DatasetId, done: str = ""
) -> Response:
    """Show what a dataset holds and, of a table, its first rows with the columns that are read."""
    row = await run_in_threadpool(get_dataset, services, viewer.project_id, dataset_id)
    try:
        path = await run_in_threadpool(services.store.local_path, row.digest)
        manifest = DatasetManifest.model_validate_json(json.dumps(row.manifest))
        arguments = [path, f"{row.name}-{row.version}", manifest]
        told = await _preview(request, viewer, services, arguments, size_bytes=row.size_bytes)
    except (ArtifactDamagedError, ArtifactMissingError):
        told = _nothing("Its file is missing or damaged: upload it once more to mend it.")
    except (ProblemError, InspectionError) as error:
        told = _nothing(error.detail)
    return await run_in_threadpool(_page, request, row, told, is_stored=bool(done))


async def _preview(
    request: Request, viewer: Viewer, services: Services, arguments: list[Any], *, size_bytes: int
) -> dict[str, Any] | None:
    told: dict[str, Any] | None = await services.inspections.run(
        request, viewer.project_id, "app.datasets.preview:preview", arguments, size_bytes=size_bytes
    )
    return told


def _nothing(problem: str) -> dict[str, Any]:
    return asdict(Preview(columns=[], hidden=0, missing={}, problem=problem))


def _page(request: Request, row: DatasetRow, told: dict[str, Any] | None, *, is_stored: bool) -> Response:
    names = row.facts.get("labels") or row.manifest.get("labels") or []
    counts = [
        (str(names[int(number)]) if int(number) < len(names) else number, count)
        for number, count in row.facts.get("label_counts", {}).items()
    ]
    return page(
        request,
        "dataset.html",
        title=f"{row.name} {row.version}",
        row=row,
        preview=told,
        counts=counts[:SHOWN_LABELS],
        more_counts=max(0, len(counts) - SHOWN_LABELS),
        is_stored=is_stored,
    )
