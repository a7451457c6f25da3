"""``seatrial perturb``: a file of texts with noise, without a model and without a service."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from app.cli.choices import Choice
from app.cli.exits import BadRequestError, CouldNotRunError, ending_as_documented
from app.cli.perturb_plan import Asked, Plan, named
from app.cli.perturb_preview import Preview
from app.cli.progress import say
from app.cli.whole_file import READER_GONE, Output, OutputError, ReaderGoneError, forget_stdout, whole_file
from app.perturb.rewriting import (
    PARTS,
    Rewriting,
    rewrite_conllu,
    rewrite_csv,
    rewrite_jsonl,
    rewrite_lines,
)
from seatrial.contracts.datasets import COLUMNS
from seatrial.contracts.models import TAGGING, TEXTS, Task
from seatrial.contracts.noise import ATTACKERS, Attacker, Noise
from seatrial.contracts.perturb import NOISEMAKERS
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.noise.lexicons import Lexicons
from seatrial.store.settings import get_settings

LAYOUTS: dict[str, tuple[str, ...]] = {
    "txt": (".txt", ".text"),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet",),
    "conllu": (".conllu",),
}
_STREAMED: Mapping[str, Callable[[BinaryIO, Any, Rewriting], None]] = {
    "txt": rewrite_lines,
    "jsonl": rewrite_jsonl,
    "csv": rewrite_csv,
    "conllu": rewrite_conllu,
}
_STDIN = Path("-")
_LEVELS = (0.2, 0.5, 0.8)

_OUTPUT = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_ATTACKER = Choice([*NOISEMAKERS, "all"])
_READING = Choice(["code", "paper"])
_PHI = click.FloatRange(min=0, min_open=True, max=1)
_TYPOS = Choice(["codespell", "nlpaug"])
_GLYPHS = Choice(["dejavu", "dejavu_bmp", "confusables"])

_EXAMPLES = """\b
Examples:
  seatrial perturb reviews.jsonl --attacker visual --level 0.5 -o noisy.jsonl
  seatrial perturb en_ewt-ud-dev.conllu --attacker all --mix -o mixed.conllu
  seatrial perturb train.csv --mix --without visual -o no_visual.csv
  echo "A gripping film." | seatrial perturb --attacker all --show
