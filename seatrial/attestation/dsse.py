"""Dead Simple Signing Envelopes (DSSE 1.0): bytes, and signatures that cover their type as well.

Source: the DSSE protocol and envelope, https://github.com/secure-systems-lab/dsse (protocol.md, envelope.md).
"""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationError

from seatrial.attestation.keys import PublicKey, SigningKey
from seatrial.contracts.base import Read
from seatrial.ingest.strict_json import strict_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_ENVELOPE_BYTES = 64 * 2**20
"""Of one envelope: an audit of many checks has some megabytes of numbers."""
MAX_SIGNATURES = 16


class EnvelopeError(ValueError):
    """Text that is no envelope, or one that no known key signed."""


class Signature(Read):
    """One signature of an envelope.

    Attributes:
        keyid: Which key made it: a hint that is not signed.
        sig: The signature, Base64.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    keyid: Annotated[str, Field(max_length=200)] = ""
    sig: Annotated[str, Field(max_length=2000)]


class Envelope(Read):
    """A signed payload, as it is written.

    Attributes:
        payload: The bytes, Base64.
        payloadType: What they are.
        signatures: At least one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    payload: str
    payloadType: Annotated[str, Field(max_length=200)]
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=MAX_SIGNATURES)]

    def line(self) -> bytes:
        """Return the envelope as it is written: one line of JSON."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":")).encode()

    def content(self) -> bytes:
        """Return the payload, signed by whomever.

        Raises:
            EnvelopeError: It is not Base64.
        """
        return _decoded(self.payload, "payload")


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: the type and the payload, each after its length, so that neither can pass for the other.

    >>> pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, key: SigningKey, *, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """Return the payload in an envelope signed by ``key``."""
    signature = key.sign(pre_authentication_encoding(payload_type, payload))
    return Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType=payload_type,
        signatures=[Signature(keyid=key.public.key_id, sig=base64.b64encode(signature).decode())],
    )


def verify(envelope: Envelope, keys: Iterable[PublicKey]) -> tuple[bytes, PublicKey]:
    """Return the payload and the first of ``keys`` that signed it.

    A ``keyid`` is not signed and decides nothing (DSSE protocol), but one that names another key is refused.

    Raises:
        EnvelopeError: No key signed it, or its type is another than an in-toto statement.
    """
    if envelope.payloadType != PAYLOAD_TYPE:
        raise EnvelopeError(f"the payload is {envelope.payloadType!r}, not {PAYLOAD_TYPE!r}")
    payload = envelope.content()
    signed = pre_authentication_encoding(envelope.payloadType, payload)
    signatures = [(one.keyid, _decoded(one.sig, "signature")) for one in envelope.signatures]
    for key in keys:
        if any(keyid in ("", key.key_id) and key.has_signed(signed, signature) for keyid, signature in signatures):
            return payload, key
    named = ", ".join(one.keyid or "no key id" for one in envelope.signatures)
    raise EnvelopeError(f"no given key has signed it, or a byte was changed since (it names {named})")


def read_envelopes(text: bytes) -> list[Envelope]:
    """Return the envelopes of an in-toto bundle: JSON Lines, an envelope each.

    Raises:
        EnvelopeError: A line is no envelope, or there is none.
    """
    envelopes = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(line) > MAX_ENVELOPE_BYTES:
            raise EnvelopeError(f"line {number} has more than {MAX_ENVELOPE_BYTES / 2**20:g} MiB")
        try:
            envelope = Envelope.model_validate(strict_json(line.decode()))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise EnvelopeError(f"line {number} is no DSSE envelope: {where}: {first['msg']}") from error
        except (ValueError, RecursionError) as error:
            raise EnvelopeError(f"line {number} is no DSSE envelope: {error}") from error
        # One envelope has one spelling, so that no byte of it can be changed.
        if envelope.line() != line:
            raise EnvelopeError(f"line {number} was changed since it was written: its JSON is spelled in another way")
        envelopes.append(envelope)
    if not envelopes:
        raise EnvelopeError("it holds no envelope")
    return envelopes


def _decoded(text: str, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeError(f"the {what} is not Base64") from error
    # Base64 has spare bits: two texts must not be the same bytes.
    if base64.b64encode(data).decode() != text:
        raise EnvelopeError(f"the {what} is not written as Base64 is")
    return data
