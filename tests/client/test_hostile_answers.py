"""What is no Seatrial at the other end, and files nobody vouches for: a status of the table and a sentence."""

import gzip
import hashlib
import io
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from seatrial.client import Client, UnexpectedAnswerError, connection, retries, sse
from tests.bounded import bounded
from tests.client.hostile import Answer, answers, audit, body, endless, hostile_service, told

HTML = body(b"<!doctype html><title>Sign in</title>", media_type="text/html")
DEEP = b"[" * 200_000
BAD_GZIP = body(b"no gzip", Content_Encoding="gzip")

WRONG: dict[str, Answer] = {
    "html": HTML,
    "nothing": body(b""),
    "redirect": body(b"", status=302, Location="http://127.0.0.1:9/"),
    "null": body(b"null"),
    "number": body(b"1e999"),
    "list": body(b"[1, 2]"),
    "deep": body(DEEP),
    "deep object": body(b'{"a":' * 100_000),
    "no utf-8": body(b'{"items": "\xff"}'),
    "half a character": body(b'{"items": ["\\ud800"], "next": "\\ud800"}'),
    "wrong types": told({"items": 5, "next": []}),
    "items of wrong types": told({"items": [None, {"id": []}], "next": None}),
    "endless pages": told({"items": [], "next": "again"}),
    "bad gzip": BAD_GZIP,
    "problem of wrong types": told({"title": [], "detail": {}, "errors": {"a": 1}, "status": "x"}, status=422),
    "errors of wrong types": told({"title": "t", "errors": [1, None, {"pointer": 5}]}, status=500),
    "deep problem": body(DEEP, status=500),
    "html error": body(b"<h1>Bad gateway</h1>" * 10_000, status=502, media_type="text/html"),
    "odd retry-after": body(b"{}", status=503, Retry_After="Fri, 31 Dec 1999 23:59:59 +9999999999"),
}
COMMANDS: dict[str, tuple[list[str], tuple[int, ...]]] = {
    "models list": (["models", "list"], (2, 4)),
    "audit list": (["audit", "list"], (2, 4)),
    "audit status": (["audit", "status", "aud_1"], (2, 4)),
    "policies show": (["policies", "show", "standard"], (2, 4)),
    "judge": (["judge", "aud_1", "--policy", "standard"], (2, 4)),
}

POLICY = "name: p\nrules: [{metric: uncertainty_span.mus_worst, max: 1}]"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "BACKOFF_S", (0.001, 0.002))
    monkeypatch.setattr(retries, "MAX_ASKED_S", 0.01)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments], env={"SEATRIAL_URL": None})


def assert_told(done: Result, *codes: int) -> None:
    """It ended with one of the codes and a sentence, and not with a traceback."""
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in codes, (done.exit_code, done.output)
    assert "Traceback" not in done.output
    assert "Error: " in done.output
    assert len(done.output) < 5000


@pytest.mark.slow
@pytest.mark.parametrize("wrong", list(WRONG))
def test_every_command_tells_of_an_answer_that_is_none(wrong: str) -> None:
    with hostile_service(WRONG[wrong]) as url:
        for arguments, codes in COMMANDS.values():
            assert_told(run(*arguments, "--server", url), *codes)