"""


@click.command(epilog=_EXAMPLES)
@click.argument("source", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), default="-")
@click.option("--output", "-o", type=_OUTPUT, help="File.  [default: standard output]")
@click.option("--format", "layout", type=Choice(list(LAYOUTS)), help="Format of SOURCE.  [default: from its suffix]")
@click.option(
    "--attacker",
    "attackers",
    multiple=True,
    type=_ATTACKER,
    help="May be repeated.  [default with --mix and --show: all]",
)
@click.option("--without", multiple=True, type=Choice(ATTACKERS), help="Leave this one out; may be repeated.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.FloatRange(min=1e-6, max=1),
    help="Share of the words attacked; may be repeated.  [default: 0.5; with --mix 0.2, 0.5 and 0.8]",
)
@click.option("--draws", type=click.IntRange(1, 100), default=1, show_default=True, help="Random draws of each.")
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), default=0, show_default=True, help="Seed.")
@click.option("--mix", is_flag=True, help="Perturb each text once, by an attacker and at a level drawn for it.")
@click.option("--show", is_flag=True, help="Show texts before and after, in colour, instead of writing them.")
@click.option("--notes", is_flag=True, help="Add the columns attacker, level and draw; in CoNLL-U a comment.")
@click.option("--task", type=Choice(TEXTS), help="Task of the file.  [default: from its columns]")
@click.option(
    "--columns",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="Column that holds a role, as in text=review; may be repeated.",
)
@click.option(
    "--variant",
    type=_READING,
    default="code",
    show_default=True,
    help="Rules of the released program, or of the paper.",
)
@click.option("--selection", type=_READING, help="How words are chosen.  [default: as --variant]")
@click.option("--phi", type=_PHI, help="How hard a word is hit, apart from how many are.  [default: the level]")
@click.option(
    "--typos", type=_TYPOS, default="codespell", show_default=True, help="Where natural_typo finds misspellings."
)
@click.option("--glyphs", type=_GLYPHS, default="dejavu", show_default=True, help="Where visual finds look-alikes.")
def perturb(
    source: Path,
    output: Path | None,
    layout: str | None,
    attackers: Sequence[Asked],
    without: Sequence[Attacker],
    levels: Sequence[float],
    draws: int,
    seed: int,
    mix: bool,
    show: bool,
    notes: bool,
    task: Task | None,
    columns: Sequence[str],
    **noise: Any,
) -> None:
    """Write the texts in SOURCE, or of standard input, with character-level noise, as audits make it.

    The format stays, and so does all that is not text: other columns, labels, tags, comments. A .txt file has a text
    per line; .jsonl, .csv and .parquet have a column text, or premise and hypothesis, or (not CSV) tokens; in .conllu
    the column FORM is perturbed, one form per word. Text number i gets the noise that an audit of the same seed gives
    example i. With several attackers, levels or draws a row is written once for each.
    """
    with ending_as_documented():
        if not attackers and not (mix or show):
            raise BadRequestError("name an attacker: --attacker visual, or all, or combined")
        settings = get_settings()
        layout = layout or _layout_of(source)
        plan = Plan(
            Noise(**noise),
            named(attackers or ["all"], without),
            frozenset(without),
            tuple(dict.fromkeys(float(f"{level:g}") for level in levels)) or (_LEVELS if mix else (0.5,)),
            draws,
            seed,
            mix,
            Lexicons(settings.resolved_resources),
        )
        how = Rewriting(plan, *_columns(layout, task, columns), notes, settings)
        if notes and layout == "txt":
            raise BadRequestError("a .txt file has no place for --notes")
        if not show:
            _check_output(output, layout)
        with _written_whole(None if show else output) as sink:
            _rewrite(source, layout, sink, replace(how, change=Preview(plan, sink)) if show else how)
        if not show:
            say(plan.summary())


def _rewrite(source: Path, layout: str, sink: Output, how: Rewriting) -> None:
    name = "standard input" if source == _STDIN else str(source)
    try:
        if layout != "parquet":
            with _opened(source) as file:
                _STREAMED[layout](file, sink, how)
        elif source == _STDIN:
            raise BadRequestError("Parquet is not read from a pipe: name the file")
        else:
            # Arrow takes time to load.
            from app.perturb.rewriting_parquet import rewrite_parquet

            rewrite_parquet(source, sink, how)
    except InspectionError as error:
        # The detail speaks of a manifest; here it is an option.
        hint = " (--columns ROLE=NAME)" if error.field.startswith("/manifest/columns") else ""
        raise BadRequestError(f"{name}: {error.detail}{hint}") from error


def _opened(source: Path) -> AbstractContextManager[BinaryIO]:
    if source == _STDIN:
        return nullcontext(sys.stdin.buffer)
    try:
        return source.open("rb")
    except OSError as error:
        raise BadRequestError(f"{source} cannot be read: {error.strerror}") from error


@contextmanager
def _written_whole(path: Path | None) -> Iterator[Output]:
    """Give what rows are written to, and report when they cannot be."""
    try:
        with whole_file(path) as output:
            yield output
    except ReaderGoneError:
        forget_stdout()
        sys.exit(READER_GONE)
    except OutputError as error:
        raise CouldNotRunError(str(error)) from error


def _layout_of(source: Path) -> str:
    """Return the format of a file by its suffix; of standard input, lines.

    Raises:
        BadRequestError: It is unknown, or standard input looks like something else than lines.
    """
    if source == _STDIN:
        head = cast(io.BufferedReader, sys.stdin.buffer).peek(64)[:64].lstrip()
        if head.startswith(b"{"):
            raise BadRequestError("standard input looks like JSON Lines: give --format jsonl, or --format txt")
        return "txt"
    if layout := _by_suffix(source):
        return layout
    if source.suffix.lower() == ".gz":
        inner = _by_suffix(Path(source.stem)) or "FORMAT"
        raise BadRequestError(f"unpack it first: gzip -dc {source} | seatrial perturb --format {inner} ...")
    raise BadRequestError(f"{source}: its suffix is unknown: give --format {'|'.join(LAYOUTS)}")


def _by_suffix(path: Path) -> str | None:
    return next((layout for layout, suffixes in LAYOUTS.items() if path.suffix.lower() in suffixes), None)


def _check_output(output: Path | None, layout: str) -> None:
    if output is None:
        if layout == "parquet" and sys.stdout.isatty():
            raise BadRequestError("a terminal cannot show Parquet: give --output")
    elif (_by_suffix(output) or layout) != layout:
        raise BadRequestError(f"{output} would hold {layout}, as the input does: give it another name")


def _columns(layout: str, task: Task | None, said: Sequence[str]) -> tuple[tuple[str, ...] | None, dict[str, str]]:
    """Return what the columns of texts are, None where their names tell, and names that are not the role's.

    Raises:
        BadRequestError: The task and the columns, or the format, do not go together.
    """
    if said and layout in ("txt", "conllu"):
        raise BadRequestError(f"{layout} has no columns to name: leave --columns out")
    if task is not None and (layout == "conllu") != (task == TAGGING) and layout in ("txt", "conllu", "csv"):
        raise BadRequestError(f"{layout} is not read for {task}: leave --task out, or give the texts as JSON Lines")
    roles = None if task is None else next(one for one in PARTS if set(one) <= set(COLUMNS[task]))
    named: dict[str, str] = {}
    for one in said:
        role, _, name = one.partition("=")
        if not name or not any(role in (roles or all_roles) for all_roles in PARTS):
            known = ", ".join(f"{role}=NAME" for roles in PARTS for role in roles)
            raise BadRequestError(f"--columns {one}: it may be {known}")
        named[role] = name
    if not any(set(named) <= set(one) for one in PARTS):
        raise BadRequestError(f"--columns: {', '.join(named)} are not columns of one task")
    return roles, named
