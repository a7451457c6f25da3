"""The documentation page: Swagger UI from an installed package, so that it works without a network."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

ASSETS = "/docs/assets"

PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Seatrial API</title>
<link rel="stylesheet" href="{ASSETS}/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{ASSETS}/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""

START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: false,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
"""

# Swagger UI styles itself inline and keeps its icons in data URLs; its scripts are files of ours.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """Serve the page."""
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """Serve the page's one script of ours: inline it would need a weaker policy."""
    return Response(START, media_type="text/javascript")


def install(app: FastAPI) -> None:
    """Add the page and its assets."""
    app.include_router(router)
    # The package's own module fetches nothing, but its page lists a favicon and fonts; only its files are used.
    package = find_spec("fastapi_offline")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("fastapi_offline is not installed: it carries the documentation page's files")
    app.mount(ASSETS, StaticFiles(directory=Path(package.origin).parent / "static"), name="docs-assets")
