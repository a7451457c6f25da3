"""``seatrial replay`` on real services: what runs again is the same, and what was changed is told."""

import base64
import hashlib
import io
import json
import re
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.embedded import embedded
from seatrial.client import Client
from seatrial.store.records import to_parquet
from tests import assets
from tests.nursery import forking

pytestmark = pytest.mark.slow

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3, "random_start": True, "effort": "quick"}
POLICY = {"name": "release", "rules": [{"metric": "uncertainty_span.clean_accuracy", "min": 0.3}]}
RECORDS = "records/0-uncertainty_span/attack.parquet"


@dataclass(frozen=True)
class Recorded:
    """A service on which an audit has ended, and what was taken away of it."""

    url: str
    folder: Path

    @property
    def bundle(self) -> Path:
        """With model and data inside."""
        return self.folder / "whole.zip"

    @property
    def bare(self) -> Path:
        """Without."""
        return self.folder / "bare.zip"

    def changed(self, change: Callable[[dict[str, bytes]], None], *, is_signed: bool = True) -> Path:
        """Return a bundle in which something was changed, its digests with it or not."""
        with zipfile.ZipFile(self.bundle) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        change(files)
        if is_signed:
            digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "SHA256SUMS"}
            files["SHA256SUMS"] = "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()
        path = self.folder / "changed.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path


def sign_in(home: Path, public: Path) -> Path:
    """Make an installation's signing key as its operator does, and return the private half."""
    words = ["keys", "signing", "create", "--public-key", str(public)]
    made = CliRunner().invoke(main, words, env={"SEATRIAL_HOME": str(home), "SEATRIAL_SIGNING_KEYS": None})
    assert made.exit_code == 0, made.output
    [private] = (home / "signing").glob("*.pem")
    return private


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "m.safetensors").write_bytes(assets.weights())
    (folder / "d.npz").write_bytes(assets.npz(40))
    sign_in(folder / "home", folder / "ours.pub")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in forking().items():
            patch.setenv(name, value)
        url = stack.enter_context(embedded(folder / "home", say=print))
        client = stack.enter_context(Client(url))
        model = client.add_model(folder / "m.safetensors", assets.model_manifest())
        dataset = client.add_dataset(folder / "d.npz", assets.dataset_manifest())
        audit = client.submit(model.id, dataset.id, [CHECK], seed=7, samples=20, batch_size=10, policy=POLICY)
        ended = client.wait(audit.id, timeout_s=120)
        assert ended.state == "succeeded", ended
        client.bundle(audit.id, folder / "whole.zip", inputs=True)
        client.bundle(audit.id, folder / "bare.zip")
        (folder / "verdict.jsonl").write_bytes(client.attestation(audit.id))
        yield Recorded(url, folder)


def replay(*arguments: object, url: str | None = None) -> Result:
    at = ["--url", url] if url else []
    return CliRunner().invoke(main, ["replay", *map(str, arguments), *at], env={"SEATRIAL_URL": None, **forking()})


def nudged(by: float) -> Callable[[dict[str, bytes]], None]:
    """Return a change that moves one number of one record."""

    def change(files: dict[str, bytes]) -> None:
        table = pq.read_table(io.BytesIO(files[RECORDS]))
        at, name = next((at, one.name) for at, one in enumerate(table.schema) if pa.types.is_floating(one.type))
        values = table.column(name).to_pylist()
        values[3] += by
        column = pa.array(values, type=table.schema.field(name).type)
        files[RECORDS] = to_parquet(table.set_column(at, name, column))

    return change


def test_an_audit_runs_again_on_a_service_of_its_own_and_gives_the_same(recorded: Recorded) -> None:
    ended = replay(recorded.bundle)
    assert ended.exit_code == 0, ended.output
    assert re.fullmatch(r"identical: [1-9]\d* numbers, [1-9]\d* records\n", ended.stdout)


def test_a_changed_record_is_told(recorded: Recorded) -> None:
    ended = replay(recorded.changed(nudged(0.25)), "--tolerance", "0.2", url=recorded.url)
    assert ended.exit_code == 1, ended.output
    assert "0/uncertainty_span/attack." in ended.stdout
    assert "1 of 20 differ, most in row 3" in ended.stdout
    assert "0.25" in ended.stdout


