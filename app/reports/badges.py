"""A badge of a model's newest verdict, as an SVG for a README or a dashboard.

Guarantee: it is green for ``passed`` and for nothing else. It is read with a key like everything of the project, so
that a name tells a stranger nothing.
"""

from html import escape
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.access.principal import Reader
from app.web.problems import NotFoundError, raises
from app.web.services import Service
from seatrial.contracts.policies import NAME
from seatrial.store.tables import AuditRow, ModelRow

router = APIRouter(prefix="/v1/badges", tags=["reports"], responses=raises(401, 403))

_COLOURS = {"passed": "#116b3c", "failed": "#a3161f", "inconclusive": "#7a5200", "errored": "#52606d"}
_NONE = "#52606d"
_LETTER = 6.6
"""Pixels of a letter of 11 px, on average: what does not fit is squeezed by ``textLength``."""


@router.get(
    "/{model}",
    response_class=Response,
    responses={
        200: {"description": "The badge.", "content": {"image/svg+xml": {"schema": {"type": "string"}}}},
        **raises(404, 422),
    },
    summary="Draw a badge of a model's newest verdict",
)
def read_badge(
    principal: Reader,
    services: Service,
    model: Annotated[
        str, Path(max_length=200, pattern=r"^[^\x00]*$", description="Name of the model, over its versions.")
    ],
    policy: Annotated[
        str | None, Query(pattern=NAME, max_length=100, description="Verdicts of this policy only.")
    ] = None,
) -> Response:
    """Return an SVG with the verdict of the newest judged audit of a model, and the policy it is of.

    Give `policy`: without it whatever policy the newest audit was submitted with decides the colour.
    """
    with services.database.read() as session:
        said, colour = _newest(session, principal.project_id, model, policy)
    headers = {
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'",
    }
    return Response(draw(said, colour), media_type="image/svg+xml", headers=headers)


def _newest(session: Session, project_id: str, model: str, policy: str | None) -> tuple[str, str]:
    of_model = select(ModelRow.id).where(ModelRow.project_id == project_id, ModelRow.name == model)
    if "\0" in model or session.scalar(of_model.limit(1)) is None:
        raise NotFoundError(f"There is no model {model} in this project.")
    audits = (
        select(AuditRow.verdict, AuditRow.policy)
        .where(AuditRow.project_id == project_id, AuditRow.model_id.in_(of_model), AuditRow.verdict.is_not(None))
        .order_by(AuditRow.id.desc())
    )
    for verdict, judged_by in session.execute(audits):
        name = (judged_by or {}).get("source", {}).get("name", "")
        if policy is None or name == policy:
            return f"{verdict} ({name})" if name else str(verdict), _COLOURS.get(str(verdict), _NONE)
    return "no verdict", _NONE


def draw(said: str, colour: str, label: str = "seatrial") -> str:
    """Return a badge of two fields.

    Args:
        said: The right one.
        colour: Its background.
        label: The left one.
    """
    left, right = (round(_LETTER * len(text)) + 14 for text in (label, said))
    width = left + right
    title = escape(f"{label}: {said}")
    fields = "".join(
        f'<text x="{x}" y="14" textLength="{size - 14}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        for x, size, text in ((7, left, label), (left + 7, right, said))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">'
        f'<title>{title}</title><rect width="{width}" height="20" rx="3" fill="#16202b"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" fill="{colour}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{fields}</g></svg>'
    )
