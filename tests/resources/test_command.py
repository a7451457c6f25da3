import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main as seatrial
from seatrial.noise.lexicons import CODESPELL
from seatrial.store.settings import get_settings
from tests.resources.making import write_encoder, write_library, write_textattack_vectors, write_wordnet
from workers.resources.__main__ import main
from workers.resources.checksums import LEXICONS, check, known, sha256_of, shipped_files


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SEATRIAL_RESOURCES", str(tmp_path / "resources"))
    get_settings.cache_clear()
    yield tmp_path / "resources"
    get_settings.cache_clear()


def test_list_says_what_is_there_what_is_not_and_what_each_recipe_lacks(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wordnet(library / "wordnet")
    write_encoder(library / "sentence-encoder")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"  there:    {library / 'wordnet'} (") for line in lines)
    assert "  pwws runs" in lines
    assert "  iga runs as: iga (variant: vectors=bert-l1-h16-wordpiece)" in lines
    assert "  bae lacks masked-lm, tagger" in lines
    assert "  get it:   seatrial resources install masked-lm --from FOLDER" in "\n".join(lines)


def test_list_of_a_full_library_lacks_nothing(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_library(library)
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert "missing:" not in said
    assert "lacks" not in said


def test_verify_passes_editions_it_has_not_seen(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_library(library)
    # Of one file there are no others to tell whether it is another edition or damaged.
    for name in ("typos-nlpaug", "confusables"):
        shutil.rmtree(library / name)
    assert main(["verify"]) == 0
    said = capsys.readouterr().out
    assert "as published  lexicons/stopwords-english.txt (shipped)" in said
    assert "unknown       wordnet/data.noun" in said


def test_verify_finds_a_file_changed_after_it_was_installed(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_wordnet(library / "wordnet")
    editions = {f"wordnet/{file.name}": {sha256_of(file): "WordNet of this test"} for file in folder.iterdir()}
    monkeypatch.setattr("workers.resources.checksums.known", lambda: known() | editions)
    assert main(["verify"]) == 0
    (folder / "data.adj").write_bytes((folder / "data.adj").read_bytes().replace(b"dull", b"dill"))
    assert main(["verify"]) == 1
    said = capsys.readouterr()
    assert "differs       wordnet/data.adj (not WordNet of this test)" in said.out
    assert "1 files differ" in said.err
    assert main(["list"]) == 0
    assert "warning:" in capsys.readouterr().out


def test_the_shipped_files_are_the_published_ones() -> None:
    assert {each.verdict for each in check("lexicons", shipped_files())} == {"as published"}
    sources = (LEXICONS.parent / "SOURCES.md").read_text("utf-8")
    shipped = sources.partition("Installed by")[0]
    named = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", shipped, re.MULTILINE))
    assert named == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in shipped_files()}


def test_whose_work_is_shipped_is_said_beside_it() -> None:
    notice = (CODESPELL.parent / "NOTICE.md").read_text("utf-8")
    for file in CODESPELL.parent.iterdir():
        assert file.name in notice or file.name == "NOTICE.md"
    assert "https://creativecommons.org/licenses/by-sa/3.0/" in notice


def test_a_shipped_file_that_was_changed_differs(tmp_path: Path) -> None:
    copies = [Path(shutil.copy(file, tmp_path)) for file in shipped_files()]
    copies[0].write_bytes(copies[0].read_bytes() + b" ")
    assert [each.verdict for each in check("lexicons", copies)] == ["differs", *["as published"] * (len(copies) - 1)]


def test_list_says_which_attackers_need_what(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr().out.split("\n\n")
    [typos] = [part for part in said if part.startswith("typos-nlpaug:")]
    assert "get it:   seatrial resources install typos-nlpaug" in typos
    assert "for:      natural_typo (typos: nlpaug)" in typos
    [shipped] = [part for part in said if part.startswith("typos-codespell:")]
    assert "is:       shipped" in shipped
    assert "CC BY-SA 3.0" in shipped


def test_a_single_file_of_another_content_differs(tmp_path: Path) -> None:
    (tmp_path / "tagger.json.gz").write_bytes(b"something else")
    [checked] = check("tagger", [tmp_path / "tagger.json.gz"])
    assert checked.verdict == "differs"


def test_install_tells_what_was_done_and_leaves_what_is_there(
    tmp_path: Path, library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_textattack_vectors(tmp_path / "paragramcf")
    assert main(["install", "word-vectors", "--from", str(tmp_path / "paragramcf")]) == 0
    assert f"word-vectors: installed in {library / 'counter-fitted'}" in capsys.readouterr().out
    assert main(["install", "word-vectors"]) == 0
    assert "already in" in capsys.readouterr().out
    assert main(["install", "masked-lm"]) == 1
    assert "masked-lm: no package registry carries it" in capsys.readouterr().err


def test_usage_is_checked(library: Path) -> None:
    for arguments in (["install", "--from", "x"], ["install", "nothing"], ["remove"], []):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


@pytest.mark.slow
def test_seatrial_passes_words_and_status_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SEATRIAL_RESOURCES", raising=False)
    monkeypatch.delenv("SEATRIAL_HOME", raising=False)
    runner = CliRunner()
    # setenv first: what --home sets is undone with it.
    monkeypatch.setenv("SEATRIAL_HOME", str(tmp_path / "other"))
    assert runner.invoke(seatrial, ["resources", "--home", str(tmp_path), "list"]).exit_code == 0
    assert f"Resources in {tmp_path / 'resources'}:" in capfd.readouterr().out
    assert runner.invoke(seatrial, ["resources", "verify"]).exit_code == 0
    failed = runner.invoke(seatrial, ["resources", "install", "masked-lm", "--from", str(tmp_path / "nowhere")])
    assert failed.exit_code == 1
    assert "there is no" in capfd.readouterr().err


def test_the_command_needs_neither_torch_nor_textattack() -> None:
    script = (
        "import sys, workers.resources.__main__; print(sorted({'torch', 'nltk', 'textattack'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
