"""Attestations over HTTP and at the command line: taken from a service, checked offline."""

import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.attestations import service
from app.attestations.service import attest_judged
from app.cli import main
from app.reports.bundle_layout import SUMS, evidence_digest
from seatrial.attestation.dsse import read_envelopes, sign
from seatrial.attestation.dsse import verify as verify_envelope
from seatrial.attestation.key_folder import KeyFolder
from seatrial.attestation.keys import generate_key, parse_published
from seatrial.attestation.statements import AUDIT, PREREGISTRATION, Statement, Unsigned, document_digest
from seatrial.store.artifacts import digest_of_bytes
from seatrial.store.tables import AttestationRow, AuditRow, DeliveryRow, WebhookRow
from tests.reports.conftest import OneAudit, serving
from tests.reports.fabricated_judgements import CASES, store

WEIGHTS, IMAGES = b"weights" * 100, b"images" * 100
MANIFEST = {
    "name": "digits",
    "version": "1",
    "task": "image-classification",
    "architecture": {"kind": "lenet"},
    "input": {"shape": [1, 28, 28], "mean": [0.0], "std": [1.0]},
    "labels": [str(digit) for digit in range(10)],
}


@pytest.fixture(scope="module")
def one_audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneAudit]:
    """An API that signs, with a finished audit whose bytes are in the store."""
    home = tmp_path_factory.mktemp("home")
    KeyFolder(home / "signing").create()
    with serving(home) as running:
        put = running.store.put_bytes
        one = OneAudit(running, running.finished())
        one.change(
            model={
                "digest": put(WEIGHTS),
                "size_bytes": len(WEIGHTS),
                "format": "safetensors",
                "manifest": MANIFEST,
                "task": "image-classification",
            },
            dataset={"digest": put(IMAGES), "size_bytes": len(IMAGES)},
        )
        yield one


def judge(one: OneAudit, case: str, *, is_own: bool = True, version: int | None = None) -> str:
    """Give the audit a judgement of a policy whose digest is right, stored in a version or nowhere."""
    judged = CASES[case]
    kept = {} if version is None else {"id": "pol_1", "version": version}
    source = judged.judgement.policy.model_copy(update={"digest": document_digest(judged.document), **kept})
    told = judged.judgement.model_copy(update={"policy": source})
    return store(one.reports.database, one.id, type(judged)(told, judged.document), is_own=is_own)


def taken(one: OneAudit, **params: str) -> Any:
    """Ask for the attestation."""
    return one.reports.client.get(f"/v1/audits/{one.id}/attestation", params=params)


@pytest.fixture
def at_hand(one_audit: OneAudit, tmp_path: Path) -> Path:
    """A folder as somebody who ships the model has it: weights, manifest, keys, and the attestation of a pass."""
    judge(one_audit, "passed")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "best.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "keys.json").write_bytes(one_audit.reports.client.get("/.well-known/seatrial-keys.json").content)
    (tmp_path / "verdict.jsonl").write_bytes(taken(one_audit).content)
    (tmp_path / "data.npz").write_bytes(IMAGES)
    return tmp_path


def verify(folder: Path, *more: str) -> Result:
    """Run ``seatrial verify`` in a folder."""
    asked = ["verify", str(folder / "verdict.jsonl"), "--model", str(folder / "model")]
    return CliRunner().invoke(main, [*asked, "--public-key", str(folder / "keys.json"), *more])


def test_a_verdict_is_signed_once_and_checked_offline(one_audit: OneAudit, at_hand: Path) -> None:
    first, again = taken(one_audit), taken(one_audit)
    assert first.status_code == 200, first.text
    assert first.content == again.content
    assert first.headers["etag"] == f'"{digest_of_bytes(first.content)}"'
    asked = first.request.url
    known = one_audit.reports.client.get(str(asked), headers={"If-None-Match": first.headers["etag"]})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", first.headers["etag"])
    found = verify(at_hand, "--data", str(at_hand / "data.npz"))
    assert found.exit_code == 0, found.output
    assert "Passed. The model is passed, says the gate." in found.output
    assert "measured" in found.output


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda at: (at / "model" / "best.safetensors").write_bytes(WEIGHTS[:-1] + b"!"), "is not what was audited"),
        (lambda at: (at / "model" / "modeling.py").write_text("print()"), "modeling.py was not audited"),
        (
            lambda at: (at / "model" / "manifest.json").write_text(
                json.dumps(MANIFEST | {"labels": MANIFEST["labels"][::-1]})
            ),
            "says another labels",
        ),
        (lambda at: (at / "keys.json").write_text('{"keys": []}'), "no given key has signed it"),
        (lambda at: (at / "verdict.jsonl").write_bytes(b""), "it holds no envelope"),
        (lambda at: (at / "verdict.jsonl").write_bytes(b"\xff{"), "no DSSE envelope"),
    ],
)
def test_what_is_not_as_it_was_signed_is_a_1_with_the_reason(at_hand: Path, change: Any, reason: str) -> None:
    change(at_hand)
    found = verify(at_hand)
    assert found.exit_code == 1, found.output
    assert found.output.startswith("Not verified: ")
    assert reason in found.output


