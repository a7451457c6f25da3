"""How many seconds an audit is said to go on for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import update

from app.audits.progress import Course, Reached, Standing, course_of, overall, remaining_s, share_of
from app.audits.repository import RunningShard, StageWork
from app.web.services import Services
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.states import RunState
from seatrial.families.certified_calibration import stage_costs as certified_calibration
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.low_level_attack import params as low_level_attack
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.temperature_attack import params as temperature_attack
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.transductive_attack import params as transductive_attack
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from seatrial.families.uncertainty_span import stage_costs as uncertainty_span
from seatrial.families.uncertainty_span.effort import STAGES
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.reporting.looks import next_look_in_words
from seatrial.statistics.looks import look_sizes
from seatrial.store import claiming, lifecycle
from seatrial.store.tables import CheckRow, ShardRow
from seatrial.store.tables.base import utc_now
from tests.audits.acting import (
    end_check,
    first_check,
    make_ready,
    open_stage,
    run_shard,
    submit,
)
from tests.uploads import submission
from workers.families.certified_calibration.family import FAMILY as CERTIFIED
from workers.families.transductive_attack.family import FAMILY as TRANSDUCTIVE


def test_remaining_seconds_blend_the_estimate_with_the_speed_seen() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)

    def left(state: str, stage: str | None, estimated: float | None, work: StageWork) -> float | None:
        return remaining_s(Standing(state, stage, estimated, work), now=now)

    half = StageWork(done=50, total=100, worked=50, seconds=20.0)
    assert left("succeeded", "attack", 10.0, half) == 0
    assert left("queued", None, 10.0, StageWork()) == 10.0
    assert left("queued", None, None, StageWork()) is None
    assert left("running", "preflight", 10.0, half) == 10.0
    assert left("running", "attack", None, half) == 20.0
    assert left("running", "attack", 30.0, half) == pytest.approx(0.5 * 20 + 0.5 * 10)
    two = StageWork(done=50, total=100, worked=50, seconds=0.0, running=[RunningShard(now - timedelta(seconds=10))] * 2)
    assert left("running", "attack", None, two) == 10.0
    later = StageWork(done=0, total=100, earlier_s=12.0)
    assert left("running", "growth", 30.0, later) == 18.0
    assert left("running", "growth", 10.0, later) == 0.0


def test_where_stages_are_known_the_speed_so_far_counts_for_all_that_follow() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)

    def left(before: float, work: StageWork) -> float | None:
        return remaining_s(Standing("running", "attack_b", 30.0, work, Course(before, before, 3, 6)), now=now)

    # 4 of 7.5 passes an example took 40 s and half of a stage of 3 the 15 s after it.
    assert left(4, StageWork(done=50, total=100, worked=50, seconds=15.0, earlier_s=40.0)) == 75.0
    assert left(4, StageWork(done=0, total=100, earlier_s=40.0)) == 90.0
    two = StageWork(done=0, total=100, earlier_s=40.0, running=[RunningShard(now)] * 2)
    assert left(4, two) == 45.0
    assert left(0, StageWork(done=0, total=100)) == 30.0


def test_what_is_left_counts_all_looks_and_does_not_grow_when_another_begins() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    # Two stages of 1 and 3 s an example, looked at after 30, 60 and 100 examples.
    costs = {"a": 1.0, "b": 3.0}
    ended = StageWork(done=30, total=30, worked=30, seconds=90.0, earlier_s=30.0)
    first = Reached(now=0.3, before=0.0, here=0.3, stages={"a": 0.3, "b": 0.3})
    course = course_of(costs, "b", ["a", "b"], first)
    standing = Standing("running", "b", None, ended, course, first)
    assert remaining_s(standing, now=now) == pytest.approx(280.0)
    assert share_of(standing) == pytest.approx(0.3)
    begun = StageWork(done=30, total=60, worked=30, seconds=30.0, earlier_s=90.0)
    second = Reached(now=0.6, before=0.3, here=0.6, stages={"a": 0.6, "b": 0.3})
    course = course_of(costs, "a", ["a", "b"], second)
    standing = Standing("running", "a", None, begun, course, second)
    assert remaining_s(standing, now=now) == pytest.approx(280.0)
    assert share_of(standing) == pytest.approx(0.3)
    # And where nothing is known of stages, at the speed so far.
    alone = StageWork(done=30, total=30, worked=30, seconds=30.0)
    assert remaining_s(Standing("running", "a", 100.0, alone, None, first), now=now) == pytest.approx(70.0)


def test_a_check_that_stops_when_decided_says_which_look_it_is_measured_for(
    client: httpx.Client, services: Services, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_ready(services)
    monkeypatch.setattr("seatrial.statistics.looks.FIRST", (4, 8, 16))
    stopping = submission(*pair, stop="decided", policy="lenient", batch_size=2)
    audit = client.post("/v1/audits", json=stopping).json()["id"]
    check = first_check(services, audit)
    assert "look" not in client.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]
    open_stage(services, check, "attack", [(0, 4)])
    most = min(client.get(f"/v1/audits/{audit}").json()["samples"], 20)
    sizes = look_sizes(most, 2)
    shown = client.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]["look"]
    assert shown == {"number": 1, "of": len(sizes), "examples": 4, "most": most}
    with services.database.write() as session:
        session.get_one(CheckRow, check).looks = [{"examples": 4, "doubted": False}]
    progress = AuditRead.model_validate(client.get(f"/v1/audits/{audit}").json()).checks[0].progress
    assert progress.look is not None
    assert next_look_in_words(progress.look) == f"look 2 of {len(sizes)}, 8 of {most} examples"


def test_the_time_since_the_last_sign_of_life_does_not_slow_the_pace() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    # Half was done within 10 s, and then nobody was heard of for 40 s of a lease of 60.
    lost = RunningShard(now - timedelta(seconds=50), (now + timedelta(seconds=20)).timestamp())
    # Heard of this moment.
    busy = RunningShard(now - timedelta(seconds=50), (now + timedelta(seconds=60)).timestamp())
    # Claimed by another clock, and not heard of since.
    fresh = RunningShard(now, (now + timedelta(seconds=55)).timestamp())

    def left(shard: RunningShard, course: Course | None = None, lease_s: float | None = 60.0) -> float | None:
        work = StageWork(done=20, total=40, worked=20, running=[shard])
        standing = Standing("running", "attack", 30.0 if shard == fresh else None, work, course)
        return remaining_s(standing, now=now, lease_s=lease_s)

    assert left(lost) == 10.0
    assert left(lost, Course(0, 0, 1, 0)) == 10.0
    assert left(lost, lease_s=None) == left(busy) == 50.0
    assert left(fresh) == 30.0


def test_what_remains_of_an_audit_whose_worker_is_gone_stays_what_it_was(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    audit = submit(client, pair)
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    with services.database.write() as session:
        claimed = claiming.claim_shard(session, lease_s=60, worker="w")
        assert claimed is not None
        assert lifecycle.report_progress(session, *claimed, 10, lease_s=60)
        # It began 50 s ago, told of 10 examples 40 s ago, and was killed.
        session.execute(
            update(ShardRow).values(
                started_at=utc_now() - timedelta(seconds=50), lease_until=ShardRow.lease_until - 40.0
            )
        )
        session.execute(update(CheckRow).values(estimated_s=None))
    told = client.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]
    assert told["done"] == 10
    # Half of the stage took 10 s; that stage is 0.45 of the check.
    assert told["remaining_s"] == pytest.approx(34.7, abs=7.0)


def test_every_stage_of_an_audit_of_noise_is_counted() -> None:
    params = LowLevelAttackParams(kind="low_level_attack", levels=[0.2, 0.5], draws=3, combined=True)
    costs = low_level_attack.stage_costs(params.model_dump(mode="json"), 7)
    assert list(costs) == ["clean", *(f"attack_{attacker}" for attacker in params.runs("text-classification"))]
    assert sum(costs.values()) == params.passes(7, {}).forward


def test_every_stage_of_an_attack_on_texts_is_counted() -> None:
    params = TemperatureAttackParams(kind="temperature_attack", recipes=["deepwordbug", "pruthi"])
    costs = temperature_attack.stage_costs(params.model_dump(mode="json"), 300)
    searched = [f"search_{number + 1}" for number in range(params.temperature_evaluations)]
    stages = ["quiet_first", "transferred", "probe", "sent_once", "prepared", "validation", *searched]
    stages += ["attack_deepwordbug", "attack_pruthi", "ways", "ways_confirmed", "quiet_amid"]
    assert list(costs) == [*stages, "closing", "unasked", "quiet"]
    assert sum(costs.values()) == pytest.approx(params.passes(300, {}).forward, abs=1)
    # Half of 20 temperatures, twice four, and two.
    whole = sum(costs[name] for name in searched)
    assert [round(costs[name] / whole, 3) for name in searched[:5]] == [0.5, 0.2, 0.2, 0.1, 0.0]


def test_every_stage_of_an_attack_on_images_is_counted() -> None:
    stored = {"kind": "uncertainty_span", "effort": "standard", "attacks": ["ace"]}
    stored = UncertaintySpanParams.model_validate(stored).model_dump(mode="json")
    costs = uncertainty_span.stage_costs(stored, 300)
    stages = ["attack", "growth", "surrogate", *STAGES, "crossing", "transformed", "integrated", "displaced"]
    stages += ["levelled", "tempered", "ace", "pictures"]
    assert list(costs) == stages
    assert min(costs.values()) > 0


def test_robust_accuracy_and_outliers_have_their_places_before_the_pictures() -> None:
    asked = {"outliers": {"dataset": "dat_1"}, "robust_accuracy": {"steps": 10, "survivors": 30}}
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "effort": "quick", **asked})
    stages = ["attack", "growth", "tempered", "outliers", "robust_accuracy_first", "robust_accuracy", "pictures"]
    assert list(uncertainty_span.stage_costs(params.model_dump(mode="json"), 300)) == stages


@pytest.mark.parametrize("robust", [None, {"steps": 10}, {"steps": 10, "survivors": 30}], ids=["none", "one", "two"])
def test_every_stage_of_a_certification_is_counted(robust: dict[str, int] | None) -> None:
    params = CertifiedCalibrationParams.model_validate(
        {
            "kind": "certified_calibration",
            "radii": [0.25],
            "ace_attacks": ["ace_lower_true"],
            "uncertainty": {"attack": True, "parts": ["aleatoric"]},
            "robust_accuracy": robust,
        }
    )
    stages, done = list[str](), dict[str, Any]()
    while (stage := CERTIFIED.next_stage(params, done)) is not None:
        stages.append(stage.name)
        done[stage.name] = pa.table({"standing": [True] * 40})
    assert list(certified_calibration.stage_costs(params.model_dump(mode="json"), 300)) == stages


def test_every_game_of_a_defence_is_counted() -> None:
    defences = [{"name": "tent"}, {"name": "tadv"}]
    params = TransductiveAttackParams.model_validate(
        {"kind": "transductive_attack", "defences": defences, "repeats": 2, "training_dataset": "dat_1"}
    )
    stages, done = list[str](), dict[str, Any]()
    while (stage := TRANSDUCTIVE.next_stage(params, done)) is not None:
        stages.append(stage.name)
        done[stage.name] = None
    costs = transductive_attack.stage_costs(params.model_dump(mode="json"), 300)
    assert [name for name in costs if name in done] == stages
    # Those left out are known not to be played when the next one begins.
    assert {name.split(".")[1] for name in set(costs) - set(done)} <= {"defence_autoattack"}
    whole = params.passes(300, {"training_dataset": transductive_attack.ASSUMED_TRAINING})
    assert sum(costs.values()) == pytest.approx(whole.in_forward)


def test_the_share_of_an_audit_never_falls_whether_a_stage_is_needed_or_not() -> None:
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "attacks": ["ace"]})
    costs = uncertainty_span.stage_costs(params.model_dump(mode="json"), 100)
    for left_out in ({"tempered"}, set[str]()):
        told, begun = [0.0], list[str]()
        for stage in (name for name in costs if name not in left_out):
            begun.append(stage)
            for done in (0, 40, 100):
                work = StageWork(done=done, total=100, worked=done, seconds=1.0)
                share = share_of(Standing("running", stage, 9.0, work, course_of(costs, stage, begun)))
                assert share is not None
                told.append(share)
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)


def test_the_share_of_an_audit_that_is_looked_at_never_falls() -> None:
    # One stage is fitted on all there is, one is called for from the second look on, and one closes the last.
    costs, sizes = {"attack": 4.0, "fitted": 2.0, "called": 3.0, "after": 1.0, "closing": 1.0}, (30, 60, 100)
    told, begun, at = [0.0], list[str](), dict[str, float]()
    for look, size in enumerate(sizes):
        of_look = ["attack", *(["called"] if look else ["fitted"]), "after", *(["closing"] if size == 100 else [])]
        for stage in of_look:
            begun, most = [*dict.fromkeys([*begun, stage])], 100 if stage == "fitted" else size
            at[stage] = most / 100
            before = sizes[look - 1] / 100 if look else 0.0
            reached = Reached(now=size / 100, before=before, here=at[stage], stages=dict(at))
            for done in (0 if stage not in of_look or not look else round(before * 100), most):
                work = StageWork(done=min(done, most), total=most, worked=0)
                share = share_of(
                    Standing("running", stage, None, work, course_of(costs, stage, begun, reached), reached)
                )
                assert share is not None
                told.append(share)
    assert told == pytest.approx(sorted(told))
    assert told[-1] == pytest.approx(1.0)


def test_what_looks_that_were_passed_over_left_unmeasured_is_not_told_as_done() -> None:
    costs, sizes = {"attack": 1.0, "called": 1.0, "after": 1.0, "closing": 1.0}, (30, 60, 100)
    told, begun, at = [0.0], list[str](), dict[str, float]()
    # The second look is passed over by what the first stage tells.
    for look, of_look in enumerate((["attack", "after"], ["attack"], ["attack", "after", "closing"])):
        before = sizes[look - 1] / 100 if look else 0.0
        for stage in of_look:
            begun, had = [*dict.fromkeys([*begun, stage])], round(100 * at.get(stage, 0.0))
            at[stage] = sizes[look] / 100
            reached = Reached(now=sizes[look] / 100, before=before, here=at[stage], stages=dict(at))
            for done in (had, sizes[look]):
                work = StageWork(done=done, total=sizes[look], worked=0)
                course = course_of(costs, stage, begun, reached)
                share = share_of(Standing("running", stage, None, work, course, reached))
                assert share is not None
                told.append(share)
        if look == 1:
            # One stage is as far as this look, one as the first, which passed what it did not call for; one is to come.
            assert told[-1] == pytest.approx((0.6 + 0.3 + 0.3 + 0.0) / 4)
    assert told == pytest.approx(sorted(told))
    assert told[-1] == pytest.approx(1.0)


def test_what_earlier_stages_took_tells_how_long_later_ones_take(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    audit = submit(client, pair)
    check = first_check(services, audit)
    told = []
    for stage, seconds in (("preflight", 3.0), ("attack", 5.0), ("growth", 1.0)):
        open_stage(services, check, stage, [(0, 20)])
        with services.database.write() as session:
            session.execute(update(CheckRow).values(estimated_s=30.0))
        told.append(client.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]["remaining_s"])
        with services.database.write() as session:
            claimed = claiming.claim_shard(session, lease_s=60, worker="w")
            assert claimed is not None
            lifecycle.close_shard(session, *claimed, RunState.SUCCEEDED, done=20, seconds=seconds)
    # 5 s of attack stand for 5.6 s of what follows, whatever was estimated.
    assert told == [30.0, 30.0, 5.6]


def test_the_whole_audit_is_as_far_as_its_checks_together(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    audit = submit(client, pair)
    check = first_check(services, audit)
    open_stage(services, check, "attack", [(0, 10), (10, 20)])
    with services.database.write() as session:
        session.execute(update(CheckRow).values(estimated_s=30.0))
        claimed = claiming.claim_shard(session, lease_s=60, worker="w")
        assert claimed is not None
        lifecycle.close_shard(session, *claimed, RunState.SUCCEEDED, done=10, seconds=10.0)
    told = client.get(f"/v1/audits/{audit}").json()
    assert told["progress"]["remaining_s"] == told["checks"][0]["progress"]["remaining_s"]
    # Half of its first stage.
    assert 0.05 < told["progress"]["share"] < 0.3
    client.post(f"/v1/audits/{audit}/cancel")
    over = dict.fromkeys(("remaining_s", "remaining_low_s", "remaining_high_s"), 0.0)
    assert client.get(f"/v1/audits/{audit}").json()["progress"] == {"share": 1.0, **over}


def test_checks_weigh_what_they_were_estimated_to_take() -> None:
    assert overall([1.0, 0.0, 0.5], [10.0, 20.0, 10.0]) == 0.375
    # Reused, it took nothing.
    assert overall([1.0, 0.25], [0.0, 10.0]) == 0.25
    assert overall([1.0, 0.5], [0.0, 0.0]) == 0.75
    assert overall([1.0, 1.0], [None, 3.0]) == 1.0


def test_one_check_of_which_nothing_is_known_leaves_the_whole_unknown() -> None:
    assert overall([0.5, None], [10.0, 10.0]) is None
    assert overall([0.5, 0.1], [10.0, None]) is None


def test_of_a_family_that_does_not_say_what_stages_take_the_time_tells() -> None:
    def share(estimated_s: float | None, spent_s: float, state: str = "running") -> float | None:
        return share_of(Standing(state, "attack", estimated_s, StageWork(done=1, total=2)), spent_s=spent_s)

    assert (share(20.0, 5.0), share(20.0, 60.0), share(None, 5.0)) == (0.25, 0.99, None)
    assert share(None, 5.0, "failed") == 1.0


def test_a_range_follows_earlier_checks_and_then_the_first_batches(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    asked = client.post("/v1/audits/estimate", json=submission(*pair)).json()
    seconds = asked["seconds"]
    assert (asked["seconds_low"], asked["seconds_high"]) == pytest.approx((seconds / 8, seconds * 8), abs=0.1)
    # Nine earlier checks took between a tenth and nine tenths of what was estimated.
    for tenth in range(1, 10):
        audit = submit(client, pair)
        open_stage(services, first_check(services, audit), "attack", [(0, 20)])
        run_shard(services)
        end_check(services)
        with services.database.write() as session:
            session.execute(update(CheckRow).where(CheckRow.audit_id == audit).values(estimated_s=10.0 / tenth))
    asked = client.post("/v1/audits/estimate", json=submission(*pair)).json()
    assert (asked["seconds_low"], asked["seconds_high"]) == pytest.approx((seconds * 0.1, seconds * 0.9), abs=0.1)
    audit = submit(client, pair)
    told = client.get(f"/v1/audits/{audit}").json()
    assert told["estimated_high_s"] == told["progress"]["remaining_high_s"] == pytest.approx(seconds * 0.9, abs=0.1)
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    with services.database.write() as session:
        claimed = claiming.claim_shard(session, lease_s=60, worker="w")
        assert claimed is not None
        assert lifecycle.report_progress(session, *claimed, 10, lease_s=60)
        # Half of it took a hundred times the estimate.
        long_ago = utc_now() - timedelta(seconds=100 * seconds)
        session.execute(update(ShardRow).where(ShardRow.id == claimed[0]).values(started_at=long_ago))
    progress = client.get(f"/v1/audits/{audit}").json()["progress"]
    assert progress["remaining_low_s"] < progress["remaining_s"] < progress["remaining_high_s"]
    assert progress["remaining_high_s"] > 100 * seconds
