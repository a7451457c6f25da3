"""What is verified, and what is refused: with the reason."""

import base64
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.attestation.dsse import sign
from seatrial.attestation.keys import ALGORITHMS, generate_key
from seatrial.attestation.statements import Statement
from seatrial.attestation.verifying import VerificationError
from tests.attestation.made import FILES, KEY, NOW, Made, predicate, signed, verified
from tests.reports.fabricated_judgements import CASES

OTHER = generate_key("p256")
TEXT = b"\n".join(Made().lines) + b"\n"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_was_signed_is_verified(algorithm: str) -> None:
    key = generate_key(algorithm)  # type: ignore[arg-type]
    made = Made(key=key)
    found = verified(made.lines, key)
    assert (found.result, found.assurance, found.key_id) == ("PASSED", "measured", key.public.key_id)
    assert found.predicate == made.predicate


@pytest.mark.parametrize("case", CASES)
def test_only_a_verdict_that_passed_is_a_test_that_passed(case: str) -> None:
    found = verified(Made(predicate(case)).lines)
    assert (found.result != "FAILED") == (CASES[case].judgement.verdict == "passed")
    assert (found.result == "WARNED") == (case in ("warned", "warned-of-nothing"))


@given(position=st.integers(0, len(TEXT) - 2), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_wherever_it_is(position: int, byte: int) -> None:
    changed = bytearray(TEXT)
    changed[position] = byte
    if bytes(changed) == TEXT:
        return
    with pytest.raises(VerificationError):
        verified([bytes(changed)])


@given(position=st.integers(0, 10**6), value=st.sampled_from(["0.40", "0.04", "0.9"]))
def test_a_changed_number_under_the_old_signature_is_refused(position: int, value: str) -> None:
    envelope = json.loads(Made().lines[1])
    payload = base64.b64decode(envelope["payload"]).replace(b"0.41", value.encode())
    envelope["payload"] = base64.b64encode(payload).decode()
    line = json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(VerificationError, match="no given key has signed it"):
        verified([Made().lines[0], line])


def test_a_key_nobody_trusts_shows_nothing() -> None:
    with pytest.raises(VerificationError, match="no given key has signed it"):
        verified(Made().lines, OTHER)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"model.safetensors": "00" * 32}, "model.safetensors is not what was audited"),
        ({}, "model.safetensors was audited and is not there"),
        ({**FILES, "modeling.py": "00" * 32}, "modeling.py was not audited"),
    ],
)
def test_other_files_are_refused(files: dict[str, str], reason: str) -> None:
    with pytest.raises(VerificationError, match=reason):
        verified(Made().lines, files=files)


def test_a_better_test_result_for_the_same_numbers_is_refused_even_where_it_is_signed() -> None:
    result, measured = Made(predicate("failed")).statements
    better = result.model_copy(update={"predicate": {**result.predicate, "result": "PASSED"}})
    with pytest.raises(VerificationError, match="does not follow from the verdict"):
        verified([signed(better), signed(measured)])


def test_a_test_result_of_another_audit_is_refused() -> None:
    with pytest.raises(VerificationError, match="does not follow from the verdict"):
        verified([Made().lines[0], Made(predicate("failed")).lines[1]])


def test_a_policy_that_was_swapped_is_refused() -> None:
    with pytest.raises(VerificationError, match="the policy is not the one"):
        verified(Made(predicate(policy={"name": "release", "rules": []})).lines)


@pytest.mark.parametrize("kept", [0, 1])
def test_half_an_attestation_shows_nothing(kept: int) -> None:
    with pytest.raises(VerificationError, match="must hold one"):
        verified([Made().lines[kept]])


def test_two_signers_of_one_attestation_are_refused() -> None:
    result, measured = Made().statements
    with pytest.raises(VerificationError, match="signed by two keys"):
        verified([signed(result), signed(measured, OTHER)], KEY, OTHER)


def test_a_statement_this_version_does_not_know_is_refused() -> None:
    unknown = Made().statements[0].model_copy(update={"predicate_type": "urn:of:another:kind"})
    with pytest.raises(VerificationError, match="urn:of:another:kind, which this version does not know"):
        verified([*Made().lines, signed(unknown)])


def test_signed_bytes_that_are_no_statement_are_refused() -> None:
    with pytest.raises(VerificationError, match="no in-toto statement"):
        verified([*Made().lines, sign(b"{}", KEY).line()])


@pytest.mark.parametrize("times", [{"revoked_at": NOW}, {"expires_at": NOW}, {"not_before": NOW + timedelta(hours=1)}])
def test_a_key_that_does_not_count_shows_nothing(times: dict[str, datetime]) -> None:
    with pytest.raises(VerificationError, match=r"revoked|expired|before its key"):
        verified(Made().lines, trusted=[replace(KEY.public, **times)])


def test_a_key_counts_until_it_expires_and_from_the_moment_it_was_made() -> None:
    key = replace(KEY.public, not_before=NOW, expires_at=NOW + timedelta(seconds=1), revoked_at=NOW + timedelta(1))
    assert verified(Made().lines, trusted=[key]).result == "PASSED"


def test_a_moment_is_the_same_in_every_time_zone() -> None:
    there = timezone(timedelta(hours=14))
    key = replace(KEY.public, expires_at=(NOW + timedelta(minutes=1)).astimezone(there))
    assert verified(Made().lines, trusted=[key], now=NOW.astimezone(timezone(timedelta(hours=-12)))).result == "PASSED"
    with pytest.raises(VerificationError, match="expired"):
        verified(Made().lines, trusted=[key], now=(NOW + timedelta(minutes=2)).astimezone(there))


def test_a_signature_from_the_future_is_refused_beyond_what_clocks_differ_by() -> None:
    assert verified(Made().lines, now=NOW - timedelta(minutes=4)).result == "PASSED"
    with pytest.raises(VerificationError, match="still to come"):
        verified(Made().lines, now=NOW - timedelta(minutes=6))


def test_a_second_signer_makes_it_reproduced() -> None:
    made = Made()
    found = verified([*made.lines, made.reproduction(OTHER)], KEY, OTHER)
    assert (found.assurance, found.reproduced_by) == ("reproduced", (OTHER.public.key_id,))


def test_a_reproduction_by_the_same_signer_or_of_another_audit_is_refused() -> None:
    made = Made()
    with pytest.raises(VerificationError, match="shows nothing more"):
        verified([*made.lines, made.reproduction(KEY)])
    for wrong in (
        {"evidence": "sha256:" + "00" * 32},
        {"measurement": Made(predicate("failed")).statements[0].subject[0]},
    ):
        with pytest.raises(VerificationError, match="of another audit"):
            verified([*made.lines, made.reproduction(OTHER, **wrong)], KEY, OTHER)


def test_what_was_signed_at_submission_must_be_what_was_run() -> None:
    made = Made(predicate(preregistered_at=NOW))
    assert verified([*made.lines, made.preregistration()]).result == "PASSED"
    for other in ({"seed": 7}, {"spec_digest": "sha256:" + "00" * 32}, {"audit": "aud_other"}, {"policy_digest": None}):
        with pytest.raises(VerificationError, match="signed at submission"):
            verified([*made.lines, made.preregistration(**other)])


def test_a_statement_spelled_in_another_way_is_refused() -> None:
    statement = Made().statements[0]
    spelled = json.dumps(statement.model_dump(by_alias=True), indent=1).encode()
    assert Statement.model_validate_json(spelled) == statement
    with pytest.raises(VerificationError, match="spelled in another way"):
        verified([sign(spelled, KEY).line(), Made().lines[1]])
