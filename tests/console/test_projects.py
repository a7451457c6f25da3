"""The page of a project: what it uses, and the form that limits it."""

from seatrial.store.tables import QuotaRow, RetentionRow
from tests.console.conftest import Console, elements, words
from tests.console.test_uploads import wrong


def test_the_operator_limits_a_project_and_sees_who_did(console: Console) -> None:
    values = {"weight": "2", "priority": "0", "unfinished_audits": "20", "stored_bytes": "1,000,000", "audits": "90"}
    assert console.post("/project", **values).headers["location"] == "/project?done=stored"
    with console.services.database.read() as session:
        quota = session.query(QuotaRow).one()
        assert (quota.unfinished_audits, quota.stored_bytes, quota.daily_s) == (20, 1_000_000, None)
        assert [(row.kind, row.keep_days) for row in session.query(RetentionRow)] == [("audits", 90)]
    told = words(console.get("/project"))
    assert "0 of 20" in told
    assert "project.changed" in told
    assert "Stored0 bytes of 1.0 MB: models 0 bytes" in told
    assert "as estimatednone" in told


def test_how_keys_are_made_is_said_and_an_admin_sees_them(locked: Console) -> None:
    locked.key("read")
    locked.log_in("run")
    told = words(locked.get("/project"))
    assert "seatrial keys create NAME --scope run --project default" in told
    assert "read key" not in told
    locked.log_in("admin")
    assert "read key" in words(locked.get("/project"))


def test_webhooks_disk_and_keys_are_found_by_name_on_every_page(console: Console) -> None:
    links = [one.get("href") for one in elements(console.get("/"), "a")]
    assert {"/webhooks", "/project#used", "/project#keys"} <= set(links)
    assert {"used", "keys"} <= {one.get("id") for one in elements(console.get("/project"))}


def test_what_is_no_number_is_told_beside_its_field(console: Console) -> None:
    page = console.post("/project", weight="2", priority="0", unfinished_audits="many", audits="0")
    assert page.status_code == 422
    assert set(wrong(page)) == {"unfinished_audits", "audits"}
