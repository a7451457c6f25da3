"""Workers that take models of some sizes leave the others to those who take them."""

from sqlalchemy import update

from seatrial.contracts.states import ModelState
from seatrial.store.claiming import claim_work
from seatrial.store.database import Database
from seatrial.store.sizes import Sizes
from seatrial.store.tables import AuditRow, CheckRow, ModelRow, ShardRow
from tests.rows import add_audit
from tests.store.test_lifecycle import start_stage

SMALL, LARGE = Sizes(most_bytes=1000), Sizes(least_bytes=1001)


def take(db: Database, sizes: Sizes) -> tuple[type, str] | None:
    with db.write() as session:
        claimed = claim_work(session, lease_s=60, worker="w", sizes=sizes)
    return None if claimed is None else (claimed[0], claimed[1])


def resize(db: Database, audit_id: str, size_bytes: int, **values: object) -> str:
    with db.write() as session:
        model_id = session.get_one(AuditRow, audit_id).model_id
        session.execute(update(ModelRow).where(ModelRow.id == model_id).values(size_bytes=size_bytes, **values))
    return model_id


def test_each_takes_checks_shards_and_uploads_of_its_sizes(database: Database) -> None:
    large = add_audit(database)
    resize(database, large, 1001)
    assert take(database, SMALL) is None
    shards_of = start_stage(database, large, shards=2)
    small = add_audit(database)
    resize(database, small, 1000)
    # The older audit's shards come first for whoever takes all, and never for those who take small models.
    table, check_id = take(database, SMALL) or (None, "")
    assert table is CheckRow
    assert check_id != shards_of
    assert take(database, SMALL) is None
    assert (take(database, LARGE) or (None,))[0] is ShardRow
    assert (take(database, Sizes()) or (None,))[0] is ShardRow
    upload = resize(database, add_audit(database), 5000, state=ModelState.CHECKING)
    assert take(database, SMALL) is None
    assert take(database, LARGE) == (ModelRow, upload)
