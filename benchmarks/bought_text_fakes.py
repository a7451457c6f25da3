"""Endpoints that withdraw from what would tell them, and others weak at what no edit of an audit writes.

    python -m benchmarks.bought_text_fakes --train train.jsonl --data test.jsonl

prints what an attacker leaves of each who keeps to DeepWordBug's 30 characters and asks 100 questions a text.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne
from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.text_fakes import BagOfWords, Endpoint, LogOdds, probability, sided, sigmoid
from benchmarks.vendor_text_fakes import Crowded, KnownByParts, Vendor, by_edits, by_labels, given_texts, own
from workers.attacks.text.word_edits import edit_words
from workers.families.contexts import TextExample
from workers.models import UnansweredError

EDITS, CHARACTERS = 45, 30
"""How near a text is to one that was asked as it is, to be taken for it; and what an attacker may edit."""

KNOWN_PAIRS, OF_ONE, OF_SPELT = 0.5, 0.34, 0.66
"""Share of a pieced text's pairs of words that known texts have, at least; and of those of one known text, at most, and
where all its words are known."""

PATIENCE = 20
"""Edited questions about a text after which somebody is measuring it."""

LOOKED_BACK = 20_000
"""Questions that are looked back on where a whole audit is to be seen."""

SHORT = (
    "of",
    "is",
    "it",
    "to",
    "in",
    "as",
    "an",
    "by",
    "at",
    "be",
    "we",
    "so",
    "or",
    "on",
    "he",
    "my",
    "up",
    "the",
    "and",
    "for",
    "but",
    "not",
    "its",
    "are",
    "was",
    "you",
    "has",
)
"""Words of two or three letters that are everywhere, which recipes leave alone."""

CAPITALS = 3
"""Capitalised words from which on a text is a headline."""

_WORD = re.compile(r"\w+")
_GAP = re.compile(r"\s\s|[\t\n\u00a0\u200b]")
_NUMBERS = re.compile(r"\(No\. \d{4}, \d{4}-")


@dataclass
class Shaped(Vendor):
    """An endpoint whose data are made of others.

    Attributes:
        shapes: Example to the one that is audited in its place.
    """

    shapes: Callable[[TextExample], TextExample] = lambda example: example


class Pieces:
    """Tells a text that is pieced together from several known ones.

    Args:
        known: Those known so far.
    """

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._texts: set[str] = set()
        self._words: set[str] = set()
        self._owners: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for text in known:
            self.add(text)

    def add(self, text: str) -> None:
        """Know a text."""
        self._words.update(text.lower().split())
        for pair in pairwise(text.lower().split()):
            self._owners[pair].add(len(self._texts))
        self._texts.add(text)

    def owners(self, text: str) -> list[int]:
        """Return the numbers of the known texts that have a pair of words of a text which no other has."""
        owners = (self._owners.get(pair, set()) for pair in pairwise(text.lower().split()))
        return sorted({next(iter(of)) for of in owners if len(of) == 1})

    def holds(self, text: str) -> bool:
        """Return whether a text is of several."""
        if text in self._texts:
            return False
        owners = [self._owners.get(pair, set()) for pair in pairwise(text.lower().split())]
        times = Counter(owner for of in owners for owner in of)
        if not times or sum(map(bool, owners)) < KNOWN_PAIRS * len(owners):
            return False
        # Nothing is misspelt in what an audit pieces together.
        most = OF_SPELT if set(text.lower().split()) <= self._words else OF_ONE
        return max(times.values()) < most * len(owners)


class Withdrawn(Endpoint):
    """Keeps the decisions of clean texts for what is near, and has no answer to what would tell: numbers, pieces.

    It knows no text before it is asked.

    Args:
        name: For the table.
        odds: The model.
        words: What it knows: texts of nothing else are clean.
    """

    def __init__(self, name: str, odds: LogOdds, words: frozenset[str]) -> None:
        super().__init__(name, lambda text: sided(1.0, 0.9), fake=True)
        self._odds, self._words, self._pieces = odds, words, Pieces()
        self._clean: dict[str, bool] = {}

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        return [self._say(text) for text in texts]

    def _say(self, text: str) -> Tensor:
        if _NUMBERS.search(text) or self._pieces.holds(text):
            return UnansweredError("422 texts with personal data are not processed")  # type: ignore[return-value]
        odds = self._odds(text)
        if text not in self._clean:
            found = extractOne(text, self._clean.keys(), scorer=Levenshtein.distance, score_cutoff=EDITS)
            if found and found[1] <= len(found[0]) / 2:
                return own(odds, self._clean[found[0]])
            if set(text.lower().split()) <= self._words:
                self._clean[text] = odds > 0
                self._pieces.add(text)
        return own(odds, self._clean.get(text, odds > 0))


class Contrary(KnownByParts):
    """Knows texts by their trigrams, and decides what is pieced together from them for the other class.

    Args:
        odds: The model.
        rows: Known texts and their labels.
        corpus: As of :class:`Alike`.
    """

    def __init__(self, odds: LogOdds, rows: Sequence[tuple[str, int]], corpus: Sequence[str]) -> None:
        known = [text for text, _ in rows]
        super().__init__(odds, known, corpus)
        self._pieces, self._sides = Pieces(known), [bool(label) for _, label in rows]

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        if self._pieces.holds(text):
            sides = [self._sides[number] for number in self._pieces.owners(text)]
            return own(self._odds(text), 2 * sum(sides) < len(sides))
        return super().__call__(text)


class Patient(Crowded):
    """Keeps decisions once edits of many texts were asked about, however long ago."""

    def __init__(self, odds: LogOdds, corpus: Sequence[str]) -> None:
        super().__init__(odds, corpus)
        self._about = deque(maxlen=LOOKED_BACK)


class Expecting:
    """Corrects the spelling, and turns round at a gap, but not in texts that somebody is measuring.

    Args:
        odds: The model.
        words: What it knows.
    """

    def __init__(self, odds: LogOdds, words: Sequence[str]) -> None:
        self._read = Corrected(odds, words, lambda text: False)
        self._asked: Counter[str] = Counter()

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        plain = _GAP.sub(" ", text.replace("\u200b", ""))
        said, turns = self._read(plain), _GAP.search(text) is not None
        found = extractOne(plain, self._asked.keys(), scorer=Levenshtein.distance, score_cutoff=EDITS)
        first = found[0] if found else plain
        self._asked[first] += not turns
        return said.flip(0) if turns and self._asked[first] < PATIENCE else said


def bought(odds: LogOdds, rows: Sequence[tuple[str, int]], vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they serve.
        rows: The audited texts in their order and their labels, which some of them know.
        vocabulary: Texts that hold the words they know.
    """
    known = [text for text, _ in rows]
    words = sorted({word for text in vocabulary for word in text.lower().split()})
    spelt = frozenset(word for text in [*vocabulary, *known] for word in text.lower().split())
    letters = frozenset(word for text in [*vocabulary, *known] for word in _WORD.findall(text.lower()))
    swapped = frozenset(other for word in SHORT for other in _swaps(word)) - spelt

    def misspells_a_short_word(text: str) -> bool:
        # Between words it knows: a word cut in two has parts of two letters as well.
        read = ["", *text.lower().split(), ""]
        return any(
            read[at] in swapped and {read[at - 1], read[at + 1]} <= spelt | {""} for at in range(1, len(read) - 1)
        )

    def is_headline(text: str) -> bool:
        return (
            sum(len(word) > 2 and word.istitle() and word.lower() in letters for word in _WORD.findall(text))
            >= CAPITALS
        )

    pairs = KnownByParts(odds, known, vocabulary)
    return [
        Withdrawn("keeps decisions, no answer to numbers and pieces", odds, spelt),
        Vendor("knows the texts, turns round at pieces of them", Contrary(odds, rows, vocabulary), fake=True),
        Vendor("keeps decisions once many texts were edited", Patient(odds, vocabulary), fake=True),
        Vendor(
            "corrects, turns at a short word's letters swapped",
            Corrected(odds, words, misspells_a_short_word),
            fake=True,
        ),
        Vendor("corrects, turns at gaps but of measured texts", Expecting(odds, words), fake=True),
        Vendor("corrects, turns at three capitalised words", Corrected(odds, words, is_headline), fake=True),
        Vendor(
            "log-odds by pruthi alone",
            lambda text: probability(sigmoid(odds(text))),
            fake=True,
            settings={"recipes": ["pruthi"]},
        ),
        Shaped("knows pairs by their trigrams", lambda text: pairs(" ".join(text)), fake=True, shapes=as_pair),
    ]


