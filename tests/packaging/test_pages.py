"""Every page links to what is there and names files and commands that exist."""

import re
import subprocess

import click
import pytest

from app.cli import main
from tests.packaging.pages import PAGES, ROOT, anchors, blocks, links, prose, read

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = ("alembic", "app", "benchmarks", "docs", "examples", "scripts", "seatrial", "tests", "workers")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_is_there(page: str) -> None:
    for path, anchor in links(page):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT).as_posix()), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_the_files_a_page_names_are_there(page: str) -> None:
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", prose(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_make_targets_a_page_names_exist(page: str) -> None:
    assert set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)`", prose(page))) <= TARGETS
    for block in blocks(page, "sh"):
        assert set(re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)) <= TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_a_page_names_exist(page: str) -> None:
    # `seatrial gate`, `seatrial keys create ci`: as far as the words are those of groups and commands.
    for words in re.findall(
        r"(?<![\w./-])(?<!from )seatrial((?: [a-z]+)+)", "\n".join(re.findall(r"`([^`\n]+)`", prose(page)))
    ):
        command: click.Command = main
        for word in words.split():
            if not isinstance(command, click.Group):
                break
            assert word in command.commands, f"seatrial{words}"
            command = command.commands[word]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_left_to_fill_in(page: str) -> None:
    assert not re.search(r"@@|\bTODO\b|\bFIXME\b|\bTBD\b", read(page))


def test_pictures_are_used_and_committed() -> None:
    pictures = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "images").iterdir()}
    used = {
        (ROOT / page).parent.joinpath(path).resolve().relative_to(ROOT).as_posix()
        for page in PAGES
        for path, _ in links(page)
    }
    assert pictures <= used
    listed = subprocess.run(["git", "ls-files", "docs/images"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        assert pictures <= set(listed.stdout.split())