@pytest.mark.parametrize("chunk", [b" " * 65_536, b'{"a": "' + b"x" * 65_536])
def test_an_endless_answer_ends(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_RESPONSE_BYTES", 2**20)
    with hostile_service(endless(chunk)) as url:
        done = run("models", "list", "--server", url)
    assert_told(done, 4)
    assert "1,048,576 bytes" in done.output


def test_an_answer_that_trickles_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_RESPONSE_S", 0.0)
    with hostile_service(endless(b" ")) as url:
        assert "did not end" in run("models", "list", "--server", url).output


def test_a_line_of_events_that_never_ends_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_LINE_CHARS", 2**20)
    for answer, told_as in (
        (endless(b"x" * 65_536), "a line of the event stream"),
        (body(b"data: {}\n\n"), "not one of Seatrial"),
    ):
        with hostile_service(answer) as url, Client(url) as client, pytest.raises(UnexpectedAnswerError, match=told_as):
            next(client.events("aud_1"))


@pytest.mark.parametrize("path", ["GET /v1/policies/", "POST /v1/models", "POST /v1/audits", "GET /v1/audits/"])
@pytest.mark.parametrize("wrong", ["html", "deep", "list"])
def test_the_gate_could_not_run(path: str, wrong: str, model: Path) -> None:
    with hostile_service({**answers("x"), path: WRONG[wrong]}) as url:
        done = run("gate", "--model", model, "--data", model / "d.npz", "--policy", "standard", "--server", url)
    assert_told(done, 4)


def test_a_report_that_is_none_is_told(model: Path) -> None:
    sarif, policy = model / "gate.sarif", model / "policy.yaml"
    policy.write_text(
        "name: p\nrules: [{metric: uncertainty_span.mus_worst, max: 1}]\nchecks: [{kind: uncertainty_span}]"
    )
    with hostile_service({**answers("x"), "GET /v1/audits/aud_1/report": told({"runs": [5]})}) as url:
        done = run(
            "gate", "--model", model, "--data", model / "d.npz", "--policy", policy, "--sarif", sarif, "--server", url
        )
    assert done.exit_code == 1, done.output
    assert "Traceback" not in done.output


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder with data in it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"task": "image-classification"}')
    (folder / "w.safetensors").write_bytes(b"x")
    (folder / "d.npz").write_bytes(b"x")
    return folder


FILES: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "deep": DEEP,
    "deep flow": b"[" * 50_000,
    "no utf-8": b"\xff\xfe\x00",
    "NUL": b"name: \x00",
    "aliases": b"a: &a [x]\nb: [*a, *a]",
    "number": b"1" * 100_000,
    "wrong types": json.dumps({"name": [], "rules": {"a": 1}, "checks": 5, "samples": "x", "seed": 1e999}).encode(),
    "many fields": json.dumps({f"field{n}": n for n in range(3_000)}).encode(),
    "long field": json.dumps({"x" * 1_000_000: 1}).encode(),
    "half a character": b'{"name": "\\ud800", "rules": [{"metric": "\\ud800", "max": 1}]}',
    "tag": b"!!python/object/apply:os.system ['id']",
}


@pytest.mark.slow
@pytest.mark.parametrize("content", list(FILES))
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_files_of_a_gate_are_refused_with_a_sentence(content: str, suffix: str, model: Path) -> None:
    file = model.parent / f"hostile{suffix}"
    file.write_bytes(FILES[content])
    good = model.parent / "good.yaml"
    good.write_text(POLICY)
    gate = ["gate", "--model", model, "--data", model / "d.npz"]
    nobody = ("--server", "http://127.0.0.1:9")
    assert_told(run(*gate, "--policy", file), 2)
    assert_told(run(*gate, "--policy", good, "--checks", file), 2)
    assert_told(run("policies", "add", file, *nobody), 2)
    if suffix == ".json":
        assert_told(run(*gate, "--policy", good, "--data-manifest", file, *nobody), 2, 4)
        assert_told(run("models", "add", "--endpoint", file, *nobody), 2, 4)


@pytest.mark.parametrize("content", [*FILES, "architectures", "labels"])
def test_what_lies_in_a_model_folder_is_refused_with_a_sentence(content: str, model: Path) -> None:
    more = {"architectures": b'{"architectures": 5}', "labels": b'{"id2label": {"0": 1, "x": 2}}'}
    (model / "manifest.json").unlink()
    (model / "config.json").write_bytes({**FILES, **more}[content])
    assert_told(run("gate", "--model", model, "--data", model / "d.npz", "--policy", "standard"), 2)


