"""The documentation page: Swagger UI from an installed package, so that it works without a network.

Above it stands a walk through a whole audit, whose examples are a model and a dataset of :mod:`app.web.samples`.
"""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from app.web import samples
from app.web.problems import NotFoundError

ASSETS = "/docs/assets"
STATIC = Path(__file__).parent / "static"

# Swagger UI styles itself inline and keeps its icons in data URLs; its scripts are files of ours.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """Serve the page."""
    text = (STATIC / "docs.html").read_text(encoding="utf-8")
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})


@router.get("/docs/docs.{kind}")
async def own_file(kind: str) -> Response:
    """Serve the page's script and style sheet of ours: inline they would need a weaker policy."""
    if kind not in ("js", "css"):
        raise NotFoundError(f"There is no /docs/docs.{kind[:20]}.")
    return FileResponse(STATIC / f"docs.{kind}")


@router.get("/docs/samples/{name}")
def sample(name: str) -> Response:
    """Serve a file to upload in the walk through an audit."""
    if name not in samples.FILES:
        raise NotFoundError(f"There is no sample {name[:100]!r}; there are {', '.join(samples.FILES)}.")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(samples.FILES[name](), media_type="application/octet-stream", headers=headers)


def install(app: FastAPI) -> None:
    """Add the page and its assets."""
    app.include_router(router)
    # The package's own module fetches nothing, but its page lists a favicon and fonts; only its files are used.
    package = find_spec("fastapi_offline")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("fastapi_offline is not installed: it carries the documentation page's files")
    app.mount(ASSETS, StaticFiles(directory=Path(package.origin).parent / "static"), name="docs-assets")
