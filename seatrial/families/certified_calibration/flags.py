"""Doubts that checks of ``certified_calibration`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = ()
