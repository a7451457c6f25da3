"""Whether a network does along its own gradients what they say: a numerical gradient check.

Autograd differentiates what is written down, and rounds nothing off. An affine layer with a bias of 1e8, taken off
again, adds nothing to an image and anything to its gradient; so does 1e14 times a log-probability of exactly 0. The
values are those of any network, and every attack by gradients is sent in a random direction (Athalye, Carlini and
Wagner 2018, "Obfuscated Gradients Give a False Sense of Security", section 3): in d dimensions values move by about
1 / sqrt(d) of what such gradients say.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.regions import Box, bisect, box_width
from workers.models.memory import forward

STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 1e-3, 3e-4, 1e-4, 3e-5)
"""Lengths of steps in l_2 on an image of 28 x 28 numbers from 0 to 1, in the order they are tried. Short ones stay on
one side of a rectifier's kink, or of a steep softmax's middle; long ones span the levels that an input is rounded to.
By the first, values or gradients have to show a change, or nothing is said: what moves in long steps alone is bent."""

SIDE = 28.0
"""Square root of the numbers of such an image, in proportion to which the steps of others are."""

AGREED = 0.8
"""Agreement from which on no further step is tried."""

OWN = 4
"""Directions of both gradients, up and down."""

DIRECTIONS = 8
"""Random directions, and changes of either sum along them that have to stand out for their cosine to say anything."""

ROUNDED = 16.0
"""Changes of the logits that are none, in units of their last place: a deep network adds up many roundings."""

HALVINGS = 20
"""Of the way between two images, to where the prediction changes: it stays as near as 1e-5 even to a steep softmax."""


def boundary_images(model: Model, images: Tensor, *, batch_size: int, check_cancelled: Callable[[], None]) -> Tensor:
    """Return mixtures (m, ...) of each image and the next of another prediction, where the prediction changes.

    There a softmax is in its middle, however sure the model is of images themselves. None where all predictions are
    the same: ``m`` is 0 or the number of images.

    Args:
        model: Images to logits.
        images: (n, ...) in a box, as is every mixture.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """

    def predicted(some: Tensor) -> Tensor:
        parts = []
        for part in torch.split(some, batch_size):
            check_cancelled()
            parts.append(forward(model, part).argmax(1))
        return torch.cat(parts)

    if len(images) < 2:
        return images[:0]
    labels = predicted(images)
    differ = labels[:, None] != labels
    if not bool(differ.any()):
        return images[:0]
    # The next in a circle: the first true entry of each row, begun at its own place.
    around = (torch.arange(len(labels)) + torch.arange(len(labels))[:, None]) % len(labels)
    order = differ.gather(1, around.to(labels)).long().argmax(1)
    others = images[(torch.arange(len(labels)).to(labels) + order) % len(labels)]
    inside, _ = bisect(images, others, HALVINGS, lambda points: predicted(points) != labels)
    return inside


def gradient_agreements(
    model: Model, images: Tensor, box: Box, *, batch_size: int, check_cancelled: Callable[[], None]
) -> Tensor:
    """Return of each image (n,) how far the model's gradient agrees with its values, from 0 to 1; NaN: nothing is said.

    Of two sums of the logits, the lead of the prediction over the runner-up with and without the other classes, the
    change by a step up and down the gradient is compared with what the gradient says: the smaller divided by the
    larger, 0 where their signs differ, at the step and on the side where it is greatest. Along random directions it is
    the cosine of both, as a gradient can be scaled until it agrees along itself. The least of the three counts. Nothing
    is said where gradients are zero or not finite, or no change by the shortest usual step stands out from rounding.

    Args:
        model: Differentiable.
        images: (n, ...) within the box.
        box: Smallest and largest valid pixel; the model is asked about nothing outside.
        batch_size: Images at once.
        check_cancelled: Called before every pass; may raise.
    """
    parts = torch.split(images.detach(), batch_size) if len(images) else ()
    found = [_Checked(model, part, box, check_cancelled).agreements() for part in parts]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


class _Checked:
    """Images of one batch, two sums of their logits, and the gradients of these."""

    def __init__(self, model: Model, images: Tensor, box: Box, check_cancelled: Callable[[], None]) -> None:
        self._model, self._images, self._check_cancelled = model, images, check_cancelled
        # Of a table one for each column, beside images (n, d).
        self._least, self._greatest = (torch.as_tensor(end).to(images).flatten() for end in box)
        self._unit = images[0].numel() ** 0.5 / SIDE * box_width(box) if len(images) else 0.0
        followed = images.clone().requires_grad_(True)
        check_cancelled()
        with torch.enable_grad():
            logits = model(followed)
        self._weights = _sums(logits.detach())
        gradients = torch.stack([_gradient(logits, one, followed) for one in self._weights]).flatten(2).double()
        # Of what is not finite nothing is said, as of what is zero.
        self._gradients = torch.where(gradients.isfinite().all(2, keepdim=True), gradients, 0.0)
        # Asked again, as those moved are: a pass without gradients may round otherwise.
        check_cancelled()
        self._logits = forward(model, images).double()

    def agreements(self) -> Tensor:
        """Return the agreement of each image (n,)."""
        # Of the first sum, of the second, and along random directions.
        best = self._images.new_zeros(3, len(self._images), dtype=torch.float64)
        is_said = torch.zeros_like(best, dtype=torch.bool)
        rows = torch.arange(len(self._images), device=best.device)
        for step in STEPS:
            told, measured = self._changes(step * self._unit, rows)
            first, second = (
                _ratio(told[2 * at : 2 * at + 2, at], measured[2 * at : 2 * at + 2, at]) for at in range(2)
            )
            now = torch.stack([first, second, self._cosine(told[OWN:], measured[OWN:], rows)])
            if step == STEPS[0]:
                is_said = ~now.isnan()
            best[:, rows] = torch.maximum(best[:, rows], now.nan_to_num(nan=0.0))
            rows = (is_said & (best < AGREED)).any(0).nonzero().flatten()
            if not len(rows):
                break
        least = torch.where(is_said, best, torch.inf).amin(0)
        return torch.where(is_said.any(0), least, torch.nan).cpu()

    def _direction(self, number: int) -> Tensor:
        """Return unit vectors (n, d): up and down the first gradient, up and down the second, or random signs.

        Random ones have the size of both gradients. Made anew each time: of large images all are more than the network.
        """
        if number < OWN:
            wanted = self._gradients[number // 2] * (-1) ** number
        else:
            draw = torch.rand(self._gradients.shape[1:], generator=torch.Generator().manual_seed(number))
            sizes = _unit(self._gradients[0]).abs() + _unit(self._gradients[1]).abs()
            wanted = torch.where(draw < 0.5, -1.0, 1.0).to(sizes) * sizes
        flat = self._images.flatten(1)
        # A black pixel can only become lighter.
        is_stuck = ((flat <= self._least) & (wanted < 0)) | ((flat >= self._greatest) & (wanted > 0))
        return _unit(torch.where(is_stuck, 0.0, wanted))

    def _changes(self, length: float, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return by how much both sums change by a step in each direction, as the gradient says and as they do.

        Both are 0 where neither stands out from rounding.

        Args:
            length: Of the step in l_2; what would leave the box is cut off.
            rows: (m,) of the images.

        Returns:
            Two of (directions, 2, m).
        """
        images, gradients, logits = self._images[rows].flatten(1), self._gradients[:, rows], self._logits[rows]
        told, measured = [], []
        for number in range(OWN + DIRECTIONS):
            moved = (images + (length * self._direction(number)[rows]).to(images)).clamp(self._least, self._greatest)
            self._check_cancelled()
            found = forward(self._model, moved.view_as(self._images[rows])).double()
            said = (gradients * (moved.double() - images.double())).sum(2)
            done = ((found - logits) * self._weights[:, rows]).sum(2)
            largest = torch.maximum(found.abs(), logits.abs()).amax(1)
            least = ROUNDED * torch.finfo(images.dtype).eps * largest
            stands_out = torch.maximum(said.abs(), done.abs()) > least
            told.append(torch.where(stands_out, said, 0.0))
            measured.append(torch.where(stands_out, done, 0.0))
        return torch.stack(told), torch.stack(measured)

    def _cosine(self, told: Tensor, measured: Tensor, rows: Tensor) -> Tensor:
        """Return the cosine of changes (directions, 2, m) over all directions and both sums (m,); NaN where few are."""
        norms = self._gradients[:, rows].norm(dim=2)
        # Of a sum without a gradient nothing is said.
        shares = torch.where(norms > 0, 1 / norms, 0.0)
        told, measured = (told * shares).flatten(0, 1), (measured * shares).flatten(0, 1)
        cosine = (told * measured).sum(0) / (told.norm(dim=0) * measured.norm(dim=0)).clamp_min(1e-300)
        return torch.where(((told != 0) | (measured != 0)).sum(0) >= DIRECTIONS, cosine.nan_to_num(nan=0.0), torch.nan)


