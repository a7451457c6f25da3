"""``seatrial gate --predictions``: a table of anybody's answers, judged without a model, and two tables compared."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from tests import assets
from tests.client.conftest import Server, served
from tests.servers import eventually, local_worker, stop_together

pytestmark = pytest.mark.slow

NAMES = ("cat", "dog", "eel")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("service")
    environment = {"SEATRIAL_HOME": str(folder / "home"), "SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05"}
    with served(folder / "home") as running:
        worker = local_worker(environment, folder / "worker.log")
        yield running
        stop_together([worker])


def write_table(path: Path, *, heat: float = 1.0, n: int = 600) -> None:
    """Write answers whose logits are ``heat`` times those that the labels follow; the examples are always the same."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n, 3))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (np.cumsum(true, axis=1) < rng.random((n, 1))).sum(axis=1)
    told = np.exp(heat * logits) / np.exp(heat * logits).sum(axis=1, keepdims=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["example_id", "label", "site", *(f"p_{name}" for name in NAMES)])
        for at, row in enumerate(told):
            writer.writerow([f"x{at}", NAMES[labels[at]], "north" if at % 2 else "south", *row])


@pytest.fixture
def gate(service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)

    def run(table: str, rules: list[dict[str, object]], *options: str) -> Result:
        (tmp_path / "policy.json").write_text(json.dumps({"name": "tables", "rules": rules}))
        words = ["gate", "--predictions", table, "--policy", "policy.json", "--server", service.url]
        return CliRunner().invoke(main, [*words, *options], catch_exceptions=False)

    return run


def test_two_tables_of_the_same_examples_are_judged_and_compared_in_pairs(
    gate: Callable[..., Result], service: Server, tmp_path: Path
) -> None:
    write_table(tmp_path / "honest.csv")
    write_table(tmp_path / "boastful.csv", heat=3.0)
    (tmp_path / "honest.csv.manifest.json").write_text('{"name": "animals", "columns": {"group": "site"}}')
    (tmp_path / "boastful.csv.manifest.json").write_text('{"name": "animals", "columns": {"group": "site"}}')
    calibrated: list[dict[str, object]] = [{"metric": "calibration.ece", "max": 0.12}]
    ended = gate("honest.csv", calibrated, "--html", "report.html")
    assert ended.exit_code == 0, ended.output
    assert "Calibration of predictions" in (tmp_path / "report.html").read_text()
    assert gate("boastful.csv", [{"metric": "calibration.ece", "max": 0.05}]).exit_code == 1
    with httpx.Client(base_url=service.url) as client:
        audits = client.get("/v1/audits").json()["items"]
        _, first = audits[0]["id"], audits[1]["id"]
        check = client.get(f"/v1/audits/{first}").json()["checks"][0]
        assert check["result"]["counts"]["n"] == 600
        assert set(check["result"]["series"]["groups"]) == {"north", "south"}
        assert check["figures"] == ["reliability", "risk_coverage"]
        assert len({row["id"] for row in client.get("/v1/datasets").json()["items"]}) == 1
        assert client.post("/v1/baselines", json={"audit": first}).status_code == 201
    likelihood: list[dict[str, object]] = [{"metric": "calibration.nll", "max_regression": 0.05}]
    ended = gate("boastful.csv", likelihood)
    assert ended.exit_code == 1, ended.output
    assert "compared example by example on the 600" in ended.output


def test_gradient_boosted_trees_are_judged_by_what_they_answer(gate: Callable[..., Result], tmp_path: Path) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    images, labels = assets.digits()
    rows, known = images.reshape(len(images), -1)[:600], labels[300:600]
    trees = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=8, random_state=0).fit(rows[:300], labels[:300])
    told = trees.predict_proba(rows[300:])
    lines = [",".join(["example_id", "label", *(f"p_{name}" for name in trees.classes_)])]
    for at, (row, label) in enumerate(zip(told, known, strict=True)):
        lines.append(",".join([f"x{at}", str(label), *map(repr, row.tolist())]))
    (tmp_path / "trees.csv").write_text("\n".join(lines) + "\n")
    right = float((told.argmax(1) == known).mean())
    accuracy = {"metric": "calibration.accuracy"}
    ended = gate("trees.csv", [{**accuracy, "min": right - 0.1}, {**accuracy, "max": right + 0.1}])
    assert ended.exit_code == 0, ended.output
    assert f"{right:.4f} [" in ended.output


