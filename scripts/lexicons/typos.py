"""Make the table of misspellings that is shipped: codespell's dictionary read backwards.

    python -m scripts.lexicons.typos codespell-2.4.3-py3-none-any.whl

A line of the dictionary is ``misspelling->correction`` or ``misspelling->one, another,``; what follows the last comma
is no correction but a reason, as codespell's own parser has it. A misspelling of several words counts for each; what is
corrected to several words in a row (``alot->a lot``) is no misspelling of a word. Case is kept.
"""

import lzma
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "seatrial" / "noise" / "data" / "typos-codespell.tsv.xz"
MEMBER = "codespell_lib/data/dictionary.txt"


def main() -> None:
    """Write the table: a line for each word, a tab, its misspellings."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        lines = wheel.read(MEMBER).decode("utf-8").splitlines()
    table = backwards(lines)
    text = "".join(f"{word}\t{' '.join(misspellings)}\n" for word, misspellings in sorted(table.items()))
    OUT.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(table)} words, {sum(map(len, table.values()))} misspellings, {OUT.stat().st_size} bytes")


def backwards(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the misspellings of each correction that is one word, in the dictionary's order.

    >>> backwards(["teh->the", "oen->one, own, open,", "alot->a lot, allot,", "clas->class, disabled because of class"])
    {'the': ['teh'], 'one': ['oen'], 'own': ['oen'], 'open': ['oen'], 'allot': ['alot'], 'class': ['clas']}
    """
    table: dict[str, list[str]] = {}
    for line in lines:
        misspelling, data = line.split("->")
        corrections, comma, _ = data.strip().rpartition(",")
        for correction in (corrections if comma else data).split(","):
            if len(correction.split()) == 1:
                table.setdefault(correction.strip(), []).append(misspelling)
    return table


if __name__ == "__main__":
    main()
