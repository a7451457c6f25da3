"""Rows of a finished audit with every kind of number, written as a worker would have; no model is run."""

import math
from typing import Any

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow
from seatrial.store.tables.base import utc_now
from tests.rows import add_audit

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}</style>"

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 260" width="400" height="260">'
    '<rect width="400" height="260" fill="#fff"/><path d="M40 220 L360 30" stroke="#888" stroke-dasharray="4"/>'
    '<path d="M40 225 C150 200 250 120 360 60" stroke="#0b5cad" fill="none" stroke-width="3"/></svg>'
)


def estimate(value: float | None, spread: float = 0.03, n: int = 400, method: str = "gaffke") -> dict[str, Any]:
    """Return an estimate as it is stored."""
    low, high = (None, None) if value is None else (value - spread, value + spread)
    return {"value": value, "low": low, "high": high, "n": n, "method": method}


def result(*, over: float = 0.02, clean: float = 0.31, under: float = 1.4, flags: Any = ()) -> dict[str, Any]:
    """Return a result in which an attacker moves the mean entropy from ``over`` to ``under``."""
    estimates = {
        "mus": estimate(under - over),
        "msus": estimate((under - over) ** 2),
        "clean_accuracy": estimate(0.9825, 0.01, method="clopper-pearson"),
    }
    arms = {"clean": (clean, 0.021, 0.011), "over": (over, 0.019, -0.017), "under": (under, 0.54, 0.44)}
    for arm, (entropy, ece, s_ece) in arms.items():
        estimates[f"entropy[arm={arm}]"] = estimate(entropy)
        estimates[f"ece[arm={arm}]"] = estimate(ece, 0.008)
        estimates[f"ece_centre[arm={arm}]"] = estimate(ece + 0.01, 0.008)
        estimates[f"s_ece[arm={arm}]"] = estimate(s_ece, 0.012)
        estimates[f"mce[arm={arm}]"] = estimate(min(ece * 3, 1.0), 0.1)
        estimates[f"brier[arm={arm}]"] = estimate(ece / 2, 0.01)
        if arm != "clean":
            estimates[f"nud[arm={arm}]"] = estimate(0.3)
    for epsilon, auroc in (("0", 0.97), ("0.0156863", 0.61), ("0.0313725", 0.34)):
        for name in ("auroc", "aupr_in", "aupr_out"):
            estimates[f"{name}[epsilon={epsilon}]"] = estimate(auroc, n=800)
        estimates[f"fpr95[epsilon={epsilon}]"] = estimate(1 - auroc, n=800)
    for attack in ("ace", "max_miscalibration"):
        estimates[f"ece[attack={attack}]"] = estimate(0.4 if attack == "ace" else 0.77)
        estimates[f"accuracy[attack={attack}]"] = estimate(0.9825, 0.01, method="clopper-pearson")
    return {
        "estimates": estimates,
        "series": {"entropy_edges": [0.0, 1.0, math.log(10)]},
        "flags": list(flags),
        "counts": {"n": 400, "errored": 2, "clean_correct": 391},
    }


def finished(database: Database, store: ArtifactStore, **measured: Any) -> str:
    """Store a finished audit and return its id."""
    audit_id = add_audit(database, started_at=utc_now(), finished_at=utc_now(), spec={"samples": 400, "batch_size": 64})
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "attacks": ["ace"], "steps": 40})
    figures = {name: store.put_bytes(SVG.encode()) for name in ("reliability_diagram", "entropy_histogram")}
    change(
        database,
        audit_id,
        check={
            "params": params.model_dump(mode="json"),
            "result": result(**measured),
            "figures": figures,
            "started_at": utc_now(),
            "finished_at": utc_now(),
        },
        model={
            "name": "cifar-resnet20",
            "version": "3",
            "manifest": {"architecture": {"kind": "resnet_cifar", "depth": 20}, "labels": list("0123456789")},
            "facts": {"parameters": 272474, "classes": 10, "device": "cpu", "forward_s": 0.001, "backward_s": 0.003},
        },
        dataset={"name": "cifar10-test", "version": "1"},
        state="succeeded",
    )
    return audit_id


def change(
    database: Database,
    audit_id: str,
    *,
    check: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    dataset: dict[str, Any] | None = None,
    audit: dict[str, Any] | None = None,
    state: str | None = None,
) -> None:
    """Overwrite columns of an audit, its check, its model and its dataset."""
    with database.write() as session:
        row = session.get_one(AuditRow, audit_id)
        checks = session.query(CheckRow).filter_by(audit_id=audit_id).order_by(CheckRow.ordinal).all()
        targets = [
            (row, {**(audit or {}), **({"state": state} if state else {})}),
            (checks[0], {**(check or {}), **({"state": state} if state else {})}),
            (session.get_one(ModelRow, row.model_id), model or {}),
            (session.get_one(DatasetRow, row.dataset_id), dataset or {}),
        ]
        for target, values in targets:
            for name, value in values.items():
                setattr(target, name, value)
