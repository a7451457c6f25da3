"""Routes of attestations and of the keys they are signed with."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from app.access.principal import Reader
from app.attestations.service import attestation_of, statements_of
from app.audits.records import JSONL
from app.web.files import etag_matches
from app.web.identifiers import ID, AuditId
from app.web.problems import raises
from app.web.services import Service
from seatrial.attestation.key_folder import KeyFolder
from seatrial.attestation.statements import Unsigned
from seatrial.contracts.signing_keys import PublishedKeys

router = APIRouter(prefix="/v1/audits", tags=["reports"], responses=raises(401, 403))
well_known = APIRouter(tags=["health"])

JudgementId = Annotated[
    str | None,
    Query(
        pattern=ID,
        description="This judgement of the audit; default: the verdict it has.",
        examples=["jdg_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"],
    ),
]


@router.get(
    "/{audit_id}/attestation",
    response_class=Response,
    responses={
        200: {
            "description": "An in-toto bundle: a DSSE envelope a line. The same verdict gives the same bytes, as long "
            "as the installation's key is the same.",
            "content": {JSONL: {"schema": {"type": "string"}}},
        },
        **raises(404, 409, 410, 422, 429, 507),
    },
    summary="Take the signed verdict of an audit",
)
async def read_attestation(
    request: Request, audit_id: AuditId, principal: Reader, services: Service, judgement: JudgementId = None
) -> Response:
    """Return the verdict, signed: `seatrial verify` checks it offline against the files of the model.

    The first envelope is in-toto's `test-result` about every file of the model; the second, of type
    `urn:seatrial:attestation:audit:v1`, has every number with its interval, the policy, the seed, the versions and the
    digest of the records. Where one was signed at submission, the third is the pre-registration.
    """
    project_id = principal.project_id
    row = await services.computations.run(
        request, project_id, lambda: attestation_of(services, project_id, audit_id, judgement)
    )
    kept = {"Cache-Control": "private, no-cache", "ETag": f'"{row.digest}"'}
    if etag_matches(request, kept["ETag"]):
        return Response(status_code=304, headers=kept)
    headers = kept | {
        "Content-Disposition": f'attachment; filename="seatrial-{audit_id}.intoto.jsonl"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(row.content, media_type=JSONL, headers=headers)


@router.get(
    "/{audit_id}/statements",
    response_model=Unsigned,
    responses=raises(404, 409, 410, 422, 429, 507),
    summary="Read what an attestation would state",
)
async def read_statements(
    request: Request, audit_id: AuditId, principal: Reader, services: Service, judgement: JudgementId = None
) -> Response:
    """Return the statements of an attestation, unsigned: `seatrial attest` signs them with a key of yours."""
    project_id = principal.project_id
    result, measured = await services.computations.run(
        request, project_id, lambda: statements_of(services, project_id, audit_id, judgement)
    )
    return JSONResponse(
        Unsigned(test_result=result, measured=measured).model_dump(mode="json", by_alias=True),
        headers={"Cache-Control": "private, no-cache"},
    )


@well_known.get(
    "/.well-known/seatrial-keys.json", name="read_signing_keys", summary="Read the keys attestations are signed with"
)
def read_keys(services: Service) -> PublishedKeys:
    """List the public keys as a JWK Set, oldest first, those that are retired or revoked among them.

    Of keys without an entry in `revoked_at`, what they signed counts until `exp`.
    """
    return services.of(KeyFolder).published()