def test_a_policy_is_asked_for_by_a_name_that_is_stored(one_audit: OneAudit, at_hand: Path) -> None:
    """A file may call itself anything: by a name alone nobody ships what a document of nobody's let pass."""
    by_file = verify(at_hand, "--policy", "release")
    assert by_file.exit_code == 1
    assert "a document that calls itself 'release' and is stored nowhere: give the policy's file" in by_file.output
    judgement = judge(one_audit, "passed", is_own=False, version=3)
    (at_hand / "verdict.jsonl").write_bytes(taken(one_audit, judgement=judgement).content)
    for asked in ("release", "release@3"):
        assert verify(at_hand, "--policy", asked).exit_code == 0, asked
    for asked, told in (("release@2", "by release@3, not by release@2"), ("strict@3", "not by 'strict@3'")):
        refused = verify(at_hand, "--policy", asked)
        assert (refused.exit_code, told in refused.output) == (1, True), refused.output


def test_a_version_that_is_a_map_of_logits_is_not_the_weights_it_has_in_common(
    one_audit: OneAudit, at_hand: Path
) -> None:
    """Who recalibrates, attests that and ships the weights as they were gets no green light for these."""
    mapped = MANIFEST | {"recalibration": {"map": "temperature", "temperature": 4.0}}
    manifest = at_hand / "model" / "manifest.json"
    one_audit.change(model={"manifest": mapped})
    judgement = judge(one_audit, "passed", is_own=False)
    signed = taken(one_audit, judgement=judgement).content
    one_audit.change(model={"manifest": MANIFEST})
    unmapped = (at_hand / "verdict.jsonl").read_bytes()
    (at_hand / "verdict.jsonl").write_bytes(signed)
    manifest.write_text(json.dumps(mapped))
    assert verify(at_hand).exit_code == 0
    for said in (MANIFEST, mapped | {"recalibration": {"map": "temperature", "temperature": 1.0}}, None):
        manifest.unlink() if said is None else manifest.write_text(json.dumps(said))
        found = verify(at_hand)
        assert found.exit_code == 1, found.output
        assert "recalibration" in found.output
    # Nor the other way round.
    (at_hand / "verdict.jsonl").write_bytes(unmapped)
    manifest.write_text(json.dumps(mapped))
    assert "says another recalibration" in verify(at_hand).output


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (["--policy", "standard"], "judged by the policy 'release', not by 'standard'"),
        (["--data", "verdict.jsonl"], "measured on other examples"),
        (["--reproduced"], "nobody has run the audit again"),
        (["--max-age", "0"], "days old, and at most 0 were asked for"),
    ],
)
def test_what_was_asked_for_and_is_not_there_is_refused(at_hand: Path, asked: list[str], reason: str) -> None:
    named = [str(at_hand / one) if one.endswith(".jsonl") else one for one in asked]
    found = verify(at_hand, *named)
    assert found.exit_code == 1, found.output
    assert reason in found.output


@pytest.mark.parametrize("case", ["failed", "inconclusive", "errored", "nothing-tested"])
def test_no_verdict_but_a_pass_is_a_0(one_audit: OneAudit, at_hand: Path, case: str) -> None:
    judgement = judge(one_audit, case, is_own=False)
    (at_hand / "verdict.jsonl").write_bytes(taken(one_audit, judgement=judgement).content)
    found = verify(at_hand)
    assert found.exit_code == 1, found.output
    assert found.output.startswith("Failed. ")


