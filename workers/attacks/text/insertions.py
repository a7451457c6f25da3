"""Words put into a text that say nothing, or nothing new: hesitations, letters of a list, what was said already."""

import re
from collections.abc import Callable, Sequence

from workers.attacks.text.marked_words import CHARACTERS
from workers.attacks.text.spellings import WORD

HESITATIONS = ("uh", "um", "uhm", "er", "erm", "hmm", "eh", "like ,", "well ,", "i mean ,", "you know ,", "say ,")
"""What people put before a word while they look for it."""

STRESSES = ("very very", "really really")
"""What people put before a word to make more of it."""

LABELS = (tuple(f"{letter})" for letter in "abcdefghij"), tuple(f"{number}." for number in range(1, 10)))
"""Letters and numbers of a list."""

REGISTERS = {
    "a chat": ("tbh ,", ", imo"),
    "a chat, another way": ("btw", "fyi"),
    "a chat that laughs": ("lol", "haha"),
    "a talk": ("um , well ,", ", you know"),
    "a letter": ("hi ,", ". regards , ann"),
    "a mail that is answered": (">", "\n--"),
    "a list": ("1.", "\n2."),
    "a title": ("title :", ". end"),
    "a post": ("update :", "# film"),
}
"""What stands in front of a text and behind it where it is part of something."""


def registered(text: str, register: str) -> str:
    """Return a text within one of ``REGISTERS``.

    >>> registered("A dull film.", "a chat that laughs")
    'lol A dull film. haha'
    """
    before, behind = REGISTERS[register]
    return f"{before} {text}{behind}" if behind[0] in ",.\n" else f"{before} {text} {behind}"


def hesitating(text: str, words: Sequence[str], put: str) -> str:
    """Return a text with something put before some words, the first ones first, within thirty characters.

    Args:
        text: A text.
        words: In lower case.
        put: What is put before each.

    >>> hesitating("A dull and tedious film.", ["tedious", "dull"], "uh")
    'A uh dull and uh tedious film.'
    """
    return _before(text, words, CHARACTERS // (len(put) + 1), lambda _: put)


def gathered(text: str, edited: str, put: str) -> str:
    """Return a text with all of that in front of it: a model that counts words sees the same.

    >>> gathered("A dull film.", "A uh dull uh film.", "uh")
    'uh uh A dull film.'
    """
    count = (len(edited) - len(text)) // (len(put) + 1)
    return " ".join([*[put] * count, text])


def listed(text: str, words: Sequence[str], labels: Sequence[str]) -> str:
    """Return a text with labels of a list in front of it and before some words, in order.

    >>> listed("A dull and tedious film.", ["tedious", "dull"], ["a)", "b)", "c)"])
    'a) A b) dull and c) tedious film.'
    """
    left = iter(labels)
    first = f"{next(left)} "
    most = min(len(labels) - 1, CHARACTERS // (len(labels[0]) + 1) - 1)
    return first + _before(text, words, most, lambda at: labels[1 + at])


def said_again(text: str, words: Sequence[str]) -> str:
    """Return a text that ends with some of its words once more, the first ones first, within thirty characters.

    >>> said_again("A dull and tedious film.", ["tedious", "dull"])
    'A dull and tedious film , tedious dull.'
    """
    bare = re.sub(r"[\s.!?]*$", "", text)
    again, left = list[str](), CHARACTERS - 2
    for word in words:
        if len(word) + 1 <= left:
            left -= len(word) + 1
            again.append(word)
    return f"{bare} , {' '.join(again)}{text[len(bare) :]}" if again else text


def _before(text: str, words: Sequence[str], most: int, put: Callable[[int], str]) -> str:
    """Return a text with something put before some words: each of them once, ``put`` of its place among those put."""
    first = dict[str, re.Match[str]]()
    for found in re.finditer(WORD, text):
        first.setdefault(found[0].lower(), found)
    chosen = sorted(first[word].start() for word in list(dict.fromkeys(words))[:most] if word in first)
    for at in range(len(chosen) - 1, -1, -1):
        text = f"{text[: chosen[at]]}{put(at)} {text[chosen[at] :]}"
    return text
