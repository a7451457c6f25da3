"""The attackers of words by name, as one noise has them."""

import random
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from seatrial.contracts.noise import Noise
from seatrial.noise.keys import keyboard_typo_code, keyboard_typo_paper
from seatrial.noise.lexical import LookAlikes, natural_typo, phonetic, visual
from seatrial.noise.lexicons import Lexicons, stopwords
from seatrial.noise.words import disemvowel, full_shuffle, inner_shuffle, intrude_code, intrude_paper, truncate

Attack: TypeAlias = Callable[[str, float, random.Random], str]
"""From a word, how hard it is hit (in (0, 1]) and a generator to the word attacked: the word itself where nothing of it
can change, never an empty one."""

TRIES = 10
"""Orders the released code draws at most until a shuffled word is another one."""


def attack(name: str, noise: Noise, lexicons: Lexicons) -> Attack:
    """Return an attacker of words in the reading a noise has.

    Raises:
        ValueError: There is none of that name; segment attacks texts.
        LexiconError: What it looks up is not installed.
    """
    code = noise.variant == "code"
    match name:
        case "inner_shuffle":
            return (
                partial(inner_shuffle, shortest=4, tries=TRIES) if code else partial(inner_shuffle, shortest=3, tries=1)
            )
        case "full_shuffle":
            return (
                partial(full_shuffle, shortest=3, tries=TRIES) if code else partial(full_shuffle, shortest=2, tries=1)
            )
        case "intrude":
            return intrude_code if code else intrude_paper
        case "disemvowel":
            return partial(disemvowel, shortest=3 if code else 4)
        case "truncate":
            return partial(truncate, shortest=4 if code else 3)
        case "keyboard_typo":
            return keyboard_typo_code if code else keyboard_typo_paper
        case "natural_typo":
            return partial(natural_typo, typos=lexicons.typos(noise.typos), any_case=not code)
        case "phonetic":
            return partial(phonetic, respellings=lexicons.respellings(), stopwords=stopwords())
        case "visual":
            return partial(visual, look_alikes=LookAlikes(lexicons.glyphs(noise.glyphs), even=not code))
    raise ValueError(f"there is no attacker of words named {name!r:.50}")
