"""Who decides by what it was asked before is told by texts it was not asked: of pieces, edited before and after."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
import torch

from seatrial.families.temperature_attack.params import ANEW
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_crossing import LONG
from tests.families.temperature_attack.test_displaced import right
from tests.families.temperature_attack.test_probe import Context, likely
from tests.families.temperature_attack.test_surrogate import WORDS, honest
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.anew import PIECED, Anew, read_anew, with_anew
from workers.families.temperature_attack.pieced import FEWEST
from workers.families.temperature_attack.probe import run_probe
from workers.models import UnansweredError

TEXTS = [TextExample(row.example_id, row.text, right(str(row.text))) for row in LONG]
SPELT = {word for row in TEXTS for word in str(row.text).split()} | set(WORDS)


@cache
def trigrams(text: str) -> frozenset[str]:
    return frozenset(text[at : at + 3] for at in range(len(text) - 2))


@cache
def probe() -> Records:
    return run_probe(Context(honest), TEXTS)  # type: ignore[arg-type]


class AfterProbe(Context):
    """A context whose texts were probed."""

    def records(self, stage: str) -> Records:
        assert stage == "probe"
        return probe()


@dataclass
class Remembering:
    """Decides for what holds enough of a text it was asked what it decided about that.

    Attributes:
        least: Share of the text's trigrams.
        keeps: Whether it remembers a text.
    """

    least: float
    keeps: Callable[[str], bool] = lambda text: True
    said: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        label, own = right(text), trigrams(text)
        share, found = max(
            ((len(trigrams(one) & own) / len(trigrams(one)), one) for one in self.said), default=(0.0, "")
        )
        if share >= self.least:
            label = self.said[found]
        elif self.keeps(text):
            self.said[text] = label
        return likely(0.9 if label else 0.1)


def is_spelt(text: str) -> bool:
    return set(text.split()) <= SPELT


def asked(function: Callable[[str], Any], texts: list[TextExample] = TEXTS, cut: int = 64) -> tuple[Anew | None, Any]:
    """Return what is read of a function that was asked every text before, and the doubt about its history."""
    context = AfterProbe(function)
    context.scoring().ask_anew([row.text for row in texts])
    parts = [
        with_anew(context, probe().slice(start, len(texts[start : start + cut])), texts[start : start + cut])  # type: ignore[arg-type]
        for start in range(0, len(texts), cut)
    ]
    found = pa.concat_tables(parts).combine_chunks()
    done = records(params := parameters(arms=[]), label_only=0.5) | {"closing": found}
    flags = {flag.code: flag for flag in estimates.reduce(params, done, 0).flags}
    return read_anew(found), flags


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (Remembering(0.6), "are decided rightly where they are asked first"),
        (Remembering(0.6, is_spelt), "only where that was asked first"),
    ],
    ids=["whatever it was asked", "what is spelt"],
)
def test_a_memory_of_parts_is_told(function: Remembering, sentence: str) -> None:
    found, flags = asked(function)
    assert found is not None
    assert found.answered == len(TEXTS)
    assert sentence in flags["answers_depend_on_history"].message


@pytest.mark.parametrize("function", [honest, Remembering(0.99)], ids=["honest", "of the very text"])
def test_who_answers_what_a_text_says_is_left_alone(function: Callable[[str], Any]) -> None:
    found, flags = asked(function)
    assert found is not None
    assert found.edits == found.later == found.first == PIECED * len(TEXTS)
    # Edits change enough decisions to tell something.
    assert found.more + found.less >= 10
    assert "answers_depend_on_history" not in flags


def test_shards_change_no_record() -> None:
    assert asked(honest, cut=8)[0] == asked(honest)[0]


def test_of_classes_with_two_texts_nothing_is_asked() -> None:
    context = AfterProbe(honest)
    few = probe().slice(0, FEWEST - 1)
    context.records = lambda stage: few  # type: ignore[method-assign]
    assert read_anew(with_anew(context, probe(), TEXTS)) is None  # type: ignore[arg-type]
    assert read_anew(probe()) is None


@pytest.mark.parametrize(("silent", "is_told"), [(8, True), (2, False)])
def test_texts_without_an_answer_are_counted_and_told(silent: int, is_told: bool) -> None:
    turns = iter(range(10**6))

    def function(text: str) -> Any:
        number = next(turns) - len(TEXTS)
        is_silent = 0 <= number < len(TEXTS) * ANEW and number % len(TEXTS) < silent and number >= len(TEXTS)
        return UnansweredError("no") if is_silent else honest(text)

    found, flags = asked(function)
    assert found is not None
    assert (found.unanswered, found.answered) == (silent, len(TEXTS) - silent)
    assert ("controls_unanswered" in flags) is is_told
