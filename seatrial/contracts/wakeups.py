"""Names of the broker messages: constants both sides import, so neither imports the other."""

WAKE = "seatrial.wake"
"""Tell a worker that there may be something to claim. Carries nothing: the database holds the truth."""

HOUSEKEEP = "seatrial.housekeep"
"""Reap expired leases and old rows, and wake workers when something is claimable."""

QUEUE_WORK = "gpu"
QUEUE_HOUSEKEEPING = "cpu"
