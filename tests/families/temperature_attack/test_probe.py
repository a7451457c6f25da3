"""Every way a score can tell an attack nothing gets its flag, and its honest neighbour none."""

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import OSA, Levenshtein

from seatrial.contracts.estimates import Flag
from seatrial.noise.lexicons import stopwords
from tests import texts
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.strength import Strength
from workers.attacks.text.word_edits import misspelt
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.probe import ProbeSample, edit_path, run_probe
from workers.models import UnansweredError

SAMPLE = [TextExample(number, text, label) for number, (text, label) in enumerate(texts.sentences(64, seed=3))]
WEIGHTS = np.random.default_rng(0).normal(0, 1, (256, 256))
PARAMS = parameters(arms=["calibrated"], design_temperature=0.01)


def slope(text: str) -> float:
    """Return a score that follows the letters of a text, two at a time."""
    return float(sum(WEIGHTS[ord(a) % 256, ord(b) % 256] for a, b in pairwise(text))) / 4


def confidence(text: str) -> float:
    return 1 / (1 + math.exp(-slope(text)))


def likely(chance: float) -> torch.Tensor:
    chance = min(max(chance, 1e-9), 1 - 1e-9)
    return torch.tensor([math.log(1 - chance), math.log(chance)], dtype=torch.float64)


def hashed(text: str) -> torch.Tensor:
    sure = 0.51 + 0.48 * int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32
    return likely(sure if slope(text) > 0 else 1 - sure)


class Cache:
    """Answers what is within some edits of what it was asked before with what it said then."""

    def __init__(self, edits: int) -> None:
        self._edits = edits
        self._said: list[tuple[str, torch.Tensor]] = []

    def __call__(self, text: str) -> torch.Tensor:
        for before, answer in self._said:
            if Levenshtein.distance(text, before, score_cutoff=self._edits) <= self._edits:
                return answer
        self._said.append((text, likely(confidence(text))))
        return self._said[-1][1]


class Tiring:
    """Says another thing with every question."""

    def __init__(self, step: float) -> None:
        self._step, self._asked = step, 0

    def __call__(self, text: str) -> torch.Tensor:
        self._asked += 1
        return likely(min(1.0, max(0.0, confidence(text) + self._step * (self._asked % 3 - 1))))