def test_a_key_of_ones_own_signs_what_the_service_states(one_audit: OneAudit, at_hand: Path) -> None:
    key = generate_key("p256")
    stated = one_audit.reports.client.get(f"/v1/audits/{one_audit.id}/statements").json()
    unsigned = Unsigned.model_validate(stated)
    lines = [sign(one.payload(), key).line() for one in (unsigned.test_result, unsigned.measured)]
    (at_hand / "verdict.jsonl").write_bytes(b"\n".join(lines))
    assert "no given key has signed it" in verify(at_hand).output
    (at_hand / "keys.json").write_bytes(key.public.to_pem())
    assert verify(at_hand).exit_code == 0


def test_it_names_the_records_that_the_bundle_holds(one_audit: OneAudit, at_hand: Path) -> None:
    bundle = one_audit.reports.client.get(f"/v1/audits/{one_audit.id}/bundle", params={"inputs": "true"}).content
    with zipfile.ZipFile(BytesIO(bundle)) as archive:
        wanted = evidence_digest(archive.read(SUMS).decode())
    statements = [
        Statement.model_validate_json(one.content()) for one in read_envelopes((at_hand / "verdict.jsonl").read_bytes())
    ]
    [measured] = [one for one in statements if one.predicate_type == AUDIT]
    assert measured.predicate["evidence"] == wanted
    assert measured.predicate["checks"][0]["result"]["estimates"]["mus"]["n"] == 400


def test_who_tried_other_seeds_before_leaves_that(one_audit: OneAudit, at_hand: Path) -> None:
    with one_audit.reports.database.write() as session:
        audit = session.get_one(AuditRow, one_audit.id)
        columns = {one.name: getattr(audit, one.name) for one in AuditRow.__table__.columns}
        session.add_all(AuditRow(**columns | {"id": f"aud_other{seed}", "seed": seed}) for seed in (audit.seed, 7, 8))
    judgement = judge(one_audit, "passed", is_own=False)
    (at_hand / "verdict.jsonl").write_bytes(taken(one_audit, judgement=judgement).content)
    assert "2 audits asked the same with other seeds before" in verify(at_hand).output
    with one_audit.reports.database.write() as session:
        session.query(AuditRow).filter(AuditRow.id.like("aud_other%")).delete()


def test_a_verdict_is_signed_when_it_is_made_and_webhooks_are_told(one_audit: OneAudit) -> None:
    with one_audit.reports.database.write() as session:
        session.query(AttestationRow).delete()
        project = session.get_one(AuditRow, one_audit.id).project_id
        session.add(
            WebhookRow(
                id="whk_1",
                project_id=project,
                url="http://127.0.0.1:1/",
                description="",
                secrets=[],
                events=["audit.attested"],
            )
        )
    judgement = judge(one_audit, "passed")
    services = one_audit.reports.client.app.state.services  # type: ignore[attr-defined]
    attest_judged(services)
    assert attest_judged(services) == 0
    with one_audit.reports.database.read() as session:
        [row] = session.query(AttestationRow).filter_by(judgement_id=judgement).all()
        told = session.query(DeliveryRow).filter_by(webhook_id="whk_1").all()
    assert [one.payload["data"]["digest"] for one in told if one.payload["data"]["judgement"] == judgement] == [
        row.digest
    ]
    assert taken(one_audit).text == row.content
    # Of a verdict that is not the audit's own it is told what was signed.
    other = store(one_audit.reports.database, one_audit.id, CASES["failed"], is_own=False)
    assert taken(one_audit, judgement=other).status_code == 200
    with one_audit.reports.database.read() as session:
        told = session.query(DeliveryRow).filter_by(webhook_id="whk_1").all()
    verdicts = {one.payload["data"]["judgement"]: one.payload["data"]["verdict"] for one in told}
    assert (verdicts[judgement], verdicts[other]) == ("passed", "failed")


def test_what_has_no_verdict_and_who_has_no_key_are_told_so(one_audit: OneAudit, tmp_path: Path) -> None:
    assert taken(one_audit, judgement="jdg_none").status_code == 404
    assert one_audit.reports.client.get("/v1/audits/aud_none/attestation").status_code == 404
    with serving(tmp_path) as bare:
        audit = bare.finished()
        answer = bare.client.get(f"/v1/audits/{audit}/attestation")
        assert (answer.status_code, answer.json()["code"]) == (409, "no-signing-key")
        assert bare.client.get(f"/v1/audits/{audit}/statements").json()["code"] == "not-judged"
        assert bare.client.get("/.well-known/seatrial-keys.json").json() == {"keys": []}


