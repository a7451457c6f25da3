"""What an endpoint of any task is asked when it is uploaded."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.endpoint.asked import manifest
from tests.scripted import Asked, Scripted, answering
from workers.errors import TargetError
from workers.models.endpoint import EndpointClassifier
from workers.models.text_checks import check_text_target

TASKS = {
    "text-classification": "{{texts}}",
    "text-pair-classification": {"$each": ["{{premise}}", "{{hypothesis}}"]},
    "multi-label-classification": "{{texts}}",
    "token-classification": "{{sentences}}",
}


def seen(said: Any) -> float:
    """Return a probability that depends on what was said."""
    return 1 / (2 + len(str(said)) % 7)


def answer_for(task: str) -> Callable[[Any, Asked], None]:
    def answer(handler: Any, asked: Asked) -> None:
        if task == "token-classification":
            scores: Any = [[[seen(token), 1 - seen(token)] for token in sentence] for sentence in asked.json]
        elif task == "multi-label-classification":
            scores = [[seen(text), seen(text) / 3] for text in asked.json]
        else:
            scores = [[seen(text), 1 - seen(text)] for text in asked.json]
        answering(scores)(handler, asked)

    return answer


@pytest.mark.parametrize("task", TASKS)
def test_a_good_endpoint_of_any_task_is_accepted_after_ten_texts(
    server: Scripted, classifier: Callable[..., EndpointClassifier], task: str
) -> None:
    server.otherwise = answer_for(task)
    endpoint = classifier(task=task, request=TASKS[task])
    report = check_text_target(endpoint, manifest(server.url, task=task, request=TASKS[task]))
    assert (report.facts.classes, report.facts.device, report.flags) == (2, "endpoint", [])
    assert endpoint.sent == 10
    assert all(isinstance(sentence, list) for sentence in server.asked[0].json) == (task in list(TASKS)[1::2])


@pytest.mark.parametrize(("labels", "digits"), [(2, 3), (2, 15), (5, 4)], ids=["rounded", "exact", "five labels"])
def test_a_softmax_among_several_labels_is_doubted(
    server: Scripted, classifier: Callable[..., EndpointClassifier], labels: int, digits: int
) -> None:
    def answer(handler: Any, asked: Asked) -> None:
        rows = [[seen(text), *[(1 - seen(text)) / (labels - 1)] * (labels - 1)] for text in asked.json]
        answering([[round(value, digits) for value in row] for row in rows])(handler, asked)

    server.otherwise = answer
    names = [f"label {number}" for number in range(labels)]
    said = {"task": "multi-label-classification", "labels": names, "request": "{{texts}}"}
    report = check_text_target(classifier(**said), manifest(server.url, **said))
    assert [flag.code for flag in report.flags] == ["labels_exclude_each_other"]


def test_an_endpoint_that_scores_sentences_but_not_tokens_is_refused(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    server.otherwise = lambda handler, asked: answering([[0.5, 0.5] for _ in asked.json])(handler, asked)
    endpoint = classifier(task="token-classification", request="{{sentences}}")
    said = manifest(server.url, task="token-classification", request="{{sentences}}")
    with pytest.raises(TargetError) as caught:
        check_text_target(endpoint, said)
    assert caught.value.problem.field == "/manifest/architecture/scores"
    assert "a sentence of 11 tokens has the scores of 2" in caught.value.problem.detail


def test_an_endpoint_that_tags_some_tokens_only_is_accepted(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    def answer(handler: Any, asked: Asked) -> None:
        rows = [[[seen(token), 1 - seen(token)] if number < 3 else None for number, token in enumerate(one)]
                for one in asked.json]  # fmt: skip
        answering(rows)(handler, asked)

    server.otherwise = answer
    endpoint = classifier(task="token-classification", request="{{sentences}}")
    report = check_text_target(endpoint, manifest(server.url, task="token-classification", request="{{sentences}}"))
    assert report.flags == []