def test_a_setting_that_does_not_fit_is_a_bad_request_and_comes_with_an_example(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_ENDPOINT_ALLOWED_NETWORKS", "127.0.0.1/32")
    done = run("gate", "--model", model, "--data", model / "d.npz", "--policy", "standard")
    assert_told(done, 2)
    assert 'SEATRIAL_ENDPOINT_ALLOWED_NETWORKS: must be JSON, such as ["127.0.0.1/32"]' in done.output


@pytest.mark.slow
def test_a_device_in_place_of_a_file_is_refused(model: Path) -> None:
    gate = ["gate", "--model", model, "--data", model / "d.npz", "--policy", "standard"]

    def ended() -> tuple[int, str]:
        done = run(*gate, "--data-manifest", "/dev/zero")
        return done.exit_code, done.output

    code, output = bounded(ended, extra_bytes=2**30)
    assert code == 2, output
    assert "/dev/zero" in output
    assert "Traceback" not in output


# Bundles


def index(**more: Any) -> dict[str, Any]:
    return {
        **{"format": "seatrial.bundle/1", "audit": "aud_1", "state": "succeeded", "created_at": "2026-01-01T00:00:00Z"},
        **{"started_at": None, "finished_at": None, "spec": {"model": "m", "dataset": "d", "checks": []}},
        **{"spec_digest": "", "seed": 0, "samples": 2, "error": None, "inputs": [], "judgement": None},
        **{"policy": None, "versions": {}, "workers": []},
        "checks": [{"position": 0, "kind": "k", "state": "succeeded", "params": {}, "records": []}],
        **more,
    }


def given(**more: Any) -> dict[str, Any]:
    return {
        **{"id": "m", "kind": "model", "roles": ["/model"], "name": "n", "version": "1", "format": "safetensors"},
        **{"digest": "sha256:0", "size_bytes": 1, "manifest": "audit.json", "file": None, "facts": None},
        **more,
    }


RESULT = {"position": 0, "kind": "k", "result": {"estimates": {}, "counts": {"n": 1}}, "error": None}


def bundle(path: Path, files: dict[str, bytes | str]) -> Path:
    content = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in content.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {"SHA256SUMS": sums.encode(), **content}.items():
            archive.writestr(name, data)
    return path


def whole(path: Path, **more: Any) -> Path:
    return bundle(path, {"audit.json": json.dumps(index(**more)), "results.json": json.dumps([RESULT])})


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


BUNDLES: dict[str, Any] = {
    "nothing": lambda path: path.write_bytes(b""),
    "no zip": lambda path: path.write_bytes(b"PK\x03\x04" + b"x" * 100),
    "gzip of nothing": lambda path: path.write_bytes(gzip.compress(b"")),
    "bomb": lambda path: bundle(path, {"audit.json": b"\0" * 50_000_000}),
    "no parts": lambda path: bundle(path, {}),
    "no results": lambda path: bundle(path, {"audit.json": json.dumps(index())}),
    "no json": lambda path: bundle(path, {"audit.json": "{", "results.json": "["}),
    "deep json": lambda path: bundle(path, {"audit.json": DEEP, "results.json": DEEP}),
    "wrong types": lambda path: bundle(path, {"audit.json": "[5]", "results.json": '{"a": 1}'}),
    "huge number": lambda path: bundle(path, {"audit.json": "1" * 10_000, "results.json": "[]"}),
    "no spec": lambda path: whole(path, spec={}),
    "deep spec": lambda path: whole(path, spec={"model": "m", "dataset": "d", "checks": nested(200)}),
    "odd spec": lambda path: whole(path, spec={"model": 5, "dataset": [], "checks": 7, "self": 1, "timeout": []}),
    "path out": lambda path: whole(path, inputs=[given(file="../../../etc/passwd")]),
    "path absolute": lambda path: whole(path, inputs=[given(file="/etc/passwd")]),
    "path NUL": lambda path: whole(path, inputs=[given(file="a\0b")]),
    "path half a character": lambda path: whole(path, inputs=[given(file="\ud800")]),
    "path long": lambda path: whole(path, inputs=[given(file="x" * 100_000)]),
    "manifest out": lambda path: whole(path, inputs=[given(format="endpoint", manifest="../x")]),
    "manifest of wrong type": lambda path: whole(path, inputs=[given(format="endpoint", manifest="results.json")]),
    "a dataset that is an endpoint": lambda path: whole(path, inputs=[given(kind="dataset", format="endpoint")]),
    "another digest": lambda path: whole(path, inputs=[given(file="results.json")]),
    "checks that differ": lambda path: whole(path, checks=[]),
    "absolute entry": lambda path: bundle(path, {"/etc/x": b"x"}),
    "long message": lambda path: bundle(path, {"audit.json": json.dumps({"x" * 10**6: 1}), "results.json": "[]"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BUNDLES))
def test_a_hostile_bundle_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    BUNDLES[name](path)
    with hostile_service(told({"title": "refused"}, status=422)) as url:
        assert_told(run("replay", path, "--server", url), 2)


def test_a_bundle_cut_anywhere_or_with_a_byte_changed_is_refused(tmp_path: Path) -> None:
    good = whole(tmp_path / "good.zip").read_bytes()
    chance = random.Random(0)
    path = tmp_path / "bundle.zip"
    with hostile_service(told({"title": "refused"}, status=422)) as url:
        for _ in range(60):
            data = bytearray(good[: chance.randrange(len(good))] if chance.random() < 0.3 else good)
            for _ in range(chance.randrange(1, 4)):
                if data:
                    data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
            assert_told(run("replay", path, "--server", url), 2)


def parquet(table: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def recorded(path: Path, records: bytes, rows: int = 2) -> Path:
    one = {"stage": "s", "source": "d", "examples": rows, "rows": rows, "file": "r.parquet"}
    checks = [{"position": 0, "kind": "k", "state": "succeeded", "params": {}, "records": [one]}]
    content = {"audit.json": json.dumps(index(checks=checks)), "results.json": json.dumps([RESULT])}
    return bundle(path, {**content, "r.parquet": records})


RECORDS: dict[str, bytes] = {
    "no parquet": b"PAR1 nothing PAR1",
    "cut": parquet(pa.table({"a": [1, 2]}))[:-20],
    "texts that are none": parquet(pa.table({"a": pa.array([b"\xff", b"\xfe"]).view(pa.string())})),
    "lists of lists": parquet(pa.table({"a": [[[1]], [[2]]]})),
    "two columns of one name": parquet(pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])),
    "a text of a megabyte, 8,192 times": parquet(
        pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 8192, pa.int32()), ["x" * 2**20])})
    ),
}


