"""Routes of policies and baselines."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from app.access.principal import Reader, Runner, author_of
from app.policies import repository
from app.policies.baselines import promote
from app.policies.documents import MAX_YAML_BYTES, YamlError, yaml_to_json
from app.policies.schemas import BASELINE_EXAMPLES, POLICY_EXAMPLES
from app.policies.service import find_policy, parse_policy, shipped_policies, store_policy
from app.web.bodies import accepts, json_body
from app.web.identifiers import OfModelName, PolicyReference
from app.web.pagination import Page, PageRequest, page_request, page_response
from app.web.problems import MalformedBodyError, NotFoundError, PayloadTooLargeError, UnsupportedMediaError, raises
from app.web.services import Service
from seatrial.contracts.policies import NAME, BaselineCreate, BaselineRead, Policy, PolicyRead
from seatrial.store.tables import PolicyRow

router = APIRouter(prefix="/v1", responses=raises(401, 403))

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
Named = Annotated[str | None, Query(pattern=NAME, description="List only policies of this name.")]


async def _policy_body(request: Request) -> Policy:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await request.body()
    if media_type == "application/json" or media_type.endswith("+json"):
        return parse_policy(raw)
    if media_type not in YAML_TYPES and not media_type.endswith("+yaml"):
        told = f"Send Content-Type: application/json or application/yaml, not {media_type or 'nothing'}."
        raise UnsupportedMediaError(told)
    if len(raw) > MAX_YAML_BYTES:
        raise PayloadTooLargeError(f"YAML of {len(raw):,} bytes; at most {MAX_YAML_BYTES:,} are read.", pointer="")
    # Reading YAML takes long enough to hold up everybody else.
    return await run_in_threadpool(_parse_yaml, raw)


def _parse_yaml(raw: bytes) -> Policy:
    try:
        text = yaml_to_json(raw)
    except YamlError as error:
        raise MalformedBodyError(f"Not YAML that is read here: {error}") from error
    return parse_policy(text)


def _accepts_policy() -> dict[str, Any]:
    documented = accepts(Policy, examples=POLICY_EXAMPLES)
    content = documented["requestBody"]["content"]
    content["application/yaml"] = content["application/json"]
    return documented


@router.post(
    "/policies",
    status_code=201,
    response_model=PolicyRead,
    responses={
        200: {"model": PolicyRead, "description": "It is the newest version already."},
        **raises(400, 403, 413, 415, 422),
    },
    openapi_extra=_accepts_policy(),
    summary="Store a policy",
    tags=["policies"],
)
def add_policy(
    request: Request, principal: Runner, body: Annotated[Policy, Depends(_policy_body)], services: Service
) -> Response:
    """Store a policy as the next version of its name; the document of the newest version again is that version.

    As JSON, or as YAML (`application/yaml`, one document without aliases and repeated keys; `no` is a text and `1e-3` a
    number). Versions never change: a verdict can always be understood from the policy it is of. The first version of a
    name takes a key with scope `run`, every other one `admin`: who asks for the name is judged by the newest.
    """
    policy, is_new = store_policy(
        *(services, principal.project_id, body, author_of(principal, request)), may_replace=principal.may("admin")
    )
    headers = {"Location": f"/v1/policies/{policy.id}"}
    return JSONResponse(policy.model_dump(mode="json"), status_code=201 if is_new else 200, headers=headers)


@router.get(
    "/policies", response_model=Page[PolicyRead], responses=raises(422), summary="List policies", tags=["policies"]
)
def list_policies(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("pol"))],
    name: Named = None,
    shipped: Annotated[
        bool, Query(description="`true`: those that come with Seatrial, in one page, instead of the project's own.")
    ] = False,
) -> Response:
    """List the project's policies in all their versions, newest first."""
    if shipped:
        told = [policy for policy in shipped_policies() if name in (None, policy.name)]
        return JSONResponse({"items": [policy.model_dump(mode="json") for policy in told], "next": None})
    with services.database.read() as session:
        rows = repository.list_policies(session, principal.project_id, name=name, before=page.before, limit=page.fetch)
        return page_response(request, page, rows, _render_policy)


def _render_policy(row: PolicyRow) -> dict[str, Any]:
    return PolicyRead.model_validate(row).model_dump(mode="json")


@router.get(
    "/policies/{reference}",
    response_model=PolicyRead,
    responses=raises(404, 422),
    summary="Read a policy",
    tags=["policies"],
)
def read_policy(reference: PolicyReference, principal: Reader, services: Service) -> PolicyRead:
    """Read a version of a policy, defaults filled in."""
    with services.database.read() as session:
        policy = find_policy(session, principal.project_id, reference)
    if policy is None:
        raise NotFoundError(f"There is no policy {reference} in this project.")
    return policy


@router.post(
    "/baselines",
    status_code=201,
    response_model=BaselineRead,
    responses=raises(400, 413, 415, 422),
    openapi_extra=accepts(BaselineCreate, examples=BASELINE_EXAMPLES),
    summary="Promote an audit to a baseline",
    tags=["baselines"],
)
def promote_audit(
    request: Request,
    principal: Runner,
    body: Annotated[BaselineCreate, Depends(json_body(BaselineCreate))],
    services: Service,
) -> BaselineRead:
    """Make a succeeded audit what later audits of models of the same name are compared with.

    The newest of a model and a name is in force; those before it stay as its history. To go back, promote the earlier
    audit again; promoting the one in force again changes nothing, but for another note. A key with scope `run` promotes
    an audit whose own verdict is `passed`, and where there is a baseline of the name already, one that passed the
    policy that one was judged by; with `admin`, any that succeeded.
    """
    author = author_of(principal, request)
    return promote(services, principal.project_id, body, author, needs_pass=not principal.may("admin"))


@router.get(
    "/baselines", response_model=Page[BaselineRead], responses=raises(422), summary="List baselines", tags=["baselines"]
)
def list_baselines(
    request: Request,
    principal: Reader,
    services: Service,
    page: Annotated[PageRequest, Depends(page_request("bas"))],
    model: OfModelName = None,
    name: Named = None,
) -> Response:
    """List baselines and those they replaced, newest first."""
    with services.database.read() as session:
        rows = repository.list_baselines(
            session, principal.project_id, model=model, name=name, before=page.before, limit=page.fetch
        )
        return page_response(request, page, rows, lambda row: BaselineRead.model_validate(row).model_dump(mode="json"))
