"""Doubts about models that say something else of the same input: the second time, or in other company."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from seatrial.contracts.estimates import Flag

REPEAT_TOLERANCE = 1e-4
ROUNDED = 1e-6
"""What float32 may round off a logit in passes that add up in another order, as a share of it."""
COMPANY_TOLERANCE = 0.05
"""By how much a log probability may differ in another batch: what bfloat16 rounds of logits of 10."""
RESOLUTION = 1e-5
"""The same as a share of the largest logit, of which as much is rounded off."""
LEAST_SAID = -20.0
"""Log probabilities below are all the same to whoever reads them."""


def repeat_flags(first: Tensor, second: Tensor) -> list[Flag]:
    """Doubt a model whose logits (batch, classes) differ the second time.

    They may as a share of how far they lie apart: a constant added to all of them hides nothing, but for what rounding
    beside it may do.
    """
    difference = float((first - second).abs().max())
    apart = float((first - first.mean(dim=1, keepdim=True)).abs().max()) if first.shape[1] > 1 else 0.0
    rounded = min(ROUNDED * float(first.abs().max()), COMPANY_TOLERANCE)
    if difference <= max(REPEAT_TOLERANCE * max(1.0, apart), rounded):
        return []
    return [
        Flag(
            code="non_deterministic",
            severity="warning",
            message=f"The same batch gave logits that differ by up to {difference:.3g}: the model draws random "
            "numbers in eval "
            "mode. Gradients are noisy and a single success may be luck: fix the randomness, or read every rate as "
            "one draw.",
        )
    ]


def company_flags(logits: Tensor, ask: Callable[[Tensor], Tensor], images: Tensor, thing: str) -> list[Flag]:
    """Doubt a model that says something else of some inputs where these are asked about by themselves.

    Args:
        logits: (batch, classes) of the inputs, asked about in one batch.
        ask: The model.
        images: (batch, ...); the first six are asked about one, two and three at a time.
        thing: What an input is called.
    """
    difference = company_difference(logits, ask, images)
    return [] if difference is None else [company_flag(difference, thing)]


def company_difference(logits: Tensor, ask: Callable[[Tensor], Tensor], images: Tensor) -> float | None:
    """Return the largest difference of a log probability by company, in nats; None where it is what float32 rounds off.

    A constant added to all logits is no part of what is said.

    Args:
        logits: (batch, classes) of the inputs, asked about in one batch.
        ask: The model.
        images: (batch, ...); the first six are asked about one, two and three at a time.
    """
    sizes = [size for size, most in ((1, 1), (2, 3), (3, 6)) if most <= len(images)]
    if len(images) < 2:
        return None
    few = logits[: sum(sizes)]
    apart = torch.cat([ask(some) for some in torch.split(images[: len(few)], sizes)])
    together, alone = (some.double().log_softmax(1).clamp_min(LEAST_SAID) for some in (few, apart))
    difference = float((alone - together).abs().nan_to_num(nan=math.inf).max())
    largest = float(few.abs().max())
    return None if difference <= min(max(COMPANY_TOLERANCE, RESOLUTION * largest), -LEAST_SAID / 4) else difference


def company_flag(difference: float, thing: str) -> Flag:
    """Return the doubt about a model whose log probabilities differ so much by company."""
    return Flag(
        code="depends_on_company",
        severity="error",
        message=f"Asked about one to three at a time, {thing}s have log probabilities that differ by up to "
        f"{difference:.3g} from those they have in a batch: the model is another one for whoever asks otherwise "
        "than audits do.",
    )
