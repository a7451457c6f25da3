"""Texts beside what attacks made of them, as the families that change texts keep them in ``series["examples"]``."""

from collections.abc import Mapping
from typing import Any

from app.contracts.estimates import Result
from app.reports.schemas import Comparison, ComparisonRow, Outcome
from app.reports.words import words

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
    unattacked = "" if said is None else f"; the model says {class_name(said, labels)} unattacked"
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


def class_name(number: int, labels: list[str] | None) -> str:
    """Return what a class is called.

    >>> class_name(1, ["negative", "positive"]), class_name(1, None)
    ('positive', 'class 1')
    """
    return labels[number] if labels is not None and 0 <= number < len(labels) else f"class {number}"