def elsewhere(by: float) -> Callable[[dict[str, bytes]], None]:
    """Return a change that tells of other hardware, which makes one number of one record another."""

    def change(files: dict[str, bytes]) -> None:
        nudged(by)(files)
        index = json.loads(files["audit.json"])
        index["versions"]["hardware that measured"] = "a processor of another make, 1 threads"
        files["audit.json"] = json.dumps(index).encode()

    return change


@pytest.mark.parametrize(("by", "status"), [(5e-4, 0), (0.25, 1)])
def test_unlike_hardware_is_allowed_what_the_family_allows(recorded: Recorded, by: float, status: int) -> None:
    ended = replay(recorded.changed(elsewhere(by)), url=recorded.url)
    assert ended.exit_code == status, ended.output
    assert "uncertainty_span differs by at most" in ended.stderr
    assert "0.001 is allowed" in ended.stderr
    assert ("the same within uncertainty_span 0.001" in ended.stdout) == (status == 0)


def test_a_file_that_was_changed_without_its_digest_is_refused(recorded: Recorded) -> None:
    ended = replay(recorded.changed(nudged(0.25), is_signed=False), url=recorded.url)
    assert ended.exit_code == 2
    assert f"'{RECORDS}' is not what was written" in ended.stderr


@pytest.mark.parametrize(("option", "kind"), [("--model", "model"), ("--data", "dataset")])
def test_other_bytes_are_refused_by_name(recorded: Recorded, option: str, kind: str) -> None:
    other = recorded.folder / "other"
    other.write_bytes(assets.weights(2.0))
    ended = replay(recorded.bundle, option, other, url=recorded.url)
    assert ended.exit_code == 2
    assert f"other is not the recorded {kind}" in ended.stderr
    assert hashlib.sha256(other.read_bytes()).hexdigest() in ended.stderr


def test_other_bytes_inside_are_refused_too(recorded: Recorded) -> None:
    changed = recorded.changed(lambda files: files.update({"inputs/model.safetensors": assets.weights(2.0)}))
    ended = replay(changed, url=recorded.url)
    assert ended.exit_code == 2
    assert "inputs/model.safetensors is not /model (digits-cnn 1)" in ended.stderr


def test_the_command_fetches_both_kinds_of_bundles(recorded: Recorded, tmp_path: Path) -> None:
    with Client(recorded.url) as client:
        # The newest first: replays have audits of their own.
        *_, audit = client.audits()
    for options, like in ((["--inputs"], recorded.bundle), ([], recorded.bare)):
        words = ["audit", "bundle", audit.id, *options, "-o", str(tmp_path / "b.zip"), "--url", recorded.url]
        assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
        with zipfile.ZipFile(tmp_path / "b.zip") as made, zipfile.ZipFile(like) as wanted:
            assert made.namelist() == wanted.namelist()


@pytest.mark.drill
def test_a_bundle_without_model_and_data_takes_them_as_options(recorded: Recorded) -> None:
    data = ("--data", recorded.folder / "d.npz")
    lacking = replay(recorded.bare, *data, url=recorded.url)
    assert lacking.exit_code == 2
    assert "does not contain /model (digits-cnn 1): give it with --model" in lacking.stderr
    ended = replay(recorded.bare, *data, "--model", recorded.folder / "m.safetensors", url=recorded.url)
    assert ended.exit_code == 0, ended.output


