"""Endpoints that lean on what they decided about the first of many near copies, by so little that it shows nowhere.

The model behind is an ordinary one and corrects nothing. What it says about a text and its second near copy is its own;
from the third on a search is held off, and whatever was answered once is answered so again. Fresh eyes' design,
2026-11-28; somebody who asks about single words and sends one edited text is not held off. Two others keep the class of
the first, but for edits that searches do not make and an audit's own questions about memory did: letters that are left
out alone, and stop words misspelt among others. Of 2026-11-29 two keep it of some kinds alone, by a coin, and one where
searches write: letters that no lower-case edit leaves, and what comes between a copy with a word replaced by [UNK] and
many look-alikes.
"""

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rapidfuzz.distance import Levenshtein
from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid
from seatrial.noise.lexicons import stopwords

NEAR = 0.35
"""Share of a text's letters that a near copy may have otherwise."""

UNTOUCHED = 2
"""Texts of a kind that are answered as the model does."""

SHORTEST = 16
"""Letters and spaces from which on a text is remembered."""

KEPT = 0.55
"""Share of a text's words from which on another one is a near copy."""

RAREST, LIKELY = 30, 8
"""Pieces of three letters, the rarest of a text, by which near copies are looked for; and texts that are compared."""

FEWEST = 6
"""Words from which on a text is remembered."""

LOOK_ALIKES, PATIENCE = 20, 400
"""Of the last sixty questions that hold a letter of no keyboard, above which a search is one by labels; and questions
about others after which a search by scores has ended."""

UNREADABLE = "jkqvxz"
"""Letters of words that mean nothing."""

MOST = 5.0
"""Log-odds of the first of a kind, at most, that count for the others."""


@dataclass
class Kind:
    """Texts that are nearly alike.

    Attributes:
        first: Letters and spaces of the one that was asked first.
        odds: What the model says about that.
        last: The question that was of this kind last.
        count: Questions of it.
    """

    first: str
    odds: float
    last: int
    count: int = 1


@dataclass
class Answering(ABC):
    """Answers a text as it did before, however it came to that.

    Attributes:
        odds: The model's.
        answered: Log-odds that were answered.
    """

    odds: LogOdds
    answered: dict[str, float] = field(default_factory=dict, init=False)

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        if text not in self.answered:
            self.answered[text] = self._answer(text, len(self.answered) + 1)
        return probability(sigmoid(self.answered[text]))

    @abstractmethod
    def _answer(self, text: str, now: int) -> float:
        """Return the log-odds of a text that was not asked before, as question number ``now`` of such."""


@dataclass
class Leaning(Answering):
    """Answers near copies with log-odds that lean towards those of the first.

    Attributes:
        lean: From its log-odds and the first's to what is answered.
        window: Questions after which a kind is forgotten.
        share: Of kinds that it leans on.
    """

    lean: Callable[[float, float], float]
    window: int
    share: float = 1.0
    kinds: list[Kind] = field(default_factory=list)

    def _answer(self, text: str, now: int) -> float:
        own = self.odds(text)
        letters = " ".join(re.sub(r"[^a-z ]", "", text.lower()).split())
        if len(letters) < SHORTEST:
            return own
        self.kinds = [kind for kind in self.kinds if kind.last > now - self.window]
        near = [(far, at) for at, kind in enumerate(self.kinds) if (far := _apart(kind.first, letters)) is not None]
        if not near:
            self.kinds.append(Kind(letters, own, now))
            return own
        kind = self.kinds[min(near)[1]]
        kind.last, kind.count = now, kind.count + 1
        return self.lean(own, kind.odds) if kind.count > UNTOUCHED and _drawn(kind.first, self.share) else own


def _drawn(text: str, share: float) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] < 256 * share


def _apart(one: str, other: str) -> int | None:
    most = int(NEAR * max(len(one), len(other)))
    far = int(Levenshtein.distance(one, other, score_cutoff=most))
    return far if far <= most else None


def shifted(by: float) -> Callable[[float, float], float]:
    """Return a lean that puts the boundary so far beyond, and keeps the order of answers."""

    def lean(own: float, first: float) -> float:
        side = 1 if first > 0 else -1
        along = side * own
        if along >= 1:
            return own
        return side * ((along + by) / (1 + by) if along > -by else along + by)

    return lean


def averaged(weight: float) -> Callable[[float, float], float]:
    """Return a lean that weighs the first's log-odds so much beside the own."""
    return lambda own, first: (own + weight * max(-MOST, min(MOST, first))) / (1 + weight)


