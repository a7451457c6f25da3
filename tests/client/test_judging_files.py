"""Files of a verdict that was made after the audit: by ``seatrial judge``, and by a report that names a policy."""

import json
from pathlib import Path

from tests.client.test_commands import Run, cancelled, repository, run

__all__ = ["cancelled", "repository", "run"]


def test_a_judgement_writes_the_files_a_gate_writes(run: Run, cancelled: str, repository: Path) -> None:
    """An audit submitted without a policy has no verdict of its own: the files are of the one just made."""
    names = ("html", "markdown", "junit", "sarif", "json")
    options = [part for name in names for part in (f"--{name}", f"out/{name}")]
    judged = run("judge", cancelled, "--policy", "policy.yaml", *options)
    assert judged.exit_code == 4, judged.output
    told = {name: (repository / "out" / name).read_text() for name in names}
    headline = json.loads(told["json"])["judgement"]["headline"]
    assert headline in judged.stdout
    assert "Verdict: <strong>errored</strong>" in told["html"]
    assert "errored" in told["markdown"].splitlines()[0]
    assert "<testsuite" in told["junit"]
    # The alert points at the rule in the file.
    (result, *_) = json.loads(told["sarif"])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "policy.yaml"
    missing = run("judge", cancelled, "--policy", "standard", "--html", "/proc/nowhere/report.html")
    assert (missing.exit_code, "cannot be written" in missing.stderr) == (2, True)


def test_a_report_is_of_the_policy_that_is_asked_for(run: Run, cancelled: str) -> None:
    def judged_by(*options: str) -> str:
        report = json.loads(run("audit", "report", cancelled, "--format", "json", *options).stdout)
        return "" if report["judgement"] is None else str(report["judgement"]["policy"]["name"])

    assert judged_by() == ""
    assert judged_by("--policy", "standard") == "standard"
    assert judged_by("--policy", "policy.yaml") == "release"
    assert run("audit", "report", cancelled, "--policy", "nothing").exit_code != 0
    assert "no verdict" in run("audit", "report", cancelled, "--format", "junit").stderr
    assert "<testsuite" in run("audit", "report", cancelled, "--format", "junit", "--policy", "lenient").stdout
