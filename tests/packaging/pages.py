"""The pages people read, and what they link to."""

import re
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder, pattern in ((ROOT, "*.md"), (ROOT / "docs", "**/*.md"), (ROOT / "examples", "**/*.md"))
    for path in folder.glob(pattern)
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    """Return a page, by its path from the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", read(name))


def blocks(name: str, language: str = "") -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", read(name), re.DOTALL | re.MULTILINE)


def anchors(name: str) -> set[str]:
    """Return what a link to a heading of a page may end with, as GitHub makes it."""
    return {_anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose(name), re.MULTILINE)}


def _anchor(heading: str) -> str:
    kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def links(name: str) -> list[tuple[str, str]]:
    """Return the path and the anchor of each link to something in the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(name))
    return [(target.partition("#")[0], target.partition("#")[2]) for target in found if "://" not in target]
