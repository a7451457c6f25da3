import threading
from datetime import timedelta
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import func, select, update

from app.web.services import Services
from seatrial.contracts.audits import AuditEstimate, AuditRead, AuditSummary
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ModelState, RunState
from seatrial.families.cost import OVERHEAD_S
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.store import claiming, lifecycle
from seatrial.store.tables import AuditRow, IdempotencyRow, ModelRow
from seatrial.store.tables.base import utc_now
from seatrial.store.transitions import move
from tests.audits.acting import (
    FACTS,
    RESULT,
    SVG,
    end_check,
    first_check,
    make_ready,
    open_stage,
    run_shard,
    submit,
)
from tests.ingest.builders import png, zipped
from tests.uploads import dataset_manifest, model_manifest, npz, submission, upload, weights
from tests.web.test_problems import assert_problem


def test_a_submitted_audit_is_told_where_to_look(client: httpx.Client, pair: tuple[str, str]) -> None:
    answer = client.post("/v1/audits", json=submission(*pair))
    assert answer.status_code == 202
    told = AuditRead.model_validate(answer.json())
    assert answer.headers["location"] == f"/v1/audits/{told.id}"
    assert answer.headers["retry-after"].isdecimal()
    assert (told.state, told.verdict, told.kinds, told.estimated_s) == ("queued", None, ["uncertainty_span"], None)
    assert told.checks[0].params["selection"] == "best_entropy"
    assert told.checks[0].progress.model_dump() == {"stage": None, "done": 0, "total": 0, "remaining_s": None}
    assert client.get(answer.headers["location"]).json() == answer.json()


def test_the_digest_follows_the_bytes_and_the_request_alone(client: httpx.Client, pair: tuple[str, str]) -> None:
    def digest(**more: Any) -> str:
        return str(client.get(f"/v1/audits/{submit(client, pair, **more)}").json()["spec_digest"])

    assert digest() == digest()
    assert digest(seed=1) != digest()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model": "mdl_nowhere"}, "/model"),
        ({"model": "a\0b"}, "/model"),
        ({"dataset": "dat_nowhere"}, "/dataset"),
        ({"checks": [{"kind": "uncertainty_span", "outliers": {"dataset": "dat_no"}}]}, "/checks/0/outliers/dataset"),
        ({"checks": [{"kind": "uncertainty_span", "transfer_model": "mdl_no"}]}, "/checks/0/transfer_model"),
        ({"checks": [{"kind": "uncertainty_span", "parts": ["epistemic"]}]}, "/checks/0/parts"),
        ({"checks": []}, "/checks"),
        ({"samples": 1}, "/samples"),
        ({"seed": -1}, "/seed"),
        ({"policy": "pol_x"}, "/policy"),
    ],
)
def test_what_is_not_there_is_pointed_at(
    client: httpx.Client, services: Services, pair: tuple[str, str], change: dict[str, Any], pointer: str
) -> None:
    for path in ("/v1/audits", "/v1/audits/estimate"):
        problem = assert_problem(client.post(path, json=submission(*pair) | change), 422)
        assert problem.errors
        assert problem.errors[0].pointer == pointer
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(AuditRow)) == 0


def test_parts_are_asked_of_models_of_several_passes(client: httpx.Client, pair: tuple[str, str]) -> None:
    architecture = model_manifest()["architecture"] | {"dropout": 3}
    model = upload(client, "models", model_manifest(name="thinned", architecture=architecture), weights()).json()["id"]
    checks = [{"kind": "uncertainty_span", "parts": ["aleatoric", "epistemic"]}]
    assert client.post("/v1/audits", json=submission(model, pair[1], checks=checks)).status_code == 202


