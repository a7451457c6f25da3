"""What was signed of the verdict that a report prints, and what that covers: read from the envelope, not from rows."""

import logging
from collections.abc import Iterator, Sequence

from sqlalchemy.orm import Session

from app.reports import repository
from seatrial.attestation.dsse import read_envelopes
from seatrial.attestation.statements import (
    AUDIT,
    PREREGISTRATION,
    TEST_RESULT,
    AuditPredicate,
    Descriptor,
    Statement,
    TestResultPredicate,
)
from seatrial.attestation.subjects import ENDPOINT_MANIFEST
from seatrial.reporting.outcomes import Judged
from seatrial.reporting.schemas import ReportSignature
from seatrial.reporting.words import enumerate_words
from seatrial.store.tables import AttestationRow

log = logging.getLogger(__name__)

_MAX_NAMED = 4
_MAX_READ = 500
_READ: dict[tuple[str, int], ReportSignature] = {}
"""What was read, by row and content."""
NEVER_COVERED = (
    "This document: it is not signed itself. `seatrial verify` prints what was.",
    "Whether the key still counts: it may have been revoked since, or expire. `seatrial verify` says so.",
    "That the examples are like those the model will meet, what software loads the weights, and anything the policy "
    "does not ask for.",
    "That the signer is honest: a second signature, by whoever ran the audit again, speaks for that.",
)
"""What no signature of an audit says, whatever was audited."""


def find_signature(session: Session, judged: Judged | None) -> ReportSignature | None:
    """Return what this installation signed last of a verdict; None where it did not, or where this cannot be read.

    A verdict that was made for one answer, by ``?policy=``, is stored nowhere and signed by nobody.
    """
    if judged is None or judged.judgement.id is None:
        return None
    row = repository.find_attestation(session, judged.judgement.id)
    if row is None:
        return None
    # A row never changes, and reading one of 3 MB took half a second of every report.
    key = row.id, hash(row.content)
    found = _READ.get(key)
    if found is None:
        try:
            found = describe_signature(row)
        except ValueError:
            # A later version's: the report is not lost for it, and claims no more than is shown.
            log.exception("the attestation of judgement %s cannot be read", judged.judgement.id)
            return None
        if len(_READ) >= _MAX_READ:
            _READ.clear()
        _READ[key] = found
    return found.model_copy(deep=True)


def describe_signature(row: AttestationRow) -> ReportSignature:
    """Return what an attestation covers.

    Raises:
        ValueError: What is stored is no attestation of an audit.
    """
    stated = {}
    for envelope in read_envelopes(row.content.encode()):
        statement = Statement.model_validate_json(envelope.content())
        stated[statement.predicate_type] = statement
    if not {TEST_RESULT, AUDIT} <= stated.keys():
        raise ValueError(f"attestation {row.id} holds no test result or no numbers")
    audit = AuditPredicate.model_validate(stated[AUDIT].predicate)
    is_registered = PREREGISTRATION in stated and audit.preregistered_at is not None
    return ReportSignature(
        digest=row.digest,
        key_id=row.key_id,
        signed_at=audit.signed_at,
        result=TestResultPredicate.model_validate(stated[TEST_RESULT].predicate).result,
        preregistered_at=audit.preregistered_at if is_registered else None,
        other_seeds=audit.other_seeds,
        covers=list(_covered(stated[AUDIT].subject, audit, is_registered=is_registered)),
        leaves_out=[*_left_out(stated[AUDIT].subject, audit, is_registered=is_registered), *NEVER_COVERED],
    )


def _covered(subject: Sequence[Descriptor], audit: AuditPredicate, *, is_registered: bool) -> Iterator[str]:
    yield f"{_files(subject)}, by SHA-256."
    policy = audit.judgement.policy.name
    yield (
        f"The verdict {audit.judgement.verdict} by the policy {policy} ({audit.policy_digest}), with all "
        f"{len(audit.judgement.rules)} outcomes of its rules."
    )
    results = [check.result for check in audit.checks if check.result is not None]
    numbers = sum(len(result.estimates) for result in results)
    flags = sum(len(result.flags) for result in results)
    yield (
        f"Every number ({numbers:,}) with its interval, n and method, and every flag ({flags:,}), of "
        f"{len(audit.checks)} checks with their parameters."
    )
    yield f"The examples {audit.dataset.name} {audit.dataset.version}, by the digest {audit.dataset.digest}."
    yield f"The records of every example, by the digest of the bundle's: {audit.evidence}."
    yield f"The specification {audit.spec_digest}, the seed {audit.seed} and the versions of what measured."
    if is_registered and audit.preregistered_at is not None:
        yield (
            f"That specification, policy and seed were signed when the audit was submitted, at "
            f"{audit.preregistered_at:%Y-%m-%d %H:%M} UTC, before any number was known."
        )


def _left_out(subject: Sequence[Descriptor], audit: AuditPredicate, *, is_registered: bool) -> Iterator[str]:
    if [one.name for one in subject] == [ENDPOINT_MANIFEST]:
        yield "What answers at the endpoint's address: it may be another model by now."
    if not is_registered:
        yield (
            "That the seed was chosen before the numbers were known: specification, policy and seed were not signed "
            "when the audit was submitted."
        )
    for check in audit.checks:
        if check.reused is not None:
            yield (
                f"A measurement of {check.kind} by this audit: its records are those of audit {check.reused.audit}, "
                f"measured until {check.reused.measured_at:%Y-%m-%d %H:%M} UTC."
            )
    if audit.other_seeds:
        asked = "1 audit" if audit.other_seeds == 1 else f"{audit.other_seeds:,} audits"
        yield f"The outcomes with other seeds: {asked} asked the same with another one before this verdict was made."


def _files(subject: Sequence[Descriptor]) -> str:
    names = [one.name for one in subject]
    if names == [ENDPOINT_MANIFEST]:
        return "The manifest of the endpoint"
    if len(names) > _MAX_NAMED:
        return f"All {len(names):,} files of the model ({', '.join(names[:_MAX_NAMED])}, ...)"
    return f"The model's {'file' if len(names) == 1 else 'files'} {enumerate_words(names)}"
