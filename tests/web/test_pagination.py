import contextlib

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from app.web.pagination import decode_cursor, encode_cursor
from app.web.problems import InvalidRequestError
from app.web.services import Services
from seatrial.store.ids import new_id
from seatrial.store.tables import DatasetRow, ProjectRow
from tests.rows import FACTS


def fill(services: Services, count: int) -> list[str]:
    """Leave exactly ``count`` datasets in the project and return their ids, newest first."""
    with services.database.write() as session:
        project = session.query(ProjectRow).filter_by(name="default").one()
        session.execute(delete(DatasetRow))
        rows = [
            DatasetRow(
                id=new_id("dat"),
                project_id=project.id,
                name=f"d{n}",
                version="1",
                task="image-classification",
                split="test",
                manifest={},
                digest="sha256:" + "0" * 64,
                size_bytes=1,
                format="npz",
                facts=FACTS,
            )
            for n in range(count)
        ]
        session.add_all(rows)
        return sorted((row.id for row in rows), reverse=True)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.integers(0, 23), limit=st.integers(1, 9))
def test_pages_are_the_whole_list_in_order(client: httpx.Client, services: Services, count: int, limit: int) -> None:
    client.get("/v1/datasets")
    wanted = fill(services, count)
    seen: list[str] = []
    url: str | None = f"/v1/datasets?limit={limit}"
    while url:
        answer = client.get(url)
        items = [item["id"] for item in answer.json()["items"]]
        assert len(items) == min(limit, count - len(seen))
        seen += items
        link = answer.headers.get("link")
        assert (link is None) == (answer.json()["next"] is None)
        url = link[1 : link.index(">")] if link else None
    assert seen == wanted


def test_what_is_added_meanwhile_does_not_shift_a_page(client: httpx.Client, services: Services) -> None:
    client.get("/v1/datasets")
    wanted = fill(services, 6)
    first = client.get("/v1/datasets?limit=3").json()
    with services.database.write() as session:
        row = session.get_one(DatasetRow, wanted[0])
        copied = {column.key: getattr(row, column.key) for column in DatasetRow.__table__.columns}
        session.add(DatasetRow(**copied | {"id": new_id("dat"), "name": "new"}))
    second = client.get(f"/v1/datasets?limit=3&cursor={first['next']}").json()
    assert [item["id"] for item in first["items"] + second["items"]] == wanted


@given(st.text(max_size=60))
def test_no_text_makes_a_cursor_fail_otherwise_than_as_a_problem(text: str) -> None:
    with contextlib.suppress(InvalidRequestError):
        assert encode_cursor(decode_cursor(text, "aud")).rstrip("=") == text.rstrip("=")


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        decode_cursor(encode_cursor(new_id("mdl")), "aud")
