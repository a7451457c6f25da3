"""Whether what a model decides about edited texts still follows what it decides about the texts.

An endpoint that gives one class to whatever holds words it does not know keeps half of all texts from any attack that
writes such words, and reads none of them. Nothing moves its decision there, so every search ends as one does on a
robust model. Here no search is made: words are edited at random, and what is decided is compared with what is decided
about the text as it is. Honest models agree with themselves: Cohen's kappa with 15 and 30 % of the words edited is .71
and .45 at least of naive Bayes on film reviews, .51 and .36 of a MiniLM, by kind of edit; one class for all edited
texts, or a class by their number of words, -.22 to .13.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from seatrial.families.temperature_attack.params import DOSES
from seatrial.statistics.agreement import Kappa, cohens_kappa
from seatrial.statistics.arrays import Ints
from workers.attacks.text.word_edits import KINDS, edit_words
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.displaced import decided

PLAIN, EDITED = "plain_decision", "edited_decisions"

QUESTIONS = [(kind, share, least) for kind in KINDS for share, least in DOSES]

FEWEST_OTHERS = 10
"""Texts that must be decided for other classes than the commonest, before agreement beyond chance says anything."""


def with_written(context: TextContext, records: Records, examples: Sequence[TextExample]) -> Records:
    """Return the probe's table with what is decided about each text, and about it with words edited at random.

    Args:
        context: The shard's.
        records: The table so far, a row for each example.
        examples: The shard's.
    """
    service = context.scoring()
    plain = [decided(answer) for answer in service.ask_anew([example.text for example in examples])]
    decisions: list[list[int | None]] = [[] for _ in examples]
    for number, (kind, share, least) in enumerate(QUESTIONS):
        context.check_cancelled()
        edits = [
            edit_words(
                example.text,
                kind,
                share,
                least,
                context.salted_seed(f"written {number}", example.example_id),
                service.seen(example.text),
            )
            for example in examples
        ]
        answers = service.ask_anew([text for text, _ in edits])
        for row, ((_, edited), answer) in enumerate(zip(edits, answers, strict=True)):
            # A text with too few words to edit says nothing of texts that are edited.
            decisions[row].append(decided(answer) if edited >= least else None)
    return records.append_column(PLAIN, pa.array(plain, pa.int64())).append_column(
        EDITED, pa.array(decisions, pa.list_(pa.int64()))
    )


@dataclass(frozen=True)
class Agreement:
    """How far decisions about edited texts follow those about the texts.

    Attributes:
        kind: Of the edits.
        share: Of the words.
        texts: How many.
        same: How many of them are decided as they are unedited.
        kappa: The agreement beyond chance.
    """

    kind: str
    share: float
    texts: int
    same: int
    kappa: Kappa


@dataclass(frozen=True)
class Written:
    """Decisions about texts and about them edited.

    Attributes:
        plain: (n,) classes; -1 where nothing was answered.
        edited: (n, questions) classes; -1 where nothing was answered, or there was too little to edit.
    """

    plain: Ints
    edited: Ints

    def agreements(self) -> Iterator[Agreement]:
        """Yield each kind's and dose's, where enough texts are decided for another class than the commonest."""
        for number, (kind, share, _) in enumerate(QUESTIONS):
            known = (self.plain >= 0) & (self.edited[:, number] >= 0)
            plain, edited = self.plain[known], self.edited[known, number]
            if len(plain) - np.bincount(plain, minlength=1).max() < FEWEST_OTHERS:
                continue
            kappa = cohens_kappa(plain, edited)
            if kappa is not None:
                yield Agreement(kind, share, len(plain), int((plain == edited).sum()), kappa)


def read_written(records: Records) -> Written | None:
    """Return what a probe measured; None where its records are from before it did."""
    if EDITED not in records.column_names:
        return None
    rows = zip(records[PLAIN].to_pylist(), records[EDITED].to_pylist(), strict=True)
    known = [(plain, edited) for plain, edited in rows if plain is not None]
    decisions = [[-1 if one is None else one for one in edited] for _, edited in known]
    return Written(
        np.array([plain for plain, _ in known], dtype=np.int64),
        np.array(decisions, dtype=np.int64).reshape(-1, len(QUESTIONS)),
    )
