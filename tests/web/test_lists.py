"""The largest page a hostile project can make of each list, and what a page never carries."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from app.web.pagination import MAX_LIMIT, MAX_PAGE_BYTES
from app.web.services import Services
from seatrial.contracts.datasets import DatasetFactsSummary, DatasetRead, DatasetSummary
from seatrial.contracts.model_facts import ModelFactsSummary
from seatrial.contracts.models import ModelRead, ModelSummary
from seatrial.store.ids import new_id
from seatrial.store.tables import (
    AuditRow,
    BaselineRow,
    DatasetRow,
    DeliveryRow,
    JudgementRow,
    ModelRow,
    PolicyRow,
    ProjectRow,
    WebhookRow,
)

LABELS = [f"label-{n:05}-{'x' * 150}" for n in range(2000)]
ITEM_BYTES = 2**20
SMALL = 200_000
"""What 200 items of a list have that carries no part of unknown length."""


@pytest.fixture
def project(client: httpx.Client, services: Services) -> str:
    client.get("/v1/models")
    with services.database.read() as session:
        return session.scalars(select(ProjectRow.id)).one()


def store(services: Services, rows: list[Any]) -> None:
    with services.database.write() as session:
        for row in rows:
            session.add(row)
            session.flush()


def model(project: str, **more: Any) -> ModelRow:
    facts = {"parameters": 1, "classes": 2, "labels": LABELS, "device": "cpu", "forward_s": 1.0, "flags": []}
    columns: dict[str, Any] = {
        "name": "m",
        "version": new_id("v")[-32:],
        "task": "image-classification",
        "manifest": {"labels": LABELS, "architecture": {"kind": "endpoint", "request": "y" * 10_000}},
        "digest": "sha256:" + "0" * 64,
        "size_bytes": 1,
        "format": "safetensors",
        "state": "ready",
        "facts": facts,
    }
    return ModelRow(id=new_id("mdl"), project_id=project, **{**columns, **more})


def dataset(project: str) -> DatasetRow:
    counts = {str(n): 1 for n in range(2000)}
    facts = {"format": "npz", "examples": 9, "classes": 2000, "shape": None, "label_counts": counts, "labels": LABELS}
    return DatasetRow(
        id=new_id("dat"),
        project_id=project,
        name="d",
        version=new_id("v")[-32:],
        task="image-classification",
        split="test",
        manifest={"labels": LABELS},
        digest="sha256:" + "0" * 64,
        size_bytes=1,
        format="npz",
        facts=facts,
    )


def audit(project: str, of: ModelRow, on: DatasetRow, n: int) -> AuditRow:
    params = {"kind": "low_level_attack", "note": "z" * 50_000}
    return AuditRow(
        id=new_id("aud"),
        project_id=project,
        model_id=of.id,
        dataset_id=on.id,
        seed=n,
        samples=2,
        spec={"checks": [params]},
        spec_digest="",
    )


@pytest.mark.parametrize("path", ["/v1/models", "/v1/datasets", "/v1/audits"])
def test_lists_carry_no_part_of_unknown_length(
    client: httpx.Client, services: Services, project: str, path: str
) -> None:
    first, data = model(project), dataset(project)
    more: dict[str, list[Any]] = {
        "/v1/models": [model(project) for _ in range(24)],
        "/v1/datasets": [dataset(project) for _ in range(24)],
        "/v1/audits": [audit(project, first, data, n) for n in range(24)],
    }
    store(services, [first, data, *more[path]])
    answer = client.get(path, params={"limit": MAX_LIMIT})
    assert len(answer.json()["items"]) >= 24
    assert len(answer.content) * MAX_LIMIT / 24 < SMALL
    assert "label-00000" not in answer.text
    if path != "/v1/audits":
        item = answer.json()["items"][0]
        assert item["label_count"] == len(LABELS)
        assert set(item["facts"]).isdisjoint({"labels", "label_counts"})
        assert client.get(item["url"]).json()["facts"]["labels"] == LABELS
        assert client.get(item["url"]).json()["manifest"]["labels"] == LABELS


@pytest.mark.parametrize("path", ["/models", "/datasets", "/", "/submit"])
def test_pages_of_the_console_stay_small(client: httpx.Client, services: Services, project: str, path: str) -> None:
    first, data = model(project), dataset(project)
    audits = [audit(project, first, data, n) for n in range(4)]
    store(services, [first, data, *(model(project) for _ in range(9)), *(dataset(project) for _ in range(9)), *audits])
    assert len(client.get(path).content) < SMALL


def policy(project: str, n: int, text: str) -> PolicyRow:
    document = {"name": "p", "description": text, "rules": []}
    return PolicyRow(id=new_id("pol"), project_id=project, name="p", version=n, document=document, digest="")


def large(kind: str, project: str, services: Services) -> tuple[str, Callable[[int, str], Any]]:
    """Return the path of a list and what makes an item of about a length."""
    if kind == "policies":
        return "/v1/policies", lambda n, text: policy(project, n + 1, text)
    one, data = model(project), dataset(project)
    an_audit = audit(project, one, data, 0)
    hook = WebhookRow(id=new_id("whk"), project_id=project, url="", events=[], description="", secrets=[])
    store(services, [one, data, an_audit, hook])
    if kind == "judgements":
        return f"/v1/audits/{an_audit.id}/judgements", lambda n, text: JudgementRow(
            id=new_id("jdg"), audit_id=an_audit.id, is_own=False, verdict="passed", judgement={"x": text}, document={}
        )
    if kind == "deliveries":
        return f"/v1/webhooks/{hook.id}/deliveries", lambda n, text: DeliveryRow(
            id=new_id("dlv"),
            webhook_id=hook.id,
            event="ping",
            payload={"type": "ping", "timestamp": "2026-01-01T00:00:00Z", "data": {"x": text}},
            log=[],
        )
    if kind == "baselines":
        return "/v1/baselines", lambda n, text: BaselineRow(
            id=new_id("bas"), project_id=project, model_name="m", name="n", audit_id=an_audit.id, note=text
        )
    if kind == "models":
        problem = {"code": "x", "title": "x", "detail": "", "field": None}
        return "/v1/models", lambda n, text: model(project, problem={**problem, "detail": text}, state="rejected")
    return "/v1/webhooks", lambda n, text: WebhookRow(
        id=new_id("whk"), project_id=project, url=text, events=[], description="", secrets=[]
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["policies", "judgements", "deliveries", "baselines", "models", "webhooks"])
def test_a_page_ends_where_it_becomes_too_large(
    client: httpx.Client, services: Services, project: str, kind: str
) -> None:
    path, make = large(kind, project, services)
    count = MAX_PAGE_BYTES // ITEM_BYTES + 3
    store(services, [make(n, "é" * (ITEM_BYTES // 2)) for n in range(count)])
    answer = client.get(path, params={"limit": MAX_LIMIT})
    assert answer.status_code == 200, answer.text[:500]
    assert len(answer.content) < MAX_PAGE_BYTES + 2 * ITEM_BYTES
    seen, pages = len(answer.json()["items"]), 1
    while (cursor := answer.json()["next"]) is not None:
        answer = client.get(path, params={"limit": MAX_LIMIT, "cursor": cursor})
        assert answer.json()["items"], "a page must have an item, or nobody gets further"
        seen, pages = seen + len(answer.json()["items"]), pages + 1
    assert pages > 1
    assert seen == count + {"models": 1, "webhooks": 1}.get(kind, 0)


def test_what_a_list_has_is_what_a_read_has() -> None:
    added = {"url", "label_count"}
    assert set(ModelSummary.model_fields) - added - {"architecture"} <= set(ModelRead.model_fields)
    assert set(DatasetSummary.model_fields) - added <= set(DatasetRead.model_fields)
    for facts in (ModelFactsSummary, DatasetFactsSummary):
        assert {"labels", "label_counts", "flags"}.isdisjoint(facts.model_fields)
