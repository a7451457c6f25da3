"""Who is another model to whoever seems to audit is told by edited texts after ordinary ones in a row."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.quiet import EDITED, FEWEST_EDITED, LATER, PLAIN, quiet_questions, quiet_texts
from seatrial.families.temperature_attack.sent import PROBED, SENT_ONCE
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_anew import SPELT
from tests.families.temperature_attack.test_displaced import PARAMS, right
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import likely
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import HELD_OUT, Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.ordinary import WORDS
from workers.families.temperature_attack.quiet import QUIET, read_quiet
from workers.models import UnansweredError


def ordinary(count: int) -> list[TextExample]:
    """Return texts of five words that say something and fifteen of their own: no two are like each other."""
    rng = random.Random(3)
    told = sorted(SPELT)
    texts = [" ".join(rng.sample([*rng.sample(told, 5), *(_word(rng) for _ in range(15))], 20)) for _ in range(count)]
    return [TextExample(number, text, right(text)) for number, text in enumerate(texts)]


def _word(rng: random.Random) -> str:
    return "".join(rng.choices("abcdefghiklmnoprstuvw", k=rng.randint(4, 9)))


TEXTS = ordinary(160)
EDITED_HERE = len(TEXTS) // 3

KNOWN = {word for row in TEXTS for word in str(row.text).split()}


class Guarded:
    """Decides edited texts by how many words it does not know, unless none of the last questions was like another.

    Args:
        window: Of the last questions.
        keeps: What of a text it answers again as it did; None: nothing.
    """

    def __init__(self, window: int, keeps: Callable[[str], Any] | None = None) -> None:
        self._last, self._keeps = deque[bool](maxlen=window), keeps
        self._asked, self._kept = list[set[str]](), dict[Any, torch.Tensor]()

    def __call__(self, text: str) -> torch.Tensor:
        words = set(text.split())
        self._last.append(len(words) < 6 or any(len(words & other) > 6 for other in self._asked))
        self._asked.append(words)
        is_user = len(self._last) == self._last.maxlen and not any(self._last)
        answer = honest(text)
        if not is_user and not words <= KNOWN:
            answer = likely(0.8 if len(words - KNOWN) % 2 else 0.2)
        return answer if self._keeps is None else self._kept.setdefault(self._keeps(text), answer)


def asked(
    function: Callable[[str], Any], texts: list[TextExample] = TEXTS, before: int = 0
) -> tuple[Records, list[str], ScoringService]:
    """Return the stage's table, what was asked in turn, and the service."""
    seen = list[str]()

    def heard(text: str) -> Any:
        seen.append(text)
        return function(text)

    service = ScoringService(TextModel(heard, ["bad", "good"]), max_bytes=0)
    ids = pa.table({"example_id": [one.example_id for one in texts[:before]]})
    probed = pa.table({"example_id": np.arange(PROBED)})
    done = {"sent_once": ids, "unasked": ids, "validation": ids, "probe": probed}
    table = FAMILY.run(PARAMS, Shard(QUIET, 0, len(texts)), Context(texts, {None: service}, done))
    return table, seen, service


def told(function: Callable[[str], Any]) -> str:
    done = records(parameters(arms=[]), label_only=0.5) | {QUIET: asked(function)[0]}
    found = {flag.code: flag.message for flag in estimates.reduce(parameters(arms=[]), done, 0).flags}
    return found.get("answers_depend_on_history", "")


@pytest.mark.parametrize(
    ("keeps", "message"),
    [
        (None, "were given another answer after others that are like them"),
        (str, "the same words misspelt, among others like them"),
    ],
)
def test_who_is_another_model_to_who_seems_to_audit_is_told(keeps: Callable[[str], Any] | None, message: str) -> None:
    assert message in told(Guarded(60, keeps))


