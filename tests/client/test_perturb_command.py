"""``seatrial perturb``: real processes where pipes and signals matter, the command itself elsewhere."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.perturb.service import perturb
from seatrial.contracts.noise import Noise
from seatrial.contracts.perturb import PerturbRequest
from seatrial.noise.lexicons import Lexicons
from tests.servers import eventually

TEXTS = ["The vandalism of a gripping film.", "Not for me, thanks!", "Wonderful acting, dreadful sound."]
COMMAND = [sys.executable, "-m", "seatrial", "perturb"]
ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def called(*arguments: object, status: int = 0) -> Result:
        done = CliRunner().invoke(main, ["perturb", *map(str, arguments)], catch_exceptions=False)
        assert done.exit_code == status, done.output
        return done

    return called


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": n % 2}) + "\n" for n, text in enumerate(TEXTS)))
    return path


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(**body: Any) -> list[Any]:
    return [one.perturbed for one in perturb(PerturbRequest(**body), Lexicons(None))]


@pytest.mark.drill
@pytest.mark.slow
def test_a_pipe_goes_through(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--attacker", "visual"], input="\n".join(TEXTS), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == expected(texts=TEXTS, attackers=["visual"], levels=[0.5])
    assert "3 texts read, 3 written" in done.stderr


@pytest.mark.drill
@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    source = tmp_path / "many.txt"
    source.write_text("A gripping film.\n" * 20_000)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*COMMAND, str(source), "--attacker", "truncate"], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        os.close(writing)
        assert os.read(reading, 10)
        os.close(reading)
        _, told = process.communicate()
    assert (process.returncode, told) == (141, "")


@pytest.mark.slow
def test_what_is_interrupted_leaves_nothing_half_written(tmp_path: Path) -> None:
    target = tmp_path / "out" / "noisy.txt"
    target.parent.mkdir()
    target.write_text("of an earlier run")
    with subprocess.Popen(
        [*COMMAND, "-", "-o", str(target), "--attacker", "visual"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin
        process.stdin.write("A gripping film.\n" * 1000)
        process.stdin.flush()
        eventually(lambda: len(list(target.parent.iterdir())) == 2, what="the file beside")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130
    assert [one.name for one in target.parent.iterdir()] == ["noisy.txt"]
    assert target.read_text() == "of an earlier run"


@pytest.mark.drill
@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    program = """
import resource, sys
from app.cli import main
for name in ("few.jsonl", "many.jsonl"):
    try: main(["perturb", name, "--attacker=truncate", "-o", "out.jsonl"])
    except SystemExit as end: assert not end.code
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    for name, lines in (("few.jsonl", 100), ("many.jsonl", 10_000)):
        with (tmp_path / name).open("w") as file:
            for n in range(lines):
                file.write(json.dumps({"text": f"A gripping film {n}.", "note": "x" * 2000}) + "\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    few_kib, many_kib = map(int, done.stdout.split())
    assert many_kib - few_kib < 5_000


def test_other_fields_and_labels_stay(run: Run, rows: Path) -> None:
    run(rows, "--attacker", "intrude", "--level", "0.8", "--seed", "3", "-o", "noisy.jsonl")
    found = objects(Path("noisy.jsonl"))
    assert [one["text"] for one in found] == expected(texts=TEXTS, attackers=["intrude"], levels=[0.8], seed=3)
    assert [one["label"] for one in found] == [0, 1, 0]


def test_each_row_is_written_for_each_attacker_level_and_draw(run: Run, rows: Path) -> None:
    run(
        rows,
        *("--attacker", "visual", "--attacker", "truncate", "--level", "0.2", "--level", "0.8", "--draws", "2"),
        *("--notes", "-o", "noisy.jsonl"),
    )
    found = objects(Path("noisy.jsonl"))
    body = {"texts": TEXTS, "attackers": ["visual", "truncate"], "levels": [0.2, 0.8], "draws": 2}
    made = list(perturb(PerturbRequest(**body), Lexicons(None)))
    assert [(one["text"], one["attacker"], one["level"], one["draw"]) for one in found] == [
        (one.perturbed, one.attacker, one.level, one.draw) for one in made
    ]


def test_pairs_sentences_and_options_are_those_of_the_endpoint(run: Run, tmp_path: Path) -> None:
    pairs = [[TEXTS[0], TEXTS[1]], [TEXTS[2], TEXTS[0]]]
    Path("pairs.csv").write_text("p,h,label\n" + "".join(f'"{p}","{h}",0\n' for p, h in pairs))
    run(
        "pairs.csv",
        *("--attacker", "visual", "--variant", "paper", "--selection", "code", "--phi", "0.3"),
        *("--columns", "premise=p", "--columns", "hypothesis=h", "-o", "pairs.csv"),
    )
    body = {"attackers": ["visual"], "levels": [0.5], "variant": "paper", "selection": "code", "phi": 0.3}
    written = [line.split(",")[-1] for line in Path("pairs.csv").read_text().splitlines()]
    assert written == ["label", "0", "0"]
    for pair in expected(texts=pairs, **body):
        assert all(part in Path("pairs.csv").read_text() for part in pair)
    sentences = [text.split() for text in TEXTS]
    pq.write_table(pa.table({"tokens": sentences, "tags": [[0] * len(one) for one in sentences]}), "tagged.parquet")
    run("tagged.parquet", "--attacker", "full_shuffle", "--level", "1", "-o", "noisy.parquet")
    found = pq.read_table("noisy.parquet").column("tokens").to_pylist()
    assert found == expected(sentences=sentences, attackers=["full_shuffle"], levels=[1.0])


def test_a_word_has_one_form_in_a_treebank(run: Run) -> None:
    words = ["wonderful", "film", "wonderful"]
    block = "".join(f"{n}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_\n" for n, word in enumerate(words, 1)) + "\n"
    Path("bank.conllu").write_text(block * 5)
    run("bank.conllu", "--attacker", "full_shuffle", "--level", "1", "-o", "noisy.conllu")
    forms = {line.split("\t")[1] for line in Path("noisy.conllu").read_text().splitlines() if line}
    assert len(forms) == 2
    assert forms.isdisjoint(words)


def test_a_mixed_file_has_each_text_once_in_about_equal_shares(run: Run) -> None:
    Path("many.jsonl").write_text((json.dumps({"text": TEXTS[0]}) + "\n") * 1200)
    run("many.jsonl", "--mix", "--without", "visual", "--without", "phonetic", "--notes", "-o", "mixed.jsonl")
    found = objects(Path("mixed.jsonl"))
    cells = [(one["attacker"], one["level"]) for one in found]
    assert len(found) == 1200
    assert len(set(cells)) == 8 * 3
    assert not {"visual", "phonetic", "combined"} & {attacker for attacker, _ in cells}
    # 50 expected of each of the 24: a share of 20 or of 90 is five standard deviations away.
    assert all(20 <= cells.count(cell) <= 90 for cell in set(cells))
    (first, *_) = found
    body = {"texts": [TEXTS[0]], "attackers": [first["attacker"]], "levels": [first["level"]]}
    assert [first["text"]] == expected(**body)


def test_a_mixed_file_does_not_depend_on_the_order_of_options(run: Run) -> None:
    one = ["--attacker", "visual", "--attacker", "truncate", "--level", "0.5", "--level", "1"]
    other = ["--attacker", "truncate", "--attacker", "visual", "--level", "1", "--level", "0.5"]
    Path("some.txt").write_text("\n".join(TEXTS * 4))
    assert run("some.txt", "--mix", *one).stdout == run("some.txt", "--mix", *other).stdout


def test_leaving_one_out_leaves_it_out_of_combined(run: Run) -> None:
    Path("one.txt").write_text(TEXTS[0])
    others = ["--without=segment", "--without=visual", "--without=phonetic", "--without=intrude"]
    found = run("one.txt", "--attacker", "combined", "--level", "1", *others).stdout
    assert found.isascii()
    assert len(found.split()) == len(TEXTS[0].split())


def test_texts_are_shown_before_and_after(run: Run) -> None:
    Path("some.txt").write_text("A gripping film.\nEscape \x1b[2J sequences.\n")
    shown = run("some.txt", "--attacker", "truncate", "--attacker", "disemvowel", "--level", "1", "--show").stdout
    lines = [line.split(maxsplit=2) for line in shown.splitlines()]
    assert lines[0] == ["0", "A", "gripping film."]
    assert lines[1] == ["truncate", "1", "A grippin fil."]
    assert lines[2] == ["disemvowel", "1", "A grppng flm."]
    assert "\x1b" not in shown
    assert "<U+001B>" in shown


def test_changes_are_in_colour_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    Path("some.txt").write_text("A film.")
    assert "\x1b[33mfil\x1b[0m" in run("some.txt", "--attacker", "truncate", "--level", "1", "--show").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rows.jsonl"], "name an attacker"),
        (["rows.jsonl", "--attacker", "visual", "--without", "visual"], "no attacker is left"),
        (["rows.jsonl", "--attacker", "visual", "--attacker", "combined"], "combined draws among several"),
        (["rows.jsonl", "--attacker", "natural_typo", "--typos", "nlpaug"], "seatrial resources install typos-nlpaug"),
        (
            ["rows.jsonl", "--attacker", "combined", "--glyphs", "confusables"],
            "--glyphs confusables: confusables",
        ),
        (
            ["rows.jsonl", "--attacker", "visual", "--columns", "text=review"],
            "Line 1 has no column 'review'",
        ),
        (["rows.jsonl", "--attacker", "visual", "--columns", "label=x"], "--columns label=x: it may be"),
        (["rows.jsonl", "--attacker", "visual", "-o", "x.csv"], "would hold jsonl"),
        (["tagged.jsonl", "--attacker", "segment"], "segment joins words"),
        (["notes.doc", "--attacker", "visual"], "give --format"),
        (["rows.jsonl.gz", "--attacker", "visual"], "gzip -dc rows.jsonl.gz | seatrial perturb --format jsonl"),
        (["lines.txt", "--attacker", "visual", "--notes"], "no place for --notes"),
        (["lines.txt", "--attacker", "visual", "--task", "token-classification"], "txt is not read for"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_told_and_leaves_no_file(run: Run, rows: Path, arguments: list[str], told: str) -> None:
    for name in ("notes.doc", "rows.jsonl.gz", "lines.txt"):
        Path(name).write_text("a")
    Path("tagged.jsonl").write_text('{"tokens": ["a", "b"]}')
    before = sorted(Path().iterdir())
    output = [] if "-o" in arguments else ["-o", "out" + Path(arguments[0]).suffix]
    done = run(*arguments, *output, status=2)
    assert told in done.stderr
    assert sorted(Path().iterdir()) == before


def test_a_row_that_is_none_is_told_with_its_line_and_leaves_the_earlier_file(run: Run, rows: Path) -> None:
    with rows.open("a") as file:
        file.write('{"text": 4}\n')
    Path("noisy.jsonl").write_text("of an earlier run")
    done = run(rows, "--attacker", "visual", "-o", "noisy.jsonl", status=2)
    assert "Line 4, column 'text': the text is an integer: a string is needed" in done.stderr
    assert Path("noisy.jsonl").read_text() == "of an earlier run"
    assert len(list(Path().iterdir())) == 2


@pytest.mark.drill
@pytest.mark.slow
def test_standard_output_by_name_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with target.open("w") as file:
        file.write("before\n")
        file.flush()
        done = subprocess.run(
            [*COMMAND, "--attacker=truncate", "--level=1", "-o", "/dev/stdout"],
            input="A film.",
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert done.returncode == 0, done.stderr
    assert target.read_text() == "before\nA fil."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("name", ["/dev/full", "full.txt"], ids=["device", "link"])
def test_a_full_disk_is_told(run: Run, name: str) -> None:
    Path("some.txt").write_text("A gripping film.\n" * 10_000)
    if name == "full.txt":
        Path(name).symlink_to("/dev/full")
    done = run("some.txt", "--attacker", "truncate", "-o", name, status=4)
    assert done.stderr == f"Error: {name} cannot be written: No space left on device\n"


def test_a_file_may_be_replaced_by_itself_and_through_a_link(run: Run, rows: Path) -> None:
    rows.chmod(0o640)
    link = Path("link.jsonl")
    link.symlink_to(rows)
    run(rows, "--attacker", "truncate", "-o", link)
    assert link.is_symlink()
    assert stat.S_IMODE(rows.stat().st_mode) == 0o640
    assert [one["text"] for one in objects(rows)] == expected(texts=TEXTS, attackers=["truncate"], levels=[0.5])


def test_options_are_those_of_noise() -> None:
    options = {parameter.name for parameter in main.commands["perturb"].params}
    assert set(Noise.model_fields) <= options


def test_an_attacker_that_is_none_is_refused_with_the_nearest(run: Run) -> None:
    refused = run("--attacker", "vizual", "--show", status=2)
    assert "'vizual' is not a choice here: did you mean 'visual'? Choices are " in refused.stderr
