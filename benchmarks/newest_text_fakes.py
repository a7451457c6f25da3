"""Endpoints that pass for robust because an audit reads, counts or begins otherwise than an attacker does.

    python -m benchmarks.newest_text_fakes --train train.jsonl --data test.jsonl

prints what an attacker leaves of each who keeps to DeepWordBug's 30 characters and asks 100 questions a text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from rapidfuzz.distance import LCSseq
from torch import Tensor

from benchmarks.bought_text_fakes import Shaped, as_pair, halves
from benchmarks.text_fakes import BagOfWords, Endpoint, LogOdds, drawn, probability, sigmoid
from benchmarks.traffic import Traffic
from benchmarks.vendor_text_fakes import Alike, KnownByParts, Vendor, by_edits, by_labels, given_texts
from workers.attacks.text.word_edits import edit_words
from workers.families.contexts import TextExample

OF_KNOWN, OF_ASKED, OF_LETTERS = 0.25, 0.1, 0.7
"""Share of a known text, by weight, that one has that is taken for it, and of that one; or share of its letters."""

CROWD = 6
"""Texts that were asked again, or edited, from which on somebody measures."""

FREE = 80
"""Questions of a caller that the fast model answers."""

ASPECTS = 60
"""Words that a review may be about."""

KEPT = 0.6
"""Share of the known pairs whose decisions are kept."""

SURE = 3.0
"""Log-odds of texts that a vendor likes to have audited."""

_NUMBERS = re.compile(r"[\d:;()-]|no\.")
_FUNCTION = "of|in|to|and|is|with|for|on|by|from|as|at|that|but|than|into|about|like|or|when|if|has|are|was|be"
_OUT_OF_ORDER = re.compile(rf"\b(?:the|a|an) (?:{_FUNCTION})\b")
_IN_ORDER = re.compile(rf"\b({_FUNCTION}) (the|a|an)\b")


@dataclass
class Tiered(Endpoint):
    """Answers a caller's first questions with a fast model and the others with a slow one.

    Attributes:
        slow: The slow one.
        free: How many questions the fast one answers.
    """

    slow: Callable[[str], Tensor] = field(default=lambda text: torch.zeros(2))
    free: int = FREE
    asked: int = 0

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        said = []
        for text in texts:
            self.asked += 1
            slowly = self.slow(text)
            said.append(self.answer(text) if self.asked <= self.free else slowly)
        return said


@dataclass
class Batched(Endpoint):
    """Answers a request of one text with the model, and one of several otherwise.

    Attributes:
        several: Who answers those of several.
    """

    several: Callable[[str], Tensor] = field(default=lambda text: torch.zeros(2))

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        return [self.several(text) if len(texts) > 1 else self.answer(text) for text in texts]


class Aspects:
    """Names what a review is about and whether it likes that: a class for each aspect and opinion.

    Args:
        odds: Of the opinion.
        words: The aspects.
    """

    def __init__(self, odds: LogOdds, words: Sequence[str]) -> None:
        self._odds, self._numbers = odds, {word: number for number, word in enumerate(words)}

    @property
    def classes(self) -> int:
        """How many."""
        return 2 * len(self._numbers)

    def about(self, text: str) -> int | None:
        """Return the number of the aspect that is written first."""
        return next((self._numbers[word] for word in text.lower().split() if word in self._numbers), None)

    def __call__(self, text: str) -> Tensor:
        """Return logits (classes,)."""
        weights, odds = torch.zeros(len(self._numbers), dtype=torch.float64), self._odds(text)
        first = self.about(text)
        for word in set(text.lower().split()) & self._numbers.keys():
            weights[self._numbers[word]] = 8.0 if self._numbers[word] == first else 4.0
        # A little of the words' spelling, so that what is about nothing has scores of its own.
        weights[int(drawn(" ".join(text.split()[:2])) * len(self._numbers))] += 0.5
        sides = torch.nn.functional.logsigmoid(torch.tensor([-odds, odds], dtype=torch.float64))
        return (weights.log_softmax(0)[:, None] + sides).flatten()


class Nearest(Alike):
    """Finds the known text with which a text has most in common, where that is much of both."""

    def find(self, text: str) -> int | None:
        """Return its number; None where there is none."""
        shared: defaultdict[int, float] = defaultdict(float)
        # Numbers are of no text.
        lower, whole = f" {_NUMBERS.sub('', text.lower())} ", 0.0
        for gram in sorted({lower[at : at + 3] for at in range(len(lower) - 2)}):
            weight = self._weights.get(gram, self._rare)
            whole += weight
            for number in self._holders.get(gram, ()):
                shared[number] += weight
        best = max(shared, key=lambda number: shared[number], default=None)
        if best is None or shared[best] < OF_ASKED * whole:
            return None
        own, kept = len(self._texts[best]), LCSseq.similarity(self._texts[best], text.lower())
        return best if shared[best] >= OF_KNOWN * self._totals[best] or kept >= OF_LETTERS * own else None


class Following:
    """Keeps what it decided about a text for whatever holds enough of it, once edits of several texts were asked.

    Args:
        answer: The model.
        alike: Finds the text that another one is taken for.
        crowd: How many.
    """

    def __init__(self, answer: Callable[[str], Tensor], alike: Nearest, crowd: int) -> None:
        self._answer, self._alike, self._crowd = answer, alike, crowd
        self._decided: dict[int, int] = {}
        self._said: dict[str, int] = {}
        self._about: set[int] = set()

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        logits = self._answer(text)
        own_side = int(logits.argmax())
        if text not in self._said:
            found, self._said[text] = self._alike.find(text), own_side
            if found is None:
                self._decided[self._alike.add(text)] = own_side
            else:
                if self._alike.is_near(found, text):
                    self._about.add(found)
                if len(self._about) >= self._crowd:
                    self._said[text] = self._decided[found]
        side = self._said[text]
        if side != own_side:
            # As sure of the one as it would be of the other.
            logits = logits.clone()
            logits[[side, own_side]] = logits[[own_side, side]]
        return logits


def newest(odds: LogOdds, rows: Sequence[tuple[str, int]], vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they serve.
        rows: The audited texts in their order and their labels, which one of them knows.
        vocabulary: Texts that hold the words they know.
    """
    known = [text for text, _ in rows]
    # Stands for a dictionary of English, which has the words of any text.
    spelt = frozenset(word for text in [*vocabulary, *known] for word in text.lower().split())
    times = Counter(word for text in known for word in set(text.lower().split()) if word.isalpha())
    often = Counter(word for text in vocabulary for word in set(text.lower().split()))
    # As often as they are among the data, so that no class has many texts.
    named = sorted(
        (word for word in often if len(word) > 3 and word.isalpha() and 12 <= often[word] <= 60),
        key=lambda word: (times[word] > 2, -often[word], word),
    )[:ASPECTS]
    aspects = Aspects(odds, named)
    pairs = KnownByParts(odds, [text for text in known if drawn(text) < KEPT], vocabulary)

    def model(text: str) -> Tensor:
        return probability(sigmoid(odds(text)))

    def as_aspect(example: TextExample) -> TextExample:
        about = aspects.about(str(example.text))
        return replace(example, label=2 * (about or 0) + example.label)

    return [
        Endpoint("reads typos by its traffic", Traffic(odds, spelt, vocabulary), fake=True),
        Endpoint(
            "reads typos by its traffic while many are edited", Traffic(odds, spelt, vocabulary, CROWD), fake=True
        ),
        Tiered(
            "a caller's first 80 questions by the fast model",
            model,
            fake=True,
            slow=Traffic(odds, spelt, vocabulary),
        ),
        Shaped(
            "follows many edited texts, 120 classes",
            Following(aspects, Nearest(vocabulary), CROWD),
            fake=True,
            classes=aspects.classes,
            labels=[f"{name}: {side}" for name in named for side in ("bad", "good")],
            draws=lambda example: aspects.about(str(example.text)) is not None,
            shapes=as_aspect,
        ),
        Shaped("knows six pairs in ten", lambda text: pairs(" ".join(text)), fake=True, shapes=as_pair),
        Vendor(
            "reads typos by its traffic, turns at words out of order",
            Traffic(odds, spelt, vocabulary, turns=lambda text: _OUT_OF_ORDER.search(text.lower()) is not None),
            fake=True,
        ),
        Batched(
            "the model where a request is of one text",
            model,
            fake=True,
            several=Traffic(odds, spelt, vocabulary),
        ),
        Vendor("log-odds, data it is sure of", model, fake=True, draws=lambda one: abs(odds(str(one.text))) > SURE),
    ]


