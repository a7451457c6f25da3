"""Numbers recomputed from counts, gaps checked by hand, and every way of having nothing to count."""

import dataclasses
import hashlib
import math

import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from seatrial.families.temperature_attack.metrics import METRICS
from seatrial.statistics.calibration import calibrate
from seatrial.statistics.exact import mcnemar
from seatrial.statistics.proportions import score_interval
from tests.families.temperature_attack.fabricated import Ending, model, parameters, records
from workers.families.contexts import TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.audit import read_audit
from workers.families.temperature_attack.figures import draw
from workers.families.temperature_attack.records import attack_records

EVERY = ["calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix"]
PARAMS = parameters(recipes=["deepwordbug", "pwws", "input_reduction"], arms=EVERY, design_temperature=0.01)


@pytest.fixture(scope="module")
def done():
    return records(PARAMS, errored=frozenset({4, 11}))


@pytest.fixture(scope="module")
def result(done):
    return estimates.reduce(PARAMS, done, 0)


def rights(*right: bool) -> list[torch.Tensor]:
    """Logits of a model whose labels are all 1."""
    return [torch.tensor([0.0, 1.0 if one else -1.0]) for one in right]


def table(clean: str, **arms: str):
    """A recipe's table from strings of + and -: right or wrong, unattacked and in each arm."""
    examples = [TextExample(row, f"text {row}", 1) for row in range(len(clean))]
    signs = {arm: [sign == "+" for sign in marks] for arm, marks in arms.items()}
    outcomes = {
        arm: [
            Ending("skipped" if clean[row] == "-" else "failed" if kept else "succeeded", f"txet {row}", 5, 0.25)
            for row, kept in enumerate(marks)
        ]
        for arm, marks in signs.items()
    }
    return attack_records(
        examples, rights(*[sign == "+" for sign in clean]), outcomes, {arm: rights(*x) for arm, x in signs.items()}
    )


def transfer(recipes: list[str]):
    return parameters(recipes=recipes, arms=["transfer"], source_model="mdl_1")


def test_a_gap_is_what_one_counts_by_hand() -> None:
    done = {"attack_pwws": table("+++++++--+", as_served="+++++++--+", transfer="++------+-")}
    result = estimates.reduce(transfer(["pwws"]), done, 0)
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    assert value["clean_accuracy"] == 0.8
    assert value["adversarial_accuracy[arm=as_served,recipe=pwws]"] == 0.8
    # Right after the attack by accident, wrong before it: an error (eq. 9).
    assert value["adversarial_accuracy[arm=transfer,recipe=pwws]"] == 0.2
    assert value["attack_success_rate[arm=transfer,recipe=pwws]"] == 6 / 8
    assert value["search_success_rate[arm=transfer,recipe=pwws]"] == 6 / 8
    for scope in ("", "[recipe=pwws]"):
        gap = result.estimates[f"illusion_gap{scope}"]
        assert gap.value == pytest.approx(0.6)
        assert (gap.low, gap.high) == score_interval(6, 0, 10)
        assert (gap.n, gap.method) == (10, "paired")
        assert value[f"mcnemar_p{scope}"] == mcnemar(6, 0)
        assert (result.counts[f"served_only{scope}"], result.counts[f"lowest_only{scope}"]) == (6, 0)


def test_the_worst_case_is_the_worst_recipe_for_each_example() -> None:
    done = {
        "attack_deepwordbug": table("++++", as_served="++--", transfer="+---"),
        "attack_pwws": table("++++", as_served="+-+-", transfer="-+--"),
        "attack_input_reduction": table("++++", as_served="----", transfer="++++"),
    }
    recipes = ["deepwordbug", "pwws", "input_reduction"]
    result = estimates.reduce(transfer(recipes), done, 0)
    assert result.estimates["adversarial_accuracy[arm=as_served]"].value == 0.25
    assert result.estimates["adversarial_accuracy[arm=transfer]"].value == 0.0
    assert result.estimates["illusion_gap"].value == 0.25
    # It does not try to change the class, so accuracy under it would read as robustness.
    assert result.estimates["adversarial_accuracy[arm=as_served,recipe=input_reduction]"].value is None
    assert result.counts["robust[arm=transfer,recipe=input_reduction]"] == 4
    assert result.estimates["illusion_gap[recipe=input_reduction]"].value is None