def test_model_and_data_must_fit_together(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    three = upload(client, "datasets", dataset_manifest(name="three"), npz(labels=[2] * 20)).json()["id"]
    images = np.zeros((20, 1, 8, 8), dtype=np.uint8)
    large = upload(client, "datasets", dataset_manifest(name="large"), npz(images=images)).json()["id"]
    for dataset in (three, large):
        problem = assert_problem(client.post("/v1/audits", json=submission(pair[0], dataset)), 422, "task-mismatch")
        assert problem.errors
        assert problem.errors[0].pointer == "/dataset"
    outliers = {"kind": "uncertainty_span", "outliers": {"dataset": large}}
    assert client.post("/v1/audits", json=submission(*pair, checks=[outliers])).status_code == 202
    wider = model_manifest(name="wider", input={"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]})
    other = upload(client, "models", wider, weights()).json()["id"]
    transfer = {"kind": "uncertainty_span", "transfer_model": other}
    problem = assert_problem(client.post("/v1/audits", json=submission(*pair, checks=[transfer])), 422, "task-mismatch")
    assert problem.errors
    assert problem.errors[0].pointer == "/checks/0/transfer_model"
    rejection = StoredProblem(code="state-dict-mismatch", title="Keys", detail="missing: 3.bias").model_dump()
    with services.database.write() as session:
        move(session, ModelRow, ModelState.REJECTED, ModelRow.id == pair[0], problem=rejection)
    problem = assert_problem(client.post("/v1/audits", json=submission(*pair)), 422, "state-dict-mismatch")
    assert problem.errors
    assert problem.errors[0].pointer == "/model"


def test_batches_that_fit_into_no_memory_are_refused(
    client: httpx.Client, services: Services, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The images have 1 x 4 x 4 values of 4 bytes.
    monkeypatch.setattr(services.settings, "max_batch_bytes", 64 * 16)
    for path in ("/v1/audits", "/v1/audits/estimate"):
        problem = assert_problem(client.post(path, json=submission(*pair, batch_size=17)), 422)
        assert problem.errors
        assert problem.errors[0].pointer == "/batch_size"
        assert "at most 16" in problem.detail
        assert "[1, 4, 4]" in problem.detail
    assert client.post("/v1/audits", json=submission(*pair, batch_size=16)).status_code == 202


def test_a_model_is_no_transfer_model_of_itself(client: httpx.Client, pair: tuple[str, str]) -> None:
    transfer = {"kind": "uncertainty_span", "transfer_model": pair[0]}
    problem = assert_problem(client.post("/v1/audits", json=submission(*pair, checks=[transfer])), 422)
    assert problem.errors
    assert problem.errors[0].pointer == "/checks/0/transfer_model"


def test_images_of_several_sizes_fit_no_stated_shape(client: httpx.Client, pair: tuple[str, str]) -> None:
    images = {f"{label}/{n}.png": png((4, 4 + n), "L") for label in "ab" for n in (0, 1)}
    mixed = upload(client, "datasets", dataset_manifest(name="mixed"), zipped(images))
    assert mixed.status_code == 201, mixed.text
    assert mixed.json()["facts"]["shape"] is None
    answer = client.post("/v1/audits", json=submission(pair[0], mixed.json()["id"]))
    problem = assert_problem(answer, 422, "task-mismatch")
    assert problem.errors
    assert problem.errors[0].pointer == "/dataset"
    assert "differ in size" in problem.detail
    outliers = {"kind": "uncertainty_span", "outliers": {"dataset": mixed.json()["id"]}}
    assert client.post("/v1/audits", json=submission(*pair, checks=[outliers])).status_code == 202


def test_the_step_size_is_stored_as_it_will_be(client: httpx.Client, pair: tuple[str, str]) -> None:
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5}
    told = client.post("/v1/audits", json=submission(*pair, checks=[check])).json()
    assert told["checks"][0]["params"]["step_size"] == told["spec"]["checks"][0]["step_size"] == 0.05
    again = client.post("/v1/audits", json=told["spec"]).json()
    assert again["spec_digest"] == told["spec_digest"]


def test_an_estimate_costs_nothing(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    blind = AuditEstimate.model_validate(client.post("/v1/audits/estimate", json=submission(*pair)).json())
    assert (blind.examples, blind.seconds) == (20, None)
    params = UncertaintySpanParams.model_validate(submission(*pair)["checks"][0])
    assert (blind.forward_passes, blind.backward_passes, blind.queries) == params.passes(20, {})[:3]
    make_ready(services)
    seen = AuditEstimate.model_validate(client.post("/v1/audits/estimate", json=submission(*pair)).json())
    assert seen.seconds == pytest.approx(OVERHEAD_S + 0.001 * seen.forward_passes + 0.002 * seen.backward_passes)
    # Of models checked before it was counted it is not known.
    assert (seen.memory_bytes, seen.checks[0]["memory_bytes"]) == (None, None)
    counted = FACTS | {"parameters": 50, "input_shape": [1, 8, 8], "forward_bytes": 1e6, "attack_bytes": 2e6}
    with services.database.write() as session:
        session.execute(update(ModelRow).values(facts=counted))
    small, large = (
        client.post("/v1/audits/estimate", json=submission(*pair) | {"batch_size": size}).json() for size in (1, 8)
    )
    # No more are audited than there are.
    assert small["notes"] == []
    (note,) = client.post("/v1/audits/estimate", json=submission(*pair) | {"samples": 500}).json()["notes"]
    assert "all are audited, where 500 were asked for" in note
    # A batch has no more examples than are audited.
    assert large["memory_bytes"] - small["memory_bytes"] == pytest.approx(7 * (3.2 * 2e6 + 10 * 256), abs=1)
    assert large["checks"][0]["memory_bytes"] == large["memory_bytes"]
    assert client.get("/v1/audits").json()["items"] == []


def test_an_audit_that_stops_when_it_is_decided_says_when_it_may(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    asked = submission(*pair, samples=1000, batch_size=4, policy="standard")
    stopping = {**asked, "stop": "decided"}
    whole = client.post("/v1/audits/estimate", json=asked).json()
    told = client.post("/v1/audits/estimate", json=stopping).json()
    assert whole["least_seconds"] is None
    assert told["checks"][0]["looks"][-1] == told["examples"]
    assert all(size % 4 == 0 for size in told["checks"][0]["looks"][:-1])
    assert told["least_seconds"] <= told["seconds"] == whole["seconds"]
    refused = client.post("/v1/audits", json={**stopping, "policy": None})
    assert_problem(refused, 422)
    assert refused.json()["errors"][0]["pointer"] == "/stop"
    # What decides when it stops is part of what is computed; what alone judges it is not.
    specs = [client.post("/v1/audits", json=one).json() for one in (asked, {**asked, "policy": "strict"})]
    assert len({one["spec_digest"] for one in specs}) == 1
    assert "stop" not in specs[0]["spec"]
    specs = [client.post("/v1/audits", json=one).json() for one in (stopping, {**stopping, "policy": "strict"})]
    assert len({one["spec_digest"] for one in specs}) == 2
    assert [one["spec"]["policy"]["name"] for one in specs] == ["standard", "strict"]
    again = client.post("/v1/audits", json=specs[0]["spec"]).json()
    assert again["spec"] == specs[0]["spec"]


@pytest.mark.slow
def test_an_audit_is_followed_to_its_end(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    make_ready(services)
    audit = submit(client, pair)
    check = first_check(services, audit)
    assert client.get(f"/v1/audits/{audit}").json()["checks"][0]["progress"]["remaining_s"] > 0
    open_stage(services, check, "preflight", [(0, 20)])
    run_shard(services)
    open_stage(services, check, "attack", [(0, 10), (10, 20)])
    run_shard(services)
    told = client.get(f"/v1/audits/{audit}").json()
    assert (told["state"], told["checks"][0]["stages"]) == ("running", ["preflight", "attack"])
    progress = told["checks"][0]["progress"]
    assert (progress["stage"], progress["done"], progress["total"]) == ("attack", 10, 20)
    assert progress["remaining_s"] > 0
    run_shard(services)
    end_check(services)
    told = client.get(f"/v1/audits/{audit}").json()
    AuditRead.model_validate(told)
    assert told["state"] == "succeeded"
    assert told["checks"][0]["result"] == RESULT
    assert told["checks"][0]["figures"] == ["span"]
    assert told["checks"][0]["progress"] == {"stage": "attack", "done": 20, "total": 20, "remaining_s": 0.0}
    for name in ("span", "span.svg"):
        figure = client.get(f"/v1/audits/{audit}/figures/uncertainty_span/{name}")
        assert (figure.content, figure.headers["content-type"]) == (SVG, "image/svg+xml")
        assert "sandbox" in figure.headers["content-security-policy"]
    assert_problem(client.get(f"/v1/audits/{audit}/figures/0/other"), 404)


def test_what_is_told_is_what_is_documented(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    audit = submit(client, pair)
    told = client.get(f"/v1/audits/{audit}").json()
    assert AuditRead.model_validate(told).model_dump(mode="json") == told
    summary = client.get("/v1/audits").json()["items"][0]
    assert AuditSummary.model_validate(summary).model_dump(mode="json") == summary
    assert (
        AuditRead.model_validate(told).subject == AuditSummary.model_validate(summary).subject == "parity 1 on parity 1"
    )


def test_a_waiting_audit_is_cancelled_at_once(client: httpx.Client, pair: tuple[str, str]) -> None:
    audit = submit(client, pair)
    answer = client.post(f"/v1/audits/{audit}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    assert answer.json()["checks"][0]["state"] == "cancelled"
    assert_problem(client.post(f"/v1/audits/{audit}/cancel"), 409)
    assert_problem(client.post(f"/v1/audits/{audit}/retry"), 409)


def test_a_running_audit_is_cancelling_until_the_worker_says_so(
    client: httpx.Client, services: Services, pair: tuple[str, str]
) -> None:
    make_ready(services)
    audit = submit(client, pair)
    open_stage(services, first_check(services, audit), "preflight", [(0, 20)])
    with services.database.write() as session:
        claimed = claiming.claim_shard(session, lease_s=60, worker="w")
    assert claimed is not None
    for _ in range(2):
        assert client.post(f"/v1/audits/{audit}/cancel").json()["state"] == "cancelling"
    with services.database.write() as session:
        lifecycle.close_shard(session, *claimed, RunState.CANCELLED)
    assert client.get(f"/v1/audits/{audit}").json()["state"] == "cancelled"


def test_only_what_failed_is_retried(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    make_ready(services)
    audit = submit(client, pair)
    check = first_check(services, audit)
    assert_problem(client.post(f"/v1/audits/{audit}/retry"), 409)
    open_stage(services, check, "attack", [(0, 10), (10, 20)])
    run_shard(services)
    run_shard(services, fails=True)
    end_check(services, RunState.FAILED)
    failed = client.get(f"/v1/audits/{audit}").json()
    assert (failed["state"], failed["checks"][0]["error"]["code"]) == ("failed", "broken")
    answer = client.post(f"/v1/audits/{audit}/retry")
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    assert answer.json()["checks"][0]["error"] is None
    run_shard(services)
    end_check(services)
    assert client.get(f"/v1/audits/{audit}").json()["state"] == "succeeded"


def test_the_same_key_and_body_is_one_audit(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    body, header = submission(*pair), {"Idempotency-Key": "k-1"}
    first = client.post("/v1/audits", json=body, headers=header)
    client.post(f"/v1/audits/{first.json()['id']}/cancel")
    again = client.post("/v1/audits", json=dict(reversed(body.items())), headers=header)
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["retry-after"] == first.headers["retry-after"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert_problem(client.post("/v1/audits", json=body | {"seed": 9}, headers=header), 422, "idempotency-key-reused")
    for bad in ("", " ", "x" * 256, "a b"):
        problem = assert_problem(client.post("/v1/audits", json=body, headers={"Idempotency-Key": bad}), 422)
        assert problem.errors
        assert (problem.errors[0].part, problem.errors[0].pointer) == ("header", "/idempotency-key")
    with services.database.write() as session:
        session.execute(update(IdempotencyRow).values(created_at=utc_now() - timedelta(hours=25)))
    assert client.post("/v1/audits", json=body, headers=header).json()["id"] != first.json()["id"]


def test_a_refused_request_does_not_use_up_its_key(client: httpx.Client, pair: tuple[str, str]) -> None:
    header = {"Idempotency-Key": "k-2"}
    assert_problem(client.post("/v1/audits", json=submission("mdl_x", pair[1]), headers=header), 422)
    assert client.post("/v1/audits", json=submission(*pair), headers=header).status_code == 202


def test_two_at_once_with_one_key_are_one_audit(client: httpx.Client, pair: tuple[str, str]) -> None:
    body, answers = submission(*pair), []

    def post() -> None:
        answers.append(client.post("/v1/audits", json=body, headers={"Idempotency-Key": "race"}))

    threads = [threading.Thread(target=post) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(client.get("/v1/audits").json()["items"]) == 1


def test_lists_are_filtered(client: httpx.Client, services: Services, pair: tuple[str, str]) -> None:
    other = upload(client, "models", model_manifest(name="other"), weights()).json()["id"]
    first, second = submit(client, pair), submit(client, (other, pair[1]))
    client.post(f"/v1/audits/{first}/cancel")

    def ids(query: str) -> list[str]:
        return [audit["id"] for audit in client.get(f"/v1/audits?{query}").json()["items"]]

    assert ids("") == [second, first]
    assert ids("state=cancelled") == [first]
    assert ids(f"model={other}") == [second]
    assert ids("verdict=passed") == []


def test_a_defence_no_attack_asked_for_can_be_run_on_is_refused(client: httpx.Client, pair: tuple[str, str]) -> None:
    check = {"kind": "transductive_attack", "attacks": ["defence_autoattack"]}
    body = submission(*pair) | {"checks": [check | {"defences": [{"name": "tent"}]}]}
    problem = assert_problem(client.post("/v1/audits", json=body), 422)
    assert problem.errors is not None
    assert problem.errors[0].pointer == "/checks/0/attacks"
    assert "cannot be run on tent" in problem.errors[0].detail
    body["checks"] = [check | {"defences": [{"name": "identity"}]}]
    assert client.post("/v1/audits", json=body).status_code == 202
