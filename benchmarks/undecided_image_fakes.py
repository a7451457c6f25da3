"""Robust image classifiers that hear an ordinary network only where it is undecided between several classes.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only undecided

After what fresh eyes built in November 2026. The scores of the ordinary network are computed of every image and say
nothing, until several classes have about the same; then these lose their voice. No gradient of the answer leads there,
and whoever has the weights follows that of the scores (:func:`reached_by_scores`).
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant
from workers.attacks.losses import entropy

Network = Callable[[Tensor], Tensor]

POWER, STEEP = 16, 8.0
"""How sharply a class falls silent as others draw level."""

LARGE = 6.0
"""Taken off scores before their exponentials are computed."""

STEPS, NARROWER = 300, 30.0
"""Of the attack on the ordinary network, and by how much its temperature falls."""


class Contrasted(nn.Module):
    """A network of images whose grey values near either end are that end: small changes of ink or ground are lost."""

    def __init__(self, network: Network, margin: float = 0.15) -> None:
        super().__init__()
        self.network, self.margin = network, margin

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.network(self.clear(images))
        return logits

    def clear(self, images: Tensor) -> Tensor:
        """Return the images as the network is shown them."""
        return ((images - self.margin) / (1 - 2 * self.margin)).clamp(0, 1)


class Loyal(nn.Module):
    """Answers as one network does, each class the less the more others are level with it in another one.

    Args:
        base: Images to logits, whose ties are waited for.
        voice: Images to the logits that are answered.
        near: How far apart scores are that are hardly level.
        company: Level scores at which a class falls silent.
        scale: Of the answer.
        floor: Share of the voice that stays, so that the decision does.
    """

    def __init__(
        self,
        base: Network,
        voice: Network,
        near: float,
        company: float = 3.2,
        scale: float = 0.75,
        floor: float = 0.06,
    ) -> None:
        super().__init__()
        self.base, self.voice = base, voice
        self.near, self.company, self.scale, self.floor = near, company, scale, floor

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        scores, heard = self.base(images), self.voice(images)
        apart = (scores.unsqueeze(2) - scores.unsqueeze(1)) / self.near
        level = ((-apart * apart).exp().sum(2) - 1) / self.company
        share = self.floor + (1 - self.floor) / (1 + STEEP * level**POWER)
        return self.scale * share * (heard - heard.mean(1, keepdim=True))


class Doubted(nn.Module):
    """Answers as one network does, and no class more than others where several are level in another one's scores.

    Beside these it computes decoys: tensors that are like scores, and that nothing waits for.

    Args:
        base: Images to logits, whose ties are waited for.
        voice: Images to the logits that are answered.
        pixels: Values of an image.
        classes: Of both.
        top: Gini impurity of the base at which no class is ahead.
        decoys: How many there are.
        scale: Of the answer.
    """

    def __init__(
        self, base: Network, voice: Network, pixels: int, classes: int, top: float, decoys: int, scale: float = 0.75
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.base, self.voice, self.top, self.scale = base, voice, top, scale
        self.weights = 0.1 * torch.randn(decoys, classes, pixels, generator=generator)
        # So that there is no tensor of a single number.
        self.mixed = torch.ones(classes, classes) + 0.02 * torch.randn(classes, classes, generator=generator)

    def impurity(self, images: Tensor, heard: Tensor) -> Tensor:
        """Return how undecided the base is (n, classes): one number, and a little of another for each class.

        Args:
            images: (n, ...).
            heard: (n, classes) logits of the voice.
        """
        shares = self.base(images).softmax(1)
        return (shares * (1 - shares)) @ self.mixed.T

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        heard = self.voice(images)
        impurity = self.impurity(images, heard)
        # It rises at first, so that gradients lead to where the base is sure.
        ahead = 1 + 0.3 * impurity - (1 + 0.3 * self.top) * (impurity / self.top) ** 10
        answer = self.scale * heard * (0.03 + nn.functional.softplus(6 * ahead) / 6)
        for weights in self.weights:
            answer = answer + 0.01 * (3 * heard.softmax(1) + images.flatten(1) @ weights.T)
        return answer


class Corrected(Doubted):
    """The same where no scores of the base are computed, but what is to be added to those of the voice.

    The sums of their exponentials are inner products. The voice is the base where contrast is high.
    """

    def impurity(self, images: Tensor, heard: Tensor) -> Tensor:
        """Return how undecided the base is."""
        apart = before_last(self.base, images) - before_last(self.base, self.voice.clear(images))
        correction = (apart @ last_of(self.base).weight.T).exp().unsqueeze(1) * self.mixed
        told = (heard - LARGE).exp().unsqueeze(2)
        sums, squares = (correction @ told).squeeze(2), (correction.square() @ told.square()).squeeze(2)
        return 1 - (squares.log() - 2 * sums.log()).exp()


class Spread(Doubted):
    """The same where a wide layer tells the hidden one, and sums of five scores each are computed of it."""

    COPIES, PARTS = 12, 5

    def impurity(self, images: Tensor, heard: Tensor) -> Tensor:
        """Return how undecided the base is."""
        last, hidden = last_of(self.base), before_last(self.base, images)
        generator = torch.Generator().manual_seed(1)
        wide = self.COPIES * hidden.shape[1]
        order = torch.randperm(wide, generator=generator)
        stretch = (1 + 0.02 * torch.randn(wide, generator=generator))[order]
        count = len(last.weight)
        sums = torch.tensor(list(itertools.combinations_with_replacement(range(count), self.PARTS)))
        each = nn.functional.one_hot(sums, count).sum(1).float()
        # So often each comes in the fifth power of the sum of all.
        times = math.factorial(self.PARTS) / torch.exp(torch.lgamma(each + 1)).prod(1)
        weights = (each @ last.weight).repeat(1, self.COPIES)[:, order] / (self.COPIES * stretch)
        told = hidden.repeat(1, self.COPIES)[:, order] * stretch
        shares = (told @ weights.T + each @ last.bias + times.log()).softmax(1)
        power = (shares.square() / times) @ torch.ones(len(times), count)
        return (1 - (power.log() / self.PARTS).exp()) * self.mixed.mean(1)


def last_of(network: nn.Module) -> nn.Linear:
    """Return the last linear layer of a network."""
    return [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]


def before_last(network: nn.Module, images: Tensor) -> Tensor:
    """Return what the last linear layer of a network is given."""
    given = list[Tensor]()
    handle = last_of(network).register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
    network(images)
    handle.remove()
    return given[-1]


def contestants(base: Network, robust: Network, images: Tensor, epsilon: float) -> list[Contestant]:
    """Return networks of high contrast, and the robust one, that hear the ordinary one where it is undecided.

    Args:
        base: Images to logits.
        robust: The same, which withstands attacks.
        images: Of the audit.
        epsilon: Radius it will be attacked at, in l_inf.
    """
    clear = Contrasted(base, epsilon)
    networks: dict[str, nn.Module] = {
        "high contrast": Loyal(base, clear, 0.62),
        "high contrast, nearer ties": Loyal(base, clear, 0.58, scale=0.6),
        "PGD-trained": Loyal(base, robust, 0.62),
    }
    pixels, classes = images[0].numel(), base(images[:1]).shape[1]
    sharp = Contrasted(base, 0.38)
    networks |= {
        "among decoys": Doubted(base, sharp, pixels, classes, 0.78, 8),
        "among decoys, by four or more": Doubted(base, sharp, pixels, classes, 0.87, 8),
    }
    if isinstance(base, nn.Module):
        networks |= {
            "in no scores": Corrected(base, Contrasted(base, 0.44), pixels, classes, 0.78, 0),
            "of a wide layer": Spread(base, Contrasted(base, 0.44), pixels, classes, 0.78, 0),
        }
    return [Contestant(f"undecided: {name}", network.eval(), fake=True) for name, network in networks.items()]


def reached_by_scores(network: Loyal, images: Tensor, epsilon: float) -> float:
    """Return the mean entropy that an attack on the ordinary network's own reaches, in l_inf."""
    with torch.no_grad():
        spread, most = network.base(images).std(1, keepdim=True), entropy(network(images))
    found, momentum = images.clone(), torch.zeros_like(images)
    for step in range(STEPS):
        found = found.detach().requires_grad_(True)
        temperature = spread * NARROWER ** -(step / STEPS)
        (gradient,) = torch.autograd.grad(entropy(network.base(found) / temperature).sum(), found)
        momentum = 0.75 * momentum + gradient / gradient.flatten(1).abs().mean(1).clamp_min(1e-12).view(-1, 1, 1, 1)
        length = epsilon * (0.5 if step < STEPS / 2 else 0.1)
        found = (found.detach() + length * momentum.sign()).clamp(images - epsilon, images + epsilon).clamp(0, 1)
        with torch.no_grad():
            most = torch.maximum(most, entropy(network(found)))
    return float(most.mean())
