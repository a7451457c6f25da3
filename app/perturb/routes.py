"""The route of the perturber."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from app.access.principal import Reader
from app.perturb.schemas import JSONL, MEDIA_TYPES, PERTURB_EXAMPLES, PerturbFormat, choose_format
from app.perturb.service import answer
from app.web.bodies import accepts, json_body
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.perturb import PerturbationsRead, PerturbRequest
from seatrial.noise.lexicons import Lexicons

router = APIRouter(prefix="/v1/perturb", tags=["perturb"], responses=raises(401, 403))


@router.post(
    "",
    response_model=PerturbationsRead,
    responses={
        200: {
            "description": "Perturbed copies; as JSON Lines, one of the `items` per line.",
            "content": {JSONL: {"schema": {"type": "string"}}},
        },
        **raises(400, 406, 413, 415, 422, 429),
    },
    openapi_extra=accepts(PerturbRequest, examples=PERTURB_EXAMPLES),
    summary="Perturb texts",
)
async def perturb_texts(
    request: Request,
    principal: Reader,
    body: Annotated[PerturbRequest, Depends(json_body(PerturbRequest))],
    services: Service,
    format: Annotated[PerturbFormat | None, Query(description="Wins over the Accept header.")] = None,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Put character-level noise on texts without a model, to look at it or to train on it. Nothing is stored.

    The same request gives the same copies, and text number i those that an audit of the same seed makes of example i.
    One request makes 2,000 copies at most, of 200,000 characters and 15,000 tokens of sentences together, from texts of
    20,000 characters each, and takes two seconds of computing at most; requests of a project take turns with others';
    `seatrial perturb` takes files of any size, and needs no service.
    """
    wanted = choose_format(format, accept)
    lexicons = Lexicons(services.settings.resolved_resources)
    content = await answer(
        body,
        lexicons,
        wanted,
        project_id=principal.project_id,
        deadline_s=services.settings.perturb_deadline_s,
        is_disconnected=request.is_disconnected,
    )
    return Response(content, media_type=MEDIA_TYPES[wanted], headers={"Vary": "Accept"})
