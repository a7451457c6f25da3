"""Tables of the family's stages: the only place that names their columns, for writing and for reading.

Every table begins with ``example_id``, ``label`` and ``errored``; logits are the model's own, before any scaling, kept
as doubles beside the precision they came in. An example that errored in any arm of a recipe is errored in that table,
so that arms are compared on the same examples; what is known of it (its text, how each arm ended) stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.families.temperature_attack.records import is_inert, stays_right
from seatrial.statistics.arrays import Floats, Ints, Mask
from workers.attacks.text.attacking import Outcome
from workers.attacks.text.importance import Agreement
from workers.data import Text
from workers.families.columns import EXAMPLE, floats, ints
from workers.families.contexts import Records, TextExample
from workers.models import UnansweredError

Parts = tuple[str, ...]
"""A text, or premise and hypothesis."""

Scores: TypeAlias = Tensor | UnansweredError | None
"""Logits (classes,), or why there are none."""

LOGITS = pa.list_(pa.float64())
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
ERRORED = "errored"
SKIPPED = "skipped"
UNFINISHED = "unfinished"
SUCCESSES = ("succeeded", "maximized")
"""What TextAttack counts as success: everything but failed and skipped."""

_CLEAN = [("prediction", pa.int64()), ("logits", LOGITS), ("precision", pa.string())]
_SEARCH = [("temperatures", LOGITS), ("robust", pa.list_(pa.bool_())), ("queries", pa.list_(pa.int64()))]
_TEXTS = [("text", pa.string()), ("second_text", pa.string())]
_ARM = [
    *_TEXTS,
    ("status", pa.string()),
    ("queries", pa.int64()),
    ("perturbed_share", pa.float64()),
    ("logits", LOGITS),
    ("prediction", pa.int64()),
]
_IMPORTANCE = [("importance_correlation", pa.float64()), ("importance_masked", pa.bool_())]
_STRENGTH = [*((name, pa.int64()) for name in ("words", "candidates", "words_without")), ("limited", pa.bool_())]


def validation_records(examples: Sequence[TextExample], scores: Sequence[Scores]) -> Records:
    """Return the table of stage ``validation``: the raw logits of each example."""
    rows = [_begin(example, not _is_sound(given)) | _clean(given) for example, given in _zip(examples, scores)]
    return _table(rows, [*EXAMPLE, *_CLEAN])


def search_records(
    examples: Sequence[TextExample],
    temperatures: Sequence[float],
    robust: Sequence[Sequence[bool] | None],
    queries: Sequence[Sequence[int] | None],
) -> Records:
    """Return the table of one round of the temperature search.

    Args:
        examples: The shard's.
        temperatures: Those tried in this round, on top of the served logits.
        robust: Per example and temperature, whether the unmodified model was right and still is after DeepWordBug at
            that temperature; None where the example errored at any.
        queries: In the same order, the queries of each attack.

    Raises:
        ValueError: The lists do not have one entry per example and temperature.
    """
    rows = []
    for example, kept, asked in _zip(examples, robust, queries):
        is_errored = kept is None or asked is None
        if kept is not None and asked is not None and not len(kept) == len(asked) == len(temperatures):
            raise ValueError(f"one entry per temperature: {len(kept)} and {len(asked)} of {len(temperatures)}")
        columns: dict[str, Any] = {} if is_errored else {"robust": kept, "queries": asked}
        rows.append(_begin(example, is_errored) | {"temperatures": list(temperatures)} | columns)
    return _table(rows, [*EXAMPLE, *_SEARCH])


def attack_records(
    examples: Sequence[TextExample],
    clean: Sequence[Scores],
    outcomes: Mapping[str, Sequence[Outcome]],
    adversarial: Mapping[str, Sequence[Scores]],
    importance: Sequence[Agreement] | None = None,
) -> Records:
    """Return the table of one recipe.

    Args:
        examples: The shard's.
        clean: The unmodified model's raw logits of each text.
        outcomes: By arm, how the attack on each example ended.
        adversarial: By arm, the unmodified model's raw logits of what each attack ended with.
        importance: Of each example's word importances as served and calibrated; None for recipes that rank no words.

    Raises:
        ValueError: The lists do not have one entry per example.
    """
    rows = []
    for row, (example, given) in enumerate(_zip(examples, clean, *outcomes.values(), *adversarial.values(), keep=2)):
        arms = {arm: (endings[row], adversarial[arm][row]) for arm, endings in outcomes.items()}
        is_errored = not _is_sound(given) or any(
            ending.status == ERRORED or not _is_sound(scores) for ending, scores in arms.values()
        )
        cells = _begin(example, is_errored) | _parts("", example.text) | _clean(given)
        cells["error"] = _reason(given, arms) if is_errored else None
        for arm, (ending, scores) in arms.items():
            # An arm that ended well in an example that errored elsewhere says so.
            is_own = ending.status != ERRORED and not _is_sound(scores)
            cells[f"{arm}.status"] = ERRORED if is_own else ending.status
            if not is_errored and isinstance(scores, Tensor):
                cells |= _parts(f"{arm}.", ending.text)
                cells[f"{arm}.queries"] = ending.queries
                cells[f"{arm}.perturbed_share"] = ending.perturbed_share
                cells[f"{arm}.logits"] = scores.tolist()
                cells[f"{arm}.prediction"] = _predict(scores)
        strength = next((ending.strength for ending, _ in arms.values() if ending.strength is not None), None)
        if strength is not None:
            cells |= {"words": strength.words, "candidates": strength.candidates}
            cells |= {"words_without": strength.without, "limited": strength.is_limited}
        if importance is not None and not is_errored:
            cells["importance_correlation"] = importance[row].correlation
            cells["importance_masked"] = importance[row].is_masked
        rows.append(cells)
    columns = [*EXAMPLE, ("error", pa.string()), *_TEXTS, *_CLEAN, *_STRENGTH]
    columns += [(f"{arm}.{name}", kind) for arm in outcomes for name, kind in _ARM]
    return _table(rows, columns + (_IMPORTANCE if importance is not None else []))


@dataclass(frozen=True)
class CleanSample:
    """Examples that did not error, unattacked.

    Attributes:
        example_ids: (n,).
        labels: (n,).
        logits: (n, classes) raw, in the precision the model gave them.
        predictions: (n,) of the unmodified model.
    """

    example_ids: Ints
    labels: Ints
    logits: Tensor
    predictions: Ints

    @property
    def right(self) -> Mask:
        """(n,) whether the prediction is the label."""
        right: Mask = self.predictions == self.labels
        return right

    def __len__(self) -> int:
        """Return n."""
        return len(self.labels)


@dataclass(frozen=True)
class ArmSample:
    """How the attacks of one recipe against one arm ended.

    Attributes:
        texts: (n,) what they ended with.
        status: (n,) as in :class:`Outcome`.
        queries: (n,).
        perturbed_share: (n,).
        logits: (n, classes) raw, of the adversarial texts.
        predictions: (n,) of the unmodified model, on the adversarial texts.
    """

    texts: list[Parts]
    status: NDArray[np.str_]
    queries: Ints
    perturbed_share: Floats
    logits: Tensor
    predictions: Ints

    @property
    def attacked(self) -> Mask:
        """(n,) whether an attack was begun at all."""
        attacked: Mask = self.status != SKIPPED
        return attacked

    @property
    def succeeded(self) -> Mask:
        """(n,) whether it succeeded by TextAttack's own count, on the arm's scores."""
        return np.isin(self.status, SUCCESSES)

    @property
    def unfinished(self) -> Mask:
        """(n,) whether its query budget was spent before it ended."""
        unfinished: Mask = self.status == UNFINISHED
        return unfinished


class AttackSample:
    """The examples of one recipe's table that did not error.

    Attributes:
        size: Rows of the table.
        all_ids: (size,) example ids, errored ones included.
        clean: The examples unattacked.
        answered: All examples whose clean text was answered, whatever became of the attacks on it.
        errors: Why examples errored, as many as did.
        texts: (n,) as they were.
        arms: By arm, what came of them.
        importance: (n,) correlation of word importances, NaN where undefined; None where not measured.
        masked: (n,) whether the served scores give every word the same weight; None where not measured.
        strength: (words, candidates, words without any, examples in their limit, examples counted), summed over the
            examples attacked; None where not measured.
        is_inert: Whether the recipe could hardly write anything; not where that was not measured.
    """

    def __init__(self, records: Records) -> None:
        self.size = records.num_rows
        self.all_ids = ints(records, "example_id")
        valid = _valid(records)
        self.clean = _read_clean(valid)
        self.answered = _read_clean(records.filter(records.column("prediction").is_valid()))
        self.errors = [str(reason) for reason in records.column("error").drop_null().to_pylist()]
        self.texts = _read_texts(valid, "")
        names = [name.removesuffix(".status") for name in valid.column_names if name.endswith(".status")]
        self.arms = {arm: _read_arm(valid, arm, self.clean.logits.dtype) for arm in names}
        has_importance = "importance_correlation" in valid.column_names
        self.importance = floats(valid, "importance_correlation") if has_importance else None
        has_masked = "importance_masked" in valid.column_names
        self.masked = np.array(valid.column("importance_masked").to_pylist(), dtype=bool) if has_masked else None
        self.strength = _read_strength(records) if "candidates" in records.column_names else None
        self.is_inert = self.strength is not None and is_inert(*self.strength[:2])

    def robust(self, arm: str) -> Mask:
        """Return (n,) whether the unmodified model was right and still is after the attack (eq. 9)."""
        return stays_right(self.clean.predictions, self.arms[arm].predictions, self.clean.labels)


class SearchSample:
    """All rounds of the temperature search, on the examples that errored in none: common ones for every temperature.

    Attributes:
        temperatures: (evaluations,) in the order they were tried.
        robust: (n, evaluations).
        size: Examples, errored ones included.
    """

    def __init__(self, rounds: Sequence[Records]) -> None:
        self.size = rounds[0].num_rows if rounds else 0
        tables = [_valid(records) for records in rounds]
        common = set.intersection(*[set(ints(table, "example_id").tolist()) for table in tables]) if tables else set()
        self.temperatures: list[float] = []
        columns = []
        for records, table in zip(rounds, tables, strict=True):
            tried = len(self.temperatures)
            if records.num_rows:
                self.temperatures += records.column("temperatures")[0].as_py()
            keep = np.isin(ints(table, "example_id"), list(common))
            kept = table.filter(pa.array(keep)).column("robust").to_pylist()
            # Where no example is common, how many temperatures there were is known from the rounds alone.
            columns.append(np.array(kept, dtype=bool).reshape(len(common), len(self.temperatures) - tried))
        self.robust: Mask = np.concatenate(columns, axis=1) if columns else np.empty((0, 0), dtype=bool)

    @property
    def evaluated(self) -> list[tuple[float, float]]:
        """Pairs of temperature and Q, NaN where every example errored."""
        n = len(self.robust)
        robust = self.robust.sum(axis=0).tolist() if n else [0] * len(self.temperatures)
        fractions = [count / n if n else float("nan") for count in robust]
        return list(zip(self.temperatures, fractions, strict=True))


def read_validation(records: Records) -> CleanSample:
    """Return the validation examples that did not error."""
    return _read_clean(_valid(records))


def merge_clean(samples: Sequence[CleanSample]) -> CleanSample:
    """Return the examples of any of the samples once, in the order they first come."""
    filled = [sample for sample in samples if len(sample)] or list(samples[:1])
    ids = np.concatenate([sample.example_ids for sample in filled])
    _, first = np.unique(ids, return_index=True)
    order = np.sort(first)
    return CleanSample(
        ids[order],
        np.concatenate([sample.labels for sample in filled])[order],
        torch.cat([sample.logits for sample in filled])[torch.from_numpy(order)],
        np.concatenate([sample.predictions for sample in filled])[order],
    )


def _begin(example: TextExample, is_errored: bool) -> dict[str, Any]:
    return {"example_id": example.example_id, "label": example.label, "errored": is_errored}


def _clean(scores: Scores) -> dict[str, Any]:
    if not isinstance(scores, Tensor) or not _is_sound(scores):
        return {}
    precision = str(scores.dtype).removeprefix("torch.")
    if precision not in PRECISIONS:
        raise ValueError(f"logits come as {' or '.join(PRECISIONS)}, not {precision}")
    return {"prediction": _predict(scores), "logits": scores.tolist(), "precision": precision}


def _parts(prefix: str, text: Text) -> dict[str, Any]:
    first, second = (text, None) if isinstance(text, str) else text
    return {f"{prefix}text": first, f"{prefix}second_text": second}


def _reason(clean: Scores, arms: Mapping[str, tuple[Outcome, Scores]]) -> str:
    """Return what went wrong first."""
    if not _is_sound(clean):
        return f"clean text: {_why(clean)}"
    for arm, (ending, scores) in arms.items():
        if ending.status == ERRORED:
            return f"{arm}: {ending.error or 'the attack errored'}"
        if not _is_sound(scores):
            return f"{arm}: {_why(scores)}"
    raise ValueError("nothing went wrong")


def _why(scores: Scores) -> str:
    return str(scores) if isinstance(scores, UnansweredError) else "the scores are not finite"


def _is_sound(scores: Scores) -> bool:
    return isinstance(scores, Tensor) and bool(scores.isfinite().all())


def _predict(scores: Tensor) -> int:
    # The first of several that tie, on every platform.
    return int(np.argmax(scores.numpy()))


def _zip(*lists: Sequence[Any], keep: int | None = None) -> list[tuple[Any, ...]]:
    if len({len(each) for each in lists}) > 1:
        raise ValueError(f"one entry per example: {[len(each) for each in lists]}")
    return list(zip(*lists[:keep], strict=True))


def _table(rows: list[dict[str, Any]], columns: list[tuple[str, pa.DataType]]) -> Records:
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _valid(records: Records) -> Records:
    return records.filter(pa.array(~records.column("errored").to_numpy().astype(bool)))


def _read_clean(valid: Records) -> CleanSample:
    precisions = set(valid.column("precision").to_pylist())
    # Shards of one model agree; were they ever to differ, the wider one holds both.
    precision = torch.float32 if precisions == {"float32"} else torch.float64
    return CleanSample(
        ints(valid, "example_id"),
        ints(valid, "label"),
        _read_logits(valid, "logits", precision),
        ints(valid, "prediction"),
    )


def _read_arm(valid: Records, arm: str, precision: torch.dtype) -> ArmSample:
    return ArmSample(
        texts=_read_texts(valid, f"{arm}."),
        status=np.array(valid.column(f"{arm}.status").to_pylist(), dtype=str),
        queries=ints(valid, f"{arm}.queries"),
        perturbed_share=floats(valid, f"{arm}.perturbed_share"),
        logits=_read_logits(valid, f"{arm}.logits", precision),
        predictions=ints(valid, f"{arm}.prediction"),
    )


def _read_strength(records: Records) -> tuple[int, int, int, int, int] | None:
    counted = records.filter(records.column("candidates").is_valid())
    if not counted.num_rows:
        return None
    words, candidates, without = (int(ints(counted, name).sum()) for name in ("words", "candidates", "words_without"))
    return words, candidates, without, sum(counted.column("limited").to_pylist()), counted.num_rows


def _read_texts(valid: Records, prefix: str) -> list[Parts]:
    pairs = zip(*[valid.column(f"{prefix}{name}").to_pylist() for name, _ in _TEXTS], strict=True)
    return [(first,) if second is None else (first, second) for first, second in pairs]


def _read_logits(valid: Records, name: str, precision: torch.dtype) -> Tensor:
    rows = valid.column(name).to_pylist()
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(rows[0]) if rows else 0).to(precision)
