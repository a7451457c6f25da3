"""The page of a project: what it uses, and the form that limits it."""

from seatrial.store.tables import ProjectRow, QuotaRow, RetentionRow
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


def test_the_operator_limits_another_project_and_an_admin_does_not(locked: Console) -> None:
    locked.key("admin", project="speech")
    locked.log_in("admin")
    assert locked.get("/projects/speech").status_code == 404
    assert locked.post("/projects/speech", weight="2", priority="0").status_code == 404
    listed = words(locked.get("/projects"))
    assert "default" in listed
    assert "speech" not in listed


def test_the_operator_sees_all_projects_and_limits_any(console: Console) -> None:
    with console.services.database.write() as session:
        session.add(ProjectRow(id="prj_other", name="speech"))
    assert "/projects/speech" in [one.get("href") for one in elements(console.get("/projects"), "a")]
    values = {"weight": "2", "priority": "0", "unfinished_audits": "3", "hardenings": "30"}
    refused = console.post("/projects/speech", **{**values, "unfinished_audits": "many"})
    assert (refused.status_code, set(wrong(refused))) == (422, {"unfinished_audits"})
    assert console.post("/projects/speech", **values).headers["location"] == "/projects/speech?done=stored"
    with console.services.database.read() as session:
        assert [(row.project_id, row.unfinished_audits) for row in session.query(QuotaRow)] == [("prj_other", 3)]
        assert [(row.kind, row.keep_days) for row in session.query(RetentionRow)] == [("hardenings", 30)]
    page = console.get("/projects/speech")
    assert "0 of 3" in words(page)
    assert "/projects/speech" in [one.get("action") for one in elements(page, "form")]
    assert "unfinished_audits 3" in words(console.get("/projects"))
    assert console.get("/projects/nowhere").status_code == 404
