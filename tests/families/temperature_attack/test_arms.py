import numpy as np
import pytest
import torch

from tests.families.temperature_attack.fabricated import model, parameters, records, rounds
from workers.calibration.scaling import FittedTemperature, fit_temperature
from workers.families.temperature_attack.arms import fitted_temperature, resolve_arms, view_at
from workers.families.temperature_attack.records import validation_records

EVERY = ["calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix"]


def raw(classes: int = 2) -> torch.Tensor:
    return torch.stack(model(9, 40, classes)[1])


@pytest.mark.parametrize("design", [1.0, 0.01, 1e6, 1e-9, 1e9])
def test_calibration_undoes_the_design_temperature(design) -> None:
    examples, logits = model(0, 200)
    validation = validation_records(examples, logits)
    params = parameters(arms=["calibrated", "platt_vector", "platt_matrix"], design_temperature=design)
    arms = resolve_arms(params, validation, [])
    labels = np.array([example.label for example in examples])
    plain = fit_temperature(torch.stack(logits).double().numpy(), labels).temperature
    assert arms["calibrated"].degenerate is None
    assert arms["calibrated"].temperature * design == pytest.approx(plain, rel=1e-9)
    assert fitted_temperature(params, validation) == arms["calibrated"].temperature
    honest = resolve_arms(parameters(arms=params.arms), validation, [])
    for name in params.arms:
        seen, expected = (each[name].scaling.probabilities(raw()) for each in (arms, honest))
        assert seen.dtype == torch.float64
        assert torch.allclose(seen, expected, atol=1e-4)


def test_as_served_is_what_the_model_says_in_its_own_precision() -> None:
    params = parameters(arms=[], design_temperature=0.01)
    arms = resolve_arms(params, None, [])
    assert arms.others == ["label_only"]
    assert torch.equal(arms["as_served"].scaling.probabilities(raw()), torch.softmax(raw() / 0.01, dim=1))
    assert arms["as_served"].temperature == 0.01


def test_transfer_looks_at_the_source_model_as_it_is() -> None:
    params = parameters(arms=["transfer"], source_model="mdl_1", design_temperature=1e6)
    arm = resolve_arms(params, None, [])["transfer"]
    assert torch.equal(arm.scaling.probabilities(raw()), torch.softmax(raw(), dim=1))
    assert arm.temperature is None


@pytest.mark.slow
def test_the_same_records_give_the_same_arms_in_the_order_asked_for() -> None:
    params = parameters(arms=EVERY[::-1], design_temperature=0.01)
    done = records(params)
    first, second = (resolve_arms(params, done["validation"], rounds(done)) for _ in range(2))
    assert first == second
    assert first.others == [*EVERY[::-1], "label_only"]
    # The attacker needs a signal: the search leaves the served temperature, where there is none.
    assert first["optimized"].temperature > 5


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["none", pytest.param("one class", marks=pytest.mark.drill), "all right"])
def test_validation_that_determines_nothing_is_said_and_leaves_working_arms(labels) -> None:
    examples, logits = model(1, 30, classes=3)
    if labels == "none":
        validation = validation_records(examples, [None] * 30)
    else:
        label = (lambda row: 0) if labels == "one class" else (lambda row: int(logits[row].argmax()))
        examples = [type(one)(one.example_id, one.text, label(row)) for row, one in enumerate(examples)]
        validation = validation_records(examples, logits)
    arms = resolve_arms(parameters(arms=EVERY), validation, [])
    for name in EVERY:
        seen = arms[name].scaling.probabilities(raw(3))
        assert torch.allclose(seen.sum(dim=1), torch.ones(40, dtype=seen.dtype))
    assert arms["optimized"].degenerate == "nothing_evaluated"
    # One class is enough for a temperature: the model is right on some of it.
    expected = {"none": "no_examples", "one class": None, "all right": "no_errors"}[labels]
    assert arms["calibrated"].degenerate == expected
    assert arms["platt_matrix"].degenerate == ("no_examples" if labels == "none" else "separable")


def test_the_papers_optimiser_runs_once_for_the_same_examples(monkeypatch) -> None:
    runs = []

    def counted(logits, labels):
        runs.append(len(logits))
        return FittedTemperature(2.0)

    monkeypatch.setattr("workers.families.temperature_attack.arms.fit_temperature_lbfgs", counted)
    params = parameters(arms=["calibrated_paper"])
    for seed in (70, 70, 71):
        resolve_arms(params, validation_records(*model(seed, 20)), [])
    assert runs == [20, 20]


def test_the_papers_arms_compute_in_float32_where_that_is_asked_for() -> None:
    examples, logits = model(0, 60)
    table = validation_records(examples, [row * 100 for row in logits])
    plain, single = (
        resolve_arms(parameters(arms=["calibrated_paper", "calibrated"], precision=precision), table, [])
        for precision in ("float64", "float32")
    )
    wide = raw() * 500
    seen = single["calibrated_paper"].scaling.probabilities(wide.double())
    assert seen.dtype == torch.float32
    assert torch.equal(seen, torch.softmax(wide / single["calibrated_paper"].temperature, dim=1))
    # What the paper's calibration leaves saturated is told apart by float64 alone.
    assert int((seen == 1).sum()) > int((plain["calibrated_paper"].scaling.probabilities(wide) == 1).sum())
    assert single["calibrated"] == plain["calibrated"]
    for search in ("bounded", "paper_bracket"):
        assert view_at(parameters(precision="float32", temperature_search=search), 3.0).is_single
        assert not view_at(parameters(temperature_search=search), 3.0).is_single


def test_a_fitted_arm_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="arm calibrated is fitted on validation examples"):
        resolve_arms(parameters(arms=["calibrated"]), None, [])
