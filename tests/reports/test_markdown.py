"""Markdown as it is shown: rendered by a second implementation, with tables and raw HTML on as on GitHub."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.reports.markdown import MAX_CHARACTERS, code, prose, render_markdown, sentence
from seatrial.reporting.outcomes import Judged, applied, not_measured
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, outcome
from tests.reports.fabricated_judgements import judged as made
from tests.reports.test_routes import elements_of

HTML = MarkdownIt("commonmark", {"html": True}).enable("table")
ATTACKS = (
    "[click](http://evil.example)",
    "![seen](http://evil.example/pixel.png)",
    "<http://evil.example>",
    "http://evil.example www.evil.example me@evil.example",
    "@root fix #1",
    "`code` ``code``",
    "a | b\n| --- | --- |\n| c | d |",
    "# heading\n- list\n\n    block",
    "</details><img src=x onerror=alert(1)>",
    "[ref]: http://evil.example\n[ref]",
    "&lt; &#64; \\` \\",
    fabricated.HOSTILE,
)


def shown(one: OneAudit, judged: Judged | None = None) -> str:
    return HTML.render(render_markdown(one.reports.compose(one.id, judged=judged)))


def text_of(html: str) -> str:
    """Return what a reader reads."""
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        html = re.sub("<[^<>]*>", "", html) if entity == "&lt;" else html
        html = html.replace(entity, character)
    return html.replace("\u200b", "").strip()


@pytest.mark.parametrize("case", CASES)
def test_verdict_and_rules_are_a_heading_and_a_table(one_audit: OneAudit, case: str) -> None:
    page = shown(one_audit, CASES[case])
    assert re.search(rf"<h2>Seatrial: \S+ {CASES[case].judgement.verdict}</h2>", page)
    rules = page.partition("<table>")[2].partition("</table>")[0]
    judged, folded = applied(CASES[case].judgement), not_measured(CASES[case].judgement)
    assert not judged or rules.count("<tr>") == 1 + len(judged)
    assert rules.count("at most 0.5") == len(judged)
    assert ("not apply to this audit: " in page) == bool(folded)


def test_a_rule_tells_its_interval_and_why_it_does_not_hold(one_audit: OneAudit) -> None:
    page = shown(one_audit, made("failed", outcome("failed", label="The span")))
    assert "0.7100 [0.6800, 0.7400], n = 400" in page
    assert "<td>The span <code>uncertainty_span.mus</code></td>" in page
    assert "<li>The span: It is failed for a reason.</li>" in page


def test_all_numbers_are_in_a_folded_table(one_audit: OneAudit) -> None:
    folded = shown(one_audit).partition("<details>")[2].partition("</details>")[0]
    for name in fabricated.result()["estimates"]:
        assert f"<code>uncertainty_span.{name}</code>" in folded


def test_flags_and_errors_are_told(one_audit: OneAudit) -> None:
    flag = {"code": "zero_gradients", "severity": "error", "message": "It could not move."}
    problem = {"code": "shard-failed", "title": "A shard failed", "detail": "Killed 3 times."}
    one_audit.change(check={"result": fabricated.result(flags=[flag]), "error": problem})
    page = shown(one_audit)
    one_audit.change(check={"result": fabricated.result(), "error": None})
    assert "<code>zero_gradients</code>: It could not move." in page
    assert "<strong>A shard failed</strong> Killed 3 times." in page


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_hostile_becomes_an_element(one_audit: OneAudit, attack: str) -> None:
    clean = elements_of(shown(one_audit, made("failed", outcome("failed", label="x", reason="x"), headline="x")))
    hostile = made(
        "failed", outcome("failed", label=attack, reason=attack, requirement=attack), headline=attack, baseline=attack
    )
    one_audit.change(model={"name": attack})
    page = shown(one_audit, hostile)
    one_audit.change(model={"name": "cifar-resnet20"})
    found = elements_of(page)
    assert not {"a", "img", "script"} & set(found.tags)
    assert found.attributes <= clean.attributes
    assert found.tags.count("td") == clean.tags.count("td")
    assert found.tags.count("h2") == 1


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=60))
@example("a_b*c* _d_ ~~e~~ <f> &amp; 1. 2) + - #")
def test_prose_shows_exactly_its_words(text: str) -> None:
    assert text_of(HTML.render(f"x{prose(text)}x")) == f"x{text}x"


@given(st.text(alphabet="`ab |\\<>[]()@#1$_*&!\n", min_size=1, max_size=40))
@example("`a` @root `b` #1")
@example("$`a`$")
@example("`[a](http://evil.example)` [b](http://evil.example)")
def test_a_sentence_shows_its_words_and_its_backquotes_make_code_alone(text: str) -> None:
    page = HTML.render(f"x {sentence(text)} x")
    assert set(elements_of(page).tags) <= {"p", "code"}
    said, meant = (re.sub(r"[`\s]", "", one) for one in (text_of(page), f"x {text} x"))
    assert said == meant
    assert not re.search(r"@\w|#\d|https?:|www\.", re.sub(r"(?<!\\)`[^`]*`", "", sentence(text)))


def test_what_seatrial_tells_to_run_is_code_and_a_name_is_not(one_audit: OneAudit) -> None:
    told = outcome("failed", label="`The` span", reason="Promote one: `seatrial baselines promote aud_1`.")
    page = shown(one_audit, made("failed", told))
    assert "Promote one: <code>seatrial baselines promote aud_1</code>." in page
    assert "`The` span" in page


@given(st.text(alphabet="`ab |\\<>[]@", min_size=1, max_size=30))
def test_code_is_one_piece_of_code(text: str) -> None:
    page = HTML.render(f"x {code(text)} y")
    assert page.count("<code>") == 1
    assert page.startswith("<p>x <code>")
    assert page.endswith("</code> y</p>\n")


@pytest.mark.parametrize("text", ["@root", "me@evil.example", "#1", "https://evil.example", "www.evil.example"])
def test_what_is_linked_after_rendering_is_broken_up(text: str) -> None:
    assert not re.search(r"@\w|#\d|https?:|www\.", prose(text))


def test_a_comment_is_never_too_long_for_github(one_audit: OneAudit) -> None:
    measured = fabricated.result()
    measured["estimates"] |= {f"ece[arm=a{n}]": fabricated.estimate(0.1) for n in range(2000)}
    flags = [{"code": f"f{n}", "severity": "info", "message": "m" * 600} for n in range(20)]
    one_audit.change(check={"result": {**measured, "flags": flags}})
    many = [outcome("passed", f"uncertainty_span.ece[arm=a{n}]") for n in range(300)]
    text = render_markdown(one_audit.reports.compose(one_audit.id, judged=made("failed", *many, outcome("failed"))))
    one_audit.change(check={"result": fabricated.result()})
    assert len(text) <= MAX_CHARACTERS
    assert "201 more rules are in the report." in text
    assert "❌ failed" in text.partition("more rules")[0]
    assert re.search(r"<summary>\d+ of the 20\d\d numbers of uncertainty_span; the report has all</summary>", text)
