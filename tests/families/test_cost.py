"""What a check is said to take, against what it takes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seatrial.contracts.registry import family
from seatrial.families.cost import OVERHEAD_S, TOKENS_PER_WORD, cost_of
from seatrial.families.memory import AROUND_BYTES
from seatrial.families.temperature_attack.params import (
    ANEW,
    LARGE_STEPS,
    MARKS,
    MEANING_FREE_EDITS,
    WAYS,
    TemperatureAttackParams,
)
from seatrial.families.temperature_attack.sent import FRAGMENTS, MISSPELT, WORDS_ALONE
from tests.families.in_memory import TextModel
from workers.attacks.text.attacking import Job, attack_all
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.calibration.scaling import Scaling
from workers.data import Text
from workers.resources.library import Library

LENGTHS = [20.0, 30.0, 130.0]
FACTS = {"forward_s": 0.01, "backward_s": None, "tokens": 32, "longest": 512}
ATTACK_ALONE = {"kind": "temperature_attack", "arms": [], "label_queries": 2}


def _seconds(words: float) -> float:
    return 0.01 * max(1.0, TOKENS_PER_WORD * words / 32)


def _text(words: int) -> str:
    syllables = ["ba", "ko", "mi", "tu", "re"]
    made = [syllables[number % 5] + syllables[number // 5 % 5] + "no" for number in range(words)]
    # Two words of five are stopwords in English, which the recipe leaves alone.
    return " ".join("the" if number % 5 in (1, 3) else word for number, word in enumerate(made))


def test_the_seconds_of_long_texts_are_those_of_their_queries() -> None:
    # Nothing flips it, and every word matters a little: the most an attack can cost.
    spent: list[float] = []

    def scores(text: Text) -> Tensor:
        spent.append(_seconds(len(str(text).split())))
        return torch.tensor([9 + sum(map(ord, text)) % 997 / 1e4, 0.0])

    service = ScoringService(TextModel(scores, ["a", "b"]), max_bytes=10**8)
    recipe, view = load_recipe("deepwordbug", Library.of()), Scaling(1.0, is_native=True).probabilities
    attack_all([Job(n, _text(n), 0, n, view, recipe) for n in map(int, LENGTHS)], service)

    params = TemperatureAttackParams.model_validate(ATTACK_ALONE)
    by_length = cost_of(params, len(LENGTHS), {}, FACTS, mean_words=60.0, word_means=LENGTHS)
    probe = cost_of(params.model_copy(update={"recipes": []}), len(LENGTHS), {}, FACTS, word_means=LENGTHS)
    assert by_length.seconds is not None
    assert probe.seconds is not None
    # Labels alone are asked about every text too, and about one never asked before, which no recipe does.
    labels = params.most_label_queries + MEANING_FREE_EDITS + MARKS
    asked = 2 * labels - MARKS + WAYS + 4
    # And about fragments and pieces of edited texts, of as many others too, and about texts that are much misspelt.
    asked += 2 * (2 * FRAGMENTS + 3) + 2 * MISSPELT + LARGE_STEPS + 2
    # And about their words one by one.
    words = [min(WORDS_ALONE, length) for length in LENGTHS]
    of_words = sum(count * _seconds(length) for count, length in zip(words, LENGTHS, strict=True))
    of_recipe = by_length.seconds - probe.seconds - asked * sum(map(_seconds, LENGTHS)) - of_words
    assert sum(spent) <= of_recipe <= 1.5 * sum(spent)
    # What closes an audit asks about pieces of the texts as well.
    of_attacks = by_length.queries - probe.queries - (ANEW + asked) * len(LENGTHS) - sum(words)
    assert of_attacks == pytest.approx(service.meters.queries, rel=0.3)
    # One number for texts of 20 and of 130 words was far too low.
    by_mean = cost_of(params, len(LENGTHS), {}, FACTS, mean_words=60.0)
    assert by_mean.seconds is not None
    of_others = (asked + WORDS_ALONE) * len(LENGTHS) * _seconds(60.0)
    assert by_mean.seconds - probe.seconds - of_others < 0.7 * of_recipe


def test_what_a_model_cuts_off_takes_no_time() -> None:
    params = TemperatureAttackParams.model_validate(ATTACK_ALONE)
    whole = cost_of(params, 10, {}, FACTS | {"longest": None}, word_means=[5000.0])
    cut = cost_of(params, 10, {}, FACTS, word_means=[5000.0])
    assert whole.seconds is not None
    assert cut.seconds is not None
    # Words behind the end are neither computed nor attacked.
    assert cut == cost_of(params, 10, {}, FACTS, word_means=[512 / TOKENS_PER_WORD])
    # What is asked of a text of any length is asked of both.
    least = cost_of(params, 10, {}, FACTS, word_means=[1.0])
    assert cut.forward - least.forward < 0.1 * (whole.forward - least.forward)
    shorter = 512 / (TOKENS_PER_WORD * 5000) * cut.forward / whole.forward
    assert cut.seconds - OVERHEAD_S == pytest.approx(shorter * (whole.seconds - OVERHEAD_S), rel=0.01)


IMAGES = {"device": "cpu", "parameters": 1000, "input_shape": [3, 224, 224], "forward_s": 0.1, "backward_s": 0.3}
COUNTED = IMAGES | {"forward_bytes": 6e6, "attack_bytes": 21e6}
IMAGE_BYTES = 4 * 3 * 224 * 224


def _memory(body: dict[str, Any], batch_size: int, facts: dict[str, Any] = COUNTED, samples: int = 500) -> int | None:
    params = family(body["kind"]).params.model_validate(body)
    return cost_of(params, samples, {}, facts, batch_size=batch_size).memory_bytes


def test_the_memory_of_an_attack_is_that_of_its_batch() -> None:
    span = {"kind": "uncertainty_span", "epsilon": 0.03, "effort": "quick"}
    told = _memory(span, 64)
    assert told == 4000 + AROUND_BYTES + int(64 * (3.2 * 21e6 + 10 * IMAGE_BYTES))
    assert _memory(span, 64, samples=5) == _memory(span, 5)
    # On a GPU it was measured, and its allocator keeps nothing else of it.
    on_gpu = COUNTED | {"device": "NVIDIA H200", "memory_bytes_per_example": 30_000_000}
    watched = _memory(span | {"effort": "standard"}, 64)
    assert watched == told + int(64 * 3.2 * 21e6)
    assert _memory(span, 64, on_gpu) == 4000 + AROUND_BYTES + 64 * (30_000_000 + 10 * IMAGE_BYTES)


def test_the_memory_of_a_certificate_is_that_of_noisy_copies_whatever_the_batch() -> None:
    certified = {"kind": "certified_calibration"}
    assert _memory(certified, 1) == _memory(certified, 100)
    assert _memory(certified, 1) == 4000 + AROUND_BYTES + int(100 * (3.2 * 6e6 + 2 * IMAGE_BYTES))
    attacked = certified | {"ace_attacks": ["ace_lower_true"]}
    assert _memory(attacked, 1) == _memory(certified, 1)
    assert _memory(attacked, 100) == _memory({"kind": "uncertainty_span", "epsilon": 0.03, "effort": "quick"}, 100)


def test_memory_is_not_told_where_nothing_was_counted_or_networks_are_trained() -> None:
    assert _memory({"kind": "uncertainty_span", "epsilon": 0.03}, 64, IMAGES) is None
    assert _memory({"kind": "transductive_attack", "defences": [{"name": "tent", "preset": "small"}]}, 64) is None
    texts = cost_of(TemperatureAttackParams.model_validate(ATTACK_ALONE), 10, {}, FACTS, batch_size=64)
    assert texts.memory_bytes is None
