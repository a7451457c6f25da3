"""What estimates rest on does not follow a pause of the machine."""

import time

import torch

from workers.models.timing import MOST_RUNS, shortest

CPU = torch.device("cpu")


def test_a_pause_does_not_count() -> None:
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1
        # Every other run is disturbed, and so is the first.
        time.sleep(0.1 if runs % 2 else 0.01)

    assert shortest(run, CPU) < 0.05


def test_a_quick_model_is_run_often_and_not_for_ever() -> None:
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1

    shortest(run, CPU)
    assert runs == MOST_RUNS + 1
