"""Keys that sign attestations (Ed25519 or ECDSA P-256), and the published list of those that count.

A key's id is its JWK thumbprint (RFC 7638): made of nothing but the key, so that nobody can name one key after another.
The list is a JWK Set (RFC 7517) whose keys also say from when until when they count, and since when they do not.
"""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from pydantic import ValidationError

from seatrial.contracts.signing_keys import PublishedKey, PublishedKeys
from seatrial.ingest.strict_json import strict_json

Algorithm = Literal["ed25519", "p256"]
ALGORITHMS: tuple[Algorithm, ...] = ("ed25519", "p256")
MAX_KEY_BYTES = 2**20

_P256_BYTES = 32
_Public = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
_Private = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


class KeyFileError(ValueError):
    """A file that is no key of the kinds that sign here."""


@dataclass(frozen=True)
class PublicKey:
    """A key that attestations are checked by.

    Attributes:
        key: The key.
        not_before: See :class:`PublishedKey`; a bare public key knows no times.
        expires_at: Likewise.
        revoked_at: Likewise.
    """

    key: _Public
    not_before: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def key_id(self) -> str:
        """The key's JWK thumbprint (RFC 7638), SHA-256, Base64url."""
        # The required members alone, in lexicographic order, without white space (section 3.2).
        canonical = json.dumps(jwk_members(self.key), sort_keys=True, separators=(",", ":"))
        return _encoded(hashlib.sha256(canonical.encode()).digest())

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Return whether the signature is this key's, of these bytes."""
        try:
            if isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, data)
            else:
                self.key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    def why_not(self, signed_at: datetime, now: datetime) -> str | None:
        """Return why what it signed at ``signed_at`` does not count at ``now``; None where it counts."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return f"its key {self.key_id} was revoked at {self.revoked_at:%Y-%m-%d %H:%M %Z}: nothing it signed counts"
        if self.expires_at is not None and self.expires_at <= now:
            return f"its key {self.key_id} expired at {self.expires_at:%Y-%m-%d %H:%M %Z}"
        if self.not_before is not None and signed_at < self.not_before:
            return f"it says that it was signed at {signed_at:%Y-%m-%d %H:%M %Z}, before its key {self.key_id} was made"
        return None

    def to_pem(self) -> bytes:
        """Return the key as a PEM file (SubjectPublicKeyInfo)."""
        return self.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def published(self, **times: datetime | None) -> PublishedKey:
        """Return the key as it is published."""
        return PublishedKey(**jwk_members(self.key), kid=self.key_id, **times)


@dataclass(frozen=True)
class SigningKey:
    """A private key."""

    key: _Private

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return PublicKey(self.key.public_key())

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes: 64 bytes of Ed25519, or an ECDSA signature in DER over SHA-256."""
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(data)
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))

    def to_pem(self, passphrase: bytes | None = None) -> bytes:
        """Return the key as a PEM file (PKCS #8), encrypted where there is a passphrase."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def generate_key(algorithm: Algorithm) -> SigningKey:
    """Return a new key."""
    if algorithm == "ed25519":
        return SigningKey(ed25519.Ed25519PrivateKey.generate())
    return SigningKey(ec.generate_private_key(ec.SECP256R1()))


def read_signing_key(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """Return the private key of a PEM file.

    Raises:
        KeyFileError: It is none, of another kind, or encrypted with another passphrase.
    """
    try:
        key = serialization.load_pem_private_key(_read(path), passphrase or None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path} is no private key in PEM that can be read: {error}") from error
    if isinstance(key, ed25519.Ed25519PrivateKey) or _is_p256(key):
        return SigningKey(key)  # type: ignore[arg-type]
    raise KeyFileError(f"{path} holds a key of another kind: Ed25519 or ECDSA P-256 sign here")


def read_public_keys(path: Path) -> list[PublicKey]:
    """Return the keys of a file: one public key in PEM, or a list as it is published.

    Raises:
        KeyFileError: It is neither.
    """
    data = _read(path)
    if data.lstrip().startswith(b"{"):
        return _published(data, path)
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path} is no public key in PEM: {error}") from error
    if not (isinstance(key, ed25519.Ed25519PublicKey) or _is_p256(key)):
        raise KeyFileError(f"{path} holds a key of another kind: Ed25519 or ECDSA P-256 sign here")
    read = PublicKey(key)  # type: ignore[arg-type]
    # Base64 has spare bits: two texts must not be one key.
    if read.to_pem().strip() != data.replace(b"\r\n", b"\n").strip(b"\n"):
        raise KeyFileError(f"{path} is not written as a public key is")
    return [read]


def parse_published(document: PublishedKeys) -> list[PublicKey]:
    """Return the keys of a published list.

    Raises:
        KeyFileError: A key is none, or is called by another name than its thumbprint.
    """
    return [_from_jwk(one) for one in document.keys]


def jwk_members(key: _Public) -> dict[str, Any]:
    """Return the members of a JWK that make the key what it is."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"crv": "Ed25519", "kty": "OKP", "x": _encoded(raw)}
    numbers = key.public_numbers()
    coordinates = {name: getattr(numbers, name).to_bytes(_P256_BYTES, "big") for name in ("x", "y")}
    return {"crv": "P-256", "kty": "EC"} | {name: _encoded(value) for name, value in coordinates.items()}


def _published(data: bytes, path: Path) -> list[PublicKey]:
    try:
        return parse_published(PublishedKeys.model_validate(strict_json(data)))
    except ValidationError as error:
        first = error.errors()[0]
        raise KeyFileError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise KeyFileError(f"{path} is no list of keys: {error}") from error


def _from_jwk(jwk: PublishedKey) -> PublicKey:
    try:
        key = _key_of(jwk)
    except (ValueError, binascii.Error) as error:
        raise KeyFileError(f"{jwk.kid} is no {jwk.crv} key: {error}") from error
    read = PublicKey(key, jwk.nbf, jwk.exp, jwk.revoked_at)
    if read.key_id != jwk.kid:
        raise KeyFileError(f"{jwk.kid} is the name of another key: this one's is {read.key_id}")
    return read


def _key_of(jwk: PublishedKey) -> _Public:
    if (jwk.kty, jwk.crv) == ("OKP", "Ed25519") and jwk.y is None:
        return ed25519.Ed25519PublicKey.from_public_bytes(_decoded(jwk.x))
    if (jwk.kty, jwk.crv) == ("EC", "P-256") and jwk.y is not None:
        x, y = (int.from_bytes(_decoded(one), "big") for one in (jwk.x, jwk.y))
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raise ValueError("kty, crv and y do not go together")


def _is_p256(key: object) -> bool:
    is_elliptic = isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey)
    return is_elliptic and isinstance(key.curve, ec.SECP256R1)  # type: ignore[attr-defined]


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_KEY_BYTES)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encoded(data) != text:
        raise ValueError("it is not written as Base64url is")
    return data
