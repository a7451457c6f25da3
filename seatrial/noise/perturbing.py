"""Noise for texts and for tagged tokens: words selected, edited in place and counted."""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from seatrial.contracts.noise import ATTACKERS, COMBINED, Attacker, Noise
from seatrial.noise.attackers import attack
from seatrial.noise.draws import shuffled
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.segmentation import segment
from seatrial.noise.selection import attempts
from seatrial.noise.tokens import between_tokens

SEGMENT = "segment"


@dataclass(frozen=True)
class Perturbation:
    """A text as noise left it.

    Attributes:
        text: As it reads now.
        tokens: Tokens of the text before; of segment, words between white space.
        changed: Those of them that changed; of segment, words that stand joined to the one before.
    """

    text: str
    tokens: int
    changed: int


@dataclass(frozen=True)
class PerturbedTokens:
    """A tagged sentence as noise left it.

    Attributes:
        tokens: As many as before, none of them empty that was not.
        changed: How many are others now.
    """

    tokens: tuple[str, ...]
    changed: int


class Perturber:
    """One attacker, ready to attack.

    Words are selected as ``noise.selects`` says, but by two attackers that select none: segment, which joins words by
    the white space between them, and visual in the released code's reading without a ``phi``, which hits every
    character of a text by the level. Nothing is changed at level 0.

    Args:
        attacker: Its name, one of ``ATTACKERS`` or ``COMBINED``.
        noise: The reading, and what is looked up where.
        lexicons: Tables to look up in; only those the attacker needs are read.
        among: What ``combined`` draws from, in any order.

    Raises:
        ValueError: There is no attacker of that name, or nothing to combine.
        LexiconError: What the attacker looks up is not installed.
    """

    def __init__(
        self, attacker: str, noise: Noise, lexicons: Lexicons, *, among: Collection[Attacker] = ATTACKERS
    ) -> None:
        # In the catalogue's order: the same attackers make the same noise, in whichever order they are named.
        names = tuple(name for name in ATTACKERS if name in among) if attacker == COMBINED else (attacker,)
        if not names:
            raise ValueError("combined has no attackers to draw from")
        self._names = names
        self._combines = attacker == COMBINED
        self._segments = attacker == SEGMENT
        self._noise = noise
        self._attacks = {name: attack(name, noise, lexicons) for name in names if name != SEGMENT}
        # The released code hits each character of a text by the level, whichever word it is in.
        self._hits_every_word = attacker == "visual" and noise.variant == "code" and noise.phi is None

    def perturb(self, text: str, level: float, rng: random.Random) -> Perturbation:
        """Return a text with as many of its words attacked as the level says; everything else is byte-identical.

        Args:
            text: Any, an empty one too.
            level: Share of the words to change, in [0, 1]; at 0 the text stays as it is.
            rng: Where every draw comes from: the same state gives the same noise.

        Raises:
            ValueError: The level is no share.
        """
        if self._segments:
            fades = self._noise.variant == "paper"
            joined = segment(text, _fraction(level), rng, phi=self._phi(level), fades=fades)
            return Perturbation(joined.text, joined.words, joined.merged)
        parts = between_tokens(text)
        words = len(parts) // 2
        places, most = self._selected(words, level, rng, every=self._hits_every_word)
        changed = _attacked(places, most, self._editor(parts, level, rng))
        return Perturbation("".join(parts), words, changed)

    def perturb_tokens(
        self,
        tokens: Sequence[str],
        level: float,
        rng: random.Random,
        *,
        form: Callable[[str], str | None] | None = None,
    ) -> PerturbedTokens:
        """Return tokens of which as many are attacked as the level says, each still in its place.

        Args:
            tokens: Of a sentence, in order.
            level: Share of them to change, in [0, 1].
            rng: Where every draw comes from but those of ``form``.
            form: From a token to the one form it has when attacked, None where it cannot be; by default each is
                attacked on its own.

        Raises:
            ValueError: The level is no share, or the attacker is segment, which leaves no token to a tag.
        """
        if self._segments:
            raise ValueError("segment joins words: tokens that have a tag each cannot be met with it")
        parts = [""] * (2 * len(tokens) + 1)
        parts[1::2] = tokens
        places, most = self._selected(len(tokens), level, rng)
        edit = self._editor(parts, level, rng) if form is None else _form_editor(parts, form)
        changed = _attacked(places, most, edit)
        return PerturbedTokens(tuple(parts[1::2]), changed)

    def word(self, word: str, level: float, rng: random.Random) -> str | None:
        """Return a word attacked for certain, None where the attacker cannot change it or the draws did not.

        Args:
            word: One token.
            level: How hard it is hit, in [0, 1], unless ``phi`` says; at 0 nothing is.
            rng: Where every draw comes from.
        """
        if _fraction(level) == 0 or self._segments:
            return None
        parts = ["", word, ""]
        return parts[1] if self._editor(parts, level, rng)(0) else None

    def _phi(self, level: float) -> float:
        return level if self._noise.phi is None else self._noise.phi

    def _selected(
        self, words: int, level: float, rng: random.Random, *, every: bool = False
    ) -> tuple[Iterable[int], float]:
        """Return the places of the words to attack in turn, and how many may change."""
        if _fraction(level) == 0:
            return (), 0.0
        if every:
            return range(words), inf
        # Not rounded: the released code compares a count with this product as floats have it.
        return attempts(words, level, rng, how=self._noise.selects), words * level

    def _editor(self, parts: list[str], level: float, rng: random.Random) -> Callable[[int], bool]:
        """Return what attacks the word at a place, in parts as of a text, and tells whether the word changed."""
        return self._by_any(parts, level, rng) if self._combines else self._by_one(parts, level, rng)

    def _by_one(self, parts: list[str], level: float, rng: random.Random) -> Callable[[int], bool]:
        (only,) = self._attacks.values()
        phi = self._phi(level)

        def edit(place: int) -> bool:
            word = parts[2 * place + 1]
            parts[2 * place + 1] = attacked = only(word, phi, rng)
            return attacked != word

        return edit

    def _by_any(self, parts: list[str], level: float, rng: random.Random) -> Callable[[int], bool]:
        phi = self._phi(level)
        streams = _Streams(rng)

        def edit(place: int) -> bool:
            at = 2 * place + 1
            word = parts[at]
            for name in shuffled(self._names, rng):
                if name == SEGMENT:
                    if parts[at + 1] and at + 2 < len(parts):
                        parts[at + 1] = ""
                        return True
                else:
                    parts[at] = self._attacks[name](word, phi, streams[name])
                    if parts[at] != word:
                        return True
            return False

        return edit


class _Streams(dict[str, random.Random]):
    """A stream of draws for each attacker: what one draws does not move the draws of the others.

    All seeds are drawn at once, and a stream is made when it is first asked for: that takes longer than a word does.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._seeds: dict[str, int] = {name: int(rng.random() * 2**53) for name in ATTACKERS}

    def __missing__(self, name: str) -> random.Random:
        self[name] = stream = random.Random(self._seeds[name])  # noqa: S311 - not for secrets
        return stream


def _form_editor(parts: list[str], form: Callable[[str], str | None]) -> Callable[[int], bool]:
    def edit(place: int) -> bool:
        word = parts[2 * place + 1]
        attacked = form(word) or word
        parts[2 * place + 1] = attacked
        return attacked != word

    return edit


def _attacked(places: Iterable[int], most: float, edit: Callable[[int], bool]) -> int:
    changed = 0
    for place in places:
        if changed >= most:
            break
        changed += edit(place)
    return changed


def _fraction(level: float) -> float:
    if not 0 <= level <= 1:
        raise ValueError(f"a level is a share, from 0 to 1, got {level:g}")
    return level
