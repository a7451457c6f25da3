"""Whether texts withstand attacks because an attack asks about near copies of them: an edited text that is sent once.

Every search learns from answers to texts that are nearly alike, and whoever remembers those can lean on what it decided
about the first: a little more towards that class, from the third near copy on, is enough that no search gets through,
and shows nowhere. Somebody who asks about nothing near gets through at once. So texts that were asked in no form are
edited by what a model says about fragments of them, single words or some in another order, and then sent, one question
each, before anything else is known of them. Audited ones are edited in the same way before they are attacked, and sent
while they are: a function decides as many of either rightly, and speaks for their classes as much as for those of the
pieces they are made of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import hypergeom, mannwhitneyu, rankdata

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.temperature_attack.sent import SENT_LATER, SENT_ONCE, sent_once
from seatrial.statistics.arrays import Floats, Mask
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.columns import EXAMPLE, beside
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.protocol import HELD_OUT, Stage
from workers.families.temperature_attack.displaced import decided, lead, logits_of
from workers.families.temperature_attack.fragments import ANSWER, OPENING, QUESTIONS, edit_by_fragments, edit_by_words
from workers.families.temperature_attack.insisting import COLUMN, count_right
from workers.families.temperature_attack.ordinary import parts_of, recorded, text_of
from workers.families.temperature_attack.probe import GRAIN

ONCE, ELSEWHERE, PREPARED = "sent_once", "sent_once_elsewhere", "prepared"
"""The stages: of further texts of the data; of those for validation, where the data hold too few; and of texts audited,
whose edited ones are sent while they are attacked."""

SENDING = (ONCE, ELSEWHERE, PREPARED)

FEWEST = 20
"""Texts from which on they are compared."""

TAILS = (0.1, 0.2)
"""Shares of the texts, those that speak for their classes most for what their pieces say, of which it is asked whether
too many were sent later: who keeps the decisions of a few texts moves these far, and the others not at all."""

ROBUST, LEAD = "sent_robust", "sent_lead"
"""Whether the edited text is decided rightly, and by how much, in logits; null without an answer, which spoils no
number."""

_EDITED = (*EXAMPLE, ("edits", pa.int64()), ("foreseen", pa.float64()))

_SENT = pa.schema([(ROBUST, pa.bool_()), (LEAD, pa.float64())])

_ONCE = pa.schema([*_EDITED, *_SENT])

_COUNT = (COLUMN, pa.int64())

_LATER = pa.schema([*_SENT, _COUNT])

_PREPARED = pa.schema(
    [
        *_EDITED,
        ("parts", pa.list_(pa.string())),
        _COUNT,
        (OPENING, pa.list_(pa.string())),
        (QUESTIONS, pa.int64()),
        (ANSWER, pa.list_(pa.float64())),
    ]
)


def once_stage(params: TemperatureAttackParams, done: Mapping[str, Records]) -> Stage | None:
    """Return the next stage of texts that are sent once, or prepared; None where all are done, or it is too late.

    Args:
        params: Of the check.
        done: Records by stage.
    """
    is_late = "validation" in done or any(name.startswith("attack_") for name in done)
    if is_late or not params.flipping:
        return None
    if ONCE not in done:
        # Of a small sample as many as there are to compare them with.
        return Stage(ONCE, HELD_OUT, sent_once(done["probe"].num_rows), GRAIN)
    if params.validation_dataset is not None and ELSEWHERE not in done and done[ONCE].num_rows < FEWEST:
        return Stage(ELSEWHERE, "validation_dataset", min(params.validation_samples, SENT_ONCE), GRAIN)
    return None if PREPARED in done else Stage(PREPARED, limit=SENT_LATER, grain=GRAIN, is_whole=True)


def edit_texts(
    params: TemperatureAttackParams, stage: str, context: TextContext, examples: Sequence[TextExample]
) -> Records:
    """Edit a shard's texts by what is said about fragments of them, and return a row for each.

    Args:
        params: Of the check.
        stage: Whether each is sent as well, or kept in its row to be sent while its text is attacked.
        context: The shard's.
        examples: Its texts.
    """
    rows = list[dict[str, Any]]()
    counts = count_right(params, context, examples, stage) if stage == PREPARED else [{} for _ in examples]
    for example, count in zip(examples, counts, strict=True):
        context.check_cancelled()
        row: dict[str, Any] = {"example_id": example.example_id, "label": example.label, "errored": False, **count}
        edited = edit_by_fragments(params, context, example)
        row |= {"edits": edited.edits, "foreseen": edited.foreseen}
        if stage == PREPARED:
            opening, asked = edit_by_words(params, context, example)
            row |= {"parts": parts_of(edited.text), OPENING: parts_of(opening), QUESTIONS: asked + 1}
            (given,) = context.scoring().ask_anew([opening])
            row[ANSWER] = logits_of(given)
        else:
            row |= _sent(context.scoring(), edited.text, example)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_PREPARED if stage == PREPARED else _ONCE)


def _sent(service: ScoringService, text: Text, example: TextExample) -> dict[str, Any]:
    """Send a text, and return whether it is decided rightly and by how much, in logits; None without an answer."""
    (given,) = service.ask_anew([text])
    decision = decided(given)
    return {ROBUST: None if decision is None else decision == example.label, LEAD: lead(given, example.label)}


class Later:
    """Sends what was prepared when the attacks on its text that see scores have ended, or those that see labels.

    Whoever answers during an attack otherwise than before and after it does so here, and one question in hundreds does
    not tell it what it is.

    Args:
        context: The shard's.
        examples: Its texts.
        recipe: That attacks them.
        params: Of the check: the first recipe that changes classes sends.
    """

    def __init__(
        self, params: TemperatureAttackParams, context: TextContext, examples: Sequence[TextExample], recipe: str
    ) -> None:
        self._params, self._context = params, context
        self._examples = examples
        self._rows: dict[int, dict[str, Any]] = {}
        self._by_labels: dict[int, bool] = {}
        self._waiting: dict[int, tuple[Text, TextExample]] = {}
        prepared = recorded(context, PREPARED) if recipe in params.flipping[:1] else None
        # Whichever texts a shard has: the tables of all are one.
        self._is_sending = prepared is not None
        by_id = {example.example_id: example for example in examples}
        for row in prepared or []:
            if (example := by_id.get(row["example_id"])) is not None:
                self._waiting[example.example_id] = text_of(row["parts"]), example
                seed = context.salted_seed("sent later", example.example_id)
                self._by_labels[example.example_id] = bool(seed % 2)

    def during(self, on_done: Callable[[Outcome], None], *, by_labels: bool) -> Callable[[Outcome], None]:
        """Return a listener to attacks that sends as well."""

        def then(outcome: Outcome) -> None:
            if self._by_labels.get(outcome.example_id) is by_labels:
                self._now(outcome.example_id)
            on_done(outcome)

        return then

    def beside(self, records: Records) -> Records:
        """Return a recipe's table with what was sent, sending what waits for attacks that there were not."""
        for example_id in list(self._waiting):
            self._now(example_id)
        rows = [self._rows.get(example.example_id, {}) for example in self._examples]
        return beside(records, rows, _LATER) if self._is_sending else records

    def _now(self, example_id: int) -> None:
        if (waiting := self._waiting.pop(example_id, None)) is not None:
            _, example = waiting
            self._rows[example_id] = _sent(self._context.scoring(), *waiting)
            (count,) = count_right(self._params, self._context, [example], "later")
            self._rows[example_id] |= count


