"""Small classifiers with known answers, and the generators of their examples."""

import torch
from torch import Tensor, nn


def generators(count: int, first: int = 0) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(first + i) for i in range(count)]


class Linear(nn.Module):
    """z = W x + b on flattened images, with its distances to misclassification in closed form."""

    def __init__(self, classes: int, pixels: int = 16, seed: int = 0) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(classes, pixels, generator=random, dtype=torch.float64)
        self.bias = -(self.weight * 0.5).sum(1)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.to(images).T + self.bias.to(images)

    def distances(self, images: Tensor, labels: Tensor, norm: str) -> Tensor:
        """Return the least distance (n,) to another class, where the box does not matter."""
        logits = self(images)
        gap = logits.gather(1, labels.unsqueeze(1)) - logits
        order = 1 if norm == "linf" else 2
        slope = (self.weight[labels].unsqueeze(1) - self.weight.unsqueeze(0)).norm(p=order, dim=2)
        own = nn.functional.one_hot(labels, len(self.weight)).bool()
        return (gap / slope.clamp_min(1e-300)).masked_fill(own, torch.inf).amin(1)


def near_the_middle(count: int, side: int = 4, seed: int = 1) -> Tensor:
    """Return float64 images (count, 1, side, side) in [0.3, 0.7]: balls of radius 0.3 do not reach the box's ends."""
    random = torch.Generator().manual_seed(seed)
    return 0.3 + 0.4 * torch.rand(count, 1, side, side, generator=random, dtype=torch.float64)


torch.manual_seed(0)
NET = nn.Sequential(nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).double()
NET.eval().requires_grad_(False)
IMAGES = torch.rand(10, 1, 6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
LABELS = NET(IMAGES).argmax(1)


def is_in_ball_and_box(images: Tensor, origin: Tensor, norm: str, epsilon: float) -> bool:
    delta = (images - origin).flatten(1)
    length = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
    return bool((length <= epsilon + 1e-6).all() and images.min() >= 0 and images.max() <= 1)
