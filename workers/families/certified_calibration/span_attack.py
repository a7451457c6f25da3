"""The stages ``span_raise`` and ``span_lower``: how far an attack moves the entropy of the smoothed scores.

``aleatoric_raise`` and its like do the same to the mean, over draws, of a part of a draw's entropy, of models of
several passes: by the gradients of that part, which those of the entropy do not follow.

SmoothAdv (Salman et al. 2019) on entropy: PGD through the mean score of a few draws, at every radius above 0 in turn,
each beginning where the one before it ended. What it reaches is below the certificates by proof, and tells how much of
them is looseness.
"""

from typing import Any

import numpy as np
import torch
from scipy.special import entr
from torch import Tensor

from seatrial.contracts.estimates import metric_name
from seatrial.contracts.passes import Part
from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import SMOOTHED, Uncertainty
from seatrial.statistics.arrays import Floats
from workers.attacks.losses import entropy
from workers.attacks.objectives import Objective
from workers.attacks.pgd import PGD
from workers.attacks.smoothed import smoothed_logits
from workers.certification.class_scores import ALL, ClassScores
from workers.certification.confidence import LEVELS
from workers.certification.grid import GRID, noisy_copies, to_grid, within
from workers.certification.uncertainty import UNCERTAINTIES, uncertainty_of
from workers.families.certified_calibration.all_classes import kept_columns, together
from workers.families.certified_calibration.certify import Certifier
from workers.families.certified_calibration.parts import smoothed_part
from workers.families.certified_calibration.records import class_column, stages_of, uncertainty_column
from workers.families.contexts import Batch, Columns, ImageContext
from workers.models import box_of


def directions(params: CertifiedCalibrationParams) -> dict[str, Part | None]:
    """Return the stages, by name: of entropy where no part is named."""
    if not attacked_radii(params) or params.uncertainty is None:
        return {}
    named: tuple[Part | None, ...] = (None, *params.uncertainty.parts)
    return {stage: part for part in named for stage in stages_of("entropy" if part is None else SMOOTHED[part])}


STANDARD_ERRORS = 5.0
"""How far chance may take one of many mean scores beyond its certificate; with what rare scores allow beside it."""


def attacked_radii(params: CertifiedCalibrationParams) -> list[float]:
    """Return the radii attacked at: those above 0, where the block asks for it."""
    if params.uncertainty is None or not params.uncertainty.attack:
        return []
    return [radius for radius in params.radii if radius > 0]


