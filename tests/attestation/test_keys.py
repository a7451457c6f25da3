"""Keys: kept in a folder, published as a list, rotated and revoked."""

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from seatrial.attestation.dsse import pre_authentication_encoding
from seatrial.attestation.key_folder import KeyFolder, UnknownKeyError
from seatrial.attestation.keys import (
    ALGORITHMS,
    KeyFileError,
    PublicKey,
    generate_key,
    jwk_members,
    parse_published,
    read_public_keys,
    read_signing_key,
)
from seatrial.contracts.signing_keys import PublishedKey, PublishedKeys


def test_a_keys_id_is_its_thumbprint() -> None:
    # RFC 8037, appendix A.3: the key of appendix A.2 and its thumbprint.
    jwk = PublishedKey(
        kty="OKP",
        crv="Ed25519",
        x="11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        kid="kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
    )
    [key] = parse_published(PublishedKeys(keys=[jwk]))
    assert key.key_id == jwk.kid
    assert key.published() == jwk


def test_a_key_under_the_name_of_another_is_refused() -> None:
    one, other = (generate_key("ed25519").public for _ in range(2))
    with pytest.raises(KeyFileError, match="the name of another key"):
        parse_published(PublishedKeys(keys=[one.published().model_copy(update={"kid": other.key_id})]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("passphrase", [None, b"open sesame"])
def test_keys_go_through_files(tmp_path: Path, algorithm: str, passphrase: bytes | None) -> None:
    key = generate_key(algorithm)  # type: ignore[arg-type]
    private, public, listed = (tmp_path / name for name in ("key.pem", "key.pub", "keys.json"))
    private.write_bytes(key.to_pem(passphrase))
    public.write_bytes(key.public.to_pem())
    listed.write_text(PublishedKeys(keys=[key.public.published()]).model_dump_json())
    assert read_signing_key(private, passphrase).public.key_id == key.public.key_id
    for path in (public, listed):
        assert [one.key_id for one in read_public_keys(path)] == [key.public.key_id]
    with pytest.raises(KeyFileError):
        read_signing_key(private, b"wrong" if passphrase else b"needless")
    with pytest.raises(KeyFileError):
        read_signing_key(public)


def test_no_byte_of_a_public_key_can_be_changed(tmp_path: Path) -> None:
    key = generate_key("ed25519").public
    path, pem = tmp_path / "key.pub", key.to_pem().strip()
    for position in range(len(pem)):
        changed = bytearray(pem)
        changed[position] ^= 1
        path.write_bytes(bytes(changed))
        try:
            [read] = read_public_keys(path)
        except KeyFileError:
            continue
        assert read.key_id != key.key_id, f"byte {position} means nothing"


@pytest.mark.parametrize("text", ["", "{", "{}", '{"keys": [{}]}', "-----BEGIN PUBLIC KEY-----", '{"keys": 1}'])
def test_files_that_are_no_keys_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.pub"
    path.write_text(text)
    with pytest.raises(KeyFileError, match=str(path)):
        read_public_keys(path)


def test_rsa_does_not_sign_here(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    other = ec.generate_private_key(ec.SECP384R1())
    path = tmp_path / "key.pem"
    encoding, encryption = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(other.private_bytes(encoding, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(KeyFileError, match="Ed25519 or ECDSA P-256"):
        read_signing_key(path)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(other.public_key().public_bytes(encoding, public))
    with pytest.raises(KeyFileError, match="Ed25519 or ECDSA P-256"):
        read_public_keys(path)


def test_a_new_key_signs_and_the_one_before_still_counts(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "signing", b"secret")
    assert folder.signing_key() is None
    first = folder.create()
    second = folder.create("p256", lifetime=timedelta(days=1))
    signing = folder.signing_key()
    assert signing is not None
    assert signing.public.key_id == second.kid
    listed = folder.published().keys
    assert [one.kid for one in listed] == [first.kid, second.kid]
    assert listed[0].retired_at is not None
    assert [one.revoked_at for one in listed] == [None, None]
    assert {one.stat().st_mode & 0o077 for one in (tmp_path / "signing").iterdir()} == {0}
    assert b"ENCRYPTED" in (tmp_path / "signing" / f"{first.kid}.pem").read_bytes()
    assert folder.signing_key(second.exp) is None


def test_a_revoked_key_neither_signs_nor_counts(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path)
    made = folder.create()
    revoked = folder.revoke(made.kid)
    assert folder.revoke(made.kid) == revoked
    assert folder.signing_key() is None
    assert not (tmp_path / f"{made.kid}.pem").exists()
    [key] = parse_published(folder.published())
    assert revoked.revoked_at is not None
    assert "revoked" in str(key.why_not(revoked.nbf, revoked.revoked_at))  # type: ignore[arg-type]
    with pytest.raises(UnknownKeyError, match="there is no signing key nobody"):
        folder.revoke("nobody")


def test_keys_made_at_once_are_all_listed(tmp_path: Path) -> None:
    threads = [threading.Thread(target=KeyFolder(tmp_path).create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = KeyFolder(tmp_path).published().keys
    assert len({one.kid for one in listed}) == 8
    assert sum(one.retired_at is None for one in listed) == 1


def test_a_damaged_list_is_told_and_not_taken_for_none(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path)
    folder.create()
    document = json.loads((tmp_path / "keys.json").read_text())
    document["keys"][0]["x"] = document["keys"][0]["x"][:-2]
    (tmp_path / "keys.json").write_text(json.dumps(document))
    with pytest.raises(KeyFileError):
        folder.signing_key()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_is_of_type_and_bytes(algorithm: str) -> None:
    key = generate_key(algorithm)  # type: ignore[arg-type]
    signature = key.sign(pre_authentication_encoding("a", b"bc"))
    assert PublicKey(key.public.key).has_signed(pre_authentication_encoding("a", b"bc"), signature)
    assert not key.public.has_signed(pre_authentication_encoding("ab", b"c"), signature)
    assert not key.public.has_signed(pre_authentication_encoding("a", b"bc"), b"")
    assert set(jwk_members(key.public.key)) >= {"crv", "kty", "x"}