def test_examples_that_errored_under_one_recipe_are_in_the_others_numbers_only() -> None:
    whole = table("++++", as_served="++++", transfer="----")
    done = {"attack_pwws": whole, "attack_deepwordbug": records(transfer(["deepwordbug"]), n=4)["attack_deepwordbug"]}
    lost = attack_records(
        [TextExample(row, "x", 1) for row in range(4)],
        [None, *rights(True, True, True)],
        {arm: [Ending("failed", "x", 1, 0.0)] * 4 for arm in ("as_served", "transfer")},
        {arm: rights(True, True, True, True) for arm in ("as_served", "transfer")},
    )
    done["attack_deepwordbug"] = lost
    result = estimates.reduce(transfer(["pwws", "deepwordbug"]), done, 0)
    assert result.estimates["clean_accuracy"].n == 4
    assert result.estimates["adversarial_accuracy[arm=as_served,recipe=deepwordbug]"].n == 3
    assert result.estimates["adversarial_accuracy[arm=transfer]"].n == 3
    assert (result.counts["n"], result.counts["errored"], result.counts["worst_n"]) == (4, 1, 3)


def test_clean_numbers_count_the_texts_whose_attacks_errored() -> None:
    ended = [Ending("errored", "x", 3, 0.0, error="the query budget of 9 is spent")] * 3 + [
        Ending("skipped", "x", 1, 0)
    ]
    arms = ("as_served", "transfer")
    right = rights(True, True, True, False)
    done = {
        "attack_pwws": attack_records(
            [TextExample(row, "x", 1) for row in range(4)],
            right,
            dict.fromkeys(arms, ended),
            dict.fromkeys(arms, right),
        )
    }
    result = estimates.reduce(transfer(["pwws"]), done, 0)
    assert (result.estimates["clean_accuracy"].value, result.estimates["clean_accuracy"].n) == (0.75, 4)
    assert result.estimates["adversarial_accuracy[arm=as_served,recipe=pwws]"].n == 1
    (flag,) = [flag for flag in result.flags if flag.code == "errored_examples"]
    assert flag.severity == "warning"
    assert "as_served: the query budget of 9 is spent" in flag.message
    assert "between 0.0% and 75.0%" in flag.message
    assert done["attack_pwws"].column("error").null_count == 1


def test_calibration_of_an_arm_that_reorders_classes_is_that_of_its_own_predictions() -> None:
    params = parameters(arms=["platt_matrix"], recipes=["deepwordbug"])
    audit = read_audit(params, records(params))
    # A scaling that swaps the two classes is wrong wherever the model is right.
    swapped = dataclasses.replace(audit.arms["platt_matrix"].scaling, weights=((0.0, 1.0), (1.0, 0.0)), bias=(0.0, 0.0))
    audit.arms.by_name["platt_matrix"] = dataclasses.replace(audit.arms["platt_matrix"], scaling=swapped)
    assert (audit.right("platt_matrix") == ~audit.clean.right).all()
    assert (audit.right("as_served") == audit.clean.right).all()
    confidence = audit.confidence("platt_matrix", audit.clean.logits)
    expected = calibrate(confidence, ~audit.clean.right, params.bins, seed=[0]).values["ece"]
    assert estimates.clean_estimates(audit, 0)["ece[arm=platt_matrix]"].value == expected


@pytest.mark.slow
def test_every_published_name_is_in_the_contract(result) -> None:
    known = {(metric.name, tuple(metric.qualifiers)) for metric in METRICS}
    seen = set()
    for name in result.estimates:
        base, _, inside = name.partition("[")
        qualifiers = tuple(part.split("=")[0] for part in inside.rstrip("]").split(",") if part)
        assert (base, qualifiers) in known, name
        seen.add((base, qualifiers))
    assert seen == known