@dataclass(frozen=True)
class SentOnce:
    """What became of edited texts that were sent once.

    Attributes:
        robust: (n,) whether each was decided rightly.
        unanswered: Those without an answer.
        later: (m,) whether each was of other texts, which were sent after near copies of them.
        leads: (n, 2) by how much each spoke for its class in logits, and its pieces together; of those where both are
            known.
        later_leads: (m, 2) the same of the others.
        of_same_data: Whether both are of the same data.
    """

    robust: Mask
    unanswered: int
    later: Mask
    leads: Floats = field(default_factory=lambda: np.empty((0, 2)))
    later_leads: Floats = field(default_factory=lambda: np.empty((0, 2)))
    of_same_data: bool = True

    @property
    def answered(self) -> int:
        """Those with one."""
        return len(self.robust)

    @cached_property
    def p(self) -> float:
        """One-sided p of texts speaking more for their classes after near copies, for what pieces say.

        Ranks of the leads, less what ranks of the pieces' explain of them (Conover and Iman 1982, "Analysis of
        covariance using the rank transformation"), compared by Mann and Whitney, and by how many of the largest are of
        texts sent later; the least of these p's, times their number. 1 where too few can be compared.
        """
        # Texts of other data may differ in what their pieces leave unsaid.
        if not self.of_same_data or min(len(self.leads), len(self.later_leads)) < FEWEST:
            return 1.0
        lead, foreseen = rankdata(np.concatenate([self.leads, self.later_leads]), axis=0).T
        known = np.stack([np.ones_like(foreseen), foreseen], axis=1)
        left = lead - known @ np.linalg.lstsq(known, lead, rcond=None)[0]
        once, later = np.split(left, [len(self.leads)])
        found = [float(mannwhitneyu(later, once, alternative="greater").pvalue)]
        found += [largest_p(once, later, share) for share in TAILS]
        return min(1.0, len(found) * min(found))


def largest_p(once: Floats, later: Floats, share: float) -> float:
    """Return the one-sided p of so many of the largest being later ones (hypergeometric; ties go against it).

    >>> round(largest_p(np.arange(10.0), np.arange(10.0) + 7, 0.25), 4)
    0.0163
    """
    values, is_later = np.concatenate([once, later]), np.arange(len(once) + len(later)) >= len(once)
    count = round(share * len(values))
    hits = int(is_later[np.argsort(-values, kind="stable")[:count]].sum())
    return float(hypergeom.sf(hits - 1, len(values), len(later), count))


def read_once(params: TemperatureAttackParams, done: Mapping[str, Records]) -> SentOnce | None:
    """Return what became of them; None where none was sent once.

    Args:
        params: Of the check.
        done: Records by stage.
    """
    elsewhere = done[ELSEWHERE].to_pylist() if ELSEWHERE in done else []
    rows = [*(done[ONCE].to_pylist() if ONCE in done else []), *elsewhere]
    if not rows:
        return None
    foreseen = {row["example_id"]: row["foreseen"] for row in done[PREPARED].to_pylist()} if PREPARED in done else {}
    attacked = done[f"attack_{params.flipping[0]}"].to_pylist() if foreseen else []
    others = [row | {"foreseen": foreseen[row["example_id"]]} for row in attacked if row["example_id"] in foreseen]
    robust, later = (
        np.array([row[ROBUST] for row in of if row[ROBUST] is not None], dtype=bool) for of in (rows, others)
    )
    return SentOnce(robust, len(rows) - len(robust), later, _leads(rows), _leads(others), of_same_data=not elsewhere)


def _leads(rows: Sequence[Mapping[str, Any]]) -> Floats:
    found = [(row[LEAD], row["foreseen"]) for row in rows]
    return np.array([pair for pair in found if None not in pair], dtype=np.float64).reshape(-1, 2)
