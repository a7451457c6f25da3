"""What a family saves inside a shard comes back to the next attempt, and to nobody else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from sqlalchemy import update

from seatrial.contracts.states import RunState
from seatrial.store.artifacts import LocalStore
from seatrial.store.checkpoints import may_resume
from seatrial.store.claiming import claim_check, claim_shard
from seatrial.store.database import Database
from seatrial.store.lifecycle import cancel_audit, close_shard, give_back, open_stage
from seatrial.store.reaping import reap
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, ShardRow
from seatrial.store.usage import disk_use
from tests.e2e.deployment import Deployment
from tests.rows import add_audit
from tests.runtime.inline import InlineWorker
from tests.stepping import Stepping, saves_in, steps_run
from workers.runtime import checkpointing, inline
from workers.runtime.checkpointing import SAVE_S, CheckpointStore
from workers.runtime.claims import Claim
from workers.runtime.code import code_version
from workers.runtime.interruptions import LeaseLost, ShardCancelled, ShuttingDown
from workers.runtime.stages import make_shards

STATE = {"state": torch.tensor([1.0, 2.0])}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=2, heartbeat_s=0.1, device="cpu", torch_threads=1)


class Shards:
    """An audit of two shards, and claims on them."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db, self.settings = db, settings
        self.store = LocalStore(settings.home / "artifacts")
        self.stopping = threading.Event()
        self.audit_id = add_audit(db)
        with db.write() as session:
            check = claim_check(session, lease_s=60, worker="w")
            assert check is not None
        with db.write() as session:
            rows = make_shards(check[0], "attack", [(0, 50), (50, 100)])
            assert open_stage(session, *check, name="attack", source="sample", examples=100, shards=rows)

    @contextmanager
    def claimed(self, *, belongs_to: str = "this") -> Iterator[tuple[Claim, CheckpointStore]]:
        with self.db.write() as session:
            claimed = claim_shard(session, lease_s=60, worker="w")
            assert claimed is not None
            row = session.get_one(ShardRow, claimed[0], populate_existing=True)
            digest, resumes = row.saved_digest, may_resume(row)
        # The thread that keeps a claim alive is left out: these tests say themselves when a claim is lost.
        claim = Claim(self.db, self.settings, ShardRow, *claimed, is_stopping=self.stopping.is_set)
        yield claim, CheckpointStore(self.store, claim, belongs_to=belongs_to, digest=digest, may_resume=resumes)

    def fail(self, claim: Claim) -> None:
        with self.db.write() as session:
            assert give_back(session, claim.row_id, claim.token, counts=True)

    def lose(self, claim: Claim) -> None:
        with self.db.write() as session:
            session.execute(update(ShardRow).where(ShardRow.id == claim.row_id).values(lease_until=0.0))
        assert reap(self.db, max_attempts=3) == 1

    def saved(self, claim: Claim) -> str | None:
        with self.db.read() as session:
            return session.get_one(ShardRow, claim.row_id).saved_digest

    def counted(self) -> int:
        with self.db.read() as session:
            return disk_use(session, session.get_one(AuditRow, self.audit_id).project_id).checkpoints

    def files(self) -> set[str]:
        return {"sha256:" + path.name for path in saves_in(self.settings.home / "artifacts")}


@pytest.fixture
def shards(db: Database, settings: Settings) -> Shards:
    return Shards(db, settings)


def test_every_kind_of_tensor_comes_back_as_it_was(shards: Shards) -> None:
    weights = torch.arange(6.0).reshape(2, 3)
    generator = torch.Generator().manual_seed(3)
    state = {
        "transposed": weights.T,
        "row": weights[1],
        "same": weights,
        "learnt": torch.nn.Parameter(weights.double()),
        "scalar": torch.tensor(7),
        "none": torch.zeros(0, 4, dtype=torch.bool),
        "half": weights.bfloat16(),
        "generator": generator.get_state(),
    }
    with shards.claimed() as (claim, first):
        first.write(state, {"reason": "ein Grund, nämlich \u2603"}, force=True)
        shards.fail(claim)
    drawn = torch.rand(3, generator=generator)
    with shards.claimed() as (_, second):
        found = second.read()
    assert found is not None
    assert set(found) == set(state)
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    assert found.notes == {"reason": "ein Grund, nämlich \u2603"}
    again = torch.Generator()
    again.set_state(found["generator"])
    assert torch.equal(torch.rand(3, generator=again), drawn)


