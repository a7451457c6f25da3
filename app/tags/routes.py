"""Routes of tags, and of the search."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.principal import Reader, Runner
from app.tags import service
from app.tags.repository import Asked
from app.web.bodies import accepts, json_body
from app.web.identifiers import ID
from app.web.pagination import Cursor, Limit, Page, PageRequest, decode_cursor, page_response
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.policies import Verdict
from seatrial.contracts.registry import families
from seatrial.contracts.tags import MAX_TAGS, TAG, SearchHit, SearchKind, TagChange, TagsRead

router = APIRouter(prefix="/v1", tags=["search"], responses=raises(401, 403))

SubjectId = Annotated[
    str,
    Path(
        pattern=ID,
        description="Id of a model, a dataset or an audit.",
        examples=["mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"],
    ),
]
TAG_EXAMPLES: dict[str, dict[str, Any]] = {"Put one on, take one off": {"add": ["stage=prod"], "remove": ["candidate"]}}


@dataclass(frozen=True)
class _Hit:
    """What a page needs to know of a hit: its id, which is the cursor."""

    id: str
    told: dict[str, Any]


@router.get("/tags/{subject_id}", response_model=TagsRead, responses=raises(404, 422), summary="Read tags")
def read_tags(subject_id: SubjectId, principal: Reader, services: Service) -> TagsRead:
    """Read the tags of a model, a dataset or an audit."""
    return TagsRead(id=subject_id, tags=service.read_tags(services, principal.project_id, subject_id))


@router.post(
    "/tags/{subject_id}",
    response_model=TagsRead,
    responses=raises(400, 404, 413, 415, 422),
    openapi_extra=accepts(TagChange, examples=TAG_EXAMPLES),
    summary="Change tags",
)
def change_tags(
    subject_id: SubjectId,
    principal: Runner,
    body: Annotated[TagChange, Depends(json_body(TagChange))],
    services: Service,
) -> TagsRead:
    """Put tags on a model, a dataset or an audit, and take others off, at once; what others put on stays.

    The same change twice is the same as once. Tags change no number, digest, verdict or attestation.
    """
    return TagsRead(id=subject_id, tags=service.change_tags(services, principal.project_id, subject_id, body))


@router.get("/search", response_model=Page[SearchHit], responses=raises(422), summary="Search")
def search(
    request: Request,
    principal: Reader,
    services: Service,
    of: Annotated[SearchKind, Query(description="What to look through.")] = "audits",
    name: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=100,
            pattern=r"^[A-Za-z0-9._+-]+$",
            description="Part of the name, whatever its case; of an audit that of its model or its dataset.",
        ),
    ] = None,
    tag: Annotated[
        list[Annotated[str, Query(pattern=TAG)]] | None,
        Query(max_length=MAX_TAGS, description="A tag it has; may be repeated: it has all of them."),
    ] = None,
    digest: Annotated[
        str | None,
        Query(
            pattern=r"^(sha256:)?[0-9a-f]{8,64}$",
            description="Beginning of its SHA-256, 8 digits at least; of an audit that of its specification, its "
            "model or its dataset.",
        ),
    ] = None,
    verdict: Annotated[Verdict | None, Query(description="Verdict, of audits.")] = None,
    metric: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[ -~]+$",
            description="A number an audit has measured, by its full name as policies use it.",
            examples=[f"{kind}.{spec.metrics[0].name}" for kind, spec in list(families().items())[:1]],
        ),
    ] = None,
    at_least: Annotated[
        float | None, Query(allow_inf_nan=False, description="Least value of the metric that counts.")
    ] = None,
    at_most: Annotated[
        float | None, Query(allow_inf_nan=False, description="Largest value of the metric that counts.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Find models, datasets or audits by name, tag, digest, verdict and the value of a number, newest first.

    A number is found by its value, whatever its flags and its interval, which come with it: what may ship is for a
    policy to say.
    """
    asked = Asked(
        name=name,
        tags=tag or (),
        digest=None if digest is None else f"sha256:{digest.removeprefix('sha256:')}",
        verdict=verdict,
        metric=service.metric_range(metric, at_least, at_most),
    )
    page = PageRequest(limit, None if cursor is None else decode_cursor(cursor, service.PREFIXES[of]))
    hits = service.search(services, principal.project_id, of, asked, before=page.before, limit=page.fetch)
    return page_response(request, page, [_Hit(hit["id"], hit) for hit in hits], lambda hit: hit.told)
