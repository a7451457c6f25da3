"""Attesting verdicts: gathering what an audit measured, and signing it with the installation's key."""

import hashlib
import logging
import zipfile
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.attestations import repository
from app.attestations.subject import subject_of
from app.gates import repository as gates
from app.reports.bundle import build_bundle, get_ended, versions
from app.reports.bundle_layout import SUMS, evidence_digest
from app.reports.repository import find_dataset, find_model, list_checks
from app.web.problems import ConflictError, NotFoundError
from app.web.services import Services
from seatrial.attestation.dsse import sign
from seatrial.attestation.key_folder import KeyFolder
from seatrial.attestation.keys import KeyFileError, SigningKey, parse_published
from seatrial.attestation.statements import (
    AuditPredicate,
    MeasuredCheck,
    Named,
    Statement,
    state_audit,
)
from seatrial.contracts.policies import Judgement
from seatrial.families.shared.settling import settled_document
from seatrial.store.ids import new_id
from seatrial.store.outbox import announce
from seatrial.store.tables import AttestationRow, AuditRow, CheckRow, DatasetRow, JudgementRow, ModelRow
from seatrial.store.tables.base import utc_now

log = logging.getLogger(__name__)

LOOKED_BACK = timedelta(minutes=10)
"""How late a verdict may turn up in the database: the clocks of two processes, and a long transaction."""
_BATCH = 100


class NotJudgedError(ConflictError):
    """There is no verdict to sign."""

    code = "not-judged"
    title = "The audit has no verdict"


class NoSigningKeyError(ConflictError):
    """The installation has no key to sign with."""

    code = "no-signing-key"
    title = "This installation does not sign"


def attestation_of(services: Services, project_id: str, audit_id: str, judgement_id: str | None) -> AttestationRow:
    """Return the attestation of a verdict, signed now where it was not before; the same verdict gives the same bytes.

    Raises:
        NotFoundError: There is no such audit, or no such judgement of it.
        NotEndedError: It still runs.
        NotJudgedError: It has no verdict.
        NoSigningKeyError: No key signs here.
    """
    key = _signing_key(services)
    with services.database.read() as session:
        judged = _judgement(session, project_id, audit_id, judgement_id)
        found = repository.find_attestation(session, judged.id, key.public.key_id)
    return found or _attest(services, project_id, audit_id, judged.id, key)


def statements_of(
    services: Services, project_id: str, audit_id: str, judgement_id: str | None
) -> tuple[Statement, Statement]:
    """Return what an attestation states, unsigned: the test result, and everything it rests on.

    Raises:
        NotFoundError: There is no such audit, or no such judgement of it.
        NotEndedError: It still runs.
        NotJudgedError: It has no verdict.
    """
    return _stated(services, project_id, audit_id, judgement_id)[0]


def _stated(
    services: Services, project_id: str, audit_id: str, judgement_id: str | None
) -> tuple[tuple[Statement, Statement], AttestationRow | None]:
    """Return the statements, and the registration they name: looked for once, as its key may be revoked meanwhile."""
    with services.database.read() as session:
        judged = _judgement(session, project_id, audit_id, judgement_id)
        audit, model, dataset = _inputs(session, project_id, audit_id)
        checks = list_checks(session, audit_id)
        others = repository.count_other_seeds(session, audit, judged)
        registered = _registration(services, session, audit_id)
    policy_digest = str(judged.judgement["policy"]["digest"])
    predicate = AuditPredicate(
        audit=audit.id,
        spec_digest=audit.spec_digest,
        policy_digest=policy_digest,
        seed=audit.seed,
        samples=audit.samples,
        created_at=audit.created_at,
        finished_at=audit.finished_at,
        signed_at=_whole_seconds(utc_now()),
        model=_named(model),
        dataset=_named(dataset),
        policy=judged.document,
        judgement=Judgement.model_validate({**judged.judgement, "id": judged.id}),
        checks=[_measured(check) for check in checks],
        other_seeds=others,
        preregistered_at=registered.created_at if registered and _registers(audit, policy_digest) else None,
        versions=versions(),
        evidence=_evidence(services, project_id, audit_id),
    )
    return state_audit(subject_of(services, model), predicate), registered


def attest_judged(services: Services) -> int:
    """Sign the verdicts made since the key was, each once, and return how many that were; webhooks are told.

    Without a key nothing is done. Safe in any number of processes at once.

    Raises:
        SQLAlchemyError: The database does not answer; what is left waits for the next call.
    """
    try:
        key = services.of(KeyFolder).signing_key()
    except KeyFileError as error:
        log.warning("verdicts are not signed: %s", error)
        return 0
    if key is None:
        return 0
    since = _made_at(services, key)
    signed, failure = 0, None
    with services.database.read() as session:
        waiting = repository.list_unattested(session, key.public.key_id, since=since, limit=_BATCH)
    for row in waiting:
        try:
            _attest(services, row.project, row.audit, row.judgement, key)
            signed += 1
        except Exception as error:
            log.exception("the verdict of audit %s cannot be signed", row.audit)
            failure = error
    if failure is not None:
        raise failure
    return signed


