"""A finished audit of texts under noise, written as a worker would have; no model is run."""

from collections.abc import Sequence
from typing import Any

from seatrial.contracts.noise import ATTACKERS
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow
from seatrial.store.tables.base import utc_now
from tests.reports import fabricated
from tests.rows import add_audit

LABELS = ["negative", "positive"]
LEVELS = (0.2, 0.5, 0.8)
REVIEW = "a wonderful film, and one that stays with you long after the lights have gone up"
NOISED = {
    "visual": REVIEW.translate(str.maketrans("aoi", "\u0430\u043e\u0456")),
    "intrude": "a w%o%nderf%ul film, a#nd o;n;e that s!t!ays with you lo,ng after the li^gh^ts have g-one up",
    "segment": "a wonderfulfilm, andonethat stayswithyoulong after thelightshavegone up",
    "inner_shuffle": "a wodnefurl flim, and one taht satys wtih you lnog atefr the lghtis hvae gnoe up",
}
HARM = ("visual", "intrude", "full_shuffle", "disemvowel", "keyboard_typo", "inner_shuffle", "natural_typo", "segment")
ORDER = (*HARM, "truncate", "phonetic")


def number(value: float | None, spread: float = 0.03, n: int = 400, method: str = "gaffke") -> dict[str, Any]:
    """Return an estimate as it is stored."""
    return fabricated.estimate(value, spread, n, method)


def result(
    *,
    attackers: Sequence[str] = ATTACKERS,
    levels: Sequence[float] = LEVELS,
    task: str = "text-classification",
    score: str = "accuracy",
    chance: float = 0.5,
    clean: float | None = 0.9,
    worst: Sequence[float | None] = (0.62, 0.31, 0.06),
    least: float = 0.46,
    draws: int = 1,
    confidence: float = 0.88,
    spread: float = 0.03,
    reach: float = 1.0,
    flags: Any = (),
    n: int = 400,
    errored: int = 0,
    examples: Any = None,
) -> dict[str, Any]:
    """Return a result in which the score falls to ``worst`` by level, and under the most harmful attacker to ``least``.

    Attackers do harm in the order of ``ORDER``, each give or take ``reach`` places.
    """
    order = [one for one in ORDER if one in attackers] + [one for one in attackers if one not in ORDER]
    estimates: dict[str, Any] = {"score[level=0]": number(clean, 0.02, n, "clopper-pearson")}
    estimates |= {"ece[level=0]": number(0.04, 0.01, n), "mean_confidence[level=0]": number(0.94, 0.01, n)}
    curves: dict[str, list[dict[str, Any]]] = {one: [] for one in order}
    for attacker in attackers:
        place = order.index(attacker)
        for at, level in enumerate(levels):
            top = 0.0 if clean is None else clean - (clean - least) * (at + 1) / len(levels) * 0.8**place
            of = f"[attacker={attacker},level={level:g}]"
            changed = level * (0.4 - 0.03 * place)
            estimates |= {
                f"score{of}": number(top, spread, n, "clopper-pearson"),
                f"relative_score{of}": number(top / clean if clean else None, spread, n),
                f"score_drop{of}": number(clean - top if clean else None, spread, n, "paired"),
                f"flip_rate{of}": number(1 - top / 1.05, spread, n, "clopper-pearson"),
                f"characters_changed{of}": number(changed, 0.004, n),
                f"tokens_changed{of}": number(level * 0.9, 0.01, n),
                f"ece{of}": number(abs(confidence - top), 0.03, n),
                f"mean_confidence{of}": number(confidence, 0.01, n),
            }
            if draws > 1:
                estimates[f"persistent_score{of}"] = number(top * 0.7, spread, n, "clopper-pearson")
            curves[attacker].append({"level": level, "score": top, "low": top - 0.03, "high": top + 0.03, "n": n})
    for attacker in attackers:
        rank = order.index(attacker) + 1.0
        low, high = max(1.0, rank - reach), min(float(len(order)), rank + reach)
        estimates[f"rank[attacker={attacker}]"] = {**number(rank, 0, n), "low": low, "high": high}
    for level, kept in zip(levels, worst, strict=False):
        estimates[f"mean_relative_score[level={level:g}]"] = number(None if kept is None else 1 - level / 2, 0.02, n)
        estimates[f"worst_case_score[level={level:g}]"] = number(kept, spread, n, "clopper-pearson")
    if len(order) > 2:
        estimates["edit_correlation"] = number(-0.83, 0.05, n)
    return {
        "estimates": estimates,
        "series": {
            **{"task": task, "score": score, "chance": chance, "levels": list(levels), "attackers": order},
            "curves": curves,
            "worst_attackers": [
                {"level": level, "attacker": one, "examples": max(0, 200 - 60 * place)}
                for level in levels
                for place, one in enumerate(order)
            ],
            "examples": some() if examples is None else examples,
        },
        "flags": list(flags),
        "counts": {"n": n + errored, "errored": errored},
    }


