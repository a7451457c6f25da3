"""Routes of the console, all of them pages: none is in the OpenAPI document."""

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from app.console import audits, entering, resources
from app.console.pages import STATIC

router = APIRouter(include_in_schema=False)
for pages in (entering, audits, resources):
    router.include_router(pages.router)


def install(app: FastAPI) -> None:
    """Add the pages and their three files."""
    app.include_router(router)
    app.mount("/console", StaticFiles(directory=STATIC), name="console")
