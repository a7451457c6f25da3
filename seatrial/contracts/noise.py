"""How character-level noise is made, whoever asks for it: a check of a model, or somebody without one."""

import json
from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import Field

from seatrial.contracts.base import Real, Request
from seatrial.contracts.near_names import not_a_choice

Attacker = Literal[
    "inner_shuffle",
    "full_shuffle",
    "intrude",
    "disemvowel",
    "truncate",
    "segment",
    "keyboard_typo",
    "natural_typo",
    "phonetic",
    "visual",
]
"""The attackers of the Zéroe catalogue (Eger and Benz 2020, section 3.1)."""

ATTACKERS: tuple[Attacker, ...] = get_args(Attacker)

COMBINED = "combined"
"""One more attacker: each word it attacks is met by one of the others, drawn anew."""

NOT_OF_TOKENS: frozenset[Attacker] = frozenset({"segment"})
"""Attackers that leave no tag per token: not run on sentences that are tagged token by token (section 3.2)."""

Reading = Literal["code", "paper"]


def heeding_phi(variant: str | None) -> frozenset[str]:
    """Return the attackers that hit a word as hard as `phi` says, in a reading."""
    return frozenset({"intrude", "visual", "segment"} | ({"keyboard_typo"} if variant == "paper" else set()))


LEAST_LEVEL = 1e-6
"""Least share of words: a thousandth of a word in a text of a thousand."""


class Noise(Request):
    """How noise is made, whichever attackers make it."""

    variant: Reading = Field(
        default="code",
        description="Whose rules: `code`, those of the released program, which made the published numbers; `paper`, "
        "those of the text. docs/families.md has both, attacker by attacker.",
    )
    selection: Reading | None = Field(
        default=None,
        description="Which words of a text are attacked. `code`: words drawn without replacement until a share of "
        "`level` has changed; `paper`: the same with a coin for each, so fewer. By default that of `variant`. segment, "
        "and visual of `code` without a phi, select no words.",
    )
    phi: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="How hard an attacked word is hit, apart from how many words are: the probability of a symbol in "
        "each gap (intrude), of another glyph for each character (visual), of a further merge (segment), of a typo at "
        "each key (keyboard_typo of `paper`). Null: the level.",
    )
    typos: Literal["codespell", "nlpaug"] = Field(
        default="codespell",
        description="Where natural_typo finds misspellings: `codespell`, shipped; `nlpaug`, the table the paper's "
        "program has, after `seatrial resources install typos-nlpaug`.",
    )
    glyphs: Literal["dejavu", "dejavu_bmp", "confusables"] = Field(
        default="dejavu",
        description="Where visual finds look-alikes: `dejavu`, 20 nearest among Latin, Greek, Cyrillic and Armenian "
        "letters as DejaVu Sans draws them; `dejavu_bmp`, among 5,036 characters; `confusables`, Unicode's list, after "
        "`seatrial resources install confusables`.",
    )

    @property
    def selects(self) -> Reading:
        """How words are selected."""
        return self.selection or self.variant

    def lacks_nothing_for(self, attacker: str) -> bool:
        """Tell whether an attacker runs on what is shipped."""
        shipped = {"natural_typo": self.typos == "codespell", "visual": self.glyphs != "confusables"}
        return all(shipped.values()) if attacker == COMBINED else shipped.get(attacker, True)


def check_levels(levels: list[float], *, at_zero: str) -> list[float]:
    """Return levels in rising order, each as names of metrics hold it: 0.1 + 0.2 is the level 0.3.

    Args:
        levels: As asked for.
        at_zero: What to tell who asks for level 0.

    Raises:
        ValueError: One is no share of words, or stands twice.
    """
    for level in levels:
        if not LEAST_LEVEL <= level <= 1:
            hint = f": {at_zero}" if level == 0 else ""
            raise ValueError(f"levels must be at least {LEAST_LEVEL:f} and at most 1, got {level:.9g}{hint}")
    # Names of metrics, and seeds, hold six digits of a level: two that share them would be one level with two noises.
    rounded = sorted(float(f"{level:g}") for level in levels)
    if len(set(rounded)) != len(rounded):
        raise ValueError("levels must differ from each other in their first six digits")
    return rounded


def in_a_list(attackers: object, names: Sequence[str]) -> object:
    """Return what is asked for as ``attackers``, unless it is a name where a list of names is needed, or holds another.

    Args:
        attackers: What is asked for.
        names: That there are.

    Raises:
        ValueError: It is, and the message has the list; or one is none of the names, which is told once and not for
            each kind of what the field takes.
    """
    if isinstance(attackers, str) and attackers != "all":
        raise ValueError(f"attackers must be `all` or a list of names: write {json.dumps([attackers])}")
    if isinstance(attackers, list):
        for name in attackers:
            if isinstance(name, str) and name not in names:
                raise ValueError(not_a_choice(name, names))
    return attackers
