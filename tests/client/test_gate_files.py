"""Policy files, default checks, verdicts as text, files to write, and how a command may end."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from app.cli import main
from app.cli.audits import described
from app.cli.exits import MEANINGS, OF_VERDICT, Exit, ending_as_documented, exit_table
from app.cli.exits import BadRequestError as BadRequest
from app.cli.gate import _stop
from app.cli.gate_files import default_checks, is_file, read_checks, read_gate_file
from app.cli.gate_judging import _told
from app.cli.outputs import Outputs
from app.policies import presets
from seatrial.client import Client, NotJudgedError, ProblemResponseError, ServiceUnreachableError
from seatrial.contracts.policies import GateFile, Judgement, Policy, PolicySource

RULES = [{"metric": "uncertainty_span.clean_accuracy", "min": 0.9}]


def test_a_file_says_what_is_run_and_what_must_hold(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(
        """
        # What must hold before a release.
        name: release
        rules:
          - metric: uncertainty_span.clean_accuracy
            min: 9e-1
        checks:
          - {kind: uncertainty_span, epsilon: 0.1}
        samples: 300
        """
    )
    file = read_gate_file(path)
    assert (file.policy().name, file.samples, file.seed) == ("release", 300, None)
    assert file.policy().rules[0].min == 0.9
    assert [check.kind for check in file.checks] == ["uncertainty_span"]
    (tmp_path / "gate.json").write_text(file.model_dump_json(exclude_none=True))
    assert read_gate_file(tmp_path / "gate.json") == file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nname: y", "is there twice"),
        ("name: x\nrules: [}", "line 2"),
        ("name: x\nrules: []\nsamples: many", "/samples: "),
        ("name: x\nrules: [{metric: uncertainty_span.no_such, max: 1}]", "has no metric 'no_such'"),
        ("name: x\nrules: [{metric: uncertainty_span.mus, max: 1}]\nthreshold: 1", "/threshold: "),
        ("name: x\nrules: [{metric: uncertainty_span.mus, max: 1}]\nchecks: [{kind: nonsense}]", "/checks/0/kind: "),
    ],
    ids=["twice", "no-yaml", "type", "metric", "unknown", "family"],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_gate_file(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nrules: []", "  /rules: must hold at least 1, holds 0"),
        ("name: x\nrules: [{metric: uncertainty_span.mus}]", "  /rules/0: exactly one of max, min and max_regression"),
        ("name: x\nrules: [{metric: uncertainty_span.mus, max: -1}]", "  /rules/0/max: uncertainty_span.mus is "),
        (
            "name: x\nrules: [{metric: uncertainty_span.mus, limit: 1}]",
            "  /rules/0/limit: unknown field; known fields: metric, max, min, max_regression, ",
        ),
        (
            "name: x\nbound: 1\nrules: [{metric: uncertainty_span.mus, max: 1}]",
            "  /bound: unknown field; known fields: name, description, rules, ",
        ),
        (
            "name: x\nrules: [{metric: uncertainty_span.mus, max: 1}]\nchecks: [{kind: uncertainty_span, eps: 1}]",
            "  /checks/0/eps: unknown field: did you mean 'epsilon'? Known fields: kind, ",
        ),
        (
            "name: x\nrules: [{metric: uncertainty_span.mus, max: 1}]\nchecks: [{kind: uncertanty_span}]",
            "  /checks/0/kind: 'uncertanty_span' is not a choice here: did you mean 'uncertainty_span'? Choices are ",
        ),
        (
            "name: x\nrules: [{metric: uncertainty_span.mus_wrost, max: 1}]",
            "  /rules/0/metric: uncertainty_span has no metric 'mus_wrost': did you mean 'mus_worst'? It has mus, ",
        ),
        (
            "name: x\nrules: [{metric: uncertainty.mus, max: 1}]",
            "  /rules/0/metric: there is no family 'uncertainty': did you mean 'uncertainty_span'? There are ",
        ),
    ],
    ids=[
        "empty",
        "no-bound",
        "bound",
        "in-a-rule",
        "in-the-file",
        "in-a-check",
        "family",
        "metric",
        "family-of-a-rule",
    ],
)
def test_a_mistake_is_told_with_what_there_is(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_gate_file(path)
    assert f"\n{told}" in str(caught.value)


def test_a_mistake_in_a_list_of_checks_is_told_with_the_fields_there_are(tmp_path: Path) -> None:
    path = tmp_path / "checks.yaml"
    path.write_text("[{kind: uncertainty_span, eps: 1}]")
    with pytest.raises(BadRequest, match=r"unknown field: did you mean 'epsilon'\? Known fields: kind, "):
        read_checks(path)


def test_a_file_that_is_not_there_is_a_bad_request(tmp_path: Path) -> None:
    assert is_file("no/such")
    with pytest.raises(BadRequest, match="cannot be read: No such file"):
        read_gate_file(tmp_path / "none.yaml")


def test_checks_stand_alone_or_in_a_list_of_more(tmp_path: Path) -> None:
    path = tmp_path / "checks.yaml"
    for text in ("[{kind: uncertainty_span}]", "checks: [{kind: uncertainty_span}]"):
        path.write_text(text)
        assert [check.kind for check in read_checks(path)] == ["uncertainty_span"]
    for text in ("[]", "model: x"):
        path.write_text(text)
        with pytest.raises(BadRequest, match="no checks"):
            read_checks(path)


@pytest.mark.parametrize(
    ("metric", "task", "kinds"),
    [
        ("uncertainty_span.mus", "image-classification", ["uncertainty_span"]),
        ("temperature_attack.illusion_gap", "text-classification", ["temperature_attack"]),
        # It must be told which defences to attack, and so cannot be run by default.
        ("transductive_attack.clean_accuracy[defence=dent]", "image-classification", ["uncertainty_span"]),
        ("uncertainty_span.mus", "text-classification", ["temperature_attack"]),
        ("low_level_attack.worst_case_score[level=0.2]", "text-classification", ["low_level_attack"]),
        ("uncertainty_span.mus", "token-classification", ["low_level_attack"]),
        ("temperature_attack.illusion_gap", "multi-label-classification", ["low_level_attack"]),
    ],
    ids=["images", "texts", "cannot", "does-not-fit", "noise", "tags", "labels"],
)
def test_without_checks_the_families_that_are_required_are_run(metric: str, task: str, kinds: list[str]) -> None:
    policy = Policy.model_validate({"name": "p", "rules": [{"metric": metric, "max": 0.5}]})
    said: list[str] = []
    assert [check.model_dump()["kind"] for check in default_checks(policy, task, said.append)] == kinds
    assert kinds[0] in said[0]


def test_what_a_policy_does_not_require_is_not_run_by_default() -> None:
    rules = [
        {"metric": "certified_calibration.cce[radius=0.25]", "max": 0.5, "required": False},
        {"metric": "uncertainty_span.mus", "max": 0.5, "required": False},
    ]
    policy = Policy.model_validate({"name": "p", "rules": rules})
    (check,) = default_checks(policy, "image-classification", lambda line: None)
    assert check.model_dump()["kind"] == "uncertainty_span"


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("text-classification", "temperature_attack"),
        ("text-pair-classification", "temperature_attack"),
        ("multi-label-classification", "low_level_attack"),
        ("token-classification", "low_level_attack"),
        ("image-classification", "uncertainty_span"),
    ],
)
def test_every_task_has_a_check_by_default(task: str, kind: str) -> None:
    (check,) = default_checks(presets.get("standard"), task, lambda line: None)
    assert check.model_dump()["kind"] == kind


@pytest.mark.parametrize(("examples", "apart"), [(1000, 200), (100, 50), (3, 200)])
def test_a_check_by_default_leaves_examples_to_attack(examples: int, apart: int) -> None:
    said: list[str] = []
    (check,) = default_checks(None, "text-classification", said.append, examples=examples)
    assert check.model_dump()["validation_samples"] == apart
    assert any("half of the 100 examples" in line for line in said) == (examples == 100)


def test_a_task_without_checks_is_refused() -> None:
    with pytest.raises(BadRequest, match="no check audits models for speech-recognition by default"):
        default_checks(None, "speech-recognition", print)


def test_a_file_that_could_not_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    nothing: dict[str, Path | None] = dict.fromkeys(("junit", "sarif", "markdown", "html", "json", "bundle"))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="cannot be written"):
        Outputs.from_options({**nothing, "junit": tmp_path / "file" / "junit.xml"})
    options = {**nothing, "junit": tmp_path / "new" / "junit.xml", "policy": "standard"}
    assert Outputs.from_options(options).paths == {"junit": tmp_path / "new" / "junit.xml"}
    assert options == {"policy": "standard"}
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize(
    ("policy", "model", "uri"),
    [
        ("ci/my gate.yaml", "model", "ci/my%20gate.yaml"),
        ("standard", "model", "model/manifest.json"),
        ("standard", "weights.safetensors", "weights.safetensors"),
        ("standard", "mdl_1", "digits"),
        ("../elsewhere.yaml", "mdl_1", "digits"),
    ],
    ids=["policy", "model-folder", "model-file", "neither", "outside"],
)
def test_alerts_are_at_a_file_of_the_repository_where_one_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, model: str, uri: str
) -> None:
    for name in ("elsewhere.yaml", "here/ci/my gate.yaml", "here/model/manifest.json", "here/weights.safetensors"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path / "here")
    location = {"physicalLocation": {"artifactLocation": {"uri": "digits"}, "region": {"startLine": 1}}}
    sarif = json.dumps({"version": "2.1.0", "runs": [{"results": [{"locations": [location]}]}]}).encode()
    nothing: dict[str, Path | None] = dict.fromkeys(("junit", "markdown", "html", "json", "bundle"))
    outputs = Outputs.from_options({**nothing, "sarif": Path("out.sarif"), "policy": policy, "model": model})
    client: Any = SimpleNamespace(report=lambda audit_id, name, judgement: sarif)
    assert outputs.write(client, "aud_1")
    (result,) = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert (physical["artifactLocation"]["uri"], physical["region"]["startLine"]) == (uri, 1)


def test_what_an_earlier_run_wrote_is_gone_before_the_work(tmp_path: Path) -> None:
    nothing: dict[str, Path | None] = dict.fromkeys(("junit", "sarif", "markdown", "html", "json", "bundle"))
    green, terminal = tmp_path / "junit.xml", tmp_path / "stdout"
    green.write_text("all passed")
    terminal.symlink_to(tmp_path / "somewhere")
    Outputs.from_options({**nothing, "junit": green, "markdown": terminal})
    assert not green.exists()
    assert terminal.is_symlink()


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (BadRequest("wrong"), 2),
        (click.ClickException("plain"), 4),
        (click.UsageError("usage"), 2),
        (ProblemResponseError({"title": "No", "status": 422}), 2),
        (ProblemResponseError({"title": "Broken", "status": 500}), 4),
        (ServiceUnreachableError("gone"), 4),
        (KeyboardInterrupt(), 130),
        (RuntimeError("a mistake of ours"), 4),
        (OSError(28, "No space left on device"), 4),
    ],
    ids=["request", "click", "usage", "refused", "broken", "unreachable", "interrupt", "crash", "disk"],
)
def test_nothing_but_a_failed_verdict_ends_with_1(
    raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, ending_as_documented():
        raise raised
    assert ended.value.code == status
    assert capsys.readouterr().err


def test_sigterm_is_an_interruption_and_what_was_before_is_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def terminated() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

    with pytest.raises(SystemExit) as ended, ending_as_documented():
        terminated()
    assert ended.value.code == 130
    assert signal.getsignal(signal.SIGTERM) is before


def test_every_status_and_every_verdict_is_in_the_table() -> None:
    assert set(MEANINGS) == set(Exit)
    assert OF_VERDICT == {"passed": 0, "failed": 1, "inconclusive": 3, "errored": 4}
    assert all(f"  {int(code)} " in exit_table() for code in Exit)


def test_a_byte_order_mark_in_front_of_json_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    path.write_text("\ufeff" + json.dumps({"name": "p", "rules": RULES}), encoding="utf-8")
    assert read_gate_file(path).name == "p"


def test_a_seed_of_0_in_the_policy_s_file_goes_before_the_specification_s(tmp_path: Path) -> None:
    spec, policy = tmp_path / "spec.json", tmp_path / "policy.json"
    spec.write_text(json.dumps({"seed": 7, "checks": [{"kind": "uncertainty_span"}]}))
    policy.write_text(json.dumps({"name": "release", "rules": RULES, "seed": 0}))
    given = dict.fromkeys(("checks", "samples", "seed", "baseline", "model", "data", "reuse"))
    found = described({**given, "spec": spec, "policy": str(policy)})
    assert (found["seed"], found["checks"]) == (0, [{"kind": "uncertainty_span"}])


def test_an_audit_that_ended_without_its_verdict_could_not_be_run_and_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait(self: Client, audit_id: str, **how: Any) -> NoReturn:
        raise NotJudgedError(f"audit {audit_id} is succeeded and not judged after 60 s")

    monkeypatch.setattr(Client, "submit", lambda self, **spec: SimpleNamespace(id="aud_1", notes=[]))
    monkeypatch.setattr(Client, "wait", wait)
    done = CliRunner().invoke(main, ["audit", "run", "--policy", "standard"])
    assert done.exit_code == Exit.COULD_NOT_RUN
    assert "not judged" in done.stderr
    assert "goes on" not in done.stderr


@pytest.mark.parametrize("verdict", ["passed", "failed", "inconclusive", "errored"])
def test_whoever_asked_for_a_file_and_got_none_does_not_find_the_build_green(verdict: Any) -> None:
    source = PolicySource(id=None, name="p", version=None, digest="sha256:0")
    judgement = Judgement(verdict=verdict, headline="Told.", rules=[], policy=source)
    audit: Any = SimpleNamespace(id="aud_1", checks=[], error=None, judgement=judgement)
    assert _told(audit, is_all_written=True) == OF_VERDICT[verdict]
    lost = _told(audit, is_all_written=False)
    assert lost == (Exit.COULD_NOT_RUN if verdict == "passed" else OF_VERDICT[verdict])


@pytest.mark.parametrize(
    ("policy", "more", "stop"),
    [
        ("standard", {}, "decided"),
        ("standard", {"no_stop": True}, None),
        ("standard", {"predictions": Path("scores.csv")}, None),
        ("release@3", {}, None),
    ],
)
def test_shipped_policies_stop_a_gate_when_they_are_decided(
    policy: str, more: dict[str, Any], stop: str | None
) -> None:
    assert _stop({"policy": policy, "no_stop": False, "predictions": None, **more}, None) == stop


def test_a_policy_file_says_whether_its_gate_stops() -> None:
    rules = [{"metric": "uncertainty_span.mus", "max": 0.5}]
    options = {"policy": "seatrial.yaml", "no_stop": False, "predictions": None}
    files = [GateFile.model_validate({"name": "release", "rules": rules, "stop": stop}) for stop in (None, "decided")]
    assert [_stop(options, file) for file in files] == [None, "decided"]
    assert _stop({**options, "no_stop": True}, files[1]) is None
    assert "stop" not in files[1].policy().model_dump()
