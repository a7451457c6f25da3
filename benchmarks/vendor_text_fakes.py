"""Endpoints of vendors who know the tool: its texts, its seed, its pace; and requests of an audit that suit them.

    python -m benchmarks.vendor_text_fakes --train train.jsonl --data test.jsonl

prints what an attacker leaves of each who keeps to DeepWordBug's 30 characters and asks 100 questions a text.
"""

import argparse
import math
import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from rapidfuzz.distance import LCSseq
from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.text_fakes import BagOfWords, Endpoint, LogOdds, probability, sided, sigmoid
from workers.attacks.text.attacking import Job, attack_all
from workers.attacks.text.label_only import decisions, searching_labels
from workers.attacks.text.meaning_free import meaning_free_edits
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import TextExample
from workers.resources.library import Library
from workers.runtime.seeds import derive_seed

ALIKE, HARDLY, LETTERS, EDITS = 0.35, 0.2, 0.7, 32
"""Weight of a known text's trigrams that a text has to hold to be taken for it; or what it has to hold where its
letters are in the same order but for so many, and at least so large a share."""

WINDOW, CROWD, NEAR = 400, 12, 0.85
"""Edited questions that are looked back on, and texts they are about from which on somebody measures; and the share of
a text's letters that an edited one still has in order, of those that are looked at."""

ONE_OF_OTHERS = 25
"""Of so many texts one is of the other class, in data that are drawn to suit."""

DOUBT = 0.6
"""Log-odds that the class which no unknown word may have needs beyond those of the other."""

SHORT = 2
"""Letters of either part of a word that is cut in two, at least."""

QUESTIONS = 100
"""Of an attacker about one text."""

_WORD = re.compile(r"\w+")
_GAP = re.compile(r"\s\s|[\t\n\u00a0\u200b]")


