"""What is sent, and what every kind of answer means."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.endpoint.asked import LABELS, TEXTS, classifying, expected, reason, score
from tests.scripted import Scripted, answering
from workers.data import Text
from workers.errors import TargetError
from workers.models.endpoint import EndpointClassifier
from workers.models.endpoint_messages import LOG_ZERO


def test_logits_are_logarithms_of_the_answered_probabilities(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    endpoint = classifier()
    logits = endpoint.logits(TEXTS)
    assert all(one.dtype == torch.float64 and one.shape == (2,) for one in logits)
    assert torch.allclose(torch.stack(logits), expected(TEXTS), rtol=1e-14, atol=0)
    assert torch.allclose(torch.stack(logits).softmax(1)[:, 1], expected(TEXTS)[:, 1].exp())
    assert [len(asked.json["inputs"]) for asked in server.asked] == [4, 4, 1]
    assert len({asked.client for asked in server.asked}) == 1
    assert (endpoint.classes, endpoint.labels, endpoint.device.type) == (2, LABELS, "cpu")
    assert endpoint.preferred_texts % 4 == 0
    assert endpoint.sent == len(TEXTS)
    assert endpoint.logits([]) == []


def pairs(row: list[float]) -> list[dict[str, Any]]:
    return [{"label": label, "score": value} for label, value in zip(LABELS, row, strict=True)]


@pytest.mark.parametrize(
    ("path", "render"),
    [
        ("$", lambda rows: rows),
        ("$[*]", lambda rows: rows),
        ("$.predictions[*].scores", lambda rows: {"predictions": [{"scores": row, "id": 7} for row in rows]}),
        ("$.a['b c'].d", lambda rows: {"a": {"b c": {"d": rows}}}),
        ("$[?@.name == 'probs'].data", lambda rows: [{"name": "x"}, {"name": "probs", "data": rows}]),
        ("$..scores", lambda rows: [{"deep": {"scores": row}} for row in rows]),
        ("$[*]", lambda rows: [dict(reversed(list(zip(LABELS, row, strict=True)))) for row in rows]),
        ("$", lambda rows: [dict(zip(LABELS, row, strict=True)) for row in rows]),
        ("$", lambda rows: [pairs(row) for row in rows]),
        ("$[*]", lambda rows: [pairs(row)[::-1] for row in rows]),
        ("$", lambda rows: [[pairs(row)[::-1]] for row in rows]),
        ("$.r", lambda rows: {"r": [sorted(pairs(row), key=lambda one: -one["score"]) for row in rows]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_form_of_answer_is_read_alike(
    server: Scripted, classifier: Callable[..., EndpointClassifier], path: str, render: Any, count: int
) -> None:
    server.otherwise = classifying(render)
    logits = classifier(scores=path).check(TEXTS[:count])
    assert torch.allclose(torch.stack(logits), expected(TEXTS[:count]))


@pytest.mark.parametrize("render", [lambda row: row, pairs, lambda row: [pairs(row)], lambda row: [row]])
def test_a_single_text_may_be_answered_by_its_scores_alone(
    server: Scripted, classifier: Callable[..., EndpointClassifier], render: Any
) -> None:
    server.otherwise = lambda handler, asked: answering(render(score(asked.json["text"])))(handler, asked)
    logits = classifier(request={"text": "{{text}}"}, batch_size=1).check(["a", "bbb"])
    assert torch.allclose(torch.stack(logits), expected(["a", "bbb"]))


@pytest.mark.parametrize(
    ("request_template", "texts", "sent"),
    [
        ({"x": ["{{texts}}", 1]}, ["a", "b"], {"x": [["a", "b"], 1]}),
        ({"i": {"$each": {"t": "{{text}}", "k": 1}}}, ["a", "b"], {"i": [{"t": "a", "k": 1}, {"t": "b", "k": 1}]}),
        ("{{texts}}", ["a {{text}} b"], ["a {{text}} b"]),
        ({"p": "{{premises}}", "h": "{{hypotheses}}"}, [("a", "b"), ("c", "d")], {"p": ["a", "c"], "h": ["b", "d"]}),
        ({"$each": ["{{premise}}", "{{hypothesis}}"]}, [("a", "b"), ("c", "d")], [["a", "b"], ["c", "d"]]),
    ],
)  # fmt: skip
def test_templates_are_filled(
    server: Scripted, classifier: Callable[..., EndpointClassifier], request_template: Any, texts: list[Text], sent: Any
) -> None:
    server.otherwise = answering([[0.25, 0.75]] * len(texts))
    task = "text-classification" if isinstance(texts[0], str) else "text-pair-classification"
    assert len(classifier(request=request_template, task=task).check(texts)) == len(texts)
    assert server.asked[0].json == sent
    assert server.asked[0].headers["content-type"] == "application/json"


def test_logits_are_taken_as_they_are(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.otherwise = answering([[-1000, 3.5], [0, 1e300]])
    logits = classifier(outputs="logits").check(["a", "b"])
    assert [one.tolist() for one in logits] == [[-1000.0, 3.5], [0.0, 1e300]]


def test_rounded_probabilities_are_taken_and_saturated_ones_are_recognisable(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    server.otherwise = answering([[0.333, 0.666], [0.0, 1.0], [1.0000002, 0], [5e-324, 1]])
    logits = classifier().check(["a", "b", "c", "d"])
    assert torch.allclose(logits[0].exp(), torch.tensor([0.333, 0.666], dtype=torch.float64))
    assert [one.tolist() for one in logits[1:3]] == [[LOG_ZERO, 0.0], [0.0, LOG_ZERO]]
    assert float(logits[3][0]) == LOG_ZERO == math.log(5e-324)
    assert torch.isfinite(torch.stack(logits)).all()


@pytest.mark.parametrize(
    ("answer", "field", "said"),
    [
        ([[0.5, 0.6]], "architecture/outputs", "outputs: logits"),
        ([[-0.5, 1.5]], "architecture/outputs", "outputs: logits"),
        ([[1, 1, -1]], "labels", "3 scores for 2 labels"),
        ([["0.5", "0.5"]], "architecture/scores", "no number"),
        ([[True, False]], "architecture/scores", "no number"),
        ([[None, 1]], "architecture/scores", "no number"),
        ([{"negative": 1.0, "positive": "0"}], "architecture/scores", "no number"),
        ([[10**400, 1]], "architecture/scores", "not finite"),
        (b"[[1e999, 0]]", "architecture/scores", "not finite"),
        (b"[[NaN, 1]]", "architecture/scores", "NaN"),
        (b"[[0.5, 0.5]", "architecture/scores", "no JSON"),
        (b"\xff\xfe", "architecture/scores", "no JSON"),
        (b"[" * 100_000, "architecture/scores", "no JSON"),
        (b"9" * 5000, "architecture/scores", "no JSON"),
        (b"", "architecture/scores", "no JSON"),
        ("[[0.5, 0.5]]", "architecture/scores", "finds nothing"),
        ([], "architecture/scores", "0 items"),
        ([[0.5, 0.5], [0.5, 0.5]], "architecture/scores", "more than 1"),
        ([[{"label": "positive", "score": 0.9}]], "labels", "top_k"),
        ([{"label": "positive", "score": 0.9}], "labels", "top_k"),
        ([pairs([0.5, 0.5])[:1] * 2], "labels", "two scores"),
        ([{"negative": 0.5, "POSITIVE": 0.5}], "labels", "POSITIVE"),
        ([[{"label": "negative", "score": 1}, 0.0]], "architecture/scores", "`label` and `score`"),
        ([None], "labels", "1 scores for 2 labels"),
        (0.5, "architecture/scores", "finds nothing"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_with_its_field(
    server: Scripted, classifier: Callable[..., EndpointClassifier], answer: Any, field: str, said: str
) -> None:
    server.otherwise = answering(answer)
    endpoint = classifier(scores="$")
    with pytest.raises(TargetError) as caught:
        endpoint.check(["a"])
    problem = caught.value.problem
    assert (problem.field, said in problem.detail) == (f"/manifest/{field}", True), problem
    assert problem.code.startswith("endpoint-")
    assert len(problem.detail) < 500
    again = reason(endpoint.logits(["a"])[0])
    assert (again.detail, again.field) == (problem.detail, problem.field)


def test_a_number_per_text_is_not_enough(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.otherwise = answering([0.1, 0.9])
    assert "list of numbers" in str(classifier().logits(["a", "b"])[0])


def test_a_path_that_finds_nothing_says_so(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    assert "finds nothing" in str(classifier(scores="$.nothing[*]").logits(["a"])[0])
