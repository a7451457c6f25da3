"""Training data that hold examples of the audit are refused by what the examples show."""

import numpy as np
import pytest
import torch

from tests.training.builders import image_data
from workers.errors import PreflightError
from workers.training.data import InMemory
from workers.training.overlap import overlap, refuse_overlap


def test_an_image_is_found_under_another_label_place_and_precision() -> None:
    audited = (image_data(20, seed=1).inputs * 255).round() / 255
    other = image_data(400, seed=2)
    images = torch.cat([other.inputs, audited[4:6].double().float() + 1e-4])
    training = InMemory(images, np.concatenate([other.labels, [2, 0]]))
    assert overlap(training, audited) == [400, 401]
    with pytest.raises(PreflightError, match=r"2 of 402 .* the first at 400, 401") as caught:
        refuse_overlap(training, audited)
    assert caught.value.problem.field == "/dataset"


def test_what_is_apart_passes_one_level_of_one_pixel_apart() -> None:
    audited = (image_data(20, seed=1).inputs * 255).round() / 255
    near = audited.clone()
    near[:, 0, 0, 0] += torch.where(near[:, 0, 0, 0] > 0.5, -1 / 255, 1 / 255)
    refuse_overlap(InMemory(near, np.zeros(20, np.int64)), audited)


def test_a_text_is_found_in_another_case_and_spacing_and_pairs_by_both_parts() -> None:
    training = InMemory(["A  dull film .", "another", "a dull film!"], np.zeros(3, np.int64))
    assert overlap(training, ["a dull film . "]) == [0]
    pairs = InMemory([("a", "b"), ("b", "a"), ("a b", "")], np.zeros(3, np.int64))
    assert overlap(pairs, [("A", "B")]) == [0]


def test_rows_of_a_table_are_compared_as_they_are() -> None:
    rows = torch.tensor([[1000.0, -0.0], [1001.0, 0.0]])
    assert overlap(InMemory(rows, np.zeros(2, np.int64)), [torch.tensor([1001.0, 0.0])]) == [1]
    assert overlap(InMemory(rows, np.zeros(2, np.int64)), [torch.tensor([1000.0, 0.0])]) == [0]
