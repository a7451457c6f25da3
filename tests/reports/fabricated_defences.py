"""A finished audit of test-time defences, written as a worker would have; no model is run."""

from typing import Any

from seatrial.contracts.estimates import metric_name
from seatrial.families.transductive_attack.params import (
    ADAPTIVE,
    CORRUPTIONS,
    MODEL_SPACE,
    NEEDS_TRAINING,
    TRANSFERS,
    UNBOUNDED,
    TransductiveAttackParams,
)
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow
from seatrial.store.tables.base import utc_now
from tests.reports import fabricated
from tests.rows import add_audit

DENT = {"transfer_autoattack": 0.644, "transfer_pgd": 0.632, "fpa": 0.63, "gmsa_avg": 0.627, "gmsa_min": 0.621}
"""A defence that holds, and only just adds something."""

RMC = {"transfer_autoattack": 0.779, "transfer_pgd": 0.717, "fpa": 0.408, "gmsa_avg": 0.425, "gmsa_min": 0.396}
"""The paper's, on an adversarially trained CIFAR-10 model."""

TADV = {"transfer_autoattack": 0.70, "transfer_pgd": 0.69, "fpa": 0.70, "gmsa_avg": 0.685, "gmsa_min": 0.69}
"""A defence that keeps what it shows."""

Games = dict[str, float | None]


def number(value: float | None, spread: float | None, n: int, method: str) -> dict[str, Any]:
    """Return a number as it is stored; without a spread it has no interval."""
    if value is None:
        return {"value": None, "low": None, "high": None, "n": 0, "method": "none"}
    if spread is None:
        return {"value": value, "low": None, "high": None, "n": n, "method": "none"}
    return {"value": value, "low": value - spread, "high": value + spread, "n": n, "method": method}


def share(value: float | None, n: int, spread: float | None = 0.03) -> dict[str, Any]:
    """Return a share as it is stored."""
    told = number(value, spread, n, "clopper-pearson")
    if told["low"] is not None:
        told |= {"low": max(told["low"], 0.0), "high": min(told["high"], 1.0)}
    return told


def result(
    defences: dict[str, Games] | None = None,
    *,
    static: float | None = 0.58,
    static_clean: float = 0.86,
    clean: float | None = 0.85,
    spread: float | None = 0.012,
    n: int = 1000,
    stds: float | None = None,
    rejects: float | None = None,
    errs: float = 0.25,
    iterations: int = 10,
    clean_sent: float = 0.0,
    flags: Any = (),
    errored: int = 0,
    counts: dict[str, int] | None = None,
    followed: Any = (),
) -> dict[str, Any]:
    """Return a result with the robustness of each defence by attack; None is a game that failed.

    ``spread`` is half the width of the intervals of what a defence adds and of what is made up.
    """
    estimates = {"static_accuracy": share(static_clean, n), "static_robustness": share(static, n)}
    curves = []
    for name, games in (defences or {"tadv": TADV}).items():
        estimates[metric_name("clean_accuracy", defence=name)] = share(clean, n)
        for attack, kept in games.items():
            estimates[metric_name("robustness", defence=name, attack=attack)] = share(kept, n)
            std = number(None if kept is None else stds, None, n, "none")
            estimates[metric_name("robustness_std", defence=name, attack=attack)] = std
            if kept is not None and attack in MODEL_SPACE:
                curves.append(curve(name, attack, kept, n, iterations, clean_sent))
        within = {attack: kept for attack, kept in games.items() if attack not in (*UNBOUNDED, *CORRUPTIONS)}
        played = {attack: kept for attack, kept in within.items() if kept is not None}
        sent = next((played[attack] for attack in TRANSFERS if attack in played), None)
        knowing = min((kept for attack, kept in played.items() if attack in ADAPTIVE), default=None)
        extra = None if sent is None or knowing is None else sent - knowing
        gain = None if static is None or not played else min(played.values()) - static
        estimates[metric_name("overestimate", defence=name)] = number(extra, spread, n, "paired")
        estimates[metric_name("gain_over_static", defence=name)] = number(gain, spread, n, "paired")
        if rejects is not None:
            for attack in ("clean", *games):
                kept = round(n * (1 - rejects))
                named = {"defence": name, "attack": attack}
                estimates[metric_name("rejection_rate", **named)] = share(rejects, n)
                estimates[metric_name("selective_error", **named)] = share(errs if kept else None, kept)
                if attack != "clean":
                    estimates[metric_name("clean_rejection_rate", **named)] = share(rejects / 4, n)
    return {
        "estimates": estimates,
        "series": {"robustness": [], "compared": [], "iterations": curves, "rejection": [], "followed": list(followed)},
        "flags": list(flags),
        "counts": {"n": n + errored, "errored": errored, "games": 6, **(counts or {})},
    }


def curve(defence: str, attack: str, kept: float, n: int, iterations: int, clean_sent: float) -> dict[str, Any]:
    """Return how the iterations of an attack did: down to what it left, and half of the examples sent as the last."""
    scores = [kept + 0.2 * (iterations - 1 - number) / max(1, iterations - 1) for number in range(iterations)]
    sent = round(clean_sent * n)
    points = [
        {"iteration": number, "score": score, "n": n, "best": min(scores[: number + 1]), "selected": 0}
        for number, score in enumerate(scores)
    ]
    points[0]["selected"] = (n - sent) - (n - sent) // 2
    points[-1]["selected"] += (n - sent) // 2
    return {"defence": defence, "attack": attack, "n": n, "points": points, "clean_sent": sent, "clean_score": None}


def params(*defences: str, **asked: Any) -> dict[str, Any]:
    """Return the parameters of a check, complete, as they are stored."""
    names = defences or ("tadv",)
    given = {"kind": "transductive_attack", "defences": [{"name": name} for name in names], **asked}
    if set(names) & set(NEEDS_TRAINING):
        given.setdefault("training_dataset", "dat_train")
    return TransductiveAttackParams.model_validate(given).model_dump(mode="json")


def finished(
    database: Database,
    store: ArtifactStore,
    defences: dict[str, Games],
    *,
    asked: dict[str, Any] | None = None,
    **measured: Any,
) -> str:
    """Store a finished audit of test-time defences and return its id."""
    audit_id = add_audit(database, started_at=utc_now(), finished_at=utc_now(), spec={"samples": 1000})
    fabricated.change(
        database,
        audit_id,
        check={
            "params": params(*defences, **(asked or {})),
            "result": result(defences, **measured),
            "figures": {name: store.put_bytes(fabricated.SVG.encode()) for name in ("robustness", "iterations")},
            "started_at": utc_now(),
            "finished_at": utc_now(),
        },
        model={
            "name": "cifar-wrn-at",
            "version": "1",
            "manifest": {"architecture": {"kind": "resnet_cifar", "depth": 32}, "labels": list("0123456789")},
            "facts": {"parameters": 464_154, "classes": 10, "device": "cuda"},
        },
        dataset={"name": "cifar10-test", "version": "1"},
        state="succeeded",
    )
    with database.write() as session:
        session.query(CheckRow).filter_by(audit_id=audit_id).update({"kind": "transductive_attack"})
    return audit_id
