"""``seatrial attest``: write the signed verdict of an audit."""

import os
from pathlib import Path

import click

from app.cli.exits import BadRequestError, ending_as_documented
from app.cli.remote import with_client
from app.cli.showing import echo_line
from seatrial.attestation.dsse import sign
from seatrial.attestation.keys import KeyFileError, SigningKey, read_signing_key
from seatrial.client import Client

PASSPHRASE = "SEATRIAL_SIGNING_PASSPHRASE"  # noqa: S105 - the name of a variable
SIGNING_KEY = click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Sign with this private key (PEM; encrypted: {PASSPHRASE}), not with the service's.",
)


@click.command()
@click.argument("audit")
@click.option("--judgement", help="Attest this judgement (jdg_...).  [default: the audit's own verdict]")
@SIGNING_KEY
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.  [default: seatrial-AUDIT.intoto.jsonl]",
)
@with_client
def attest(client: Client, audit: str, judgement: str | None, signing_key: Path | None, output: Path | None) -> None:
    """Write the verdict of AUDIT, signed, with every number it rests on: `seatrial verify` checks it offline."""
    with ending_as_documented():
        path = output or Path(f"seatrial-{audit}.intoto.jsonl")
        write_whole(path, attestation(client, audit, judgement, read_key(signing_key)))
        echo_line(str(path))


def read_key(path: Path | None) -> SigningKey | None:
    """Return the private key of a file; None without one.

    Raises:
        BadRequestError: It is none that signs here.
    """
    try:
        return None if path is None else read_signing_key(path, os.environ.get(PASSPHRASE, "").encode() or None)
    except KeyFileError as error:
        raise BadRequestError(str(error)) from error


def attestation(client: Client, audit_id: str, judgement: str | None, key: SigningKey | None) -> bytes:
    """Return the attestation of an audit, signed by the service or with a key of one's own.

    Raises:
        ClientError: The service refuses.
    """
    if key is None:
        return client.attestation(audit_id, judgement=judgement)
    stated = client.statements(audit_id, judgement=judgement)
    return b"".join(sign(one.payload(), key).line() + b"\n" for one in (stated.test_result, stated.measured))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        BadRequestError: It cannot be written.
    """
    if not path.is_file() and path.exists():
        # /dev/stdout: nothing that could be put in its place.
        path.write_bytes(content)
        return
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        raise BadRequestError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
