"""Envelopes and statements are what others read: checked by the libraries of in-toto and of its signatures."""

import json

import pytest
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult as ResultMessage
from in_toto_attestation.v1 import statement as in_toto
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.exceptions import VerificationError as TheirError
from securesystemslib.signer import SSlibKey

from seatrial.attestation.keys import ALGORITHMS, SigningKey, generate_key
from tests.attestation.made import Made, predicate
from tests.reports.fabricated_judgements import CASES

SCHEMES = {"ed25519": ("ed25519", "ed25519"), "p256": ("ecdsa", "ecdsa-sha2-nistp256")}


def theirs(key: SigningKey, algorithm: str) -> SSlibKey:
    """Return our public key as securesystemslib has it."""
    made = SSlibKey.from_crypto(key.public.key, keyid=key.public.key_id, scheme=SCHEMES[algorithm][1])
    assert made.keytype == SCHEMES[algorithm][0]
    return made


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_securesystemslib_accepts_our_envelopes_and_no_changed_one(algorithm: str) -> None:
    key = generate_key(algorithm)  # type: ignore[arg-type]
    for line in Made(key=key).lines:
        envelope = TheirEnvelope.from_dict(json.loads(line))
        assert envelope.verify([theirs(key, algorithm)], 1)
        envelope.payload = envelope.payload.replace(b"0.41", b"0.14") + b" "
        with pytest.raises(TheirError):
            envelope.verify([theirs(key, algorithm)], 1)


@pytest.mark.parametrize("case", CASES)
def test_in_toto_accepts_our_statements(case: str) -> None:
    for statement in Made(predicate(case)).statements:
        document = json.loads(statement.payload())
        message = ParseDict(document, StatementMessage())
        in_toto.Statement.copy_from_pb(message).validate()
    result = ParseDict(Made(predicate(case)).statements[0].predicate, ResultMessage())
    assert result.result in ("PASSED", "WARNED", "FAILED")
    assert {one.name for one in result.configuration} == {"policy", "specification", "seatrial-audit-statement"}
