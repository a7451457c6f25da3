"""An audit that stops when it is decided: the prefix of a whole one, whoever measures it, and no way to buy a pass."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.gates.stored import read_measured
from seatrial.contracts.estimates import Flag, Result
from seatrial.contracts.policies import Judgement, Policy, PolicySource
from seatrial.judging.verdict import judge
from seatrial.statistics.exact import clopper_pearson
from seatrial.store.database import Database
from seatrial.store.records import read_records
from seatrial.store.settings import Settings
from tests.runtime.bench import AuditBench
from workers.runtime.inline import InlineExecutor

SAMPLES = 200
SIZES = [30, 60, 125, SAMPLES]
QUICK = {"effort": "quick"}
HOPELESS = {"metric": "uncertainty_span.mus", "max": 0.001}
EASY = {"metric": "uncertainty_span.clean_accuracy", "min": 0.1}
WIDE = {"metric": "uncertainty_span.mus", "max": 2.0}
"""As easy, and a number that failing attacks are a doubt about."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


@pytest.fixture
def bench(db: Database, settings: Settings) -> AuditBench:
    return AuditBench(db, settings, examples=300)


def policy(*rules: dict[str, Any], **said: Any) -> dict[str, Any]:
    document = Policy(name="p", rules=list(rules), **said).model_dump(mode="json")  # type: ignore[arg-type]
    return {"source": {"id": None, "name": "p", "version": None, "digest": "d"}, "document": document}


def looked_at(bench: AuditBench, asked: dict[str, Any], *, params: dict[str, Any] = QUICK, **audit: Any) -> str:
    return bench.submit(shards=3, samples=SAMPLES, stop="decided", policy=asked, params=params, **audit)


def result_of(bench: AuditBench, audit_id: str) -> Result:
    return Result.model_validate(bench.check(audit_id).result)


def ended(bench: AuditBench, audit_id: str) -> int:
    looks = result_of(bench, audit_id).looks
    assert looks is not None
    assert looks.sizes == SIZES
    return looks.examples


def judged(bench: AuditBench, audit_id: str) -> Judgement:
    audit = bench.audit(audit_id)
    assert audit.policy is not None
    with bench.db.read() as session:
        measured = read_measured(session, audit_id)
    source = PolicySource.model_validate(audit.policy["source"])
    return judge(Policy.model_validate(audit.policy["document"]), source, measured)


def records_of(bench: AuditBench, audit_id: str) -> dict[str, pa.Table]:
    digests: dict[str, list[str]] = {}
    for shard in sorted(bench.shards(audit_id), key=lambda one: one.ordinal):
        assert shard.records_digest is not None
        digests.setdefault(shard.stage, []).append(shard.records_digest)
    return {stage: read_records(bench.store, found) for stage, found in digests.items()}


def test_a_clear_failure_ends_at_the_first_look(bench: AuditBench) -> None:
    audit_id = looked_at(bench, policy(HOPELESS))
    bench.worker().drain()
    assert ended(bench, audit_id) == 30
    assert {stage: table.num_rows for stage, table in records_of(bench, audit_id).items()} == {
        "preflight": SAMPLES,
        "attack": 30,
        "growth": 30,
        "pictures": 30,
    }
    found = judged(bench, audit_id)
    assert found.verdict == "failed"
    assert found.rules[0].reason.endswith("; after 30 of 200 examples, at look 1 of 4")
    accuracy = result_of(bench, audit_id).estimates["clean_accuracy"]
    assert accuracy.value is not None
    at_its_level = clopper_pearson(round(30 * accuracy.value), 30, alpha=0.05 / 6)
    assert (accuracy.low, accuracy.high) == pytest.approx(at_its_level)


def test_a_clear_pass_is_the_prefix_of_a_whole_audit(bench: AuditBench) -> None:
    whole = bench.submit(shards=1, samples=SAMPLES, params=QUICK)
    early = looked_at(bench, policy(EASY))
    bench.worker().drain()
    assert ended(bench, early) == 125
    assert judged(bench, early).verdict == "passed"
    # Nothing passes before 125 examples: that these looks decide nothing is known before their numbers are.
    assert bench.check(early).looks == [{"examples": 30, "doubted": None}, {"examples": 60, "doubted": None}]
    long, short = records_of(bench, whole), records_of(bench, early)
    assert short["attack"].num_rows == 125
    # Which images are kept is chosen among those that were attacked: the worst of 125 need not be the worst of all.
    numbers = {stage: table for stage, table in short.items() if stage != "pictures"}
    assert all(table.equals(long[stage].slice(0, table.num_rows)) for stage, table in numbers.items())
    assert result_of(bench, whole).looks is None
    assert "looks" not in (bench.check(whole).result or {})


def test_near_its_bound_a_look_measures_no_more_than_tells_that_it_is_open(bench: AuditBench) -> None:
    params: dict[str, Any] = {"effort": "quick", "attacks": ["ace"]}
    whole = bench.submit(shards=1, samples=SAMPLES, params=params)
    bench.worker().drain()
    accuracy = result_of(bench, whole).estimates["clean_accuracy"].value
    near = looked_at(bench, policy({"metric": "uncertainty_span.clean_accuracy", "min": accuracy}), params=params)
    bench.worker().drain()
    assert ended(bench, near) == SAMPLES
    assert [look["examples"] for look in bench.check(near).looks or []] == SIZES[:-1]
    begun: dict[str, set[int]] = {}
    for shard in bench.shards(near):
        begun.setdefault(shard.stage, set()).add(shard.start)
    # Accuracy is read from the attacks: what follows them is measured once, for the last look.
    assert {30, 125} <= begun["attack"]
    assert all(start % 5 == 0 and start not in SIZES for start in begun["ace"])
    all_records, records = records_of(bench, whole), records_of(bench, near)
    assert all(table.equals(all_records[stage]) for stage, table in records.items())
    assert [one.outcome for one in judged(bench, near).rules] == ["inconclusive"]


def test_a_doubt_at_a_look_that_was_passed_over_keeps_a_later_one_from_passing(
    bench: AuditBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = InlineExecutor._reduce

    def doubting(self: InlineExecutor, *asked: Any) -> Result:
        found = whole(self, *asked)
        doubt = Flag(code="masked_gradients", severity="error", message="made up")
        return found.model_copy(update={"flags": [doubt]}) if found.counts["n"] == 30 else found

    monkeypatch.setattr(InlineExecutor, "_reduce", doubting)
    audit_id = looked_at(bench, policy(WIDE))
    bench.worker().drain()
    assert ended(bench, audit_id) == SAMPLES
    assert [look["doubted"] for look in bench.check(audit_id).looks or []] == [None, None, True]