@pytest.mark.drill
def test_a_name_that_another_model_holds_is_no_obstacle(recorded: Recorded, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    other.write_bytes(assets.weights(3.0))
    manifest = "inputs/model.manifest.json"
    taken = recorded.changed(lambda files: files.update({manifest: files[manifest].replace(b"digits-cnn", b"taken")}))
    with Client(recorded.url) as client:
        client.add_model(other, assets.model_manifest("taken"), wait_s=0)
    ended = replay(taken, url=recorded.url)
    assert ended.exit_code == 0, ended.output


def test_a_service_that_is_not_there_is_no_difference(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert replay(recorded.bundle, url="http://127.0.0.1:1").exit_code == 4


def test_patience_that_ends_is_told_as_such(recorded: Recorded) -> None:
    ended = replay(recorded.bundle, "--timeout", "0", url=recorded.url)
    assert ended.exit_code == 5, ended.output


def test_a_bundle_without_numbers_has_nothing_to_compare(recorded: Recorded) -> None:
    def forget(files: dict[str, bytes]) -> None:
        results = json.loads(files["results.json"])
        files["results.json"] = json.dumps([one | {"result": None} for one in results]).encode()

    ended = replay(recorded.changed(forget), url=recorded.url)
    assert ended.exit_code == 2
    assert "holds no numbers" in ended.stderr


@dataclass(frozen=True)
class Auditor:
    """Somebody with a verdict, the weights, two public keys, and nothing else: no service, no network."""

    folder: Path

    def verify(self, *keys: str) -> Result:
        """Check the verdict with some keys, and ask for a reproduction."""
        words = ["verify", "verdict.jsonl", "--model", "m.safetensors", "--reproduced"]
        given = [word for key in keys for word in ("--public-key", str(self.folder / key))]
        named = [str(self.folder / word) if word.endswith(("jsonl", "safetensors")) else word for word in words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "socket", _unplugged)
            return CliRunner().invoke(main, [*named, *given])

    def with_second(self, change: Callable[[dict[str, Any]], None]) -> "Auditor":
        """Change the envelope of the second signer."""
        *others, last = (self.folder / "verdict.jsonl").read_bytes().splitlines()
        envelope = json.loads(last)
        change(envelope)
        (self.folder / "verdict.jsonl").write_bytes(
            b"\n".join([*others, json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()]) + b"\n"
        )
        return self


def _unplugged(*_: object, **__: object) -> None:
    raise AssertionError("a verdict is checked offline")


def test_a_second_installation_makes_a_verdict_reproduced(recorded: Recorded, tmp_path: Path) -> None:
    theirs = sign_in(tmp_path / "second", tmp_path / "theirs.pub")
    [ours] = (recorded.folder / "home" / "signing").glob("*.pem")
    verdict = tmp_path / "verdict.jsonl"
    shutil.copy(recorded.folder / "verdict.jsonl", verdict)
    signed_once = verdict.read_bytes()
    signing = ("--attestation", verdict, "--signing-key")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in forking().items():
            patch.setenv(name, value)
        second = stack.enter_context(embedded(tmp_path / "second", say=print))
        # The key that signed the audit shows nothing more; and what differs, however little, is not signed.
        refused = replay(recorded.bundle, *signing, ours, url=second)
        assert (refused.exit_code, "is signed by this key already" in refused.stderr) == (2, True)
        differs = replay(recorded.changed(nudged(0.25)), *signing, theirs, url=second)
        assert (differs.exit_code, "nothing that is run again could confirm it" in differs.stderr) == (2, True)
        assert verdict.read_bytes() == signed_once
        ended = replay(recorded.bundle, *signing, theirs, url=second)
        assert ended.exit_code == 0, ended.output
        assert f"Signed in {verdict}: reproduced." in ended.stdout
    assert verdict.read_bytes().startswith(signed_once)

    (tmp_path / "auditor").mkdir()
    auditor = Auditor(tmp_path / "auditor")
    for source in (verdict, recorded.folder / "m.safetensors", recorded.folder / "ours.pub", tmp_path / "theirs.pub"):
        shutil.copy(source, auditor.folder)
    found = auditor.verify("ours.pub", "theirs.pub")
    assert found.exit_code == 0, found.output
    assert "reproduced (by " in found.stdout
    whole = (auditor.folder / "verdict.jsonl").read_bytes()

    def fails(why: str, *keys: str) -> None:
        told = auditor.verify(*(keys or ("ours.pub", "theirs.pub")))
        assert (told.exit_code, why in told.output) == (1, True), told.output
        (auditor.folder / "verdict.jsonl").write_bytes(whole)

    # Either signer alone is not enough, and a second one that is not trusted counts for nothing.
    fails("no given key has signed it", "ours.pub")
    fails("no given key has signed it", "theirs.pub")
    auditor.with_second(
        lambda envelope: envelope["signatures"][0].update(sig=tampered(envelope["signatures"][0]["sig"]))
    )
    fails("no given key has signed it")
    # More tolerance, or another number of records, under the signature there was.
    auditor.with_second(lambda envelope: envelope.update(payload=restated(envelope["payload"], tolerance=1.0)))
    fails("no given key has signed it")
    (auditor.folder / "verdict.jsonl").write_bytes(signed_once)
    fails("nobody has run the audit again")


def tampered(signature: str) -> str:
    """Return a signature with one bit of its first byte turned."""
    raw = bytearray(base64.b64decode(signature))
    raw[0] ^= 1
    return base64.b64encode(raw).decode()


def restated(payload: str, **changes: object) -> str:
    """Return a statement that says something else."""
    statement = json.loads(base64.b64decode(payload))
    statement["predicate"] |= changes
    return base64.b64encode(json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()).decode()
