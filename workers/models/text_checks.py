"""What only running a text model can show at upload; the counterpart of ``checks`` for images."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from seatrial.contracts.endpoints import ServedArchitecture
from seatrial.contracts.estimates import Flag
from seatrial.contracts.generative import GenerativeArchitecture
from seatrial.contracts.model_facts import ModelFacts
from seatrial.contracts.models import MULTI_LABEL, TAGGING, ModelManifest, Task
from workers.data import Text
from workers.errors import TargetError, WorkError, log_fault
from workers.models import Answer, TextClassifier, UnansweredError
from workers.models.endpoint import EndpointClassifier, NoScoresError
from workers.models.endpoint_scores import MisfitError
from workers.models.generative import GenerativeExchange, temperature_flags
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.hf_tokens import HuggingFaceTokenClassifier
from workers.models.memory import is_out_of_memory
from workers.models.repeating import repeat_flags
from workers.models.timing import shortest
from workers.models.validating import (
    TargetReport,
    Wording,
    check_logits,
    device_name,
    probability_flags,
)

MODULE = Wording(
    thing="text",
    probes="made-up sentences",
    weights="the weights",
    input="the tokenizer",
    guessing="the tokenizer, the weights",
    claim="Tokenizer, maximum length",
)
ENDPOINT = Wording(
    thing="text",
    probes="made-up sentences",
    weights="the path to the scores",
    input="the request template and the path to the scores",
    guessing="the request template, the path to the scores",
    claim="Request template, path to the scores",
    blamed="/manifest/architecture",
)
LANGUAGE_MODEL = Wording(
    thing="text",
    probes="made-up sentences",
    weights="what the server lists",
    input="the template and the labels' words",
    guessing="the template, the labels' words",
    claim="Template, the labels' words",
    blamed="/manifest/architecture",
)
PROBES = [
    "A warm and funny film that I would gladly see again.",
    "The plot makes no sense at all, and the acting is worse.",
    "Yes.",
    "She took the early train to the coast, and nobody asked her why she had come back after all these years.",
    "How much does it cost?",
    "the council will vote on the new budget next week",
    "Terrible service!!! We waited for an hour; then they forgot our order :(",
    "In 1969 two people walked on the moon while a third one waited in orbit around it.",
]
REPEATED = 2
"""Texts that are asked for twice: enough to see a model that draws random numbers, and few where each is paid for."""
TIMED_TOKENS = 32
"""Padded length of the texts a model is timed on: a sentence or two."""
WARMER = 2.0
"""Temperature at which a language model is asked once more, to see what its log probabilities are of."""
PAIRS: Task = "text-pair-classification"


def check_text_target(classifier: TextClassifier, manifest: ModelManifest) -> TargetReport:
    """Run the model on made-up texts and return what was measured; an endpoint is sent ten of them.

    Raises:
        TargetError: The outputs are not one finite logit per label and text, or per tag and token, or do not depend on
            it; the worker's memory does not suffice; or an endpoint does not answer in the time a check has.
    """
    is_endpoint = isinstance(manifest.architecture, ServedArchitecture)
    words = wording_of(manifest)
    probes = [_of_form(probe, manifest.task) for probe in PROBES]
    with _failing(), classifier.checked() if isinstance(classifier, EndpointClassifier) else nullcontext():
        started = time.perf_counter()
        first = _rows(classifier.logits(probes), manifest.task)
        seconds, tokens, longest, kept = (time.perf_counter() - started) / len(probes), None, None, None
        check_logits(first, classifier.classes, len(first) if manifest.task == TAGGING else len(probes), words)
        second = _rows(classifier.logits(probes[:REPEATED]), manifest.task)
        if isinstance(classifier, (HuggingFaceTextClassifier, HuggingFaceTokenClassifier)):
            text, tokens = _of_timed_length(manifest.task, classifier.padded_length)
            longest = classifier.longest
            batch = [text] * classifier.preferred_texts
            seconds = shortest(lambda: classifier.logits(batch), classifier.device) / len(batch)
        kept = (
            classifier.training_bytes(tokens) if isinstance(classifier, HuggingFaceTextClassifier) and tokens else None
        )
        found = generative_flags(classifier, probes[0]) if isinstance(classifier, EndpointClassifier) else []
    facts = ModelFacts(
        parameters=getattr(classifier, "parameters", 0),
        classes=classifier.classes,
        device="endpoint" if is_endpoint else device_name(classifier.device),
        forward_s=seconds,
        tokens=tokens,
        longest=longest,
        training_bytes=kept,
    )
    doubts = probability_flags(first, several=manifest.task == MULTI_LABEL)
    return TargetReport(facts, [*repeat_flags(first[: len(second)], second), *doubts, *found])


def generative_flags(classifier: EndpointClassifier, probe: Text) -> list[Flag]:
    """Return what two temperatures, and two answers at temperature 0, show of a language model.

    Raises:
        TargetError: It does not answer, or not by the protocol.
    """
    exchange = classifier.exchange
    if not isinstance(exchange, GenerativeExchange):
        return []
    flags = exchange.flags()

    def ask(temperature: float) -> bytes:
        return classifier.ask_once(exchange.body([probe], temperature=temperature))

    try:
        if exchange.lists_tokens:
            plain, warmer = exchange.distribution(ask(1.0)), exchange.distribution(ask(WARMER))
            flags += temperature_flags(plain, warmer, WARMER)
        first, second = (exchange.written(ask(0.0)) for _ in range(2))
    except MisfitError as error:
        raise TargetError("endpoint-answer", "The endpoint cannot be used", error.reason, field=error.field) from error
    if first != second:
        flags.append(
            Flag(
                code="non_deterministic",
                severity="warning",
                message=f"Asked the same twice at temperature 0, the server wrote {first[:40]!r} and then "
                f"{second[:40]!r}: it draws random numbers, or remembers. Read every rate as one draw.",
            )
        )
    return flags


def wording_of(manifest: ModelManifest) -> Wording:
    """Return how the model's input is called, and what is to blame when it does not work."""
    words = ENDPOINT if isinstance(manifest.architecture, ServedArchitecture) else MODULE
    if isinstance(manifest.architecture, GenerativeArchitecture):
        words = LANGUAGE_MODEL
    return replace(words, thing="token") if manifest.task == TAGGING else words


