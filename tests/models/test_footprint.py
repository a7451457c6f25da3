"""What passes hold, against sums by hand."""

import torch
from torch import Tensor, nn

from tests.models.builders import CPU
from workers.models.footprint import attack_bytes, forward_bytes, graph_bytes

FLOAT = 4


def test_the_graph_of_a_training_is_counted_and_leaves_the_module_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False), nn.ReLU(), nn.Linear(3, 2)).eval()
    module.requires_grad_(False)
    inputs = torch.rand(8, 4)
    before, state = {name: each.clone() for name, each in module.state_dict().items()}, torch.get_rng_state()
    # Input, what is normalised with its mean and deviation, and what both the ReLU and the last layer keep.
    assert graph_bytes(module, lambda: module(inputs)) == FLOAT * (8 * 4 + 8 * 3 + 2 * 3 + 8 * 3)
    assert not any(each.requires_grad for each in module.parameters())
    assert not any(each.training for each in module.modules())
    assert all(torch.equal(before[name], each) for name, each in module.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


def test_an_attack_keeps_what_the_gradient_at_its_images_needs() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 5), nn.Sigmoid()).eval().requires_grad_(False)
    inputs = torch.rand(8, 4, device=CPU)
    # Frozen linear layers keep their weights alone; a ReLU and a sigmoid keep what they return.
    assert attack_bytes(module, module, inputs) == FLOAT * (8 * 3 + 8 * 5)
    with torch.no_grad():
        assert attack_bytes(module, module, inputs) == FLOAT * (8 * 3 + 8 * 5)
    assert not inputs.requires_grad


class _Widening(nn.Module):
    """Holds two wide tensors at once, then one, then a narrow one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(100, 4))

    def forward(self, inputs: Tensor) -> Tensor:
        wide = inputs @ self.weight.t()
        wide = wide.exp()
        return wide[:, :2].contiguous()


def test_a_forward_pass_holds_what_is_alive_at_once() -> None:
    module, inputs = _Widening(), torch.rand(8, 4)
    assert forward_bytes(module, lambda: module(inputs)) == FLOAT * 2 * 8 * 100
    # Twice as many images take twice as much, and weights never count.
    assert forward_bytes(module, lambda: module(torch.cat([inputs, inputs]))) == FLOAT * (2 * 16 * 100 + 16 * 4)


def test_a_deeper_network_holds_no_more_at_once_though_its_graph_grows() -> None:
    def network(depth: int) -> nn.Module:
        layers = [layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.Tanh())]
        return nn.Sequential(*layers).eval().requires_grad_(False)

    inputs = torch.rand(4, 16)
    shallow, deep = network(2), network(8)
    assert forward_bytes(deep, lambda: deep(inputs)) == forward_bytes(shallow, lambda: shallow(inputs))
    assert attack_bytes(deep, deep, inputs) == 4 * attack_bytes(shallow, shallow, inputs)
