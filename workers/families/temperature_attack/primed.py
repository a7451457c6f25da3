"""Whether an edited text is decided as its unedited one because that one was asked first.

An endpoint that keeps its decision about whatever is near to what it was asked before looks as robust as can be: every
attack begins with the text as it is. Here the edited text is asked first, where nothing like it was asked, and again
beside other words, after the unedited text beside the same. Which words stand where is a coin's, so a function of the
text knows nothing of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from scipy.stats import binomtest

from seatrial.families.temperature_attack.params import CROSSING_STEPS
from workers.data import Text
from workers.families.columns import beside
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import Places, decided, displaced
from workers.families.temperature_attack.probe import edit_path

ROUNDS: tuple[tuple[Places, Places], ...] = (((0.0,), (0.5,)), ((0.0, 1.0), (0.5, 1.0)))
"""Where the words stand, of two edits of a text each. What was asked with others is near to none of these."""

_SCHEMA = pa.schema([("unprimed_kept", pa.list_(pa.bool_())), ("primed_kept", pa.list_(pa.bool_()))])


def with_primed(context: TextContext, records: Records, examples: Sequence[TextExample]) -> Records:
    """Return the closing probe's table with whether edits leave a text's decision, asked before it and after it.

    Args:
        context: The shard's.
        records: The table so far, a row for each example.
        examples: The shard's.
    """
    asked = [_questions(context, example) for example in examples]
    answers = []
    for turn in zip(*asked, strict=True):
        context.check_cancelled()
        answers.append([decided(answer) for answer in context.scoring().ask_anew(list(turn))])
    rows: list[dict[str, Any]] = []
    for plain, *others in zip(*answers, strict=True):
        is_answered = plain is not None and None not in others
        kept = {"unprimed_kept": others[0::3], "primed_kept": others[2::3]} if is_answered else {}
        rows.append({name: [one == plain for one in decisions] for name, decisions in kept.items()})
    return beside(records, rows, _SCHEMA)


def _questions(context: TextContext, example: TextExample) -> list[Text]:
    """Return a text, and of every round its edited one alone, the text itself, and the edited one after it."""
    seed = context.salted_seed("primed", example.example_id)
    asked: list[Text] = [example.text]
    for number, places in enumerate(ROUNDS):
        at = seed + 3 * number
        edited = edit_path(example.text, at, CROSSING_STEPS, context.scoring().seen(example.text))[-1]
        first, second = places if seed >> number & 1 else places[::-1]
        asked += [
            displaced(edited, at + 1, first),
            displaced(example.text, at + 2, second),
            displaced(edited, at + 2, second),
        ]
    return asked


@dataclass(frozen=True)
class Priming:
    """How many edited texts are decided as unedited by when they were asked.

    Attributes:
        more: Only after the unedited text.
        less: Only before it.
        texts: Of how many.
        unanswered: Texts that were not answered wholly, with whose edits nothing is compared.
    """

    more: int
    less: int
    texts: int
    unanswered: int = 0

    @property
    def answered(self) -> int:
        """Texts that were, each with two edits."""
        return self.texts // len(ROUNDS)

    @property
    def p(self) -> float:
        """One-sided p of ``more`` under answers that know no order."""
        both = self.more + self.less
        return float(binomtest(self.more, both, alternative="greater").pvalue) if both else 1.0


def read_priming(records: Records) -> Priming | None:
    """Return what a closing probe measured; None where its records are from before it did."""
    if "primed_kept" not in records.column_names:
        return None
    pairs = [
        pair
        for primed, unprimed in zip(
            records["primed_kept"].to_pylist(), records["unprimed_kept"].to_pylist(), strict=True
        )
        for pair in zip(primed or [], unprimed or [], strict=True)
    ]
    more = sum(primed and not unprimed for primed, unprimed in pairs)
    less = sum(unprimed and not primed for primed, unprimed in pairs)
    return Priming(more, less, len(pairs), records["primed_kept"].null_count)
