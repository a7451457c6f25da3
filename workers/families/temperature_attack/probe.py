"""What the scores of an endpoint are worth, asked before anything else of it.

Of some texts a path of one-letter edits is asked in order, outward from the text or inward to it as a coin says, each
step of it fresh from the model, then some of it once more, and its ends from another session, the last text first. A
function of the text alone gives the same answer to a text whenever and by whomever it is asked, and knows nothing of
the coin: if the scores stand still more often at the end that was asked first, answers are taken from memory. And
scores that lead an attack differ little between neighbours, more between strangers, and seldom not at all.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import log_softmax
from scipy.stats import binomtest
from torch import Tensor

from seatrial.families.temperature_attack.params import CROSSING_STEPS, DRAWN_TEXTS, PROBE_STEPS
from seatrial.statistics.arrays import Floats, Ints, Mask
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.word_edits import LEFT_OUT, PUT_IN, REPLACED, SEARCHED, WordsOf, misspelt
from workers.data import Text
from workers.families.columns import EXAMPLE
from workers.families.contexts import Records, TextContext, TextExample
from workers.families.temperature_attack.crossing import Crossing, crossing_order, unmoved_share

OPENING = "probe"
"""The stage that comes before all others, and the purpose of its edits."""

GRAIN = 8
"""Texts that stay together in a shard: enough to fill a CPU's batches, few enough to share a stage among workers."""

Answers = list[list[float]]
"""Logits (classes,) of one text after another."""

MOVED = 0.02
"""Probability by which the answer to a text may differ when it is asked again: arithmetic in 16 bits and rounding to
two digits stay below."""

CHANGED = 0.05
"""Share of texts that may be given another answer when they are asked again."""

FEWEST = 30
"""Texts, or pairs of them, from which a share or a mean is worth something."""

_TABLE = pa.schema(
    [
        *EXAMPLE,
        ("is_outward", pa.bool_()),
        ("path", pa.list_(pa.list_(pa.float64()))),
        ("again", pa.list_(pa.list_(pa.float64()))),
        ("elsewhere", pa.list_(pa.list_(pa.float64()))),
        ("texts", pa.list_(pa.string())),
        ("parts", pa.list_(pa.string())),
        ("crossing", pa.list_(pa.list_(pa.float64()))),
        ("from_start", pa.bool_()),
        ("drawn", pa.list_(pa.list_(pa.float64()))),
        ("opening", pa.list_(pa.float64())),
    ]
)


def edit_path(text: Text, seed: int, steps: int = PROBE_STEPS, seen: tuple[int, ...] | None = None) -> list[Text]:
    """Return a text and what becomes of it when one word after another is misspelt by a letter.

    As the recipes do it, and the search by labels: whoever answers other edits otherwise would be seen by nothing here.
    All are of one kind, or of any, as it is drawn.

    Args:
        text: A text or a pair.
        seed: Of the draws.
        steps: Words at most.
        seen: Characters of each part that the model sees; no word is touched that goes on behind them.

    >>> edit_path("a fine day", 1)
    ['a fine day', 'a fibe day', 'a fibe dy']
    """
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    words, path = WordsOf.cut(text, seen), [text]
    # Half of the paths as searches by labels write, half as those by scores; exchanges alone are two edits each to
    # whoever counts letters.
    kind = SEARCHED if rng.random() < 0.5 else rng.choice((LEFT_OUT, PUT_IN, REPLACED, None))
    places, wanted = words.content_places, min(steps, len(words.places))
    # As many as there are words, stopwords too: of the others some are misspelt twice.
    rounds = math.ceil(wanted / max(1, len(places)))
    order = [place for _ in range(rounds) for place in rng.sample(places, len(places))]
    for part, at in order[:wanted]:
        words.pieces[part][at] = misspelt(words.pieces[part][at], rng, kind)
        path.append(words.joined)
    return path


