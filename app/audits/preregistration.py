"""Signing what an audit is going to ask, before anybody knows the answer."""

import hashlib
import logging

from sqlalchemy.orm import Session

from seatrial.attestation.dsse import sign
from seatrial.attestation.key_folder import KeyFolder
from seatrial.attestation.keys import KeyFileError
from seatrial.attestation.statements import PreregistrationPredicate, state_preregistration
from seatrial.store.ids import new_id
from seatrial.store.tables import AttestationRow, AuditRow, DatasetRow, ModelRow

log = logging.getLogger(__name__)


def preregister(session: Session, keys: KeyFolder, audit_id: str) -> None:
    """Store the signed specification, policy and seed of an audit beside it; nothing where no key signs here.

    Nobody can then say of one audit of many, with as many seeds, that it was the one meant.
    """
    try:
        key = keys.signing_key()
    except KeyFileError as error:
        log.warning("audits are not pre-registered: %s", error)
        return
    if key is None:
        return
    audit = session.get_one(AuditRow, audit_id)
    policy = audit.policy
    predicate = PreregistrationPredicate(
        audit=audit.id,
        spec_digest=audit.spec_digest,
        policy_digest=None if policy is None else str(policy["source"]["digest"]),
        seed=audit.seed,
        signed_at=audit.created_at,
    )
    statement = state_preregistration(
        predicate,
        model=session.get_one(ModelRow, audit.model_id).digest,
        dataset=session.get_one(DatasetRow, audit.dataset_id).digest,
    )
    content = sign(statement.payload(), key).line().decode() + "\n"
    session.add(
        AttestationRow(
            id=new_id("att"),
            audit_id=audit.id,
            judgement_id=None,
            key_id=key.public.key_id,
            content=content,
            digest="sha256:" + hashlib.sha256(content.encode()).hexdigest(),
            created_at=audit.created_at,
        )
    )
