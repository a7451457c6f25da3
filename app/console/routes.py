"""Routes of the console, all of them pages: none is in the OpenAPI document."""

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from app.console import (
    audits,
    comparison,
    dataset_page,
    entering,
    hardening_form,
    hardenings,
    leaderboards,
    plans,
    policies,
    projects,
    resources,
    search,
    submission,
    webhooks,
)
from app.console.pages import STATIC

ROUTERS = [
    room.router
    for room in (
        *(entering, audits, search, comparison, leaderboards, resources, dataset_page, submission, policies, projects),
        *(hardening_form, hardenings, plans, webhooks),
    )
]


def install(app: FastAPI) -> None:
    """Add the pages and their three files."""
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/console", StaticFiles(directory=STATIC), name="console")
