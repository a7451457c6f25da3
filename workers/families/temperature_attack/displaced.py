"""Whether a model withstands attacks on a text because it knows that text: the same attack beside words of no meaning.

What robustness is of the model is there beside a reference number too. What is of the text, remembered from a file,
from the texts an audit begins with, or from the traffic, is gone: with that many characters the text is another one.
And what attacks ended with is asked once more when all is over, half of it by itself: a decision that was remembered
while a text was attacked may be forgotten by then, and one that hangs on what else is asked about is another one alone.
So is one for who insists.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import binomtest
from torch import Tensor

from seatrial.statistics.arrays import Mask
from workers.attacks.text.attacking import Outcome
from workers.data import Text
from workers.families.columns import beside, ints
from workers.families.contexts import Records, TextContext, TextExample

Places = tuple[float, ...]
"""Where in a text something is put, ascending: 0 is before it, 1 behind it."""

BEHIND: Places = (1.0,)

SHORTEST, LONGEST = 60, 120
"""Characters that are put beside a text: about as many as it has, within these. Twice what DeepWordBug may edit."""

RUNNING = 4
"""Times that a text an attack ended with is asked by itself."""

DISPLACED_WITH = "deepwordbug"
"""Its constraints leave the search most to do."""

_SCHEMA = pa.schema(
    [
        ("is_displaced", pa.bool_()),
        ("displaced_right", pa.bool_()),
        ("displaced_robust", pa.bool_()),
        ("ends_asked", pa.int64()),
        ("ends_changed", pa.int64()),
    ]
)


def displaced(text: Text, seed: int, places: Places = BEHIND) -> Text:
    """Return a text with numbers of reference behind it, or elsewhere; of a pair the premise.

    >>> displaced("a fine day", 1)
    'a fine day (No. 2209, 2021-10-08, 11:26; No. 6863, 2020-02-01, 20:25; No. 7859, 2005-06-21, 05:56)'
    """
    if not isinstance(text, str):
        return (str(displaced(text[0], seed, places)), *text[1:])
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    wanted = min(max(len(text), SHORTEST), LONGEST)
    pieces, done = [], 0
    for place in places:
        # Between words; where no space parts any, between letters.
        cut = text.rfind(" ", 0, int(place * len(text))) if 0 < place < 1 else int(place * len(text))
        cut = int(place * len(text)) if cut < 0 else cut
        pieces += [text[done:cut] if place == 1 else text[done:cut].strip(" "), _numbers(rng, wanted)]
        done = cut
    return " ".join(piece for piece in [*pieces, text[done:].lstrip(" ")] if piece)


def _numbers(rng: random.Random, wanted: int) -> str:
    told: list[str] = []
    while sum(map(len, told)) < wanted - 2 * len(told):
        number, year, month, day, hour, minute = (
            low + int(rng.random() * (high - low))
            for low, high in ((1000, 9999), (2005, 2025), (1, 13), (1, 29), (0, 24), (0, 60))
        )
        told.append(f"No. {number}, {year}-{month:02}-{day:02}, {hour:02}:{minute:02}")
    return f"({'; '.join(told)})"


def displaced_with(recipes: Sequence[str]) -> str:
    """Return the recipe whose constraints the attack keeps to, of those that change predictions."""
    return DISPLACED_WITH if DISPLACED_WITH in recipes else recipes[0]


def own_part(text: Text, seen: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return how many characters of each part may be edited, so that what stands beside a text stays.

    Args:
        text: Without what stands beside it.
        seen: Characters of each part that the model sees of the text with it; None where it sees all.
    """
    own = (len(text),) if isinstance(text, str) else tuple(map(len, text))
    return own if seen is None else tuple(map(min, own, seen))


def closing_columns(
    context: TextContext,
    records: Records,
    examples: Sequence[TextExample],
    attacked: Sequence[Records],
    outcomes: Sequence[Outcome],
    texts: Sequence[Text],
) -> Records:
    """Return the closing probe's table with what became of the texts displaced, and of what attacks ended with.

    Args:
        context: The shard's.
        records: The table so far, a row for each example.
        examples: The shard's.
        attacked: The tables of the recipes.
        outcomes: How the attacks on the displaced texts ended; empty where there was none.
        texts: The displaced texts, as many.
    """
    rows: list[dict[str, Any]] = [{} for _ in examples]
    answers = context.scoring().ask_anew([*texts, *(outcome.text for outcome in outcomes)]) if outcomes else []
    count = len(outcomes)
    for row, (example, outcome) in enumerate(zip(examples, outcomes, strict=False)):
        before, after = decided(answers[row]), decided(answers[count + row])
        is_measured = outcome.status != "errored" and before is not None and after is not None
        rows[row] = {"is_displaced": is_measured}
        if is_measured:
            is_right = before == example.label
            rows[row] |= {"displaced_right": is_right, "displaced_robust": is_right and after == example.label}
    ours = pa.array([example.example_id for example in examples])
    ends = _ends([table.filter(pc.is_in(table["example_id"], ours)) for table in attacked])
    is_alone = {one.example_id: context.salted_seed("alone", one.example_id) % 2 == 0 for one in examples}
    # The others in requests as full as the model takes: some answer those otherwise.
    crowd = [text for example, alone in is_alone.items() if not alone for text, _ in ends.get(example, [])]
    crowded = dict(zip(crowd, map(decided, context.scoring().ask_anew(crowd)), strict=True))
    for row, example in enumerate(examples):
        recorded = ends.get(example.example_id, [])
        context.check_cancelled()
        pairs = [
            (old, _insist(context, text, old) if is_alone[example.example_id] else crowded[text])
            for text, old in recorded
        ]
        given = [(old, new) for old, new in pairs if new is not None]
        rows[row] |= {"ends_asked": len(given), "ends_changed": sum(old != new for old, new in given)}
    return beside(records, rows, _SCHEMA)


