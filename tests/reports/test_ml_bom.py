"""The bill of materials against the schema of CycloneDX itself, and what programs that read only numbers get."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from cyclonedx.model.bom import Bom
from jsonschema import Draft7Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT7

from app.reports.ml_bom import render_ml_bom
from tests.reports import fabricated
from tests.reports.conftest import OneAudit, Reports
from tests.reports.fabricated_judgements import CASES


@cache
def validator() -> Draft7Validator:
    folder = files("cyclonedx.schema._res")
    schemas = {
        name: json.loads((folder / name).read_text(encoding="utf-8"))
        for name in ("bom-1.6.SNAPSHOT.schema.json", "spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json")
    }
    resources = {one["$id"]: DRAFT7.create_resource(one) for one in schemas.values()}
    named = {f"http://cyclonedx.org/schema/{name}": DRAFT7.create_resource(one) for name, one in schemas.items()}
    registry: Registry = Registry().with_resources([*resources.items(), *named.items()])
    return Draft7Validator(schemas["bom-1.6.SNAPSHOT.schema.json"], registry=registry, format_checker=FormatChecker())


def problems_of(bom: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(bom)]


def card_of(bom: dict[str, Any]) -> dict[str, Any]:
    [model] = [one for one in bom["components"] if "modelCard" in one]
    assert model["type"] == "machine-learning-model"
    return model["modelCard"]


def limits_of(bom: dict[str, Any]) -> str:
    return "\n".join(card_of(bom)["considerations"]["technicalLimitations"])


@pytest.mark.parametrize("case", CASES)
def test_it_follows_the_published_schema(one_audit: OneAudit, case: str) -> None:
    one_audit.store(CASES[case])
    bom = one_audit.get(format="cyclonedx").json()
    assert problems_of(bom) == []
    told = {one["name"]: one["value"] for one in bom["metadata"]["properties"]}
    assert told["seatrial:verdict"] == CASES[case].judgement.verdict
    assert limits_of(bom).startswith(f"Verdict {CASES[case].judgement.verdict} by the policy release")


def test_the_schema_is_one_that_can_be_broken(one_audit: OneAudit) -> None:
    bom = one_audit.get(format="cyclonedx").json()
    card_of(bom)["quantitativeAnalysis"]["performanceMetrics"][0]["value"] = 0.5
    assert problems_of(bom)


def test_every_number_is_in_it_with_its_interval_and_what_it_rests_on(one_audit: OneAudit) -> None:
    bom = one_audit.get("application/vnd.cyclonedx+json").json()
    card = card_of(bom)
    metrics = {one["type"]: one for one in card["quantitativeAnalysis"]["performanceMetrics"]}
    basis = {one["name"]: one["value"] for one in card["properties"]}
    stored = {f"uncertainty_span.{name}": one for name, one in fabricated.result()["estimates"].items()}
    assert metrics.keys() == {name for name, one in stored.items() if one["value"] is not None}
    for name, metric in metrics.items():
        assert float(metric["value"]) == stored[name]["value"]
        told = metric.get("confidenceInterval")
        ends = None if told is None else (float(told["lowerBound"]), float(told["upperBound"]))
        assert ends == (None if stored[name]["low"] is None else (stored[name]["low"], stored[name]["high"]))
        assert f"n={stored[name]['n']} interval={stored[name]['method']}" in basis[f"seatrial:metric:{name}"]
    assert any("confidenceInterval" in metric for metric in metrics.values())


def test_the_library_of_cyclonedx_reads_it(one_audit: OneAudit) -> None:
    read = Bom.from_json(one_audit.get(format="cyclonedx").json())
    kinds = {component.type.value for component in read.components}
    assert kinds == {"machine-learning-model", "data"}


def test_the_same_verdict_gives_the_same_document(one_audit: OneAudit) -> None:
    one_audit.store(CASES["passed"])
    first, again = (one_audit.get(format="cyclonedx") for _ in range(2))
    assert first.content == again.content
    one_audit.store(CASES["failed"])
    assert one_audit.get(format="cyclonedx").json()["serialNumber"] != first.json()["serialNumber"]


def test_numbers_that_must_not_be_relied_on_reach_no_program(reports: Reports) -> None:
    flag = {"code": "masked_gradients", "severity": "error", "message": "Not to be relied on."}
    bom = reports.get(reports.finished(flags=[flag]), format="cyclonedx").json()
    assert problems_of(bom) == []
    assert card_of(bom)["quantitativeAnalysis"]["performanceMetrics"] == []
    assert "The numbers of uncertainty_span are left out" in limits_of(bom)
    assert "error, masked_gradients: Not to be relied on." in limits_of(bom)


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_lesser_doubts_stand_beside_the_numbers(reports: Reports, severity: str) -> None:
    flag = {"code": "few_examples", "severity": severity, "message": "Few."}
    bom = reports.get(reports.finished(flags=[flag]), format="cyclonedx").json()
    assert card_of(bom)["quantitativeAnalysis"]["performanceMetrics"]
    assert f"uncertainty_span, {severity}, few_examples: Few." in limits_of(bom)


def test_half_an_audit_is_no_evidence(reports: Reports) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, state="running")
    answer = reports.get(audit_id, format="cyclonedx")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-ended")


def test_hostile_names_and_a_model_that_is_gone_break_nothing(reports: Reports) -> None:
    audit_id = reports.finished()
    fabricated.change(reports.database, audit_id, model={"name": fabricated.HOSTILE, "digest": "none"})
    report = reports.compose(audit_id)
    assert problems_of(render_ml_bom(report)) == []
    assert problems_of(render_ml_bom(report.model_copy(update={"sources": []}))) == []
