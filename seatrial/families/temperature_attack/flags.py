"""Doubts that checks of ``temperature_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = ()