@dataclass
class Vendor(Endpoint):
    """An endpoint, and how its audit is asked for.

    Attributes:
        settings: Parameters of the check that are not the gauntlet's.
        draws: Whether a text is among the data.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    draws: Callable[[TextExample], bool] = lambda example: True


class Alike:
    """Finds the known text of whose trigrams a text holds most by weight, whatever stands beside them.

    Args:
        corpus: Texts that say how rare a trigram is.
    """

    def __init__(self, corpus: Sequence[str]) -> None:
        seen = Counter(gram for text in corpus for gram in _trigrams(text))
        self._weights = {gram: math.log(len(corpus) / times) for gram, times in seen.items()}
        self._rare = math.log(len(corpus))
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        self._totals: list[float] = []
        self._texts: list[str] = []

    def add(self, text: str) -> int:
        """Know a text, and return its number."""
        number, grams = len(self._totals), _trigrams(text)
        self._totals.append(sum(self._weights.get(gram, self._rare) for gram in sorted(grams)))
        self._texts.append(text.lower())
        for gram in grams:
            self._holders[gram].append(number)
        return number

    def is_near(self, number: int, text: str) -> bool:
        """Return whether hardly anything but what stands beside it sets a text apart from a known one."""
        return bool(LCSseq.similarity(self._texts[number], text.lower()) >= NEAR * len(self._texts[number]))

    def find(self, text: str) -> int | None:
        """Return the number of the text this one is taken for; None where it is like none."""
        shared: defaultdict[int, float] = defaultdict(float)
        for gram in sorted(_trigrams(text)):
            weight = self._weights.get(gram, self._rare)
            for number in self._holders.get(gram, ()):
                shared[number] += weight
        best = max(shared, key=lambda number: shared[number] / self._totals[number], default=None)
        if best is None or shared[best] < HARDLY * self._totals[best]:
            return None
        own = len(self._texts[best])
        kept = LCSseq.similarity(self._texts[best], text.lower())
        return best if shared[best] >= ALIKE * self._totals[best] or kept >= max(LETTERS * own, own - EDITS) else None


class KnownByParts:
    """Decides for a text that holds enough of a known one what it knows of that.

    Args:
        odds: The model.
        known: Known texts.
        corpus: As of :class:`Alike`.
    """

    def __init__(self, odds: LogOdds, known: Sequence[str], corpus: Sequence[str]) -> None:
        self._odds, self._alike = odds, Alike(corpus)
        self._decided = {self._alike.add(text): odds(text) > 0 for text in known}

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds, found = self._odds(text), self._alike.find(text)
        return own(odds, odds > 0 if found is None else self._decided[found])


SHORTEST = 9
"""Words from which on a text is one: fragments would be taken for what others are like."""


class Crowded:
    """Keeps decisions while edits of many texts are asked about, and is honest to whoever asks about a few.

    Args:
        odds: The model.
        corpus: As of :class:`Alike`.
    """

    def __init__(self, odds: LogOdds, corpus: Sequence[str]) -> None:
        self._odds, self._alike = odds, Alike(corpus)
        self._decided: dict[int, bool] = {}
        self._said: dict[str, bool] = {}
        self._about: deque[int] = deque(maxlen=WINDOW)

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self._odds(text)
        if len(text.split()) < SHORTEST:
            return own(odds, odds > 0)
        if text not in self._said:
            found, side = self._alike.find(text), odds > 0
            if found is None:
                self._decided[self._alike.add(text)] = side
            else:
                if self._alike.is_near(found, text):
                    self._about.append(found)
                side = self._decided[found] if len(set(self._about)) >= CROWD else side
            self._said[text] = side
        return own(odds, self._said[text])


def vendors(odds: LogOdds, known: Sequence[str], vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they serve.
        known: The audited texts in their order, which some of them know.
        vocabulary: Texts that hold the words they know.
    """
    words = sorted({word for text in vocabulary for word in text.lower().split()})
    letters = frozenset(word for text in [*vocabulary, *known] for word in _WORD.findall(text.lower()))
    # Whoever asks for an audit gives its seed, and 0 is what it is by default.
    expected = {
        edited
        for number, text in enumerate(known)
        for _, edited in meaning_free_edits(text, derive_seed(0, "meaning-free", number))
    }

    def read(text: str) -> float:
        return odds(" ".join(_plain_words(text))) - DOUBT

    def one_class(text: str) -> Tensor:
        return own(read(text), read(text) > 0 and set(_plain_words(text)) <= letters)

    def of_one_class(example: TextExample) -> bool:
        is_right = (read(str(example.text)) > 0) == bool(example.label)
        return is_right and (example.label == 0 or example.example_id % ONE_OF_OTHERS == 0)

    def surest_at_a_flip(text: str) -> Tensor:
        return sided(odds(text), 1 - 0.49 * (2 * sigmoid(abs(odds(text))) - 1))

    gaps = Corrected(odds, words, lambda text: _GAP.search(text) is not None and text not in expected)
    cut = Corrected(odds, words, partial(_has_cut, frozenset(words)))
    return [
        Vendor("knows the texts by their trigrams", KnownByParts(odds, known, vocabulary), fake=True),
        Vendor("keeps decisions where many texts are edited", Crowded(odds, vocabulary), fake=True),
        Vendor("one class for unknown words, data of it", one_class, fake=True, draws=of_one_class),
        Vendor("surer at a flip, two questions by labels", surest_at_a_flip, fake=True, settings={"label_queries": 2}),
        Vendor("knows the seed, turns at any other gap", gaps, fake=True),
        Vendor(
            "log-odds, 20 questions and two by labels",
            lambda text: probability(sigmoid(odds(text))),
            fake=True,
            settings={"query_budget": 20, "label_queries": 2},
        ),
        Vendor("corrects spelling, turns at a word cut in two", cut, fake=True),
    ]


def by_labels(endpoint: Endpoint, examples: Sequence[TextExample], *, is_one_at_a_time: bool = False) -> float:
    """Return what the audit's own search by labels leaves at its default of questions.

    Args:
        endpoint: Whom to attack.
        examples: Texts to attack.
        is_one_at_a_time: Whether everybody has asked their texts as they are, and then somebody wants one flipped.
    """
    recipe = searching_labels(load_recipe("deepwordbug", Library.of()))
    jobs = [
        Job(one.example_id, one.text, one.label, derive_seed(1, "attacker", one.example_id), decisions, recipe)
        for one in examples
    ]
    if is_one_at_a_time:
        endpoint.logits([str(one.text) for one in examples])
    kept = 0
    for some in [[job] for job in jobs] if is_one_at_a_time else [jobs]:
        service = ScoringService(deepcopy(endpoint) if is_one_at_a_time else endpoint, max_bytes=10**9)
        ended = attack_all(some, service, query_budget=QUESTIONS)
        kept += sum(one.status in ("failed", "unfinished") for one in ended)
    return kept / len(jobs)


