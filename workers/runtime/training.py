"""Training one claimed hardening and storing what came of it, once."""

from dataclasses import asdict

from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ModelState
from seatrial.contracts.training import methods
from seatrial.store.checkpoints import may_resume
from seatrial.store.database import Database
from seatrial.store.hardening import close_training, end_training, give_training_back
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, HardeningRow, ModelRow
from workers.errors import PreflightError, TargetError
from workers.runtime.claims import Claim
from workers.runtime.executor import Executor
from workers.runtime.jobs import HardeningJob
from workers.runtime.running import Ends, Write, measured_by, run_to_an_end

OF_TRAININGS = Ends(end_training, give_training_back)


def run_training(database: Database, executor: Executor, settings: Settings, claim: Claim) -> None:
    """Train to one of its ends: on to the audits, failed, cancelled, or queued again."""

    def work() -> Write:
        hardened = asdict(executor.harden(read_job(database, claim.row_id), claim))
        values = {"seconds": hardened.pop("seconds"), "curves": hardened.pop("curves"), "outcome": hardened}
        values |= measured_by(executor, settings)
        return lambda session, held: close_training(session, held.row_id, held.token, **values)

    with database.read() as session:
        row = session.get_one(HardeningRow, claim.row_id)
    run_to_an_end(database, settings, claim, row, work, OF_TRAININGS)


def read_job(database: Database, hardening_id: str) -> HardeningJob:
    """Return everything the database says about a training.

    Raises:
        TargetError: Its model has been rejected since it was submitted.
        PreflightError: Its method is not installed here.
    """
    with database.read() as session:
        row = session.get_one(HardeningRow, hardening_id)
        model = session.get_one(ModelRow, row.model_id)
        validation = None if row.validation_id is None else session.get_one(DatasetRow, row.validation_id)
        dataset, audited = (session.get_one(DatasetRow, each) for each in (row.dataset_id, row.audited_id))
    if model.state == ModelState.REJECTED and model.problem is not None:
        problem = StoredProblem.model_validate(model.problem)
        raise TargetError(problem.code, problem.title, problem.detail, field="/model")
    spec = methods().get(row.method)
    if spec is None:
        raise PreflightError(
            "method-missing",
            "The method is not installed where it is to be trained",
            f"this worker has no {row.method}: install its distribution there as well",
            field="/method",
        )
    return HardeningJob(
        hardening_id=row.id,
        params=spec.params.model_validate(row.params, strict=False),
        seed=row.seed,
        model=model,
        dataset=dataset,
        validation=validation,
        audited=audited,
        checkpoint=row.saved_digest,
        may_resume=may_resume(row),
    )
