"""What rows tell of models, data and checks of several labels and of tags before anything runs."""

from typing import Any

import pytest

from app.audits.compatibility import TaskMismatchError, check_data, check_family, check_misfits
from seatrial.contracts.family import Situation
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.ingest.class_names import moved
from seatrial.store.tables import DatasetRow, ModelRow

TAGS, MULTI, SINGLE = "token-classification", "multi-label-classification", "text-classification"
NAMES = ["ADJ", "NOUN", "VERB"]


def _model(task: str, labels: list[str] | None = None, facts: dict[str, Any] | None = None) -> ModelRow:
    return ModelRow(id="mdl_1", task=task, manifest={"labels": labels}, facts=facts, format="archive")


def _data(task: str, labels: list[str] | None = None, largest: int = 2) -> DatasetRow:
    counts = {str(number): 9 for number in range(largest + 1)}
    return DatasetRow(id="dat_1", task=task, facts={"examples": 100, "labels": labels, "label_counts": counts})


def _pointer(error: TaskMismatchError) -> str:
    (only,) = error.errors or ()
    return str(only.pointer)


def _refusal(check: dict[str, Any], task: str = TAGS) -> tuple[str, str] | None:
    params = LowLevelAttackParams.model_validate({"kind": "low_level_attack"} | check)
    try:
        check_misfits(params, Situation("mdl_1", task, None, 10, {}, most_bytes=2**30), "/checks/3")
        check_family(params, _model(task), _data(task), 50, "/checks/3")
    except TaskMismatchError as error:
        return _pointer(error), error.detail
    return None


@pytest.mark.parametrize("task", [TAGS, MULTI])
@pytest.mark.parametrize(
    ("stated", "measured"), [(NAMES, None), (None, NAMES), (NAMES, ["0", "1", "2"])], ids=["said", "seen", "both"]
)
def test_names_in_another_order_are_refused_at_once(
    task: str, stated: list[str] | None, measured: list[str] | None
) -> None:
    model = _model(task, stated, {"labels": measured, "classes": 3} if measured else None)
    for fitting in (NAMES, ["adj ", "Noun", "VERB"], ["adj", "two", "three"], ["0", "1", "2"], NAMES[:2], None):
        check_data(model, _data(task, fitting))
    with pytest.raises(TaskMismatchError, match="'NOUN' is 1") as caught:
        check_data(model, _data(task, ["NOUN", "VERB", "ADJ"]))
    assert _pointer(caught.value) == "/dataset"


def test_a_model_nobody_has_named_the_labels_of_is_left_to_the_worker() -> None:
    check_data(_model(TAGS), _data(TAGS, ["NOUN", "VERB", "ADJ"]))


@pytest.mark.parametrize("task", [TAGS, MULTI])
@pytest.mark.parametrize(
    ("stated", "measured"), [(NAMES, None), (None, NAMES), (NAMES, ["0", "1", "2"])], ids=["said", "seen", "both"]
)
def test_labels_that_have_no_name_in_common_are_refused_at_once(
    task: str, stated: list[str] | None, measured: list[str] | None
) -> None:
    model = _model(task, stated, {"labels": measured, "classes": 3} if measured else None)
    with pytest.raises(TaskMismatchError, match="'joy', 'fear', 'awe'") as caught:
        check_data(model, _data(task, ["joy", "fear", "awe"]))
    assert "'ADJ', 'NOUN', 'VERB'" in caught.value.detail
    assert "in the order of its scores" in caught.value.detail
    assert _pointer(caught.value) == "/dataset"


def test_of_many_names_three_are_told() -> None:
    with pytest.raises(TaskMismatchError, match=r"\('a', 'b', 'c' and 2 more\)"):
        check_data(_model(MULTI, NAMES), _data(MULTI, list("abcde")))


@pytest.mark.parametrize(
    "generic", [["LABEL_0", "LABEL_1", "LABEL_2"], ["0", "1", "2"], ["class 0", "Class 1", "class-2"]], ids=str
)
def test_names_that_only_count_say_nothing_of_other_names(generic: list[str]) -> None:
    for task in (TAGS, MULTI):
        check_data(_model(task, generic), _data(task, NAMES))
        check_data(_model(task, NAMES), _data(task, generic))


def test_one_label_per_text_is_left_to_the_worker_whatever_its_names() -> None:
    check_data(_model(SINGLE, NAMES), _data(SINGLE, ["joy", "fear", "awe"]))


@pytest.mark.parametrize("task", [TAGS, MULTI])
def test_a_label_beyond_the_models_is_refused_at_once(task: str) -> None:
    with pytest.raises(TaskMismatchError, match="label 3"):
        check_data(_model(task, NAMES), _data(task, None, largest=3))


def test_segment_by_name_is_refused_where_every_token_has_a_tag() -> None:
    found = _refusal({"attackers": ["visual", "segment", "intrude"]})
    assert found is not None
    assert found[0] == "/checks/3/attackers/1"
    assert "leave it out" in found[1]
    for task in (MULTI, SINGLE):
        assert _refusal({"attackers": ["segment"]}, task) is None


@pytest.mark.parametrize(
    ("check", "remedy"),
    [
        ({"attackers": ["segment"]}, "name others, or `all`"),
        ({"attackers": ["segment", "visual"], "combined": True}, "name another beside visual"),
    ],
    ids=["nothing", "one"],
)
def test_what_is_left_without_segment_is_told(check: dict[str, Any], remedy: str) -> None:
    found = _refusal(check)
    assert found is not None
    assert found[0].startswith("/checks/3/attackers/")
    assert remedy in found[1]


def test_all_attackers_leave_segment_out_by_themselves() -> None:
    assert _refusal({}) is None
    assert _refusal({"combined": True}) is None
    assert _refusal({"attackers": ["visual", "intrude"], "combined": True}) is None


def test_only_names_both_sides_have_can_stand_at_other_places() -> None:
    assert list(moved(["a", "b"], ["B", "A "])) == [(0, "a", 1), (1, "b", 0)]
    assert list(moved(["a", "x"], ["a", "b", "c"])) == []
    assert list(moved([], ["a"])) == []


IMAGES = "image-classification"


def test_what_a_worker_found_out_of_a_folder_is_held_against_the_data() -> None:
    def data(shape: list[int] | None, largest: int = 2) -> DatasetRow:
        row = _data(IMAGES, None, largest)
        row.facts = {**row.facts, "shape": shape}
        return row

    unchecked = _model(IMAGES)
    check_data(unchecked, data([1, 8, 8]))
    vit = _model(IMAGES, None, {"classes": 10, "labels": None, "input_shape": [3, 32, 32]})
    check_data(vit, data([3, 32, 32], largest=9))
    for shape in ([1, 8, 8], [1, 32, 32], [3, 32, 31], None):
        with pytest.raises(TaskMismatchError, match=r"\[3, 32, 32\]") as caught:
            check_data(vit, data(shape))
        assert _pointer(caught.value) == "/dataset"
    with pytest.raises(TaskMismatchError, match="label 10, the model has 10 classes"):
        check_data(vit, data([3, 32, 32], largest=10))


@pytest.mark.parametrize("task", [IMAGES, SINGLE])
def test_classes_in_another_order_are_refused_before_a_price_is_shown(task: str) -> None:
    check_data(_model(task, NAMES), _data(task, NAMES))
    with pytest.raises(TaskMismatchError, match="'NOUN' is 1") as caught:
        check_data(_model(task, NAMES), _data(task, ["NOUN", "VERB", "ADJ"]))
    assert _pointer(caught.value) == "/dataset"
