"""What only running a text model on the data can show, before an audit; the counterpart of ``checks`` for images."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.estimates import Flag
from seatrial.contracts.models import MULTI_LABEL, TAGGING, ModelManifest
from workers.data import TaggedDataset, Text, TextDataset
from workers.data.texts import of_classes
from workers.errors import PreflightError
from workers.models import Answer, TextClassifier, UnansweredError
from workers.models.generative import GenerativeExchange
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.hf_tokens import HuggingFaceTokenClassifier
from workers.models.repeating import repeat_flags
from workers.models.repeats import repeated_examples
from workers.models.text_checks import PAIRS, REPEATED, wording_of
from workers.models.text_validating import DOUBTFUL_SHARE, Truths, is_finite, rows_of, validate_answers
from workers.models.validating import (
    PreflightReport,
    check_constant,
    check_labels,
    name_flags,
    probability_flags,
)

MOST_UNKNOWN = 0.5
"""Share of unknown tokens above which the tokenizer cannot be the one for these texts."""
DOUBTFUL_UNKNOWN = 0.1
"""Share of unknown tokens from which on it is worth saying."""

DOUBTFUL_CHANGED = 0.01
"""Share of decisions that differ between precisions from which on it is a warning."""

COMPARED = 256
"""Texts whose decisions in bfloat16 are compared with those in float32."""

Ask = Callable[[Sequence[Text]], Sequence[Answer]]


def preflight_texts(
    classifier: TextClassifier,
    dataset: TextDataset,
    positions: Sequence[int] | NDArray[np.int64],
    *,
    manifest: ModelManifest,
    batch_size: int = 64,
    check_cancelled: Callable[[], None] = lambda: None,
    ask: Ask | None = None,
) -> PreflightReport:
    """Run the sample through the model once, its first texts twice, and refuse what cannot be audited.

    Args:
        classifier: The model under audit.
        dataset: Texts with one class each, or with several labels where the model gives several.
        positions: The sample.
        manifest: The model's, for its task and the accuracy its owner states. Of multi-label texts that is the share
            whose every label is right, as scikit-learn's ``accuracy_score`` has it.
        batch_size: Texts asked for at once, at least; more where the model prefers that.
        check_cancelled: Called before every batch; may raise to cancel.
        ask: Answers the sample in the model's place and may remember it, so that an attack need not ask again.

    Raises:
        PreflightError: Texts, label numbers or label order do not fit the model; its tokenizer does not know the
            texts; nothing is answered; outputs are not finite or do not depend on the text; accuracy is at chance.
        DataError: A text cannot be read.
    """
    chosen = _chosen(positions)
    labels = dataset.labels
    _check_several(labels, manifest)
    # Of every text: those beyond the sample may be attacked, or set apart for validation.
    if labels.ndim == 1:
        check_labels(labels, dataset.label_names, classifier.labels)
        truths = labels[chosen, None]
    else:
        check_labels(np.flatnonzero(labels.any(axis=0)), dataset.label_names, classifier.labels)
        truths = of_classes(labels[chosen], classifier.classes)
    flags = name_flags(dataset.label_names, classifier.labels)
    if labels.ndim == 2:
        flags += _unnamed_flags(dataset.label_names, classifier.labels)
    texts = dataset.texts(chosen)
    _check_form(texts[0], manifest)
    flags += repeated_examples(len(set(texts)), len(texts), "text")
    known = [tuple(row) for row in truths.tolist()]
    return _run(classifier, texts, known, flags, manifest, batch_size, check_cancelled, ask or classifier.logits)


def preflight_tags(
    classifier: TextClassifier,
    dataset: TaggedDataset,
    positions: Sequence[int] | NDArray[np.int64],
    *,
    manifest: ModelManifest,
    batch_size: int = 64,
    check_cancelled: Callable[[], None] = lambda: None,
    ask: Ask | None = None,
) -> PreflightReport:
    """Run a sample of tagged sentences through a tagger, as :func:`preflight_texts` does with texts.

    The accuracy its owner states is token accuracy. Arguments and errors are those of texts; what is compared with
    guessing is token accuracy, with giving every token the most frequent tag.
    """
    chosen = _chosen(positions)
    check_labels(dataset.tags, dataset.label_names, classifier.labels)
    flags = name_flags(dataset.label_names, classifier.labels)
    sentences = [dataset.sentence(position) for position in chosen]
    texts: list[Text] = [tuple(tokens) for tokens, _ in sentences]
    flags += repeated_examples(len(set(texts)), len(texts), "sentence")
    truths = [tuple(tags) for _, tags in sentences]
    return _run(classifier, texts, truths, flags, manifest, batch_size, check_cancelled, ask or classifier.logits)


def _run(
    classifier: TextClassifier,
    texts: list[Text],
    truths: Truths,
    flags: list[Flag],
    manifest: ModelManifest,
    batch_size: int,
    check_cancelled: Callable[[], None],
    ask: Ask,
) -> PreflightReport:
    words = wording_of(manifest)
    flags = flags + _reading_flags(classifier, texts, "sentences" if manifest.task == TAGGING else "texts")
    answers: list[Answer] = []
    size = max(batch_size, classifier.preferred_texts)
    for start in range(0, len(texts), size):
        check_cancelled()
        answers += ask(texts[start : start + size])
    check_cancelled()
    flags += _repeated_flags(answers, classifier.logits(texts[:REPEATED]))
    flags += _unanswered_flags(answers)
    exchange = getattr(classifier, "exchange", None)
    flags += exchange.flags() if isinstance(exchange, GenerativeExchange) else []
    flags += _precision_flags(classifier, texts, answers, manifest)
    answered = [number for number, answer in enumerate(answers) if isinstance(answer, Tensor)]
    if not any(is_finite(answer) for answer in answers):
        raise PreflightError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            f"on every one of {len(answered)} texts: training has diverged, or the weights are damaged",
            field="/model",
        )
    finite = [rows_of(answer) for answer in answers if isinstance(answer, Tensor) and is_finite(answer)]
    flags += probability_flags(torch.cat(finite), several=manifest.task == MULTI_LABEL)
    rows = torch.cat([rows_of(answer) for answer in answers if isinstance(answer, Tensor)])
    inputs = {part for number in answered for part in ([texts[number]] if manifest.task != TAGGING else texts[number])}
    check_constant(len(rows), has_inputs=len(inputs) > 1, has_outputs=not bool((rows == rows[:1]).all()), words=words)
    report = validate_answers(
        answers, truths, classifier.labels, task=manifest.task, stated=manifest.clean_accuracy, words=words
    )
    return PreflightReport(report.predictions, report.clean_accuracy, flags + report.flags, report.several)


def _chosen(positions: Sequence[int] | NDArray[np.int64]) -> list[int]:
    if not len(positions):
        raise PreflightError(
            "empty-sample", "There is nothing to audit", "the sample has no examples", field="/dataset"
        )
    return [int(position) for position in positions]


def _check_several(labels: NDArray[np.int64], manifest: ModelManifest) -> None:
    if manifest.task == MULTI_LABEL:
        if labels.ndim == 1:
            raise PreflightError(
                "task-mismatch",
                "Model and dataset are for different tasks",
                f"the dataset's texts have one class each, the model does {manifest.task}",
                field="/dataset",
            )
    elif labels.ndim != 1:
        raise PreflightError(
            "several-labels",
            "The texts have several labels each",
            "this audit takes texts with exactly one class each",
            field="/dataset",
        )


def _check_form(text: Text, manifest: ModelManifest) -> None:
    is_pair = not isinstance(text, str)
    if is_pair != (manifest.task == PAIRS):
        raise PreflightError(
            "task-mismatch",
            "Model and dataset are for different tasks",
            f"the dataset holds {'pairs of texts' if is_pair else 'single texts'}, the model does {manifest.task}",
            field="/dataset",
        )


def _unnamed_flags(names: list[str] | None, labels: Sequence[str]) -> list[Flag]:
    """Doubt a dataset that names fewer labels than the model gives: to the audit, no text has the others."""
    missing = labels[len(names) :] if names is not None else []
    if not missing:
        return []
    called = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    return [
        Flag(
            code="labels_not_annotated",
            severity="warning",
            message=f"The dataset names {len(names or [])} labels, the model gives {len(labels)}: {called} count as "
            "absent from every text. They have no AUROC; wherever decisions are counted, giving one is a mistake.",
        )
    ]


def _reading_flags(classifier: TextClassifier, texts: Sequence[Text], called: str) -> list[Flag]:
    """Doubt, or refuse, a tokenizer that does not know the texts or cuts them off."""
    if not isinstance(classifier, (HuggingFaceTextClassifier, HuggingFaceTokenClassifier)):
        return []
    readings = classifier.read(texts)
    pieces = sum(reading.pieces for reading in readings)
    fraction = sum(reading.unknown for reading in readings) / max(1, pieces)
    if fraction > MOST_UNKNOWN:
        raise PreflightError(
            "tokenizer-mismatch",
            "The model's tokenizer does not know these texts",
            f"{fraction:.0%} of {pieces} tokens are the token for the unknown: the folder holds another model's "
            "tokenizer, or the texts are in a language it was not made for",
            field="/model",
        )
    flags = []
    if fraction >= DOUBTFUL_UNKNOWN:
        flags.append(
            Flag(
                code="unknown_tokens",
                severity="warning",
                message=f"{fraction:.0%} of {pieces} tokens are unknown to the model's tokenizer: it sees no "
                "difference between them, so attacks that write unknown words change little. Check that the tokenizer "
                "is the one the model was trained with.",
            )
        )
    cut = sum(reading.is_truncated for reading in readings)
    if cut:
        flags.append(
            Flag(
                code="texts_truncated",
                severity="warning" if cut / len(readings) >= DOUBTFUL_SHARE else "info",
                message=f"{cut} of {len(readings)} {called} ({cut / len(readings):.1%}) are longer than the "
                f"{classifier.longest} tokens the model takes, so it does not see their ends. Searches do not edit "
                "what it does not see, and noise there changes nothing.",
            )
        )
    return flags


def _repeated_flags(answers: Sequence[Answer], again: Sequence[Answer]) -> list[Flag]:
    pairs = [
        (rows_of(first), rows_of(second))
        for first, second in zip(answers, again, strict=False)
        if isinstance(first, Tensor) and isinstance(second, Tensor) and is_finite(first)
    ]
    # A random model may tag other tokens the second time; those it tags both times tell.
    alike = [(first, second) for first, second in pairs if first.shape == second.shape and first.numel()]
    if not alike:
        return []
    return repeat_flags(torch.cat([first for first, _ in alike]), torch.cat([second for _, second in alike]))


def _precision_flags(
    classifier: TextClassifier, texts: Sequence[Text], answers: Sequence[Answer], manifest: ModelManifest
) -> list[Flag]:
    """Say how many decisions of a model in bfloat16 are other ones in float32, on the first texts of the sample."""
    if not isinstance(classifier, (HuggingFaceTextClassifier, HuggingFaceTokenClassifier)):
        return []
    if not classifier.in_bfloat16:
        return []
    asked = texts[:COMPARED]
    with classifier.in_float32():
        others = classifier.logits(asked)
    several = manifest.task == MULTI_LABEL
    changed = decided = 0
    for answer, other in zip(answers, others, strict=False):
        if isinstance(answer, Tensor) and isinstance(other, Tensor):
            ours, theirs = rows_of(answer), rows_of(other)
            differ = ((ours > 0) != (theirs > 0)).any(1) if several else ours.argmax(1) != theirs.argmax(1)
            changed, decided = changed + int(differ.sum()), decided + len(differ)
    share = changed / max(1, decided)
    things = "tokens" if manifest.task == TAGGING else "texts"
    return [
        Flag(
            code="computed_in_bfloat16",
            severity="warning" if share >= DOUBTFUL_CHANGED else "info",
            message=f"{changed} of {decided} {things} ({share:.1%}) are decided differently in bfloat16, which the "
            "manifest asks for, than in float32: all numbers are about the model in bfloat16.",
        )
    ]


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
