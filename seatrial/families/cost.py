"""What a check costs, from its parameters and what was measured when the model was checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.models import ARRAYS
from seatrial.families.memory import memory_of

TOKENS_PER_WORD = 1.3
"""Of English."""

OVERHEAD_S = 3.0
"""Seconds of a check that do not depend on its passes: picking it up, the bootstrap, the figures."""


@dataclass(frozen=True)
class Cost:
    """Upper bounds for one check.

    Attributes:
        kind: Its family.
        forward: Single-example forward passes.
        backward: Single-example forward and backward passes.
        queries: Scores black-box attacks ask for.
        seconds: On one worker like the one that checked the model; None until it has.
        memory_bytes: Of the process that runs the model, beside its code; None where it is not known.
    """

    kind: str
    forward: int
    backward: int
    queries: int
    seconds: float | None
    memory_bytes: int | None = None


def gives_gradients(model_format: str, task: str) -> bool:
    """Tell whether the cost of a check is that of a model whose weights are there, by how it is stored.

    Families of texts need no gradients, so that theirs is the same either way.

    >>> gives_gradients("endpoint", "image-classification"), gives_gradients("safetensors", "image-classification")
    (False, True)
    """
    return model_format != "endpoint" or task not in ARRAYS


def cost_of(
    check: FamilyParams,
    samples: int,
    sizes: dict[str, int],
    facts: dict[str, Any] | None,
    *,
    mean_words: float | None = None,
    word_means: Sequence[float] | None = None,
    has_gradients: bool = True,
    batch_size: int = 1,
) -> Cost:
    """Return what a check costs at most.

    Args:
        check: Its parameters.
        samples: Examples audited.
        has_gradients: Whether the model can be differentiated; of one that is asked over HTTP every pass is a query.
        sizes: Examples of each further dataset, by the parameter that names it.
        facts: Seconds per pass, as measured when the model was checked.
        mean_words: Mean words of a text, where there are texts.
        word_means: The same of groups of texts of equal size: a text twice as long takes twice as many passes of
            twice as many tokens, so a mean alone prices texts of different lengths too low.
        batch_size: Examples of a batch.
    """
    lengths: Sequence[float | None] = word_means or [mean_words]
    # What a model does not see of a text is not attacked.
    each = (
        [check.passes(samples, sizes, mean_words=_seen(words, facts)) for words in lengths]
        if has_gradients
        else [_with_preflight(check.questions(samples, sizes), samples)] * len(lengths)
    )
    forward, backward, queries = (
        round(fmean(getattr(passes, name) for passes in each)) for name in ("forward", "backward", "queries")
    )
    seconds = None
    if facts is not None:
        of_lengths = [
            passes.compute_s
            + passes.forward * facts["forward_s"] * _longer(words, facts) * passes.slowdown
            + passes.backward * (facts["backward_s"] or 0.0)
            for words, passes in zip(lengths, each, strict=True)
        ]
        seconds = OVERHEAD_S + fmean(of_lengths)
    memory = None if facts is None else memory_of(each[0], min(batch_size, samples), facts)
    return Cost(check.kind, forward, backward, queries, seconds, memory)


def _with_preflight(questions: Passes, samples: int) -> Passes:
    """Return the queries of a check with those of its preflight: every image once, those of the first batch twice."""
    return questions._replace(forward=questions.forward + 2 * samples, queries=questions.queries + 2 * samples)


def _longer(words: float | None, facts: dict[str, Any]) -> float:
    """Return how many times longer a text takes than those a model was timed on: as many as it has tokens."""
    if not words or not facts.get("tokens"):
        return 1.0
    tokens = TOKENS_PER_WORD * words
    if facts.get("longest"):
        tokens = min(tokens, float(facts["longest"]))
    return max(1.0, tokens / float(facts["tokens"]))


def _seen(words: float | None, facts: dict[str, Any] | None) -> float | None:
    """Return how many words of a text a model takes."""
    if not words or not facts or not facts.get("longest"):
        return words
    return min(words, float(facts["longest"]) / TOKENS_PER_WORD)


def total_seconds(costs: list[Cost]) -> float | None:
    """Return the seconds of all checks one after the other; None when any is unknown."""
    seconds = [cost.seconds for cost in costs if cost.seconds is not None]
    return sum(seconds) if len(seconds) == len(costs) else None
