"""A worker that saves trainings often: run as a local worker, or named as a Celery application.

What it trains is the product's, to the bit; a test would else train for as long as a save is apart from the next.
"""

import os

from workers.celery_app import app
from workers.local import main
from workers.runtime import sandboxed

__all__ = ["app"]


def save_often() -> None:
    """Save a training several times a second, in the process that runs models."""
    from workers.runtime import checkpointing, jobs

    checkpointing.SAVE_S = 0.2
    # Sources that are edited while a test runs are no other code to the worker it starts next.
    jobs.code_version = lambda: "saving"


# Not in a test process that only imports this.
if os.environ.get("SAVING"):
    sandboxed.PREPARE.append(["tests.e2e.saving_worker:save_often"])

if __name__ == "__main__":
    main()
