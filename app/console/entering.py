"""Logging in and out."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from app.access.authenticator import Authenticator
from app.console import sessions
from app.console.pages import page
from app.console.viewer import ConsoleRoute, Posted, find_viewer, first
from app.web.services import Service

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)


@router.get("/login")
def ask(request: Request, services: Service, next: str = "/") -> Response:
    """Show the form; whoever is logged in already goes on."""
    if find_viewer(request, services) is not None:
        return RedirectResponse(local(next), status_code=303)
    return page(request, "login.html", title="Log in", next=local(next), is_refused=False, is_expired=False)


@router.post("/login")
async def enter(request: Request, services: Service, form: Posted) -> Response:
    """Begin a session, and say nothing about a key that begins none."""
    target = local(first(form, "next"))
    if services.of(Authenticator).is_keyless:
        return RedirectResponse(target, status_code=303)
    token = await run_in_threadpool(sessions.log_in, services, first(form, "key"))
    if token is None:
        return page(request, "login.html", status=401, title="Log in", next=target, is_refused=True, is_expired=False)
    response = RedirectResponse(target, status_code=303)
    sessions.set_cookie(request, response, token)
    return response


@router.post("/logout")
def leave(request: Request, services: Service) -> Response:
    """End the session."""
    if token := sessions.token_of(request):
        sessions.log_out(services, token)
    response = RedirectResponse("/login", status_code=303)
    sessions.clear_cookie(request, response)
    return response


def local(target: str) -> str:
    r"""Return a path of this service; the start page for anything else.

    >>> local("/audits/aud_1?x=1"), local("https://evil.example"), local("//evil.example"), local("/\\evil.example")
    ('/audits/aud_1?x=1', '/', '/', '/')
    """
    # Browsers take any number of slashes for the two before a host (WHATWG URL, section 4.4), a URL parser here two.
    is_path = target.startswith("/") and not target.startswith("//")
    return target if is_path and "\\" not in target and target.isprintable() else "/"