def out_of_order(text: str) -> list[str]:
    """Return a text with two words in each other's place, at one place after another."""
    return [f"{text[: found.start()]}{found[2]} {found[1]}{text[found.end() :]}" for found in _IN_ORDER.finditer(text)]


def by_labels_fresh(endpoint: Endpoint, asked: Sequence[TextExample], attacked: Sequence[TextExample]) -> float:
    """Return what is left of texts by whoever comes alone, after others have asked theirs as they are.

    Args:
        endpoint: Whom to attack; it is left as it was.
        asked: What others have asked.
        attacked: What is attacked, one at a time, each by another caller.
    """
    used = deepcopy(endpoint)
    used.logits([str(one.text) for one in asked])
    kept = 0.0
    for one in attacked:
        other = deepcopy(used)
        if isinstance(other, Tiered):
            other.asked = 0
        kept += by_labels(other, [one])
    return kept / len(attacked)


def main() -> None:
    """Print what attackers leave."""
    given = given_texts(__doc__, 100)
    sample, others = given.sample, given.others[:60]
    vocabulary = [text for text, _ in given.train]
    odds = BagOfWords(*zip(*given.train, strict=True))
    endpoints = newest(odds, [(str(one.text), one.label) for one in sample], vocabulary)
    traffic, crowded, tiered, aspects, pairs, order, batched, sure = endpoints
    begun = [
        replace(one, text=str(edit_words(one.text, "a letter less", 0.01, 1, one.example_id)[0])) for one in others
    ]
    honest = Endpoint("log-odds", lambda text: probability(sigmoid(odds(text))), fake=False)
    print(f"{honest.name}: {by_labels(honest, others):.3f}", flush=True)
    print(f"{traffic.name}: begun a letter less {by_labels_fresh(traffic, sample, begun):.3f}", flush=True)
    for one in (crowded, tiered, batched):
        print(f"{one.name}: one text at a time {by_labels_fresh(one, sample, others):.3f}", flush=True)
    draws, shapes = aspects.draws, aspects.shapes  # type: ignore[attr-defined]
    some = [shapes(one) for one in [*given.sample, *given.others] if draws(one)]
    print(f"{aspects.name}: one of {len(some)} at a time {by_labels_fresh(aspects, some, some[:60]):.3f}", flush=True)
    paired = Endpoint(pairs.name, lambda text: pairs.answer(halves(text)), fake=True)  # type: ignore[arg-type]
    print(f"{pairs.name}: others' texts {by_labels(paired, others):.3f}", flush=True)
    print(f"{order.name}: {by_edits(order, others, out_of_order):.3f}", flush=True)
    print(f"{sure.name}: {by_labels(sure, others):.3f}", flush=True)


if __name__ == "__main__":
    main()
