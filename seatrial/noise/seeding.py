"""Which noise an example gets: the same in an audit, over HTTP and on the command line.

Whoever makes noise has a way from (purpose, example id) to a seed: an audit its context's, everybody else that of
:func:`audit_seeds`, and both are the same function of the audit's seed. But for models behind a URL: what their audits
ask follows from a salt as well, so that nobody who serves one can make its noise before.
"""

import random
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

from seatrial.contracts.noise import Noise
from seatrial.contracts.registry import families
from seatrial.store.seeds import derive_seed

MOST_FORMS = 100_000
"""Word types whose forms are remembered; those of others are drawn again, the same."""

SeedOf = Callable[[str, int], int]
"""From a purpose and an example's number to a seed."""


class _AttacksWords(Protocol):
    def word(self, word: str, level: float, rng: random.Random, /) -> str | None:
        """Return the word attacked, or None where it cannot be changed."""


@lru_cache(maxsize=1)
def noise_family() -> str:
    """Return the family whose checks make this noise, which is part of every seed."""
    return next(kind for kind, spec in families().items() if issubclass(spec.params, Noise))


def audit_seeds(seed: int) -> SeedOf:
    """Return the seeds an audit of that seed has for this family."""
    return partial(derive_seed, seed, noise_family())


def noise_purpose(attacker: str, level: float, draw: int) -> str:
    """Return what the noise of an example is drawn for.

    Args:
        attacker: Its name.
        level: Share of the words attacked; as many digits as names of metrics have.
        draw: From 0.

    >>> noise_purpose("visual", 0.2, 0)
    'visual 0.2 0'
    """
    return f"{attacker} {level:g} {draw}"


def word_purpose(attacker: str, level: float, draw: int, word: str) -> str:
    """Return what the one form of a word type is drawn for; no example's, so it is the same in every sentence.

    >>> word_purpose("visual", 0.2, 0, "sea")
    'visual 0.2 0 sea'
    """
    # A seed is made of what Python prints, and which characters it prints as they are changes with its Unicode tables.
    return f"{noise_purpose(attacker, level, draw)} {word.encode('unicode_escape').decode()}"


def noise_generator(seed_of: SeedOf, attacker: str, level: float, draw: int, example_id: int) -> random.Random:
    """Return the generator of one draw of an example; both parts of a pair are perturbed with it, one after the other.

    >>> [noise_generator(audit_seeds(0), "visual", 0.2, 0, 7).randrange(100) for _ in range(2)]
    [17, 17]
    """
    return random.Random(seed_of(noise_purpose(attacker, level, draw), example_id))  # noqa: S311 - not for secrets


def word_forms(
    perturber: _AttacksWords, seed_of: SeedOf, attacker: str, level: float, draw: int
) -> Callable[[str], str | None]:
    """Return the one form each word type gets in a draw, whichever sentence, shard or process it is in.

    Section 3.2 and the released program: a tagger sees a word misspelt in the same way wherever it stands. None is
    returned of a word that cannot be changed.
    """

    @lru_cache(maxsize=MOST_FORMS)
    def form(word: str) -> str | None:
        seed = seed_of(word_purpose(attacker, level, draw, word), 0)
        return perturber.word(word, level, random.Random(seed))  # noqa: S311 - not for secrets

    return form
