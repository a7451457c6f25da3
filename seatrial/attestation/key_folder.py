"""The folder an installation keeps its signing keys in, and the list of them it publishes.

``keys.json`` is the list, with the keys that have been retired or revoked; a private key is a PEM file beside it, named
after its id, for this user only. Nothing of it is in the database. The newest key that counts is the one that signs.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from seatrial.attestation.keys import (
    Algorithm,
    KeyFileError,
    SigningKey,
    generate_key,
    parse_published,
    read_signing_key,
)
from seatrial.contracts.signing_keys import PublishedKey, PublishedKeys
from seatrial.store.private_files import created_privately, private_folder
from seatrial.store.settings import Settings
from seatrial.store.tables.base import utc_now

LIST = "keys.json"
_LOCK = ".lock"


class UnknownKeyError(LookupError):
    """There is no key of that id."""


class KeyFolder:
    """The signing keys of an installation.

    Args:
        folder: Where they are; it need not exist.
        passphrase: What private keys are encrypted with; None: they are not.
    """

    def __init__(self, folder: Path, passphrase: bytes | None = None) -> None:
        self.folder = folder
        self._passphrase = passphrase

    @classmethod
    def of(cls, settings: Settings) -> "KeyFolder":
        """Return the folder the settings name."""
        passphrase = settings.signing_passphrase
        return cls(
            settings.resolved_signing_keys, passphrase.get_secret_value().encode() if passphrase is not None else None
        )

    def published(self) -> PublishedKeys:
        """Return the list of keys, oldest first.

        Raises:
            KeyFileError: The list is damaged.
        """
        path = self.folder / LIST
        try:
            keys = PublishedKeys.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return PublishedKeys(keys=[])
        except (OSError, ValidationError) as error:
            raise KeyFileError(f"{path} cannot be read as a list of keys: {error}") from error
        # A key under a false name would be checked by everybody and count for nobody.
        parse_published(keys)
        return keys

    def signing_key(self, now: datetime | None = None) -> SigningKey | None:
        """Return the newest key that counts now and whose private half is here; None where there is none.

        Raises:
            KeyFileError: It cannot be read, with this passphrase.
        """
        moment = now or utc_now()
        for one in reversed(self.published().keys):
            if _signs(one, moment) and (path := self._private(one.kid)).is_file():
                return read_signing_key(path, self._passphrase)
        return None

    def create(self, algorithm: Algorithm = "ed25519", *, lifetime: timedelta | None = None) -> PublishedKey:
        """Make a key that signs from now on, retire the one that signed, and return what is published of it."""
        # What is signed is dated in whole seconds.
        key, now = generate_key(algorithm), utc_now().replace(microsecond=0)
        new = key.public.published(nbf=now, exp=None if lifetime is None else now + lifetime)
        with self._locked(), created_privately():
            before = self.published().keys
            # The private half first: a key that is listed and cannot sign would stand in the way of the one before.
            _replace(self._private(new.kid), key.to_pem(self._passphrase))
            retired = [one.model_copy(update={"retired_at": now}) if _signs(one, now) else one for one in before]
            self._write([*retired, new])
        return new

    def revoke(self, key_id: str) -> PublishedKey:
        """Revoke a key, from now on and for all it ever signed; revoking twice is the same as once.

        Its private half is removed.

        Raises:
            UnknownKeyError: There is none of that id.
        """
        with self._locked(), created_privately():
            keys = {one.kid: one for one in self.published().keys}
            if key_id not in keys:
                raise UnknownKeyError(f"there is no signing key {key_id}; there are: {', '.join(keys) or 'none'}")
            if keys[key_id].revoked_at is None:
                keys[key_id] = keys[key_id].model_copy(update={"revoked_at": utc_now()})
                self._write(list(keys.values()))
            self._private(key_id).unlink(missing_ok=True)
            return keys[key_id]

    def _private(self, key_id: str) -> Path:
        return self.folder / f"{key_id}.pem"

    def _write(self, keys: list[PublishedKey]) -> None:
        _replace(self.folder / LIST, PublishedKeys(keys=keys).model_dump_json(indent=1).encode() + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others from changing the list; two keys made at once are both in it."""
        private_folder(self.folder)
        with created_privately(), (self.folder / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _signs(key: PublishedKey, now: datetime) -> bool:
    return key.revoked_at is None and key.retired_at is None and (key.exp is None or key.exp > now)


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
