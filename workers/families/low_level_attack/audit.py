"""Everything an audit recorded, read once, as columns over the examples whose clean text was answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from seatrial.contracts.models import MULTI_LABEL, SINGLE_LABEL_TEXTS
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.low_level_attack.records import LEAST_ANSWERED
from seatrial.statistics.arrays import Floats, Ints, Mask
from workers.families.columns import floats, ints
from workers.families.contexts import Records
from workers.families.low_level_attack.names import ATTACK, CLEAN, column

TEXT_COLUMNS = ("text", "second_text", "tokens")


@dataclass(frozen=True)
class Scored:
    """What a score is made of.

    Attributes:
        rows: (n,) the examples, as places in the clean sample.
        correct: (n,) decisions that are right.
        logits: (n, classes) of multi-label texts, else None.
    """

    rows: Ints
    correct: Floats
    logits: Floats | None

    def of(self, rows: Ints) -> "Scored":
        """Return the part about some of the examples."""
        kept = np.isin(self.rows, rows)
        return Scored(self.rows[kept], self.correct[kept], None if self.logits is None else self.logits[kept])


@dataclass(frozen=True)
class Answers:
    """What the model said to some of the examples, n of them, d decisions in all.

    Attributes:
        rows: (n,) the examples, as places in the clean sample.
        owner: (d,) the example of each decision, as such a place.
        predictions: (d,) -1 where a token has no tag any more.
        confidences: (d,) NaN there.
        right: (d,) whether each is right; one that is missing is not.
        correct: (n,) decisions that are right.
        loss: (n,) mean negative log likelihood of the truths, nat.
        mean_confidence: (n,) NaN where nothing is decided.
        digests: (n,) of the scores' bytes.
        logits: (n, classes) of multi-label texts, else None.
        texts: (n,) each as its parts.
    """

    rows: Ints
    owner: Ints
    predictions: Ints
    confidences: Floats
    right: Mask
    correct: Floats
    loss: Floats
    mean_confidence: Floats
    digests: Ints
    logits: Floats | None
    texts: "Texts"

    def __len__(self) -> int:
        """Return n."""
        return len(self.rows)

    @property
    def scored(self) -> Scored:
        """What their score is made of."""
        return Scored(self.rows, self.correct, self.logits)

    def of(self, rows: Ints) -> "Answers":
        """Return the answers about some of the examples."""
        kept, made = np.isin(self.rows, rows), np.isin(self.owner, rows)
        return replace(
            self,
            rows=self.rows[kept],
            owner=self.owner[made],
            predictions=self.predictions[made],
            confidences=self.confidences[made],
            right=self.right[made],
            correct=self.correct[kept],
            loss=self.loss[kept],
            mean_confidence=self.mean_confidence[kept],
            digests=self.digests[kept],
            logits=None if self.logits is None else self.logits[kept],
            texts=self.texts.at(np.flatnonzero(kept)),
        )


@dataclass(frozen=True)
class Noise:
    """One attacker at one level, in its first draws or in the worst of each example.

    Attributes:
        answers: To the perturbed texts.
        flipped: (n,) decisions that are others than without noise.
        characters_changed: (n,) Levenshtein distance per character, of grapheme clusters.
        tokens_changed: (n,) share of the tokens.
    """

    answers: Answers
    flipped: Floats
    characters_changed: Floats
    tokens_changed: Floats


class Texts(Sequence[list[str]]):
    """Texts of a table as their parts, read when they are asked for: all of an audit's would fill the memory.

    Args:
        columns: ``text``, ``second_text`` and ``tokens``.
        rows: (n,) whose texts these are.
    """

    def __init__(self, columns: Sequence[Any], rows: Ints) -> None:
        self._columns, self._rows = columns, rows

    def at(self, places: Ints) -> "Texts":
        """Return some of the texts."""
        return Texts(self._columns, self._rows[places])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        """Return a text: one part, two of a pair, the tokens of a sentence joined by spaces."""
        row = int(self._rows[place])
        first, second, tokens = (values[row].as_py() for values in self._columns)
        if tokens is not None:
            return [" ".join(tokens)]
        return [first] if second is None else [first, second]


class Audit:
    """The records of a finished check.

    Attributes:
        params: What was asked.
        task: What the model does.
        attackers: Those run, in the order they ran.
        size: Examples, errored ones included.
        ids: (n,) examples whose clean text was answered.
        labels: (n,) their classes, -1 where there is no single one.

        decisions: (n,) decisions of each example that count.
        untagged: Tokens that got no tag without noise: no decisions.
        classes: Classes, labels or tags the model has; None where nothing was answered.
        clean: What the model says without noise.
        errors: By stage, why examples errored, as many as did.
    """

    def __init__(
        self,
        params: LowLevelAttackParams,
        done: Mapping[str, Records],
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        table = done[CLEAN]
        self.params, self.task = params, task_of(table)
        self.attackers = params.runs(self.task)
        self.size = table.num_rows
        valid = _valid(table)
        self.ids, self.labels = ints(valid, "example_id"), ints(valid, "label")
        self._places = {int(key): place for place, key in enumerate(self.ids)}
        predictions, self._lengths = _flat(valid, "predictions")
        truths, _ = _flat(valid, "truths")
        self._flat_truths = truths.astype(np.int64)
        self._flat_predictions = predictions.astype(np.int64)
        self._decided = (self._flat_predictions >= 0) & (self._flat_truths >= 0)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self.untagged = int(((self._flat_predictions < 0) & (self._flat_truths >= 0)).sum())
        self.decisions = floats(valid, "decisions")
        self.classes = int(valid.column("classes")[0].as_py()) if valid.num_rows else None
        self.clean = self._answers(valid, np.arange(len(self.ids)), str)
        self.errors = {CLEAN: _errors(table)}
        self._noise: dict[tuple[str, float], Noise] = {}
        self._worst: dict[tuple[str, float], Noise] = {}
        for attacker in self.attackers:
            check_cancelled()
            self._read(attacker, done[f"{ATTACK}{attacker}"])

    def __len__(self) -> int:
        """Return how many examples were answered without noise."""
        return len(self.ids)

    def noise(self, attacker: str, level: float) -> Noise:
        """Return what one attacker did in its first draws."""
        return self._noise[attacker, level]

    def worst(self, attacker: str, level: float) -> Noise:
        """Return what one attacker did in the worst draw for each example; its only one, where there is one."""
        return self._worst.get((attacker, level), self._noise[attacker, level])

    @property
    def levels(self) -> list[float]:
        """Levels, the highest last."""
        return self.params.levels

    @property
    def highest(self) -> float:
        """The level at which attackers are ranked."""
        return self.params.levels[-1]

    @property
    def is_single(self) -> bool:
        """Whether each example has exactly one decision."""
        return self.task in SINGLE_LABEL_TEXTS

    @cached_property
    def truths(self) -> Floats:
        """(n, classes) 0 or 1, of multi-label texts."""
        return self._flat_truths.reshape(len(self.ids), -1).astype(np.float64)

    @cached_property
    def decided_truths(self) -> Ints:
        """(d,) the truth of each decision."""
        return self._flat_truths[self._decided]

    def truths_of(self, place: int) -> list[int]:
        """Return the truths of an example, those beyond what was decided included."""
        return [int(truth) for truth in self._flat_truths[self._starts[place] : self._starts[place + 1]]]

    @cached_property
    def compared(self) -> list[str]:
        """Attackers that enough examples were answered under to compare them with others."""
        least = LEAST_ANSWERED * len(self)
        return [name for name in self.attackers if len(self) and len(self._rows(name)) >= max(1, least)]

    @cached_property
    def common(self) -> Ints:
        """Examples, as places, that were answered under every attacker that is compared."""
        if not self.compared:
            return np.empty(0, dtype=np.int64)
        kept = np.ones(len(self), dtype=bool)
        for attacker in self.compared:
            kept &= np.isin(np.arange(len(self)), self._rows(attacker))
        return np.flatnonzero(kept)

    def _rows(self, attacker: str) -> Ints:
        return self._noise[attacker, self.highest].answers.rows

    def _read(self, attacker: str, table: Records) -> None:
        self.errors[f"{ATTACK}{attacker}"] = _errors(table)
        valid = _valid(table)
        rows = np.array([self._places[int(key)] for key in ints(valid, "example_id")], dtype=np.int64)
        for level in self.levels:
            for stage, is_worst in ((self._noise, False), (self._worst, True)):
                if is_worst and self.params.draws == 1:
                    continue

                def named(name: str, level: float = level, is_worst: bool = is_worst) -> str:
                    return column(name, level, is_worst=is_worst)

                stage[attacker, level] = Noise(
                    self._answers(valid, rows, named),
                    floats(valid, named("flipped")),
                    floats(valid, named("characters_changed")),
                    floats(valid, named("tokens_changed")),
                )

    def _answers(self, valid: Records, rows: Ints, named: Callable[[str], str]) -> Answers:
        # Which decisions count, and what is true of them, is known from the clean text.
        lengths = self._lengths[rows]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.repeat(self._starts[rows], lengths) + within
        decided = self._decided[places]
        predictions, confidences = (_flat(valid, named(name))[0][decided] for name in ("predictions", "confidences"))
        truths = self._flat_truths[places][decided]
        is_multi = self.task == MULTI_LABEL
        return Answers(
            rows=rows,
            owner=np.repeat(rows, lengths)[decided],
            predictions=predictions.astype(np.int64),
            confidences=confidences,
            right=predictions.astype(np.int64) == truths,
            correct=floats(valid, named("correct")),
            loss=floats(valid, named("loss")),
            mean_confidence=floats(valid, named("mean_confidence")),
            digests=ints(valid, named("scores_digest")),
            logits=_flat(valid, named("logits"))[0].reshape(len(rows), -1) if is_multi and len(rows) else None,
            texts=Texts([valid.column(named(name)) for name in TEXT_COLUMNS], np.arange(valid.num_rows)),
        )


def task_of(clean: Records) -> str:
    """Return what the audited model does, as the records of the clean texts say."""
    return str(clean.column("task")[0].as_py())


def _valid(table: Records) -> Records:
    return table.filter(pa.array(~table.column("errored").to_numpy().astype(bool)))


def _errors(table: Records) -> list[str]:
    return [str(reason) for reason in table.column("error").drop_null().to_pylist()]


def _flat(valid: Records, name: str) -> tuple[Floats, Ints]:
    """Return the numbers of a column of lists one after the other, and how many each row has."""
    chunks: Any = valid.column(name).combine_chunks()
    lists = chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks)
    lengths = np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.asarray(lists.flatten().to_numpy(zero_copy_only=False), dtype=np.float64), lengths
