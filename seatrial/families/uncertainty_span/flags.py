"""Doubts that checks of ``uncertainty_span`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = ()
