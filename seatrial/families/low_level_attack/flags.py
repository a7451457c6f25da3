"""Doubts that checks of ``low_level_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = ()