def test_rates_follow_from_counts(result) -> None:
    counts = result.counts
    assert (counts["n"], counts["errored"]) == (60, 2)
    for recipe in PARAMS.recipes:
        n = counts[f"n[recipe={recipe}]"]
        for arm in ["as_served", *EVERY]:
            of = f"[arm={arm},recipe={recipe}]"
            robust, flipped = counts[f"robust{of}"], counts[f"flipped{of}"]
            if recipe != "input_reduction":
                assert result.estimates[f"adversarial_accuracy{of}"].value == robust / n
                share = flipped / counts[f"correct[recipe={recipe}]"]
                assert result.estimates[f"attack_success_rate{of}"].value == share
            succeeded = counts[f"succeeded{of}"] / counts[f"attacked{of}"]
            assert result.estimates[f"search_success_rate{of}"].value == succeeded
            assert robust + flipped == counts[f"correct[recipe={recipe}]"]
    gap = (counts["served_only"] - counts["lowest_only"]) / counts["worst_n"]
    assert result.estimates["illusion_gap"].value == pytest.approx(gap)


def test_every_interval_holds_its_value(result) -> None:
    for name, estimate in result.estimates.items():
        if estimate.low is not None:
            assert estimate.low <= estimate.value <= estimate.high, name
            assert math.isfinite(estimate.high - estimate.low), name
    temperature = result.estimates["temperature[arm=calibrated]"]
    assert temperature.low < temperature.value < temperature.high
    assert temperature.n == 78


def test_an_illusion_is_seen_and_an_honest_model_has_none(result) -> None:
    assert result.estimates["illusion_gap"].low > 0.2
    assert result.estimates["mcnemar_p"].value < 1e-4
    honest = parameters(recipes=["deepwordbug"])
    plain = estimates.reduce(honest, records(honest), 0)
    assert abs(plain.estimates["illusion_gap"].value) < 0.05
    assert plain.estimates["illusion_gap"].low <= 0


def test_calibration_error_agrees_with_torchmetrics(result) -> None:
    from workers.families.temperature_attack.audit import read_audit

    audit = read_audit(PARAMS, records(PARAMS, errored=frozenset({4, 11})))
    seen = audit.probabilities("calibrated", audit.clean.logits)
    for name, norm in (("ece", "l1"), ("mce", "max")):
        theirs = multiclass_calibration_error(seen, torch.from_numpy(audit.clean.labels), 2, n_bins=15, norm=norm)
        assert result.estimates[f"{name}[arm=calibrated]"].value == pytest.approx(float(theirs), abs=1e-6)


def test_the_same_records_give_the_same_bytes(done, result) -> None:
    def digest(other) -> str:
        return hashlib.sha256(other.model_dump_json().encode()).hexdigest()

    assert digest(estimates.reduce(PARAMS, done, 0)) == digest(result)
    assert digest(estimates.reduce(PARAMS, done, 1)) != digest(result)


def test_the_curve_has_every_temperature_tried_and_every_arm_that_has_one(result) -> None:
    curve = result.series["temperature_curve"]
    temperatures = [point["temperature"] for point in curve["points"]]
    assert temperatures == sorted(temperatures)
    assert len(temperatures) == result.counts["search_evaluations"] <= 20
    assert all(point["low"] <= point["accuracy"] <= point["high"] for point in curve["points"])
    assert {point["n"] for point in curve["points"]} == {78}
    assert set(curve["arms"]) == {"as_served", "calibrated", "calibrated_paper", "optimized"}
    assert curve["arms"]["as_served"]["temperature"] == 1.0


def test_series_are_what_figures_and_report_read(result) -> None:
    series = result.series
    assert len(series["adversarial_accuracy"]) == 3 * 6
    assert sum(series["margins"]["as_served"]["counts"]) == sum(series["margins"]["calibrated"]["counts"]) == 58
    served, calibrated = (series["margins"][arm]["edges"][-1] for arm in ("as_served", "calibrated"))
    temperature = result.estimates["temperature[arm=calibrated]"].value
    assert served / calibrated == pytest.approx(temperature)
    assert set(series["reliability"]) == {"as_served", *EVERY}


