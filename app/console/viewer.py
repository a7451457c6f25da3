"""Who looks at a page, and what every route of the console has in common.

A route that changes something answers only to pages of this service, whoever is logged in: the cookie is
``SameSite=Strict``, and :class:`ConsoleRoute` looks at where the request comes from besides. Errors become pages.
"""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.access import repository as keys
from app.access.authenticator import Authenticator
from app.access.schemas import Principal, ScopeName
from app.console import sessions
from app.console.pages import page
from app.web.middleware import SAFE_METHODS, host_of
from app.web.problems import ForbiddenError, InvalidRequestError, internal_error
from app.web.services import Service, Services

# The largest form of ours has some sixty; each field takes a parser in Python microseconds.
MAX_FIELDS = 1000


class LoginNeededError(Exception):
    """Nobody is logged in, or no longer."""


@dataclass(frozen=True)
class Viewer:
    """Who looks at a page.

    Attributes:
        principal: Project and scope.
        project: Name of the project.
        is_keyless: Whether there is nobody to log out: a service on loopback without keys.
    """

    principal: Principal
    project: str
    is_keyless: bool

    @property
    def project_id(self) -> str:
        """The project everything is read from and written to."""
        return self.principal.project_id

    @property
    def may_run(self) -> bool:
        """Whether buttons that change something are shown, and work."""
        return self.principal.may("run")

    @property
    def may_administer(self) -> bool:
        """Whether buttons that delete something are shown, and work."""
        return self.principal.may("admin")


def requires(scope: ScopeName) -> Callable[[Request, Service], Viewer]:
    """Return a dependency that lets a viewer with ``scope`` through."""

    def look(request: Request, services: Service) -> Viewer:
        viewer = find_viewer(request, services)
        if viewer is None:
            raise LoginNeededError
        # Error pages have the navigation of whoever sees them.
        request.state.viewer = viewer
        if not viewer.principal.may(scope):
            raise ForbiddenError(f"This needs a key with scope {scope}; yours has {viewer.principal.scope}.")
        return viewer

    return look


def find_viewer(request: Request, services: Services) -> Viewer | None:
    """Return who looks; None when nobody is logged in."""
    principal = principal_of(request, services)
    if principal is None:
        return None
    with services.database.read() as session:
        project = keys.get_project_name(session, principal.project_id)
    return Viewer(principal, project, services.of(Authenticator).is_keyless)


def principal_of(request: Request, services: Services) -> Principal | None:
    """Return who is logged in; None when nobody is, or no longer."""
    if services.of(Authenticator).is_keyless:
        return services.of(Authenticator).identify(None)
    return sessions.principal_of(services, sessions.token_of(request))


Reader = Annotated[Viewer, Depends(requires("read"))]
Runner = Annotated[Viewer, Depends(requires("run"))]
Admin = Annotated[Viewer, Depends(requires("admin"))]


async def _read_form(request: Request) -> dict[str, list[str]]:
    if (await request.body()).count(b"&") > MAX_FIELDS:
        raise InvalidRequestError(f"The form has more than the {MAX_FIELDS:,} fields read.", pointer="")
    form = await request.form()
    # Browsers send every line end as CR LF.
    return {
        name: [value.replace("\r\n", "\n") for value in form.getlist(name) if isinstance(value, str)] for name in form
    }


Posted = Annotated[dict[str, list[str]], Depends(_read_form)]
"""The fields of a form by name. Stands after the viewer in every signature: a stranger's body is not read."""


def first(form: dict[str, list[str]], name: str) -> str:
    """Return a field's value without spaces around it; nothing for a field that is not there."""
    return next(iter(form.get(name, [])), "").strip()


class ConsoleRoute(APIRoute):
    """A route whose errors are pages, and which no other site's page can make act."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler."""
        answer = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                if request.method not in SAFE_METHODS and not is_from_here(request):
                    raise ForbiddenError("This request does not come from a page of this service.")
                return await answer(request)
            except LoginNeededError:
                return _ask_to_log_in(request)
            except Exception as error:
                return await _error_page(request, error)

        return guarded


def is_from_here(request: Request) -> bool:
    """Return whether a browser says that a page of this service made the request.

    ``Sec-Fetch-Site`` is sent to trustworthy origins only (Fetch Metadata, section 3); over plain HTTP on a network
    ``Origin`` has to do, which every browser sends with a POST.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is not None and host_of(origin) == request.headers.get("host", "")


def _ask_to_log_in(request: Request) -> Response:
    if request.method not in SAFE_METHODS:
        return page(request, "login.html", status=401, title="Log in", next="/", is_refused=False, is_expired=True)
    # A browser withholds a strict cookie when a link of another site leads here, a pipeline's for instance. The page
    # that loads itself once more comes from here, and then the cookie comes too.
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return page(request, "again.html", title="One moment", target=_target(request))
    return RedirectResponse(f"/login?next={quote(_target(request), safe='')}", status_code=303)


def _target(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


async def _error_page(request: Request, error: Exception) -> Response:
    """Return the answer the API would give, as a page: what is told of an error is decided in one place."""
    handlers = request.app.exception_handlers
    handler = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers and kind is not Exception), None)
    answered = internal_error(request, error) if handler is None else await handler(request, error)
    told = problem_of(cast(Response, answered))
    kept = {name: value for name, value in answered.headers.items() if name in ("retry-after", "allow", "connection")}
    shown: HTMLResponse = page(request, "error.html", status=answered.status_code, title=told["title"], problem=told)
    shown.headers.update(kept)
    return shown


def problem_of(response: Response) -> dict[str, Any]:
    """Return the problem in an answer of :mod:`app.web.problems`."""
    told: dict[str, Any] = json.loads(bytes(response.body))
    return told
