"""Routes of API keys."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy import Row

from app.access import repository
from app.access.authenticator import Authenticator
from app.access.principal import Admin, author_of
from app.access.schemas import KeyCreate, KeyCreated, KeyRead
from app.access.service import create_key
from app.web.bodies import accepts, json_body
from app.web.identifiers import KeyId
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import ForbiddenError, NotFoundError, raises
from app.web.services import Service
from seatrial.store.tables import KeyRow

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=raises(401, 403))


@router.post(
    "",
    status_code=201,
    response_model=KeyCreated,
    responses=raises(400, 413, 415, 422),
    openapi_extra=accepts(
        KeyCreate,
        examples={
            "A key for a pipeline": {"name": "ci", "scope": "run"},
            "A key for a quarter of a year": {"name": "ci", "scope": "run", "expires_in_days": 90},
        },
    ),
    summary="Make a key",
)
def make_key(
    request: Request, principal: Admin, body: Annotated[KeyCreate, Depends(json_body(KeyCreate))], services: Service
) -> KeyCreated:
    """Make an API key. Its secret is in this response and nowhere else.

    With `expires_at` or `expires_in_days` it stops working by itself, and so does whoever logged in to the console with
    it; without, it works until it is revoked.
    """
    with services.database.read() as session:
        own = repository.get_project_name(session, principal.project_id)
    project = body.project or own
    if project != own and not principal.is_operator:
        raise ForbiddenError(f"An admin of {own} makes keys for {own}; only the operator may name another project.")
    secret, row = create_key(
        services.database,
        project,
        body.name,
        body.scope,
        expires_at=body.expiry(),
        author=author_of(principal, request),
    )
    return KeyCreated(**_read(row, project).model_dump(), secret=secret)


@router.get("", response_model=Page[KeyRead], responses=raises(422), summary="List keys")
def list_keys(
    request: Request, principal: Admin, services: Service, page: Annotated[PageRequest, Depends(page_request("key"))]
) -> Response:
    """List the project's keys, newest first; the operator sees those of every project."""
    project_id = None if principal.is_operator else principal.project_id
    with services.database.read() as session:
        rows = repository.list_keys(session, project_id, before=page.before, limit=page.fetch)

    def render(key: KeyRow) -> dict[str, Any]:
        return _read(key, names[key.id]).model_dump(mode="json")

    names = {row[0].id: row[1] for row in rows}
    return page_response(request, page, [row[0] for row in rows], render)


@router.delete("/{key_id}", status_code=204, responses=raises(404, 422), summary="Revoke a key")
def revoke_key(request: Request, key_id: KeyId, principal: Admin, services: Service) -> Response:
    """Stop a key from working, at once here and within two seconds on other API processes."""
    project_id = None if principal.is_operator else principal.project_id
    with services.database.write() as session:
        row: Row[KeyRow, str] | None = repository.find(session, key_id, project_id)
        if row is None:
            raise NotFoundError(f"There is no key {key_id} in this project.")
        repository.revoke(session, key_id, author_of(principal, request))
    services.of(Authenticator).forget(row[0].digest)
    return Response(status_code=204)


def _read(row: KeyRow, project: str) -> KeyRead:
    return KeyRead(
        id=row.id,
        name=row.name,
        project=project,
        scope=row.scope,
        prefix=row.prefix,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
