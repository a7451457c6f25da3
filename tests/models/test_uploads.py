import hashlib
import json
import pickle
import shutil
import threading
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from app.web.inspecting import Inspections
from app.web.services import Services
from seatrial.contracts.models import ModelRead
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ModelState
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from seatrial.store.transitions import move
from tests import assets
from tests.ingest.exported_programs import exported, exported_body, nodes_of
from tests.servers import eventually
from tests.uploads import assert_nothing_stored, model_manifest, upload, weights
from tests.web.test_problems import assert_problem


def judge(services: Services, state: ModelState, **values: object) -> None:
    """Do what a worker does once it has loaded the models."""
    with services.database.write() as session:
        move(session, ModelRow, state, ModelRow.state == ModelState.CHECKING, **values)


def judging(services: Services, state: ModelState, **values: object) -> threading.Thread:
    """Begin to do so a moment after there is a model to load, however long its upload takes."""

    def is_there() -> bool:
        with services.database.read() as session:
            return session.scalar(select(ModelRow.id).where(ModelRow.state == ModelState.CHECKING)) is not None

    def work() -> None:
        eventually(is_there, what="a model to load")
        time.sleep(0.2)
        judge(services, state, **values)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_what_was_uploaded_is_read_back(client: httpx.Client) -> None:
    answer = upload(client, "models", model_manifest(), weights())
    assert answer.status_code == 201
    told = ModelRead.model_validate(answer.json())
    assert answer.headers["location"] == f"/v1/models/{told.id}"
    assert (told.state, told.name, told.version) == ("checking", "parity", "1")
    assert told.digest == "sha256:" + hashlib.sha256(weights()).hexdigest()
    assert client.get(f"/v1/models/{told.id}").json() == answer.json()
    content = client.get(f"/v1/models/{told.id}/content")
    assert content.content == weights()
    assert content.headers["etag"] == f'"{told.digest}"'


def test_content_is_read_in_ranges_and_not_twice(client: httpx.Client) -> None:
    told = upload(client, "models", model_manifest(), weights()).json()
    path = f"/v1/models/{told['id']}/content"
    part = client.get(path, headers={"Range": "bytes=8-15", "If-Range": f'"{told["digest"]}"'})
    assert (part.status_code, part.content) == (206, weights()[8:16])
    assert client.get(path, headers={"If-None-Match": f'"{told["digest"]}"'}).status_code == 304
    assert_problem(client.get(path, headers={"Range": "bytes=999999-"}), 416)
    assert_problem(client.get(path, headers={"Range": "bytes=b-a"}), 416)


def test_the_same_again_is_the_same_and_other_bytes_are_a_conflict(client: httpx.Client) -> None:
    first = upload(client, "models", model_manifest(), weights())
    again = upload(client, "models", model_manifest(), weights())
    assert (again.status_code, again.json()) == (201, first.json())
    problem = assert_problem(upload(client, "models", model_manifest(), weights(1.0)), 409)
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/version"
    assert_problem(upload(client, "models", model_manifest(labels=["a", "b"]), weights()), 409)
    assert upload(client, "models", model_manifest(version="2"), weights(1.0)).status_code == 201


