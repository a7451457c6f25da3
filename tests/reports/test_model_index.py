"""The model index, as huggingface-hub reads it."""

from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard

from app.reports.model_index import VERDICT, render_model_index
from seatrial.reporting.schemas import ReportRead
from tests.reports import fabricated
from tests.reports.conftest import OneAudit, Reports
from tests.reports.fabricated_judgements import CASES


def loaded(text: str) -> list[EvalResult]:
    """Return the results of a card whose front matter is the text."""
    card = ModelCard(f"---\nlicense: apache-2.0\n{text}---\n# A model\n", ignore_metadata_errors=False)
    assert card.data.eval_results
    return list(card.data.eval_results)


def verdict_of(results: list[EvalResult]) -> EvalResult:
    [one] = [result for result in results if result.metric_type == VERDICT]
    return one


@pytest.mark.parametrize("case", CASES)
def test_a_card_holds_the_verdict_whatever_it_is(one_audit: OneAudit, case: str) -> None:
    one_audit.store(CASES[case])
    one = verdict_of(loaded(one_audit.get("application/yaml").text))
    assert (one.metric_value, one.metric_name) == (
        CASES[case].judgement.verdict,
        CASES[case].judgement.headline,
    )
    assert one.metric_args["limits"][0].startswith(f"Verdict {CASES[case].judgement.verdict}")


def test_every_number_is_read_back_with_its_interval(one_audit: OneAudit) -> None:
    results = loaded(one_audit.get(format="model-index").text)
    told = {one.metric_type: one for one in results if one.metric_type != VERDICT}
    stored = {f"uncertainty_span.{name}": one for name, one in fabricated.result()["estimates"].items()}
    assert told.keys() == {name for name, one in stored.items() if one["value"] is not None}
    for name, one in told.items():
        assert one.metric_value == stored[name]["value"]
        wanted = {"low": "low", "high": "high", "n": "n", "interval": "method"}
        assert {key: one.metric_args[key] for key in wanted} == {
            key: stored[name][column] for key, column in wanted.items()
        }
        assert one.verified is None, "nobody at the Hub has verified it"


def test_a_number_is_still_one_after_huggingface_hub_has_written_it_again(one_audit: OneAudit) -> None:
    text = one_audit.get(format="model-index").text
    card = ModelCard(f"---\n{text}---\n")
    again = ModelCard(str(card))
    assert [one.metric_args for one in again.data.eval_results] == [one.metric_args for one in card.data.eval_results]


def test_numbers_that_must_not_be_relied_on_are_on_no_card(reports: Reports) -> None:
    flag = {"code": "masked_gradients", "severity": "error", "message": "Not to be relied on."}
    results = loaded(reports.get(reports.finished(flags=[flag]), format="model-index").text)
    assert [one.metric_type for one in results] == [VERDICT]
    assert results[0].metric_value == "none"
    assert any("left out" in limit for limit in results[0].metric_args["limits"])


def test_half_an_audit_is_on_no_card(reports: Reports) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, state="running")
    assert reports.get(audit_id, format="model-index").status_code == 409


HOSTILE = [
    fabricated.HOSTILE,
    "a\n---\nlicense: mine",
    "x: !!python/object/apply:os.system [id]",
    "&a *a",
    "\u2028---\u2028",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_ends_the_front_matter_or_becomes_a_field(one_audit: OneAudit, name: str) -> None:
    report: ReportRead = one_audit.reports.compose(one_audit.id, judged=CASES["passed"])
    judgement = CASES["passed"].judgement.model_copy(update={"headline": name})
    sources = [one.model_copy(update={"name": f"{name} 1"}) for one in report.sources]
    text = render_model_index(report.model_copy(update={"judgement": judgement, "sources": sources}))
    read: Any = yaml.safe_load(text)
    assert [*read] == ["model-index"]
    assert read["model-index"][0]["name"] == f"{name} 1"
    assert "\n---" not in f"\n{text}"
    assert verdict_of(loaded(text)).metric_name == name
