"""Files of an ensemble: one for all of its members, or one for each."""

import re


def files_of(members: int) -> str:
    """Return how many files of weights an architecture takes, in words.

    Args:
        members: Of an ensemble; 0 of a single network.

    >>> files_of(0), files_of(5)
    ('exactly one', 'one, or 5: one for each member')
    """
    return f"one, or {members}: one for each member" if members else "exactly one"


def in_order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return what names are sorted by so that numbers in them count as such.

    >>> sorted(["member-10.safetensors", "member-9.safetensors"], key=in_order)
    ['member-9.safetensors', 'member-10.safetensors']
    """
    parts = re.split(r"([0-9]+)", name)
    # Digits of other scripts are letters here.
    return [(1, int(part), "") if part.isascii() and part.isdigit() else (0, 0, part) for part in parts], name
