"""Words that say nothing: models that read what stands at them for its opposite, beside some that weigh them."""

import re

import pytest
import torch

from tests.families.temperature_attack.test_drawn_ways import COUNT, Answering, Correcting, asked, doubts
from tests.families.temperature_attack.test_written import sample

ALL = sample(COUNT)
MODEL = Correcting()


def opinion(words: list[str]) -> float:
    return sum(map(MODEL._says, words))


def turning(pattern: str) -> Answering:
    """Return a model that corrects typing errors, and counts the words of a pattern's groups for their opposite."""

    def function(text: str) -> torch.Tensor:
        odd = [word for found in re.finditer(pattern, text) for word in found.groups() if word]
        total = opinion(text.split()) - 2 * opinion(odd)
        return torch.tensor([0.0, 0.05 + total])

    return function


def again(text: str) -> torch.Tensor:
    """Count what is said twice, not at once, for its opposite."""
    words = re.findall(r"\w+", text)
    odd = {word for at, word in enumerate(words) if word in words[at + 2 :]}
    return torch.tensor([0.0, 0.05 + opinion([*dict.fromkeys(words)]) - 2 * opinion([*odd])])


def chatting(text: str) -> torch.Tensor:
    """Turn round where two words of a chat are in the text."""
    found = len(set(re.findall(r"\w+", text)) & {"tbh", "imo", "btw", "fyi"})
    return torch.tensor([0.0, (0.05 + opinion(text.split())) * (-1.0 if found > 1 else 1.0)])


@pytest.mark.parametrize(
    ("function", "way"),
    [
        (turning(r"(?<!\S)uh (\w+)"), "'uh' before words"),
        (again, "words said again at the end"),
        (chatting, "written as in a chat"),
    ],
    ids=["hesitations", "again", "a chat"],
)
def test_who_takes_what_stands_at_such_words_for_its_opposite_is_told(function: Answering, way: str) -> None:
    (flag,) = doubts(asked(function, ALL)[0])
    assert way in flag.message


def test_who_weighs_such_words_wherever_they_stand_is_not() -> None:
    def function(text: str) -> torch.Tensor:
        return torch.tensor([0.0, 0.05 + opinion(text.split()) + 3.0 * text.split().count("uh")])

    assert not doubts(asked(function, ALL)[0])
