"""``seatrial verify``: check a signed verdict against the files of a model, offline."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from app.cli.attested import compare_manifest, digest_model
from app.cli.exits import BadRequestError, Exit, ending_as_documented
from app.cli.files import shorten
from app.cli.gate_files import read_gate_file
from app.cli.showing import echo_line
from app.policies import presets
from seatrial.attestation.dsse import MAX_ENVELOPE_BYTES
from seatrial.attestation.keys import KeyFileError, PublicKey, read_public_keys
from seatrial.attestation.statements import AuditPredicate, document_digest
from seatrial.attestation.subjects import digest_file
from seatrial.attestation.verifying import VerificationError, Verified, verify_attestation
from seatrial.contracts.policies import Policy, PolicySource
from seatrial.terminals import escaped_line

MEANINGS: dict[Exit, str] = {
    Exit.PASSED: "passed: signed by a key you trust, of these files, by this policy",
    Exit.FAILED: "failed: the verdict is another, or something is not what was signed; the reason is printed",
    Exit.BAD_REQUEST: "bad request: an option or a file is wrong",
    Exit.COULD_NOT_RUN: "could not run",
}
# \b keeps click from filling the lines into a paragraph.
_EPILOG = "\b\nExit status:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in MEANINGS.items())
_MAX_BYTES = 4 * MAX_ENVELOPE_BYTES
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_ANY = click.Path(exists=True, path_type=Path)


@click.command(epilog=_EPILOG)
@click.argument("attestation", type=_FILE)
@click.option("--model", required=True, type=_ANY, help="Folder or file of the model, or the manifest of an endpoint.")
@click.option(
    "--public-key",
    "public_keys",
    required=True,
    multiple=True,
    type=_FILE,
    help="A key you trust (PEM), or a list of them as /.well-known/seatrial-keys.json has it; may be repeated.",
)
@click.option(
    "--policy",
    help="What it must have been judged by: a shipped policy, a policy's file, or a stored one, NAME or NAME@VERSION.",
)
@click.option("--data", type=_FILE, help="File of the examples it must have been measured on.")
@click.option("--reproduced", is_flag=True, help="Ask for a second signature: the audit was run again elsewhere.")
@click.option("--max-age", "max_age_days", type=click.FloatRange(min=0), help="Oldest verdict that counts, in days.")
def verify(
    attestation: Path,
    model: Path,
    public_keys: Sequence[Path],
    policy: str | None,
    data: Path | None,
    reproduced: bool,
    max_age_days: float | None,
) -> None:
    """Check ATTESTATION, which `seatrial attest` or GET /v1/audits/{id}/attestation wrote, without asking a service.

    Every file of the model must be the one that was audited, and no other file that a loader reads may lie beside it.
    """
    with ending_as_documented():
        keys = _keys(public_keys)
        try:
            verified = _verified(attestation, model, keys)
            _check_asked(verified, policy, data, needs_reproduction=reproduced, max_age_days=max_age_days)
        except VerificationError as error:
            _fail(str(error))
        _tell(verified)
        sys.exit(Exit.FAILED if verified.result == "FAILED" else Exit.PASSED)


def _keys(paths: Sequence[Path]) -> list[PublicKey]:
    try:
        return [key for path in paths for key in read_public_keys(path)]
    except KeyFileError as error:
        raise BadRequestError(str(error)) from error


def _verified(attestation: Path, model: Path, keys: Sequence[PublicKey]) -> Verified:
    if attestation.stat().st_size > _MAX_BYTES:
        raise VerificationError(f"{attestation} has more than {_MAX_BYTES // 2**20} MiB")
    verified = verify_attestation(attestation.read_bytes(), keys, digest_model(model), now=datetime.now(UTC))
    compare_manifest(model, verified.predicate.model.manifest)
    return verified


def _check_asked(
    verified: Verified, policy: str | None, data: Path | None, *, needs_reproduction: bool, max_age_days: float | None
) -> None:
    audit = verified.predicate
    if policy is not None:
        _check_policy(audit, policy)
    if data is not None and audit.dataset.digest != (digest := f"sha256:{digest_file(data)}"):
        raise VerificationError(
            f"it was measured on other examples: {data} has {digest}, the audit's had {audit.dataset.digest}"
        )
    if needs_reproduction and not verified.reproduced_by:
        raise VerificationError("nobody has run the audit again: it holds no reproduction")
    age = datetime.now(UTC) - audit.signed_at
    if max_age_days is not None and age.total_seconds() > max_age_days * 86_400:
        raise VerificationError(f"it is {age.days} days old, and at most {max_age_days:g} were asked for")


def _check_policy(audit: AuditPredicate, asked: str) -> None:
    if Path(asked).is_file():
        _check_document(audit, read_gate_file(Path(asked)).policy(), asked)
    elif asked in presets.POLICIES:
        _check_name(audit.judgement.policy, asked)
        _check_document(audit, presets.get(asked), asked)
    else:
        _check_stored(audit.judgement.policy, asked)


def _check_document(audit: AuditPredicate, wanted: Policy, asked: str) -> None:
    if document_digest(wanted.model_dump(mode="json")) != audit.policy_digest:
        name = audit.judgement.policy.name
        raise VerificationError(f"it was judged by another text of the policy {name!r} than {asked}")


def _check_name(judged_by: PolicySource, asked: str) -> None:
    if judged_by.name != asked.partition("@")[0]:
        raise VerificationError(f"it was judged by the policy {judged_by.name!r}, not by {asked!r}")


def _check_stored(judged_by: PolicySource, asked: str) -> None:
    """Refuse another policy than the stored one of a name, or of ``name@version``: files may call themselves anything.

    Raises:
        VerificationError: It is another, another version, or stored nowhere.
    """
    _check_name(judged_by, asked)
    name, _, version = asked.partition("@")
    if judged_by.id is None:
        raise VerificationError(
            f"it was judged by a document that calls itself {name!r} and is stored nowhere: give the policy's file"
        )
    if version and str(judged_by.version) != version:
        raise VerificationError(f"it was judged by {name}@{judged_by.version}, not by {asked}")


def _fail(reason: str) -> NoReturn:
    echo_line(f"Not verified: {escaped_line(shorten(reason, 1000))}")
    sys.exit(Exit.FAILED)


def _tell(verified: Verified) -> None:
    audit = verified.predicate
    echo_line(f"{verified.result.capitalize()}. {escaped_line(shorten(audit.judgement.headline, 1000))}")
    policy = audit.judgement.policy
    lines = {
        "model": f"{audit.model.name} {audit.model.version}, every file as audited",
        "data": f"{audit.dataset.name} {audit.dataset.version} ({audit.dataset.digest})",
        "policy": f"{policy.name} ({audit.policy_digest})",
        "audit": f"{audit.audit}, seed {audit.seed}, {audit.samples:,} examples at most",
        "signed": f"{audit.signed_at:%Y-%m-%d %H:%M} UTC by {verified.key_id}",
        "assurance": verified.assurance
        + (f" (by {', '.join(verified.reproduced_by)})" if verified.reproduced_by else ""),
        "seeds": _seeds(audit),
    }
    if taken := sorted({check.reused.audit for check in audit.checks if check.reused is not None}):
        lines["records"] = f"of audit {', '.join(taken)}, not measured again"
    for name, text in lines.items():
        echo_line(f"  {name:<10} {escaped_line(shorten(text, 300))}")


def _seeds(audit: AuditPredicate) -> str:
    registered = "signed at submission" if audit.preregistered_at is not None else "not signed at submission"
    if not audit.other_seeds:
        return f"{registered}; no other seed was tried before"
    return f"{registered}; {audit.other_seeds} audits asked the same with other seeds before"