class Context:
    """What the probe needs of a shard's context."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        model = TextModel(function, ["no", "yes"])
        if hasattr(function, "begin_session"):
            object.__setattr__(model, "begin_session", function.begin_session)
        self._service = ScoringService(model, max_bytes=10**8)

    def scoring(self) -> ScoringService:
        return self._service

    def seed(self, purpose: str, example_id: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{purpose} {example_id}".encode()).digest()[:7], "big")

    def salted_seed(self, purpose: str, example_id: int) -> int:
        return self.seed(purpose, example_id)

    def check_cancelled(self) -> None:
        pass


def probed(function: Callable[[Any], Any], sample: Sequence[TextExample] = SAMPLE, shard: int = 64) -> Records:
    shards = [sample[start : start + shard] for start in range(0, len(sample), shard)]
    context = Context(function)
    return pa.concat_tables([run_probe(context, examples) for examples in shards])


def flags(function: Callable[[Any], Any], *, label_only: float = 0.5) -> dict[str, Flag]:
    done = records(PARAMS, label_only=label_only) | {"probe": probed(function)}
    return {flag.code: flag for flag in estimates.reduce(PARAMS, done, 0).flags}


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda text: likely(0.9 if slope(text) > 0 else 0.1), "have the same confidence, 0.9"),
        (lambda text: torch.tensor([0.0, float(round(slope(text) / 3)) + 0.25]), "move no score at all"),
        (lambda text: likely(min(max(confidence(text), 0.2), 0.8)), "have the same confidence, 0.8"),
        (lambda text: likely(round(confidence(text), 1)), "distinct confidences, the closest 0.1"),
        (hashed, "as a hash would have it"),
    ],
)
def test_scores_that_tell_nothing_are_told_with_their_cause(function, cause) -> None:
    flag = flags(function)["uninformative_scores"]
    assert flag.severity == "warning"
    assert cause in flag.message


@pytest.mark.parametrize(
    "function",
    [
        lambda text: likely(confidence(text)),
        lambda text: likely(round(confidence(text), 3)),
        lambda text: torch.tensor([0.0, round(slope(text), 2)]),
        # One letter in twenty moves nothing, and no score is sure.
        lambda text: likely(0.3 + 0.4 * confidence(text.replace("z", ""))),
    ],
)
def test_scores_that_tell_something_are_left_alone(function) -> None:
    assert not {"uninformative_scores", "answers_depend_on_history"} & set(flags(function))


def test_it_is_an_error_where_labels_alone_found_more() -> None:
    found = flags(hashed, label_only=6.0)["uninformative_scores"]
    assert found.severity == "error"
    assert "labels alone leaves" in found.message
    assert "uninformative_scores" not in flags(lambda text: likely(confidence(text)), label_only=6.0)


@pytest.mark.parametrize("edits", [1, 2, 4, 7])
def test_a_cache_of_what_is_similar_is_seen(edits) -> None:
    flag = flags(Cache(edits))["answers_depend_on_history"]
    assert flag.severity == "error"
    assert "in whichever direction" in flag.message


def test_another_answer_to_the_same_text_is_seen() -> None:
    flag = flags(Tiring(0.1))["answers_depend_on_history"]
    assert "given another answer" in flag.message
    assert "answers_depend_on_history" not in flags(Tiring(0.004))


class Sessions:
    """Is a little more or less sure in every other session."""

    def __init__(self, step: float) -> None:
        self._step, self._sessions = step, 0

    def begin_session(self) -> None:
        self._sessions += 1

    def __call__(self, text: str) -> torch.Tensor:
        return likely(0.5 + (confidence(text) - 0.5) * (0.5 if self._sessions % 2 else 0.5 + self._step))


def test_another_answer_in_another_session_is_seen() -> None:
    flag = flags(Sessions(0.3))["answers_depend_on_history"]
    assert flag.severity == "error"
    assert "in another session" in flag.message
    assert "after their neighbours" not in flag.message
    # Arithmetic on another machine behind the same address.
    assert "answers_depend_on_history" not in flags(Sessions(0.02))


def test_a_cache_of_the_very_same_texts_is_none() -> None:
    assert "answers_depend_on_history" not in flags(Cache(0))


def test_a_path_misspells_one_word_at_a_time_as_recipes_do() -> None:
    for text in ("the old film is charming and moving", ("a fine day", "the weather was good"), "", "no"):
        for seed in range(20):
            path = edit_path(text, seed)
            assert path[0] == text
            joined = [step if isinstance(step, str) else " / ".join(step) for step in path]
            for before, after in pairwise(joined):
                assert 1 <= OSA.distance(before, after) <= 2
                # What recipes leave alone stays.
                assert [word for word in after.split() if word in stopwords()] == [
                    word for word in before.split() if word in stopwords()
                ]
    assert len(edit_path(" ".join(["word"] * 90), 1)) == 11
    # As long as with the stopwords, and those alone where there is nothing else.
    assert [len(edit_path(text, 2)) for text in ("and then the film", "and then the")] == [5, 4]


def test_edits_are_of_any_kind() -> None:
    assert {len(edit_path("charming", seed)[1]) for seed in range(40)} == {7, 8, 9}
    # As searches write them: with capitals, and as those do that see labels, with look-alikes.
    written = "".join(path[-1] for path in (edit_path("a charming day", seed) for seed in range(200)))
    assert any(one.isupper() for one in written)
    assert not written.isascii()
    rng = random.Random(1)
    assert {misspelt("abcd", rng, 3) for _ in range(40)} == {"acbd", "abdc"}
    assert {misspelt("abcd", rng, 0) for _ in range(40)} == {"acd", "abd"}
    assert all(len(misspelt(word, rng)) == len(word) + 1 for word in ("a", "no"))
    assert all(misspelt("aaaa", rng) != "aaaa" for _ in range(200))
    # Letters of another script are its own.
    assert set("".join(misspelt("天地好人", rng) for _ in range(40))) == set("天地好人")


def test_neither_shards_nor_answers_before_change_a_row() -> None:
    def function(text: str) -> torch.Tensor:
        return likely(confidence(text))

    whole = probed(function, SAMPLE[:16])
    assert whole.equals(pa.concat_tables([probed(function, [example]) for example in SAMPLE[:16]]))


def test_texts_without_an_answer_are_errored() -> None:
    table = probed(lambda text: UnansweredError("no") if "film" in text else likely(confidence(text)), SAMPLE[:16])
    assert 0 < sum(table["errored"].to_pylist()) < 16
    assert len(ProbeSample(table)) == 16 - sum(table["errored"].to_pylist())
    nobody = ProbeSample(probed(lambda text: UnansweredError("no"), SAMPLE[:2]))
    assert (len(nobody), nobody.memory_p, nobody.unmoved) == (0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("strength", "severity", "cause"),
    [
        (Strength(20, 28, 14, is_limited=False), "warning", "1.40 candidates a word, and 70% of the words none"),
        (Strength(20, 80, 8, is_limited=True), "warning", "ran into its limit of edits"),
        (Strength(20, 40, 12, is_limited=False), None, ""),
    ],
)
def test_a_recipe_that_could_do_little_is_no_evidence(strength, severity, cause) -> None:
    params = parameters(recipes=["deepwordbug", "pwws"], arms=["calibrated"])
    sound = Strength(20, 60, 8, is_limited=False)
    both = records(params, could_write={"deepwordbug": strength, "pwws": strength})
    result = estimates.reduce(params, both, 0)
    found = [flag for flag in result.flags if flag.code == "weak_attack"]
    assert result.series["attack_strength"]["pwws"] == {
        "candidates_per_word": strength.candidates / 20,
        "words_without": strength.without / 20,
        "limited": float(strength.is_limited),
        "attacked": 60,
        "inert": strength.candidates < 30,
    }
    assert [flag.severity for flag in found] == ([severity] * 2 if severity else [])
    assert all(cause in flag.message for flag in found)
    one = records(params, could_write={"deepwordbug": strength, "pwws": sound})
    found = [flag for flag in estimates.reduce(params, one, 0).flags if flag.code == "weak_attack"]
    # The other recipe answers the same question.
    assert [flag.severity for flag in found] == (["info"] if severity else [])


def test_importances_that_are_all_equal_as_served_count_as_zero() -> None:
    params = parameters(recipes=["pwws"], arms=["calibrated"])
    plain = estimates.reduce(params, records(params, n=20), 0)
    masked = estimates.reduce(params, records(params, n=20, masked=5), 0)
    assert plain.estimates["masked_importance[recipe=pwws]"].value == 0
    assert masked.estimates["masked_importance[recipe=pwws]"].value == 0.25
    name = "importance_correlation[recipe=pwws]"
    assert masked.estimates[name].n == plain.estimates[name].n + 1
    assert masked.estimates[name].value < plain.estimates[name].value
    codes = [{flag.code for flag in result.flags} & {"masked_importance"} for result in (plain, masked)]
    assert codes == [set(), {"masked_importance"}]