def _insist(context: TextContext, text: Text, old: int) -> int | None:
    """Return another decision than an old one, if the text has one, by itself, several times running."""
    answers = [decided(answer) for _ in range(RUNNING) for answer in context.scoring().ask_anew([text])]
    given = [one for one in answers if one is not None]
    return next((one for one in given if one != old), given[0] if given else None)


@dataclass(frozen=True)
class Displacement:
    """What became of texts beside words of no meaning, and of what attacks ended with.

    Attributes:
        example_ids: (n,) of those attacked so.
        right: (n,) whether the displaced text was decided rightly.
        robust: (n,) whether it was after the attack too.
        ends_asked: What attacks ended with, asked again.
        ends_changed: How many of those were decided otherwise.
        unanswered: Displaced texts without an answer, to them or under the attack.
    """

    example_ids: list[int]
    right: Mask
    robust: Mask
    ends_asked: int
    ends_changed: int
    unanswered: int = 0

    @property
    def answered(self) -> int:
        """Those with one."""
        return len(self.example_ids)


def read_displacement(records: Records) -> Displacement | None:
    """Return what a closing probe measured; None where its records are from before it did."""
    if "is_displaced" not in records.column_names:
        return None
    measured = records.filter(pa.array([bool(one) for one in records["is_displaced"].to_pylist()]))
    return Displacement(
        ints(measured, "example_id").tolist(),
        np.array(measured["displaced_right"].to_pylist(), dtype=bool),
        np.array(measured["displaced_robust"].to_pylist(), dtype=bool),
        int(ints(records, "ends_asked").sum()),
        int(ints(records, "ends_changed").sum()),
        # Null where nothing was asked.
        sum(one is False for one in records["is_displaced"].to_pylist()),
    )


def lost(before: Mapping[int, bool], displacement: Displacement) -> tuple[int, int, int, float]:
    """Return how many texts held before and not displaced, the other way round, of how many, and the one-sided p.

    Args:
        before: Whether an example withstood the same attack as it is.
        displacement: Whether it did displaced.
    """
    pairs = [
        (before[example], bool(robust))
        for example, robust in zip(displacement.example_ids, displacement.robust, strict=True)
        if example in before
    ]
    gone = sum(was and not stays for was, stays in pairs)
    new = sum(stays and not was for was, stays in pairs)
    p = float(binomtest(gone, gone + new, alternative="greater").pvalue) if gone + new else 1.0
    return gone, new, len(pairs), p


def _ends(attacked: Sequence[Records]) -> dict[int, list[tuple[Text, int]]]:
    """Return by example the different texts attacks ended with and how they were decided."""
    found: dict[int, dict[Text, int]] = {}
    for table in attacked:
        arms = [name.removesuffix(".status") for name in table.column_names if name.endswith(".status")]
        for row in table.to_pylist():
            for arm in arms:
                if not row["errored"] and row[f"{arm}.text"] is not None:
                    first, second = row[f"{arm}.text"], row[f"{arm}.second_text"]
                    text: Text = first if second is None else (first, second)
                    found.setdefault(row["example_id"], {})[text] = row[f"{arm}.prediction"]
    return {example: list(texts.items()) for example, texts in found.items()}


def decided(answer: Any) -> int | None:
    """Return the class an answer gives the largest score; None where it is no answer.

    >>> decided(Tensor([1.0, 3.0, 3.0])), decided(Tensor([1.0, float("inf")]))
    (1, None)
    """
    if not isinstance(answer, Tensor):
        return None
    # On so few numbers torch takes five times as long as numpy, and this is asked of every answer.
    scores = answer.numpy()
    # The first of several that tie, on every platform.
    return int(scores.argmax()) if np.isfinite(scores).all() else None


def logits_of(answer: Any) -> list[float] | None:
    """Return the logits of an answer, as rows have them; None where it is no answer.

    >>> logits_of(Tensor([0.5, 2.0]))
    [0.5, 2.0]
    """
    return None if decided(answer) is None else answer.tolist()


def lead(answer: Any, label: int) -> float | None:
    """Return by how much an answer speaks for a class, in logits; None where it is no answer.

    >>> lead(Tensor([0.5, 2.0]), 1)
    1.5
    """
    if decided(answer) is None:
        return None
    scores = answer.numpy()
    others = scores.copy()
    others[label] = -np.inf
    return float(scores[label] - others.max())
