"""Every shell step of ``docs/ci`` is run, as its runner would, in a repository like the one the page describes.

Nothing is installed and no cluster is asked: ``pip`` and ``kubectl`` are stand-ins. Of the pipelines one measures by
itself; the others ask one service, which wants its key. GitLab's job that measures by itself has the script of the one
that asks.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.client import Client
from tests.servers import die_with_parent, eventually
from tests.snippets import fakes
from tests.snippets.conftest import KEY, Repository
from tests.snippets.snippets import container, fenced, github_steps, gitlab_job, jenkins_steps

pytestmark = pytest.mark.slow

HOLDS, UNDECIDED, BROKEN = 0.85, 0.96, 0.999
"""Bounds on a clean accuracy of 0.973, in [0.933, 0.993]."""


def github(repository: Repository, job: str, **environment: str) -> dict[str, int]:
    """Run a job's steps as GitHub does, those of a shell; return how each ended, by its name."""
    summary = repository.folder.parent / "summary.md"
    ended: dict[str, int] = {}
    for step in github_steps(job):
        is_wanted = "always()" in step.get("if", "") or not any(ended.values())
        # These are pushes: nobody is there to be told by a comment.
        is_wanted = is_wanted and "event_name == 'pull_request'" not in step.get("if", "")
        files = re.findall(r"hashFiles\('(.+?)'\)", step.get("if", ""))
        if "run" not in step or not is_wanted or not all((repository.folder / file).is_file() for file in files):
            continue
        script = repository.folder.parent / "step.sh"
        script.write_text(step["run"])
        done = repository.run("bash", "-e", str(script), GITHUB_STEP_SUMMARY=str(summary), **environment)
        print(done.stdout, done.stderr)
        ended[step.get("name", step["run"])] = done.returncode
    return ended


def assert_uploads(repository: Repository, job: str, verdict: str) -> None:
    """Look that what a job uploads is there and says the verdict."""
    by_action = {step["uses"].partition("@")[0]: step.get("with", {}) for step in github_steps(job) if "uses" in step}
    sarif = repository.folder / by_action["github/codeql-action/upload-sarif"]["sarif_file"]
    assert json.loads(sarif.read_text())["runs"][0]["properties"]["verdict"] == verdict
    artifacts = repository.folder / by_action["actions/upload-artifact"]["path"]
    assert {path.name for path in artifacts.iterdir()} == {f"seatrial.{end}" for end in ("xml", "sarif", "md", "html")}
    assert repository.junit_verdict("reports/seatrial.xml") == verdict
    assert verdict in (repository.folder.parent / "summary.md").read_text().splitlines()[0]
    assert verdict in (artifacts / "seatrial.html").read_text().lower()


@pytest.mark.drill
def test_github_measures_on_the_runner(repository: Repository) -> None:
    ended = github(repository, "embedded")
    assert ended == {"pip install -r ci/requirements.txt": 0, "Gate": 0, "Summary": 0}
    assert repository.asked("pip") == ["install -r ci/requirements.txt"]
    assert_uploads(repository, "embedded", "passed")


def test_github_asks_a_service_and_tells_a_failed_verdict(repository: Repository, service: str) -> None:
    repository.demand(accuracy=BROKEN)
    ended = github(repository, "server", SEATRIAL_URL=service, SEATRIAL_KEY=KEY)
    assert ended == {"pip install -r ci/requirements.txt": 0, "Gate": 1, "Summary": 0}
    assert_uploads(repository, "server", "failed")


@pytest.mark.drill
def test_github_without_its_secret_is_red_and_tells_no_second_error(repository: Repository, service: str) -> None:
    ended = github(repository, "server", SEATRIAL_URL=service, SEATRIAL_KEY="")
    assert ended == {"pip install -r ci/requirements.txt": 0, "Gate": 2}


