"""Whether a model withstands attacks because it knows the audited texts: texts pieced together from several of them.

Whoever knows the texts may decide for whatever holds enough of one what they know of it, whatever stands beside it.
Texts of one class in turn give a piece each: what comes of that is of the class, in the words of the data, and holds
too little of any text to be taken for it. Pairs are pieced together part by part; whether one of those withstands is
whether it keeps the class it has.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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


def pieced(texts: Sequence[Text], seed: int) -> Text:
    """Return a text that has its first part of one text, its second of another, and so on; of pairs a pair.

    Args:
        texts: At least one; all of them texts, or all of them pairs.
        seed: Of which texts, in which order.

    >>> pieced(["one two three", "four five six", "seven eight nine"], 1)
    'one eight six'
    >>> pieced([("a b", "c d"), ("e f", "g h")], 2)
    ('a f', 'c h')
    """
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    chosen = rng.sample(list(texts), min(PIECES, len(texts)))
    if isinstance(chosen[0], str):
        return _joined([text for text in chosen if isinstance(text, str)])
    # What belongs together of a pair stays so: both parts are cut at the same places.
    return tuple(_joined([pair[side] for pair in chosen]) for side in range(len(chosen[0])))


def _joined(texts: Sequence[str]) -> str:
    return " ".join(part for number, text in enumerate(texts) if (part := _part(text, number, len(texts))))


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
    known = known_texts(context)
    right: list[bool | None] = [None] * len(examples)
    robust: list[bool | None] = [None] * len(examples)
    asked = []
    for row, example in enumerate(examples):
        text = pieced_for(example, known, context.salted_seed("pieced", example.example_id))
        if text is not None:
            asked.append((row, TextExample(example.example_id, text, example.label)))
    for start in range(0, len(asked), AT_ONCE):
        context.check_cancelled()
        some = [_own_decision(context, one) for one in asked[start : start + AT_ONCE]]
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


def known_texts(context: TextContext) -> dict[int, list[Text]]:
    """Return the texts that were probed, by class; none of pairs whose probe is from before it kept their parts."""
    probed = context.records("probe")
    known: dict[int, list[Text]] = {}
    if "parts" not in probed.column_names:
        return known
    for row in probed.select(["label", "parts", "errored"]).to_pylist():
        if not row["errored"] and row["parts"]:
            parts = tuple(row["parts"])
            known.setdefault(row["label"], []).append(parts[0] if len(parts) == 1 else parts)
    return known


def pieced_for(example: TextExample, known: Mapping[int, Sequence[Text]], seed: int) -> Text | None:
    """Return a text pieced together from those of an example's class; None where there are too few."""
    texts = known.get(example.label, [])
    return pieced(texts, seed) if len(texts) >= FEWEST else None


def _own_decision(context: TextContext, asked: tuple[int, TextExample]) -> tuple[int, TextExample]:
    """Return a pieced pair with the class the model gives it: how its parts are related nobody else can tell."""
    row, example = asked
    if isinstance(example.text, str):
        return asked
    label = decided(context.scoring().ask_anew([example.text])[0])
    return row, replace(example, label=example.label if label is None else label)


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


def less_withstand(robust: int, texts: int, others: Mask) -> float:
    """Return the one-sided p of so much smaller a share of others withstanding, those decided wrongly included.

    Args:
        robust: Texts that withstand as they are.
        texts: Of so many.
        others: (n,) whether each of the others does.
    """
    held, read = int(others.sum()), len(others)
    return float(fisher_exact([[robust, texts - robust], [held, read - held]], alternative="greater").pvalue)
