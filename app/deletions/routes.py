"""Routes of deletions: of audits, models, datasets and hardenings, and of what stays of them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.principal import Admin, Reader, author_of
from app.deletions import repository, service
from app.web.identifiers import ID, AuditId, DatasetId, HardeningId, ModelId
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.deletions import SubjectKind, TombstoneRead, TombstoneSummary

router = APIRouter(prefix="/v1", tags=["deletions"], responses=raises(401, 403))

AlongWithAudits = Annotated[
    bool,
    Query(
        description="Delete the audits that used it along with it, whatever their verdicts. Audits that run are never "
        "deleted."
    ),
]
WithBaselines = Annotated[
    bool, Query(description="Delete it although it is a baseline or its verdict is attested; both stay told.")
]
Subject = Annotated[
    str,
    Path(
        pattern=ID,
        description="Id of what was deleted, or of the tombstone.",
        examples=["aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"],
    ),
]


@router.delete(
    "/audits/{audit_id}", response_model=TombstoneRead, responses=raises(404, 409, 422), summary="Delete an audit"
)
def delete_audit(
    request: Request, audit_id: AuditId, principal: Admin, services: Service, cascade: WithBaselines = False
) -> TombstoneRead:
    """Delete an audit that has ended, its records, figures, events and judgements.

    A baseline, and an audit whose verdict is attested, is a 409 without `cascade`. A tombstone stays, with what was
    asked, how it ended, its judgements and everything that was signed of it. Deleting twice is the same as once.
    """
    author = author_of(principal, request)
    return service.delete(services, principal.project_id, audit_id, "audit", author, cascade=cascade)


@router.delete(
    "/models/{model_id}", response_model=TombstoneRead, responses=raises(404, 409, 422), summary="Delete a model"
)
def delete_model(
    request: Request, model_id: ModelId, principal: Admin, services: Service, cascade: AlongWithAudits = False
) -> TombstoneRead:
    """Delete a model. One that audits measured, or name in a check, is a 409 that lists them.

    Its bytes go within the hour, unless another row has the same. Its name and version are free again: what is uploaded
    under them then is another model with another id, and audits of the old one are told apart from those of the new one
    by their digests. Deleting twice is the same as once.
    """
    author = author_of(principal, request)
    return service.delete(services, principal.project_id, model_id, "model", author, cascade=cascade)


@router.delete(
    "/datasets/{dataset_id}", response_model=TombstoneRead, responses=raises(404, 409, 422), summary="Delete a dataset"
)
def delete_dataset(
    request: Request, dataset_id: DatasetId, principal: Admin, services: Service, cascade: AlongWithAudits = False
) -> TombstoneRead:
    """Delete a dataset. One that audits ran on, or name in a check, is a 409 that lists them."""
    author = author_of(principal, request)
    return service.delete(services, principal.project_id, dataset_id, "dataset", author, cascade=cascade)


@router.delete(
    "/hardenings/{hardening_id}",
    response_model=TombstoneRead,
    responses=raises(404, 409, 422),
    summary="Delete a hardening",
)
def delete_hardening(request: Request, hardening_id: HardeningId, principal: Admin, services: Service) -> TombstoneRead:
    """Delete a hardening that has ended, with its curves and events. One that a plan waits for is a 409.

    The version it made and the pair of audits stay, to be deleted as others are; a tombstone tells what was asked and
    what it was worth. Deleting twice is the same as once.
    """
    author = author_of(principal, request)
    return service.delete(services, principal.project_id, hardening_id, "hardening", author, cascade=False)


@router.get(
    "/tombstones", response_model=Page[TombstoneSummary], responses=raises(422), summary="List what was deleted"
)
def list_tombstones(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("tmb"))],
    kind: Annotated[SubjectKind | None, Query(description="Only of this kind.")] = None,
) -> Response:
    """List what was deleted of the project, by whom and when, newest first. Tombstones are never deleted."""
    with services.database.read() as session:
        rows = repository.list_tombstones(
            session, principal.project_id, kind=kind, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, service.render_summary)


@router.get(
    "/tombstones/{subject}", response_model=TombstoneRead, responses=raises(404, 422), summary="Read what was deleted"
)
def read_tombstone(subject: Subject, principal: Reader, services: Service) -> TombstoneRead:
    """Read what stays of something deleted: what it was, how it ended, and what was signed of it."""
    return service.get_tombstone(services, principal.project_id, subject)
