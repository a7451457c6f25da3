"""Checking a claimed model: load it once, measure it, and say whether it can be audited."""

import logging
from typing import Any

from app.contracts.states import ModelState
from app.contracts.targets import IMAGES, ModelManifest
from app.core.database import Database
from app.core.settings import Settings
from app.core.tables import ModelRow
from app.core.transitions import holds, move, release
from workers.errors import WorkError
from workers.runtime.claims import Claim
from workers.runtime.interruptions import Interrupted
from workers.runtime.resources import Resources, parse_manifest
from workers.runtime.running import store_patiently, unexpected
from workers.targets.checks import TargetReport, check_target
from workers.targets.endpoint import EndpointClassifier
from workers.targets.text_checks import check_text_target

log = logging.getLogger(__name__)

AGAIN_S = 5.0
"""Seconds before a check that stumbled is tried again, times the attempts so far: a full disk may be emptied."""


def check_model(database: Database, resources: Resources, settings: Settings, claim: Claim) -> None:
    """Make a claimed model ready or rejected; what stumbles is tried again, ``max_attempts`` times in all."""
    with database.read() as session:
        row = session.get_one(ModelRow, claim.row_id)
    state, values = ModelState.REJECTED, dict[str, Any]()
    try:
        report, labels = _check(resources, row, parse_manifest(ModelManifest, row.manifest), claim)
        facts = report.facts.model_copy(update={"flags": report.flags, "labels": labels})
        state, values = ModelState.READY, {"facts": facts.model_dump(mode="json"), "problem": None}
    except Interrupted:
        with database.write() as session:
            release(session, ModelRow, claim.row_id, claim.token, attempts=row.attempts - 1)
        return
    except WorkError as error:
        values = {"problem": error.problem.model_dump()}
    except Exception as error:
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


def _check(
    resources: Resources, row: ModelRow, manifest: ModelManifest, claim: Claim
) -> tuple[TargetReport, list[str]]:
    """Return what was measured and the class names."""
    if manifest.task == IMAGES:
        image_classifier = resources.classifier(row)
        return check_target(image_classifier, manifest), image_classifier.labels
    text_classifier = resources.scoring(row).classifier
    if isinstance(text_classifier, EndpointClassifier):
        # It may be at hand from an audit that has ended: that one's cancellation and budget are not this check's.
        text_classifier.work_for(claim.tick)
    return check_text_target(text_classifier, manifest), text_classifier.labels
