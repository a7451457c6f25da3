"""What somebody would write into a table to look good, and what a sound table is not told."""

import numpy as np
import pytest

from seatrial.families.calibration import narrative
from seatrial.families.calibration.params import CalibrationParams
from tests.families.calibration.tables import PARAMS, codes, judged, made

ASKED = PARAMS.model_dump(mode="json")


def test_a_sound_table_is_told_nothing_and_reads_as_real() -> None:
    told, labels, _ = made(1600)
    result = judged(told, labels, None, [f"g{at % 4}" for at in range(1600)])
    assert codes(result) == set()
    assert narrative.answer(result, ASKED, 4).standing == "real"


def test_a_constant_confidence_equal_to_the_accuracy_is_seen_though_its_error_is_0() -> None:
    labels = np.tile([0, 0, 0, 1], 100)
    told = np.tile([0.75, 0.25], (400, 1))
    result = judged(told, labels)
    assert result.estimates["ece"].value == pytest.approx(0, abs=1e-12)
    assert result.estimates["failure_auroc"].value == 0.5
    assert "uninformative_scores" in codes(result)
    assert narrative.answer(result, ASKED, 2).standing == "unproven"


def test_leaked_labels_are_doubted() -> None:
    told, labels, _ = made(200)
    told = 0.1 * told + 0.9 * np.eye(4)[labels]
    result = judged(told, labels)
    assert "perfect_accuracy" in codes(result)
    one_hot = judged(np.eye(4)[labels], labels)
    assert {"perfect_accuracy", "saturated_scores", "no_temperature"} <= codes(one_hot)


def test_copied_rows_are_seen_and_answers_of_few_digits_are_none() -> None:
    told, labels, _ = made(200)
    again = np.r_[np.arange(200), np.arange(60)]
    result = judged(told[again], labels[again])
    assert "repeated_answers" in codes(result)
    assert "60 of 260 examples" in next(flag.message for flag in result.flags if flag.code == "repeated_answers")
    rounded = told.round(1)
    assert "repeated_answers" not in codes(judged(rounded[again], labels[again]))


def test_columns_in_another_order_are_an_error() -> None:
    told, labels, _ = made(300)
    result = judged(np.roll(told, 1, axis=1), labels)
    assert [flag.severity for flag in result.flags if flag.code == "guesses"] == ["error"]


def test_labels_of_probability_0_and_too_few_to_calibrate_on_are_told() -> None:
    told, labels, _ = made(100)
    told[0] = np.eye(4)[(labels[0] + 1) % 4]
    result = judged(told, labels, params=CalibrationParams(kind="calibration", conformal_miss=0.01))
    assert {"impossible_labels", "vacuous_sets"} <= codes(result)
    assert result.estimates["conformal_set_size"].value == 4


def test_a_group_below_the_rest_and_groups_too_small_are_told() -> None:
    told, labels, _ = made(600)
    groups = ["north"] * 200 + ["south"] * 390 + ["west"] * 10
    told[:200] = np.roll(told[:200], 1, axis=1)
    result = judged(told, labels, None, groups)
    assert {"group_below_rest", "small_groups"} <= codes(result)
    assert set(result.series["groups"]) == {"north", "south"}
    worst = result.estimates["worst_group_accuracy"]
    assert worst.value == result.series["groups"]["north"]["accuracy"]
    assert worst.n == 200
    assert "group_miscalibrated" in codes(result)
    error = result.estimates["worst_group_ece"]
    assert (error.value, error.n) == (result.series["groups"]["north"]["ece"], 200)
    assert result.series["groups"]["north"]["ece_p_holm"] < 0.05 < result.series["groups"]["south"]["ece_p_holm"]


def test_a_confidence_that_is_wrong_by_much_is_said_to_be_not_real() -> None:
    told, labels, _ = made(400, heat=6.0)
    answer = narrative.answer(judged(told, labels), ASKED, 4)
    assert answer.standing == "not_real"
    assert answer.headline.startswith("No: its confidence differs from its accuracy by ")