def test_two_at_once_with_one_name_store_one(client: httpx.Client, services: Services) -> None:
    answers: list[httpx.Response] = []

    def post(fill: float) -> None:
        answers.append(upload(client, "models", model_manifest(), weights(fill)))

    threads = [threading.Thread(target=post, args=(fill,)) for fill in (0.0, 0.0, 1.0, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({answer.status_code for answer in answers}) == [201, 409]
    with services.database.read() as session:
        row = session.scalars(select(ModelRow)).one()
    store = Path(services.settings.resolved_artifacts_url)
    files = [path.name for path in store.rglob("*") if path.is_file()]
    assert files == [row.digest.removeprefix("sha256:")]


def _zip(names: dict[str, bytes]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    return buffer.getvalue()


HUGGINGFACE = model_manifest(architecture={"kind": "huggingface"}, input=None, labels=None)
ENSEMBLE = model_manifest(architecture={"kind": "ensemble", "members": [{"kind": "lenet"}, {"kind": "lenet"}]})
GOOD_ZIP = _zip({"config.json": b"{}", "model.safetensors": weights()})


@pytest.mark.parametrize(
    ("manifest", "data", "statuses"),
    [
        (model_manifest(), b"", {422}),
        (model_manifest(), pickle.dumps({"a": 1}), {415}),
        (model_manifest(), b"<!doctype html><html></html>", {415}),
        (model_manifest(), weights()[:-1], {422}),
        (HUGGINGFACE, GOOD_ZIP[:-30], {422, 415}),
        (HUGGINGFACE, _zip({"../evil": b"x", "config.json": b"{}"}), {422}),
        (HUGGINGFACE, _zip({"config.json": b"{}", "pytorch_model.bin": pickle.dumps([1])}), {415, 422}),
        (HUGGINGFACE, weights(), {422}),
        ("{", weights(), {400}),
        (json.dumps({}), weights(), {422}),
        (model_manifest(input=None), weights(), {422}),
        (model_manifest(labels=["a", "a"]), weights(), {422}),
        (model_manifest(architecture={"kind": "layers", "layers": [["warp"]]}), weights(), {422}),
        (ENSEMBLE, _zip({f"{name}.safetensors": weights() for name in "abc"}), {422}),
        ({**ENSEMBLE, "architecture": {"kind": "ensemble", "members": []}}, weights(), {422}),
        (model_manifest(surprise=1), weights(), {422}),
        (model_manifest(name="../../etc"), weights(), {422}),
    ],
)
def test_a_refused_upload_names_the_field_and_leaves_nothing(
    client: httpx.Client, services: Services, manifest: object, data: bytes, statuses: set[int]
) -> None:
    answer = upload(client, "models", manifest, data)
    assert answer.status_code in statuses, answer.text
    problem = assert_problem(answer, answer.status_code)
    assert problem.errors
    assert problem.errors[0].pointer.startswith(("/file", "/manifest"))
    assert_nothing_stored(services)


def test_no_upload_says_what_it_was_derived_from(client: httpx.Client) -> None:
    base = upload(client, "models", model_manifest(), weights()).json()["id"]
    claimed = upload(client, "models", model_manifest(version="2", derived_from=base), weights(1.0))
    assert assert_problem(claimed, 422).errors[0].pointer == "/manifest/derived_from"  # type: ignore[index]
    fields, file = {"manifest": json.dumps(model_manifest())}, {"file": ("w.bin", weights())}
    for more in ({"data": {**fields, "derived_from": base}}, {"data": fields, "params": {"derived_from": base}}):
        assert_problem(client.post("/v1/models", **more, files=file), 422)  # type: ignore[arg-type]
    # In the file's own header nobody reads it, and the version is no more than a name.
    header, data = json.loads(weights()[8:-136]), weights()[-136:]
    text = json.dumps({**header, "__metadata__": {"derived_from": base}}).encode()
    forged = upload(
        client, "models", model_manifest(version="1+adversarial.1"), len(text).to_bytes(8, "little") + text + data
    )
    assert ModelRead.model_validate(forged.json()).derived_from is None


def test_an_ensemble_is_one_file_or_a_file_a_member(client: httpx.Client) -> None:
    two = _zip({f"{name}.safetensors": weights() for name in "ab"})
    assert upload(client, "models", ENSEMBLE, two).status_code == 201
    assert upload(client, "models", {**ENSEMBLE, "version": "2"}, weights()).status_code == 201


def test_a_full_disk_is_a_problem_and_leaves_nothing(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("prepare", "put_file"):
        with monkeypatch.context() as patched:
            patched.setattr(services.store, step, full)
            assert_problem(upload(client, "models", model_manifest(), weights()), 507, "storage-full")
        assert_nothing_stored(services)


@pytest.mark.parametrize("length", [0, 1, 2**40, 2**63, 2**64 - 1])
def test_a_header_that_lies_about_its_length_is_called_damaged(client: httpx.Client, length: int) -> None:
    lying = length.to_bytes(8, "little") + weights()[8:]
    for manifest, data in (
        (model_manifest(), lying),
        (HUGGINGFACE, _zip({"config.json": b"{}", "model.safetensors": lying})),
    ):
        problem = assert_problem(upload(client, "models", manifest, data), 422, "malformed-file")
        assert "safetensors header" in problem.detail
        assert "unknown" not in problem.detail


def test_a_file_called_safetensors_without_a_header_is_called_damaged(client: httpx.Client) -> None:
    data = {"manifest": json.dumps(model_manifest())}
    file = ("weights.safetensors", b"\xff" * 100)
    problem = assert_problem(client.post("/v1/models", data=data, files={"file": file}), 422, "malformed-file")
    assert "header is damaged" in problem.detail
    answer = client.post("/v1/models", data=data, files={"file": ("weights.pt", b"\xff" * 100)})
    assert "of no format known here" in assert_problem(answer, 415).detail


def test_a_patient_client_gets_the_final_answer(client: httpx.Client, services: Services) -> None:
    worker = judging(services, ModelState.READY)
    answer = upload(client, "models", model_manifest(), weights(), headers={"Prefer": "wait=30"})
    worker.join()
    assert (answer.status_code, answer.json()["state"]) == (201, "ready")
    assert answer.headers["preference-applied"] == "wait=30"


def test_a_patient_client_is_told_of_the_rejection(client: httpx.Client, services: Services) -> None:
    problem = StoredProblem(code="state-dict-mismatch", title="Keys", detail="missing: 3.bias", field="/file")
    worker = judging(services, ModelState.REJECTED, problem=problem.model_dump())
    answer = upload(client, "models", model_manifest(), weights(), headers={"Prefer": "wait=30"})
    worker.join()
    told = assert_problem(answer, 422, "state-dict-mismatch")
    assert told.detail == "missing: 3.bias"
    kept = client.get(f"/v1/models/{answer.json()['model']}").json()
    assert (kept["state"], kept["problem"]["code"]) == ("rejected", "state-dict-mismatch")
    mended = upload(client, "models", model_manifest(), weights(1.0))
    assert mended.status_code == 201


def test_waiting_has_an_end(client: httpx.Client) -> None:
    answer = upload(client, "models", model_manifest(), weights(), headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["state"]) == (201, "checking")


def test_paths_are_read_below_allowed_folders_only(
    client: httpx.Client, services: Services, settings: Settings, tmp_path: Path
) -> None:
    allowed = settings.allowed_paths[0]
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes(weights())
    (allowed / "link.safetensors").symlink_to(outside)
    (allowed / "m.safetensors").write_bytes(weights())

    def refer(path: str) -> httpx.Response:
        return client.post("/v1/models", json={"manifest": model_manifest(), "path": path})

    for path in (str(outside), str(allowed / ".." / outside.name), str(allowed / "link.safetensors"), "/etc/passwd"):
        assert "SEATRIAL_ALLOWED_PATHS" in assert_problem(refer(path), 403).detail
    for path in (str(allowed / "missing"), "relative", str(allowed) + "/a\0b"):
        assert_problem(refer(path), 422)
    assert_nothing_stored(services)
    told = refer(str(allowed / "m.safetensors"))
    assert told.status_code == 201
    assert told.json()["digest"] == "sha256:" + hashlib.sha256(weights()).hexdigest()
    assert (allowed / "m.safetensors").exists()


def test_a_folder_becomes_the_same_archive_every_time(
    client: httpx.Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def accept(*_: object, **__: object) -> str:
        return "archive"

    monkeypatch.setattr(Inspections, "run", accept)
    folder = settings.allowed_paths[0] / "hf"
    for name in ("b.json", "sub/a.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    body = {"manifest": HUGGINGFACE, "path": str(folder)}
    first = client.post("/v1/models", json=body)
    assert first.status_code == 201, first.text
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, copy_function=shutil.copy)
    again = client.post("/v1/models", json={**body, "path": str(copy)})
    assert again.json()["id"] == first.json()["id"]
    with zipfile.ZipFile(BytesIO(client.get(f"/v1/models/{first.json()['id']}/content").content)) as archive:
        assert archive.namelist() == ["b.json", "sub/a.json"]


def test_a_check_that_has_not_ended_can_be_cancelled(client: httpx.Client, services: Services) -> None:
    model = upload(client, "models", model_manifest(), weights()).json()["id"]
    for _ in range(2):
        cancelled = client.post(f"/v1/models/{model}/cancel")
        assert cancelled.status_code == 200, cancelled.text
        assert (cancelled.json()["state"], cancelled.json()["problem"]["code"]) == ("rejected", "check-cancelled")
    upload(client, "models", model_manifest(version="2"), weights())
    judge(services, ModelState.READY)
    ready = client.get("/v1/models?state=ready").json()["items"][0]["id"]
    assert_problem(client.post(f"/v1/models/{ready}/cancel"), 409)
    assert_problem(client.post("/v1/models/mdl_none/cancel"), 404)


def test_lists_are_filtered(client: httpx.Client, services: Services) -> None:
    upload(client, "models", model_manifest(), weights())
    judge(services, ModelState.READY)
    upload(client, "models", model_manifest(name="other"), weights())

    def names(query: str) -> list[str]:
        return [model["name"] for model in client.get(f"/v1/models?{query}").json()["items"]]

    assert names("") == ["other", "parity"]
    assert names("state=ready") == ["parity"]
    assert names("name=other") == ["other"]
    assert names("task=token-classification") == []
    assert_problem(client.get("/v1/models?state=tired"), 422)


def test_an_exported_program_is_stored_and_one_that_names_code_is_not(client: httpx.Client, services: Services) -> None:
    def names_code(document: dict[str, Any]) -> None:
        nodes_of(document)[2]["target"] = "torch.ops.mylib.run.default"

    refused = assert_problem(upload(client, "models", exported_body(), exported(change_graph=names_code)), 422)
    assert refused.code == "operator-refused"
    assert "'torch.ops.mylib.run.default'" in refused.detail
    assert_nothing_stored(services)
    answer = upload(client, "models", exported_body(), exported())
    assert (answer.status_code, answer.json()["state"]) == (201, "checking"), answer.text


def test_an_endpoint_of_images_is_told_what_to_send_and_nothing_of_texts(client: httpx.Client) -> None:
    for request in ({"image": "{{text}}"}, {"inputs": "{{texts}}"}):
        endpoint = {"kind": "endpoint", "url": "https://models.example.com/v1", "request": request, "scores": "$"}
        body = {"manifest": model_manifest(architecture=endpoint | {"batch_size": 1})}
        problem = assert_problem(client.post("/v1/models", json=body), 422)
        assert problem.errors
        assert [error.pointer for error in problem.errors] == ["/manifest/architecture"]
        assert "{{images}}, {{image}}" in problem.errors[0].detail
        assert "{{text" not in json.dumps(problem.model_dump())


@pytest.mark.parametrize("lacking", ["input", "labels"])
def test_a_field_that_an_architecture_needs_is_pointed_at(client: httpx.Client, lacking: str) -> None:
    described = {name: value for name, value in assets.model_manifest().items() if name != lacking}
    refused = client.post("/v1/models", **assets.multipart(described, "m.safetensors", assets.weights()))
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == f"/manifest/{lacking}"
    assert error["detail"].startswith(f"{lacking} is required: ")
