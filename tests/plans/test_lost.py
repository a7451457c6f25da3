"""Whatever is retried, records that the store has lost are measured again."""

import pytest

from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ShardRow, StageRow
from tests.plans.conftest import HARDENED, World

LOST, STAGE = "sha256:" + "9" * 64, "paper"


def with_records(world: World, audit_id: str) -> None:
    """Give a queued audit two shards that have ended: the records of one are stored, those of the other are gone."""
    kept = world.services.store.put_bytes(b"records")
    with world.services.database.write() as session:
        check = session.query(CheckRow).filter_by(audit_id=audit_id).one()
        session.add(StageRow(check_id=check.id, name=STAGE, ordinal=0, source="sample", shards=2, examples=2))
        for ordinal, digest in enumerate((kept, LOST)):
            session.add(
                ShardRow(
                    **{"id": f"shd_{ordinal}", "check_id": check.id, "stage": STAGE, "ordinal": ordinal},
                    **{"start": ordinal, "stop": ordinal + 1, "state": "succeeded", "records_digest": digest},
                )
            )


def shards(world: World) -> list[tuple[str, str]]:
    with world.services.database.read() as session:
        return [(row.id, row.state) for row in session.query(ShardRow).order_by(ShardRow.id)]


@pytest.mark.parametrize("door", ["audits", "plans", "hardenings", "plans of hardenings"])
def test_a_retry_measures_again_what_the_store_has_lost(sqlite_world: World, door: str) -> None:
    world = sqlite_world
    hardens = "hardenings" in door
    plan_id = world.submit(*HARDENED) if hardens else world.submit("audit")
    other = world.submit("audit")
    world.advance()
    with world.services.database.write() as session:
        audit_id = world.plan(other if hardens else plan_id)["steps"][0]["job"]
        hardening = session.query(HardeningRow).one_or_none()
        if hardening is not None:
            hardening.audit_after = audit_id
        assert session.get_one(AuditRow, audit_id).state in ("queued", "running")
    with_records(world, audit_id)
    world.end_jobs("failed")
    world.advance()
    assert shards(world) == [("shd_0", "succeeded"), ("shd_1", "succeeded")]
    own = {"audits": audit_id, "hardenings": world.plan(plan_id)["steps"][0]["job"]}.get(door, plan_id)
    answer = world.client.post(f"/v1/{door.split()[0]}/{own}/retry")
    assert answer.status_code == 202, answer.text
    assert shards(world) == [("shd_0", "succeeded"), ("shd_1", "queued")]