def test_what_is_saved_may_change_afterwards(shards: Shards) -> None:
    changing = torch.zeros(2)
    with shards.claimed() as (_, first):
        first.write({"state": changing}, {}, force=True)
        changing += 1
        found = first.read()
    assert found is not None
    assert found["state"].tolist() == [0.0, 0.0]


def test_a_shard_has_one_file_however_often_it_saves(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        for _ in range(3):
            first.write(STATE, {}, force=True)
            assert shards.files() == {shards.saved(claim)}
        shards.fail(claim)
    with shards.claimed() as (claim, second):
        second.write(STATE, {}, force=True)
        assert shards.files() == {kept := shards.saved(claim)}
        # What it takes counts while it is kept.
        assert shards.counted() == shards.store.measure(str(kept))[0]
        with shards.db.write() as session:
            assert close_shard(session, claim.row_id, claim.token, RunState.FAILED, error={})
        assert shards.counted() == 0


def test_equal_states_of_two_shards_are_two_files(shards: Shards) -> None:
    with shards.claimed() as (one, first), shards.claimed() as (other, second):
        first.write(STATE, {}, force=True)
        second.write(STATE, {}, force=True)
        kept = shards.saved(other)
        assert shards.files() == {shards.saved(one), kept}
        first.write({"state": torch.zeros(1)}, {}, force=True)
        assert shards.saved(other) == kept
        assert second.read() is not None


def test_a_save_soon_after_the_last_is_skipped(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(checkpointing.time, "monotonic", lambda: now[0])
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=False)
        assert shards.saved(claim) is None
        now[0] += SAVE_S
        first.write(STATE, {}, force=False)
        kept = shards.saved(claim)
        assert kept is not None
        now[0] += SAVE_S - 0.1
        first.write(STATE, {}, force=False)
        assert shards.saved(claim) == kept
        first.write(STATE, {}, force=True)
        assert shards.saved(claim) != kept


def test_saving_takes_a_small_share_of_the_time(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(checkpointing.time, "monotonic", lambda: now[0])
    put = LocalStore.put_passing

    def slowly(store: LocalStore, data: bytes, digest: str) -> None:
        put(store, data, digest)
        now[0] += 6.0

    monkeypatch.setattr(LocalStore, "put_passing", slowly)
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=True)
        kept = shards.saved(claim)
        now[0] += 119.0
        first.write(STATE, {}, force=False)
        assert shards.saved(claim) == kept
        now[0] += 1.0
        first.write(STATE, {}, force=False)
        assert shards.saved(claim) != kept


def test_a_skipped_save_still_looks_for_an_interruption(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        claim._cancelled = True
        with pytest.raises(ShardCancelled):
            first.write(STATE, {}, force=False)


def test_a_stopping_worker_saves_first(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        shards.stopping.set()
        with pytest.raises(ShuttingDown):
            first.write(STATE, {}, force=False)
        assert shards.files() == {shards.saved(claim)}


def test_a_frozen_worker_that_wakes_up_late_overwrites_nothing(shards: Shards) -> None:
    with shards.claimed() as (stale, frozen):
        frozen.write({"state": torch.tensor([1.0])}, {}, force=True)
        shards.lose(stale)
        with shards.claimed() as (fresh, awake):
            assert fresh.row_id == stale.row_id
            awake.write({"state": torch.tensor([2.0])}, {}, force=True)
            kept = shards.saved(fresh)
            with pytest.raises(LeaseLost):
                frozen.write({"state": torch.tensor([3.0])}, {}, force=True)
            assert shards.saved(fresh) == kept
            assert shards.files() == {kept}


def test_a_worker_frozen_between_file_and_row_takes_its_file_back(
    shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shards.claimed() as (stale, frozen):
        put = LocalStore.put_passing

        def freeze(store: LocalStore, data: bytes, digest: str) -> None:
            put(store, data, digest)
            shards.lose(stale)

        monkeypatch.setattr(LocalStore, "put_passing", freeze)
        with pytest.raises(LeaseLost):
            frozen.write(STATE, {}, force=True)
    assert shards.saved(stale) is None
    assert shards.files() == set()


def test_a_cancelled_shard_saves_nothing(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        with shards.db.write() as session:
            cancel_audit(session, shards.audit_id)
        with pytest.raises(ShardCancelled):
            first.write(STATE, {}, force=True)
    assert shards.saved(claim) is None
    assert shards.files() == set()


def test_a_state_of_other_code_is_not_resumed_and_is_replaced(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=True)
        shards.fail(claim)
    with shards.claimed(belongs_to="other code") as (claim, second):
        assert second.read() is None
        second.write(STATE, {}, force=True)
        assert second.read() is not None
        assert shards.files() == {shards.saved(claim)}


@pytest.mark.parametrize("damage", [b"", b"garbage" * 10], ids=["emptied", "overwritten"])
def test_a_damaged_save_begins_the_shard_anew(shards: Shards, damage: bytes) -> None:
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=True)
        digest = shards.saved(claim)
        assert digest is not None
        shards.store.local_path(digest).write_bytes(damage)
        shards.fail(claim)
    with shards.claimed() as (_, second):
        assert second.read() is None


def test_a_save_that_is_gone_begins_the_shard_anew(shards: Shards) -> None:
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=True)
        shards.store.delete(str(shards.saved(claim)))
        shards.fail(claim)
    with shards.claimed() as (_, second):
        assert second.read() is None


def test_a_full_disk_costs_the_save_and_not_the_shard(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    with shards.claimed() as (claim, first):
        first.write(STATE, {}, force=True)
        kept = shards.saved(claim)

        def full(store: LocalStore, data: bytes, digest: str) -> None:
            (store.staging() / digest.removeprefix("sha256:")).write_bytes(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(LocalStore, "put_passing", full)
            first.write(STATE, {}, force=True)
        assert shards.saved(claim) == kept
        assert shards.files() == {kept}
        first.write(STATE, {}, force=True)
        assert shards.files() == {shards.saved(claim)} != {kept}


def test_the_time_of_a_shard_is_that_of_all_its_attempts(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(checkpointing.time, "monotonic", lambda: now[0])
    with shards.claimed() as (claim, first):
        now[0] += 40.0
        first.write(STATE, {}, force=True)
        # Lost with what was done in it.
        now[0] += 7.0
        shards.fail(claim)
    with shards.claimed() as (_, second):
        second.read()
        now[0] += 2.0
        assert second.spent_s() == pytest.approx(42.0)


def test_the_code_has_one_version() -> None:
    assert code_version() == code_version.__wrapped__()
    assert len(code_version()) == 64


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(tmp_path) as running:
        yield running


class Stumbles:
    """Fails before a step, so many times."""

    def __init__(self, step: int, times: int) -> None:
        self.step, self.times = step, times

    def __call__(self, step: int) -> None:
        if step == self.step and self.times:
            self.times -= 1
            raise RuntimeError(f"stumbled at step {step}")


def play_out(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, stumbles: Stumbles) -> tuple[str, list[int]]:
    """Run a game of six steps in this process; return its audit and the steps that were run."""
    family = Stepping(deployment.home / "steps.log", steps=6, before_step=stumbles)
    monkeypatch.setattr(inline, "find_family", lambda kind: family)
    worker = InlineWorker(deployment.database, LocalStore(deployment.home / "artifacts"), deployment.settings)
    audit_id = deployment.submit(*deployment.upload(), shards=1)
    worker.drain()
    return audit_id, [step for _, _, step in steps_run(family.log)]


@pytest.mark.slow
def test_an_error_nobody_foresaw_costs_the_step_it_happened_in(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id, steps = play_out(deployment, monkeypatch, Stumbles(4, times=1))
    assert deployment.audit(audit_id)["state"] == "succeeded"
    assert steps == [1, 2, 3, 4, 5, 6]
    assert saves_in(deployment.home / "artifacts") == []


def test_the_second_failure_at_one_save_begins_the_shard_anew(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id, steps = play_out(deployment, monkeypatch, Stumbles(4, times=2))
    assert deployment.audit(audit_id)["state"] == "succeeded"
    assert steps == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    assert saves_in(deployment.home / "artifacts") == []


@pytest.mark.slow
def test_a_failed_shard_leaves_no_file_and_its_retry_begins_anew(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_id, steps = play_out(deployment, monkeypatch, Stumbles(4, times=3))
    assert deployment.audit(audit_id)["state"] == "failed"
    assert steps == [1, 2, 3, 1, 2, 3]
    assert saves_in(deployment.home / "artifacts") == []
    assert deployment.client.post(f"/v1/audits/{audit_id}/retry").status_code == 202
    InlineWorker(deployment.database, LocalStore(deployment.home / "artifacts"), deployment.settings).drain()
    assert deployment.audit(audit_id)["state"] == "succeeded"
    assert [step for _, _, step in steps_run(deployment.home / "steps.log")][6:] == [1, 2, 3, 4, 5, 6]
