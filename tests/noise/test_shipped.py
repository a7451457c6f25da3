"""Attackers with the tables that come with the package."""

import random

import pytest

from seatrial.contracts.noise import ATTACKERS, COMBINED, Noise
from seatrial.noise.lexicons import Lexicons, stopwords
from seatrial.noise.perturbing import Perturber
from tests.noise.fakes import SENTENCE

LEXICONS = Lexicons(None)
WORDS = [
    "people",
    "their",
    "science",
    "believe",
    "which",
    "through",
    "harmless",
    "government",
    "because",
    "beautiful",
    "separate",
    "the",
]


def forms(attacker: str, word: str, noise: Noise) -> set[str]:
    """Return what becomes of a word in 40 draws, where anything does."""
    perturber = Perturber(attacker, noise, LEXICONS)
    found = {perturber.word(word, 0.8, random.Random(seed)) for seed in range(40)}
    return {form for form in found if form is not None}


def test_misspellings_are_those_of_codespell() -> None:
    listed = LEXICONS.typos("codespell")
    found = {word: forms("natural_typo", word, Noise()) for word in WORDS}
    assert all(found[word] <= set(listed.get(word, ())) for word in WORDS)
    assert sum(map(bool, found.values())) >= 8


def test_respellings_are_those_listed_and_stopwords_have_none() -> None:
    listed = LEXICONS.respellings()
    found = {word: forms("phonetic", word, Noise()) for word in WORDS}
    assert all(found[word] <= {spelling for spelling, _ in listed.get(word, ())} for word in WORDS)
    assert {word for word in WORDS if word in stopwords() and found[word]} == set()
    assert sum(map(bool, found.values())) >= 5


@pytest.mark.parametrize("glyphs", ["dejavu", "dejavu_bmp"])
def test_look_alikes_are_those_of_the_table(glyphs: str) -> None:
    listed = LEXICONS.glyphs(glyphs)
    for variant in ("code", "paper"):
        for form in forms("visual", "Seatrial", Noise(glyphs=glyphs, variant=variant)):
            assert len(form) == 8
            assert all(
                other == one or other in {like for like, _ in listed[one]}
                for one, other in zip("Seatrial", form, strict=True)
            )


@pytest.mark.parametrize("name", [*ATTACKERS, COMBINED])
def test_every_attacker_has_something_to_change(name: str) -> None:
    perturber = Perturber(name, Noise(), LEXICONS)
    assert any(perturber.perturb(SENTENCE, 0.8, random.Random(seed)).changed for seed in range(10))