def test_examples_show_first_what_held_only_as_served(result) -> None:
    shown = result.series["examples"]
    assert len(shown) == 12
    assert {example["recipe"] for example in shown} == {"deepwordbug", "pwws"}
    for example in shown:
        assert example["prediction"] == example["label"]
        assert example["arms"]["as_served"]["prediction"] == example["label"]
        assert any(arm["prediction"] != example["label"] for arm in example["arms"].values())
        assert all(isinstance(arm["text"], list) and 0 <= arm["confidence"] <= 1 for arm in example["arms"].values())
    order = {"+-": 0, "-+": 1, "--": 2, "++": 3}
    served, other = "+--+-+", "-+-+--"
    done = {"attack_pwws": table("++++-+", as_served=served, transfer=other)}
    ranks = [
        order[served[example["example_id"]] + other[example["example_id"]]]
        for example in estimates.reduce(transfer(["pwws"]), done, 0).series["examples"]
    ]
    assert ranks == [0, 0, 1, 2, 3]


def test_of_very_long_texts_few_are_shown() -> None:
    examples = [TextExample(row, "a text " * 10_000, 1) for row in range(8)]
    logits = [torch.tensor([0.0, 1.0])] * 8
    outcomes = {arm: [Ending("failed", one.text, 3, 0.1) for one in examples] for arm in ("as_served", "transfer")}
    done = {"attack_pwws": attack_records(examples, logits, outcomes, dict.fromkeys(outcomes, logits))}
    shown = estimates.reduce(transfer(["pwws"]), done, 0).series["examples"]
    assert len(shown) == 2
    assert all(arm["text"] == ["a text " * 10_000] for example in shown for arm in example["arms"].values())


@pytest.mark.parametrize("recipes", [["deepwordbug"], ["input_reduction"], ["pwws", "input_reduction"]])
def test_a_sample_of_which_nothing_is_left_has_no_numbers(recipes) -> None:
    params = parameters(recipes=recipes, arms=EVERY)
    result = estimates.reduce(params, records(params, n=6, validation=6, errored=frozenset(range(6))), 0)
    assert (result.counts["n"], result.counts["errored"], result.counts["worst_n"]) == (6, 6, 0)
    for name, estimate in result.estimates.items():
        if not name.startswith("temperature"):
            assert estimate.value is None, name
    assert result.series["examples"] == []
    result.model_dump_json()


def test_without_other_arms_there_is_no_gap() -> None:
    params = parameters(recipes=["deepwordbug"], arms=[])
    result = estimates.reduce(params, records(params, n=20), 0)
    assert result.estimates["illusion_gap"].value is None
    assert result.estimates["adversarial_accuracy[arm=as_served]"].value is not None
    assert result.series["temperature_curve"]["points"] == []
    alone = parameters(recipes=["input_reduction"])
    found = estimates.reduce(alone, records(alone, n=20), 0)
    assert found.estimates["illusion_gap"].value is None
    assert found.estimates["adversarial_accuracy[arm=calibrated]"].value is None


def test_labels_alone_are_part_of_the_worst_case_and_of_the_gap() -> None:
    params = parameters(recipes=["deepwordbug", "pwws"], arms=["calibrated"], design_temperature=0.01)
    strong, weak = (estimates.reduce(params, records(params, label_only=at), 0) for at in (3.0, 0.1))
    for result, lowest in ((strong, "label_only"), (weak, "calibrated")):
        kept = {
            arm: result.estimates[f"adversarial_accuracy[arm={arm}]"].value
            for arm in ("as_served", "calibrated", "label_only")
        }
        assert min(kept, key=lambda arm: kept[arm]) == lowest
        assert result.estimates["illusion_gap"].value == pytest.approx(kept["as_served"] - kept[lowest])
        assert result.estimates["mean_queries[arm=label_only,recipe=pwws]"].n > 0
        assert "ece[arm=label_only]" not in result.estimates
        assert result.series["arms"]["label_only"] == {"temperature": None, "precision": "labels", "degenerate": None}
        assert draw(params, result)["adversarial_accuracy"]
    # Records from before there was this arm are read without it.
    before = estimates.reduce(params, records(params), 0)
    assert not [name for name in before.estimates if "label_only" in name]
    assert before.estimates["illusion_gap"] != strong.estimates["illusion_gap"]


def test_pairs_and_one_example_and_many_classes_pass_through() -> None:
    params = parameters(recipes=["pwws"])
    for classes, n in ((2, 1), (6, 30)):
        result = estimates.reduce(params, records(params, n=n, classes=classes), 0)
        assert result.counts["n"] == n
        assert result.estimates["clean_accuracy"].value is not None
    assert len(model(0, 3, 6)[1][0]) == 6
