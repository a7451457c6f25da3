"""Endpoints that answer edited texts otherwise once an audit is on its way; and functions, which do not."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import binom, rankdata

from seatrial.contracts.estimates import Flag
from tests.families.temperature_attack.fabricated import records
from tests.families.temperature_attack.test_crossing import LONG, honest
from tests.families.temperature_attack.test_probe import PARAMS, Context, likely
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.afterwards import answered_otherwise, moved_alike
from workers.families.temperature_attack.probe import ProbeSample, run_probe

HISTORY = "answers_depend_on_history"


KNOWN = {word for example in LONG for word in example.text.split()}


def bag(text: str) -> torch.Tensor:
    """Return an answer to the words that are spelt right."""
    return honest(" ".join(word for word in text.split() if word in KNOWN))


def leaning(text: str, by: float) -> torch.Tensor:
    """Return an answer that leans to a side by letters which no edit of a content word changes."""
    logits = bag(text).clone()
    # The words of two letters and less: no edit touches them.
    short = " ".join(word for word in text.split() if len(word) < 3)
    logits[1] += by if zlib.crc32(short.encode()) % 2 else -by
    return logits


@dataclass
class Woken:
    """Leans from the first fragment on, about edited texts and others."""

    by: float
    keeps: bool = False
    is_awake: bool = False
    said: dict[str, torch.Tensor] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        self.is_awake |= len(text.split()) < 3
        if self.keeps and text in self.said:
            return self.said[text]
        self.said[text] = leaning(text, self.by) if self.is_awake else bag(text)
        return self.said[text]


def both(function: Callable[[str], torch.Tensor], texts: Sequence[TextExample] = LONG) -> tuple[Records, Records]:
    """Return the tables of a probe before a fragment is asked about, and of one after it."""
    context = Context(function)
    opening = run_probe(context, texts)
    context.scoring().ask_anew(["awake"])
    return opening, run_probe(context, texts, "closing")


def flags(function: Callable[[str], torch.Tensor]) -> dict[str, Flag]:
    opening, closing = both(function)
    done = records(PARAMS, label_only=0.5) | {"probe": opening, "closing": closing}
    return {flag.code: flag for flag in estimates.reduce(PARAMS, done, 0).flags}


def test_who_wakes_at_a_fragment_answers_the_same_texts_otherwise() -> None:
    message = flags(Woken(0.6))[HISTORY].message
    assert "edited texts were given another answer after the attacks than before them" in message


def test_who_keeps_its_answers_answers_other_edits_otherwise_on_either_path() -> None:
    message = flags(Woken(0.6, keeps=True))[HISTORY].message
    assert "were given another answer after" not in message
    assert "both speak more for a class after the attacks than before them" in message


@pytest.mark.parametrize(
    "function", [honest, bag, lambda text: leaning(text, 2.0), Woken(0.0), Woken(0.004, keeps=True)]
)
def test_who_answers_as_before_or_all_but_is_left_alone(function: Callable[[str], torch.Tensor]) -> None:
    assert HISTORY not in flags(function)


def test_of_a_function_paths_drawn_later_move_alike_as_often_as_not() -> None:
    reached = 0
    for salt in range(30):
        texts = [TextExample(one.example_id + 64 * salt, one.text, one.label) for one in LONG[:24]]
        opening, closing = (ProbeSample(table) for table in both(honest, texts))
        alike, unlike, p = moved_alike(opening, closing)
        assert alike + unlike > 20
        reached += p < 0.05
    assert reached <= binom.ppf(0.999, 30, 0.05)


def test_the_p_is_that_of_all_signs_of_the_products() -> None:
    opening, closing = (ProbeSample(table) for table in both(Woken(0.6, keeps=True), LONG[:12]))
    alike, unlike, p = moved_alike(opening, closing)
    # Written out anew: on average how much either half speaks for the class, before and after.
    paths = []
    for of in (opening, closing):
        paths.append({})
        for example, label, path in zip(of.example_ids, of.labels, of.path, strict=True):
            leads = [answer[label] - answer[1 - label] for answer in of.drawn[example]]
            ways = [
                np.mean([answer[label] - answer[1 - label] for answer in answers[1:]])
                for answers in (path, of.crossings[example].answers)
            ]
            paths[-1][example] = [sum([*leads[:3], ways[0]]) / 4, sum([*leads[3:], ways[1]]) / 4]
    products = [(paths[1][at][0] - paths[0][at][0]) * (paths[1][at][1] - paths[0][at][1]) for at in paths[0]]
    assert [alike, unlike] == [sum(one > 0 for one in products), sum(one < 0 for one in products)]
    ranks = rankdata(np.abs(products))
    reached = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=12)
    ]
    seen = sum(rank for rank, one in zip(ranks, products, strict=True) if one > 0)
    assert p == pytest.approx(np.mean([one >= seen - 1e-9 for one in reached]))


def test_answers_that_no_letter_moves_tell_nothing() -> None:
    opening, closing = both(lambda text: likely(0.7))
    assert moved_alike(ProbeSample(opening), ProbeSample(closing)) == (0, 0, 1.0)


def test_records_from_before_ends_were_asked_again_are_read() -> None:
    opening, closing = both(Woken(2.0))
    old = ProbeSample(closing.drop_columns(["opening"]))
    assert answered_otherwise(ProbeSample(opening), old) == (0, 0)
    assert answered_otherwise(ProbeSample(opening), ProbeSample(closing))[1] == 64