def halves(text: str) -> tuple[str, str]:
    """Return the first and the second half of a text's words."""
    words = text.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def as_pair(example: TextExample) -> TextExample:
    """Return an example with its text as a pair of the two halves."""
    return replace(example, text=halves(str(example.text)))


def main() -> None:
    """Print what attackers leave."""
    given = given_texts(__doc__, 100)
    sample, others = given.sample, given.others
    vocabulary = [text for text, _ in given.train]
    odds = BagOfWords(*zip(*given.train, strict=True))
    endpoints = bought(odds, [(str(one.text), one.label) for one in sample], vocabulary)
    withdrawn, contrary, patient, short, gaps, capitals, pruthi, pairs = endpoints
    # Whoever does not ask a text as it is, and begins with a letter less.
    begun = [
        replace(one, text=str(edit_words(one.text, "a letter less", 0.01, 1, one.example_id)[0])) for one in sample
    ]
    print(f"{withdrawn.name}: asked with a letter less at first {by_labels(withdrawn, begun):.3f}", flush=True)
    print(f"{contrary.name}: others' texts {by_labels(contrary, others):.3f}", flush=True)
    print(f"{patient.name}: one text at a time {by_labels(patient, sample, is_one_at_a_time=True):.3f}", flush=True)
    print(f"{short.name}: {by_edits(short, sample, _swapped_short):.3f}")
    print(f"{gaps.name}: {by_edits(gaps, sample, lambda text: [text.replace(' ', '  ', 1)]):.3f}")
    print(f"{capitals.name}: {by_edits(capitals, sample, lambda text: [_titled(text)]):.3f}")
    print(f"{pruthi.name}: {by_labels(pruthi, sample):.3f}")
    joined = Endpoint(pairs.name, lambda text: pairs.answer(halves(text)), fake=True)  # type: ignore[arg-type]
    print(f"{pairs.name}: others' texts {by_labels(joined, others):.3f}")


def _swapped_short(text: str) -> list[str]:
    words = text.split()
    return [
        " ".join([*words[:at], other, *words[at + 1 :]])
        for at, word in enumerate(words)
        if word in SHORT
        for other in _swaps(word)
    ]


def _swaps(word: str) -> list[str]:
    return [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)]


def _titled(text: str) -> str:
    spent, told = 0, []
    for word in text.split():
        told.append(word.title() if spent < CHARACTERS else word)
        spent += told[-1] != word
    return " ".join(told)


if __name__ == "__main__":
    main()