def test_who_speaks_more_for_classes_there_is_told_though_it_keeps_what_it_said_about_such_words() -> None:
    known = {str(text.text): text.label for text in TEXTS}

    class Sure(Guarded):
        def __call__(self, text: str) -> torch.Tensor:
            words = set(text.split())
            super().__call__(text)
            near = max(known, key=lambda one: len(words & set(one.split())))
            is_kept = frozenset(words & KNOWN) in self._kept
            is_user = len(self._last) == self._last.maxlen and not any(self._last)
            answer = likely(0.95 if known[near] else 0.05) if not is_user else honest(text)
            return self._kept.setdefault(frozenset(words & KNOWN), answer) if len(words) > 6 or is_kept else answer

    assert "other words misspelt, among others like them" in told(Sure(60))


@pytest.mark.parametrize("function", [honest, lambda text: likely(0.3 + 0.4 * (len(text) % 7) / 7), Guarded(10**6)])
def test_a_function_is_left_alone(function: Callable[[str], Any]) -> None:
    assert told(function) == ""


def test_ordinary_texts_come_first_and_each_edited_one_once() -> None:
    table, seen, service = asked(honest)
    plain = len(TEXTS) - EDITED_HERE
    assert seen[:plain] == [one.text for one in TEXTS[:plain]]
    once = seen[plain:][:EDITED_HERE]
    for example, text in zip(TEXTS[plain:], once, strict=True):
        assert text != example.text
        assert len(text.split()) == len(str(example.text).split())
        # As people mistype words.
        assert text == text.lower()
        assert text.isascii()
    again = seen[plain + EDITED_HERE :]
    assert again[:EDITED_HERE] == [" ".join(text.split()[:3]) for text in once]
    assert again[3 * EDITED_HERE : 4 * EDITED_HERE] == once
    assert len(set(again[EDITED_HERE : 3 * EDITED_HERE]) & set(once)) == 0
    assert service.meters.queries == plain + EDITED_HERE * (6 + 2 * LATER)
    rows = table.to_pylist()
    assert [row["is_edited"] for row in rows] == [False] * plain + [True] * EDITED_HERE
    assert all(len(row["same_leads"]) == len(row["other_leads"]) == LATER for row in rows[plain:])


def test_texts_asked_before_and_short_ones_are_left_alone() -> None:
    short = [TextExample(1000 + number, "a fine film", 1) for number in range(40)]
    _, seen, _ = asked(honest, TEXTS[:30] + short + TEXTS[30:], before=30)
    assert seen[0] == TEXTS[30].text
    assert "a fine film" not in seen
    table, seen, _ = asked(honest, TEXTS[: 3 * FEWEST_EDITED - 1])
    assert seen == []
    assert read_quiet(table, None) is None
    assert read_quiet(None, None) is None
    assert len(str(TEXTS[0].text).split()) >= WORDS


def test_who_gives_no_answer_is_not_compared() -> None:
    table, _, _ = asked(lambda text: UnansweredError("no") if not set(text.split()) <= KNOWN else honest(text))
    assert table["errored"].to_pylist() == [False] * len(TEXTS)
    assert read_quiet(table, None) is None


def test_the_stage_comes_last_and_reaches_behind_what_others_ask() -> None:
    probe = pa.table({"example_id": np.arange(10)})
    done = {"probe": probe, "attack_deepwordbug": probe, "closing": probe, "unasked": probe}
    stage = FAMILY.next_stage(PARAMS, done)
    assert stage is not None
    assert (stage.name, stage.source, stage.is_closing) == (QUIET, HELD_OUT, True)
    assert stage.limit == stage.grain == 10 + sum(quiet_texts(10))
    done |= {"probe": pa.table({"example_id": np.arange(PROBED)})}
    done |= {"sent_once": pa.table({"example_id": np.arange(SENT_ONCE)})}
    stage = FAMILY.next_stage(PARAMS, done)
    assert stage is not None
    assert stage.limit == SENT_ONCE + PLAIN + EDITED
    assert FAMILY.next_stage(PARAMS, done | {QUIET: probe}) is None
    alone = TemperatureAttackParams(kind="temperature_attack", arms=[], recipes=["input_reduction"])
    assert FAMILY.next_stage(alone, {"probe": probe, "attack_input_reduction": probe, "closing": probe}) is None


def test_the_questions_are_told() -> None:
    _, seen, service = asked(honest, ordinary(PLAIN + EDITED))
    assert len(seen) == service.meters.queries == quiet_questions(1000)
