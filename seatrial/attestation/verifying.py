"""Checking an attestation offline: with nothing but its bytes, the keys one trusts, and the files of the model.

Everything is refused that is not shown: a file without a subject, a verdict that is not ``passed``, a statement this
version does not know. The reason is the error's message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import ValidationError

from seatrial.attestation.dsse import EnvelopeError, read_envelopes, verify
from seatrial.attestation.keys import PublicKey
from seatrial.attestation.statements import (
    AUDIT,
    PREREGISTRATION,
    REPRODUCTION,
    TEST_RESULT,
    AuditPredicate,
    Descriptor,
    PreregistrationPredicate,
    ReproductionPredicate,
    Statement,
    TestResult,
    TestResultPredicate,
    describe_measurement,
    document_digest,
    state_result,
)
from seatrial.contracts.base import Read
from seatrial.ingest.strict_json import strict_json

CLOCK_SKEW = timedelta(minutes=5)
"""How far the signer's clock may be ahead."""

_KNOWN = frozenset({TEST_RESULT, AUDIT, PREREGISTRATION, REPRODUCTION})
_PredicateT = TypeVar("_PredicateT", bound=Read)


class VerificationError(ValueError):
    """An attestation that shows nothing, and why."""


@dataclass(frozen=True)
class Signed:
    """A statement somebody signed."""

    statement: Statement
    key: PublicKey
    payload: bytes


@dataclass(frozen=True)
class Verified:
    """What an attestation shows.

    Attributes:
        result: The verdict as a test result; ``FAILED`` for anything but a verdict that passed.
        predicate: Everything measured.
        key_id: Who signed it.
        reproduced_by: Who signed that another installation got the same numbers; empty: nobody.
    """

    result: TestResult
    predicate: AuditPredicate
    key_id: str
    reproduced_by: tuple[str, ...]

    @property
    def assurance(self) -> str:
        """``reproduced`` where a second signer got the same numbers, else ``measured``."""
        return "reproduced" if self.reproduced_by else "measured"


def verify_attestation(
    text: bytes,
    keys: Sequence[PublicKey],
    files: Mapping[str, str],
    *,
    now: datetime,
) -> Verified:
    """Return what an attestation shows about the files of a model.

    Args:
        text: An in-toto bundle: JSON Lines of DSSE envelopes.
        keys: Those that are trusted.
        files: SHA-256 (hexadecimal) of every file of the model at hand, by path.
        now: The time; keys expire.

    Raises:
        VerificationError: With what does not hold.
    """
    signed = _signed(text, keys)
    result = _only(signed, TEST_RESULT, "test result")
    measured = _only(signed, AUDIT, "audit")
    predicate = _predicate(measured.statement, AuditPredicate)
    if result.key.key_id != measured.key.key_id:
        raise VerificationError("the test result and the numbers are signed by two keys: they may be of two audits")
    _check_time(measured.key, predicate.signed_at, now)
    _check_agreement(result.statement, measured.statement, predicate)
    _check_files(measured.statement.subject, files)
    for one in signed:
        if one.statement.predicate_type == PREREGISTRATION:
            _check_preregistration(one, predicate, now)
    reproductions = [one for one in signed if one.statement.predicate_type == REPRODUCTION]
    return Verified(
        result=_predicate(result.statement, TestResultPredicate).result,
        predicate=predicate,
        key_id=measured.key.key_id,
        reproduced_by=tuple(_reproduced_by(one, measured, predicate, now) for one in reproductions),
    )


def _signed(text: bytes, keys: Sequence[PublicKey]) -> list[Signed]:
    try:
        envelopes = read_envelopes(text)
        verified = [verify(envelope, keys) for envelope in envelopes]
    except EnvelopeError as error:
        raise VerificationError(str(error)) from error
    found = []
    for payload, key in verified:
        try:
            statement = Statement.model_validate(strict_json(payload))
        except (ValidationError, ValueError, RecursionError) as error:
            raise VerificationError(f"a signed payload is no in-toto statement: {_first(error)}") from error
        if statement.payload() != payload:
            raise VerificationError("a signed statement is spelled in another way than this version spells it")
        if statement.predicate_type not in _KNOWN:
            raise VerificationError(f"a statement says {statement.predicate_type}, which this version does not know")
        found.append(Signed(statement, key, payload))
    return found


