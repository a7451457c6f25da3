"""The strongest attack on entropy that we know how to write: everything, with restarts, for as long as it may."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from workers.attacks.annealed import AnnealedPGD
from workers.attacks.autoattack.square import Square
from workers.attacks.entropy_range import EntropyRange, annealed_entropy, margin_temperature
from workers.attacks.losses import cross_entropy, entropy, margin
from workers.attacks.momentum import Descent, MomentumPGD
from workers.attacks.regions import make_region, per_example


def strongest(
    network: Callable[[Tensor], Tensor], images: Tensor, norm: str, epsilon: float, is_spent: Callable[[], bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest entropy (n,) that it reaches before ``is_spent`` says so.

    In turns: annealed ascent from random points, gradients of smoothed copies for the margin and the entropy, random
    squares, ties of the prediction with every other class, where ways towards each class along such gradients end,
    steps away from the best image so far, searches by smaller squares from there and from where one of wide squares
    ended, again and again, and chains of ascents through noise that narrows, from the image and from the
    best so far, on logits scaled by the image's own margin and by the median of all; ascent of the entropy from
    wherever each ends. Every turn has other draws, and other noise.
    """
    with torch.no_grad():
        clean = network(images)
    reach, count, classes = EntropyRange(clean), len(images), clean.shape[1]
    predictions, likeliest, start = clean.argmax(1), clean.argsort(1, descending=True), margin_temperature(clean)
    typical = start.median().expand(count)
    unit = epsilon if norm == "linf" else min(1.0, 4 * epsilon / images[0].numel() ** 0.5)
    generators = [torch.Generator().manual_seed(row) for row in range(count)]
    region = make_region(norm, images, epsilon, (0.0, 1.0))
    best, highest = images.clone(), reach.highest[0].clone()

    def descend(loss, criterion, steps, step=0.5, starts=None, sigmas=()):  # type: ignore[no-untyped-def]
        search = MomentumPGD(norm, epsilon, steps, step, sigmas=tuple(sigmas))
        drawn = generators if sigmas else ()
        return search.run(network, images, loss, criterion, starts=starts, generators=drawn)

    def climb(starts: Tensor, steps: int) -> Descent:
        nonlocal best, highest
        found = descend(lambda z, i, p: -entropy(z), reach.raising(), steps, 0.25, starts)
        best = torch.where(per_example(-found.value > highest, best), found.best, best)
        highest = torch.maximum(highest, -found.value)
        return found

    def leading(towards: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        def lead(logits: Tensor, indices: Tensor) -> Tensor:
            ends = torch.stack([predictions[indices], towards[indices]], 1)
            return logits.gather(1, ends) @ torch.tensor([1.0, -1.0])

        return lead

    def own(logits: Tensor, indices: Tensor) -> Tensor:
        return margin(logits, predictions[indices])

    def seeing(criterion: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        def seen(logits: Tensor, indices: Tensor) -> Tensor:
            reach.see(logits, indices)
            return criterion(logits, indices)

        return seen

    def squares(queries: int, first: float, starts: Tensor | None) -> Tensor:
        search = Square(norm, epsilon, queries, p_init=first, pace=4)
        return search.search(network, images, reach.raising(), generators=generators, starts=starts).images

    def raise_it(turn: int) -> None:
        sigma = (0.25, 0.5, 0.75, 1.0, 1.5)[turn // 14 % 5] * unit
        towards = likeliest[:, 1 + turn // 14 % (classes - 1)]
        lead = leading(towards)
        match turn % 14:
            case 0:
                loss = annealed_entropy(start * (1 + turn // 14 % 3), 1.0)
                climb(descend(loss, reach.raising(), 200, 1.0, region.draw(generators)).best, 100)
            case 1:
                found = descend(lambda z, i, p: own(z, i), seeing(own), 20, 0.5, region.draw(generators), [sigma] * 6)
                climb(found.best, 150)
                climb(found.final, 100)
            case 2:
                loss = annealed_entropy(start, 1.0)
                climb(descend(loss, reach.raising(), 25, 0.5, region.draw(generators), [sigma] * 6).best, 150)
            case 3:
                climb(squares(700, 0.3, None), 150)
            case 4:
                tie = seeing(lambda z, i: lead(z, i).abs())
                climb(descend(lambda z, i, p: lead(z, i).abs(), tie, 40).best, 150)
                climb(descend(lambda z, i, p: lead(z, i), seeing(lead), 20, 0.5, None, [0.5 * unit] * 4).best, 100)
            case 5 | 6:
                for share in (1.0, 0.5, 0.25):
                    away = best + share * (region.draw(generators) - images)
                    climb(region.step(away, torch.zeros_like(away), 0.0), 120)
                climb(squares(300, 0.1, best), 80)
            case 7:
                along = [sigma] * 6
                climb(descend(lambda z, i, p: lead(z, i), seeing(lead), 20, 0.5, None, along).final, 150)
                climb(descend(lambda z, i, p: own(z, i), seeing(own), 20, 0.5, None, along).final, 150)
            case 8:
                lower_it(towards)
            case 9:
                chain(turn, start, None)
            case 10:
                chain(turn, typical, None)
            case 12:
                nearby(best)
            case 13:
                nearby(climb(squares(350, 0.3, None), 60).best)
            case _:
                chain(turn, (start, typical)[turn // 14 % 2], best)

    def nearby(ends: Tensor) -> None:
        """Search by small squares and climb, again and again, with steps away between."""
        value = torch.full((count,), torch.inf, dtype=torch.float64)
        for again in range(16):
            if again % 2 == 0:
                starts = squares(200, 0.1, ends)
            else:
                away = ends + (1.0, 0.5, 0.25)[again // 2 % 3] * (region.draw(generators) - images)
                starts = region.step(away, torch.zeros_like(away), 0.0)
            found = climb(starts, 60)
            ends = torch.where(per_example(found.value < value, ends), found.best, ends)
            value = torch.minimum(found.value, value)

    def chain(turn: int, margins: Tensor, starts: Tensor | None) -> None:
        """Ascend through narrowing noise, then again and again from the best end, at temperatures in turn."""
        flatness = (0.4, 0.5, 0.3, 0.7, 0.2)[turn // 14 % 5]
        temperatures = (flatness * margins.double()).clamp_min(1.0)
        steps, ends = 45 * (1 + turn // 14 % 3), starts
        value = torch.full((count,), torch.inf, dtype=torch.float64)
        for again in range(5):
            begin, end, first = (0.7, 0.35, 0.25) if ends is not None else ((1.0, 1.4)[turn // 14 % 2], 0.35, 0.5)
            search = AnnealedPGD(norm, epsilon, steps, first, (begin * unit, end * unit))
            loss = lambda z, i, p: -entropy(z.double() / temperatures[i].unsqueeze(1))  # noqa: E731
            found = search.run(network, images, loss, starts=images if ends is None else ends, generators=generators)
            climbed = climb(found, 60 if again < 4 else 200)
            ends = (
                climbed.best
                if ends is None
                else torch.where(per_example(climbed.value < value, ends), climbed.best, ends)
            )
            value = torch.minimum(climbed.value, value)

    def lower_it(towards: Tensor) -> None:
        descend(lambda z, i, p: entropy(z), reach.lowering(), 150, 0.5, region.draw(generators))
        descend(lambda z, i, p: cross_entropy(z, towards[i]), reach.lowering(), 100)
        descend(lambda z, i, p: cross_entropy(z, predictions[i]), reach.lowering(), 25, 0.5, None, [0.5 * unit] * 4)
        Square(norm, epsilon, 200, p_init=0.3, pace=4).search(network, images, reach.lowering(), generators=generators)

    climb(images, 300)
    descend(lambda z, i, p: entropy(z), reach.lowering(), 200)
    turn = 0
    while not is_spent():
        raise_it(turn)
        turn += 1
    return reach.lowest[0].numpy(), reach.highest[0].numpy()
