import hashlib

import httpx
import numpy as np
import pytest

from app.web.services import Services
from seatrial.contracts.datasets import DatasetRead
from seatrial.store.settings import Settings
from tests.uploads import assert_nothing_stored, dataset_manifest, npz, upload
from tests.web.test_problems import assert_problem


def test_what_was_uploaded_is_read_back(client: httpx.Client) -> None:
    answer = upload(client, "datasets", dataset_manifest(), npz())
    assert answer.status_code == 201
    told = DatasetRead.model_validate(answer.json())
    assert (told.facts.examples, told.facts.classes, told.facts.shape) == (20, 2, [1, 4, 4])
    assert client.get(answer.headers["location"]).json() == answer.json()
    content = client.get(f"/v1/datasets/{told.id}/content")
    assert content.content == npz()
    assert content.headers["etag"] == f'"sha256:{hashlib.sha256(npz()).hexdigest()}"'


def test_the_same_again_is_the_same_and_other_bytes_are_a_conflict(client: httpx.Client) -> None:
    first = upload(client, "datasets", dataset_manifest(), npz())
    assert upload(client, "datasets", dataset_manifest(), npz()).json() == first.json()
    assert_problem(upload(client, "datasets", dataset_manifest(), npz(30)), 409)
    assert_problem(upload(client, "datasets", dataset_manifest(split="train"), npz()), 409)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a,b\n1,2\n",
        npz()[:-40],
        npz(images=np.full((20, 1, 4, 4), np.nan, dtype=np.float32)),
        npz(images=np.full((20, 1, 4, 4), 7.0, dtype=np.float32)),
        npz(images=np.zeros((20, 4), dtype=np.uint8)),
        npz(labels=[0, 1]),
        npz(labels=[-1] * 20),
        npz(labels=np.array([{"a": 1}] * 20, dtype=object)),
    ],
    ids=["empty", "csv", "cut", "nan", "range", "shape", "count", "negative", "pickled"],
)
def test_a_refused_upload_names_the_field_and_leaves_nothing(
    client: httpx.Client, services: Services, data: bytes
) -> None:
    answer = upload(client, "datasets", dataset_manifest(), data)
    assert answer.status_code in (415, 422), answer.text
    assert assert_problem(answer, answer.status_code).errors
    assert_nothing_stored(services)


def test_labels_beyond_the_names_are_refused(client: httpx.Client, services: Services) -> None:
    manifest = dataset_manifest(labels=["even", "odd"])
    assert_problem(upload(client, "datasets", manifest, npz(labels=[2] * 20)), 422)
    assert_nothing_stored(services)


def test_a_path_may_be_named(client: httpx.Client, settings: Settings) -> None:
    path = settings.allowed_paths[0] / "d.npz"
    path.write_bytes(npz())
    answer = client.post("/v1/datasets", json={"manifest": dataset_manifest(), "path": str(path)})
    assert answer.status_code == 201, answer.text
    assert_problem(client.post("/v1/datasets", json={"manifest": dataset_manifest(), "path": "/etc/passwd"}), 403)


def test_lists_are_filtered(client: httpx.Client) -> None:
    upload(client, "datasets", dataset_manifest(), npz())
    upload(client, "datasets", dataset_manifest(name="other"), npz())
    assert [one["name"] for one in client.get("/v1/datasets").json()["items"]] == ["other", "parity"]
    assert [one["name"] for one in client.get("/v1/datasets?name=parity").json()["items"]] == ["parity"]
