"""Doubts that checks of ``transductive_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = ()
