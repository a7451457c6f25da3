"""Language models as classifiers: what is asked, what is read, what is doubted, and what is refused."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seatrial.contracts.generative import ChatArchitecture
from seatrial.contracts.models import ModelManifest
from tests.models.endpoint.asked import Clock, settings
from tests.models.endpoint.language_server import WORDS, LanguageServer, log_probabilities, numbers
from tests.scripted import Scripted, answering
from workers.errors import TargetError
from workers.models.endpoint import EndpointClassifier, NoScoresError
from workers.models.generative import GenerativeExchange
from workers.models.text_checks import check_text_target

LABELS = {"negative": [" negative", " Negative"], "positive": [" positive", " Positive"]}
TEMPLATE = "Review: {{text}}\nSentiment:"
TEXTS = ["a very good film", "not good", "the film was so bad and so long", "{{premise}}"]


def manifest(url: str, *, kind: str = "chat", task: str = "text-classification", **more: Any) -> ModelManifest:
    path = "chat/completions" if kind == "chat" else "completions"
    architecture = {
        "kind": kind,
        "url": f"{url}/{path}",
        "model": "tiny",
        "template": TEMPLATE,
        "labels": LABELS,
    } | more
    said = {"name": "llm", "version": "1", "task": task, "architecture": architecture}
    return ModelManifest.model_validate_json(json.dumps(said))


@pytest.fixture
def language(server: Scripted, clock: Clock) -> Iterator[Callable[..., EndpointClassifier]]:
    made: list[EndpointClassifier] = []

    def make(how: LanguageServer | None = None, **more: Any) -> EndpointClassifier:
        server.otherwise = how or LanguageServer()
        said = manifest(server.url, **more)
        made.append(EndpointClassifier(said, settings(), clock=clock, sleep=clock.sleep))
        return made[-1]

    yield make
    for one in made:
        one.close()


def chances(text: str, words: list[str], template: str = TEMPLATE) -> float:
    """Return the probability of some words after the prompt, by the model itself."""
    last = log_probabilities(template.replace("{{text}}", text))[-1].exp()
    return float(sum(last[WORDS.index(word)] for word in words))


def expected(text: str) -> Tensor:
    return torch.tensor([chances(text, words) for words in LABELS.values()], dtype=torch.float64).log()


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_label_has_the_probability_of_its_words_together(
    language: Callable[..., EndpointClassifier], server: Scripted, kind: str
) -> None:
    classifier = language(kind=kind)
    assert classifier.labels == ["negative", "positive"]
    found = classifier.logits(TEXTS)
    torch.testing.assert_close(torch.stack(found), torch.stack([expected(text) for text in TEXTS]))
    asked = [one.json for one in server.asked]
    assert len(asked) == len(TEXTS) == classifier.sent
    assert {(one["temperature"], one["max_tokens"], one["model"]) for one in asked} == {(1.0, 1, "tiny")}
    said = asked[3]["messages"][0]["content"] if kind == "chat" else asked[3]["prompt"]
    # A text that looks like a placeholder is a text.
    assert said == "Review: {{premise}}\nSentiment:"


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_temperature_that_a_server_applies_changes_nothing_and_is_told(
    language: Callable[..., EndpointClassifier], server: Scripted, kind: str
) -> None:
    told = {}
    for scales in (False, True):
        classifier = language(LanguageServer(scales=scales), kind=kind)
        report = check_text_target(classifier, manifest(server.url, kind=kind))
        told[scales] = {flag.code: flag for flag in report.flags}
        torch.testing.assert_close(classifier.logits(TEXTS[:1])[0], expected(TEXTS[0]))
    assert all(set(flags) == {"logprobs_scale"} for flags in told.values())
    assert "before temperature" in told[False]["logprobs_scale"].message
    assert "after temperature" in told[True]["logprobs_scale"].message
    assert {flags["logprobs_scale"].severity for flags in told.values()} == {"info"}


def test_other_answers_at_temperature_0_are_a_finding(
    language: Callable[..., EndpointClassifier], server: Scripted
) -> None:
    how = LanguageServer(is_random=True, draw=torch.Generator().manual_seed(2))
    report = check_text_target(language(how), manifest(server.url))
    assert "non_deterministic" in {flag.code for flag in report.flags}


def test_a_label_that_is_not_listed_is_an_interval_and_never_decides(
    language: Callable[..., EndpointClassifier],
) -> None:
    """By the closed form: it is listed or not, and the class is decided, or not, whatever stands in the interval."""
    seen = {"open": 0, "undecided": 0, "listed": 0}
    texts = [f"{first}{second}" for first in WORDS for second in WORDS]
    severities: set[str] = set()
    for top in (2, 4):
        classifier = language(top_logprobs=top)
        for text, found in zip(texts[::13], classifier.logits(texts[::13]), strict=True):
            last = log_probabilities(TEMPLATE.replace("{{text}}", text))[-1].exp()
            listed = last.topk(top)
            least, rest = float(listed.values.min()), 1 - float(listed.values.sum())
            low = [
                float(sum(last[WORDS.index(w)] for w in ws if last[WORDS.index(w)] >= least)) for ws in LABELS.values()
            ]
            missing = [sum(last[WORDS.index(w)] < least for w in ws) for ws in LABELS.values()]
            high = [one + min(float(count * least), rest) for one, count in zip(low, missing, strict=True)]
            best = 0 if low[0] >= low[1] else 1
            if low[best] == 0 or high[1 - best] > low[best]:
                seen["undecided"] += 1
                assert isinstance(found, NoScoresError)
                assert found.field == "/manifest/architecture/labels"
                continue
            seen["open" if 0 in low else "listed"] += 1
            assert isinstance(found, Tensor)
            wanted = [math.log((a + b) / 2) for a, b in zip(low, high, strict=True)]
            torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))
            # Decided as the model decides.
            assert found.argmax() == expected(text).argmax()
        assert isinstance(classifier.exchange, GenerativeExchange)
        severities |= {flag.severity for flag in classifier.exchange.flags() if flag.code == "labels_not_listed"}
    assert min(seen.values()) >= 1, seen
    assert "error" in severities


def test_labels_of_several_tokens_are_read_by_continuation(
    language: Callable[..., EndpointClassifier], server: Scripted
) -> None:
    words = {"negative": [" not good", " bad"], "positive": [" very very good"]}
    classifier = language(kind="completions", read="continuation", labels=words)
    prompt = TEMPLATE.replace("{{text}}", TEXTS[0])

    def by_hand(word: str) -> float:
        every, begin = log_probabilities(prompt + word), len(numbers(prompt))
        ids = numbers(prompt + word)
        return sum(float(every[at - 1, ids[at]]) for at in range(begin, len(ids)))

    wanted = [math.log(sum(math.exp(by_hand(word)) for word in several)) for several in words.values()]
    torch.testing.assert_close(classifier.logits(TEXTS[:1])[0], torch.tensor(wanted, dtype=torch.float64))
    assert [one[len(prompt) :] for one in server.asked[0].json["prompt"]] == [" not good", " bad", " very very good"]


def test_a_prompt_that_ends_inside_of_a_token_is_told(language: Callable[..., EndpointClassifier]) -> None:
    classifier = language(
        kind="completions", read="continuation", template="{{text}} so", labels={"a": ["me"], "b": ["l"]}
    )
    (found,) = classifier.logits(["good"])
    assert isinstance(found, NoScoresError)
    assert "no token of the echo begins where the prompt ends" in found.detail
    assert found.field == "/manifest/architecture/template"


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_votes_are_shares_with_room_for_chance(
    language: Callable[..., EndpointClassifier], server: Scripted, kind: str
) -> None:
    classifier = language(kind=kind, read="votes", samples=100)
    (found,) = classifier.logits(TEXTS[:1])
    assert isinstance(found, Tensor)
    wanted = expected(TEXTS[0]).exp()
    assert (found.exp() - wanted).abs().max() < 4 * math.sqrt(0.25 / 100)
    assert (found.exp() > 0).all()
    assert server.asked[0].json["n"] == 100
    assert isinstance(classifier.exchange, GenerativeExchange)
    assert [(flag.code, flag.severity) for flag in classifier.exchange.flags()] == [("sampled_votes", "warning")]


@pytest.mark.parametrize(("unlikely", "expected"), [(0, []), (9, ["info"]), (10, ["warning"])])
def test_labels_that_a_model_would_hardly_write_are_told(
    language: Callable[..., EndpointClassifier], unlikely: int, expected: list[str]
) -> None:
    """Of 200 texts one in twenty is a doubt; listed log probabilities are not sampled, which is told of no text."""
    classifier = language()
    exchange = classifier.exchange
    assert isinstance(exchange, GenerativeExchange)
    exchange.read, exchange.unlikely = 200, unlikely
    assert [flag.severity for flag in exchange.flags()] == expected
    assert {flag.code for flag in exchange.flags()} <= {"labels_unlikely"}


def test_a_server_that_does_not_draw_as_often_as_asked_is_told(
    language: Callable[..., EndpointClassifier], server: Scripted
) -> None:
    classifier = language(read="votes", samples=5)
    server.otherwise = answering({"choices": [{"message": {"content": " positive"}}]})
    (found,) = classifier.logits(["good"])
    assert isinstance(found, NoScoresError)
    assert (found.field, "5 answers were asked for (n), choices has 1" in found.detail) == (
        "/manifest/architecture/samples",
        True,
    )


def chat_answer(listed: Any, token: str = " negative", logprob: Any = -0.1) -> Any:
    return {"choices": [{"logprobs": {"content": [{"token": token, "logprob": logprob, "top_logprobs": listed}]}}]}


LISTED = [{"token": " negative", "logprob": -0.2}, {"token": " positive", "logprob": -2.0}]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, "choices of the answer is missing"),
        ([], "choices of the answer is missing"),
        ({"choices": []}, "choices is empty"),
        ({"choices": [None]}, "logprobs of choices[0] is missing; without them say read: votes"),
        ({"choices": [{"logprobs": None}]}, "say read: votes"),
        ({"choices": [{"logprobs": {"content": []}}]}, "top_logprobs of choices[0].logprobs.content[0] is missing"),
        (chat_answer([]), "lists no tokens"),
        (chat_answer([{"token": 1, "logprob": -1}]), "token of a top_logprob is not what the protocol says"),
        (chat_answer([{"token": "a", "logprob": 0.5}]), "is no number of at most 0"),
        (chat_answer([{"token": "a", "logprob": "x"}]), "is no number of at most 0"),
        (chat_answer([{"token": "a", "logprob": True}]), "is no number of at most 0"),
        (chat_answer([{**one, "logprob": -0.01} for one in LISTED]), "add up to more than 1"),
        (chat_answer(LISTED[1:], token=" negative"), "leaves out the token that was written"),
        ({"choices": [{"logprobs": [[[[]]]]}]}, "logprobs of choices[0] is not what the protocol says"),
        (b'{"choices": [{"logprobs": NaN}]}', "NaN, which is no JSON"),
        (b"<html>", "the answer is no JSON"),
    ],
)
def test_a_malformed_answer_names_what_is_wrong_with_it(
    language: Callable[..., EndpointClassifier], server: Scripted, answer: Any, told: str
) -> None:
    classifier = language()
    server.otherwise = answering(answer)
    (found,) = classifier.logits(["good"])
    assert isinstance(found, NoScoresError)
    assert told in found.detail
    assert found.field.startswith("/manifest/architecture/")


@pytest.mark.parametrize(
    ("how", "more", "told"),
    [
        (LanguageServer(has_logprobs=False), {}, "say read: votes"),
        (LanguageServer(hides=tuple(WORDS[:4])), {}, "leaves out the token that was written"),
        (
            LanguageServer(),
            {"labels": {"a": ["x", "y"], "b": ["z"]}},
            r"none of the labels' words \('x', 'y', 'z'\) is among the 16 tokens",
        ),
        (LanguageServer(strips=True), {}, "' negative' is, with another blank or case"),
    ],
    ids=["none", "hidden", "other words", "without blanks"],
)
def test_a_server_that_hides_what_it_knows_is_refused(
    language: Callable[..., EndpointClassifier], server: Scripted, how: LanguageServer, more: Any, told: str
) -> None:
    with pytest.raises(TargetError, match=told):
        check_text_target(language(how, **more), manifest(server.url, **more))


@pytest.mark.parametrize(
    ("status", "error", "member"),
    [
        (404, {"code": "model_not_found"}, "/model"),
        (400, {"param": "top_logprobs", "message": "at most 5"}, "/top_logprobs"),
        (400, {"param": "messages"}, "/template"),
        (400, {"param": ["n"]}, ""),
        (400, "no", ""),
        (404, None, "/url"),
        (401, {"code": "invalid_api_key"}, "/headers"),
    ],
)
def test_a_refusal_names_the_member_it_is_about(
    language: Callable[..., EndpointClassifier], server: Scripted, status: int, error: Any, member: str
) -> None:
    classifier = language()
    server.otherwise = answering({"error": error}, status)
    (found,) = classifier.logits(["good"])
    assert isinstance(found, NoScoresError)
    assert found.field == f"/manifest/architecture{member}"


def test_tokens_of_one_spelling_are_added_up_and_one_that_is_repeated_is_one(
    language: Callable[..., EndpointClassifier], server: Scripted
) -> None:
    classifier = language()
    more = [LISTED[0], {"token": " negative", "logprob": -4.0}]
    server.otherwise = answering(chat_answer([*LISTED, *more]))
    (found,) = classifier.logits(["good"])
    assert isinstance(found, Tensor)
    low = [math.exp(-0.2) + math.exp(-4.0), math.exp(-2.0)]
    # The words in another case may have all that is left.
    wanted = torch.tensor([one + (1 - sum(low)) / 2 for one in low], dtype=torch.float64)
    torch.testing.assert_close(found.exp(), wanted)


@pytest.mark.parametrize(
    ("count", "severities"), [(0, {}), (1, {"info"}), (2, {"warning"}), (9, {"warning"}), (10, {"error"})]
)
def test_a_doubt_grows_with_the_share_of_texts_it_is_about(count: int, severities: Any) -> None:
    architecture = manifest("https://llm.example.com/v1", labels={"a": ["a"], "b": ["b"]}).architecture
    assert isinstance(architecture, ChatArchitecture)
    exchange = GenerativeExchange(architecture, "text-classification", ["a", "b"])
    both = [{"token": "a", "logprob": math.log(0.6)}, {"token": "b", "logprob": math.log(0.3)}]
    one = [both[0], {"token": "c", "logprob": math.log(0.3)}]
    for at in range(200):
        (found,) = exchange.answers(json.dumps(chat_answer(one if at < count else both, "a")).encode(), ["x"])
        assert isinstance(found, Tensor)
    assert {flag.severity for flag in exchange.flags()} == set(severities)
    assert all(f"{count} of 200 texts" in flag.message for flag in exchange.flags())
    exchange.forget()
    assert exchange.flags() == []


def test_constant_log_probabilities_are_refused(language: Callable[..., EndpointClassifier], server: Scripted) -> None:
    classifier = language()
    server.otherwise = answering(chat_answer(LISTED))
    with pytest.raises(TargetError, match="same logits"):
        check_text_target(classifier, manifest(server.url))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"template": "no place"}, "holds no {{text}}"),
        ({"template": "{{premise}}"}, "holds {{text}} and no other placeholder, not {{premise}}"),
        ({"template": "{{texts}}"}, "holds {{text}} and no other placeholder, not {{texts}}"),
        ({"template": "{{text}} {{secret:KEY}}"}, "a secret belongs into headers"),
        ({"system": "You read {{text}}."}, "{{text}} is not filled in here"),
        ({"task": "token-classification"}, "not for token-classification"),
        ({"task": "image-classification"}, "not for image-classification"),
        ({"labels": {"a": [" x"], "b": [" x"]}}, "stands for two labels"),
        ({"labels": {"a": [" x"]}}, "at least 2"),
        ({"labels": {"a": [], "b": ["x"]}}, "at least 1"),
        ({"read": "continuation"}, "a chat echoes no prompt"),
        (
            {"kind": "completions", "read": "continuation", "labels": {"a": [" so"], "b": [" so so"]}},
            "the label's word ' so' begins ' so so'",
        ),
        ({"top_logprobs": 21}, "less than or equal to 20"),
        ({"request": "{{text}}"}, "Extra inputs"),
        ({"labels": None}, "should be an object"),
    ],
)
def test_what_could_never_be_asked_is_refused(more: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told.replace("{", r"\{")):
        manifest("https://models.example.com/v1", **more)


def test_secrets_and_addresses_are_those_of_endpoints(clock: Clock) -> None:
    said = manifest("http://10.0.0.1/v1", headers={"Authorization": "Bearer {{secret:KEY}}"})
    with pytest.raises(TargetError, match=r"10\.0\.0\.1"):
        EndpointClassifier(said, settings())
    told = manifest("https://models.example.com/v1", headers={"Authorization": "Bearer {{secret:KEY}}"})
    with pytest.raises(TargetError, match="there is no secret KEY"):
        EndpointClassifier(told, settings())


def test_pairs_are_asked_about(language: Callable[..., EndpointClassifier], server: Scripted) -> None:
    task, template = "text-pair-classification", "{{premise}} and {{hypothesis}}"
    classifier = language(task=task, template=template)
    (found,) = classifier.logits([("a film", "is good")])
    last = log_probabilities("a film and is good")[-1].exp()
    wanted = [math.log(sum(float(last[WORDS.index(word)]) for word in words)) for words in LABELS.values()]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))
