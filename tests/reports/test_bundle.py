"""The bundle: what is in it, that it is the same twice, and that what was changed is noticed."""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.reports.bundle_layout import BundleIndex
from app.reports.unbundling import BundleError, open_bundle
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.store.artifacts import digest_of_bytes
from seatrial.store.records import to_parquet
from seatrial.store.tables import AuditRow, CheckRow, ShardRow, StageRow
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import CASES, store
from tests.rows import add_audit

WEIGHTS, IMAGES = b"weights" * 100, b"images" * 100
ROWS = {"example_id": [3, 1, 2, 0], "entropy": [0.1, 0.25, float("nan"), 1.0], "logits": [[0.5, -1.0]] * 4}


@pytest.fixture(scope="module")
def whole(one_audit: OneAudit) -> OneAudit:
    """An audit whose model, data and records are all in the store."""
    put = one_audit.reports.store.put_bytes
    one_audit.change(
        model={"digest": put(WEIGHTS), "size_bytes": len(WEIGHTS)},
        dataset={"digest": put(IMAGES), "size_bytes": len(IMAGES)},
        audit={"spec": {"samples": 4, "batch_size": 2, "seed": 3, "checks": [{"kind": "uncertainty_span"}]}},
    )
    table = pa.table(ROWS)
    with one_audit.reports.database.write() as session:
        check = session.query(CheckRow).filter_by(audit_id=one_audit.id).one()
        session.add(StageRow(check_id=check.id, name="attack", ordinal=1, source="dataset", examples=4, shards=2))
        for n in range(2):
            shard = ShardRow(id=f"shd_{n}", check_id=check.id, stage="attack", ordinal=n, start=2 * n, stop=2 * n + 2)
            shard.records_digest = put(to_parquet(table.slice(2 * n, 2)))
            shard.state = "succeeded"
            shard.worker = "worker-1"
            session.add(shard)
    store(one_audit.reports.database, one_audit.id, CASES["failed"])
    return one_audit


