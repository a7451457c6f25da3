import dataclasses

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks.text.classifiers import LetterCounter
from workers.attacks.text.scoring import Meters, ScoringService
from workers.models import UnansweredError

LETTERS = st.one_of(st.text("abz", max_size=3), st.tuples(st.text("ab", max_size=2), st.text("ab", max_size=2)))


@given(st.lists(st.lists(LETTERS, max_size=6), max_size=8), st.sampled_from([0, 2000, 10**6]))
def test_answers_are_the_models_whatever_the_cache_holds(questions, max_bytes) -> None:
    model = LetterCounter()
    service = ScoringService(model, max_bytes=max_bytes)
    for texts in questions:
        for text, logits in zip(texts, service.scores(texts), strict=True):
            assert torch.equal(logits, model.of(text))
        assert service.cached_bytes <= max_bytes
    assert service.meters.queries == sum(map(len, questions))
    assert service.meters.forward_passes == sum(map(len, model.batches))
    assert all(len(set(batch)) == len(batch) > 0 for batch in model.batches)


def test_each_text_is_asked_once() -> None:
    model = LetterCounter()
    service = ScoringService(model, max_bytes=10**6)
    service.scores(["a", "b", "a"])
    service.scores(["b", "c", ("a", "b")])
    service.scores(["a", "c"])
    assert model.batches == [["a", "b"], ["c", ("a", "b")]]
    assert (service.meters.queries, service.meters.forward_passes, service.meters.calls) == (8, 4, 2)
    assert service.meters.hit_rate == 0.5
    assert service.meters.model_s > 0


def test_the_texts_used_longest_ago_go_first() -> None:
    model = LetterCounter()
    service = ScoringService(model, max_bytes=10**6)
    service.scores(["a", "b", "c"])
    small = ScoringService(model, max_bytes=service.cached_bytes)
    small.scores(["a", "b", "c"])
    small.scores(["a"])
    small.scores(["d"])
    before = len(model.batches)
    small.scores(["c", "a", "d"])
    assert len(model.batches) == before
    small.scores(["b"])
    assert model.batches[-1] == ["b"]


def test_an_unanswered_text_is_not_remembered() -> None:
    refused = {"b"}
    service = ScoringService(LetterCounter(refuses=lambda text: text in refused), max_bytes=10**6)
    first, second = service.scores(["a", "b"])
    assert torch.is_tensor(first)
    assert isinstance(second, UnansweredError)
    assert service.meters.forward_passes == 1
    refused.clear()
    assert torch.is_tensor(service.scores(["b"])[0])


def test_meters_tell_what_one_part_of_a_run_cost() -> None:
    service = ScoringService(LetterCounter(), max_bytes=10**6)
    service.scores(["a", "b"])
    earlier = dataclasses.replace(service.meters)
    service.scores(["b", "c"])
    cost = service.meters.since(earlier)
    assert (cost.queries, cost.forward_passes, cost.calls) == (2, 1, 1)
    assert Meters().hit_rate == 0
