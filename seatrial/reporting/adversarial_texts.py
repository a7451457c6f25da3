"""Texts beside what attacks made of them, as the families that change texts keep them in ``series["examples"]``.

:func:`comparisons` reads those of attacks that search, by recipe and arm; :func:`noisy_comparisons` those of noise, by
attacker and level, whose texts may have a class, several labels, or a tag for each token.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.estimates import Result
from seatrial.contracts.models import TAGGING
from seatrial.reporting.schemas import Comparison, ComparisonRow, Outcome
from seatrial.reporting.words import enumerate_words, words

_TELLING: tuple[tuple[Outcome, Outcome], ...] = (("held", "flipped"), ("flipped", "held"), ("flipped", "flipped"))
"""What became of a text as served and in some other way, the most telling first: held only as served."""


def comparisons(result: Result, labels: list[str] | None) -> list[Comparison]:
    """Return the examples of a result, those first that held as served and fell otherwise.

    Args:
        result: ``series["examples"]`` has dicts with ``example_id``, ``label``, ``recipe``, ``original`` (the text's
            parts), ``prediction`` and ``arms``: by arm ``text``, ``status``, ``prediction``, ``confidence``.
        labels: Class names.
    """
    examples = result.series.get("examples") or []
    return sorted((_comparison(example, labels) for example in examples), key=_rank)


def _comparison(example: Mapping[str, Any], labels: list[str] | None) -> Comparison:
    original = [str(part) for part in example["original"]]
    label, said = example["label"], example.get("prediction")
    recipe = f", {words(str(example['recipe']))}" if example.get("recipe") else ""
    unattacked = "" if said is None else f"; unattacked, the model says {class_name(said, labels)}"
    return Comparison(
        title=f"Example {example['example_id']}{recipe}",
        note=f"Its label is {class_name(label, labels)}{unattacked}.",
        parts=["premise", "hypothesis"] if len(original) == 2 else [],
        before=original,
        rows=[_row(words(name), arm, label, said, labels) for name, arm in example["arms"].items()],
    )


def _row(name: str, arm: Mapping[str, Any], label: int, said: int | None, labels: list[str] | None) -> ComparisonRow:
    predicted = arm.get("prediction")
    return ComparisonRow(
        name=name,
        after=[str(part) for part in arm.get("text") or []],
        outcome=_outcome(str(arm.get("status")), predicted, label, said),
        prediction=None if predicted is None else class_name(predicted, labels),
        confidence=arm.get("confidence"),
    )


def _outcome(status: str, predicted: int | None, label: int, said: int | None) -> Outcome:
    """Return what the unmodified model made of it, whatever the attack believed on its own scores."""
    if status == "skipped" or (said is not None and said != label):
        return "skipped"
    if predicted is None or status not in ("succeeded", "failed"):
        return "errored"
    return "held" if predicted == label else "flipped"


def _rank(comparison: Comparison) -> int:
    served, *others = [row.outcome for row in comparison.rows] or ["errored"]
    ranks = [n for n, (first, other) in enumerate(_TELLING) if served == first and other in others]
    return min(ranks, default=len(_TELLING))


def noisy_comparisons(result: Result, labels: list[str] | None) -> list[Comparison]:
    """Return the examples of a result, in its order.

    Args:
        result: ``series["examples"]`` has dicts with ``example_id``, ``label``, ``original`` (the text's parts),
            ``prediction``, ``truths`` and ``attacks``: each an ``attacker`` and a ``level`` with ``text``,
            ``prediction``, ``confidence``, and of ``decisions`` how many are ``correct``. Where there is no one class,
            ``label`` and ``prediction`` are None, and ``correct`` of the example is what was right without noise.
        labels: Names of classes, labels or tags.
    """
    task = str(result.series.get("task", ""))
    return [_noisy(example, task, labels) for example in result.series.get("examples") or []]


def _noisy(example: Mapping[str, Any], task: str, labels: list[str] | None) -> Comparison:
    original = [str(part) for part in example["original"]]
    return Comparison(
        title=f"Example {example['example_id']}",
        note=_told_without_noise(example, task, labels),
        parts=["premise", "hypothesis"] if len(original) == 2 else [],
        before=original,
        rows=[_noisy_row(attack, example, labels) for attack in example["attacks"]],
    )


def _told_without_noise(example: Mapping[str, Any], task: str, labels: list[str] | None) -> str:
    if example.get("label") is not None:
        said = example.get("prediction")
        without = "" if said is None else f"; without noise the model says {class_name(said, labels)}"
        return f"Its label is {class_name(example['label'], labels)}{without}."
    truths, right = example.get("truths") or [], example.get("correct")
    if task == TAGGING:
        without = "" if right is None else f"; without noise the model tags {right} rightly"
        return f"{len(truths)} tokens{without}."
    named = enumerate_words([class_name(number, labels) for number, truth in enumerate(truths) if truth]) or "none"
    without = "" if right is None else f"; without noise the model is right about {right} of {len(truths)}"
    return f"Its labels: {named}{without}."


def _noisy_row(attack: Mapping[str, Any], example: Mapping[str, Any], labels: list[str] | None) -> ComparisonRow:
    predicted, right, of = attack.get("prediction"), attack.get("correct"), attack.get("decisions")
    has_class = example.get("label") is not None
    told = class_name(predicted, labels) if has_class and predicted is not None else None
    return ComparisonRow(
        name=f"{words(str(attack['attacker']))}, level {float(attack['level']):g}",
        after=[str(part) for part in attack.get("text") or []],
        outcome=_outcome_under_noise(attack, example),
        prediction=told if has_class or right is None else f"{right} of {of} right",
        confidence=attack.get("confidence"),
    )


def _outcome_under_noise(attack: Mapping[str, Any], example: Mapping[str, Any]) -> Outcome:
    """Return what became of a class; of labels or tags, whether fewer are right than without noise."""
    label, predicted, right = example.get("label"), attack.get("prediction"), attack.get("correct")
    if label is not None:
        return _outcome("failed", predicted, label, example.get("prediction"))
    if right is None:
        return "errored"
    before = example.get("correct", attack.get("decisions"))
    return "held" if before is None or right >= before else "flipped"


def class_name(number: int, labels: list[str] | None) -> str:
    """Return what a class is called.

    >>> class_name(1, ["negative", "positive"]), class_name(1, None)
    ('positive', 'class 1')
    """
    return labels[number] if labels is not None and 0 <= number < len(labels) else f"class {number}"
