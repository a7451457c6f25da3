"""Judging again: 1,000 stored audits under a new policy in under 5 seconds, each verdict stored.

    python -m benchmarks.judging

Through the service, on SQLite, one audit after the other: six rules on thirteen numbers, with Holm's correction. Then
with two more rules that compare with a baseline: by intervals, where there are no records, and example by example,
where there are 500 beside every audit.

Seconds of the processor are held against the target: one thread that waits for nothing takes as many by the clock where
nobody else is at work. Ends with status 1 when the first takes longer.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import func, insert, select

from app.access.service import ensure_project
from app.gates.service import judge_audit
from app.web.services import Services, open_services
from seatrial.contracts.policies import JudgementRequest, Policy
from seatrial.store.ids import new_id
from seatrial.store.migrations import upgrade
from seatrial.store.records import to_parquet
from seatrial.store.settings import Settings
from seatrial.store.tables import (
    AuditRow,
    BaselineRow,
    CheckRow,
    DatasetRow,
    JudgementRow,
    ModelRow,
    ShardRow,
    StageRow,
)

SECONDS = 5.0
EXAMPLES = 500
DIGEST = "sha256:" + "0" * 64
RULES = [
    {"metric": "uncertainty_span.clean_accuracy", "min": 0.9},
    {"metric": "uncertainty_span.mus", "max": 0.6},
    {"metric": "uncertainty_span.ece[arm=*]", "max": 0.2},
    {"metric": "uncertainty_span.mus_worst", "max": 0.8},
    {"metric": "certified_calibration.certified_accuracy[radius=*]", "min": 0.4},
    {"metric": "certified_calibration.cce[radius=0.25]", "max": 0.3, "severity": "warn"},
]
REGRESSIONS = [
    {"metric": "uncertainty_span.clean_accuracy", "max_regression": 0.02},
    {"metric": "uncertainty_span.mus", "max_regression": 0.1},
]


def results(rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Return the results of two checks, as large as real ones: estimates with intervals, diagrams, histograms."""

    def told(value: float, method: str = "bootstrap") -> dict[str, Any]:
        value = round(value * EXAMPLES) / EXAMPLES
        return {"value": value, "low": value - 0.03, "high": value + 0.03, "n": EXAMPLES, "method": method}

    curve = [n / 50 for n in range(50)]
    common = {"series": {f"diagram_{n}": {"x": curve, "y": curve} for n in range(8)}, "flags": []}
    arms = ("clean", "over", "under")
    spans = {name: told(0.4 + 0.1 * rng.random()) for name in ("mus", "mus_worst", "mus_scaled", "msus")}
    spans["clean_accuracy"] = told(0.93 + 0.04 * rng.random(), "clopper-pearson")
    spans |= {f"{name}[arm={arm}]": told(0.1) for name in ("ece", "s_ece", "brier", "entropy") for arm in arms}
    radii = ("0", "0.05", "0.1", "0.2", "0.25", "0.5")
    certified = {f"certified_accuracy[radius={radius}]": told(0.6, "clopper-pearson") for radius in radii}
    certified |= {f"{name}[radius={radius}]": told(0.2) for name in ("cce", "brier_bound") for radius in radii}
    counts = {"n": EXAMPLES, "errored": 0}
    return {
        "uncertainty_span": {**common, "estimates": spans, "counts": counts},
        "certified_calibration": {**common, "estimates": certified, "counts": counts},
    }


def records(rng: np.random.Generator) -> bytes:
    """Return the records of an attack of 500 examples."""
    labels = rng.integers(0, 10, EXAMPLES)
    predicted = np.where(rng.random(EXAMPLES) < 0.95, labels, (labels + 1) % 10)
    floats = {
        f"{name}_{arm}": rng.random(EXAMPLES)
        for name in ("entropy", "confidence")
        for arm in ("clean", "over", "under")
    }
    return to_parquet(
        pa.table(
            {
                "example_id": np.arange(EXAMPLES),
                "label": labels,
                "errored": np.zeros(EXAMPLES, dtype=bool),
                **{f"predicted_{arm}": predicted for arm in ("clean", "over", "under")},
                **floats,
            }
        )
    )


