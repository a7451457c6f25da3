"""What ``seatrial perturb`` does to each text: which copies are made of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.cli.exits import BadRequestError
from app.perturb.noising import LackingResourceError, Noising
from app.perturb.rewriting import Copy, Parts
from seatrial.contracts.noise import ATTACKERS, COMBINED, NOT_OF_TOKENS, Attacker, Noise
from seatrial.contracts.perturb import Cell, Noisemaker, drawn_among
from seatrial.noise.lexicons import Lexicons

Asked = Noisemaker | Literal["all"]


@dataclass
class Plan:
    """Makes the copies of each text.

    Attributes:
        noise: How noise is made.
        attackers: Who makes it.
        without: Left out, of ``combined`` too.
        levels: Shares of words.
        draws: Random draws of each.
        seed: Everything random follows from it.
        mixes: Whether a text is perturbed once in each draw, by an attacker and at a level drawn for it, instead of by
            all at all.
        lexicons: What attackers draw from.
        texts: Texts perturbed so far.
        copies: Copies made of them.
        tokens: Tokens of all copies before they were perturbed.
        changed: Those that changed.
    """

    noise: Noise
    attackers: tuple[Noisemaker, ...]
    without: frozenset[Attacker]
    levels: Sequence[float]
    draws: int
    seed: int
    mixes: bool
    lexicons: Lexicons
    texts: int = 0
    copies: int = 0
    tokens: int = 0
    changed: int = 0
    _noisings: dict[bool, tuple[Noising, list[Cell]]] = field(default_factory=dict)

    def __call__(self, number: int, parts: Parts, is_tagged: bool) -> Iterator[Copy]:
        """Yield the copies of a text.

        Raises:
            BadRequestError: An attacker cannot do it: it lacks something, or texts are tagged token by token.
        """
        noising, cells = self._prepared(is_tagged)
        self.texts += 1
        for cell in self._mixed(noising, number) if self.mixes else cells:
            noisy = noising(parts, cell, number)
            self.copies += 1
            self.tokens += noisy.tokens
            self.changed += noisy.changed
            yield Copy(cell, noisy.parts)

    def summary(self) -> str:
        """Return what was done, in a line."""
        fraction = self.changed / self.tokens if self.tokens else 0.0
        return f"{self.texts:,} texts read, {self.copies:,} written: {fraction:.1%} of their tokens changed."

    def _mixed(self, noising: Noising, number: int) -> Iterator[Cell]:
        return (noising.mixed(self.levels, draw, number) for draw in range(self.draws))

    def _prepared(self, is_tagged: bool) -> tuple[Noising, list[Cell]]:
        if is_tagged not in self._noisings:
            names = self._runs(is_tagged)
            among = tuple(one for one in drawn_among(names, is_tagged=is_tagged) if one not in self.without)
            try:
                noising = Noising(self.noise, names, among, self.lexicons, self.seed, is_tagged=is_tagged)
            except LackingResourceError as error:
                raise BadRequestError(
                    f"--{error.lacking.field} {getattr(self.noise, error.lacking.field)}: {error}"
                ) from error
            cells = [Cell(name, level, draw) for name in names for level in self.levels for draw in range(self.draws)]
            self._noisings[is_tagged] = noising, cells
        return self._noisings[is_tagged]

    def _runs(self, is_tagged: bool) -> tuple[Noisemaker, ...]:
        if not is_tagged:
            return self.attackers
        names = tuple(name for name in self.attackers if name not in NOT_OF_TOKENS)
        if not names:
            raise BadRequestError("segment joins words, which leaves no tag for each: it is not for tagged sentences")
        return names


def named(attackers: Sequence[Asked], without: Sequence[Attacker]) -> tuple[Noisemaker, ...]:
    """Return the attackers that options name, in the order named.

    Raises:
        BadRequestError: None is left, or ``combined`` has one to draw among.

    >>> named(["all"], ["visual"])[-2:]
    ('natural_typo', 'phonetic')
    >>> named(["truncate", "combined", "visual", "truncate"], [])
    ('truncate', 'combined', 'visual')
    """
    said = [one for name in attackers for one in (ATTACKERS if name == "all" else (name,))]
    kept = tuple(dict.fromkeys(name for name in said if name not in without))
    if not kept:
        raise BadRequestError("no attacker is left: name one with --attacker that is not in --without")
    if len(kept) == 2 and COMBINED in kept:
        raise BadRequestError("combined draws among several attackers: name it alone, or with two others at least")
    return kept
