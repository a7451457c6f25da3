"""The files of ``docs/ci`` are what their readers expect, and the page says what is so."""

import json
import re
import tomllib
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

from app.cli.exits import MEANINGS
from app.cli.gate import gate
from app.cli.gate_files import read_gate_file
from tests.servers import ROOT, package_folder
from tests.snippets.conftest import CI
from tests.snippets.snippets import (
    container,
    document,
    fenced,
    github_steps,
    gitlab_job,
    jenkins_steps,
    shell_steps,
    text,
)

YAMLS = sorted(path.name for path in CI.iterdir() if path.suffix in (".yaml", ".yml"))
# A command may go on over lines that end in a backslash.
COMMAND = re.compile(r"seatrial gate --(?:[^\\\n]|\\\n)*")
GATES = {name: command for name, step in shell_steps().items() for command in COMMAND.findall(step)}
OPTIONS = {option for parameter in gate.params for option in parameter.opts}
JOBS = ["embedded", "server"]


@pytest.mark.parametrize("name", YAMLS)
def test_every_yaml_is_one_object(name: str) -> None:
    assert list(yaml.safe_load_all(text(name))) == [yaml.safe_load(text(name))]
    assert isinstance(yaml.safe_load(text(name)), dict)


@pytest.mark.parametrize(
    ("name", "schema"), [("github-actions.yml", "github-workflows"), ("gitlab-ci.yml", "gitlab-ci")]
)
def test_github_and_gitlab_find_what_their_schemas_describe(name: str, schema: str) -> None:
    folder = package_folder("check_jsonschema") / "builtin_schemas" / "vendor"
    described = json.loads((folder / f"{schema}.json").read_text())
    validator = validator_for(described)(described)
    assert [error.message for error in validator.iter_errors(document(name))] == []
    broken = {**document(name), "jobs": {"a": {"steps": 1}}, "gate": {"script": 1}}
    assert list(validator.iter_errors(broken)) != []


def test_every_gate_gives_options_there_are() -> None:
    # GitHub twice, GitLab twice, Jenkins, Kubernetes and the script.
    assert len(GATES) == 7
    for name, command in GATES.items():
        given = set(re.findall(r"(?<!\S)(--[a-z-]+)", command))
        assert {"--model", "--data", "--policy", "--timeout"} <= given <= OPTIONS, name


def test_a_gate_gives_up_before_what_runs_it_does() -> None:
    limits_s = {f"github {job}": document("github-actions.yml")["jobs"][job]["timeout-minutes"] * 60 for job in JOBS}
    assert gitlab_job("gate")["timeout"] == "1 hour"
    assert "timeout(time: 1, unit: 'HOURS')" in text("Jenkinsfile")
    limits_s |= {"gitlab": 3600, "jenkins": 3600}
    limits_s["kubernetes"] = document("kubernetes-job.yaml")["spec"]["activeDeadlineSeconds"]
    for place, limit_s in limits_s.items():
        patiences = [re.search(r"--timeout[ =](\d+)", step) for name, step in GATES.items() if name.startswith(place)]
        assert patiences, place
        # It cancels its audit, waits half a minute for that and writes its files.
        assert all(found is not None and int(found[1]) + 60 <= limit_s for found in patiences), place


@pytest.mark.parametrize("job", JOBS)
def test_github_tells_a_failed_verdict_as_well(job: str) -> None:
    steps = github_steps(job)
    (at,) = (number for number, step in enumerate(steps) if "seatrial gate" in step.get("run", ""))
    after = steps[at + 1 :]
    assert [step.get("uses", "").partition("@")[0] for step in after] == [
        "",
        "",
        "github/codeql-action/upload-sarif",
        "actions/upload-artifact",
    ]
    for step in after:
        assert "always()" in step["if"]
        # What the gate could not write is not looked for: a second error would hide the first.
        for file in re.findall(r"hashFiles\('(.+?)'\)", step["if"]):
            assert file in steps[at]["run"]
    assert document("github-actions.yml")["permissions"]["security-events"] == "write"