@pytest.mark.drill
def test_a_cancelled_job_of_github_cancels_its_audit(repository: Repository, service: str) -> None:
    repository.demand(steps=3000)
    (step,) = (step["run"] for step in github_steps("server") if "seatrial gate" in step.get("run", ""))
    script = repository.folder.parent / "step.sh"
    script.write_text(step)
    log = repository.folder.parent / "log"
    with log.open("w") as output:
        running = subprocess.Popen(
            ["bash", "-e", str(script)],
            cwd=repository.folder,
            env=repository.shell({"SEATRIAL_URL": service, "SEATRIAL_KEY": KEY}),
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    try:
        eventually(lambda: "Auditing: " in log.read_text() or running.poll() is not None, timeout_s=60, what="an audit")
        found = re.search(r"Auditing: (aud_\w+)", log.read_text())
        assert found is not None, log.read_text()
        # The runner interrupts the process it has started, and no other.
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130, log.read_text()
        with Client(service, KEY) as client:
            assert client.wait(found[1], timeout_s=60).state == "cancelled"
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@pytest.mark.drill
def test_gitlab_asks_a_service_and_lets_an_inconclusive_verdict_warn(
    repository: Repository, on_service: Callable[[], None]
) -> None:
    on_service()
    repository.demand(accuracy=UNDECIDED)
    job = gitlab_job("gate-on-server")
    assert job["script"] == gitlab_job("gate")["script"]
    done = repository.run("bash", stdin="\n".join(["set -eo pipefail", *job["script"]]))
    assert done.returncode == job["allow_failure"]["exit_codes"] == 3, done.stderr
    assert repository.junit_verdict(job["artifacts"]["reports"]["junit"]) == "inconclusive"
    (path,) = job["artifacts"]["paths"]
    assert len(list((repository.folder / path).iterdir())) == 3


@pytest.mark.drill
def test_jenkins_sees_the_status_of_the_gate(repository: Repository, on_service: Callable[[], None]) -> None:
    on_service()
    repository.demand(accuracy=UNDECIDED)
    (step,) = jenkins_steps()
    done = repository.run("sh", "-xe", stdin=step)
    assert done.returncode == 3, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert repository.junit_verdict("reports/seatrial.xml") == "inconclusive"


@pytest.mark.drill
def test_the_job_of_kubernetes_asks_with_the_key_of_its_secret(repository: Repository, service: str) -> None:
    given = container()
    # What the kubelet does: it mounts the claim, and resolves the variables.
    (mount,) = (one["mountPath"] for one in given["volumeMounts"] if one["name"] == "candidate")
    arguments = [argument.replace(mount, str(repository.folder)) for argument in given["args"]]
    resolved = {one["name"]: KEY if "valueFrom" in one else one["value"] for one in given["env"]}
    resolved["SEATRIAL_URL"] = service
    before = sorted(repository.folder.rglob("*"))
    done = repository.run(*given["command"], *arguments, **resolved)
    assert done.returncode == 0, done.stderr
    # Its policy attacks in few steps, and says that it looks past what that is doubted for.
    assert done.stdout.rstrip().rpartition("\n")[2].startswith("Passed, but in doubt: all 3 rules hold.")
    # The claim is mounted to be read.
    assert sorted(repository.folder.rglob("*")) == before


@pytest.mark.drill
def test_the_script_gates_as_a_hook_from_any_folder(repository: Repository, on_service: Callable[[], None]) -> None:
    on_service()
    hook = repository.folder / ".git" / "hooks" / "pre-push"
    hook.symlink_to("../../ci/gate.sh")
    done = repository.run("bash", "-c", f"cd data && {shlex.quote(str(hook))} origin somewhere", INCONCLUSIVE="allowed")
    assert done.returncode == 0, done.stderr
    assert repository.junit_verdict("reports/seatrial.xml") == "passed"


@pytest.mark.parametrize("allows", ["", "allowed"], ids=["strict", "allowed"])
@pytest.mark.parametrize("status", [0, 1, 2, 3, 4, 5, 130])
def test_the_script_lets_nothing_but_the_inconclusive_through(repository: Repository, status: int, allows: str) -> None:
    repository.stand_in("seatrial", f"exit {status}")
    done = repository.run("ci/gate.sh", INCONCLUSIVE=allows)
    assert done.returncode == (0 if status == 3 and allows else status)
    assert ("let through" in done.stderr) is (status == 3 and allows == "allowed")


@pytest.mark.drill
def test_what_the_page_says_of_kubernetes_and_mlflow_runs(
    repository: Repository, on_service: Callable[[], None]
) -> None:
    on_service()
    kubernetes, mlflow = fenced("sh")
    done = repository.run("bash", "-e", stdin=kubernetes)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in repository.asked("kubectl")] == ["create", "replace", "logs", "get"]
    gate = "seatrial gate --model model --data data/test.npz --policy ci/seatrial.yaml --json reports/seatrial.json\n"
    store = repository.folder.parent / "store.json"
    places = {"PYTHONPATH": str(Path(fakes.__file__).parent), "MLFLOW_TRACKING_URI": str(store)}
    done = repository.run("bash", "-e", stdin=gate + mlflow, MLFLOW_RUN_ID="run1", **places)
    assert done.returncode == 0, done.stderr
    assert repository.asked("pip") == ["install mlflow-skinny"]
    held = json.loads(store.read_text())
    assert held["versions"]["digits 3"]["seatrial.verdict"] == held["tags"]["seatrial.verdict"] == "passed"
    assert (
        0 < held["metrics"]["uncertainty_span/clean_accuracy.low"] <= held["metrics"]["uncertainty_span/clean_accuracy"]
    )
    assert {"seatrial/report.html", "seatrial/report.json", "seatrial/junit.xml"} == set(held["files"])
