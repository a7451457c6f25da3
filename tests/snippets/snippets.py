"""What the files of ``docs/ci`` say, taken apart."""

import re
from functools import cache
from typing import Any

import yaml

from tests.snippets.conftest import CI


@cache
def text(name: str) -> str:
    """Return a file."""
    return (CI / name).read_text()


@cache
def document(name: str) -> dict[str, Any]:
    """Return a YAML file. GitHub's key `on` is a boolean to YAML 1.1, and a string to GitHub."""
    read = yaml.safe_load(text(name))
    return {"on" if key is True else key: value for key, value in read.items()}


def github_steps(job: str) -> list[dict[str, Any]]:
    """Return the steps of a job of GitHub."""
    return list(document("github-actions.yml")["jobs"][job]["steps"])


def gitlab_job(name: str) -> dict[str, Any]:
    """Return a job of GitLab with what it extends: mappings are merged, lists are not."""
    job = dict(document("gitlab-ci.yml")[name])
    parent = job.pop("extends", None)
    return {**gitlab_job(parent), **job} if parent is not None else job


def jenkins_steps() -> list[str]:
    """Return what Jenkins gives to a shell: to Groovy, a line that ends in a backslash goes on."""
    return re.findall(r"\bsh\b[^']*'''(.*?)'''", text("Jenkinsfile").replace("\\\n", ""), re.DOTALL)


def container() -> dict[str, Any]:
    """Return the container of the Job."""
    (only,) = document("kubernetes-job.yaml")["spec"]["template"]["spec"]["containers"]
    return dict(only)


def fenced(language: str) -> list[str]:
    """Return the blocks of a language in the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text("README.md"), re.DOTALL | re.MULTILINE)


def shell_steps() -> dict[str, str]:
    """Return everything a shell is given anywhere, by where it stands."""
    steps = {
        f"github {job} {number}": step["run"]
        for job in document("github-actions.yml")["jobs"]
        for number, step in enumerate(github_steps(job))
        if "run" in step
    }
    for name in document("gitlab-ci.yml"):
        steps[f"gitlab {name}"] = "\n".join(gitlab_job(name)["script"])
    steps |= {f"jenkins {number}": step for number, step in enumerate(jenkins_steps())}
    steps["kubernetes"] = " ".join([*container()["command"], *container()["args"]])
    steps["gate.sh"] = text("gate.sh")
    steps |= {f"page {number}": block for number, block in enumerate(fenced("sh"))}
    return steps
