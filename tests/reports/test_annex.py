"""The extract for Annex IV: what point 2(g) asks for is in it, in both prints, and nothing more is claimed."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.attestation.test_http import judge, one_audit, taken
from tests.reports import fabricated
from tests.reports.conftest import OneAudit, Reports, serving

__all__ = ["one_audit"]

KINDS = ("annex-iv", "annex-iv-markdown")


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def words_of(kind: str, text: str) -> str:
    """Return the words of a print, without what makes them up."""
    if kind == "annex-iv-markdown":
        return " ".join(re.sub(r"\\(.)", r"\1", text).replace("\u200b", "").replace("|", " ").split())
    parser = _Words()
    parser.feed(text.replace("<wbr>", ""))
    return " ".join(parser.words)


@pytest.mark.parametrize("kind", KINDS)
def test_procedure_data_metrics_limits_dates_and_who_signed_are_in_it(one_audit: OneAudit, kind: str) -> None:
    judge(one_audit, "passed")
    taken(one_audit)
    report = one_audit.get(format="json").json()
    words = words_of(kind, one_audit.get(format=kind).text)
    signature, data = report["signature"], report["sources"][1]
    for wanted in (
        "Verdict: passed.",
        report["reproduction"]["spec_digest"],
        data["name"],
        data["digest"],
        signature["key_id"],
        signature["digest"],
        report["audit"],
        report["finished_at"][:10],
        "point 2(g): dated and signed by the responsible persons",
        "A key says which installation signed, and is no person",
    ):
        assert wanted in words, wanted
    for estimate in report["checks"][0]["estimates"]:
        if estimate["value"] is not None:
            assert estimate["name"] in words
    for param in report["checks"][0]["params"]:
        assert param["name"] in words


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_signed_or_judged_says_so(tmp_path: Path, kind: str) -> None:
    with serving(tmp_path) as bare:
        words = words_of(kind, bare.get(bare.finished(), format=kind).text)
    assert "No policy has judged this audit" in words
    assert "nobody: no signature of this verdict is here" in words


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["failed", "inconclusive", "errored"])
def test_another_verdict_than_a_pass_is_the_first_thing_said(one_audit: OneAudit, kind: str, case: str) -> None:
    judgement = judge(one_audit, case, is_own=False)
    words = words_of(kind, one_audit.get(format=kind, judgement=judgement).text)
    assert f"1. Result point 2(g) Verdict: {case}." in words.replace("(point 2(g))", "point 2(g)")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_must_not_be_relied_on_are_named_among_the_limits_only(reports: Reports, kind: str) -> None:
    flag = {"code": "masked_gradients", "severity": "error", "message": "Not to be relied on."}
    words = words_of(kind, reports.get(reports.finished(flags=[flag]), format=kind).text)
    assert "The numbers of uncertainty_span are left out" in words
    assert "uncertainty_span.mus" not in words


@pytest.mark.parametrize("kind", KINDS)
def test_half_an_audit_is_no_documentation(reports: Reports, kind: str) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, state="running")
    assert reports.get(audit_id, format=kind).status_code == 409


def test_hostile_names_stay_text_in_both(reports: Reports) -> None:
    audit_id = reports.finished()
    hostile = fabricated.HOSTILE
    fabricated.change(reports.database, audit_id, model={"name": hostile}, dataset={"name": hostile})
    answer = reports.get(audit_id, format="annex-iv")
    parser = _Words()
    parser.feed(answer.text)
    assert not {"script", "iframe", "object", "img", "form", "link"} & parser.tags
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert re.search(r"(?<!\\)[<\[]", reports.get(audit_id, format="annex-iv-markdown").text) is None
