"""Asking a server that is slow, busy, broken or limited."""

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.endpoint.asked import Clock, classifying, expected, reason
from tests.scripted import Answerer, Asked, Scripted, answering, dropping, flooding, serving
from tests.servers import free_port
from workers.errors import TargetError
from workers.models import UnansweredError
from workers.models.endpoint import EndpointClassifier


def test_one_bad_row_costs_its_own_text_only(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.otherwise = answering([[0.5, 0.5], [0.5, 7], [0.25, 0.75]])
    first, second, third = classifier().logits(["a", "b", "c"])
    assert "no probabilities" in str(reason(second))
    assert torch.allclose(torch.stack([first, third]).exp(), torch.tensor([[0.5, 0.5], [0.25, 0.75]]).double())
    assert len(server.asked) == 1


@pytest.mark.parametrize("failing", [answering({"error": "boom"}, 500), answering(b"{"), answering([]), flooding])
def test_one_bad_text_costs_itself_only(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock, failing: Answerer
) -> None:
    well = classifying()

    def answer(handler: Any, asked: Asked) -> None:
        (failing if "bad" in asked.json["inputs"] else well)(handler, asked)

    server.otherwise = answer
    texts = ["a", "bb", "bad", "ccc", "dddd"]
    answers = classifier().logits(texts)
    assert [isinstance(one, UnansweredError) for one in answers] == [False, False, True, False, False]
    good = [one for one in answers if isinstance(one, torch.Tensor)]
    assert torch.allclose(torch.stack(good), expected(["a", "bb", "ccc", "dddd"]))
    assert len(server.asked) == 6
    assert clock.slept == []


def test_a_refused_request_is_not_sent_again(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock
) -> None:
    for status, field in ((401, "headers"), (403, "headers"), (404, "url"), (405, "url"), (501, "url")):
        server.asked.clear()
        server.otherwise = answering({"error": "no"}, status)
        answers = classifier().logits(["a", "b", "c", "d"])
        assert f"HTTP {status}" in str(answers[3])
        assert reason(answers[0]).field == f"/manifest/architecture/{field}"
        assert len(server.asked) == 1
    assert clock.slept == []


def test_a_redirect_is_not_followed(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    with serving(answering([[0.5, 0.5]])) as elsewhere:
        server.otherwise = answering(b"", 302, Location=elsewhere.url)
        answer = reason(classifier().logits(["a"])[0])
        assert elsewhere.url in answer.detail
        assert answer.field == "/manifest/architecture/url"
        assert elsewhere.asked == []


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_asked_again_with_growing_pauses(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock, status: int
) -> None:
    server.script = [answering({}, status)] * 4
    assert torch.allclose(torch.stack(classifier(retries=4).check(["a"])), expected(["a"]))
    assert len(server.asked) == 5
    # Pauses of 0.5 to 4 s, each at least half of what it may be.
    assert 7.5 / 2 <= sum(clock.slept) <= (7.5 if status != 429 else 60)


def test_patience_ends(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.otherwise = answering({"detail": "busy"}, 503)
    answers = classifier(retries=2).logits(["a", "b"])
    assert len(server.asked) == 3
    assert ["busy" in str(reason(one)) for one in answers] == [True, True]


@pytest.mark.parametrize("break_off", [dropping, lambda handler, asked: handler.connection.shutdown(2)])
def test_a_broken_connection_is_asked_again(
    server: Scripted, classifier: Callable[..., EndpointClassifier], break_off: Answerer
) -> None:
    server.script = [break_off]
    endpoint = classifier()
    assert torch.allclose(torch.stack(endpoint.check(["a", "b"])), expected(["a", "b"]))
    assert (len(server.asked), endpoint.sent) == (2, 4)


def test_a_slow_answer_is_given_up_and_asked_again(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    server.script = [lambda handler, asked: time.sleep(1.5)]
    assert len(classifier(timeout_s=0.3).check(["a"])) == 1
    server.script = [lambda handler, asked: time.sleep(1.5)]
    assert "within 0.3 s" in str(classifier(timeout_s=0.3, retries=0).logits(["a"])[0])


def test_nobody_there_costs_no_budget(classifier: Callable[..., EndpointClassifier]) -> None:
    endpoint = classifier(url=f"http://127.0.0.1:{free_port()}/", retries=2, query_budget=3)
    assert reason(endpoint.logits(["a"])[0]).code == "endpoint-silent"
    assert endpoint.sent == 0


def test_retry_after_is_kept_to_and_bounded(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock
) -> None:
    for asked_s, least, most in (("17", 17, 18), ("86400", 300, 301), ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 1)):
        clock.slept.clear()
        server.script = [answering({}, 503, Retry_After=asked_s)]
        assert len(classifier().check(["a"])) == 1
        assert least <= sum(clock.slept) <= most
        assert max(clock.slept) <= 1


def test_a_pace_is_kept(server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock) -> None:
    classifier(requests_per_second=0.5, batch_size=1).check(["a", "b", "c", "d"])
    assert sum(clock.slept) == pytest.approx(6.0)
    assert clock.now - 1000 == pytest.approx(6.0)


def test_too_many_requests_halve_the_pace_and_answers_raise_it(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    endpoint = classifier(requests_per_second=8, batch_size=1)
    paces: list[float | None] = []
    server.script = [answering({}, 429), answering({}, 429)]
    for _ in range(20):
        endpoint.check(["a"])
        paces.append(endpoint._pace.per_s)
    # Two halvings to 2, and a twentieth of 8 for every answer.
    assert paces[0] == pytest.approx(2.4)
    assert np.diff(paces[:10]) == pytest.approx(0.4)
    assert paces[-1] == 8


def test_without_a_limit_the_pace_that_was_too_fast_is_halved_and_lifted_again(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock
) -> None:
    endpoint = classifier(batch_size=1)

    def after_a_quarter_second(then: Answerer) -> Answerer:
        def answer(handler: Any, asked: Asked) -> None:
            clock.now += 0.25
            then(handler, asked)

        return answer

    server.script = [after_a_quarter_second(classifying()), after_a_quarter_second(answering({}, 429))]
    endpoint.check(["a", "b"])
    assert endpoint._pace.per_s == pytest.approx(4 / 2 + 4 / 20)
    endpoint.check(["c"] * 12)
    assert endpoint._pace.per_s is None


def test_the_budget_counts_texts_sent_here_and_elsewhere(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    endpoint = classifier(query_budget=10, spent=3)
    answers = endpoint.logits(["a"] * 9)
    assert [isinstance(one, torch.Tensor) for one in answers] == [True] * 7 + [False] * 2
    assert reason(answers[-1]).detail == "query budget of 10 is spent"
    assert sum(len(asked.json["inputs"]) for asked in server.asked) == 7
    assert reason(endpoint.logits(["b"])[0]).code == "query-budget-spent"
    with pytest.raises(TargetError, match="budget of 10"):
        endpoint.check(["b"])
    endpoint.sent = endpoint.spent = 0
    assert isinstance(endpoint.logits(["b"])[0], torch.Tensor)


def test_what_is_sent_again_counts_again(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.otherwise = answering({}, 503)
    endpoint = classifier(query_budget=5, retries=10)
    assert "HTTP 503" in str(endpoint.logits(["a", "b"])[0])
    assert (endpoint.sent, len(server.asked)) == (4, 2)


def test_a_tick_gives_up_between_requests_and_in_waits(
    server: Scripted, classifier: Callable[..., EndpointClassifier], clock: Clock
) -> None:
    class GivenUpError(Exception):
        pass

    endpoint = classifier()
    ticks = 0

    def check_cancelled() -> None:
        nonlocal ticks
        ticks += 1
        if clock.now > 1005:
            raise GivenUpError

    endpoint.check_cancelled = check_cancelled
    server.script = [answering({}, 429, Retry_After="100")]
    with pytest.raises(GivenUpError):
        endpoint.logits(["a"])
    assert clock.now <= 1007
    assert ticks >= 5
    assert len(server.asked) == 1


def test_the_global_generators_are_left_alone(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    server.script = [answering({}, 503)] * 3
    assert len(classifier().check(["a"])) == 1
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def test_another_session_is_another_connection_and_nothing_else(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    endpoint = classifier()
    # Before anything was asked there is nothing to close.
    endpoint.begin_session()
    first = endpoint.logits(["a", "bb"])
    endpoint.logits(["a"])
    endpoint.begin_session()
    again = endpoint.logits(["a", "bb"])
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    before, same, other = [asked.client for asked in server.asked]
    assert before == same != other
    assert server.asked[0].headers == server.asked[2].headers