@pytest.mark.parametrize("name", list(RECORDS))
def test_hostile_records_are_refused_with_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = sys.modules["app.cli.replay"]
    monkeypatch.setattr(replay, "MEMORY_BYTES", 2**30)
    path = recorded(tmp_path / "bundle.zip", RECORDS[name])
    again = recorded(tmp_path / "again.zip", parquet(pa.table({"a": ["b", "c"]}))).read_bytes()
    service = {
        "POST /v1/audits": told(audit("x", state="succeeded", error=None, checks=[])),
        "GET /v1/audits/aud_1": told(audit("x", state="succeeded", error=None, checks=[])),
        "GET /v1/audits/aud_1/bundle": body(again, media_type="application/zip"),
    }
    with hostile_service(service) as url:
        done = run("replay", path, "--server", url)
    # Records that can be read are compared, and differ.
    assert done.exit_code in (1, 2), done.output
    assert "Traceback" not in done.output
    if done.exit_code == 2:
        assert_told(done, 2)
    else:
        assert "different: " in done.output


LIMITED = """
import resource
from app.cli.memory import memory_limited

before = resource.getrlimit(resource.RLIMIT_AS)
try:
    with memory_limited(2**28):
        bytearray(2**29)
except MemoryError:
    print("refused")
assert resource.getrlimit(resource.RLIMIT_AS) == before
print(len(bytearray(2**29)))
"""


@pytest.mark.slow
def test_memory_is_limited_inside_the_block_only() -> None:
    # In a process of its own: what earlier tests took may be given back meanwhile, which is room for this one.
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["refused", str(2**29)], 0), done.stderr
