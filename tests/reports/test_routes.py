"""The report over HTTP: formats, headers, projects."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from app.reports.negotiation import MEDIA_TYPES
from seatrial.reporting.schemas import ReportRead
from tests.reports import fabricated, fabricated_judgements
from tests.reports.conftest import Reports, serving
from tests.rows import add_audit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "text/html"),
        ("*/*", "text/html"),
        ("text/*", "text/html"),
        ("text/markdown", "text/markdown"),
        ("text/markdown;q=0.9, text/html;q=0.8", "text/markdown"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json", "application/json"),
        ("text/html;q=0.3, application/json;q=0.8", "application/json"),
        ("text/html;q=0, */*;q=0.1", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
    ],
)
def test_the_accept_header_chooses(reports: Reports, accept: str | None, kind: str) -> None:
    answer = reports.get(reports.finished(), accept)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == kind
    assert answer.headers["vary"] == "Accept"


def test_format_goes_before_accept(reports: Reports) -> None:
    assert reports.get(reports.finished(), "text/html", format="json").json()["format"] == "seatrial.report/1"


@pytest.mark.parametrize(("accept", "format"), [("application/pdf", None), ("text/html;q=0", None), (None, "pdf")])
def test_another_format_is_406_and_lists_what_there_is(
    reports: Reports, accept: str | None, format: str | None
) -> None:
    answer = reports.get(reports.finished(), accept, **({"format": format} if format else {}))
    assert answer.status_code == 406
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "not-acceptable"
    assert [one["format"] for one in problem["available"]] == [*MEDIA_TYPES]
    assert {one["media_type"] for one in problem["available"]} == {*MEDIA_TYPES.values()}


def test_another_projects_audit_is_not_found(reports: Reports) -> None:
    foreign = add_audit(reports.database)
    assert reports.get(foreign).status_code == 404
    assert reports.get("aud_nothing").status_code == 404


def test_the_json_report_follows_its_schema_and_holds_every_number(reports: Reports) -> None:
    audit_id = reports.finished()
    body = reports.get(audit_id, "application/json").json()
    report = ReportRead.model_validate(body)
    assert report == reports.compose(audit_id).model_copy(update={"url": f"http://127.0.0.1/audits/{audit_id}"})
    stored = fabricated.result()
    published = {f"uncertainty_span.{name}": value for name, value in stored["estimates"].items()}
    told = {
        one["name"]: {key: one[key] for key in ("value", "low", "high", "n", "method")}
        for one in body["checks"][0]["estimates"]
    }
    assert told == published
    assert all(one["description"] for one in body["checks"][0]["estimates"])
    assert body["checks"][0]["counts"] == stored["counts"]
    assert body["checks"][0]["figures"][0]["svg"] == fabricated.SVG


def test_the_page_is_locked_up(reports: Reports) -> None:
    answer = reports.get(reports.finished(), "text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script" not in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


class _Elements(HTMLParser):
    """Collects the elements, attributes and addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("src", "href", "action", "srcset", "data"):
                self.addresses.append(value or "")


def elements_of(page: str) -> _Elements:
    elements = _Elements()
    elements.feed(page)
    elements.close()
    return elements


def test_hostile_names_stay_text(reports: Reports) -> None:
    audit_id = reports.finished(flags=[{"code": "x_y", "severity": "error", "message": fabricated.HOSTILE}])
    hostile = fabricated.HOSTILE
    fabricated.change(
        reports.database,
        audit_id,
        check={"figures": {hostile: reports.store.put_bytes(b"<svg><script>alert(2)</script></svg>")}},
        model={"name": hostile, "manifest": {"labels": [hostile] * 3, "architecture": {"kind": hostile}}},
        dataset={"name": hostile},
        audit={"spec": {"note": hostile}},
    )
    page = reports.get(audit_id, "text/html").text
    elements = elements_of(page)
    assert not {"script", "iframe", "object", "embed", "link", "form", "base", "foreignobject"} & set(elements.tags)
    assert not [name for name in elements.attributes if name.startswith("on") or name == "style"]
    console, *pictures = elements.addresses
    assert console == f"http://127.0.0.1/audits/{audit_id}"
    assert all(address.startswith("data:image/svg+xml;base64,") for address in pictures)
    assert "<script" not in page
    assert "{{7*7}}" in page
    assert page.count("</style>") == 1


def test_the_page_can_be_heard_as_well_as_seen(reports: Reports) -> None:
    page = reports.get(reports.finished(), "text/html").text
    elements = elements_of(page)
    assert elements.tags.count("h1") == 1
    assert page.count("<img") == page.count(' alt="Reliability') + page.count(' alt="Histograms')
    assert elements.tags.count("caption") == elements.tags.count("table")
    assert page.count("<th ") == page.count('scope="col"') + page.count('scope="row"')
    assert '<html lang="en">' in page


def test_reports_lead_back_to_the_console_where_it_has_an_address(tmp_path: Path) -> None:
    with serving(tmp_path, public_url="https://seatrial.example.com/") as reports:
        audit = reports.finished()
        page = f"https://seatrial.example.com/audits/{audit}"
        fabricated_judgements.store(reports.database, audit, fabricated_judgements.CASES["failed"])
        assert f"[Open the audit in the console]({page})" in reports.get(audit, format="markdown").text
        assert f'<a href="{page}">' in reports.get(audit, format="html").text
        assert reports.get(audit, format="json").json()["url"] == page
        assert f'name="url" value="{page}"' in reports.get(audit, format="junit").text
        results = reports.get(audit, format="sarif").json()["runs"][0]["results"]
        assert {result["hostedViewerUri"] for result in results} == {page}


def test_the_address_it_was_called_by_is_one_and_a_passing_service_has_none(tmp_path: Path) -> None:
    """That of this machine as well: a service that stays answers there."""
    with serving(tmp_path / "stays") as reports:
        audit = reports.finished()
        page = f"http://127.0.0.1/audits/{audit}"
        assert reports.get(audit, format="json").json()["url"] == page
        assert f"[Open the audit in the console]({page})" in reports.get(audit, format="markdown").text
    with serving(tmp_path / "ends", ends_with_command=True, public_url="https://seatrial.example.com") as reports:
        assert reports.get(reports.finished(), format="json").json()["url"] is None
