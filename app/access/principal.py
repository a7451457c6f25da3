"""Who is asking, as a dependency: ``Reader``, ``Runner`` and ``Admin`` name the scope a route needs."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from app.access.authenticator import Authenticator
from app.access.schemas import Principal, ScopeName
from app.web.problems import ForbiddenError, UnauthorizedError, request_id_of
from app.web.quotas import Quotas
from app.web.services import Service, Services
from seatrial.logs import name_more
from seatrial.store.activity import OPERATOR, Author


def _secret(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise UnauthorizedError("Send the key as `Authorization: Bearer <key>`.")
    return secret.strip()


def _refusal(services: Services, secret: str | None) -> str:
    if secret is None:
        return "Send a key as `Authorization: Bearer <key>`."
    # Whoever holds the secret may know what became of it.
    expired_at = services.of(Authenticator).expired_at(secret)
    if expired_at is not None:
        return f"This key expired on {expired_at:%Y-%m-%d at %H:%M:%S} UTC: ask an admin of the project for another."
    return "This key is not valid (any more)."


def requires(scope: ScopeName) -> Callable[[Request, Service], Awaitable[Principal]]:
    """Return a dependency that lets a request through when its key has ``scope``."""

    async def identify(request: Request, services: Service) -> Principal:
        secret = _secret(request)
        known = services.of(Authenticator).recall(secret)
        principal = known or await run_in_threadpool(services.of(Authenticator).identify, secret)
        if principal is None:
            raise UnauthorizedError(await run_in_threadpool(_refusal, services, secret))
        if not principal.may(scope):
            raise ForbiddenError(f"This needs a key with scope {scope}; yours has {principal.scope}.")
        name_more(project_id=principal.project_id)
        await _count(services.of(Quotas), principal)
        return principal

    return identify


async def _count(quotas: Quotas, principal: Principal) -> None:
    """Count a request of a project; whoever sets the limits is never locked out."""
    if principal.is_operator:
        return
    if quotas.is_known(principal.project_id):
        quotas.take_request(principal.project_id)
    else:
        await run_in_threadpool(quotas.take_request, principal.project_id)


Reader = Annotated[Principal, Depends(requires("read"))]
Runner = Annotated[Principal, Depends(requires("run"))]
Admin = Annotated[Principal, Depends(requires("admin"))]


def author_of(principal: Principal, request: Request) -> Author:
    """Return who is written down as doing what the request asks."""
    return Author(principal.key_id or OPERATOR, request_id_of(request) or None)
