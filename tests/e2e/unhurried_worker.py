"""A worker that pauses before every gradient of an attack: run as a local worker, or named as a Celery application.

What it computes is the product's, to the bit. Tests that look in the middle of a shard would else need shards that keep
a core busy for as long.
"""

import os
import time

from torch import Tensor

from workers.celery_app import app
from workers.local import main
from workers.runtime import sandboxed

__all__ = ["app"]

PAUSE_S = 0.01


def pause() -> None:
    """Let attacks take their time, in the process that runs models."""
    from workers.attacks import gradients

    compute = gradients.input_gradient

    def paused(loss: Tensor, inputs: Tensor) -> Tensor:
        time.sleep(PAUSE_S)
        return compute(loss, inputs)

    gradients.input_gradient = paused


# Not in a test process that only imports this.
if "UNHURRIED" in os.environ:
    sandboxed.PREPARE.append(["tests.e2e.unhurried_worker:pause"])

if __name__ == "__main__":
    main()
