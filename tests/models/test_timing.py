"""What estimates rest on does not follow a pause of the machine."""

import time

import torch
from torch import nn

from workers.models.timing import MOST_RUNS, graph_bytes, shortest

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


def test_the_graph_of_a_training_is_counted_and_leaves_the_module_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False), nn.ReLU(), nn.Linear(3, 2)).eval()
    module.requires_grad_(False)
    inputs = torch.rand(8, 4)
    before, state = {name: each.clone() for name, each in module.state_dict().items()}, torch.get_rng_state()
    # Input, what is normalised with its mean and deviation, and what both the ReLU and the last layer keep.
    assert graph_bytes(module, lambda: module(inputs)) == 4 * (8 * 4 + 8 * 3 + 2 * 3 + 8 * 3)
    assert not any(each.requires_grad for each in module.parameters())
    assert not any(each.training for each in module.modules())
    assert all(torch.equal(before[name], each) for name, each in module.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