class SpanAttack:
    """One direction of the attack on every example of a shard.

    Args:
        name: One of :func:`directions`.
        params: Of the check.
        context: Of the shard, with the records of ``certify``.
    """

    def __init__(self, name: str, params: CertifiedCalibrationParams, context: ImageContext) -> None:
        if params.uncertainty is None:
            raise ValueError("there is no span to attack without the block uncertainty")
        self._sign = -1.0 if name.endswith("_raise") else 1.0
        self._part, self._asked = directions(params)[name], params.uncertainty
        self._name, self._params, self._context = name, params, context
        self._certifier = Certifier(params, context)
        needed = ["example_id", "errored", "class_ids"]
        for radius in attacked_radii(params):
            needed += [class_column("lower", radius), class_column("upper", radius)]
            for one in self._asked.asked:
                needed += [uncertainty_column("low", one, radius), uncertainty_column("high", one, radius)]
        rows = context.records("certify").select(needed).to_pylist()
        self._certificates: dict[int, dict[str, Any]] = {row["example_id"]: row for row in rows}

    def attack(self, batch: Batch) -> tuple[Columns, Tensor]:
        """Attack one batch.

        Returns:
            ``uncertainty[uncertainty=,radius=]`` reached, from draws of their own; ``distance[radius=]`` in l_2;
            ``beyond[radius=]``, by how much more than chance explains a mean score or an uncertainty left its
            certificate, 0 where none did. And which examples errored (batch,).
        """
        rows = [self._certificates[example_id] for example_id in batch.example_ids]
        errored = torch.tensor([row["errored"] for row in rows])
        size = len(rows)
        columns: Columns = {}
        chosen = [row for row in range(size) if not rows[row]["errored"]]
        certificates = [rows[row] for row in chosen]
        ids = [batch.example_ids[row] for row in chosen]
        images = batch.images[chosen]
        at = images
        for radius in attacked_radii(self._params):
            found = {name: np.zeros(size) for name in self._names(radius)}
            if chosen:
                best, non_finite = self._descend(images, at, radius)
                at = best
                perturbed = within(images, best)
                measured, unstable = self._measure(perturbed, certificates, ids, radius)
                moved = (to_grid(perturbed) - to_grid(images)).flatten(1).double() / GRID
                measured[metric_name("distance", radius=radius)] = moved.norm(dim=1).cpu().numpy()
                for name, values in measured.items():
                    found[name][chosen] = values
                errored[chosen] |= non_finite.cpu() | unstable
            columns |= {name: torch.from_numpy(values) for name, values in found.items()}
        return columns, errored

    def _names(self, radius: float) -> list[str]:
        plain = [metric_name(name, radius=radius) for name in ("distance", "beyond")]
        return [*(metric_name("uncertainty", uncertainty=one, radius=radius) for one in self._asked.asked), *plain]

    def _descend(self, images: Tensor, starts: Tensor, radius: float) -> tuple[Tensor, Tensor]:
        """Return the best images (n, ...) and which had an output that is not finite (n,)."""
        draws = self._certifier.noise(self._name, images, shared=True).draws(0, self._params.attack_draws)
        steps, classifier = self._params.attack_steps, self._context.classifier
        box, sign, part = box_of(classifier), self._sign, self._part
        check_cancelled = self._context.check_cancelled

        def logits(noisy: Tensor) -> Tensor:
            check_cancelled()
            return classifier.logits(noisy)

        def model(at: Tensor) -> Tensor:
            if part is None:
                return smoothed_logits(logits, draws, at, noisy_copies)
            return smoothed_part(classifier, part, draws, at, noisy_copies, check_cancelled)

        def loss(found: Tensor, _: Tensor) -> Tensor:
            return sign * (entropy(found) if part is None else found[:, 0])

        objective = Objective(loss=loss, criterion=lambda scores, indices: loss(scores[:, 0], indices))
        outcome = PGD("l2", epsilon=radius, step_size=2 * radius / steps, steps=steps, box=box).run(
            [model],
            images,
            objective,
            starts=starts,
            check_cancelled=check_cancelled,
        )
        return outcome.best, outcome.non_finite

    def _measure(
        self, images: Tensor, certificates: list[dict[str, Any]], ids: list[int], radius: float
    ) -> tuple[dict[str, Floats], Tensor]:
        """Return what is reached at ``images`` (n, ...) by column, and which were not finite (n,)."""
        held = together(self._context.classifier.classes, self._asked.classes, len(self._asked.parts))
        parts, unstable = [], []
        for start in range(0, len(images), held):
            part = slice(start, start + held)
            columns, failed = self._measure_part(images[part], certificates[part], ids[part], radius)
            parts.append(columns)
            unstable.append(failed)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, torch.cat(unstable)

    def _measure_part(
        self, images: Tensor, certificates: list[dict[str, Any]], ids: list[int], radius: float
    ) -> tuple[dict[str, Floats], Tensor]:
        smoother, classes = self._certifier.smoother, self._context.classifier.classes
        noise = self._certifier.noise(f"{self._name} attacked {radius:g}", images)
        kept = torch.tensor([row["class_ids"] for row in certificates], device=images.device)
        most = self._certifier.largest_parts
        scores = ClassScores(len(images), classes, images.device, None if classes <= ALL else kept, most)
        stop = min(self._params.n, ATTACKED_DRAWS)
        statistics, everyone = smoother.start(images, scores), np.arange(len(images))
        # Whose scores are added up one by one is of no matter: all are.
        smoother.extend(statistics, images, kept[:, 0], everyone, noise, 0, stop, ids, scores)
        means = scores.total.cpu().numpy() / stop
        reached: dict[Uncertainty, Floats] = {one: uncertainty_of(one, means) for one in UNCERTAINTIES}
        smoothed = scores.entropy.cpu().numpy() / stop * scores.most
        own = kept_columns(scores, means)[1]
        slack = _chance(scores.histogram, own, stop)
        allowed_of = _chance(scores.entropies, smoothed, stop) * scores.most
        scalars = {name: at for at, name in enumerate(self._asked.smoothed)}
        # |p log p - q log q| <= -d log d for d = |p - q| up to 1/e; the other two change by no more.
        widest = entr(np.minimum(slack, 1 / np.e)).sum(1) + slack.sum(1)
        beyond = _beyond(certificates, class_column("lower", radius), class_column("upper", radius), own, slack).max(1)
        reached |= {name: smoothed[:, at] for name, at in scalars.items()}
        for name, values in reached.items():
            allowed = allowed_of[:, scalars[name]] if name in scalars else widest
            low, high = uncertainty_column("low", name, radius), uncertainty_column("high", name, radius)
            beyond = np.maximum(beyond, _beyond(certificates, low, high, values, allowed))
        columns = {
            metric_name("uncertainty", uncertainty=one, radius=radius): values for one, values in reached.items()
        }
        columns[metric_name("beyond", radius=radius)] = beyond
        return columns, statistics.non_finite.cpu()


def _beyond(certificates: list[dict[str, Any]], low: str, high: str, values: Floats, slack: Floats) -> Floats:
    """Return by how much values left their interval and its slack (same shape), at least 0."""
    lower, upper = (np.array([row[name] for row in certificates], dtype=np.float64) for name in (low, high))
    found: Floats = np.maximum(np.maximum(lower - slack - values, values - upper - slack), 0)
    return found


def _chance(histogram: Tensor, means: Floats, draws: int) -> Floats:
    """Return how far from their expectation chance takes mean scores (n, columns): an empirical Bernstein bound.

    Of draws in [0, 1] (Maurer and Pontil 2009, theorem 4), at the level whose first term is ``STANDARD_ERRORS``
    standard errors.

    Args:
        histogram: (n, columns, LEVELS) of the draws.
        means: (n, columns).
        draws: How many.
    """
    if draws < 2:
        return np.ones_like(means)
    middle = (torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS
    found = np.empty_like(means)
    # One example at a time: in float64 the whole would be twice the memory.
    for row, one in enumerate(histogram.cpu()):
        variance = (one.double() @ middle**2).numpy() / draws - ((one.double() @ middle).numpy() / draws) ** 2
        found[row] = STANDARD_ERRORS * np.sqrt(np.maximum(variance, 0) / (draws - 1))
    bound: Floats = found + 7 * STANDARD_ERRORS**2 / 2 / (3 * (draws - 1)) + 1 / LEVELS
    return bound