def test_a_table_with_a_mistake_is_refused_by_row_and_column(gate: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("example_id,label,p_cat,p_dog\na,cat,0.7,0.3\nb,dog,0.9,0.4\n")
    ended = gate("bad.csv", [{"metric": "calibration.ece", "max": 0.1}])
    assert ended.exit_code == 2
    assert "Line 3, column 'p_cat' to 'p_dog': the probabilities add up to 1.3, not to 1" in ended.output
    (tmp_path / "none.csv").write_text("example_id,label,x\na,cat,0.7\n")
    ended = gate("none.csv", [{"metric": "calibration.ece", "max": 0.1}])
    assert ended.exit_code == 2
    assert "has no columns p_LABEL" in ended.output


def test_one_file_may_be_both_sides_and_no_cut_changes_a_record(service: Server, tmp_path: Path) -> None:
    write_table(tmp_path / "both.csv", heat=1.2)
    said = {"version": "1", "task": "predictions", "labels": list(NAMES)}
    columns = [f"p_{name}" for name in NAMES]
    of_model = {**said, "name": "both", "architecture": {"kind": "predictions", "probabilities": columns}}
    of_data = {**said, "name": "both", "columns": {"group": "site"}}
    with httpx.Client(base_url=service.url, timeout=60, headers={"Prefer": "wait=60"}) as client:

        def upload(kind: str, manifest: dict[str, object]) -> str:
            file = ("both.csv", (tmp_path / "both.csv").read_bytes())
            answer = client.post(f"/v1/{kind}", files={"file": file}, data={"manifest": json.dumps(manifest)})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])

        model, dataset = upload("models", of_model), upload("datasets", of_data)
        assert client.get(f"/v1/models/{model}").json()["facts"]["parameters"] == 0
        body = {"model": model, "dataset": dataset, "samples": 300, "checks": [{"kind": "calibration"}]}
        found = client.post("/v1/audits/estimate", json=body).json()
        assert (found["forward_passes"], found["queries"]) == (0, 0)
        assert 0 < found["seconds"] < 60
        records = []
        for shards in (1, 3):
            audit = client.post("/v1/audits", json={**body, "shards": shards, "batch_size": 16}).json()["id"]
            ended = eventually(lambda audit=audit: _ended(client, audit), timeout_s=60, what="the audit")
            assert ended == "succeeded"
            address = f"/v1/audits/{audit}/records/calibration"
            records.append(client.get(address, params={"format": "parquet"}).content)
        assert records[0] == records[1]
        asked = {"dataset": dataset, "check": "calibration", "metric": "ece"}
        (row,) = client.get("/v1/leaderboard", params=asked).json()["rows"]
        assert row["model"] == model
        other = client.post("/v1/audits", json={**body, "checks": [{"kind": "uncertainty_span", "epsilon": 0.1}]})
        assert other.status_code == 422
        assert "does predictions" in other.text


def _ended(client: httpx.Client, audit: str) -> str | None:
    state = str(client.get(f"/v1/audits/{audit}").json()["state"])
    return state if state in ("succeeded", "failed") else None


def test_the_manifest_that_a_refusal_shows_does_as_it_stands(gate: Callable[..., Result], tmp_path: Path) -> None:
    rows = "".join(f"x{at},{'cat' if at % 2 else 'dog'},{at % 2},{1 - at % 2}\n" for at in range(40))
    (tmp_path / "own.csv").write_text(f"id,label,cat,dog\n{rows}")
    refused = gate("own.csv", [{"metric": "calibration.accuracy", "min": 0.5}])
    assert refused.exit_code == 2
    (tmp_path / "own.csv.manifest.json").write_text(re.findall(r"\{.*\}", refused.output.replace("\n", " "))[0])
    ended = gate("own.csv", [{"metric": "calibration.accuracy", "min": 0.5}])
    assert ended.exit_code == 0, ended.output