def check_signs(services: Services) -> None:
    """Refuse what will have to be signed where no key signs.

    Raises:
        NoSigningKeyError: None does.
    """
    _signing_key(services)


def _signing_key(services: Services) -> SigningKey:
    try:
        key = services.of(KeyFolder).signing_key()
    except KeyFileError as error:
        log.warning("verdicts are not signed: %s", error)
        raise NoSigningKeyError("The signing key of this installation cannot be read; its log says why.") from error
    if key is None:
        raise NoSigningKeyError(
            "No key signs here: make one with `seatrial keys signing create`, or sign with one of your own: "
            "`seatrial attest AUDIT --signing-key KEY.pem`."
        )
    return key


def _made_at(services: Services, key: SigningKey) -> datetime:
    listed = {one.kid: one for one in services.of(KeyFolder).published().keys}
    made_at = listed[key.public.key_id].nbf
    return utc_now() - LOOKED_BACK if made_at is None else made_at


def _judgement(session: Session, project_id: str, audit_id: str, judgement_id: str | None) -> JudgementRow:
    get_ended(session, project_id, audit_id)
    if judgement_id is None:
        own = repository.find_own_judgement(session, audit_id)
        if own is None:
            raise NotJudgedError(
                f"Audit {audit_id} has no verdict of its own: submit it with a policy, or name a judgement of it."
            )
        return own
    found = gates.find_judgement(session, audit_id, judgement_id)
    if found is None:
        raise NotFoundError(f"Audit {audit_id} has no judgement {judgement_id}.")
    return found


def _inputs(session: Session, project_id: str, audit_id: str) -> tuple[AuditRow, ModelRow, DatasetRow]:
    audit = get_ended(session, project_id, audit_id)
    model, dataset = (
        find_model(session, project_id, audit.model_id),
        find_dataset(session, project_id, audit.dataset_id),
    )
    if model is None or dataset is None:
        raise NotFoundError(f"The model or the dataset of audit {audit_id} is gone.")
    return audit, model, dataset


def _attest(services: Services, project_id: str, audit_id: str, judgement_id: str, key: SigningKey) -> AttestationRow:
    statements, registered = _stated(services, project_id, audit_id, judgement_id)
    lines = [sign(one.payload(), key).line().decode() for one in statements]
    # What was signed at submission goes along: whoever checks need not believe the date.
    if registered is not None:
        lines.append(registered.content.strip())
    content = "".join(f"{line}\n" for line in lines)
    row = AttestationRow(
        id=new_id("att"),
        audit_id=audit_id,
        judgement_id=judgement_id,
        key_id=key.public.key_id,
        content=content,
        digest="sha256:" + hashlib.sha256(content.encode()).hexdigest(),
        created_at=utc_now(),
    )
    try:
        with services.database.write() as session:
            session.add(row)
            session.flush()
            told: dict[str, Any] = {
                **{"attestation": row.id, "digest": row.digest, "judgement": judgement_id},
                # That was signed: the audit's own may be another policy's.
                "verdict": session.get_one(JudgementRow, judgement_id).verdict,
            }
            announce(session, audit_id, "audit.attested", told)
            session.expunge(row)
    except IntegrityError:
        # Another process was faster; its bytes are the ones given out.
        with services.database.read() as session:
            found = repository.find_attestation(session, judgement_id, key.public.key_id)
        if found is None:
            raise
        return found
    return row


def _registration(services: Services, session: Session, audit_id: str) -> AttestationRow | None:
    """Return what was signed of an audit when it was submitted, while whoever checks believes its key."""
    registered = repository.find_preregistration(session, audit_id)
    if registered is None:
        return None
    keys = {key.key_id: key for key in parse_published(services.of(KeyFolder).published())}
    key = keys.get(registered.key_id)
    return registered if key is None or key.why_not(registered.created_at, utc_now()) is None else None


def _named(row: ModelRow | DatasetRow) -> Named:
    return Named(name=row.name, version=row.version, digest=row.digest, task=row.task, manifest=row.manifest)


def _measured(check: CheckRow) -> MeasuredCheck:
    return MeasuredCheck.model_validate(
        {
            "position": check.ordinal,
            "kind": check.kind,
            "state": check.state,
            "params": check.params,
            "result": settled_document(check.kind, check.params, check.result),
            "error": check.error,
            "reused": check.reused,
        }
    )


def _registers(audit: AuditRow, policy_digest: str) -> bool:
    """Return whether an audit's verdict is by the policy it was submitted with."""
    return bool(audit.policy) and (audit.policy or {}).get("source", {}).get("digest") == policy_digest


def _evidence(services: Services, project_id: str, audit_id: str) -> str:
    with build_bundle(services, project_id, audit_id) as file:
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            return evidence_digest(archive.read(SUMS).decode())


def _whole_seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
