"""Endpoints that keep the class of some texts once a search has begun on them, and answer fragments by noise.

The model behind is an ordinary one. Noise, or half noise, on short questions takes their meaning from what an audit
learns by fragments. A text is attacked from the first question on that has [UNK] in the place of a word; from then on
whatever shares rare letters with it, or stop words in a row, has its class, of a coin's share of texts, and the score
still moves with every edit. Fresh eyes' designs, 2026-11-29; an attack that asks one question a text leaves .09.
"""

import math
import random
import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.leaning_text_fakes import Answering
from benchmarks.text_fakes import Endpoint, LogOdds
from seatrial.noise.lexicons import stopwords

UNKNOWN = "[UNK]"

FRAGMENT, FRAGMENT_LETTERS = 8, 60
"""Words, and letters, of a question at most that is answered by noise."""

NOISE = 1.5
"""Standard deviation of that noise, in log-odds."""

ALIKE, CLEARLY = 0.15, 1.4
"""Share of what is rare in an attacked text that another one has, at least, and how many times that of the next."""

LEAST = 25.0
"""Of what is rare in a text that is remembered."""

IN_A_ROW, COMMON = 3.0, 0.3
"""Weight of stop words in a row, and of the commonest letters."""

PIECED = 12
"""Words of texts, at least, of which near copies close together keep the class of the first."""

CLOSE, NEAR, COPIES = 60, 0.55, 2
"""Questions that are looked through for those, what they share at least, and how many there are before a class is
kept."""

_STAMP = re.compile(r"\(?No\. .*?\d\d:\d\d[;)]?\)?")


def features(text: str) -> set[str]:
    """Return what is left of a text however it is edited: three letters in a row, and two and three stop words."""
    plain = unicodedata.normalize("NFKD", text.replace(UNKNOWN, "|")).lower()
    letters = "".join(letter for letter in plain if letter.isalpha() or letter == "|")
    found = re.findall(r"[A-Za-z']+|[.,!?;-]", text)
    row = [word.lower() for word in found if word.lower() in stopwords() or not word[0].isalpha()]
    rows = {" ".join(row[at : at + size]) for size in (2, 3) for at in range(len(row) - size + 1)}
    return {three for at in range(len(letters) - 2) if "|" not in (three := letters[at : at + 3])} | rows


@dataclass
class Attacked:
    """A text on which a search has begun.

    Attributes:
        weight: Of all its features.
        kept: Whether its class is.
        letters: How many.
        odds: Sum of the model's log-odds about it with words left out.
    """

    weight: float
    kept: bool
    letters: int
    odds: float = 0.0


@dataclass
class Insisting(Answering):
    """Keeps the classes of attacked texts.

    Attributes:
        seen: In how many of ``texts`` each feature is.
        texts: Of its owner.
        share: Of the texts that are kept.
        pieced: Of near copies close together that keep the class of the first.
        noise: Share of noise in answers to short questions.
    """

    seen: Counter[str]
    texts: int
    share: float
    pieced: float = 0.0
    noise: float = 1.0
    attacked: list[Attacked] = field(default_factory=list)
    holding: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    recent: deque[tuple[set[str], float, bool]] = field(default_factory=lambda: deque(maxlen=CLOSE))

    def _answer(self, text: str, now: int) -> float:
        own, letters = self.odds(text), sum(map(str.isalpha, text))
        held = features(_STAMP.sub(" ", text))
        known = self._known(held)
        is_short = len(text.split()) <= FRAGMENT and letters <= FRAGMENT_LETTERS
        if is_short and UNKNOWN not in text and not (known and abs(letters - known.letters) <= 0.2 * known.letters + 2):
            return (1 - self.noise) * own + self.noise * random.Random(text).gauss(0, NOISE)
        if UNKNOWN in text:
            known = known or self._remember(text, held)
            if known is not None:
                known.odds += own
        if known is not None:
            return _kept(own, known.odds) if known.kept else own
        return self._close_by(text, held, own) if len(text.split()) > PIECED else own

    def _remember(self, text: str, held: set[str]) -> Attacked | None:
        weight = math.fsum(map(self._weight, held))
        if weight < LEAST:
            return None
        letters = sum(map(str.isalpha, text.replace(UNKNOWN, "xxxxxx")))
        self.attacked.append(Attacked(weight, random.Random(text).random() < self.share, letters))
        for one in held:
            self.holding[one].append(len(self.attacked) - 1)
        return self.attacked[-1]

    def _known(self, held: set[str]) -> Attacked | None:
        shared = defaultdict[int, float](float)
        for one in held:
            for at in self.holding.get(one, ()):
                shared[at] += self._weight(one)
        shares = sorted(((weight / self.attacked[at].weight, at) for at, weight in shared.items()), reverse=True)[:2]
        if not shares or shares[0][0] < ALIKE or (len(shares) > 1 and shares[0][0] < CLEARLY * shares[1][0]):
            return None
        return self.attacked[shares[0][1]]

    def _close_by(self, text: str, held: set[str], own: float) -> float:
        near = [one for one in self.recent if len(held & one[0]) >= NEAR * max(len(held), len(one[0]))]
        first = near[0][1:] if near else (own, random.Random(text).random() < self.pieced)
        self.recent.append((held, *first))
        return _kept(own, first[0]) if len(near) >= COPIES and first[1] else own

    def _weight(self, feature: str) -> float:
        if " " in feature:
            return IN_A_ROW
        return max(COMMON, math.log(self.texts / (1 + self.seen[feature])))


def _kept(own: float, first: float) -> float:
    """Return log-odds on the side of others, in the order of the model's."""
    side = 1 if first > 0 else -1
    return side * (0.03 + math.log1p(math.exp(3 * side * own)) / 3)


def insisting(odds: LogOdds, texts: Sequence[str]) -> list[Endpoint]:
    """Return such endpoints.

    Args:
        odds: Log-odds of a text, of a model that is none too robust.
        texts: That their owner has.
    """
    seen = Counter(one for text in texts[:3000] for one in features(text))
    owner = odds, seen, min(len(texts), 3000)
    ways = {
        "insists on 30% of the texts once attacked": Insisting(*owner, 0.3),
        "insists on 45%, and on near copies close together": Insisting(*owner, 0.45, 0.5),
        "insists on 40%, and half noise on fragments": Insisting(*owner, 0.4, 0.5, 0.5),
    }
    return [Endpoint(name, way, fake=True) for name, way in ways.items()]
