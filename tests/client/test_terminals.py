"""What a service, a file name or a bundle says never acts on a terminal, nor forges a line of a log."""

import importlib
import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.doctor import Finding
from app.cli.progress import progress_display
from app.web.logs import configure_logs
from seatrial.contracts.audits import AuditRead, NextLook
from seatrial.contracts.states import RunState
from seatrial.store.settings import Settings
from seatrial.terminals import EscapingFormatter, escaped, json_text
from tests import assets
from tests.client.hostile import ESCAPES, OBEYED, answers, audit, hostile_service
from tests.servers import ROOT


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with hostile_service(answers(ESCAPES)) as url:
        yield url


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)


def assert_inert(said: str) -> None:
    """What was said holds nothing a terminal obeys, shows what was there, and no value begins a line."""
    assert not set(said) & set(OBEYED), [one for one in OBEYED if one in said]
    assert "<U+001B>]0;owned<U+0007>" in said
    assert not re.search("^Passed: every rule holds", said, re.M)


@pytest.mark.parametrize(
    "command",
    [
        ["models", "list"],
        ["datasets", "list"],
        ["policies", "list"],
        ["baselines", "list"],
        ["audit", "list"],
        ["audit", "status", "aud_1"],
        ["judge", "aud_1", "--policy", "standard"],
    ],
    ids=" ".join,
)
def test_lists_and_verdicts_are_inert(command: list[str], url: str) -> None:
    assert_inert(run(*command, "--server", url).output)


def test_json_stays_json_and_is_inert(url: str) -> None:
    shown = run("policies", "show", "standard", "--server", url).stdout
    assert json.loads(shown)["description"] == ESCAPES
    assert not set(shown) & set(OBEYED)
    assert json.loads(json_text({"a": ["é\u200d\n", "\ud800"]})) == {"a": ["é\u200d\n", "\ud800"]}
    assert "é" in json_text("é")


def test_what_a_service_refuses_is_told_inertly(url: str) -> None:
    said = run("audit", "cancel", "aud_2", "--server", url).output
    assert not set(said) & set(OBEYED)
    assert "<U+001B>]0;owned<U+0007>" in said


def test_the_gate_is_inert(url: str, tmp_path: Path) -> None:
    model = tmp_path / "m\x1b[2J"
    model.mkdir()
    (model / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (model / "weights.safetensors").write_bytes(b"nobody looks")
    (tmp_path / "digits.npz").write_bytes(assets.npz(20))
    data = ("--data", tmp_path / "digits.npz", "--policy", "standard", "--server", url)
    checks = tmp_path / "checks.json"
    checks.write_text('[{"kind": "uncertainty_span"}]')
    gated = run("gate", "--model", model, *data, "--checks", checks)
    assert gated.exit_code == 1, gated.output
    assert_inert(gated.output)
    missing = run("gate", "--model", f"{model}-no", *data)
    assert (missing.exit_code, "<U+001B>[2J" in missing.output, "\x1b" in missing.output) == (2, True, False)


def test_progress_is_inert_on_a_terminal_and_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    following = AuditRead.model_validate(audit(ESCAPES + "[bold]"))
    for is_terminal in (True, False):
        written = io.StringIO()
        written.isatty = lambda here=is_terminal: here  # type: ignore[method-assign, misc]
        monkeypatch.setattr(sys, "stderr", written)
        with progress_display() as show:
            show(following)
        said = written.getvalue()
        assert "]0;owned<U+0007>" in said.replace("\n", "")
        assert "\x1b]0" not in said
        assert not set(said) & set(OBEYED.replace("\x1b", "").replace("\r", ""))


def test_a_log_says_which_look_is_measured_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one = AuditRead.model_validate(audit("attack"))
    running = one.checks[0].model_copy(update={"state": RunState.RUNNING})
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with progress_display() as show:
        for number, examples in ((1, 30), (1, 30), (2, 60)):
            look = NextLook(number=number, of=6, examples=examples, most=1000)
            progress = running.progress.model_copy(update={"stage": "attack", "look": look})
            show(one.model_copy(update={"checks": [running.model_copy(update={"progress": progress})]}))
    first, second = (line.partition(", the whole")[0] for line in written.getvalue().splitlines())
    assert first.endswith(" attack 0 % of look 1 of 6, 30 of 1,000 examples")
    assert second.endswith(" attack 0 % of look 2 of 6, 60 of 1,000 examples")


def test_the_doctor_is_inert(monkeypatch: pytest.MonkeyPatch) -> None:
    doctor = importlib.import_module("app.cli.doctor")
    monkeypatch.setattr(doctor, "findings", lambda port, home: iter([Finding("home", ESCAPES, ESCAPES)]))
    assert_inert(run("doctor").output)


def test_replay_tells_a_hostile_bundle_inertly(tmp_path: Path) -> None:
    bundle = tmp_path / "b\x1b[2J\u202e.zip"
    bundle.write_bytes(b"no bundle")
    done = run("replay", bundle)
    assert done.exit_code == 2
    assert not set(done.output) & set(OBEYED)
    assert "b<U+001B>[2J<U+202E>.zip" in done.output


def test_keys_are_listed_inertly(tmp_path: Path) -> None:
    assert run("keys", "--home", tmp_path, "create", ESCAPES).exit_code == 0
    assert_inert(run("keys", "--home", tmp_path, "list").output)


def test_no_command_prints_past_the_one_place() -> None:
    for path in (ROOT / "app" / "cli").glob("*.py"):
        if path.name != "showing.py":
            assert not re.search(r"click\.(echo|secho)\(", path.read_text()), path


@pytest.mark.parametrize("log_json", [False, True])
def test_a_request_cannot_forge_a_line_of_the_log(
    log_json: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    # What it sets outlives it otherwise: pytest's own handlers are among them.
    for handler in (*logging.getLogger().handlers, logging.lastResort):
        assert handler is not None
        monkeypatch.setattr(handler, "formatter", handler.formatter)
        monkeypatch.setattr(handler, "level", handler.level)
    configure_logs(settings.model_copy(update={"log_json": log_json}))
    structlog.get_logger("x").info("request", path=f"/v1/{ESCAPES}")
    said = written.getvalue()
    assert said.count("\n") == 1
    assert not set(said) & set(OBEYED)
    if log_json:
        assert json.loads(said)["path"] == f"/v1/{ESCAPES}"
    else:
        assert_inert(said)


def test_the_standard_librarys_loggers_are_inert_too() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(EscapingFormatter(logging.Formatter("%(levelname)s %(message)s")))
    log = logging.Logger("hostile")
    log.addHandler(handler)
    log.warning("model %s", ESCAPES)
    try:
        raise ValueError(ESCAPES)
    except ValueError:
        log.exception("it failed")
    said = written.getvalue()
    assert said.splitlines()[0].startswith("WARNING model <U+001B>]0;owned<U+0007>")
    assert not set(said) & set(OBEYED)
    assert "Traceback" in said


def test_honest_text_stays_as_it_is() -> None:
    for text in ("naïve 日本語", "שלום", "👩\u200d🚀 family", "a\nb\tc", "x = [1, 2]"):
        assert escaped(text) == text
