"""Whether a model withstands attacks because it knows the audited texts: texts pieced together from several of them.

Whoever knows the texts may decide for whatever holds enough of one what they know of it, whatever stands beside it.
Texts of one class in turn give a piece each: what comes of that is of the class, in the words of the data, and holds
too little of any text to be taken for it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.stats import fisher_exact

from seatrial.statistics.arrays import Mask
from workers.attacks.text.attacking import Outcome
from workers.data import Text
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import decided

PIECES, FEWEST = 6, 3
"""Texts of which one is pieced together, and how many of the class there must be at least."""

AT_ONCE = 4
"""Texts that are attacked beside each other: some endpoints are honest to whoever asks about a few."""

RIGHT, ROBUST, ASKED = "pieced_right", "pieced_robust", "pieced_asked"
"""Columns: whether a pieced text is decided rightly, and after the search by labels too; null where none was; and
whether one was asked about."""

Search = Callable[[Sequence[TextExample]], list[Outcome]]


def pieced(texts: Sequence[str], seed: int) -> str:
    """Return a text that has its first part of one text, its second of another, and so on.

    Args:
        texts: At least one.
        seed: Of which texts, in which order.

    >>> pieced(["one two three", "four five six", "seven eight nine"], 1)
    'one eight six'
    """
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    chosen = rng.sample(list(texts), min(PIECES, len(texts)))
    return " ".join(part for number, text in enumerate(chosen) if (part := _part(text, number, len(chosen))))


def _part(text: str, number: int, of: int) -> str:
    """Return one of as many parts of a text, cut between its words, or between letters where it has too few."""
    words = text.split()
    if len(words) >= of:
        start, stop = (round(at * len(words) / of) for at in (number, number + 1))
        return " ".join(words[start:stop])
    start, stop = (round(at * len(text) / of) for at in (number, number + 1))
    return text[start:stop].strip()


def with_pieced(context: TextContext, records: Records, examples: Sequence[TextExample], search: Search) -> Records:
    """Return the closing probe's table with what became of a pieced text of each one's class under the same search.

    Args:
        context: The shard's.
        records: The table so far, a row for each example.
        examples: The shard's.
        search: By labels, on texts in the place of examples.
    """
    known: dict[int, list[str]] = {}
    for row in context.records("probe").select(["label", "texts", "errored"]).to_pylist():
        if not row["errored"] and row["texts"]:
            known.setdefault(row["label"], []).append(row["texts"][0])
    right: list[bool | None] = [None] * len(examples)
    robust: list[bool | None] = [None] * len(examples)
    asked = []
    for row, example in enumerate(examples):
        texts = known.get(example.label, [])
        if isinstance(example.text, str) and len(texts) >= FEWEST:
            text = pieced(texts, context.salted_seed("pieced", example.example_id))
            asked.append((row, TextExample(example.example_id, text, example.label)))
    for start in range(0, len(asked), AT_ONCE):
        context.check_cancelled()
        some = asked[start : start + AT_ONCE]
        outcomes = search([example for _, example in some])
        before_and_after: list[Text] = [example.text for _, example in some]
        before_and_after += [outcome.text for outcome in outcomes]
        answers = context.scoring().ask_anew(before_and_after)
        for number, ((row, example), outcome) in enumerate(zip(some, outcomes, strict=True)):
            before, after = decided(answers[number]), decided(answers[len(some) + number])
            if outcome.status != "errored" and before is not None and after is not None:
                right[row] = before == example.label
                robust[row] = right[row] and after == example.label
    rows = {row for row, _ in asked}
    records = records.append_column(ASKED, pa.array([row in rows for row in range(len(examples))], pa.bool_()))
    return records.append_column(RIGHT, pa.array(right, pa.bool_())).append_column(ROBUST, pa.array(robust, pa.bool_()))


@dataclass(frozen=True)
class Pieced:
    """What became of pieced texts.

    Attributes:
        right: (n,) whether one was decided rightly.
        robust: (n,) whether it was after the attack too.
        unanswered: Those without an answer.
    """

    right: Mask
    robust: Mask
    unanswered: int = 0

    @property
    def answered(self) -> int:
        """Those with one."""
        return len(self.right)


def read_pieced(records: Records) -> Pieced | None:
    """Return what a closing probe measured; None where its records are from before it did, or where it pieced none."""
    if RIGHT not in records.column_names:
        return None
    pairs = zip(records[RIGHT].to_pylist(), records[ROBUST].to_pylist(), strict=True)
    rows = [pair for pair in pairs if pair[0] is not None]
    asked = sum(records[ASKED].to_pylist()) if ASKED in records.column_names else len(rows)
    if not asked:
        return None
    right, robust = np.array(rows, dtype=bool).reshape(-1, 2).T
    return Pieced(right, robust, asked - len(rows))


def less_withstand(robust: int, texts: int, of: Pieced) -> float:
    """Return the one-sided p of so much smaller a share of pieced texts withstanding, those decided wrongly included.

    Args:
        robust: Texts that withstand as they are.
        texts: Of so many.
        of: The pieced ones.
    """
    held, read = int(of.robust.sum()), len(of.right)
    return float(fisher_exact([[robust, texts - robust], [held, read - held]], alternative="greater").pvalue)
