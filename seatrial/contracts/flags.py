"""Doubts about the model and the data, which a check of any family may carry."""

from seatrial.contracts.family import FlagSpec

SHARED: tuple[FlagSpec, ...] = ()