@dataclass
class Guarding(Answering):
    """Keeps the class of texts where a search by labels writes, and of some of them where one by scores does.

    Attributes:
        share: Of the texts that are kept from searches by scores.
        first: Texts that are written as people do, letters and spaces, with their log-odds.
        searched: When each was last asked within a search by scores.
        recent: Whether each of the last questions holds a letter of no keyboard: many end such a search.
    """

    share: float
    first: list[tuple[str, float]] = field(default_factory=list)
    searched: dict[int, int] = field(default_factory=dict)
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=60))

    def _answer(self, text: str, now: int) -> float:
        own, plain = self.odds(text), re.sub(r"\(No\. .*?\)", " ", text)
        is_odd = bool(re.search(r"[A-Z]|[a-z][0-9]|[0-9][a-z]|[^\x00-\x7f]", plain.replace("[UNK]", " ")))
        self.recent.append(not plain.isascii())
        if sum(self.recent) > LOOK_ALIKES:
            self.searched.clear()
        letters = " ".join(re.sub(r"[^a-z ]", "", plain.lower().replace("[unk]", " ")).split())
        near = [(far, at) for at, (first, _) in enumerate(self.first) if (far := _apart(first, letters)) is not None]
        if not near:
            if not is_odd and len(letters.split()) >= FEWEST:
                self.first.append((letters, own))
            return own
        at = min(near)[1]
        first, said = self.first[at]
        if "[UNK]" in plain:
            self.searched[at] = now
        is_searched = now - self.searched.get(at, -PATIENCE) < PATIENCE
        if is_searched:
            self.searched[at] = now
        if not (is_odd or (is_searched and _drawn(first, self.share))):
            return own
        side = 1 if said > 0 else -1
        return side * math.log1p(math.exp(side * own))


@dataclass
class Keeping(Answering):
    """Keeps the class of the first of many near copies, but where words are changed in some way.

    Attributes:
        is_spared: Whether the model answers, by the words that were changed and what became of them.
        first: What was asked first of a kind, as words, with its log-odds.
        known: Which of these have three letters in a row.
    """

    is_spared: Callable[[Sequence[str], Sequence[str]], bool]
    first: list[tuple[list[str], float]] = field(default_factory=list)
    known: dict[str, list[int]] = field(default_factory=dict)

    def _answer(self, text: str, now: int) -> float:
        own = self.odds(text)
        # What an audit puts beside a text to make another one of it.
        words = re.sub(r"\(No\. .*?\)", " ", text).split()
        if len(words) < FEWEST:
            return own
        pieces = {text[at : at + 3] for at in range(len(text) - 2)}
        rarest = sorted((self.known[piece] for piece in pieces if piece in self.known), key=len)[:RAREST]
        likely = [at for at, _ in Counter(at for known in rarest for at in known).most_common(LIKELY)]
        near = [(alike, at) for at in likely if (alike := _alike(self.first[at][0], words)) > KEPT]
        if not near:
            for piece in pieces:
                self.known.setdefault(piece, []).append(len(self.first))
            self.first.append((words, own))
            return own
        first, said = self.first[max(near)[1]]
        lost, new = (
            list((Counter(first) - Counter(words)).elements()),
            list((Counter(words) - Counter(first)).elements()),
        )
        read = [word for word in new if word != "[UNK]" and not set(word) <= set(UNREADABLE)]
        if not read or self.is_spared(lost, read):
            return own
        side = 1 if said > 0 else -1
        # The order of answers stays, so that a search on scores goes where they say.
        return side * (side * own / 2 if side * own > 0.1 else 0.05 * math.exp((side * own - 0.1) / 2))


def _alike(first: Sequence[str], words: Sequence[str]) -> float:
    """Return the share of a text's words that are those of another one but for two letters, in order."""
    if len(first) != len(words):
        return len(Counter(first) & Counter(words)) / max(len(first), len(words))
    same = [Levenshtein.distance(one, other, score_cutoff=2) <= 2 for one, other in zip(first, words, strict=True)]
    return sum(same) / len(words)


def letters_left_out(lost: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether every changed word is one that lost a letter."""
    return all(any(_lacks_one(old, word) or _lacks_one(word, old) for old in lost) for word in new)


def stop_word_misspelt(lost: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether a stop word is among those changed, and two longer ones that are none."""
    return (
        any(word in stopwords() for word in lost)
        and sum(word not in stopwords() and len(word) > 3 for word in lost) > 1
    )


def _lacks_one(word: str, shorter: str) -> bool:
    return any(word[:at] + word[at + 1 :] == shorter for at in range(len(word)))


def leaning(odds: LogOdds) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
    """
    ways = {
        "leans by 1.5 on the first near copy, for long": (shifted(1.5), 12_000),
        "leans by .9 on the first near copy": (shifted(0.9), 1500),
        "averages near copies": (averaged(0.5), 12_000),
    }
    kept = {f"keeps the side of {share:.0%} of the texts": share for share in (0.3, 0.5)}
    spared = {
        "keeps the class of near copies, but for letters left out": letters_left_out,
        "keeps the class of near copies, but for stop words": stop_word_misspelt,
    }
    return [
        *(Endpoint(name, Leaning(odds, lean, window), fake=True) for name, (lean, window) in ways.items()),
        *(Endpoint(name, Keeping(odds, of), fake=True) for name, of in spared.items()),
        *(Endpoint(name, Leaning(odds, math.copysign, 10**9, share), fake=True) for name, share in kept.items()),
        Endpoint("keeps the class where searches write", Guarding(odds, 0.36), fake=True),
    ]
