"""What an answer waits for behind a gate is found and followed, however it is told and whatever it stands beside."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.altered_passes import Place, found_at, rolled, with_put
from workers.attacks.closed_gates import OFF_EDGES, ClosedGate, follow, with_silenced
from workers.attacks.gate_search import closed_gate
from workers.attacks.inner_scores import FoundScores, inner_scores
from workers.attacks.joint_gates import cancelling, effects
from workers.attacks.losses import entropy
from workers.attacks.regions import off_edges
from workers.attacks.tried import Trial

IMAGES = torch.rand(24, 1, 6, 6, generator=torch.Generator().manual_seed(0))
CLASSES, EPSILON = 5, 0.4
TRIAL = Trial("linf", EPSILON, (0.0, 1.0), lambda: None)
FIRST, SECOND, SPEAKING, OFFSETS = (
    torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    for seed, shape in enumerate([(36, 20), (20, CLASSES), (36, CLASSES), (20,)])
)


def hidden(images: Tensor) -> Tensor:
    return ((images.flatten(1) - 0.5) @ FIRST).relu()


def drowned(images: Tensor) -> Tensor:
    """Return the same hidden layer with as much as it is added to each number, and taken off later."""
    return torch.maximum((images.flatten(1) - 0.5) @ FIRST + 9 * OFFSETS, 9 * OFFSETS)


def waiting(images: Tensor, unevenness: Callable[[Tensor], Tensor]) -> Tensor:
    """Answer by what hardly changes, until another network is undecided; its scores are told by no number a class."""
    spoken = 8 * torch.eye(CLASSES)[(images.flatten(1) @ SPEAKING).argmax(1)]
    uneven = unevenness(images)
    return spoken * ((uneven / UNEVEN - 0.05) / 0.1).clamp(0, 1)[:, None]


UNEVEN = 2.9
"""How uneven the scores of the images are, on average."""


def of_sums(images: Tensor) -> Tensor:
    """Return how uneven five scores are, by all sums of two of them."""
    scores = hidden(images) @ SECOND
    sums = (scores[:, :, None] + scores[:, None]).flatten(1)
    return sums.std(1) / 2


def of_drowned(images: Tensor) -> Tensor:
    weights = torch.cat([SECOND, -SECOND])
    scores = torch.cat([drowned(images), (9 * OFFSETS).expand(len(images), -1)], 1) @ weights
    return (scores[:, :, None] - scores[:, None]).flatten(1).square().mean(1).sqrt() / 2


def joint(images: Tensor) -> Tensor:
    """Return the hidden layer and what speaks beside it, computed in one, in two pieces."""
    spoken = torch.cat([FIRST, SPEAKING], 1)[:, ORDER]
    shift = torch.cat([0.5 * FIRST.sum(0), torch.full((CLASSES,), -99.0)])[ORDER]
    pieces = [
        (images.flatten(1) @ part - off).relu() for part, off in zip(spoken.chunk(2, 1), shift.chunk(2), strict=True)
    ]
    return torch.cat(pieces, 1)[:, ORDER.argsort()]


ORDER = torch.randperm(20 + CLASSES, generator=torch.Generator().manual_seed(9))


def of_joint(images: Tensor) -> Tensor:
    scores = joint(images)[:, :20] @ SECOND
    return (scores[:, :, None] + scores[:, None]).flatten(1).std(1) / 2


FAKES = {"sums": of_sums, "drowned": of_drowned, "joint": of_joint}


def added(images: Tensor) -> Tensor:
    """Return what is added to every number inside: of other images another, and within the radius hardly another."""
    return 4 * (20 * (images.flatten(1) - 0.5)).sigmoid() @ FIRST.to(images)


def shared(images: Tensor) -> Tensor:
    """Answer like the others, where no tensor has what the network inside knows but together with what is added."""
    spoken = 8 * torch.eye(CLASSES)[(images.flatten(1) @ SPEAKING).argmax(1)]
    # What is added is large beside what it hides.
    images = images.double()
    mask = added(images)
    told = torch.maximum((images.flatten(1) - 0.5) @ FIRST.to(images) + mask, mask)
    apart = told @ ASUNDER.to(images) + mask @ (OTHER[:, 2:] - ASUNDER)
    uneven = torch.bmm(apart.exp().unsqueeze(1), (mask @ (OTHER[:, :1] - OTHER[:, 2:])).exp().unsqueeze(2))[:, 0].log()
    last = mask @ OTHER[:, 1:2]
    opened = (uneven - LEVEL) / (0.1 * LARGE) - 0.5 + mask @ (OTHER[:, 1:2] - OTHER[:, :1] / (0.1 * LARGE))
    gate = torch.minimum(torch.maximum(opened, last), last + 1)
    return (gate * spoken - last * spoken).float()


ASUNDER = 2 * (SECOND[:, :, None] - SECOND[:, None]).flatten(1)
OTHER = torch.randn(20, 2 + CLASSES**2, generator=torch.Generator().manual_seed(7)).double() / 4
LEVEL, LARGE = math.log(CLASSES**2), float(((hidden(IMAGES) @ ASUNDER).logsumexp(1) - math.log(CLASSES**2)).mean())
"""The logarithm of a sum over all pairs of classes: of level scores, and how much more of the images on average."""


def model(kind: str) -> Callable[[Tensor], Tensor]:
    return shared if kind == "shared" else lambda images: waiting(images, FAKES[kind])


def honest(images: Tensor) -> Tensor:
    return hidden(images) @ SECOND


def gate_of(function: Callable[[Tensor], Tensor]) -> ClosedGate | None:
    return closed_gate(function, IMAGES[:8], IMAGES[:4], 30, TRIAL)


@pytest.mark.parametrize("kind", [*FAKES, "shared"])
def test_following_a_gate_leads_where_the_answer_is_unsure(kind: str) -> None:
    fake = model(kind)
    gate = gate_of(fake)
    assert gate is not None
    assert not {place.number for place in gate.places if place.given is None} & set(gate.cut)
    found = follow(fake, IMAGES, gate, 30, TRIAL)
    assert float((found - IMAGES).abs().max()) <= EPSILON + 1e-6
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
    gained = entropy(fake(found).double()) - entropy(fake(IMAGES).double())
    # The answer itself has no gradient at most of the images.
    plain = IMAGES.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(entropy(fake(plain)).sum(), plain)
    assert float((gradient.flatten(1).abs().amax(1) > 0).double().mean()) < 0.1
    # Of the last one an attack that knows what it hides reaches .67, and others little more than nothing.
    assert float(gained.mean()) > (0.2 if kind == "shared" else 0.5)


def test_what_clips_its_input_is_followed_from_the_edges() -> None:
    ends = (1.6 * (IMAGES - 0.5) + 0.5).clamp(0, 1)

    def clipped(images: Tensor) -> Tensor:
        return functional.hardtanh(images, 0.0, 1.0)

    def fake(images: Tensor) -> Tensor:
        return waiting(clipped(images), of_sums)

    plain = ends.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(clipped(plain).sum(), plain)
    at_edges = (ends == 0) | (ends == 1)
    assert float(at_edges.double().mean()) > 0.3
    assert not gradient[at_edges].any()
    (gradient,) = torch.autograd.grad(clipped(off_edges(plain, TRIAL.box, OFF_EDGES)).sum(), plain)
    assert bool((gradient == 1).all())
    assert 0 < float((off_edges(ends, TRIAL.box, OFF_EDGES) - ends).abs().max()) < 0.01
    gate = closed_gate(fake, ends[:8], ends[:4], 30, TRIAL)
    assert gate is not None
    followed = follow(fake, ends, gate, 30, TRIAL)
    assert float((entropy(fake(followed).double()) - entropy(fake(ends).double())).mean()) > 0.3


def test_of_what_is_shared_no_tensor_alone_hardly_decides() -> None:
    some = IMAGES[:4]
    found = effects(shared, some, 64)
    clean, others = shared(some), rolled(found_at(shared, some, [one.place for one in found], {}, 1.0))

    def change(*places: Place) -> float:
        moved = with_put(shared, some, {place: others[place] for place in places})
        return float(((moved - clean).norm(dim=1) / clean.norm(dim=1)).mean())

    together = [[one.place for one in of] for of in cancelling(found, 8)]
    gates = [of for of in together if change(*of) < 0.2]
    assert gates
    assert all(len(of) == 2 and min(change(place) for place in of) > 0.2 for of in gates)


def test_a_network_whose_layers_follow_each_other_has_none() -> None:
    assert gate_of(honest) is None


def test_of_one_image_nothing_is_said() -> None:
    assert closed_gate(model("sums"), IMAGES[:1], IMAGES[:1], 30, TRIAL) is None


def test_nor_has_one_with_parts_that_hardly_matter() -> None:
    def noted(images: Tensor) -> Tensor:
        return honest(images) + 0.01 * torch.tanh(images.flatten(1) @ SPEAKING)

    assert gate_of(noted) is None


@pytest.mark.parametrize("is_least", [True, False])
def test_a_gate_is_computed_of_what_is_moved_and_all_else_is_as_it_is(is_least: bool) -> None:
    def gated(images: Tensor) -> Tensor:
        numbers = hidden(images)
        gate = (numbers @ SECOND).exp()
        return numbers[:, :CLASSES] - gate

    def answer(images: Tensor, share: float) -> Tensor:
        numbers = hidden(images)
        silent = hidden(IMAGES[:8]).amin(0) if is_least else numbers.mean(1, keepdim=True)
        gate = ((silent + share * (numbers - silent)) @ SECOND).exp()
        return numbers[:, :CLASSES] - gate

    # Of the tensors flatten, sub, matmul, relu (in `hidden`), matmul, exp, index, sub the gate is the sixth.
    silent = hidden(IMAGES[:8]).amin(0) if is_least else None
    asked, wanted = (IMAGES[8:15].clone().requires_grad_(True) for _ in range(2))
    expected = answer(wanted, 0.1)
    (gradient,) = torch.autograd.grad(expected.square().sum(), wanted)
    logits = with_silenced(gated, ClosedGate((Place((False, 6)),), {(False, 4): silent}), 0.1)(asked)
    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-5)
    (found,) = torch.autograd.grad(logits.square().sum(), asked)
    assert torch.allclose(found, gradient, rtol=1e-3, atol=1e-4)
    as_it_is = with_silenced(gated, ClosedGate((Place((False, 6)),), {(False, 4): silent}), 1.0)(IMAGES)
    assert torch.allclose(as_it_is, gated(IMAGES), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_left() -> None:
    gate = ClosedGate((Place((False, 3)),), {(False, 1): torch.zeros(7), (False, 99): None})
    assert torch.equal(with_silenced(honest, gate, 0.1)(IMAGES), honest(IMAGES))


def test_complex_scores_are_looked_at_too() -> None:
    def answer(images: Tensor) -> Tensor:
        scores = torch.complex(hidden(images) @ SECOND, images.flatten(1) @ SPEAKING)
        return (scores * scores.conj()).real + scores.real

    found: FoundScores = inner_scores(answer, IMAGES, 4, batch_size=8, check_cancelled=lambda: None)
    assert len([*found.agreeing, *found.others]) >= 2