def bundle(one: OneAudit, **params: str) -> bytes:
    answer = one.reports.client.get(f"/v1/audits/{one.id}/bundle", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert int(answer.headers["content-length"]) == len(answer.content)
    return answer.content


def files_in(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def sums(files: dict[str, bytes]) -> bytes:
    listed = {name: data for name, data in files.items() if name != "SHA256SUMS"}
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in listed.items()).encode()


def opened(data: bytes, tmp_path: Path) -> Any:
    path = tmp_path / "bundle.zip"
    path.write_bytes(data)
    return open_bundle(path, tmp_path / "unpacked")


def test_it_holds_what_was_asked_and_what_came_out(whole: OneAudit) -> None:
    files = files_in(bundle(whole))
    assert set(files) == {
        "audit.json",
        "results.json",
        "inputs/model.manifest.json",
        "inputs/dataset.manifest.json",
        "records/0-uncertainty_span/attack.parquet",
        "SHA256SUMS",
    }
    index = BundleIndex.model_validate_json(files["audit.json"])
    assert (index.audit, index.state, index.spec["seed"]) == (whole.id, "succeeded", 3)
    assert [one.digest for one in index.inputs] == [digest_of_bytes(WEIGHTS), digest_of_bytes(IMAGES)]
    assert index.judgement is not None
    assert index.judgement.verdict == "failed"
    assert index.policy == CASES["failed"].document
    assert index.versions["seatrial"]
    assert index.workers == ["worker-1"]
    assert json.loads(files["results.json"])[0]["result"]["estimates"] == fabricated.result()["estimates"]


def test_its_records_are_those_of_all_shards_in_order(whole: OneAudit) -> None:
    files = files_in(bundle(whole))
    table = pq.read_table(io.BytesIO(files["records/0-uncertainty_span/attack.parquet"]))
    assert table.column("example_id").to_pylist() == ROWS["example_id"]
    assert table.column("logits").to_pylist() == ROWS["logits"]


def test_the_same_audit_gives_the_same_bytes(whole: OneAudit) -> None:
    assert bundle(whole, inputs="true") == bundle(whole, inputs="true")


def test_its_digests_are_those_of_its_files(whole: OneAudit) -> None:
    files = files_in(bundle(whole))
    listed = dict(reversed(line.split("  ", 1)) for line in files.pop("SHA256SUMS").decode().splitlines())
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_model_and_data_are_inside_when_asked_for(whole: OneAudit) -> None:
    files = files_in(bundle(whole, inputs="true"))
    assert files["inputs/model.safetensors"] == WEIGHTS
    assert files["inputs/dataset.npz"] == IMAGES


def test_a_head_is_answered_without_making_it(whole: OneAudit) -> None:
    answer = whole.reports.client.head(f"/v1/audits/{whole.id}/bundle")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="seatrial-{whole.id}.zip"'


def test_what_is_read_back_is_what_was_written(whole: OneAudit, tmp_path: Path) -> None:
    found = opened(bundle(whole), tmp_path)
    assert found.results[0].result.model_dump(mode="json") == fabricated.result()
    assert found.manifest(found.index.inputs[0])["architecture"] == {"kind": "resnet_cifar", "depth": 20}
    assert found.records(found.index.checks[0].records[0]).num_rows == 4


def test_further_datasets_are_named_by_where_they_are_asked_for(whole: OneAudit) -> None:
    with whole.reports.database.read() as session:
        dataset = session.get_one(AuditRow, whole.id).dataset_id
    params = UncertaintySpanParams.model_validate({"kind": "uncertainty_span"}).model_dump(mode="json")
    whole.change(check={"params": {**params, "outliers": {"dataset": dataset}}})
    index = BundleIndex.model_validate_json(files_in(bundle(whole))["audit.json"])
    assert [one.roles for one in index.inputs] == [["/model"], ["/dataset", "/checks/0/outliers/dataset"]]


@pytest.mark.parametrize("state", ["queued", "running", "cancelling"])
def test_an_audit_that_runs_has_none(whole: OneAudit, state: str) -> None:
    whole.change(state=state)
    answer = whole.reports.client.get(f"/v1/audits/{whole.id}/bundle")
    whole.change(state="succeeded")
    assert answer.status_code == 409
    assert answer.json()["code"] == "not-ended"


def test_bytes_that_are_gone_are_said_to_be_gone(whole: OneAudit) -> None:
    whole.change(model={"digest": "sha256:" + "e" * 64})
    answers = [
        whole.reports.client.get(f"/v1/audits/{whole.id}/bundle", params=one) for one in ({}, {"inputs": "true"})
    ]
    whole.change(model={"digest": digest_of_bytes(WEIGHTS)})
    assert [answer.status_code for answer in answers] == [200, 410]


def test_another_projects_audit_is_not_found(whole: OneAudit) -> None:
    foreign = add_audit(whole.reports.database)
    assert whole.reports.client.get(f"/v1/audits/{foreign}/bundle").status_code == 404


RECORDS = "records/0-uncertainty_span/attack.parquet"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda files: files.update({RECORDS: files[RECORDS] + b"x"}), "not what was written"),
        (lambda files: files.pop(RECORDS), "is missing"),
        (lambda files: files.update({"inputs/more.bin": b"x"}), "not listed"),
        (lambda files: files.pop("SHA256SUMS"), "holds no SHA256SUMS"),
        (lambda files: files.update({"SHA256SUMS": b"hello\n"}), "no digest and name"),
        (lambda files: files.update({"../escape": b"x"}), "leads out of the folder"),
        (lambda files: files.update({"/absolute": b"x"}), "relative"),
    ],
    ids=["changed", "missing", "unlisted", "no-sums", "odd-sums", "above", "absolute"],
)
def test_a_bundle_that_was_changed_is_refused(whole: OneAudit, tmp_path: Path, change, told: str) -> None:
    files = files_in(bundle(whole))
    change(files)
    with pytest.raises(BundleError, match=told):
        opened(zipped(files), tmp_path)
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize(
    "name", ["../bundle.zip", "/etc/passwd", "nothing.json", "a\0b"], ids=["above", "absolute", "nothing", "nul"]
)
def test_an_index_that_points_elsewhere_reads_nothing(whole: OneAudit, tmp_path: Path, name: str) -> None:
    files = files_in(bundle(whole))
    index = json.loads(files["audit.json"])
    index["inputs"][0]["manifest"] = name
    files["audit.json"] = json.dumps(index).encode()
    files["SHA256SUMS"] = sums(files)
    found = opened(zipped(files), tmp_path)
    with pytest.raises(BundleError, match="is not in the bundle"):
        found.manifest(found.index.inputs[0])


def test_an_index_that_leaves_out_checks_is_not_compared_as_if_all_were_the_same(
    whole: OneAudit, tmp_path: Path
) -> None:
    files = files_in(bundle(whole))
    index = json.loads(files["audit.json"])
    index["checks"] = []
    files["audit.json"] = json.dumps(index).encode()
    files["SHA256SUMS"] = sums(files)
    with pytest.raises(BundleError, match="different checks"):
        opened(zipped(files), tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK", b"not a zip at all" * 100, zipped({}), zipped({"SHA256SUMS": b""})],
    ids=["empty", "cut", "text", "nothing-inside", "no-index"],
)
def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BundleError):
        opened(data, tmp_path)
