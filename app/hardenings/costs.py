"""What a training costs, from its parameters and what was measured when the model was checked."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.hardenings import HardeningEstimate
from seatrial.contracts.training import MethodParams
from seatrial.families.cost import OVERHEAD_S, TOKENS_PER_WORD
from seatrial.families.memory import FLOAT_BYTES, heap_of
from seatrial.hardening.params import TrainingParams
from seatrial.store.tables import ModelRow

BACKWARD_OF_FORWARD = 3.0
"""Times a forward pass that one with its backward pass takes, where only the former was timed (texts)."""


def price(
    params: MethodParams,
    model: ModelRow,
    examples: int,
    validation: int,
    facts: Mapping[str, Any],
    *,
    audit_seconds: float | None,
) -> HardeningEstimate:
    """Return what a training costs at most.

    Args:
        params: Of the method.
        model: What is trained, with what its check measured.
        examples: Trained on.
        validation: Judged on.
        facts: Of the dataset.
        audit_seconds: Of the pair of audits.
    """
    passes = params.passes(examples, validation)
    measured = model.facts
    seconds = None
    if measured is not None:
        forward_s = measured["forward_s"] * _longer(facts, measured)
        backward_s = measured["backward_s"] or BACKWARD_OF_FORWARD * forward_s
        seconds = OVERHEAD_S + passes.compute_s + passes.forward * forward_s + passes.backward * backward_s
    return HardeningEstimate(
        examples=examples,
        validation_examples=validation,
        forward_passes=passes.forward,
        backward_passes=passes.backward,
        seconds=seconds,
        audit_seconds=audit_seconds,
        memory_bytes=None if measured is None else _memory(params, measured, facts, examples),
    )


def _memory(params: MethodParams, measured: Mapping[str, Any], facts: Mapping[str, Any], examples: int) -> int | None:
    """Return what a step or a save takes, whichever is more, beside the process itself and its data.

    A step holds weights, gradients, the optimiser's moments, the best epoch's weights and the graph of a micro-batch. A
    save holds all of them but the graph, a copy of weights and moments, and everything it writes twice.
    """
    kept = measured.get("training_bytes")
    if not isinstance(params, TrainingParams) or not kept:
        return None
    moments = 2 if params.optimizer == "adamw" else int(params.momentum > 0)
    best = int(params.keep == "best")
    saved = 1 + moments + best
    step, save = 2 + moments + best + params.further_gradients(), 3 + 2 * moments + best + 2 * saved
    held = min(params.micro_batch_size or params.batch_size, examples) * params.graphs()
    weights = FLOAT_BYTES * measured["parameters"]
    graph = held * sum(each * _longest(facts, measured) ** power for power, each in enumerate(kept, start=1))
    return int(max(step * weights + heap_of(measured["device"]) * graph, save * weights))


def _longest(facts: Mapping[str, Any], measured: Mapping[str, Any]) -> float:
    """Return the tokens of a long text of the dataset; 1 where there are no texts."""
    words = (facts.get("word_means") or [facts.get("mean_words")])[-1]
    if not words or not measured.get("tokens"):
        return 1.0
    return float(min(TOKENS_PER_WORD * float(words), measured.get("longest") or float("inf")))


def _longer(facts: Mapping[str, Any], measured: Mapping[str, Any]) -> float:
    """Return how many times longer the dataset's texts take than those the model was timed on."""
    words, timed = facts.get("mean_words"), measured.get("tokens")
    if not words or not timed:
        return 1.0
    tokens = min(TOKENS_PER_WORD * float(words), float(measured.get("longest") or float("inf")))
    return max(1.0, tokens / float(timed))
