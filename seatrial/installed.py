"""Which packages this installation lacks, by the extras of the distribution."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

PACKAGE = "seatrial"


def lacking(extra: str) -> Iterator[tuple[Requirement, str | None]]:
    """Yield what an extra asks for that is not here, and the version installed in its place, None for none."""
    for line in requires(PACKAGE) or []:
        asked = Requirement(line)
        if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
            continue
        if extra and (asked.marker is None or asked.marker.evaluate({"extra": ""})):
            # Everybody needs it, with or without the extra.
            continue
        if asked.name == PACKAGE:
            for further in asked.extras:
                yield from lacking(further)
            continue
        try:
            installed = version(asked.name)
        except PackageNotFoundError:
            yield asked, None
            continue
        if not asked.specifier.contains(installed, prereleases=True):
            yield asked, installed


@cache
def missing_packages(extra: str) -> tuple[str, ...]:
    """Return the names of an extra's packages that are not installed at all, sorted.

    >>> missing_packages("")
    ()
    """
    return tuple(sorted(asked.name for asked, installed in lacking(extra) if installed is None))


def how_to_install(extra: str) -> str:
    """Return the command.

    >>> how_to_install("text")
    "pip install 'seatrial[text]'"
    """
    return f"pip install '{PACKAGE}[{extra}]'"
