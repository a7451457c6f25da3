"""Checking a claimed model: load it once, measure it, and say whether it can be audited."""

import logging
from typing import Any

from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import ArtifactDamagedError
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from seatrial.store.transitions import holds, move, release
from workers.errors import WorkError
from workers.runtime.claims import Claim
from workers.runtime.deferring import MOST_DEFERRALS, put_off_s, told, trouble_of
from workers.runtime.executor import Executor
from workers.runtime.interruptions import Interrupted, LeaseLost
from workers.runtime.jobs import ModelJob
from workers.runtime.running import damaged, put_off, store_patiently, unexpected

log = logging.getLogger(__name__)

AGAIN_S = 5.0
"""Seconds before a check that stumbled is tried again, times the attempts so far."""


def check_model(database: Database, executor: Executor, settings: Settings, claim: Claim) -> None:
    """Make a claimed model ready or rejected; what stumbles is tried again, ``max_attempts`` times in all.

    One whose file is damaged or gone waits for it to be uploaded once more, and tells so.
    """
    with database.read() as session:
        row = session.get_one(ModelRow, claim.row_id)
    state, values = ModelState.REJECTED, dict[str, Any]()
    try:
        facts = executor.check(ModelJob(row), claim)
        state, values = ModelState.READY, {"facts": facts, "problem": None}
    except LeaseLost:
        log.warning("the check of %s was cancelled or is another worker's; nothing is written", claim.row_id)
        return
    except Interrupted:
        with database.write() as session:
            release(session, ModelRow, claim.row_id, claim.token, attempts=row.attempts - 1)
        return
    except ArtifactDamagedError as error:
        # Rejected, it would stay so when the true bytes are uploaded again.
        _put_off(database, claim, row, damaged(error).model_dump())
        return
    except WorkError as error:
        values = {"problem": error.problem.model_dump()}
    except Exception as error:
        if (trouble := trouble_of(error)) is not None:
            problem = told(trouble).model_dump()
            if row.deferrals < MOST_DEFERRALS:
                log.warning("%s is put off: %s", claim.row_id, trouble)
                _put_off(database, claim, row, problem)
                return
            log.error("%s is given up: %s", claim.row_id, trouble)
            values = {"problem": problem}
        else:
            log.exception("checking model %s failed at attempt %d", claim.row_id, row.attempts)
            if row.attempts < settings.max_attempts:
                with database.write() as session:
                    release(session, ModelRow, claim.row_id, claim.token, put_off_s=AGAIN_S * row.attempts)
                return
            values = {"problem": unexpected(error).model_dump()}
    mine = holds(ModelRow, claim.row_id, claim.token)
    store_patiently(
        database,
        lambda session: bool(move(session, ModelRow, state, *mine, token=None, lease_until=None, **values)),
        patience_s=settings.lease_s,
    )


def _put_off(database: Database, claim: Claim, row: ModelRow, problem: dict[str, Any]) -> None:
    values = {"problem": problem, "attempts": row.attempts - 1, "deferrals": row.deferrals + 1}
    seconds = put_off_s(row.deferrals)
    put_off(
        database,
        claim,
        lambda session, held: release(session, ModelRow, held.row_id, held.token, put_off_s=seconds, **values),
    )
