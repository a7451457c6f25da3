"""One shard of one attacker: every draw of every example at every level is made, asked, and the worst kept."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import Tensor

from seatrial.contracts.models import TAGGING
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.noise.copies import noisy_copy
from seatrial.noise.edits import levenshtein
from seatrial.noise.graphemes import graphemes
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from seatrial.noise.seeding import noise_generator, word_forms
from workers.data import Text
from workers.families.contexts import LabelledText, Records, ResumableTextContext
from workers.families.low_level_attack.answers import columns_of, decisions, read_answer
from workers.families.low_level_attack.names import CLEAN, column
from workers.families.low_level_attack.records import attack_records, begin, parts_of, text_cells
from workers.models import UnansweredError

PROGRESS = "progress"
"""The note of a save: draws done, and the rows so far."""


@dataclass(frozen=True)
class Noisy:
    """What became of a text.

    Attributes:
        text: The text, a pair, or tokens.
        changed_share: Of its tokens as they were, the share that changed; 0 of a text without any.
    """

    text: Text
    changed_share: float


@dataclass
class Row:
    """What is known of one example under one attacker.

    Attributes:
        cells: Its columns so far.
        error: Why it has none, where it errored.
        severity: Of the worst draw of the current level: decisions still right, and the loss with its sign turned.
    """

    cells: dict[str, Any]
    error: str | None = None
    severity: tuple[float, float] | None = None

    def keep(self, outcome: Mapping[str, Any], level: float, draw: int, *, of: int) -> None:
        """Keep the first of several draws at a level, and the worst: a draw may come again, and changes nothing then.

        The worst leaves the fewest decisions right, then has the highest loss; of equals the first stays.
        """
        if draw == 0:
            self.severity = None
            self.cells |= {column(name, level): value for name, value in outcome.items()}
        severity = (float(outcome["correct"]), -float(outcome["loss"]))
        if of > 1 and (self.severity is None or severity < self.severity):
            self.severity = severity
            worst = {"draw": draw} | dict(outcome)
            self.cells |= {column(name, level, is_worst=True): value for name, value in worst.items()}

    @property
    def record(self) -> dict[str, Any]:
        """The row of the table; one that errored keeps no number."""
        if self.error is None:
            return self.cells | {"errored": False}
        known = {name: self.cells[name] for name in ("example_id", "label")}
        return known | {"errored": True, "error": self.error}


class Attack:
    """One attacker on the examples of a shard.

    Args:
        params: What was asked.
        attacker: Its name.
        context: What the shard is given.
        lexicons: What the attacker draws from.
    """

    def __init__(
        self, params: LowLevelAttackParams, attacker: str, context: ResumableTextContext, lexicons: Lexicons
    ) -> None:
        self._params = params
        self._attacker = attacker
        self._context = context
        self._task = context.task
        among = [name for name in params.names if name in params.runs(self._task)]
        self._perturber = Perturber(attacker, params, lexicons, among=among)
        self._draws = [(level, draw) for level in params.levels for draw in range(params.draws)]
        self._forms: dict[tuple[float, int], Callable[[str], str | None]] = {}

    def run(self) -> Records:
        """Return the attacker's records of the shard; a row depends on its example alone.

        The model is asked a whole batch at a time, across draws and levels where a shard has few examples. There is a
        save whenever all examples are through another draw.
        """
        saved = self._context.checkpoint()
        examples = self._context.labelled()
        clean = self._clean(examples)
        rows = [self._begin(example, before) for example, before in zip(examples, clean, strict=True)]
        done = 0
        if saved is not None:
            done, states = json.loads(saved.notes[PROGRESS])
            rows = [Row(cells, error, severity and tuple(severity)) for cells, error, severity in states]
        service = self._context.scoring()
        size = max(1, service.classifier.preferred_texts)
        asks = self._make(examples, rows, done)
        while batch := list(islice(asks, size)):
            self._context.check_cancelled()
            scores = service.scores([noisy.text for _, _, noisy in batch])
            for (number, at, noisy), given in zip(batch, scores, strict=True):
                outcome = judge(self._task, examples[at], clean[at]["predictions"], noisy, given)
                level, draw = self._draws[number]
                if isinstance(outcome, str):
                    rows[at].error = rows[at].error or f"at level {level:g}: {outcome}"
                else:
                    rows[at].keep(outcome, level, draw, of=self._params.draws)
            # Of the draw the batch ended in, some examples may be through: they are drawn again, the same.
            if (ended := batch[-1][0]) > done:
                done = ended
                self._context.progress(len(examples) * done // len(self._draws))
                states = [[row.cells, row.error, row.severity] for row in rows]
                self._context.save({}, {PROGRESS: json.dumps([done, states])})
        return attack_records(self._params, [row.record for row in rows])

    def _clean(self, examples: Sequence[LabelledText]) -> list[Mapping[str, Any]]:
        table = self._context.records(CLEAN).select(["example_id", "errored", "error", "predictions"])
        wanted = {example.example_id for example in examples}
        places = [row for row, key in enumerate(table.column("example_id").to_pylist()) if key in wanted]
        known = {row["example_id"]: row for row in table.take(places).to_pylist()}
        return [known[example.example_id] for example in examples]

    def _begin(self, example: LabelledText, clean: Mapping[str, Any]) -> Row:
        return Row(begin(self._task, example), f"clean text: {clean['error']}" if clean["errored"] else None)

    def _make(
        self, examples: Sequence[LabelledText], rows: Sequence[Row], done: int
    ) -> Iterator[tuple[int, int, Noisy]]:
        """Yield draw, example and text, draw by draw, from ``done`` on."""
        for number in range(done, len(self._draws)):
            for at, example in enumerate(examples):
                # One that errored is asked for nothing more: an endpoint's texts are paid for.
                if rows[at].error is None:
                    yield number, at, self._perturb(example, *self._draws[number])

    def _perturb(self, example: LabelledText, level: float, draw: int) -> Noisy:
        rng = noise_generator(self._context.salted_seed, self._attacker, level, draw, example.example_id)
        form = self._form(level, draw) if self._task == TAGGING else None
        parts = (example.text,) if isinstance(example.text, str) else example.text
        made = noisy_copy(self._perturber, parts, level, rng, form)
        text = made.parts[0] if isinstance(example.text, str) else made.parts
        return Noisy(text, _fraction(made.changed, made.tokens))

    def _form(self, level: float, draw: int) -> Callable[[str], str | None]:
        if (level, draw) not in self._forms:
            forms = word_forms(self._perturber, self._context.salted_seed, self._attacker, level, draw)
            # Draws come in order, so those of the one before are not wanted again.
            self._forms = {(level, draw): forms}
        return self._forms[level, draw]


def judge(
    task: str, example: LabelledText, before: Sequence[int], noisy: Noisy, scores: Tensor | UnansweredError
) -> dict[str, Any] | str:
    """Return what a model makes of a perturbed text as cells, or why there is no answer.

    Args:
        task: What the model does.
        example: The text as it was.
        before: The model's predictions on that.
        noisy: What became of it.
        scores: The model's, of that.
    """
    answer = read_answer(task, noisy.text, example.truths, scores)
    if isinstance(answer, str):
        return answer
    decided = decisions(before, example.truths)
    pairs = list(zip(parts_of(task, example.text), parts_of(task, noisy.text), strict=True))
    distance = sum(levenshtein(old, new) for old, new in pairs)
    return (
        columns_of(answer)
        | text_cells(task, noisy.text)
        | {
            "correct": answer.correct(example.truths, decided),
            "flipped": answer.flipped(before, decided),
            "characters_changed": _fraction(distance, sum(len(graphemes(old)) for old, _ in pairs)),
            "tokens_changed": noisy.changed_share,
        }
    )


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
