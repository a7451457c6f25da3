"""What people call the shipped defences: in flags and figures as in the reports around them."""

from collections.abc import Iterable

from seatrial.reporting.words import DEFENCES


def called(name: str) -> str:
    """Return what a defence is called; an operator's as it was registered.

    >>> called("rmc"), called("identity"), called("mine_v2")
    ('RMC', 'identity', 'mine_v2')
    """
    return DEFENCES.get(name, name)


def listed(names: Iterable[str]) -> str:
    """Return what defences are called, in a list.

    >>> listed(["rmc", "mine"])
    'RMC, mine'
    """
    return ", ".join(called(name) for name in names)
