"""A worker whose uncertainty_span is a game of steps: run as a local worker, or named as a Celery application."""

import os
from pathlib import Path

from tests.stepping import Stepping
from workers.celery_app import app
from workers.local import main
from workers.runtime import sandboxed

__all__ = ["app"]

LOG = "STEPPING_LOG"

STEPS = 30


def play(log: str) -> None:
    """Let uncertainty_span be a game of steps, in the process that runs models."""
    from workers.families.uncertainty_span import family
    from workers.runtime import jobs

    family.FAMILY = Stepping(Path(log), steps=STEPS, pause_s=0.1)
    # Sources that are edited while a test runs are no other code to the worker it starts next.
    jobs.code_version = lambda: "steps"


# Not in a test process that only imports this.
if log := os.environ.get(LOG):
    sandboxed.PREPARE.append(["tests.e2e.stepping_worker:play", log])

if __name__ == "__main__":
    main()