def _sums(logits: Tensor) -> Tensor:
    """Return the weights (2, n, classes) of both sums: the prediction less the runner-up, the others with random signs.

    The second is without the others. Added up, two classes that tie would be at their most, where no slope is.
    """
    first, second = logits.topk(2, 1).indices.unbind(1)
    ends = torch.tensor([[1.0, -1.0]], dtype=torch.float64, device=logits.device).expand(len(logits), 2)
    both = torch.stack([first, second], 1)
    signs = torch.where(torch.rand(logits.shape[1], generator=torch.Generator().manual_seed(0)) < 0.5, -1.0, 1.0)
    others = signs.to(ends).repeat(len(logits), 1)
    return torch.stack([some.scatter(1, both, ends) for some in (others, torch.zeros_like(others))])


def _gradient(logits: Tensor, weights: Tensor, images: Tensor) -> Tensor:
    """Return the gradient (n, ...) of a sum of the logits, zeros where there is none."""
    if not logits.requires_grad:
        return torch.zeros_like(images)
    total = (logits * weights.to(logits)).sum()
    (gradient,) = torch.autograd.grad(total, images, retain_graph=True, allow_unused=True)
    return torch.zeros_like(images) if gradient is None else gradient


def _ratio(told: Tensor, measured: Tensor) -> Tensor:
    """Return the smaller change over the larger, on the side (sides, m) where it is greatest (m,); else NaN."""
    larger = torch.maximum(told.abs(), measured.abs())
    ratio = torch.where(told * measured > 0, torch.minimum(told.abs(), measured.abs()) / larger, 0.0)
    # A logit that is not finite somewhere says nothing about a slope.
    is_said = (larger > 0) & measured.isfinite()
    return torch.where(is_said.any(0), torch.where(is_said, ratio, 0.0).amax(0), torch.nan)


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors (..., d) at length 1, and zeros as they are."""
    scaled = vectors / vectors.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    unit: Tensor = scaled / scaled.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    return unit
