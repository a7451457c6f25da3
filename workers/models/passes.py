"""Models of several forward passes: ensembles, and networks whose dropout stays on (Gal and Ghahramani 2016).

Their prediction is the mean of the passes' probabilities. Its entropy is the mean entropy of the passes (aleatoric)
and the mutual information of class and pass (epistemic): what the passes disagree on.

The masks of dropout are drawn once, when a model is loaded, from a seed made of its weights, the member and the pass:
so that records are the same every time, that what an image is answered depends on that image alone, and that no weights
can have been made for the masks they are audited with. One mask serves all images of a pass.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from workers.errors import TargetError


class Passes(nn.Module):
    """A network of several passes; returns the logarithm of their mean probabilities.

    Args:
        members: Networks, which return logits (batch, classes); a member may be of several passes itself.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def count(self) -> int:
        """Number of passes."""
        return sum(member.count if isinstance(member, Passes) else 1 for member in self.members)

    def each(self, inputs: Tensor) -> Tensor:
        """Return the logits of every pass (batch, passes, classes)."""
        found = [
            member.each(inputs) if isinstance(member, Passes) else member(inputs).unsqueeze(1)
            for member in self.members
        ]
        return torch.cat(found, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return log mean softmax (batch, classes)."""
        return mixed(self.each(inputs))


class DropoutPasses(Passes):
    """A network of as many passes as sets of masks for its dropout layers.

    Args:
        network: In eval mode; its dropout layers are replaced.
        count: Passes.
        seed: Of the masks.
        kind: Architecture, for messages.

    Raises:
        TargetError: It has no dropout layer that does anything.
    """

    def __init__(self, network: nn.Module, count: int, seed: bytes, *, kind: str) -> None:
        super().__init__([network])
        self._count = count
        self.layers: list[MaskedDropout] = []
        for name, layer in [*network.named_modules()]:
            for child_name, child in [*layer.named_children()]:
                if isinstance(child, DROPOUTS) and child.p > 0:
                    masked = MaskedDropout(child, f"{name}.{child_name}", seed)
                    setattr(layer, child_name, masked)
                    self.layers.append(masked)
        if not self.layers:
            raise TargetError(
                "no-dropout",
                "The network has no dropout to draw from",
                f"architecture {kind} has no dropout layer with a probability above 0, so that all {count} passes "
                "would be the same: leave dropout out, or send a network that was trained with it",
                field="/manifest/architecture/dropout",
            )

    @property
    def count(self) -> int:
        """Number of passes."""
        return self._count

    def each(self, inputs: Tensor) -> Tensor:
        """Return the logits of every pass (batch, passes, classes)."""
        found = []
        for number in range(self._count):
            for layer in self.layers:
                layer.number = number
            found.append(self.members[0](inputs))
        return torch.stack(found, 1)


DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class MaskedDropout(nn.Module):
    """Dropout with a mask of its own for every pass, the same for all examples.

    Args:
        layer: What it stands for: of the layers of two and three dimensions whole channels fall out.
        name: Name in the network.
        seed: Of the masks.

    Attributes:
        number: The pass.
    """

    def __init__(self, layer: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d, name: str, seed: bytes) -> None:
        super().__init__()
        self.p, self.number = layer.p, 0
        self._is_of_channels = not isinstance(layer, nn.Dropout)
        self._name, self._seed = name, seed
        self._masks: dict[tuple[object, ...], Tensor] = {}

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs (batch, ...) times the mask of the pass, over 1 - p."""
        if inputs.is_meta:
            return inputs * 1.0
        return inputs * self.mask(tuple(inputs.shape[1:]), inputs)

    def mask(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return the mask of the pass (1, ...), of type and device of a tensor."""
        known = (self.number, shape, like.dtype, like.device)
        if known not in self._masks:
            drawn = (shape[0], *(1 for _ in shape[1:])) if self._is_of_channels else shape
            told = f"{self._name} {self.number} {drawn}".encode()
            digest = hashlib.sha256(self._seed + told).digest()
            # On the CPU, so that a model is the same one on every device.
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            kept = torch.rand(drawn, generator=generator) >= self.p
            self._masks[known] = (kept.to(like) / (1 - self.p)).unsqueeze(0)
        return self._masks[known]


def mixed(logits: Tensor) -> Tensor:
    """Return the logarithm of the mean probabilities of passes, (batch, passes, classes) to (batch, classes).

    >>> mixed(torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])).exp().tolist()
    [[0.5, 0.5]]
    """
    return logits.log_softmax(2).logsumexp(1) - math.log(logits.shape[1])


def seed_of_weights(state: Mapping[str, Tensor], *, member: int) -> bytes:
    """Return a seed that other weights, or another member, do not have."""
    digest = hashlib.sha256(f"dropout of member {member}".encode())
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.digest()
