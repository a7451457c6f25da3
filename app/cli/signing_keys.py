"""``seatrial keys signing``: the keys this installation signs attestations with."""

from datetime import timedelta
from pathlib import Path

import click

from app.cli.choices import Choice
from app.cli.keys import Lifetime
from app.cli.showing import echo_line
from seatrial.attestation.key_folder import KeyFolder, UnknownKeyError
from seatrial.attestation.keys import ALGORITHMS, Algorithm, KeyFileError, parse_published
from seatrial.contracts.signing_keys import PublishedKey
from seatrial.store.settings import Settings
from seatrial.store.tables.base import utc_now


@click.group()
def signing() -> None:
    """Make, list and revoke the keys that sign verdicts; `seatrial attest` and `verify` use them.

    They lie in SEATRIAL_SIGNING_KEYS (default: home/signing), private ones encrypted where SEATRIAL_SIGNING_PASSPHRASE
    says with what, and never in the database.
    """


@signing.command("create")
@click.option("--algorithm", type=Choice(ALGORITHMS), default="ed25519", show_default=True, help="Kind of key.")
@click.option(
    "--expires-in", type=Lifetime(), help="How long what it signs counts: 365d, 12h.  [default: until it is revoked]"
)
@click.option(
    "--public-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the public key here, in PEM, for `seatrial verify`.",
)
def create(algorithm: Algorithm, expires_in: timedelta | None, public_key: Path | None) -> None:
    """Make a key that signs from now on; the one before is retired, and what it signed still counts."""
    folder = KeyFolder.of(Settings())
    try:
        made = folder.create(algorithm, lifetime=expires_in)
        if public_key is not None:
            listed = {key.key_id: key for key in parse_published(folder.published())}
            public_key.write_bytes(listed[made.kid].to_pem())
    except (KeyFileError, OSError) as error:
        raise click.ClickException(str(error)) from error
    echo_line(made.kid)
    until = "" if made.exp is None else f", until {made.exp:%Y-%m-%d %H:%M} UTC"
    echo_line(f"It signs from now on{until}; its private half is in {folder.folder}.", err=True)


@signing.command("list")
def list_keys() -> None:
    """List the keys, oldest first."""
    try:
        listed = KeyFolder.of(Settings()).published().keys
    except KeyFileError as error:
        raise click.ClickException(str(error)) from error
    for one in listed:
        echo_line(f"{one.kid}  {one.crv:<7}  {_state(one)}")


# An id may begin with a hyphen: Base64url has it. One with an h in it was read as -h among others, in one of 130 keys.
@signing.command("revoke", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key: nothing it ever signed counts any more, and its private half is removed."""
    try:
        KeyFolder.of(Settings()).revoke(key_id)
    except (UnknownKeyError, KeyFileError) as error:
        raise click.ClickException(str(error)) from error
    echo_line(f"{key_id} is revoked. Whoever keeps a copy of the list of keys must fetch it anew.")


def _state(key: PublishedKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.exp is not None and key.exp <= utc_now():
        return f"expired {key.exp:%Y-%m-%d}"
    return "signs" if key.retired_at is None else f"retired {key.retired_at:%Y-%m-%d}"