def example(
    number: int = 17,
    *,
    original: list[str] | None = None,
    label: int | None = 1,
    prediction: int | None = 1,
    truths: list[int] | None = None,
    attacks: list[dict[str, Any]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return an example that is right without noise."""
    return {
        **{"example_id": number, "label": label, "original": original or [REVIEW], "prediction": prediction},
        "truths": [1] if truths is None else truths,
        "attacks": [attack("visual", 0), attack("intrude", 0), attack("segment", 1)] if attacks is None else attacks,
        **more,
    }


def attack(
    attacker: str, prediction: int | None, text: list[str] | None = None, *, level: float = 0.8, **more: Any
) -> dict[str, Any]:
    """Return what one attacker made of an example."""
    return {
        **{"attacker": attacker, "level": level, "text": text or [NOISED.get(attacker, REVIEW)]},
        **{"prediction": prediction, "confidence": 0.71, "correct": int(prediction == 1), "decisions": 1},
        **more,
    }


def some() -> list[dict[str, Any]]:
    """Return examples of every kind a single-label audit has."""
    pair = ["A man plays a guitar.", "Somebody makes music."]
    noised = [pair[0].replace("a", "\u0430"), "Smebody maeks msuic."]
    return [
        example(),
        example(21, original=pair, attacks=[attack("visual", 0, noised)]),
        example(3, label=0, prediction=1, attacks=[attack("inner_shuffle", 1)]),
    ]


def finished(database: Database, store: ArtifactStore, *, params: dict[str, Any] | None = None, **measured: Any) -> str:
    """Store a finished audit of texts under noise and return its id."""
    audit_id = add_audit(database, started_at=utc_now(), finished_at=utc_now(), spec={"samples": 400})
    given = {"kind": "low_level_attack", "draws": measured.get("draws", 1), **(params or {})}
    complete = LowLevelAttackParams.model_validate(given)
    task = measured.get("task", "text-classification")
    names = ("curves", "ranking", "edit_distance", "confidence")
    fabricated.change(
        database,
        audit_id,
        check={
            "params": complete.model_dump(mode="json"),
            "result": result(attackers=complete.runs(task), levels=complete.levels, **measured),
            "figures": {name: store.put_bytes(fabricated.SVG.encode()) for name in names},
            "started_at": utc_now(),
            "finished_at": utc_now(),
        },
        model={
            "name": "minilm-reviews",
            "version": "1",
            "task": task,
            "manifest": {"architecture": {"kind": "huggingface"}, "labels": LABELS},
            "facts": {"parameters": 22_700_000, "classes": 2, "device": "cpu", "forward_s": 0.005, "tokens": 32},
        },
        dataset={
            "name": "reviews-test",
            "version": "1",
            "task": task,
            "facts": {"examples": 1066, "classes": 2, "label_counts": {"0": 533, "1": 533}, "mean_words": 21.4},
        },
        state="succeeded",
    )
    with database.write() as session:
        session.query(CheckRow).filter_by(audit_id=audit_id).update({"kind": "low_level_attack"})
    return audit_id
