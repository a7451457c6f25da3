"""One perturbed copy of a text of any task: what an audit, the endpoint and the command all make."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seatrial.noise.perturbing import Perturber


class Noisy(NamedTuple):
    """What became of a text.

    Attributes:
        parts: As many strings as there were.
        tokens: Tokens of the text as it was.
        changed: How many of them changed.
    """

    parts: tuple[str, ...]
    tokens: int
    changed: int


def noisy_copy(
    perturber: Perturber,
    parts: Sequence[str],
    level: float,
    rng: random.Random,
    form: Callable[[str], str | None] | None = None,
) -> Noisy:
    """Return one perturbed copy of a text.

    Args:
        perturber: One attacker.
        parts: One text; premise and hypothesis, which are perturbed in turn; or the tokens of a tagged sentence.
        level: Share of the words attacked.
        rng: Where the draws come from.
        form: Of tagged sentences, the one form of each word type; None for texts.
    """
    if form is not None:
        made = perturber.perturb_tokens(parts, level, rng, form=form)
        return Noisy(made.tokens, len(parts), made.changed)
    texts = [perturber.perturb(part, level, rng) for part in parts]
    return Noisy(tuple(one.text for one in texts), sum(one.tokens for one in texts), sum(one.changed for one in texts))
