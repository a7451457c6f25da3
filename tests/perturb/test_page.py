"""docs/perturb.md says what is so: its commands run, and its request gets its answer."""

import json
import re
import shlex
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from app.cli import main
from app.perturb.routes import perturb_texts
from seatrial.contracts.perturb import MOST_CHARACTERS, MOST_COPIES, MOST_TEXT_CHARACTERS, MOST_TOKENS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "perturb.md").read_text()


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.jsonl").write_text('{"text": "A gripping film.", "label": 1}\n' * 3)
    Path("pairs.csv").write_text("first,second,label\nA man sleeps.,Nobody is awake.,0\n")
    Path("en_ewt-ud-dev.conllu").write_text("1\tgripping\t_\tADJ\t_\t_\t0\t_\t_\t_\n")
    commands = [line for block in fenced("sh") for line in block.splitlines()]
    assert len(commands) == 8
    for command in commands:
        program, *arguments = shlex.split(command)
        done = CliRunner().invoke(main, arguments)
        assert (program, done.exit_code) == ("seatrial", 0), (command, done.output)
        if "-o" in arguments:
            assert Path(arguments[arguments.index("-o") + 1]).stat().st_size


def test_its_request_gets_its_answer(client: httpx.Client) -> None:
    request, answer = map(json.loads, fenced("json"))
    assert client.post("/v1/perturb", json=request).json() == answer


def test_its_limits_are_those_there_are() -> None:
    for told in (PAGE, perturb_texts.__doc__ or ""):
        for limit in (MOST_COPIES, MOST_CHARACTERS, MOST_TOKENS, MOST_TEXT_CHARACTERS):
            assert f"{limit:,}" in told
