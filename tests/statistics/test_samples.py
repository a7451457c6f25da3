import numpy as np
import pyarrow as pa
import pytest

from seatrial.statistics.samples import Sample

LISTS = [[0.5, 0.25], [1.0, 0.0], [0.125, 0.75]]


def table(lists, errored=(False, False, False)):
    return pa.table({"example_id": [0, 1, 2], "errored": list(errored), "scores": lists})


@pytest.mark.parametrize("gone", [None, 1], ids=["nobody errored", "one did"])
def test_lists_of_one_length_are_a_matrix_of_those_that_did_not_error(gone) -> None:
    kept = [number for number in range(3) if number != gone]
    lists = [None if number == gone else one for number, one in enumerate(LISTS)]
    found = Sample(table(lists, [number == gone for number in range(3)]))["scores"]
    assert found.tolist() == [LISTS[number] for number in kept]
    assert found.dtype == np.float64


def test_lists_cut_in_pieces_are_one_matrix() -> None:
    whole = table(LISTS)
    pieces = pa.concat_tables([whole.slice(0, 2), whole.slice(2)])
    assert Sample(pieces)["scores"].tolist() == LISTS
    assert Sample(whole.slice(1))["scores"].tolist() == LISTS[1:]


@pytest.mark.parametrize("odd", [[0.5], [], None, [0.5, None]])
def test_lists_of_other_lengths_or_with_gaps_stay_what_they_are(odd) -> None:
    found = Sample(table([LISTS[0], odd, LISTS[2]]))["scores"]
    assert found.dtype == object
    assert found[0].tolist() == LISTS[0]


def test_lists_of_texts_stay_what_they_are() -> None:
    found = Sample(table([["a"], ["b"], ["c"]]))["scores"]
    assert [one.tolist() for one in found] == [["a"], ["b"], ["c"]]


def test_nobody_left_is_no_matrix() -> None:
    sample = Sample(table([None] * 3, [True] * 3))
    assert sample.valid == 0
    assert len(sample["scores"]) == 0


def test_a_column_of_no_chunk_is_no_matrix() -> None:
    """Where every example errored, filtering may leave none."""
    empty = table(LISTS).slice(0, 0)
    none = pa.table({name: pa.chunked_array([], type=empty[name].type) for name in empty.column_names})
    assert len(Sample(none)["scores"]) == 0
