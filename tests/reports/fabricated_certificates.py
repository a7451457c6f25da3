"""A finished audit of certified calibration, written as a worker would have; no model is run."""

from typing import Any

from seatrial.contracts.estimates import metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow
from seatrial.store.tables.base import utc_now
from tests.reports import fabricated
from tests.rows import add_audit

RADII = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
"""Not in the order of their names: `0.1` before `0.05` by length, `0.5` before `1` by neither."""

AT = 0.25
"""The radius of the headline, with sigma 0.25."""

SOUND = {"grid": 16320, "distance": 1.2e-8, "rounded": 0, "furthest": 0.0}
"""What is said of the noise since it lies on a grid."""


def number(value: float | None, spread: float | None = 0.02, n: int = 1000) -> dict[str, Any]:
    """Return a number as it is stored; without a spread it has no interval."""
    if value is None or spread is None:
        return {"value": value, "low": None, "high": None, "n": n, "method": "none"}
    return {
        "value": value,
        "low": max(value - spread, 0.0),
        "high": min(value + spread, 1.0),
        "n": n,
        "method": "gaffke",
    }


def share(value: float | None, n: int = 1000) -> dict[str, Any]:
    """Return a share as it is stored."""
    if value is None:
        return number(None, n=n)
    return {**number(value, 0.02, n), "method": "clopper-pearson"}


def result(
    *,
    cce: float | None = 0.06,
    certified: float = 0.9,
    clean: float | None = 0.02,
    spread: float | None = 0.02,
    attacked: dict[str, float | None] | None = None,
    compared: tuple[str, ...] = ("acce", "dece", "brier_ece"),
    radii: tuple[float, ...] = RADII,
    n: int = 1000,
    flags: Any = (),
    errored: int = 0,
    noise: dict[str, Any] | None = SOUND,
) -> dict[str, Any]:
    """Return a result with ``cce`` on a share of ``certified`` examples at radius ``AT``, and less at larger ones."""
    estimates: dict[str, Any] = {
        "accuracy": share(0.88, n),
        "abstention_rate": share(0.04, n),
        "average_certified_radius": number(0.312, 0.01, n),
        "ece": number(clean, spread, round(0.96 * n)),
        "brier": number(0.08, 0.01, round(0.96 * n)),
    }
    for radius in radii:
        left = max(0.0, certified - 1.4 * max(0.0, radius - AT))
        at = round(left * n)
        ceiling = None if cce is None or not at else min(1.0, max(clean or 0.0, cce * (0.4 + 0.6 * radius / AT)))
        estimates[metric_name("certified_accuracy", radius=radius)] = share(0.9 * left, n)
        estimates[metric_name("certified_share", radius=radius)] = share(left, n)
        estimates[metric_name("cce", radius=radius)] = number(ceiling, spread, at)
        whole = min(1.0, (ceiling or 0.0) * left + 1 - left)
        estimates[metric_name("cce_system", radius=radius)] = number(whole, spread, n)
        estimates[metric_name("cbs", radius=radius)] = number(None if ceiling is None else ceiling + 0.03, 0.01, at)
        estimates[metric_name("ece", radius=radius)] = number(clean if at else None, spread, at)
        for name, part in (("acce", 0.92), ("dece", 0.8), ("brier_ece", 0.85)):
            if name in compared:
                found = None if ceiling is None else part * ceiling
                estimates[metric_name(name, radius=radius)] = number(found, None, at)
        for bound, wide in (("cdf", 0.25), ("dkw", 0.3), ("standard", 0.4)):
            width = number(min(1.0, 0.02 + wide * radius), 0.01, round(0.96 * n))
            estimates[metric_name("interval_width", bound=bound, radius=radius)] = width
    for attack, reached in (attacked or {}).items():
        for name, value in (("ece", reached), ("brier", None if reached is None else reached + 0.02)):
            estimates[metric_name(name, attack=attack, radius=AT)] = number(value, spread, round(certified * n))
    return {
        "estimates": estimates,
        "series": {"curves": [{"radius": radius} for radius in radii], "reliability": None, "worst_case": None}
        | ({} if noise is None else {"noise": noise}),
        "flags": list(flags),
        "counts": {"n": n + errored, "errored": errored, "abstained": round(0.04 * n), "correct": round(0.9 * n)},
    }


def params(**asked: Any) -> dict[str, Any]:
    """Return the parameters of a check, complete, as they are stored."""
    given = {"kind": "certified_calibration", "radii": list(RADII), **asked}
    return CertifiedCalibrationParams.model_validate(given).model_dump(mode="json")


def finished(database: Database, store: ArtifactStore, *, asked: dict[str, Any] | None = None, **measured: Any) -> str:
    """Store a finished audit of certified calibration and return its id."""
    audit_id = add_audit(database, started_at=utc_now(), finished_at=utc_now(), spec={"samples": 1000})
    names = ("certified", "reliability", "interval_width")
    fabricated.change(
        database,
        audit_id,
        check={
            "params": params(**(asked or {})),
            "result": result(**measured),
            "figures": {name: store.put_bytes(fabricated.SVG.encode()) for name in names},
            "started_at": utc_now(),
            "finished_at": utc_now(),
        },
        model={
            "name": "cifar-resnet110-noise025",
            "version": "1",
            "manifest": {"architecture": {"kind": "resnet_cifar", "depth": 110}, "labels": list("0123456789")},
            "facts": {"parameters": 1_730_714, "classes": 10, "device": "cuda"},
        },
        dataset={"name": "cifar10-test", "version": "1"},
        state="succeeded",
    )
    with database.write() as session:
        session.query(CheckRow).filter_by(audit_id=audit_id).update({"kind": "certified_calibration"})
    return audit_id
