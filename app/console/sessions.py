"""Who is logged in: a random cookie, its digest in a row, and the key behind it asked each time.

The cookie is not the key and cannot be turned into it. The row holds digests only, so a copied database logs nobody in,
and any API process knows a session another one began.
"""

import secrets
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from app.access.authenticator import Authenticator
from app.access.schemas import Principal
from app.access.service import digest_of_secret
from app.console import repository
from app.web.services import Services
from seatrial.store.tables import SessionRow
from seatrial.store.tables.base import utc_now

SESSION_KEPT = timedelta(hours=12)
# Longer ones are not looked up: no key of ours has more.
_MAX_SECRET = 1000


def log_in(services: Services, secret: str) -> str | None:
    """Return the token of a new session for the holder of a key; None for a key that is not valid (any more)."""
    if not secret or len(secret) > _MAX_SECRET or services.of(Authenticator).identify(secret) is None:
        return None
    token = secrets.token_urlsafe(32)
    row = SessionRow(
        digest=digest_of_secret(token), key_digest=digest_of_secret(secret), expires_at=utc_now() + SESSION_KEPT
    )
    with services.database.write() as session:
        repository.add_session(session, row, now=utc_now())
    return token


def log_out(services: Services, token: str) -> None:
    """End a session; one that has ended already is no error."""
    with services.database.write() as session:
        repository.delete_session(session, digest_of_secret(token))


def principal_of(services: Services, token: str | None) -> Principal | None:
    """Return who a session's holder is; None when it has ended, or the key behind it has been revoked."""
    if not token or len(token) > _MAX_SECRET:
        return None
    with services.database.read() as session:
        key_digest = repository.find_session(session, digest_of_secret(token), now=utc_now())
    return None if key_digest is None else services.of(Authenticator).identify_digest(key_digest)


def token_of(request: Request) -> str | None:
    """Return the token a request brings."""
    return request.cookies.get(_cookie_name(request))


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Hand a token to the browser: for this host only, not for scripts, and never with another site's request."""
    response.set_cookie(
        _cookie_name(request),
        token,
        max_age=int(SESSION_KEPT.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
        path="/",
    )


def clear_cookie(request: Request, response: Response) -> None:
    """Take the token back from the browser."""
    response.delete_cookie(
        _cookie_name(request), httponly=True, samesite="strict", secure=_is_secure(request), path="/"
    )


def _is_secure(request: Request) -> bool:
    # From a proxy that is not trusted (FORWARDED_ALLOW_IPS) too: all the header can do is make the cookie stricter.
    # Of several proxies each adds what it was asked by; the first spoke to the browser.
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.url.scheme, forwarded)


def _cookie_name(request: Request) -> str:
    # By this prefix a browser takes the cookie from this host over TLS only (RFC 6265bis, section 4.1.3.2): a sister
    # host cannot plant a session of its own.
    return "__Host-seatrial" if _is_secure(request) else "seatrial"
