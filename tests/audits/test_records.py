import base64
import csv
import io
import json

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from app.web.services import Services
from seatrial.store.tables import ShardRow
from tests.audits import acting
from tests.audits.acting import end_check, first_check, make_ready, open_stage, records, run_shard
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem


def run(client: httpx.Client, services: Services, pieces: list[tuple[int, int]], *, seed: int = 0) -> str:
    pair = upload_both(client)
    make_ready(services)
    audit = str(client.post("/v1/audits", json=submission(*pair, seed=seed)).json()["id"])
    check = first_check(services, audit)
    open_stage(services, check, "preflight", [(0, 5)])
    run_shard(services)
    open_stage(services, check, "attack", pieces)
    for _ in pieces:
        run_shard(services)
    end_check(services)
    return audit


def test_records_are_the_same_bytes_however_they_were_cut(client: httpx.Client, services: Services) -> None:
    whole = run(client, services, [(0, 20)])
    cut = run(client, services, [(0, 4), (4, 8), (8, 16), (16, 20)], seed=1)
    for form in ("parquet", "jsonl", "csv"):
        one, other = (client.get(f"/v1/audits/{audit}/records/0?format={form}") for audit in (whole, cut))
        assert one.status_code == 200
        assert one.content == other.content
        assert one.headers["seatrial-complete"] == "true"
    table = pq.read_table(io.BytesIO(client.get(f"/v1/audits/{cut}/records/0").content))
    assert table.num_rows == 20
    rows = list(csv.DictReader(io.StringIO(other.text, newline="")))
    assert [int(row["example_id"]) for row in rows] == table["example_id"].to_pylist()
    assert list(rows[0]) == table.column_names


def test_a_check_is_named_by_id_position_or_kind(client: httpx.Client, services: Services) -> None:
    audit = run(client, services, [(0, 20)])
    names = (first_check(services, audit), "0", "uncertainty_span")
    assert len({client.get(f"/v1/audits/{audit}/records/{name}").content for name in names}) == 1
    assert_problem(client.get(f"/v1/audits/{audit}/records/1"), 404)
    absent = assert_problem(client.get(f"/v1/audits/{audit}/records/0?stage=atack"), 404, "no-records")
    assert "no stage 'atack' with records: did you mean 'attack'? Begun so far: preflight, attack." in absent.detail
    assert client.get(f"/v1/audits/{audit}/records/0?stage=preflight").headers["seatrial-stage"] == "preflight"
    pair = upload_both(client)
    checks = [{"kind": "uncertainty_span", "steps": steps} for steps in (1, 2)]
    twice = client.post("/v1/audits", json=submission(*pair, checks=checks)).json()["id"]
    assert "2 checks" in assert_problem(client.get(f"/v1/audits/{twice}/records/uncertainty_span"), 404).detail


def test_the_stage_that_attacks_is_shown_before_what_was_fitted_for_it(
    client: httpx.Client, services: Services
) -> None:
    pair = upload_both(client)
    make_ready(services)
    audit = client.post("/v1/audits", json=submission(*pair)).json()["id"]
    shown = []
    for stage in ("preflight", "validation", "attack_pwws", "attack_bae"):
        open_stage(services, first_check(services, audit), stage, [(0, 20)])
        run_shard(services)
        shown.append(client.get(f"/v1/audits/{audit}/records/0").headers.get("seatrial-stage"))
    assert shown == [None, "validation", "attack_pwws", "attack_pwws"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/vnd.apache.parquet"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("text/html, application/x-ndjson;q=0.5", "application/x-ndjson"),
        ("text/html", None),
    ],
)
def test_the_format_is_negotiated(
    client: httpx.Client, services: Services, accept: str, media_type: str | None
) -> None:
    audit = run(client, services, [(0, 20)])
    answer = client.get(f"/v1/audits/{audit}/records/0", headers={"Accept": accept})
    if media_type is None:
        assert_problem(answer, 406)
    else:
        assert answer.headers["content-type"].partition(";")[0] == media_type
    forced = client.get(f"/v1/audits/{audit}/records/0?format=jsonl", headers={"Accept": accept})
    rows = [json.loads(line) for line in forced.text.splitlines()]
    assert [row["example_id"] for row in rows] == records(0, 20)["example_id"].to_pylist()
    assert rows[3]["clean_entropy"] is None


