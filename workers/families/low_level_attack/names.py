"""What things are called: columns of records, and attackers in sentences and figures."""

from collections.abc import Iterable

from seatrial.contracts.estimates import metric_name

CLEAN, ATTACK = "clean", "attack_"
"""Stages: the texts as they are, and one for each attacker."""

WORST = "worst"
"""What stands for the number of a draw in the columns of an example's worst."""


def column(name: str, level: float, *, is_worst: bool = False) -> str:
    """Return the column of what happened at a level, in the first draw or in the worst.

    >>> column("text", 0.2), column("text", 0.2, is_worst=True)
    ('text[level=0.2]', 'text[level=0.2,draw=worst]')
    """
    return metric_name(name, level=float(level), draw=WORST) if is_worst else metric_name(name, level=float(level))


def called(attacker: str) -> str:
    """Return what an attacker is called in prose.

    >>> called("inner_shuffle")
    'inner shuffle'
    """
    return attacker.replace("_", " ")


def listed(attackers: Iterable[str]) -> str:
    """Return what attackers are called, in a list.

    >>> listed(["full_shuffle", "visual"])
    'full shuffle, visual'
    """
    return ", ".join(called(attacker) for attacker in attackers)
