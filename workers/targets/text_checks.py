"""What only running a text model can show: at upload, and before an audit; the counterpart of ``checks`` for images."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.contracts.endpoints import EndpointArchitecture
from app.contracts.estimates import Flag
from app.contracts.targets import ModelFacts, ModelManifest
from workers.data import TextDataset
from workers.errors import PreflightError, TargetError, WorkError
from workers.targets import Text, TextClassifier, TokenClassifier, UnansweredError
from workers.targets.endpoint import NoScoresError
from workers.targets.hf_text import HuggingFaceTextClassifier
from workers.targets.hf_tokens import HuggingFaceTokenClassifier
from workers.targets.judging import (
    ERRORED,
    PreflightReport,
    TargetReport,
    Wording,
    chance_flags,
    check_constant,
    check_labels,
    check_logits,
    claim_flags,
    clean_accuracy,
    constant_flags,
    device_name,
    is_out_of_memory,
    name_flags,
    probability_flags,
    repeat_flags,
)
from workers.targets.timing import shortest

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
MOST_UNKNOWN = 0.5
"""Share of unknown tokens above which the tokenizer cannot be the one for these texts."""
DOUBTFUL_UNKNOWN = 0.1
"""Share of unknown tokens from which on it is worth saying."""

T = TypeVar("T")
Answer: TypeAlias = Tensor | UnansweredError


def check_text_target(classifier: TextClassifier, manifest: ModelManifest) -> TargetReport:
    """Run the model on made-up texts and return what was measured; an endpoint is sent ten of them.

    Raises:
        TargetError: The outputs are not one finite logit per label and text, or do not depend on the text; the worker's
            memory does not suffice; or an endpoint does not answer.
    """
    is_pair = manifest.task == "text-pair-classification"
    is_endpoint = isinstance(manifest.architecture, EndpointArchitecture)
    probes = [_text(probe, is_pair) for probe in PROBES]
    with _failing():
        started = time.perf_counter()
        first = _stacked(classifier.logits(probes))
        seconds, tokens = (time.perf_counter() - started) / len(probes), None
        check_logits(first, classifier.classes, len(probes), ENDPOINT if is_endpoint else MODULE)
        second = _stacked(classifier.logits(probes[:REPEATED]))
        if isinstance(classifier, HuggingFaceTextClassifier):
            text, tokens = _of_timed_length(lambda words: _text(_sentence(words), is_pair), classifier.padded_length)
            batch = [text] * classifier.preferred_texts
            seconds = shortest(lambda: classifier.logits(batch), classifier.device) / len(batch)
    facts = ModelFacts(
        parameters=getattr(classifier, "parameters", 0),
        classes=classifier.classes,
        device="endpoint" if is_endpoint else device_name(classifier.device),
        forward_s=seconds,
        tokens=tokens,
    )
    return TargetReport(facts, [*repeat_flags(first[:REPEATED], second), *probability_flags(first)])


def check_token_target(classifier: TokenClassifier, manifest: ModelManifest) -> TargetReport:
    """Run a tagger on made-up sentences and return what was measured.

    Raises:
        TargetError: The outputs are not one finite logit per tag and token, or do not depend on the token; or the
            worker's memory does not suffice.
    """
    sentences = [probe.split() for probe in PROBES]
    device = getattr(classifier, "device", torch.device("cpu"))
    with _failing():
        first, second = torch.cat(classifier.logits(sentences)), torch.cat(classifier.logits(sentences[:REPEATED]))
        check_logits(first, len(classifier.labels), sum(map(len, sentences)), MODULE)
        timed, tokens = sentences, None
        if isinstance(classifier, HuggingFaceTokenClassifier):
            sentence, tokens = _of_timed_length(lambda words: _sentence(words).split(), classifier.padded_length)
            timed = [sentence] * classifier.preferred_sentences
        seconds = shortest(lambda: classifier.logits(timed), device) / len(timed)
    facts = ModelFacts(
        parameters=getattr(classifier, "parameters", 0),
        classes=len(classifier.labels),
        device=device_name(device),
        forward_s=seconds,
        tokens=tokens,
    )
    return TargetReport(facts, [*repeat_flags(first[: len(second)], second), *probability_flags(first)])


def preflight_texts(
    classifier: TextClassifier,
    dataset: TextDataset,
    positions: Sequence[int] | NDArray[np.int64],
    *,
    manifest: ModelManifest,
    batch_size: int = 64,
    tick: Callable[[], None] = lambda: None,
    ask: Callable[[Sequence[Text]], Sequence[Answer]] | None = None,
) -> PreflightReport:
    """Run the sample through the model once, its first texts twice, and refuse what cannot be audited.

    Args:
        classifier: The model under audit.
        dataset: Texts with one class each.
        positions: The sample.
        manifest: The model's, for the accuracy its owner states.
        batch_size: Texts asked for at once, at least; more where the model prefers that.
        tick: Called before every batch; may raise to cancel.
        ask: Answers the sample in the model's place and may remember it, so that an attack need not ask again.

    Raises:
        PreflightError: Texts, label numbers or label order do not fit the model; its tokenizer does not know the
            texts; nothing is answered; outputs are not finite or do not depend on the text; accuracy is at chance.
        DataError: A text cannot be read.
    """
    chosen = [int(position) for position in positions]
    labels = _labels(dataset, chosen)
    # Of every text: those beyond the sample may be attacked, or set apart for validation.
    check_labels(dataset.labels, dataset.label_names, classifier.labels)
    flags = name_flags(dataset.label_names, classifier.labels)
    texts = dataset.texts(chosen)
    _check_form(texts[0], manifest)
    flags += _reading_flags(classifier, texts)
    answers: list[Answer] = []
    size = max(batch_size, classifier.preferred_texts)
    for start in range(0, len(texts), size):
        tick()
        answers += (ask or classifier.logits)(texts[start : start + size])
    tick()
    flags += _repeated_flags(answers, classifier.logits(texts[:REPEATED]))
    answered = [number for number, answer in enumerate(answers) if isinstance(answer, Tensor)]
    flags += _unanswered_flags(answers)
    logits = torch.stack([answer for answer in answers if isinstance(answer, Tensor)])
    finite = torch.isfinite(logits).all(1)
    if not bool(finite.any()):
        raise PreflightError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            f"on every one of {len(logits)} texts: training has diverged, or the weights are damaged",
            field="/model",
        )
    words = ENDPOINT if isinstance(manifest.architecture, EndpointArchitecture) else MODULE
    flags += probability_flags(logits[finite])
    predictions = np.full(len(chosen), ERRORED, dtype=np.int64)
    predictions[answered] = logits.argmax(1).where(finite, ERRORED).numpy()
    check_constant(
        len(answered),
        has_inputs=len({texts[number] for number in answered}) > 1,
        has_outputs=not bool((logits == logits[:1]).all()),
        words=words,
    )
    flags += constant_flags(predictions, labels, words)
    accuracy = clean_accuracy(predictions, labels)
    # Whether the model guesses is asked of what it answers: an endpoint that is down guesses nothing.
    flags += chance_flags(int((predictions == labels).sum()), len(answered), classifier.classes, words)
    flags += claim_flags(accuracy, manifest.clean_accuracy, words)
    return PreflightReport(predictions, accuracy, flags)


def _labels(dataset: TextDataset, chosen: list[int]) -> NDArray[np.int64]:
    if not chosen:
        raise PreflightError(
            "empty-sample", "There is nothing to audit", "the sample has no examples", field="/dataset"
        )
    labels: NDArray[np.int64] = dataset.labels[np.asarray(chosen)]
    if labels.ndim != 1:
        raise PreflightError(
            "several-labels",
            "The texts have several labels each",
            "this audit takes texts with exactly one class each",
            field="/dataset",
        )
    return labels


def _check_form(text: Text, manifest: ModelManifest) -> None:
    is_pair = not isinstance(text, str)
    if is_pair != (manifest.task == "text-pair-classification"):
        raise PreflightError(
            "task-mismatch",
            "Model and dataset are for different tasks",
            f"the dataset holds {'pairs of texts' if is_pair else 'single texts'}, the model does {manifest.task}",
            field="/dataset",
        )


def _reading_flags(classifier: TextClassifier, texts: Sequence[Text]) -> list[Flag]:
    """Doubt, or refuse, a tokenizer that does not know the texts or cuts them off."""
    if not isinstance(classifier, HuggingFaceTextClassifier):
        return []
    readings = classifier.read(texts)
    pieces = sum(reading.pieces for reading in readings)
    share = sum(reading.unknown for reading in readings) / max(1, pieces)
    if share > MOST_UNKNOWN:
        raise PreflightError(
            "tokenizer-mismatch",
            "The model's tokenizer does not know these texts",
            f"{share:.0%} of {pieces} tokens are the token for the unknown: the folder holds another model's "
            "tokenizer, or the texts are in a language it was not made for",
            field="/model",
        )
    flags = []
    if share >= DOUBTFUL_UNKNOWN:
        flags.append(
            Flag(
                code="unknown_tokens",
                severity="warning",
                message=f"{share:.0%} of {pieces} tokens are unknown to the model's tokenizer: it sees no difference "
                "between them, so attacks that write unknown words change little. Check that the tokenizer is the one "
                "the model was trained with.",
            )
        )
    cut = sum(reading.is_truncated for reading in readings)
    if cut:
        flags.append(
            Flag(
                code="texts_truncated",
                severity="warning" if cut / len(readings) >= 0.05 else "info",
                message=f"{cut} of {len(readings)} texts ({cut / len(readings):.1%}) are longer than the "
                f"{classifier.longest} tokens the model takes: it does not see their end, and words changed there "
                "change nothing.",
            )
        )
    return flags


def _repeated_flags(answers: Sequence[Answer], again: Sequence[Answer]) -> list[Flag]:
    pairs = [
        (first, second)
        for first, second in zip(answers, again, strict=False)
        if isinstance(first, Tensor) and isinstance(second, Tensor) and bool(torch.isfinite(first).all())
    ]
    if not pairs:
        return []
    return repeat_flags(torch.stack([first for first, _ in pairs]), torch.stack([second for _, second in pairs]))


def _unanswered_flags(answers: Sequence[Answer]) -> list[Flag]:
    errors = [answer for answer in answers if isinstance(answer, UnansweredError)]
    if not errors:
        return []
    if len(errors) == len(answers):
        raise PreflightError(
            "texts-unanswered",
            "The model answers none of the texts",
            f"none of {len(answers)} texts has scores: {errors[0]}",
            field="/model",
        )
    return [
        Flag(
            code="unanswered_texts",
            severity="warning",
            message=f"{len(errors)} of {len(answers)} texts have no scores, the first because: {errors[0]}. They are "
            "wrong here and errored where they are attacked, never robust.",
        )
    ]


def _stacked(answers: Sequence[Answer]) -> Tensor:
    rows = []
    for answer in answers:
        if isinstance(answer, NoScoresError):
            raise TargetError(answer.code, "The endpoint cannot be used", answer.detail, field=answer.field)
        if isinstance(answer, UnansweredError):
            raise TargetError(
                "text-unanswered", "The model does not answer", str(answer), field="/manifest/architecture"
            )
        rows.append(answer)
    return torch.stack(rows)


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
            f"made-up sentences fail: {type(error).__name__}: {str(error)[:300]}",
            field="/file",
        ) from error


def _of_timed_length(make: Callable[[int], T], length: Callable[[T], int]) -> tuple[T, int]:
    """Return the longest text of so many words that is padded to ``TIMED_TOKENS`` at most, and its padded length."""
    text = make(1)
    for words in range(2, TIMED_TOKENS):
        longer = make(words)
        if length(longer) > TIMED_TOKENS:
            break
        text = longer
    return text, length(text)


def _sentence(words: int) -> str:
    pool = " ".join(PROBES).split()
    return " ".join(pool[number % len(pool)] for number in range(words))


def _text(sentence: str, is_pair: bool) -> Text:
    if not is_pair:
        return sentence
    words = sentence.split()
    return " ".join(words[: -(-len(words) // 2)]), " ".join(words[-(-len(words) // 2) :])