def fill(services: Services, count: int, *, has_records: bool) -> list[str]:
    """Insert finished audits of one model, the first of them its champion, and return the ids of the others."""
    project = ensure_project(services.database, "default")
    rng = np.random.default_rng(0)
    common = {"project_id": project, "name": "m", "task": "image-classification", "manifest": {}}
    model, dataset, version = new_id("mdl"), new_id("dat"), new_id("v")
    audits, checks, stages, shards = [], [], [], []
    for _ in range(count + 1):
        audit = new_id("aud")
        audits.append(
            {
                "id": audit,
                "project_id": project,
                "model_id": model,
                "dataset_id": dataset,
                "seed": 0,
                "samples": EXAMPLES,
                "spec": {"checks": []},
                "spec_digest": DIGEST,
                "state": "succeeded",
            }
        )
        for ordinal, (kind, result) in enumerate(results(rng).items()):
            check = new_id("chk")
            checks.append(
                {
                    "id": check,
                    "audit_id": audit,
                    "ordinal": ordinal,
                    "kind": kind,
                    "params": {"kind": kind},
                    "state": "succeeded",
                    "result": result,
                }
            )
            if has_records:
                digest = services.store.put_bytes(records(rng))
                stage = {"check_id": check, "name": "attack", "ordinal": 0, "source": "sample"}
                stages.append({**stage, "examples": EXAMPLES, "shards": 1})
                shards.append(
                    {
                        "id": new_id("shd"),
                        "check_id": check,
                        "stage": "attack",
                        "ordinal": 0,
                        "start": 0,
                        "stop": EXAMPLES,
                        "state": "succeeded",
                        "records_digest": digest,
                    }
                )
    with services.database.write() as session:
        weights = {"id": model, "digest": DIGEST, "size_bytes": 1, "format": "safetensors", "version": version}
        session.execute(insert(ModelRow), [{**common, **weights, "state": "ready"}])
        facts = {"id": dataset, "digest": DIGEST, "size_bytes": 1, "format": "npz", "version": version}
        session.execute(insert(DatasetRow), [{**common, **facts, "split": "test", "facts": {"examples": EXAMPLES}}])
        for table, rows in ((AuditRow, audits), (CheckRow, checks), (StageRow, stages), (ShardRow, shards)):
            if rows:
                session.execute(insert(table), rows)
        champion = {"model_name": "m", "name": "champion", "audit_id": audits[0]["id"], "note": ""}
        session.execute(insert(BaselineRow), [{"id": new_id("bas"), "project_id": project, **champion}])
    return [audit["id"] for audit in audits[1:]]


def judge_all(services: Services, audits: list[str], rules: list[dict[str, Any]]) -> tuple[float, float, Counter[str]]:
    """Judge each audit; return the seconds all took, those on the processor, and how often each verdict was given."""
    project = ensure_project(services.database, "default")
    policy = Policy.model_validate({"name": "release", "correction": "holm", "rules": rules})
    request = JudgementRequest(policy=policy)
    began, worked = time.perf_counter(), time.process_time()
    verdicts = Counter(judge_audit(services, project, audit, request).judgement.verdict for audit in audits)
    return time.perf_counter() - began, time.process_time() - worked, verdicts


def main() -> int:
    """Run it and tell whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000, help="how many are judged (the target is for 1,000)")
    count = parser.parse_args().audits
    taken = []
    cases = (
        ("bounds", RULES, False),
        ("and a baseline", RULES + REGRESSIONS, False),
        ("by example", RULES + REGRESSIONS, True),
    )
    for name, rules, has_records in cases:
        with tempfile.TemporaryDirectory() as folder:
            services = open_services(Settings(home=Path(folder), require_keys=False))
            upgrade(services.database)
            audits = fill(services, count, has_records=has_records)
            seconds, worked, verdicts = judge_all(services, audits, rules)
            with services.database.read() as session:
                stored = session.scalar(select(func.count()).select_from(JudgementRow))
            services.database.dispose()
        taken.append(worked)
        told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items()))
        print(
            f"{name}: {count:,} audits in {seconds:.2f} s ({worked:.2f} s of processor), "
            f"{1000 * seconds / count:.1f} ms each; {stored:,} judgements stored: {told}"
        )
    is_met = taken[0] < SECONDS
    print(f"{taken[0] / SECONDS:.2f} of the {SECONDS:g} s of processor asked; {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
