"""Routes of models."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from app.access.principal import Reader, Runner
from app.models import repository
from app.models.schemas import (
    ENDPOINT_REFERENCE,
    IMAGES_REFERENCE,
    LANGUAGE_MODEL_REFERENCE,
    MODEL_REFERENCE,
    TAGGER_REFERENCE,
)
from app.models.service import (
    cancel_check,
    get_model,
    render_model,
    render_summary,
    store_model,
    wait_until_checked,
)
from app.web.bodies import accepts_upload
from app.web.files import StoredFile
from app.web.identifiers import ModelId, OfName
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.preferences import WaitSeconds
from app.web.problems import NotFoundError, raises
from app.web.samples import MODEL_MANIFEST
from app.web.services import Service
from app.web.uploads import receive
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.contracts.models import ModelManifest, ModelRead, ModelReference, ModelSummary, Task
from seatrial.contracts.states import ModelState

router = APIRouter(prefix="/v1/models", tags=["models"], responses=raises(401, 403))


@router.post(
    "",
    status_code=201,
    response_model=ModelRead,
    responses=raises(400, 409, 413, 415, 422, 429, 507),
    openapi_extra=accepts_upload(
        ModelReference,
        ModelManifest,
        sample=MODEL_MANIFEST,
        example=MODEL_REFERENCE,
        more={
            "an HTTP endpoint": ENDPOINT_REFERENCE,
            "an HTTP endpoint that tags tokens": TAGGER_REFERENCE,
            "an HTTP endpoint of images": IMAGES_REFERENCE,
            "a language model behind a server": LANGUAGE_MODEL_REFERENCE,
        },
    ),
    summary="Upload a model",
)
async def upload_model(request: Request, principal: Runner, services: Service, wait_s: WaitSeconds) -> Response:
    """Store a model: `file` is one .safetensors file or an archive of a folder, `manifest` says what it means.

    As JSON, a `path` the operator allows stands in place of the file. A model behind an HTTP endpoint has neither:
    `{"manifest": {...}}` with an architecture of kind `endpoint`, `chat` or `completions` is all of it, and its bytes
    are the manifest as canonical JSON. Headers are stored and shown as they are, so a token belongs into them as
    `{{secret:NAME}}`.

    What can be told without loading or asking it is checked before the 201, and a refused upload leaves nothing behind.
    A worker then loads it, or asks the endpoint, once: its state goes from `checking` to `ready` or `rejected`. With
    `Prefer: wait=30` the answer waits for that, and a rejected model is a 422 with the reason. The same upload again
    returns the model already stored.
    """
    async with receive(
        request,
        services,
        principal.project_id,
        manifest=ModelManifest,
        reference=ModelReference,
        max_bytes=services.settings.max_model_bytes,
    ) as upload:
        row = await store_model(request, services, principal.project_id, upload)
    headers = {"Location": f"/v1/models/{row.id}"}
    if wait_s:
        row = await wait_until_checked(services, row, wait_s)
        headers["Preference-Applied"] = f"wait={wait_s}"
    return JSONResponse(render_model(row), status_code=201, headers=headers)


@router.get("", response_model=Page[ModelSummary], responses=raises(422), summary="List models")
def list_models(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("mdl"))],
    name: OfName = None,
    task: Annotated[Task | None, Query(description="Only for this task.")] = None,
    state: Annotated[ModelState | None, Query(description="Only in this state.")] = None,
) -> Response:
    """List models, newest first. Class names, manifest and doubts are read of each by itself, at its `url`."""
    with services.database.read() as session:
        rows = repository.list_models(
            session, principal.project_id, name=name, task=task, state=state, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, render_summary)


@router.get("/{model_id}", response_model=ModelRead, responses=raises(404, 422), summary="Read a model")
def read_model(model_id: ModelId, principal: Reader, services: Service) -> Response:
    """Read a model: its state, what a worker measured, or why it was rejected."""
    return JSONResponse(render_model(get_model(services, principal.project_id, model_id)))


@router.post(
    "/{model_id}/cancel", response_model=ModelRead, responses=raises(404, 409, 422), summary="Cancel a model's check"
)
def cancel_model_check(model_id: ModelId, principal: Runner, services: Service) -> Response:
    """End the check of a model that is still `checking`; it is then `rejected`, and audits waiting for it fail.

    The process that loads it is ended within seconds. A model that has been checked is a 409.
    """
    return JSONResponse(render_model(cancel_check(services, principal.project_id, model_id)))


@router.get(
    "/{model_id}/content",
    status_code=200,
    response_class=StoredFile,
    responses={200: {"content": {"application/octet-stream": {}}}, **raises(404, 410, 416, 422)},
    summary="Read a model's bytes back",
)
def read_model_content(model_id: ModelId, principal: Reader, services: Service) -> Response:
    """Stream the bytes as they were uploaded; the ETag is their digest and Range works.

    Of an endpoint they are its manifest as canonical JSON.
    """
    row = get_model(services, principal.project_id, model_id)
    suffix = "json" if row.format == ENDPOINT else row.format
    return StoredFile(
        services.store,
        row.digest,
        media_type="application/octet-stream",
        filename=f"{row.name}-{row.version}.{suffix}",
    )


@router.get(
    "/{model_id}/weights",
    status_code=200,
    response_class=StoredFile,
    responses={200: {"content": {"application/octet-stream": {}}}, **raises(404, 410, 416, 422)},
    summary="Read a model's weights",
)
def read_model_weights(model_id: ModelId, principal: Reader, services: Service) -> Response:
    """Stream the weights as one safetensors file: of a hardened model, and of an upload that is such a file.

    Of other uploads `/content` has the bytes.
    """
    row = get_model(services, principal.project_id, model_id)
    digest = row.weights_digest or (row.digest if row.format == "safetensors" else None)
    if digest is None:
        raise NotFoundError(f"Model {model_id} is no safetensors file of its own: read /v1/models/{model_id}/content.")
    filename = f"{row.name}-{row.version}.safetensors"
    return StoredFile(services.store, digest, media_type="application/octet-stream", filename=filename)