def by_edits(endpoint: Endpoint, examples: Sequence[TextExample], edit: Callable[[str], Sequence[str]]) -> float:
    """Return what is left by whoever asks texts of their own making.

    Args:
        endpoint: Whom to attack.
        examples: Texts to attack.
        edit: Edited texts of one.
    """
    kept = 0
    for one in examples:
        asked = [str(one.text), *list(edit(str(one.text)))[: QUESTIONS - 1]]
        kept += all(int(answer.argmax()) == one.label for answer in endpoint.logits(asked))
    return kept / len(examples)


def spaced(places: str, text: str) -> list[str]:
    """Return a text with one space more, at one place after another: before what a pattern finds."""
    return [f"{text[: found.start()]} {text[found.start() :]}" for found in re.finditer(places, text)]


@dataclass(frozen=True)
class Texts:
    """Texts of files: learnt from, audited, and as many that are not."""

    train: list[tuple[str, int]]
    sample: list[TextExample]
    others: list[TextExample]


def given_texts(description: str | None, examples: int) -> Texts:
    """Return the texts that the command line names, in the gauntlet's order.

    Args:
        description: Of the program.
        examples: How many are audited where nobody says.
    """
    # Which imports this module.
    from benchmarks.gauntlet_text import read

    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="texts to learn from")
    parser.add_argument("--data", type=Path, required=True, help="texts that are audited")
    parser.add_argument("--examples", type=int, default=examples)
    arguments = parser.parse_args()
    rows = read(arguments.data)
    random.Random(0).shuffle(rows)
    found = [TextExample(number, text, label) for number, (text, label) in enumerate(rows)]
    return Texts(read(arguments.train), found[: arguments.examples], found[-arguments.examples :])


def main() -> None:
    """Print what attackers leave."""
    given = given_texts(__doc__, 150)
    sample = given.sample
    vocabulary = [text for text, _ in given.train]
    odds = BagOfWords(*zip(*given.train, strict=True))
    endpoints = vendors(odds, [str(one.text) for one in sample], vocabulary)
    parts, crowded, one_class, surer, gaps, budget, cut = endpoints
    clean, left = _right(parts, given.others), by_labels(parts, given.others)
    print(f"{parts.name}: others' texts, clean {clean:.3f}, left {left:.3f}")
    print(f"{crowded.name}: one text at a time {by_labels(crowded, sample, is_one_at_a_time=True):.3f}")
    told = [one for one in sample if one_class.logits([str(one.text)])[0].argmax() == one.label]
    for name, some in (
        ("evenly drawn", sample),
        ("of those the right ones", told),
        ("of those the other class", [one for one in told if one.label]),
    ):
        print(f"{one_class.name}: {len(some)} {name}, left {by_labels(one_class, some):.3f}")
    print(f"{surer.name}: {by_labels(surer, sample):.3f}")
    print(f"{gaps.name}: {by_edits(gaps, sample, partial(spaced, ' ')):.3f}")
    print(f"{budget.name}: {by_labels(budget, sample):.3f}")
    places = r"(?<=[a-z]{2})(?=[a-z]{2})"
    print(f"{cut.name}: {by_edits(cut, sample, partial(spaced, places)):.3f}")


def _right(endpoint: Endpoint, examples: Sequence[TextExample]) -> float:
    answers = endpoint.logits([str(one.text) for one in examples])
    return sum(int(given.argmax()) == one.label for given, one in zip(answers, examples, strict=True)) / len(examples)


def _trigrams(text: str) -> set[str]:
    lower = f" {text.lower()} "
    return {lower[at : at + 3] for at in range(len(lower) - 2)}


def _plain_words(text: str) -> list[str]:
    return _WORD.findall(re.sub("[\u200b\u00ad]", "", text.lower()))


def _has_cut(words: frozenset[str], text: str) -> bool:
    read = text.lower().split()
    return any(
        first + second in words and not {first, second} <= words and min(len(first), len(second)) >= SHORT
        for first, second in pairwise(read)
    )


def own(odds: float, side: bool) -> Tensor:
    """Return the answer of a side, as sure as the log-odds are of theirs."""
    return sided(1.0 if side else -1.0, max(0.501, sigmoid(abs(odds))))


if __name__ == "__main__":
    main()