def test_keys_come_from_secrets_only() -> None:
    for step in GATES.values():
        assert "--key" not in step
    assert document("github-actions.yml")["jobs"]["server"]["env"]["SEATRIAL_KEY"] == "${{ secrets.SEATRIAL_KEY }}"
    assert "SEATRIAL_KEY" not in gitlab_job("gate-on-server")["variables"]
    assert "SEATRIAL_KEY = credentials('seatrial-key')" in text("Jenkinsfile")
    (key,) = (one for one in container()["env"] if one["name"] == "SEATRIAL_KEY")
    assert set(key["valueFrom"]) == {"secretKeyRef"}


def test_an_inconclusive_verdict_warns_where_there_is_a_colour_for_it() -> None:
    assert gitlab_job("gate")["allow_failure"] == {"exit_codes": 3}
    branches = re.search(
        r"def status = sh\(returnStatus: true, .*?if \(status == 3\) \{\s*unstable\(.*?\} else if \(status != 0\) "
        r"\{\s*error\(",
        text("Jenkinsfile"),
        re.DOTALL,
    )
    assert branches is not None
    # No other step of a shell, whose status somebody would have to look at.
    assert len(jenkins_steps()) == len(re.findall(r"\bsh\b\W", text("Jenkinsfile"))) == 1


def test_jenkins_reads_files_that_are_written() -> None:
    post = text("Jenkinsfile").partition("post {")[2]
    assert re.search(r"always \{\s*junit testResults: 'reports/seatrial.xml'", post)
    assert "archiveArtifacts artifacts: 'reports/*'" in post
    assert text("Jenkinsfile").count("{") == text("Jenkinsfile").count("}")


def test_the_job_is_one_and_has_little_to_lose() -> None:
    job = document("kubernetes-job.yaml")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert job["spec"]["backoffLimit"] == 0
    pod = job["spec"]["template"]["spec"]
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("Never", False)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container()["resources"]) == {"requests", "limits"}
    assert {mount["name"] for mount in container()["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_job_runs_as_the_user_of_the_image() -> None:
    user = document("kubernetes-job.yaml")["spec"]["template"]["spec"]["securityContext"]
    assert f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n" in (ROOT / "Dockerfile").read_text()


def test_every_version_is_this_one() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = [
        found
        for path in CI.iterdir()
        for found in re.findall(r"seatrial(?:-\w+:|\[worker\]==)(\S+?)'?\s", text(path.name))
    ]
    assert len(named) == 5
    assert set(named) == {version}


def test_images_are_those_of_the_dockerfile() -> None:
    named = {found for path in CI.iterdir() for found in re.findall(r"example\.org/seatrial-(\w+):", text(path.name))}
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert named == {"api", "worker"} <= stages


def test_the_page_names_every_file() -> None:
    named = set(re.findall(r"^\| \[(\S+?)\]\(\1\) \|", text("README.md"), re.MULTILINE))
    assert named == {path.name for path in CI.iterdir()} - {"README.md"}


def test_the_page_shows_the_policy_that_is_tested() -> None:
    assert fenced("yaml") == [text("seatrial.yaml")]


def test_the_policy_says_what_is_run_and_what_must_hold() -> None:
    file = read_gate_file(CI / "seatrial.yaml")
    assert file.checks
    assert file.rules
    assert None not in (file.samples, file.seed)


def test_the_page_has_the_statuses_of_the_command() -> None:
    rows: list[tuple[str, str]] = re.findall(r"^\| (\d+) \| (.+) \|$", text("README.md"), re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == {int(code): said for code, said in MEANINGS.items()}


def _named_in(steps: dict[str, Any]) -> set[str]:
    return {file for step in steps.values() for file in re.findall(r"reports/[\w.]+", step)}


def test_reports_have_one_name_everywhere() -> None:
    assert _named_in(shell_steps()) == {f"reports/seatrial.{end}" for end in ("xml", "sarif", "md", "html", "json")}
