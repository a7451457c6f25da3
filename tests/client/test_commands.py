"""Policies, verdicts, baselines, and remote gates, from the command line against a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select

from app.cli import main, remote
from seatrial.client import Client, sync_session
from seatrial.store.artifacts import open_store
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, BaselineRow, ModelRow
from tests import assets
from tests.client.conftest import Server
from tests.console import seeding

POLICY = """
name: release
description: What must hold.
rules:
  - {metric: uncertainty_span.clean_accuracy, min: 0.9}
checks:
  - {kind: uncertainty_span, steps: 3}
samples: 50
"""

Run = Callable[..., Result]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder, data and a policy file in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEATRIAL_HOME", str(tmp_path / "home"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (model / "weights.safetensors").write_bytes(assets.weights())
    (tmp_path / "digits.npz").write_bytes(assets.npz(60))
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def run(server: Server, repository: Path) -> Run:
    """Return what runs a command against the server."""

    def called(*arguments: object) -> Result:
        words = [*(str(one) for one in arguments), "--server", server.url]
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return called


@pytest.fixture
def cancelled(client: Client, repository: Path) -> str:
    """An audit that has ended without a number."""
    model = client.add_model(repository / "model" / "weights.safetensors", assets.model_manifest(), wait_s=0)
    data = client.add_dataset(repository / "digits.npz", assets.dataset_manifest())
    audit = client.submit(model.id, data.id, [{"kind": "uncertainty_span", "steps": 3, "effort": "quick"}], samples=50)
    return client.cancel(audit.id).id


@pytest.mark.slow
def test_a_policy_is_stored_listed_and_shown(run: Run) -> None:
    assert run("policies", "add", "policy.yaml").stdout == "release@1\n"
    assert run("policies", "add", "policy.yaml").stdout == "release@1\n"
    assert run("policies", "list").stdout == "release@1  1 rules  What must hold.\n"
    shown = json.loads(run("policies", "show", "release").stdout)
    assert shown["rules"][0]["min"] == 0.9
    assert [one["kind"] for one in shown["checks"]] == ["uncertainty_span"]
    assert "samples" not in shown
    assert run("policies", "show", "nothing").exit_code == 2
    assert "standard@" in run("policies", "list", "--shipped").stdout


def test_what_a_file_holds_beside_its_policy_is_said_to_be_left_out(run: Run, repository: Path) -> None:
    told = "Not stored, as no part of a policy: samples. Give them with the audit.\n"
    assert told in run("policies", "add", "policy.yaml").stderr
    (repository / "policy.yaml").write_text(POLICY.partition("samples:")[0])
    assert "Not stored" not in run("policies", "add", "policy.yaml").stderr


def test_an_audit_without_numbers_is_never_passed(run: Run, cancelled: str) -> None:
    for policy in ("policy.yaml", "standard"):
        judged = run("judge", cancelled, "--policy", policy)
        assert judged.exit_code == 4, judged.output
        assert judged.stdout.rstrip().rpartition("\n")[2].startswith("Could not be judged: ")
    refused = run("judge", cancelled, "--policy", "nothing")
    assert (refused.exit_code, "nothing" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_only_a_succeeded_audit_is_promoted(run: Run, cancelled: str) -> None:
    assert run("baselines", "promote", cancelled).exit_code == 2
    assert run("baselines", "list").stdout == ""


def test_audits_are_listed_by_state(run: Run, client: Client, cancelled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The list has the names: nothing is asked once more for each.
    monkeypatch.setattr(Client, "model", None)
    monkeypatch.setattr(Client, "dataset", None)
    (line,) = run("audit", "list", "--state", "cancelled").stdout.splitlines()
    assert line.split()[0] == cancelled
    state, verdict, *of, kind = line.split()[3:]
    assert (state, verdict, kind) == ("cancelled", "-", "uncertainty_span")
    # Of which model and data, by name and version.
    assert of == ["digits-cnn", "1", "on", "digits", "1"]
    assert run("audit", "list", "--state", "queued").stdout == ""
    (listed,) = client.audits()
    assert repr(listed) == f"<Audit {cancelled}: digits-cnn 1 on digits 1, cancelled; uncertainty_span>"


def test_what_is_tagged_is_found(run: Run, cancelled: str) -> None:
    assert run("tag", cancelled, "stage=prod", "old").stdout.splitlines() == ["old", "stage=prod"]
    assert run("tag", cancelled, "--remove", "old").stdout.splitlines() == ["stage=prod"]
    assert run("tag", cancelled).stdout.splitlines() == ["stage=prod"]
    (line,) = run("search", "--tag", "stage=prod").stdout.splitlines()
    assert line.split()[0] == cancelled
    assert line.endswith("#stage=prod")
    assert run("search", "--tag", "stage=prod", "--verdict", "passed").stdout == ""
    refused = run("search", "--of", "models", "--verdict", "passed")
    assert (refused.exit_code, "Only audits have a verdict" in refused.stderr) == (2, True)


def test_a_leaderboard_is_printed_in_every_form(run: Run, client: Client, server: Server, cancelled: str) -> None:
    data = client.audit(cancelled).dataset
    asked = ("leaderboard", "--data", data, "--check", "uncertainty_span")
    assert "No model has been measured" in run(*asked).stdout
    store = open_store(server.settings)
    first = seeding.finished(server.database, store, over=0.1, under=1.0)
    second = seeding.finished(
        server.database, store, model={"version": "better"}, dataset_of=first, over=0.3, under=0.5
    )
    asked = ("leaderboard", "--data", client.audit(first).dataset, "--check", "uncertainty_span", "--metric", "mus")
    rows = [line for line in run(*asked, "--against", first).stdout.splitlines() if line.startswith("|")]
    assert "better" in rows[2]
    assert run(*asked, "--format", "csv").stdout.splitlines()[1].split(",")[6] == second
    told = json.loads(run(*asked, "--format", "json").stdout)
    assert [row["audit"] for row in told["rows"]] == [second, first]
    refused = run(*asked, "--group", "none")
    assert (refused.exit_code, "There is no group 'none'" in refused.stderr) == (2, True)


def test_training_runs_are_compared_in_every_form(run: Run, client: Client, server: Server) -> None:
    store = open_store(server.settings)
    of = [{"name": "runs", "version": f"s{at}", "digest": f"sha256:{at}"} for at in range(2)]
    first = seeding.finished(server.database, store, model=of[0], over=0.1, under=1.0)
    second = seeding.finished(server.database, store, model=of[1], dataset_of=first, over=0.3, under=0.5)
    asked = ("compare", first, second, "--metric", "uncertainty_span.mus")
    told = client.compare([first, second], metrics=["uncertainty_span.mus"]).groups[0].numbers["uncertainty_span.mus"]
    assert f"{told.mean:.4f} ± {told.sd:.4f}" in run(*asked).stdout
    assert run(*asked, "--format", "csv").stdout.splitlines()[1].startswith("runs,2,")
    groups = ("--group", f"one={first}", "--group", f"two={second}")
    read = json.loads(run("compare", *groups, "--format", "json").stdout)
    assert [(group["name"], len(group["audits"])) for group in read["groups"]] == [("one", 1), ("two", 1)]
    for wrong, words in (("one", "is not NAME=AUDIT"), (f"runs={first}", "asked for twice")):
        refused = run(*asked, "--group", wrong)
        assert (refused.exit_code, words in refused.stderr) == (2, True), refused.stderr


def test_an_audit_is_described_by_options_alone(run: Run, client: Client, cancelled: str) -> None:
    before = client.audit(cancelled)
    submitted = run(
        "audit", "submit", "--model", before.model, "--data", before.dataset, "--policy", "policy.yaml", "--seed", 4
    )
    audit = client.audit(submitted.stdout.strip())
    assert (audit.samples, audit.seed, audit.kinds) == (50, 4, ["uncertainty_span"])
    assert audit.verdict is None
    client.cancel(audit.id)
    assert client.wait(audit.id, until_judged=True, timeout_s=20).verdict == "errored"


def test_a_remote_gate_that_runs_out_of_time_cancels_and_writes_what_there_is(
    run: Run, client: Client, repository: Path
) -> None:
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--timeout", 2)
    ended = run(*gate, "--junit", "junit.xml", "--markdown", "comment.md")
    assert ended.exit_code == 5, ended.output
    assert "Time on one worker, by estimate: unknown" in ended.stderr
    assert "errored" in ended.stdout
    for told in (ended.stdout, ended.stderr):
        assert "Timed out after 2 s (--timeout).\n" in told
    assert ended.stdout.endswith("Timed out after 2 s (--timeout).\n")
    assert "after 0 s" not in ended.stderr
    (audit,) = client.audits()
    assert (audit.state, audit.verdict) == ("cancelled", "errored")
    assert ElementTree.parse(repository / "junit.xml").find(".//error") is not None
    assert "clean_accuracy" in (repository / "comment.md").read_text()


def test_a_gate_may_leave_its_audit_running(run: Run, server: Server, client: Client) -> None:
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--timeout", 1)
    ended = run(*gate, "--no-cancel")
    (audit,) = client.audits()
    assert (ended.exit_code, audit.state) == (5, "queued")
    assert f"seatrial audit status {audit.id}" in ended.stderr
    assert f"In the console: {server.url}/audits/{audit.id}" in ended.stderr


def test_a_gate_that_names_a_baseline_is_compared_with_it(run: Run, server: Server, cancelled: str) -> None:
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--baseline", "last-good")
    with server.database.write() as session:
        stored = session.execute(select(AuditRow, ModelRow.name).join(ModelRow, AuditRow.model_id == ModelRow.id)).one()
        row = {"project_id": stored.AuditRow.project_id, "model_name": stored.name, "audit_id": cancelled, "note": ""}
        session.add(BaselineRow(id=new_id("bas"), name="last-good", **row))
    # Nobody checks the model here, so nobody waits for it.
    told = run(*gate, "--estimate-only", "--timeout", 0)
    assert told.exit_code == 0, told.output
    assert run(*gate, "--timeout", 0, "--no-cancel").exit_code == 5
    with server.database.read() as session:
        assert session.scalars(select(AuditRow.baseline).where(AuditRow.id != cancelled)).one() == "last-good"
    for model in ("model", stored.AuditRow.model_id):
        refused = run(*gate[:2], model, *gate[3:8], "last-god")
        assert refused.exit_code == 2, refused.output
        assert (
            f"Model {stored.name} has no baseline 'last-god': did you mean 'last-good'? It has last-good."
            in refused.stderr
        )


def test_a_baseline_that_is_not_there_is_refused_unless_this_run_is_to_make_it(run: Run, client: Client) -> None:
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--timeout", 0)
    refused = run(*gate, "--baseline", "champion")
    assert refused.exit_code == 2, refused.output
    assert "has no baseline 'champion'; there are none. Promote one, " in refused.stderr
    # Nothing was sent for it.
    assert list(client.models()) == []
    for options in (("--baseline", "champion", "--promote-if-passed"), ()):
        told = run(*gate, *options, "--estimate-only")
        assert told.exit_code == 0, told.output
        assert ("has no baseline 'champion'; there are none. What is compared" in told.stdout) == bool(options)


def test_a_policy_that_no_first_audit_can_pass_is_refused_where_it_is_to_make_the_baseline(
    run: Run, client: Client
) -> None:
    rule = {"metric": "uncertainty_span.clean_accuracy", "max_regression": 0.02, "label": "No less right"}
    Path("compared.yaml").write_text(json.dumps({"name": "release", "rules": [rule]}))
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "compared.yaml", "--timeout", 0)
    refused = run(*gate, "--promote-if-passed")
    assert refused.exit_code == 2, refused.output
    assert "has no baseline 'champion' yet, and No less right must be compared with one" in refused.stderr
    assert "`required: false` in that rule" in refused.stderr
    assert list(client.models()) == []
    Path("compared.yaml").write_text(json.dumps({"name": "release", "rules": [{**rule, "required": False}]}))
    assert run(*gate, "--promote-if-passed", "--estimate-only").exit_code == 0
    # Of a family that is not run nothing is required.
    for metric, status in (("uncertainty_span.clean_accuracy", 2), ("certified_calibration.accuracy", 0)):
        asked = [{**rule, "metric": metric, "required": "if_run"}, {"metric": "uncertainty_span.mus", "max": 1}]
        policy = {"name": "release", "rules": asked, "checks": [{"kind": "uncertainty_span"}]}
        Path("compared.yaml").write_text(json.dumps(policy))
        assert run(*gate, "--promote-if-passed", "--estimate-only").exit_code == status


def test_an_estimate_of_what_a_quota_would_refuse_says_so(
    run: Run, server: Server, client: Client, cancelled: str
) -> None:
    stored = client.audit(cancelled)
    client.submit(stored.model, stored.dataset, [{"kind": "uncertainty_span"}], samples=50)
    limits = httpx.patch(f"{server.url}/v1/projects/default", json={"quotas": {"unfinished_audits": 1}})
    assert limits.status_code == 200, limits.text
    gate = ("gate", "--model", stored.model, "--data", stored.dataset, "--policy", "policy.yaml")
    told = run(*gate, "--estimate-only")
    assert told.exit_code == 2, told.output
    assert told.stdout.startswith("At most: ")
    assert "It would be refused now: This project may have 1 unfinished audit" in told.stderr


def test_a_quota_that_is_used_up_ends_a_gate_with_what_the_service_says(
    run: Run, server: Server, client: Client, cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = client.audit(cancelled)
    client.submit(stored.model, stored.dataset, [{"kind": "uncertainty_span"}], samples=50)
    limits = httpx.patch(f"{server.url}/v1/projects/default", json={"quotas": {"unfinished_audits": 1}})
    assert limits.status_code == 200, limits.text
    pauses: list[float] = []
    asked, real = pauses.append, sync_session.pause_before_retry
    monkeypatch.setattr(sync_session, "pause_before_retry", lambda *a, **named: asked(real(*a, **named)) or 0.0)
    ended = run("gate", "--model", stored.model, "--data", stored.dataset, "--policy", "policy.yaml", "--timeout", 20)
    assert ended.exit_code == 2, ended.output
    assert "This project may have 1 unfinished audit (unfinished_audits); it has 1: wait for one to end" in ended.stderr
    assert pauses == []


def test_a_time_limit_holds_while_an_audit_is_submitted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            429, headers={"Retry-After": "60"}, json={"title": "Too many requests", "detail": "Rest."}
        )

    transport = httpx.MockTransport(busy)
    monkeypatch.setattr(remote, "Client", lambda url, key: Client(url, key, transport=transport))
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml")
    audit = ("audit", "run", "--model", "mdl_1", "--data", "dat_1", "--checks", "policy.yaml")
    for command in (gate, audit):
        ended = run(*command, "--timeout", 5)
        assert ended.exit_code == 5, ended.output
        assert "Timed out (--timeout): no time is left to ask again: Too many requests: Rest.\n" in ended.stderr


def test_an_estimate_submits_nothing_and_what_is_stored_is_named(run: Run, client: Client, cancelled: str) -> None:
    stored = client.audit(cancelled)
    gate = ("gate", "--model", stored.model, "--data", stored.dataset, "--policy", "policy.yaml", "--estimate-only")
    told = run(*gate, "--samples", 20)
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("At most: 20 examples, ")
    assert len(list(client.audits())) == 1


def test_a_shipped_policy_comes_without_checks_and_the_default_is_told(run: Run, client: Client) -> None:
    gate = ("gate", "--model", "model", "--data", "digits.npz", "--policy", "standard", "--timeout", 0)
    told = run(*gate, "--estimate-only")
    assert told.exit_code == 0, told.output
    assert "Policy standard names no checks: running " in told.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "none", "--data", "digits.npz", "--policy", "policy.yaml"), "none: there is no such file"),
        (("--model", "model", "--data", "digits.npz", "--policy", "none.yaml"), "none.yaml cannot be read"),
        (
            ("--model", "model", "--data", "digits.npz", "--policy", "stricct"),
            "did you mean 'strict'? There are lenient,",
        ),
        (
            ("--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--baseline", "champion"),
            "--baseline champion: a gate that leaves nothing behind has none: give --home DIR",
        ),
        (("--model", "mdl_1", "--data", "digits.npz", "--policy", "policy.yaml"), "give --server, or --home"),
        (("--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--junit", "model"), "model"),
        (
            ("--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", "--server", "nonsense"),
            "is not an address",
        ),
        (
            ("--model", "model", "--data", "digits.npz", "--policy", "x.yaml", "--server", "http://h", "--home", "h"),
            "x.yaml cannot be read",
        ),
        (("--model", "model", "--data", "digits.npz"), "Missing option '--policy'"),
    ],
    ids=["model", "policy-file", "policy", "baseline", "stored-without-service", "output", "address", "both", "option"],
)
def test_what_cannot_be_asked_ends_with_2_before_anything_is_started(
    repository: Path, arguments: tuple[str, ...], told: str
) -> None:
    refused = CliRunner().invoke(main, ["gate", *arguments], catch_exceptions=False)
    assert refused.exit_code == 2, refused.output
    assert told in refused.stderr


def test_a_policy_nobody_stored_is_told_before_anything_is_sent(run: Run, client: Client) -> None:
    strict = ": did you mean 'strict'? There are"
    for name, told in (("stricct", strict), ("Strict", strict), ("release@2", "; there are")):
        refused = run("gate", "--model", "model", "--data", "digits.npz", "--policy", name)
        assert refused.exit_code == 2
        assert f"there is no policy '{name}'{told} lenient, standard, strict, and files" in refused.stderr
        assert "Sending" not in refused.stderr
    assert list(client.models()) == []


def test_columns_of_other_names_are_refused_with_the_file_that_says_which(run: Run, repository: Path) -> None:
    pq.write_table(pa.table({"pixels": [b"1", b"2"], "digit": [1, 2]}), repository / "digits.parquet")
    gate = ("gate", "--model", "model", "--data", "digits.parquet", "--policy", "standard", "--timeout", 0)
    refused = run(*gate)
    assert refused.exit_code == 2, refused.output
    assert "/manifest/columns/image: " in refused.stderr
    wanted = '{"columns": {"image": "NAME", "label": "NAME"}}'
    assert f"Set it in digits.parquet.manifest.json, or in a file given by --data-manifest: {wanted}" in refused.stderr
    (repository / "columns.json").write_text(json.dumps({"columns": {"image": "picture", "label": "digit"}}))
    assert "\nSet it in columns.json: " in run(*gate, "--data-manifest", "columns.json").stderr


def test_a_home_and_a_server_exclude_each_other(repository: Path) -> None:
    gate = ["gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml"]
    refused = CliRunner().invoke(main, [*gate, "--server", "http://h", "--home", "h"])
    assert refused.exit_code == 2
    assert "leave it out, or --server" in refused.stderr
