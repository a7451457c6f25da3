"""Signing that an audit was run again with the same outcome."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.attest import write_whole
from app.cli.exits import BadRequestError
from seatrial.attestation.dsse import Envelope, EnvelopeError, read_envelopes, sign
from seatrial.attestation.keys import SigningKey
from seatrial.attestation.statements import (
    AUDIT,
    AuditPredicate,
    ReproductionPredicate,
    Statement,
    describe_measurement,
    state_reproduction,
)

if TYPE_CHECKING:
    from app.reports.replays import Comparison
    from app.reports.unbundling import Bundle


class Reproduction:
    """An attestation that a further signature goes on once the audit has been run again.

    Args:
        path: The attestation; it is replaced by the one with the signature.
        key: What signs; another key than signed the audit.
        recorded: The bundle that is run again.

    Raises:
        BadRequestError: The attestation is of another audit than the bundle, or the key is the same.
    """

    def __init__(self, path: Path, key: SigningKey, recorded: "Bundle") -> None:
        from app.reports.bundle_layout import SUMS, evidence_digest

        self._path, self._key = path, key
        try:
            self._envelopes = read_envelopes(path.read_bytes())
            self._measured = _measured(self._envelopes)
            audit = AuditPredicate.model_validate(self._measured.predicate)
        except (EnvelopeError, ValueError) as error:
            raise BadRequestError(f"{path} is no attestation of an audit: {error}") from error
        self._evidence = evidence_digest((recorded.folder / SUMS).read_text())
        if (audit.audit, audit.evidence) != (recorded.index.audit, self._evidence):
            raise BadRequestError(
                f"{path} is of audit {audit.audit} with other records than the bundle's ({recorded.index.audit}): "
                "nothing that is run again could confirm it"
            )
        signers = {one.keyid for envelope in self._envelopes for one in envelope.signatures}
        if key.public.key_id in signers:
            raise BadRequestError(
                f"{path} is signed by this key already: a reproduction is worth something by another signature"
            )

    def add(self, comparison: "Comparison", replayed: "Bundle", tolerance: float) -> None:
        """Sign that nothing differed, beside what is signed already.

        Raises:
            BadRequestError: The file cannot be written.
        """
        predicate = ReproductionPredicate(
            measurement=describe_measurement(self._measured),
            evidence=self._evidence,
            tolerance=tolerance,
            numbers=comparison.numbers,
            records=comparison.records,
            versions=replayed.index.versions,
            signed_at=datetime.now(UTC).replace(microsecond=0),
        )
        signed = sign(state_reproduction(self._measured, predicate).payload(), self._key)
        write_whole(self._path, b"".join(one.line() + b"\n" for one in [*self._envelopes, signed]))


def _measured(envelopes: list[Envelope]) -> Statement:
    for envelope in envelopes:
        statement = Statement.model_validate_json(envelope.content())
        if statement.predicate_type == AUDIT:
            return statement
    raise EnvelopeError("it holds no statement of an audit")
