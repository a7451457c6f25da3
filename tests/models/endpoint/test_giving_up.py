"""An endpoint that does not answer, or hardly: it holds a worker for a bounded time, whatever the manifest says."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.models.endpoint.asked import Clock, classifying, manifest, reason, settings
from tests.scripted import Scripted, answering, dripping, serving
from workers.errors import TargetError
from workers.models.endpoint import UNANSWERED, UNANSWERED_S, EndpointClassifier
from workers.models.endpoint_messages import MOST_VALUES
from workers.models.text_checks import check_text_target

Make = Callable[..., EndpointClassifier]
BUSY = answering({"detail": "busy"}, 503)


@pytest.mark.parametrize("held_by", [dripping, lambda handler, asked: time.sleep(30)], ids=["dripping", "silent"])
def test_the_check_of_a_slow_endpoint_is_over_in_its_time(held_by: Any) -> None:
    with serving(held_by) as server:
        said = manifest(server.url, timeout_s=600, retries=2)
        endpoint = EndpointClassifier(said, settings(check_deadline_s=0.5))
        # The answer's own time would be over after ten minutes, with another error.
        with pytest.raises(TargetError, match="SEATRIAL_CHECK_DEADLINE_S") as caught:
            check_text_target(endpoint, said)
        endpoint.close()
    assert (caught.value.problem.code, len(server.asked)) == ("endpoint-too-slow", 1)
    assert caught.value.problem.field == "/manifest/architecture/url"


@pytest.mark.parametrize(
    "slow",
    [{"requests_per_second": 0.01}, {"retries": 20, "timeout_s": 5}],
    ids=["by its own limit", "by its pauses"],
)
def test_a_check_that_asks_slowly_is_over_in_its_time(
    server: Scripted, classifier: Make, clock: Clock, slow: dict[str, Any]
) -> None:
    if "retries" in slow:
        server.otherwise = answering({}, 429, Retry_After="300")
    began = clock()
    with pytest.raises(TargetError, match="slow"):
        check_text_target(classifier(batch_size=1, **slow), manifest(server.url))
    assert clock() - began < 300


def test_the_time_of_a_check_is_not_that_of_an_audit(server: Scripted, classifier: Make, clock: Clock) -> None:
    endpoint = classifier()
    check_text_target(endpoint, manifest(server.url))
    clock.now += 10_000
    assert len(endpoint.check(["a"])) == 1


def test_a_check_ends_with_the_first_request_that_fails(server: Scripted, classifier: Make) -> None:
    server.otherwise = BUSY
    with pytest.raises(TargetError, match="busy"):
        check_text_target(classifier(batch_size=1, retries=2), manifest(server.url))
    assert len(server.asked) == 3


def test_an_endpoint_that_is_gone_is_not_asked_for_each_text(server: Scripted, classifier: Make) -> None:
    server.otherwise = BUSY
    endpoint = classifier(batch_size=1, retries=1)
    answers = [reason(one) for one in endpoint.logits(["a"] * 1000)]
    assert len(server.asked) == 2 * UNANSWERED
    assert [one.code for one in answers] == ["endpoint-refuses"] * UNANSWERED + ["endpoint-gone"] * (1000 - UNANSWERED)
    assert "busy" in answers[-1].detail


def test_the_next_piece_of_work_finds_out_with_one_request(server: Scripted, classifier: Make) -> None:
    server.otherwise = BUSY
    endpoint = classifier(batch_size=1, retries=3)
    endpoint.logits(["a"] * 10)
    for _ in range(2):
        server.asked.clear()
        endpoint.work_for(lambda: None)
        assert {reason(one).code for one in endpoint.logits(["a"] * 10)} == {"endpoint-refuses", "endpoint-gone"}
        assert len(server.asked) == 1
    server.otherwise = classifying()
    endpoint.work_for(lambda: None)
    assert len(endpoint.check(["a"] * 10)) == 10


def test_failures_between_answers_are_not_counted_together(server: Scripted, classifier: Make) -> None:
    server.script = [*[BUSY] * (UNANSWERED - 1), classifying(), *[BUSY] * (UNANSWERED - 1)]
    answers = classifier(batch_size=1, retries=0).logits(["a"] * (2 * UNANSWERED + 3))
    assert sum(not isinstance(one, Exception) for one in answers) == 5


def test_a_bad_text_says_nothing_of_the_endpoint(server: Scripted, classifier: Make) -> None:
    server.script = [answering({"detail": "too long"}, 413)] * (UNANSWERED + 3)
    answers = classifier(batch_size=1, retries=0).logits(["a"] * (UNANSWERED + 4))
    assert not isinstance(answers[-1], Exception)


def test_pauses_an_endpoint_asks_for_add_up_to_so_much(server: Scripted, classifier: Make, clock: Clock) -> None:
    server.otherwise = answering({}, 429, Retry_After="300")
    began = clock()
    answers = classifier(retries=20, timeout_s=1).logits(["a"] * 100)
    assert {reason(one).code for one in answers} == {"endpoint-refuses", "endpoint-gone"}
    assert UNANSWERED_S <= clock() - began <= UNANSWERED_S + 400


@pytest.mark.parametrize(
    ("said", "field"),
    [({"timeout_s": 600, "retries": 20}, "timeout_s"), ({"requests_per_second": 1e-6}, "requests_per_second")],
)
def test_a_manifest_cannot_ask_for_a_day(said: dict[str, Any], field: str) -> None:
    with pytest.raises(TargetError) as caught:
        EndpointClassifier(manifest("https://models.example.com/", **said), settings())
    assert caught.value.problem.field == f"/manifest/architecture/{field}"
    for honest in ({"timeout_s": 600, "retries": 2}, {"timeout_s": 85, "retries": 20}, {"requests_per_second": 0.02}):
        EndpointClassifier(manifest("https://models.example.com/", **honest), settings())


def test_an_answer_of_many_values_is_not_read(server: Scripted, classifier: Make) -> None:
    server.otherwise = answering(b"[" + b"[]," * MOST_VALUES + b"[]]")
    found = reason(classifier(batch_size=1, scores="$[*].a").logits(["a"])[0])
    assert "send fewer examples per request" in found.detail


def test_a_cancelled_check_leaves_a_silent_endpoint_at_once() -> None:
    class CancelledError(Exception):
        pass

    asked = threading.Event()

    def cancelled() -> None:
        if asked.is_set():
            raise CancelledError

    with serving(lambda handler, one: (asked.set(), time.sleep(30))) as server:
        endpoint = EndpointClassifier(manifest(server.url, timeout_s=600, retries=0), settings())
        endpoint.work_for(cancelled)
        with pytest.raises(CancelledError):
            endpoint.logits(["a"])
        endpoint.close()
