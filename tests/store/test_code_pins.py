"""One code measures an audit: others leave it alone, and one whose code nobody runs any more begins anew."""

from datetime import timedelta
from typing import Any

from sqlalchemy import select, update

from seatrial.contracts.states import RunState
from seatrial.store.claiming import claim_work
from seatrial.store.code_pins import restart_orphans
from seatrial.store.database import Database
from seatrial.store.lifecycle import close_check, close_shard, open_stage
from seatrial.store.tables import AuditRow, CheckRow, DiscardRow, ShardRow, StageRow, WorkerRow
from seatrial.store.tables.base import utc_now
from tests.rows import add_audit
from workers.runtime.stages import make_shards

OLD, NEW = "old" * 8, "new" * 8


def take(db: Database, code: str | None) -> Any:
    with db.write() as session:
        return claim_work(session, lease_s=60, worker="w", code=code)


def begin(db: Database, code: str | None, pieces: tuple[tuple[int, int], ...] = ((0, 50), (50, 100))) -> str:
    """Open the stage of the next check and return the check's id."""
    table, check_id, token = take(db, code)
    assert table is CheckRow
    opened = {"name": "attack", "source": "sample", "examples": 100, "code": code}
    with db.write() as session:
        rows = make_shards(check_id, "attack", list(pieces))
        assert open_stage(session, check_id, token, shards=rows, **opened)
    return str(check_id)


def run_shard(db: Database, code: str) -> str:
    table, shard_id, token = take(db, code)
    assert table is ShardRow
    with db.write() as session:
        assert close_shard(session, shard_id, token, RunState.SUCCEEDED, records_digest="r", code=code)
    return str(shard_id)


def see(db: Database, code: str | None, *, ago_s: float = 0.0) -> None:
    with db.write() as session:
        seen = utc_now() - timedelta(seconds=ago_s)
        session.add(WorkerRow(id=f"wrk_{code}_{ago_s}", device="cpu", pid=1, code=code, last_seen_at=seen))


def test_another_code_takes_nothing_of_an_audit_that_has_begun(database: Database) -> None:
    first, second = add_audit(database), add_audit(database)
    begin(database, OLD)
    # The oldest audit is the other's; the next one is free.
    check_id = begin(database, NEW)
    with database.read() as session:
        codes = {row.id: row.code for row in session.scalars(select(AuditRow))}
        assert session.get_one(CheckRow, check_id).audit_id == second
    assert codes == {first: OLD, second: NEW}
    ran = {code: {run_shard(database, code) for _ in range(2)} for code in (NEW, OLD)}
    with database.read() as session:
        for code, shards in ran.items():
            owners = select(AuditRow.code).join(CheckRow).join(ShardRow).where(ShardRow.id.in_(shards))
            assert set(session.scalars(owners)) == {code}
    # The result too.
    table, check_id, token = take(database, NEW)
    with database.write() as session:
        assert table is CheckRow
        assert close_check(session, check_id, token, RunState.SUCCEEDED)
    assert take(database, NEW) is None
    assert take(database, OLD)[0] is CheckRow


def test_two_codes_that_begin_at_once_do_not_share(database: Database) -> None:
    add_audit(database, checks=2)
    one, other = take(database, OLD), take(database, NEW)
    opened = {"name": "attack", "source": "sample", "examples": 100}
    with database.write() as session:
        assert open_stage(session, *one[1:], shards=make_shards(one[1], "attack", [(0, 100)]), code=OLD, **opened)
    with database.write() as session:
        rows = make_shards(other[1], "attack", [(0, 100)])
        assert not open_stage(session, *other[1:], shards=rows, code=NEW, **opened)
    assert take(database, NEW) is None


def test_where_codes_may_mix_everybody_takes_everything(database: Database) -> None:
    add_audit(database)
    begin(database, OLD)
    assert take(database, None)[0] is ShardRow


def test_an_audit_whose_code_nobody_runs_begins_anew(database: Database) -> None:
    audit_id = add_audit(database, checks=2)
    ended = begin(database, OLD, ((0, 100),))
    run_shard(database, OLD)
    table, check_id, token = take(database, OLD)
    with database.write() as session:
        assert (table, check_id) == (CheckRow, ended)
        assert close_check(session, check_id, token, RunState.SUCCEEDED)
    unfinished = begin(database, OLD)
    run_shard(database, OLD)
    with database.write() as session:
        session.execute(update(ShardRow).where(ShardRow.state == "queued").values(saved_digest="sha256:saved"))
    see(database, OLD, ago_s=10)
    see(database, OLD, ago_s=1000)
    assert restart_orphans(database, NEW, alive_s=60) == 0
    assert restart_orphans(database, OLD, alive_s=5) == 0
    assert restart_orphans(database, NEW, alive_s=5) == 1
    assert restart_orphans(database, NEW, alive_s=5) == 0
    with database.read() as session:
        check = session.get_one(CheckRow, unfinished)
        assert (check.state, check.stage, check.open_shards, check.attempts) == ("queued", None, 0, 0)
        for rows in (ShardRow, StageRow):
            assert set(session.scalars(select(rows.check_id))) == {ended}
        assert session.get_one(CheckRow, ended).state == "succeeded"
        # What it had saved is deleted with the next sweep.
        assert "sha256:saved" in session.scalars(select(DiscardRow.digest)).all()
    assert begin(database, NEW) == unfinished
    for _ in range(2):
        run_shard(database, NEW)
    table, check_id, token = take(database, NEW)
    with database.write() as session:
        assert close_check(session, check_id, token, RunState.SUCCEEDED)
        assert session.get_one(AuditRow, audit_id, populate_existing=True).state == "succeeded"


def test_what_somebody_works_on_is_left_alone(database: Database) -> None:
    add_audit(database)
    begin(database, OLD)
    claimed = take(database, OLD)
    # Its worker is not in the table: an idle one may not have told.
    assert restart_orphans(database, NEW, alive_s=5) == 0
    with database.write() as session:
        assert close_shard(session, *claimed[1:], RunState.SUCCEEDED, records_digest="r")
    assert restart_orphans(database, NEW, alive_s=5) == 1
