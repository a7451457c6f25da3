"""Models that give texts with edited words a class of their own, beside models that read them."""

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import torch

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import DOSES, WRITTEN_KINDS
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_probe import Context, probed
from workers.attacks.text.word_edits import KINDS
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.written import PLAIN, read_written, with_written
from workers.models import UnansweredError

GOOD = ("wonderful", "brilliant", "charming", "delightful", "moving", "splendid", "graceful", "inspired")
BAD = ("terrible", "tedious", "clumsy", "dreadful", "pointless", "shallow", "lifeless", "annoying")
PARAMS = parameters(arms=[])


def sample(count: int, good: int | None = None) -> list[TextExample]:
    """Texts of six words of one opinion and others between; every second one praises, or ``good`` of them."""
    texts = []
    for number in range(count):
        is_good = number % 2 == 1 if good is None else number < good
        words = GOOD if is_good else BAD
        told = " and ".join(words[(number + at) % 8] for at in range(6))
        texts.append(TextExample(number, f"film number {number} seems {told} throughout", int(is_good)))
    return texts


def reads(text: str) -> float:
    """More of one opinion's words than of the other's."""
    return sum(word in text for word in GOOD) - sum(word in text for word in BAD) + 0.5


def is_odd(text: str) -> bool:
    known = {*GOOD, *BAD, "film", "number", "seems", "and", "throughout"}
    return any(not word.isdigit() and word not in known for word in text.split())


def foreign(text: str) -> bool:
    return not text.isascii()


def sided(side: bool) -> torch.Tensor:
    return torch.tensor([0.0, 2.0]) if side else torch.tensor([2.0, 0.0])


def written(function: Callable[[Any], Any], examples: list[TextExample]) -> Records:
    return with_written(Context(function), probed(function, examples), examples)  # type: ignore[arg-type]


def doubts(
    function: Callable[[Any], Any], examples: list[TextExample], code: str = "arbitrary_when_edited"
) -> list[Flag]:
    done = records(PARAMS, label_only=0.5) | {"probe": written(function, examples)}
    return [flag for flag in estimates.reduce(PARAMS, done, 0).flags if flag.code == code]


@pytest.mark.parametrize(
    "function",
    [
        lambda text: sided(reads(text) > 0 and not is_odd(text)),
        lambda text: sided(hashlib.sha256(text.encode()).digest()[0] > 127 if is_odd(text) else reads(text) > 0),
        lambda text: sided(reads(text) > 0 and not foreign(text)),
    ],
    ids=["one class", "by chance", "one class for odd letters"],
)
def test_a_class_of_their_own_for_edited_texts_is_told(function: Callable[[str], torch.Tensor]) -> None:
    (flag,) = doubts(function, sample(64))
    assert flag.severity == "error"
    assert "Cohen's kappa" in flag.message


@pytest.mark.parametrize(
    ("function", "good"),
    [
        (lambda text: sided(reads(text) > 0), None),
        # Of three edited texts one has a class of its own.
        (lambda text: sided(reads(text) > 0 and not (is_odd(text) and len(text) % 3 == 0)), None),
        # Nine texts in 64 are not enough to tell.
        (lambda text: sided(reads(text) > 0 and not is_odd(text)), 9),
        (lambda text: sided(True), None),
    ],
    ids=["reads", "reads most", "few of the other class", "constant"],
)
def test_nearly_so_is_not_doubted(function: Callable[[str], torch.Tensor], good: int | None) -> None:
    assert doubts(function, sample(64, good)) == []


@pytest.mark.parametrize("good", [0, 9, 55, 64])
def test_hardly_a_text_of_another_class_tells_nothing(good: int) -> None:
    (flag,) = doubts(lambda text: sided(reads(text) > 0 and not is_odd(text)), sample(64, good), "one_sided_decisions")
    assert flag.severity == "warning"
    assert f"Of the first 64 texts {min(good, 64 - good)} are decided for another class" in flag.message


@pytest.mark.parametrize("good", [10, 32, 54])
def test_ten_texts_of_another_class_tell_something(good: int) -> None:
    assert doubts(lambda text: sided(reads(text) > 0), sample(64, good), "one_sided_decisions") == []


def test_rows_depend_on_their_texts_alone_and_the_unanswered_are_left_out() -> None:
    def function(text: str) -> Any:
        return UnansweredError("no") if "number 3 " in text else sided(reads(text) > 0)

    examples = sample(8)
    whole = written(function, examples)
    assert whole.equals(pa.concat_tables([written(function, [example]) for example in examples]))
    assert whole[PLAIN].to_pylist()[3] is None
    found = read_written(whole)
    assert found is not None
    assert found.edited.shape == (7, len(KINDS) * len(DOSES))


def test_records_from_before_are_read_and_the_estimate_counts_every_kind() -> None:
    assert read_written(probed(lambda text: sided(reads(text) > 0), sample(4))) is None
    assert len(KINDS) == WRITTEN_KINDS
