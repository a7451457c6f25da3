"""Routes of datasets."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from app.access.principal import Reader, Runner
from app.datasets import repository
from app.datasets.schemas import DATASET_REFERENCE, TEXTS_REFERENCE
from app.datasets.service import get_dataset, render_dataset, render_summary, store_dataset
from app.web.bodies import accepts_upload
from app.web.files import StoredFile
from app.web.identifiers import DatasetId, OfName
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.samples import DATASET_MANIFEST
from app.web.services import Service
from app.web.uploads import receive
from seatrial.contracts.datasets import DatasetManifest, DatasetRead, DatasetReference, DatasetSummary
from seatrial.contracts.models import Task

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=raises(401, 403))


@router.post(
    "",
    status_code=201,
    response_model=DatasetRead,
    responses=raises(400, 409, 413, 415, 422, 429, 507),
    openapi_extra=accepts_upload(
        DatasetReference,
        DatasetManifest,
        sample=DATASET_MANIFEST,
        example=DATASET_REFERENCE,
        more={"texts": TEXTS_REFERENCE},
    ),
    summary="Upload a dataset",
)
async def upload_dataset(request: Request, principal: Runner, services: Service) -> Response:
    """Store labelled examples.

    For images `file` is an .npz, an archive of image folders or a Parquet table. For texts, pairs and multi-label texts
    it is CSV with a header, JSON Lines or Parquet; for tagged texts CoNLL-U, or JSON Lines or Parquet with lists. Which
    one is read off the bytes, in UTF-8. `columns` in the manifest says where a table keeps what.

    Shapes, ranges, texts and labels are checked before the 201, and a refused upload leaves nothing behind. The same
    upload again returns the dataset already stored.
    """
    async with receive(
        request,
        services,
        principal.project_id,
        manifest=DatasetManifest,
        reference=DatasetReference,
        max_bytes=services.settings.max_dataset_bytes,
    ) as upload:
        row = await store_dataset(request, services, principal.project_id, upload)
    return JSONResponse(render_dataset(row), status_code=201, headers={"Location": f"/v1/datasets/{row.id}"})


@router.get("", response_model=Page[DatasetSummary], responses=raises(422), summary="List datasets")
def list_datasets(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("dat"))],
    name: OfName = None,
    task: Annotated[Task | None, Query(description="Only for this task.")] = None,
) -> Response:
    """List datasets, newest first. Class names, counts and the manifest are read of each by itself, at its `url`."""
    with services.database.read() as session:
        rows = repository.list_datasets(
            session, principal.project_id, name=name, task=task, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, render_summary)


@router.get("/{dataset_id}", response_model=DatasetRead, responses=raises(404, 422), summary="Read a dataset")
def read_dataset(dataset_id: DatasetId, principal: Reader, services: Service) -> Response:
    """Read a dataset and what was read off its bytes."""
    return JSONResponse(render_dataset(get_dataset(services, principal.project_id, dataset_id)))


@router.get(
    "/{dataset_id}/content",
    status_code=200,
    response_class=StoredFile,
    responses={200: {"content": {"application/octet-stream": {}}}, **raises(404, 410, 416, 422)},
    summary="Read a dataset's bytes back",
)
def read_dataset_content(dataset_id: DatasetId, principal: Reader, services: Service) -> Response:
    """Stream the bytes as they were uploaded; the ETag is their digest and Range works."""
    row = get_dataset(services, principal.project_id, dataset_id)
    suffix = "archive" if row.format == "image_folder" else row.format
    return StoredFile(
        services.store,
        row.digest,
        media_type="application/octet-stream",
        filename=f"{row.name}-{row.version}.{suffix}",
    )