def _rows(answers: Sequence[Answer], task: Task) -> Tensor:
    """Return logits (texts, classes), or of all tokens that have a tag (tokens, tags)."""
    rows = []
    for answer in answers:
        if isinstance(answer, NoScoresError):
            raise TargetError(answer.code, "The endpoint cannot be used", answer.detail, field=answer.field)
        if isinstance(answer, UnansweredError):
            raise TargetError(
                "text-unanswered", "The model does not answer", str(answer), field="/manifest/architecture"
            )
        rows.append(answer)
    if task != TAGGING:
        return torch.stack(rows)
    tokens = torch.cat(rows)
    untagged = torch.isnan(tokens).all(1)
    return tokens if bool(untagged.all()) else tokens[~untagged]


@contextmanager
def _failing() -> Iterator[None]:
    """Turn whatever a module raises inside into a ``TargetError``."""
    try:
        yield
    except WorkError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise TargetError(
                "out-of-memory",
                "The worker has too little memory for the model",
                "a few sentences at a time do not fit: the model needs a worker with more memory",
                field="/file",
            ) from error
        # A module raises whatever its configuration leads it to: IndexError, ValueError, AttributeError, ...
        raise TargetError(
            "forward-failed",
            "The model does not take texts",
            f"made-up sentences fail ({log_fault(error)})",
            field="/file",
        ) from error


def _of_timed_length(task: Task, length: Callable[[Text], int]) -> tuple[Text, int]:
    """Return the longest text of a task that is padded to ``TIMED_TOKENS`` at most, and its padded length."""
    text = _of_form(_sentence(1), task)
    for words in range(2, TIMED_TOKENS):
        longer = _of_form(_sentence(words), task)
        if length(longer) > TIMED_TOKENS:
            break
        text = longer
    return text, length(text)


def _sentence(words: int) -> str:
    pool = " ".join(PROBES).split()
    return " ".join(pool[number % len(pool)] for number in range(words))


def _of_form(sentence: str, task: Task) -> Text:
    words = sentence.split()
    if task == TAGGING:
        return tuple(words)
    if task == PAIRS:
        return " ".join(words[: -(-len(words) // 2)]), " ".join(words[-(-len(words) // 2) :])
    return sentence