def _only(signed: Sequence[Signed], predicate_type: str, what: str) -> Signed:
    found = [one for one in signed if one.statement.predicate_type == predicate_type]
    if len(found) != 1:
        raise VerificationError(f"it must hold one {what} statement, and holds {len(found)}")
    return found[0]


def _predicate(statement: Statement, contract: type[_PredicateT]) -> _PredicateT:
    try:
        return contract.model_validate(statement.predicate)
    except ValidationError as error:
        raise VerificationError(f"{statement.predicate_type}: {_first(error)}") from error


def _check_time(key: PublicKey, signed_at: datetime, now: datetime) -> None:
    if signed_at > now + CLOCK_SKEW:
        raise VerificationError(
            f"it says that it was signed at {signed_at:%Y-%m-%d %H:%M %Z}, which is still to come: one of the two "
            f"clocks is wrong (here it is {now:%Y-%m-%d %H:%M %Z})"
        )
    if (reason := key.why_not(signed_at, now)) is not None:
        raise VerificationError(reason)


def _check_agreement(result: Statement, measured: Statement, predicate: AuditPredicate) -> None:
    """Refuse a test result that is not what this version makes of the numbers it was signed with."""
    if result.subject != measured.subject:
        raise VerificationError("the test result and the numbers are about different files")
    if len({one.name for one in measured.subject}) != len(measured.subject):
        raise VerificationError("it names a file twice")
    if document_digest(predicate.policy) != predicate.policy_digest:
        raise VerificationError("the policy is not the one whose digest was signed")
    if state_result(measured, predicate).payload() != result.payload():
        raise VerificationError("the test result does not follow from the verdict it was signed with")


def _check_files(subject: Sequence[Descriptor], files: Mapping[str, str]) -> None:
    signed = {one.name: one.digest.get("sha256", "none") for one in subject}
    for name in sorted(signed.keys() | files.keys()):
        if name not in files:
            raise VerificationError(f"{name} was audited and is not there")
        if name not in signed:
            raise VerificationError(f"{name} was not audited")
        if signed[name] != files[name]:
            raise VerificationError(
                f"{name} is not what was audited: its SHA-256 is {files[name]}, the audited file's {signed[name]}"
            )


def _check_preregistration(one: Signed, audit: AuditPredicate, now: datetime) -> None:
    predicate = _predicate(one.statement, PreregistrationPredicate)
    _check_time(one.key, predicate.signed_at, now)
    asked = (predicate.audit, predicate.spec_digest, predicate.seed)
    if asked != (audit.audit, audit.spec_digest, audit.seed):
        raise VerificationError("what was signed at submission is of another audit, specification or seed")
    if audit.preregistered_at is not None and predicate.policy_digest != audit.policy_digest:
        raise VerificationError("the policy is another one than was signed at submission")


def _reproduced_by(one: Signed, measured: Signed, audit: AuditPredicate, now: datetime) -> str:
    predicate = _predicate(one.statement, ReproductionPredicate)
    _check_time(one.key, predicate.signed_at, now)
    if one.statement.subject != measured.statement.subject:
        raise VerificationError("the reproduction is about different files")
    if predicate.measurement != describe_measurement(measured.statement) or predicate.evidence != audit.evidence:
        raise VerificationError("the reproduction is of another audit")
    if one.key.key_id == measured.key.key_id:
        raise VerificationError("the reproduction is signed by the key that signed the audit: that shows nothing more")
    return one.key.key_id


def _first(error: Exception) -> Any:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return error
