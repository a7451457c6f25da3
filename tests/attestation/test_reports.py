"""What reports say of signatures."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.reports.signatures import NEVER_COVERED, describe_signature
from seatrial.attestation.keys import generate_key
from seatrial.attestation.subjects import ENDPOINT_MANIFEST
from seatrial.store.tables import AttestationRow
from tests.attestation.made import NOW, Made, predicate
from tests.attestation.test_http import judge, one_audit, taken
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, store

__all__ = ["one_audit"]


def described(made: Made, *further: bytes) -> Any:
    """Return what a report says of an attestation."""
    content = b"\n".join([*made.lines, *further]).decode() + "\n"
    return describe_signature(
        AttestationRow(id="att_1", key_id=made.key.public.key_id, content=content, digest="sha256:0", created_at=NOW)
    )


def test_it_names_what_was_signed() -> None:
    made = Made()
    told = described(made)
    assert (told.result, told.key_id, told.signed_at) == ("PASSED", made.key.public.key_id, NOW)
    covered = " ".join(told.covers)
    for signed in ("model.safetensors", made.predicate.policy_digest, made.predicate.evidence, "seed 0"):
        assert signed in covered
    assert "Every number (1)" in covered
    assert told.leaves_out[-len(NEVER_COVERED) :] == list(NEVER_COVERED)


def test_submission_counts_as_signed_where_its_envelope_is_there_and_the_audit_says_so() -> None:
    registered = Made(predicate(preregistered_at=NOW))
    told = described(registered, registered.preregistration())
    assert told.preregistered_at == NOW
    assert "signed when the audit was submitted" in told.covers[-1]
    # The date alone, or an envelope of an audit that was judged by another policy, shows nothing.
    for one in (described(registered), described(Made(), Made().preregistration())):
        assert one.preregistered_at is None
        assert "were not signed" in one.leaves_out[0]


@pytest.mark.parametrize("case", ["failed", "inconclusive", "errored"])
def test_a_signed_verdict_that_is_no_pass_is_not_told_as_one(case: str) -> None:
    told = described(Made(predicate(case)))
    assert told.result == "FAILED"
    assert f"The verdict {case} by" in told.covers[1]


def test_other_seeds_and_endpoints_are_said() -> None:
    told = described(Made(predicate(other_seeds=3), files={ENDPOINT_MANIFEST: "ab" * 32}))
    assert told.covers[0].startswith("The manifest of the endpoint")
    assert any("another model by now" in one for one in told.leaves_out)
    assert any("3 audits asked the same" in one for one in told.leaves_out)


def test_every_report_says_who_signed_the_verdict_it_prints(one_audit: OneAudit) -> None:
    judge(one_audit, "passed")
    signed = taken(one_audit)
    told = one_audit.get(format="json").json()["signature"]
    assert f'"{told["digest"]}"' == signed.headers["etag"]
    for kind in ("html", "markdown", "sarif"):
        text = one_audit.get(format=kind).text
        assert told["digest"].partition(":")[2] in text, kind
    page = one_audit.get(format="html").text
    assert "What it does not cover" in page
    assert one_audit.get(format="sarif").json()["runs"][0]["properties"]["attestation"]["result"] == "PASSED"


def test_a_verdict_nobody_signed_borrows_no_signature(one_audit: OneAudit) -> None:
    judge(one_audit, "passed")
    taken(one_audit)
    other = store(one_audit.reports.database, one_audit.id, CASES["failed"], is_own=False)
    for params in ({"judgement": other}, {"policy": "standard"}):
        assert one_audit.get(format="json", **params).json()["signature"] is None
        assert "This verdict is not signed" in one_audit.get(format="html", **params).text
        assert "attestation" not in one_audit.get(format="sarif", **params).json()["runs"][0]["properties"]
    judge(one_audit, "failed")
    assert one_audit.get(format="json").json()["signature"] is None


def test_a_row_that_cannot_be_read_does_not_lose_the_report(one_audit: OneAudit, tmp_path: Path) -> None:
    judgement = judge(one_audit, "passed")
    with one_audit.reports.database.write() as session:
        session.add(
            AttestationRow(
                id="att_later",
                audit_id=one_audit.id,
                judgement_id=judgement,
                key_id=generate_key("ed25519").public.key_id,
                content=json.dumps({"a": "later version"}),
                digest="sha256:0",
                created_at=NOW,
            )
        )
    answer = one_audit.get(format="json")
    assert (answer.status_code, answer.json()["signature"]) == (200, None)
