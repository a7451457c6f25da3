"""Recorded passes: what they give is what the module gives, whatever lies between a pass and its way back."""

import copy
from collections.abc import Callable
from itertools import count

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests import assets
from workers.attacks.losses import cross_entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD
from workers.models.image_classifier import ImageClassifier
from workers.models.replaying import Replayed


class Recorder:
    """Records as a GPU does: what is replayed is work, into memory that was given out before."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        self.recorded += 1
        found = work()

        def replay() -> None:
            self.replayed += 1
            found.copy_(work())

        return found, replay


def once(work: Callable[[], object]) -> None:
    work()


def replayed(module: Callable[[Tensor], Tensor], recorder: Recorder | None = None, **more: int) -> Replayed:
    return Replayed(module, record=recorder or Recorder(), warm_up=once, **more)


@pytest.fixture
def network() -> nn.Module:
    """A small network that wants no gradient."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return layers.eval().requires_grad_(False)


def gradient(module: Callable[[Tensor], Tensor], inputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    leaf = inputs.clone().requires_grad_()
    outputs = module(leaf)
    return outputs.detach(), torch.autograd.grad((outputs * weights).sum(), leaf)[0]


def test_passes_are_recorded_once_a_shape_came_again_and_give_what_the_module_gives(network: nn.Module) -> None:
    recorder = Recorder()
    asked = replayed(network, recorder, after=2)
    generator = torch.Generator().manual_seed(1)
    for number in range(6):
        inputs, weights = torch.randn(5, 4, generator=generator), torch.randn(5, 3, generator=generator)
        with torch.no_grad():
            assert torch.equal(asked(inputs), network(inputs))
        assert recorder.recorded == (0 if number < 2 else 1 if number == 2 else 4)
        for ours, theirs in zip(gradient(asked, inputs, weights), gradient(network, inputs, weights), strict=True):
            assert torch.equal(ours, theirs)
        # Another shape is another recording.
        assert torch.equal(asked(inputs[:1]), network(inputs[:1]))
    assert recorder.replayed > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["pass", "look", "back"]), st.integers(1, 3)), min_size=4, max_size=30))
def test_ways_back_are_right_in_whatever_order_they_are_asked_for(moves: list[tuple[str, int]]) -> None:
    """Passes share memory: one between a pass and its way back must not change it, nor a way back another's."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)
    asked, seeds = replayed(network, after=0), count()
    under_way: list[tuple[Tensor, Tensor, Tensor]] = []
    kept: list[tuple[Tensor, Tensor]] = []
    for move, size in moves:
        inputs = torch.randn(size, 4, generator=torch.Generator().manual_seed(next(seeds)))
        if move == "pass":
            leaf = inputs.requires_grad_()
            outputs = asked(leaf)
            kept.append((outputs.detach(), network(inputs).detach()))
            under_way.append((leaf, outputs, torch.arange(1.0, 4.0)))
        elif move == "look":
            with torch.no_grad():
                kept.append((asked(inputs), network(inputs)))
        elif under_way:
            leaf, outputs, weights = under_way.pop(size % len(under_way))
            (found,) = torch.autograd.grad((outputs * weights).sum(), leaf)
            kept.append((found, gradient(network, leaf.detach(), weights)[1]))
    for ours, theirs in kept:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_pass_can_go_back_twice(network: nn.Module) -> None:
    asked = replayed(network, after=0)
    leaf = torch.randn(2, 4).requires_grad_()
    outputs = asked(leaf)
    first, second = (torch.autograd.grad(outputs[:, one].sum(), leaf, retain_graph=True)[0] for one in (0, 1))
    for found, one in ((first, 0), (second, 1)):
        weights = torch.zeros(3).index_fill_(0, torch.tensor([one]), 1.0)
        assert torch.equal(found, gradient(network, leaf.detach(), weights)[1])


def test_what_cannot_be_recorded_is_computed_and_tried_once(network: nn.Module) -> None:
    tried = []

    def refusing(work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        tried.append(work)
        raise RuntimeError("operation not permitted when stream is capturing")

    asked = Replayed(network, record=refusing, warm_up=once, after=1)
    inputs = torch.randn(2, 4)
    for _ in range(5):
        assert torch.equal(asked(inputs), network(inputs))
    assert len(tried) == 1
    # Outputs that do not depend on the inputs have no way back to be recorded.
    fixed = replayed(lambda given: torch.ones(len(given), 3), after=0)
    assert not fixed(inputs.requires_grad_()).requires_grad


def test_who_watches_sees_the_module(network: nn.Module) -> None:
    class Names(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    recorder = Recorder()
    asked = replayed(network, recorder, after=0)
    inputs = torch.randn(2, 4)
    asked(inputs)
    replays = recorder.replayed
    with Names() as names:
        asked(inputs)
    assert "linear" in names.seen
    assert recorder.replayed == replays


def test_hooks_see_every_pass_and_saved_tensors_are_those_of_the_module(network: nn.Module) -> None:
    recorder = Recorder()
    asked = replayed(network, recorder, after=0)
    inputs = torch.randn(2, 4, requires_grad=True)
    asked(inputs)
    replays, seen, kept = recorder.replayed, [], []
    removed = network[0].register_forward_pre_hook(lambda module, given: seen.append(given))  # type: ignore[index, operator]
    asked(inputs)
    removed.remove()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        asked(inputs)
    assert len(seen) == 1
    assert len(kept) > 1
    assert recorder.replayed == replays
    asked(inputs)
    assert recorder.replayed == replays + 1


def test_only_so_many_shapes_are_held(network: nn.Module) -> None:
    recorder = Recorder()
    asked = replayed(network, recorder, after=0, most=2)
    for size in (1, 2, 3, 2, 3, 1):
        with torch.no_grad():
            asked(torch.randn(size, 4))
    # 1, 2, 3; 2 and 3 are still there; 1 was let go of and has to come again first.
    assert recorder.recorded == 4


def test_an_attack_finds_the_same_with_passes_replayed_and_a_copy_with_other_weights_does_not_replay_them() -> None:
    images, labels = (torch.from_numpy(array[:24]) for array in assets.digits())
    images = images.float() / 255
    network = assets.trained()
    classifier, plain = (
        ImageClassifier(
            network,
            **{"labels": [str(one) for one in range(10)], "input_shape": tuple(images.shape[1:])},  # type: ignore[arg-type]
            **{"mean": [0.0], "std": [1.0], "device": torch.device("cpu")},  # type: ignore[arg-type]
        )
        for _ in range(2)
    )
    recorder = Recorder()
    classifier.replay(replayed(classifier.module, recorder, after=1))
    objective = Objective(lambda logits, at: -cross_entropy(logits, labels[at]), criterion=None)
    ours, theirs = (PGD("linf", 0.1, 0.02, 10).run([one.logits], images, objective) for one in (classifier, plain))
    assert recorder.replayed > 10
    assert torch.equal(ours.final, theirs.final)
    assert torch.equal(ours.final_logits, theirs.final_logits)
    replays = recorder.replayed
    classifier.module = copy.deepcopy(network)
    classifier.logits(images)
    assert recorder.replayed == replays
