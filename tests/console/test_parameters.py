"""Fields made from a family's schema begin with its defaults and are read as typed; errors stand beside them."""

import json
from typing import Any

import pytest

from app.console.parameters import MOST_IN_SIGHT, fields_of, read_params, starting_values
from app.console.requests import field_of
from app.web.problems import InvalidRequestError
from seatrial.contracts.noise import ATTACKERS
from seatrial.contracts.registry import families, params_contract
from tests.console.conftest import Console, elements, words
from tests.console.test_submission import audits, confirmed, ready  # noqa: F401 - a fixture
from tests.console.test_uploads import wrong


@pytest.mark.parametrize("kind", sorted(families()))
def test_an_untouched_form_asks_for_the_defaults(kind: str) -> None:
    typed = {field.id: field.starting for field in fields_of(kind)}
    contract = params_contract(kind)
    required = {name: one for name, one in starting_values(kind).items() if contract.model_fields[name].is_required()}
    asked = read_params(kind, typed, pointer="")
    assert contract.model_validate_json(json.dumps({**asked, "kind": kind})) == contract.model_validate_json(
        json.dumps({**required, "kind": kind})
    )
    assert {field.name for field in fields_of(kind)} == set(contract.model_fields) - {"kind"}


@pytest.mark.parametrize(
    ("kind", "name", "text", "value"),
    [
        ("uncertainty_span", "epsilon", " 4/255 ", 4 / 255),
        ("uncertainty_span", "steps", "12", 12),
        ("uncertainty_span", "steps", "twelve", "twelve"),
        ("uncertainty_span", "random_start", "true", True),
        ("uncertainty_span", "attacks", "\nace\nmax_miscalibration", ["ace", "max_miscalibration"]),
        ("uncertainty_span", "attacks", "", []),
        ("uncertainty_span", "robust_accuracy", '{"steps": 3}', {"steps": 3}),
        ("low_level_attack", "levels", "0.2, 0.5", [0.2, 0.5]),
        ("low_level_attack", "attackers", '["phonetic"]', ["phonetic"]),
    ],
)
def test_fields_are_read_as_their_shape_says(kind: str, name: str, text: str, value: Any) -> None:
    assert read_params(kind, {f"p-{kind}-{name}": text}, pointer="") == {name: value}


def test_an_empty_field_is_left_to_its_default_and_no_json_is_told_where() -> None:
    assert read_params("uncertainty_span", {"p-uncertainty_span-epsilon": " "}, pointer="") == {}
    with pytest.raises(InvalidRequestError) as raised:
        read_params("uncertainty_span", {"p-uncertainty_span-outliers": "{"}, pointer="/checks/0")
    pointer = raised.value.errors[0].pointer
    assert (
        field_of(pointer, ["uncertainty_span"], {"p-uncertainty_span-outliers": "{"}) == "p-uncertainty_span-outliers"
    )


def test_attackers_and_levels_stand_first_and_their_names_beside() -> None:
    fields = fields_of("low_level_attack")
    assert [field.name for field in fields[:4]] == ["attackers", "combined", "levels", "draws"]
    assert all(attacker in fields[0].help for attacker in ATTACKERS)


def test_fields_and_json_make_one_request_and_the_json_counts(console: Console, ready: dict[str, str]) -> None:  # noqa: F811
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    (epsilon,) = (one for one in elements(page, "input") if one.get("id") == "p-uncertainty_span-epsilon")
    assert epsilon["value"] == "8/255"
    assert f"More parameters ({len(fields_of('uncertainty_span')) - MOST_IN_SIGHT})" in words(page)
    typed = {"p-uncertainty_span-epsilon": "16/255", "p-uncertainty_span-steps": "9", "params-uncertainty_span": ""}
    shown = console.post("/submit", **{**ready, **typed, "params-uncertainty_span": '{"steps": 3}'})
    assert "16/255" in shown.text
    console.post("/submit/confirmed", **confirmed(shown))
    (audit,) = audits(console)
    assert (audit.spec["checks"][0]["epsilon"], audit.spec["checks"][0]["steps"]) == (16 / 255, 3)


def test_what_is_wrong_with_a_parameter_stands_beside_it(console: Console, ready: dict[str, str]) -> None:  # noqa: F811
    epsilon = "p-uncertainty_span-epsilon"
    ready["params-uncertainty_span"] = ""
    for told, field in (
        ({epsilon: "wide"}, epsilon),
        ({epsilon: "0.1", "params-uncertainty_span": '{"epsilon": -1}'}, "params-uncertainty_span"),
    ):
        page = console.post("/submit", **{**ready, **told})
        assert page.status_code == 422
        assert wrong(page)[field]
    assert audits(console) == []


def test_what_a_check_asks_follows_its_parameters(console: Console, ready: dict[str, str]) -> None:  # noqa: F811
    told = [
        console.post("/submit/about", kind="uncertainty_span", **{"p-uncertainty_span-epsilon": epsilon}).text
        for epsilon in ("8/255", "16/255", "nonsense")
    ]
    assert "8/255" in told[0]
    assert told[1] == told[0].replace("8/255", "16/255")
    assert told[2] == told[0]
    page = console.post("/submit", **{**ready, "params-uncertainty_span": '{"epsilon": 0.25}'})
    assert told[0].replace("8/255", "0.25") in words(page)
    assert console.post("/submit/about", kind="nonsense").status_code == 404
