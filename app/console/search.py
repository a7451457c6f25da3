"""The page of the search, on which tags are changed too."""

import json
import re
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.console.pages import page
from app.console.viewer import ConsoleRoute, Posted, Reader, Runner, first
from app.tags.repository import Asked
from app.tags.service import PREFIXES, change_tags, metric_range, search
from app.web.bodies import parse_json
from app.web.identifiers import is_id
from app.web.pagination import decode_cursor, encode_cursor
from app.web.problems import InvalidRequestError, NotFoundError
from app.web.services import Service, Services
from seatrial.contracts.policies import Verdict
from seatrial.contracts.tags import SearchKind, TagChange

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

PER_PAGE = 50
KINDS: tuple[SearchKind, ...] = get_args(SearchKind)
VERDICTS: tuple[str, ...] = get_args(Verdict)
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")


@router.get("/search")
def show_search(
    request: Request,
    viewer: Reader,
    services: Service,
    of: str = "audits",
    name: str = "",
    tag: str = "",
    digest: str = "",
    verdict: str = "",
    metric: str = "",
    at_least: str = "",
    at_most: str = "",
    cursor: str = "",
) -> Response:
    """Find models, datasets or audits; what a field says that nothing can be is said above the list."""
    fields = {"name": name, "tag": tag, "digest": digest, "verdict": verdict}
    fields |= {"metric": metric, "at_least": at_least, "at_most": at_most}
    said = {"of": of if of in KINDS else "audits", **{key: text.strip()[:200] for key, text in fields.items()}}
    hits, refusal = [], ""
    try:
        hits = _hits(services, viewer.project_id, said, cursor)
    except InvalidRequestError as error:
        refusal = error.detail
    following = encode_cursor(hits[PER_PAGE - 1]["id"]) if len(hits) > PER_PAGE else None
    kept = {key: text for key, text in said.items() if text}
    return page(
        request,
        "search.html",
        title="Search",
        asked=said,
        kinds=KINDS,
        verdicts=VERDICTS,
        hits=hits[:PER_PAGE],
        refusal=refusal,
        here=urlencode(kept),
        newest=f"/search?{urlencode(kept)}" if cursor else None,
        following=f"/search?{urlencode({**kept, 'cursor': following})}" if following else None,
    )


@router.post("/tags/{subject_id}")
def change(subject_id: str, viewer: Runner, services: Service, posted: Posted) -> Response:
    """Put a tag on something, or take one off, and go back to the search."""
    if not is_id(subject_id):
        raise NotFoundError("There is no such model, dataset or audit in this project.")
    body = {name: [text for text in first(posted, name).split() if text] for name in ("add", "remove")}
    change_tags(services, viewer.project_id, subject_id, parse_json(json.dumps(body), TagChange))
    # Only what the search itself would say: an address of another place is none of its fields.
    back = {name: values[0] for name, values in posted.items() if name.startswith("q-") and values}
    return RedirectResponse(
        f"/search?{urlencode({name.removeprefix('q-'): text for name, text in back.items()})}", status_code=303
    )


def _hits(services: Services, project_id: str, said: dict[str, Any], cursor: str) -> list[dict[str, Any]]:
    digest = _DIGEST.fullmatch(said["digest"])
    if said["digest"] and digest is None:
        raise InvalidRequestError("A digest is a SHA-256 or its beginning: 8 digits at least, of 0-9 and a-f.")
    of: SearchKind = said["of"]
    asked = Asked(
        name=said["name"] or None,
        tags=said["tag"].split(),
        digest=None if digest is None else f"sha256:{digest[1]}",
        verdict=said["verdict"] if said["verdict"] in VERDICTS else None,
        metric=metric_range(said["metric"] or None, _number(said["at_least"]), _number(said["at_most"])),
    )
    before = decode_cursor(cursor, PREFIXES[of]) if cursor else None
    return search(services, project_id, of, asked, before=before, limit=PER_PAGE + 1)


def _number(text: str) -> float | None:
    if not text:
        return None
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text):
        raise InvalidRequestError(f"{text[:40]!r} is no number.")
    return float(text)