def run_probe(context: TextContext, examples: Sequence[TextExample], purpose: str = OPENING) -> Records:
    """Ask the paths of a shard's texts, step by step, and return a row for each text.

    Args:
        context: The shard's.
        examples: Its texts.
        purpose: Of the edits: another one makes others of them, and what the first one's paths ended with is asked
            about again, before whoever is asked begins another session.
    """
    seeds = [context.salted_seed(purpose, example.example_id) for example in examples]
    service = context.scoring()
    extents = [service.seen(example.text) for example in examples]
    paths = [
        edit_path(example.text, seed, seen=seen) for example, seed, seen in zip(examples, seeds, extents, strict=True)
    ]
    outward = [seed % 2 == 0 for seed in seeds]
    orders = [
        list(range(len(path))) if is_outward else list(reversed(range(len(path))))
        for path, is_outward in zip(paths, outward, strict=True)
    ]
    found = _ask(context, service, paths, orders)
    again = _ask(context, service, paths, [_asked_again(len(path)) for path in paths])
    crossing = [
        edit_path(example.text, seed + 1, CROSSING_STEPS, seen)
        for example, seed, seen in zip(examples, seeds, extents, strict=True)
    ]
    starts = [seed // 2 % 2 == 0 for seed in seeds]
    walked = [crossing_order(len(path), from_start=start) for path, start in zip(crossing, starts, strict=True)]
    crossed = _ask(context, service, crossing, walked)
    drawn = [
        [edit_path(example.text, seed + 2 + number, seen=seen)[-1] for number in range(DRAWN_TEXTS)]
        for example, seed, seen in zip(examples, seeds, extents, strict=True)
    ]
    told = _ask(context, service, drawn, [range(DRAWN_TEXTS) for _ in drawn])
    first = [] if purpose == OPENING else _first_ends(context, examples, extents)
    opening = service.ask_anew(first)
    service.begin_session()
    # By itself: who begins with one text may be taken for somebody else than who begins with many.
    service.ask_anew([path[-1] for path in paths[:1]])
    elsewhere = _ask(context, service, paths, [_asked_elsewhere(len(path)) for path in paths])
    rows = []
    for row, example in enumerate(examples):
        is_errored = any(None in answers[row] for answers in (found, again, crossed, elsewhere, told))
        cells: dict[str, Any] = {"example_id": example.example_id, "label": example.label, "errored": is_errored}
        if not is_errored:
            answers = dict(zip(orders[row], found[row], strict=True))
            cells["path"] = [answers[step] for step in range(len(paths[row]))]
            cells |= {"again": again[row], "elsewhere": elsewhere[row], "is_outward": outward[row]}
            across = dict(zip(walked[row], crossed[row], strict=True))
            cells |= {"crossing": [across[step] for step in range(len(across))], "from_start": starts[row]}
            cells["parts"] = [example.text] if isinstance(example.text, str) else list(example.text)
            cells["texts"] = [text if isinstance(text, str) else " ".join(text) for text in paths[row]]
            cells["drawn"] = told[row]
            cells["opening"] = _logits(opening[row]) if opening else None
        rows.append(cells)
    return pa.Table.from_pylist(rows, schema=_TABLE)


class ProbeSample:
    """The answers to all paths that were answered wholly.

    Attributes:
        example_ids: (n,).
        labels: (n,).
        path: (n) arrays (steps, classes): log-probabilities along a path, from the text as it is.
        again: (n) arrays of those that were asked again.
        elsewhere: (n) arrays of those asked from another session; empty where nobody was.
        drawn: Log-probabilities (edited texts, classes) by example, of texts with words edited as at a path's end.
        opening: Log-probabilities (classes,) by example of what the first probe's path ended with, asked again.
        written: (n) lists (steps,) of the texts, parts joined; None where they are not recorded.
        outward: (n,) whether the text itself was asked first.
        crossings: Paths between two texts by example; empty where they are not recorded.
        unmoved_shares: Share of edits that move no score, by example.
    """

    def __init__(self, records: Records) -> None:
        rows = [row for row in records.to_pylist() if not row["errored"]]
        self.example_ids = [int(row["example_id"]) for row in rows]
        self.path: list[Floats] = [log_softmax(np.array(row["path"]), axis=1) for row in rows]
        self.again: list[Floats] = [log_softmax(np.array(row["again"]), axis=1) for row in rows]
        self.elsewhere: list[Floats] = [
            log_softmax(np.array(row["elsewhere"]), axis=1) for row in rows if row.get("elsewhere") is not None
        ]
        self.drawn, self.opening = _logs(rows, "drawn"), _logs(rows, "opening")
        self.labels = [int(row["label"]) for row in rows]
        self.written: list[list[str]] | None = (
            [row["texts"] for row in rows] if "texts" in records.column_names else None
        )
        self.crossings = {
            int(row["example_id"]): Crossing(log_softmax(np.array(row["crossing"]), axis=1), row["from_start"])
            for row in rows
            if row.get("crossing") is not None
        }
        self.unmoved_shares = {
            int(row["example_id"]): unmoved_share(path) for row, path in zip(rows, self.path, strict=True)
        }
        self.outward: Mask = np.array([row["is_outward"] for row in rows], dtype=bool)

    def __len__(self) -> int:
        """Return n."""
        return len(self.path)

    @cached_property
    def changed(self) -> Mask:
        """(n,) whether a text was given another answer when it was asked again."""
        first = [path[_asked_again(len(path))] for path in self.path]
        return _differ(first, self.again)

    @cached_property
    def changed_elsewhere(self) -> Mask:
        """(n,) whether a text was given another answer in another session; empty where none was begun."""
        first = [path[_asked_elsewhere(len(path))] for path in self.path[: len(self.elsewhere)]]
        return _differ(first, self.elsewhere)

    @cached_property
    def plateaus(self) -> Ints:
        """(n, 2) how many steps in a row have the very scores of the end that was asked first, and of the other."""
        counts = []
        for path, is_outward in zip(self.path, self.outward, strict=True):
            ordered = path if is_outward else path[::-1]
            counts.append([_still(ordered), _still(ordered[::-1])])
        return np.array(counts, dtype=np.int64).reshape(-1, 2)

    @property
    def texts(self) -> int:
        """How many texts were asked, those asked again aside."""
        return sum(map(len, self.path))

    @property
    def memory_p(self) -> float:
        """One-sided p of scores standing still longer at the end asked first, under answers that know no order."""
        differences = self.plateaus[:, 0] - self.plateaus[:, 1]
        longer, unequal = int((differences > 0).sum()), int((differences != 0).sum())
        return float(binomtest(longer, unequal, alternative="greater").pvalue) if unequal else 1.0

    @cached_property
    def margins(self) -> list[Floats]:
        """(n) arrays (steps,): log-odds of the two likeliest classes along a path."""
        return [np.diff(np.sort(path, axis=1)[:, -2:], axis=1)[:, 0] for path in self.path]

    @property
    def unmoved(self) -> float:
        """Share of one-letter edits that move no score at all."""
        still = [(np.diff(path, axis=0) == 0).all(axis=1) for path in self.path]
        return float(np.concatenate(still).mean()) if still and sum(map(len, still)) else 0.0

    @property
    def levels(self) -> NDArray[np.float64]:
        """Distinct confidences, ascending."""
        return np.unique(self._confidences)

    @property
    def commonest(self) -> tuple[float, float]:
        """The confidence that most texts have, and their share."""
        values, counts = np.unique(self._confidences, return_counts=True)
        top = int(counts.argmax())
        return float(values[top]), float(counts[top] / counts.sum())

    @property
    def restlessness(self) -> float:
        """How far margins of neighbours lie apart, relative to those of strangers: 1 for a hash, near 0 for a slope.

        NaN where it is not known: too few texts, or no two strangers that differ.
        """
        near, far = [], []
        starts = [(path[0].argmax(), margins[0]) for path, margins in zip(self.path, self.margins, strict=True)]
        for path, margins in zip(self.path, self.margins, strict=True):
            labels = path.argmax(axis=1)
            near += np.abs(np.diff(margins))[labels[1:] == labels[:-1]].tolist()
        for row, (label, margin) in enumerate(starts):
            far += [abs(margin - other) for same, other in starts[:row] if same == label]
        if len(near) < FEWEST or len(far) < FEWEST or not np.mean(far):
            return float("nan")
        return float(np.mean(near) / np.mean(far))

    @cached_property
    def _confidences(self) -> Floats:
        # Twelve digits: what a softmax of rounded numbers leaves in the last bits is no level of its own.
        return np.round(np.concatenate([np.exp(path.max(axis=1)) for path in self.path]), 12)


@dataclass(frozen=True)
class _Question:
    row: int
    text: Text


def _ask(
    context: TextContext, service: ScoringService, paths: Sequence[Sequence[Text]], orders: Sequence[Sequence[int]]
) -> list[list[Any]]:
    """Return per path the answers in its order; the n-th questions of all paths are asked together."""
    answers: list[list[Any]] = [[] for _ in paths]
    for turn in range(max(map(len, orders), default=0)):
        context.check_cancelled()
        asked = [_Question(row, paths[row][order[turn]]) for row, order in enumerate(orders) if turn < len(order)]
        given = service.ask_anew([question.text for question in asked])
        for question, logits in zip(asked, given, strict=True):
            answers[question.row].append(_logits(logits))
    return answers


def _logs(rows: Sequence[Mapping[str, Any]], column: str) -> dict[int, Floats]:
    """Return log-probabilities by example where a column has answers."""
    found = [row for row in rows if row.get(column) is not None]
    return {int(row["example_id"]): log_softmax(np.array(row[column]), axis=-1) for row in found}


def _logits(answer: Any) -> list[float] | None:
    return answer.tolist() if isinstance(answer, Tensor) and bool(answer.isfinite().all()) else None


def _first_ends(
    context: TextContext, examples: Sequence[TextExample], extents: Sequence[tuple[int, ...] | None]
) -> list[Text]:
    """Return what the paths of the first probe ended with."""
    seeds = [context.salted_seed(OPENING, example.example_id) for example in examples]
    return [
        edit_path(example.text, seed, seen=seen)[-1]
        for example, seed, seen in zip(examples, seeds, extents, strict=True)
    ]


def _asked_again(steps: int) -> list[int]:
    return [0, steps // 2, steps - 1]


def _asked_elsewhere(steps: int) -> list[int]:
    return [steps - 1, 0]


def _differ(first: Sequence[Floats], second: Sequence[Floats]) -> Mask:
    apart = [np.abs(np.exp(a) - np.exp(b)).max() for a, b in zip(first, second, strict=True)]
    return np.array(apart) > MOVED


def _still(path: Floats) -> int:
    """Return how many answers from the start on are the first one's."""
    same = (path == path[0]).all(axis=1)
    return len(path) if same.all() else int(same.argmin())
