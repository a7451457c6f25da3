"""Endpoints that give a text several labels, and endpoints that tag the tokens of a sentence."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as at_most
from hypothesis import strategies as st

from seatrial.net import Answer
from tests.models.endpoint.asked import manifest, reason, settings
from tests.scripted import Asked, Scripted, answering
from workers.data import Text
from workers.errors import TargetError
from workers.models import UnansweredError
from workers.models.endpoint import EndpointClassifier
from workers.models.endpoint_scores import LOG_ZERO

Make = Callable[..., EndpointClassifier]

TOPICS = ["toxic", "threat", "insult"]
TAGS = ["NOUN", "VERB"]
SENTENCES = [("dogs", "bark"), ("a",), ("\u200b", "ünï", "\ud800", 'q"\\'), ("b", "b", "b"), ("end",)]


@pytest.fixture
def topics(server: Scripted, classifier: Make) -> Make:
    """Return a function that makes a multi-label classifier of the server."""
    return lambda **more: classifier(**{"task": "multi-label-classification", "labels": TOPICS, **more})


@pytest.fixture
def tagger(server: Scripted, classifier: Make) -> Make:
    """Return a function that makes a tagger of the server."""
    said = {"task": "token-classification", "labels": TAGS, "request": {"inputs": "{{sentences}}"}}
    return lambda **more: classifier(**{**said, **more})


def tag_scores(token: str) -> list[float]:
    verb = 1 / (2 + len(token))
    return [1 - verb, verb]


def tagging(render: Callable[[list[list[list[float]]]], Any] = list) -> Callable[[Any, Asked], None]:
    """Answer ``{"inputs": sentences}`` with the scores of their tokens, rendered."""

    def answer(handler: Any, asked: Asked) -> None:
        scores = [[tag_scores(token) for token in sentence] for sentence in asked.json["inputs"]]
        answering(render(scores))(handler, asked)

    return answer


def tags_expected(sentence: Sequence[str]) -> torch.Tensor:
    return torch.tensor([tag_scores(token) for token in sentence], dtype=torch.float64).log()


def named(row: Sequence[float], labels: Sequence[str]) -> dict[str, float]:
    return dict(reversed(list(zip(labels, row, strict=True))))


def listed(row: Sequence[float], labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"label": label, "score": value} for label, value in zip(labels, row, strict=True)][::-1]


@pytest.mark.parametrize(
    "render",
    [
        lambda row: row,
        lambda row: named(row, TOPICS),
        lambda row: listed(row, TOPICS),
        lambda row: [listed(row, TOPICS)],
    ],
    ids=["numbers", "object", "label and score", "in a list of one"],
)
def test_probabilities_of_several_labels_need_no_sum_and_become_log_odds(
    server: Scripted, topics: Make, render: Any
) -> None:
    rows = [[0.5, 0.9, 0.999], [0.001, 1e-12, 1 - 1e-12]]
    server.otherwise = answering([render(row) for row in rows])
    logits = topics().check(["a", "b"])
    assert all(one.dtype == torch.float64 and one.shape == (3,) for one in logits)
    assert torch.allclose(torch.stack(logits), torch.tensor(rows, dtype=torch.float64).logit(), rtol=1e-12)
    assert torch.allclose(torch.stack(logits).sigmoid(), torch.tensor(rows, dtype=torch.float64), rtol=1e-12)
    assert server.asked[0].json == {"inputs": ["a", "b"]}


def test_saturated_probabilities_of_several_labels_are_recognisable(server: Scripted, topics: Make) -> None:
    server.otherwise = answering([[0, 1, 1.0000005], [-5e-7, 5e-324, math.nextafter(1, 0)]])
    first, second = topics().check(["a", "b"])
    assert first.tolist() == [LOG_ZERO, -LOG_ZERO, -LOG_ZERO]
    assert second[:2].tolist() == [LOG_ZERO, math.log(5e-324)]
    assert float(second[2]) == pytest.approx(53 * math.log(2))
    assert torch.isfinite(torch.stack([first, second])).all()


def test_logits_of_several_labels_are_taken_as_they_are(server: Scripted, topics: Make) -> None:
    server.otherwise = answering([{"toxic": -3, "threat": 0.5, "insult": 1e300}])
    assert topics(outputs="logits").check(["a"])[0].tolist() == [-3.0, 0.5, 1e300]


@pytest.mark.parametrize(
    ("answer", "field", "said"),
    [
        ([[0.5, 0.5, 1.5]], "architecture/outputs", "each in [0, 1]"),
        ([[0.5, 0.5]], "labels", "2 scores for 3 labels"),
        ([{"toxic": 0.5, "threat": 0.1}], "labels", "no score for the label 'insult'"),
        ([None], "labels", "1 scores for 3 labels"),
    ],
    ids=["range", "count", "only some", "null"],
)
def test_scores_of_several_labels_that_do_not_fit_are_told(
    server: Scripted, topics: Make, answer: Any, field: str, said: str
) -> None:
    server.otherwise = answering(answer)
    with pytest.raises(TargetError) as caught:
        topics().check(["a"])
    assert (caught.value.problem.field, said in caught.value.problem.detail) == (f"/manifest/{field}", True)


FORMS: dict[str, tuple[str, Any]] = {
    "lists": ("$", lambda sentences: sentences),
    "a node each": ("$[*]", lambda sentences: sentences),
    "within objects": ("$.out[*].tags", lambda sentences: {"out": [{"tags": one, "n": 1} for one in sentences]}),
    "objects": ("$", lambda sentences: [[named(row, TAGS) for row in one] for one in sentences]),
    "objects, a node each": ("$[*]", lambda sentences: [[named(row, TAGS) for row in one] for one in sentences]),
    "label and score": ("$", lambda sentences: [[listed(row, TAGS) for row in one] for one in sentences]),
    "in a list of one": ("$.r", lambda sentences: {"r": [[one] for one in sentences]}),
}


@pytest.mark.parametrize(("path", "render"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 1])
def test_every_form_of_tag_scores_is_read_alike(
    server: Scripted, tagger: Make, path: str, render: Any, count: int, first: int
) -> None:
    server.otherwise = tagging(render)
    asked = SENTENCES[first : first + count]
    logits = tagger(scores=path).check(asked)
    assert [one.dtype for one in logits] == [torch.float64] * count
    assert all(
        torch.allclose(one, tags_expected(sentence), rtol=1e-14, atol=0)
        for one, sentence in zip(logits, asked, strict=True)
    )


@pytest.mark.parametrize(
    "render",
    [
        lambda rows: rows,
        lambda rows: [rows],
        lambda rows: [named(row, TAGS) for row in rows],
        lambda rows: [listed(row, TAGS) for row in rows],
        lambda rows: [[listed(row, TAGS) for row in rows]],
    ],
    ids=["lists", "in a list of one", "objects", "label and score", "label and score in a list of one"],
)
def test_a_single_sentence_may_be_answered_by_its_scores_alone(server: Scripted, tagger: Make, render: Any) -> None:
    def answer(handler: Any, asked: Asked) -> None:
        answering(render([tag_scores(token) for token in asked.json["words"]]))(handler, asked)

    server.otherwise = answer
    logits = tagger(request={"words": "{{tokens}}"}, batch_size=1).check(SENTENCES)
    assert all(torch.allclose(one, tags_expected(of)) for one, of in zip(logits, SENTENCES, strict=True))
    assert [tuple(asked.json["words"]) for asked in server.asked] == SENTENCES


@pytest.mark.parametrize(
    ("template", "sent"),
    [
        ({"x": ["{{sentences}}", 1]}, {"x": [[["a", "b"], ["c"]], 1]}),
        ({"i": {"$each": {"w": "{{tokens}}", "k": 1}}}, {"i": [{"w": ["a", "b"], "k": 1}, {"w": ["c"], "k": 1}]}),
        ({"$each": "{{tokens}}"}, [["a", "b"], ["c"]]),
    ],
    ids=["all", "each in an object", "each"],
)
def test_templates_of_sentences_are_filled(server: Scripted, tagger: Make, template: Any, sent: Any) -> None:
    server.otherwise = answering([[[0.5, 0.5]] * 2, [[0.5, 0.5]]])
    tagger(request=template).check([("a", "b"), ("c",)])
    assert server.asked[0].json == sent


def test_a_token_without_a_tag_is_nan_and_costs_itself_only(server: Scripted, tagger: Make) -> None:
    server.otherwise = answering([[[0.25, 0.75], None, {"NOUN": 1, "VERB": 0}]])
    logits = tagger().check([("a", "b", "c")])[0]
    assert logits[1].isnan().all()
    assert logits[[0, 2]].tolist() == [[math.log(0.25), math.log(0.75)], [0.0, LOG_ZERO]]


@pytest.mark.parametrize(
    ("entry", "field", "said"),
    [
        ([[0.5, 0.5]], "architecture/scores", "a sentence of 2 tokens has the scores of 1"),
        ([[0.5, 0.5]] * 3, "architecture/scores", "a sentence of 2 tokens has the scores of 3"),
        ([], "architecture/scores", "scores of 0"),
        (None, "architecture/scores", "list with one entry per token"),
        ({"NOUN": 0.5, "VERB": 0.5}, "architecture/scores", "list with one entry per token"),
        ([None, None], "architecture/scores", "null for every token"),
        ([[0.5, 0.5], []], "labels", "a token has 0 scores for 2 labels"),
        ([[0.5, 0.5], [0.5, 0.6]], "architecture/outputs", "a token's scores are no probabilities"),
        ([[0.5, 0.5], "NOUN"], "architecture/scores", "a token's scores must be a list of numbers"),
        ([[0.5, 0.5], [{"label": "NOUN", "score": 0.9}]], "labels", "top_k"),
        ([[0.5, 0.5], {"NOUN": 0.5, "X": 0.5}], "labels", "X"),
    ],
    ids=[
        "fewer", "more", "empty", "null", "object", "nulls", "no numbers", "sum", "name", "top label", "unknown label",
    ],
)  # fmt: skip
def test_a_sentence_that_is_answered_badly_costs_itself_only(
    server: Scripted, tagger: Make, entry: Any, field: str, said: str
) -> None:
    good = [[0.25, 0.75], [0.5, 0.5]]
    server.otherwise = answering([good, entry, good])
    first, second, third = tagger().logits([("a", "b")] * 3)
    assert (reason(second).field, said in reason(second).detail) == (f"/manifest/{field}", True), second
    expected = torch.tensor(good, dtype=torch.float64).log()
    assert all(
        isinstance(one, torch.Tensor) and torch.allclose(one, expected, rtol=1e-14, atol=0) for one in (first, third)
    )
    assert len(server.asked) == 1


@pytest.mark.parametrize("nothing", [[None], [[None]], None, [[]]], ids=["null", "of null", "nothing", "empty"])
def test_a_lone_null_is_a_sentence_without_an_answer(server: Scripted, tagger: Make, nothing: Any) -> None:
    server.otherwise = answering(nothing)
    assert isinstance(tagger().logits([("a",)])[0], UnansweredError)


def test_a_sentence_that_breaks_the_server_is_sought_by_halves(server: Scripted, tagger: Make, clock: Any) -> None:
    well = tagging()

    def answer(handler: Any, asked: Asked) -> None:
        (answering({}, 500) if ["bad"] in asked.json["inputs"] else well)(handler, asked)

    server.otherwise = answer
    asked = [*SENTENCES[:2], ("bad",), SENTENCES[3]]
    answers = tagger().logits(asked)
    assert [isinstance(one, UnansweredError) for one in answers] == [False, False, True, False]
    assert [len(one.json["inputs"]) for one in server.asked] == [4, 2, 2, 1, 1]
    assert clock.slept == []


def test_the_budget_of_a_tagger_counts_sentences(server: Scripted, tagger: Make) -> None:
    server.otherwise = tagging()
    endpoint = tagger(query_budget=3)
    answers = endpoint.logits(SENTENCES)
    assert [isinstance(one, torch.Tensor) for one in answers] == [True] * 3 + [False] * 2
    assert reason(answers[3]).code == "query-budget-spent"
    assert (endpoint.sent, sum(len(one.json["inputs"]) for one in server.asked)) == (3, 3)


def test_a_busy_tagger_is_asked_again(server: Scripted, tagger: Make) -> None:
    server.script = [answering({}, 503), answering({}, 429)]
    server.otherwise = tagging()
    endpoint = tagger()
    assert torch.allclose(endpoint.check(SENTENCES[:1])[0], tags_expected(SENTENCES[0]))
    assert (len(server.asked), endpoint.sent) == (3, 3)


def test_a_sentence_without_tokens_is_not_sent(server: Scripted, tagger: Make) -> None:
    server.otherwise = tagging()
    endpoint = tagger(query_budget=2)
    logits = endpoint.check([(), ("a",), (), ("b", "c"), ()])
    assert [tuple(one.shape) for one in logits] == [(0, 2), (1, 2), (0, 2), (2, 2), (0, 2)]
    assert server.asked[0].json == {"inputs": [["a"], ["b", "c"]]}


@pytest.mark.parametrize(
    ("task", "request_template", "text"),
    [
        ("token-classification", "{{sentences}}", "a b"),
        ("text-classification", "{{texts}}", ("a",)),
        ("multi-label-classification", "{{texts}}", ("a", "b")),
        ("text-pair-classification", ["{{premises}}", "{{hypotheses}}"], "a"),
        ("text-pair-classification", ["{{premises}}", "{{hypotheses}}"], ("a", "b", "c")),
        ("text-pair-classification", ["{{premises}}", "{{hypotheses}}"], ()),
    ],
    ids=["text", "tokens of one", "pair", "single", "three", "none"],
)
def test_texts_of_another_form_are_not_sent(
    server: Scripted, classifier: Make, task: str, request_template: Any, text: Text
) -> None:
    with pytest.raises(TypeError, match=task):
        classifier(task=task, request=request_template).logits([text])
    assert server.asked == []


ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(-1, 2), st.sampled_from([*TAGS, "", "label", 10**400])
)
KEYS = st.sampled_from([*TAGS, "label", "score", "x"])
BATCH_SIZE = st.one_of(
    st.sampled_from([[0.5, 0.5], {"NOUN": 0.1, "VERB": 0.9}, listed([1, 0], TAGS), [1.0, 1.0], [7, -7], None]),
    st.lists(ATOMS, max_size=3),
    st.dictionaries(KEYS, ATOMS, max_size=3),
)
ANSWERS = st.one_of(
    st.recursive(ATOMS, lambda deeper: st.lists(deeper, max_size=4) | st.dictionaries(KEYS, deeper, max_size=3)),
    st.lists(st.lists(BATCH_SIZE, max_size=3), max_size=3),
    st.lists(BATCH_SIZE, max_size=3),
)


class Told(EndpointClassifier):
    """An endpoint that answers what it is told, without a server in between."""

    said = b""

    def _exchange(self, body: bytes, count: int) -> Answer:
        return Answer(200, {}, self.said)


@pytest.mark.parametrize("outputs", ["probabilities", "logits"])
@pytest.mark.parametrize("task", ["text-classification", "multi-label-classification", "token-classification"])
def test_whatever_comes_back_is_scores_or_a_reason(task: str, outputs: str) -> None:
    is_tagger = task == "token-classification"
    texts: list[Text] = [("a", "b"), ("c",)] if is_tagger else ["a", "b"]
    placeholder = "{{sentences}}" if is_tagger else "{{texts}}"
    said = manifest("http://127.0.0.1/", task=task, outputs=outputs, labels=TAGS, request=placeholder)
    endpoint = Told(said, settings())

    @at_most(deadline=None)
    @given(ANSWERS, st.integers(1, 2))
    def holds(said: Any, count: int) -> None:
        endpoint.said = json.dumps(said).encode()
        answers = endpoint.logits(texts[:count])
        assert len(answers) == count
        for text, answer in zip(texts, answers, strict=False):
            if isinstance(answer, UnansweredError):
                continue
            assert answer.dtype == torch.float64
            assert answer.shape == ((len(text), 2) if is_tagger else (2,))
            rows = answer.reshape(-1, 2)
            has_tag = rows.isfinite().all(1)
            assert rows[~has_tag].isnan().all()
            assert has_tag.any() if is_tagger else has_tag.all()

    holds()


def test_an_answer_at_the_limit_of_nesting_is_a_misfit() -> None:
    endpoint = Told(manifest("http://127.0.0.1/"), settings())
    for depth in range(700, 1000):
        endpoint.said = b'{"negative": ' + b"[" * depth + b"]" * depth + b"}"
        assert isinstance(endpoint.logits(["a"])[0], UnansweredError)
