"""One scoring service per model and worker: texts in, logits out, each text asked once."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from workers.data import Text
from workers.models import Answer, TextClassifier


@dataclass
class Meters:
    """What a service was asked and what it cost.

    Attributes:
        queries: Texts asked for, each time they were.
        forward_passes: Texts the model answered.
        calls: Batches handed to the model.
        model_s: Wall seconds spent waiting for it.
    """

    queries: int = 0
    forward_passes: int = 0
    calls: int = 0
    model_s: float = 0.0

    @property
    def hit_rate(self) -> float:
        """Share of the queries that cost no forward pass; 0 before the first."""
        return 1 - self.forward_passes / self.queries if self.queries else 0.0

    def since(self, earlier: "Meters") -> "Meters":
        """Return what was added since ``earlier``, a copy taken then.

        >>> Meters(queries=10, forward_passes=4).since(Meters(queries=3, forward_passes=2)).forward_passes
        2
        """
        return Meters(
            queries=self.queries - earlier.queries,
            forward_passes=self.forward_passes - earlier.forward_passes,
            calls=self.calls - earlier.calls,
            model_s=self.model_s - earlier.model_s,
        )


class ScoringService:
    """Answers with logits, from a bounded cache where it can.

    A text without an answer is not remembered: it is asked again the next time somebody wants it.

    Args:
        classifier: The model.
        max_bytes: Memory of the cache; the texts used longest ago go first.
        drivers: Processes that attacks on this model are driven by.
    """

    def __init__(self, classifier: TextClassifier, *, max_bytes: int, drivers: int = 1) -> None:
        self.classifier = classifier
        self.drivers = drivers
        self.max_bytes = max_bytes
        self.meters = Meters()
        self._bytes = 0
        self._cache: OrderedDict[Text, Tensor] = OrderedDict()

    @property
    def cached_bytes(self) -> int:
        """Memory the cache takes, as it counts."""
        return self._bytes

    def scores(self, texts: Sequence[Text]) -> list[Answer]:
        """Return logits on the CPU for each text, in order, or why there are none.

        (classes,) for a text or a pair; (tokens, tags) for a sentence, with NaN for tokens the model gives no tag.
        """
        found = self.known(texts)
        fresh = self.ask([text for text in dict.fromkeys(texts) if text not in found])
        return [found[text] if text in found else fresh[text] for text in texts]

    def known(self, texts: Sequence[Text]) -> dict[Text, Tensor]:
        """Return the logits of those texts that cost nothing; all of them count as queries."""
        self.meters.queries += len(texts)
        return self.remembered(texts)

    def remembered(self, texts: Sequence[Text]) -> dict[Text, Tensor]:
        """Return the logits of those texts that cost nothing; counts no queries."""
        found = {}
        for text in texts:
            logits = self._cache.get(text)
            if logits is not None:
                self._cache.move_to_end(text)
                found[text] = logits
        return found

    def ask(self, texts: Sequence[Text]) -> Mapping[Text, Answer]:
        """Return what the model says to texts that differ from each other, and remember it; counts no queries."""
        if not texts:
            return {}
        start = time.perf_counter()
        answers = dict(zip(texts, self.classifier.logits(texts), strict=True))
        self.meters.model_s += time.perf_counter() - start
        self.meters.calls += 1
        for text, answer in answers.items():
            if isinstance(answer, Tensor):
                self.meters.forward_passes += 1
                self._keep(text, answer)
        return answers

    def ask_evenly(
        self, texts: Sequence[Text], check_cancelled: Callable[[], None] = lambda: None
    ) -> dict[Text, Answer]:
        """Ask about texts that differ in even batches of about one length, with a look for cancellation before each."""
        ordered = sorted(texts, key=_characters)
        answers: dict[Text, Answer] = {}
        batches = -(-len(ordered) // max(1, self.classifier.preferred_texts))
        for batch in range(batches):
            check_cancelled()
            start, stop = (len(ordered) * edge // batches for edge in (batch, batch + 1))
            answers.update(self.ask(ordered[start:stop]))
        return answers

    def ask_anew(self, texts: Sequence[Text]) -> list[Answer]:
        """Return what the model says to each text now, whatever it said before; all count as queries."""
        self.meters.queries += len(texts)
        answers = self.ask(list(dict.fromkeys(texts)))
        return [answers[text] for text in texts]

    def seen(self, text: Text) -> tuple[int, ...] | None:
        """Return how many characters of each part of a text reach the model; None where all do, or nobody knows."""
        seen = getattr(self.classifier, "seen", None)
        found: tuple[int, ...] | None = None if seen is None else seen(text)
        return found

    def begin_session(self) -> None:
        """Let whoever answers see another caller from now on, where it sees callers at all."""
        begin = getattr(self.classifier, "begin_session", None)
        if begin is not None:
            begin()

    def _keep(self, text: Text, logits: Tensor) -> None:
        before = self._cache.pop(text, None)
        if before is not None:
            self._bytes -= _size(text, before)
        self._cache[text] = logits
        self._bytes += _size(text, logits)
        while self._bytes > self.max_bytes:
            dropped, old = self._cache.popitem(last=False)
            self._bytes -= _size(dropped, old)


def _size(text: Text, logits: Tensor) -> int:
    parts = (text,) if isinstance(text, str) else text
    # The objects themselves: a tensor with its storage and a dictionary entry, and each string.
    return sum(4 * len(part) + 60 for part in parts) + logits.nbytes + 540


def _characters(text: Text) -> int:
    return len(text) if isinstance(text, str) else len(text[0]) + len(text[1])