def test_the_console_offers_it_where_there_is_one(one_audit: OneAudit, tmp_path: Path) -> None:
    judge(one_audit, "passed")
    client = one_audit.reports.client
    link = f"/audits/{one_audit.id}/attestation"
    assert link in client.get(f"/audits/{one_audit.id}").text
    assert client.get(link).content == taken(one_audit).content
    with serving(tmp_path) as bare:
        audit = bare.finished()
        assert "/attestation" not in bare.client.get(f"/audits/{audit}").text


def test_signing_keys_at_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_HOME", str(tmp_path / "home"))
    run = CliRunner().invoke
    public = tmp_path / "key.pub"
    made = run(main, ["keys", "signing", "create", "--expires-in", "365d", "--public-key", str(public)])
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    assert b"BEGIN PUBLIC KEY" in public.read_bytes()
    assert f"{key}  Ed25519  signs" in run(main, ["keys", "signing", "list"]).output
    assert run(main, ["keys", "signing", "revoke", key]).exit_code == 0
    assert f"{key}  Ed25519  revoked" in run(main, ["keys", "signing", "list"]).output
    # Base64url has hyphens: what begins with one holds letters that are options elsewhere.
    for absent in ("-Nobody", "-Nothing", "-h", "--Nothing"):
        refused = run(main, ["keys", "signing", "revoke", absent])
        assert (refused.exit_code, f"there is no signing key {absent};" in refused.output) == (1, True), refused.output


def test_what_is_submitted_is_signed_before_anybody_knows_the_answer(tmp_path: Path) -> None:
    KeyFolder(tmp_path / "signing").create()
    with serving(tmp_path) as running:
        audited = running.finished()
        with running.database.read() as session:
            row = session.get_one(AuditRow, audited)
        asked = {
            "model": row.model_id,
            "dataset": row.dataset_id,
            "checks": [{"kind": "uncertainty_span"}],
            "policy": "standard",
            "seed": 5,
        }
        answer = running.client.post("/v1/audits", json=asked)
        assert answer.status_code == 202, answer.text
        with running.database.read() as session:
            [signed] = session.query(AttestationRow).filter_by(audit_id=answer.json()["id"]).all()
            audit = session.get_one(AuditRow, answer.json()["id"])
        [envelope] = read_envelopes(signed.content.encode())
        [key] = parse_published(KeyFolder(tmp_path / "signing").published())
        payload, _ = verify_envelope(envelope, [key])
        stated = Statement.model_validate_json(payload)
        assert stated.predicate_type == PREREGISTRATION
        assert stated.predicate["seed"] == 5
        assert stated.predicate["spec_digest"] == audit.spec_digest
        assert stated.predicate["policy_digest"] == (audit.policy or {})["source"]["digest"]

        # It goes along while its key counts, and no longer.
        def kinds(verdict: str) -> list[str]:
            judgement = store(running.database, audited, CASES[verdict], is_own=False)
            answer = running.client.get(f"/v1/audits/{audited}/attestation", params={"judgement": judgement})
            envelopes = read_envelopes(answer.content)
            payloads = [verify_envelope(one, parse_published(folder.published()))[0] for one in envelopes]
            statements = [Statement.model_validate_json(payload) for payload in payloads]
            (measured,) = [one for one in statements if one.predicate_type == AUDIT]
            assert measured.predicate["preregistered_at"] is None
            return [one.predicate_type for one in statements]

        folder = KeyFolder(tmp_path / "signing")
        with running.database.write() as session:
            session.get_one(AttestationRow, signed.id).audit_id = audited
        assert PREREGISTRATION in kinds("passed")
        folder.revoke(key.key_id)
        folder.create()
        assert PREREGISTRATION not in kinds("failed")


def test_whether_a_registration_still_counts_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is revoked between two questions would leave a statement that names it and no line."""
    asked: list[str] = []
    whole = service._registration
    monkeypatch.setattr(service, "_registration", lambda *args: asked.append(args[2]) or whole(*args))
    KeyFolder(tmp_path / "signing").create()
    with serving(tmp_path) as running:
        audited = running.finished()
        judgement = store(running.database, audited, CASES["passed"], is_own=False)
        answer = running.client.get(f"/v1/audits/{audited}/attestation", params={"judgement": judgement})
        assert answer.status_code == 200, answer.text
    assert asked == [audited]