def test_bytes_are_base64_in_json_lines(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [bytes([n, 0, 255]) if n else None for n in range(20)]

    def with_images(start: int, stop: int) -> pa.Table:
        return records(start, stop).append_column("image_pgd", pa.array(images[start:stop], pa.large_binary()))

    monkeypatch.setattr(acting, "records", with_images)
    audit = run(client, services, [(0, 20)])
    answer = client.get(f"/v1/audits/{audit}/records/0?format=jsonl")
    told = [json.loads(line)["image_pgd"] for line in answer.text.splitlines()]
    assert [text and base64.b64decode(text, validate=True) for text in told] == images


def test_what_is_finished_can_be_read_while_it_runs(client: httpx.Client, services: Services) -> None:
    pair = upload_both(client)
    make_ready(services)
    audit = client.post("/v1/audits", json=submission(*pair)).json()["id"]
    assert_problem(client.get(f"/v1/audits/{audit}/records/0"), 404, "no-records")
    open_stage(services, first_check(services, audit), "attack", [(0, 10), (10, 20)])
    assert_problem(client.get(f"/v1/audits/{audit}/records/0"), 404, "no-records")
    run_shard(services)
    answer = client.get(f"/v1/audits/{audit}/records/0?format=jsonl")
    assert answer.headers["seatrial-complete"] == "false"
    assert len(answer.text.splitlines()) == 10


def test_lost_bytes_are_told(client: httpx.Client, services: Services) -> None:
    audit = run(client, services, [(0, 20)])
    model = client.get(f"/v1/audits/{audit}").json()["model"]
    services.store.delete(client.get(f"/v1/models/{model}").json()["digest"])
    assert_problem(client.get(f"/v1/models/{model}/content"), 410, "bytes-missing")


def damage(services: Services, digest: str) -> None:
    """Overwrite a stored file, which keeps its size."""
    path = services.store.local_path(digest)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(bytes(data))


def test_a_damaged_file_of_records_is_told_and_not_read(client: httpx.Client, services: Services) -> None:
    audit = run(client, services, [(0, 20)])
    with services.database.read() as session:
        digest = session.scalars(select(ShardRow.records_digest).order_by(ShardRow.id)).all()[-1]
    damage(services, str(digest))
    for query in ("", "?format=jsonl"):
        assert_problem(client.get(f"/v1/audits/{audit}/records/0{query}"), 410, "artifact-damaged")
    assert_problem(client.get(f"/v1/audits/{audit}/bundle"), 410, "artifact-damaged")


def test_the_same_upload_again_mends_its_damaged_file(client: httpx.Client, services: Services) -> None:
    first, _ = upload_both(client)
    digest = client.get(f"/v1/models/{first}").json()["digest"]
    damage(services, digest)
    assert_problem(client.get(f"/v1/models/{first}/content"), 410, "artifact-damaged")
    assert upload_both(client)[0] == first
    services.store.verify(digest)
    assert client.get(f"/v1/models/{first}/content").status_code == 200
    services.store.delete(digest)
    assert upload_both(client)[0] == first
    services.store.verify(digest)


def test_pages_put_together_are_the_whole_table(client: httpx.Client, services: Services) -> None:
    address = f"/v1/audits/{run(client, services, [(0, 4), (4, 8), (8, 20)])}/records/0?format=jsonl"
    lines, offset = "", "0"
    while offset:
        page = client.get(f"{address}&limit=6&offset={offset}")
        lines, offset = lines + page.text, page.headers.get("seatrial-next-offset", "")
    assert lines == client.get(address).text
    assert client.get(f"{address}&offset=17").text.splitlines() == lines.splitlines()[17:]
    beyond = client.get(f"{address}&offset=20".replace("jsonl", "parquet"))
    assert pq.read_table(io.BytesIO(beyond.content)).schema.names == records(0, 1).column_names
    assert_problem(client.get(f"{address}&limit=10001"), 422)


def test_what_is_damaged_while_it_is_sent_ends_the_answer_early(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = run(client, services, [(0, 10), (10, 20)])
    with services.database.read() as session:
        digest = str(session.scalars(select(ShardRow.records_digest).order_by(ShardRow.id)).all()[-1])
    path = services.store.local_path(digest)
    # As if it were damaged right after it was looked at.
    monkeypatch.setattr(services.store, "local_path", lambda digest: None)
    path.write_bytes(b"PAR1")
    # The server closes the connection of an application that raises, and the client knows that the end is missing.
    monkeypatch.setattr(client._transport, "raise_server_exceptions", True)
    with pytest.raises(RuntimeError, match="already started"):
        client.get(f"/v1/audits/{audit}/records/0?format=jsonl")
