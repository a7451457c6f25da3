"""A badge of a model's newest verdict, as an SVG for a README or a dashboard.

Guarantee: it is green for ``passed`` and for nothing else, and asked for a stored policy it tells of no file that calls
itself the same. It is read with a key like everything of the project, so that a name tells a stranger nothing.
"""

from collections.abc import Callable
from html import escape
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.access.principal import Reader
from app.policies import presets
from app.policies.repository import policy_digests
from app.policies.service import find_policy
from app.web.identifiers import POLICY
from app.web.problems import NotFoundError, raises
from app.web.services import Service
from seatrial.contracts.near_names import instead
from seatrial.contracts.policies import PolicyRead, PolicySource
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
        str | None,
        Query(
            pattern=POLICY,
            description="Verdicts of this policy only: an id, a name, `name@version`, or a shipped one. A name that is "
            "stored is told of its stored versions alone, not of a file that calls itself the same.",
        ),
    ] = None,
) -> Response:
    """Return an SVG with the verdict of the newest judged audit of a model, and the policy it is of.

    Give `policy`, one that is stored: without it, or with one that is not, whatever the newest audit was submitted with
    decides the colour, and the badge says `unstored` of it.
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
    found = None if policy is None else find_policy(session, project_id, policy)
    is_asked_for, names = _those_of(session, project_id, policy, found), set[str]()
    for verdict, judged_by in session.execute(audits):
        if not judged_by:
            continue
        source = PolicySource.model_validate(judged_by["source"])
        names.add(source.name)
        if is_asked_for(source):
            apart = "" if source.id is not None or source.name in presets.POLICIES else ", unstored"
            return f"{verdict} ({source.name}{apart})", _COLOURS.get(str(verdict), _NONE)
    if policy is not None and policy not in names and found is None:
        raise NotFoundError(
            f"There is no policy {policy} in this project, and no audit of {model} was judged by a file of that name"
            f"{instead(policy, sorted(names), 'it was judged by')}."
        )
    return "no verdict", _NONE


def _those_of(
    session: Session, project_id: str, policy: str | None, found: PolicyRead | None
) -> Callable[[PolicySource], bool]:
    """Return what tells verdicts of a policy, as it was asked for and found, from others'."""
    if found is None:
        return lambda source: policy in (None, source.name)
    if found.created_at is None:
        # Shipped: no other may have its name, and an earlier version of Seatrial's own is still its.
        return lambda source: source.name == found.name
    if policy != found.name:
        # One version, which a file may hold too.
        return lambda source: source.digest == found.digest
    digests = policy_digests(session, project_id, found.name)
    return lambda source: source.digest in digests


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
