"""The stages ``ace_...``: how far attacks push the smoothed confidence inside the radius that is certified."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, CertifiedCalibrationParams
from workers.attacks.ace import ETA_OMEGA, eta_omega
from workers.attacks.pgd import PGD
from workers.attacks.smoothed import smoothed_logits
from workers.certification.confidence import LEVELS
from workers.certification.grid import GRID, noisy_copies, to_grid, within
from workers.families.certified_calibration.certify import Certifier
from workers.families.contexts import Batch, Columns, ImageContext
from workers.models import box_of

NEEDED = ["example_id", "errored", "abstained", "radius", "candidate"]


class CertifiedAttack:
    """One attack on the examples whose class is certified at ``attack_radius``; the class cannot change there.

    PGD descends through the mean score of ``attack_draws`` draws, within [0, 1]; the confidence reported is that
    of fresh draws at the point of the certificates' grid next to the best found, no further from the image.
    """

    def __init__(self, name: str, params: CertifiedCalibrationParams, context: ImageContext) -> None:
        self._eta, self._omega = ETA_OMEGA[name]
        self._params, self._context = params, context
        self._radius = params.attack_radius or 0.0
        self._certifier = Certifier(params, context)
        rows = context.records("certify").select(NEEDED).to_pylist()
        self._certificates: dict[int, dict[str, Any]] = {row["example_id"]: row for row in rows}

    def attack(self, batch: Batch) -> tuple[Columns, Tensor, Tensor]:
        """Attack one batch.

        Returns:
            ``attacked``, ``confidence`` of the certified class, its ``standard_error`` and the l_2 ``distance``; which
            examples errored (batch,); and which were attacked (batch,): the numbers of the others mean nothing.
        """
        certificate_of = [self._certificates[example_id] for example_id in batch.example_ids]
        chosen = [row for row, one in enumerate(certificate_of) if self._is_certified(one)]
        size = len(batch.example_ids)
        names = ("confidence", "standard_error", "distance")
        columns = {name: torch.zeros(size, dtype=torch.float64) for name in names}
        attacked = torch.zeros(size, dtype=torch.bool)
        # Where the certificate errored there is nothing an attack could be compared with.
        errored = torch.tensor([one["errored"] for one in certificate_of])
        attacked[chosen] = True
        if chosen:
            ids = [batch.example_ids[row] for row in chosen]
            classes = torch.tensor([certificate_of[row]["candidate"] for row in chosen], device=batch.images.device)
            images, labels = batch.images[chosen], batch.labels[chosen]
            best, non_finite = self._descend(images, labels, classes)
            perturbed = within(images, best)
            confidence, error, unstable = self._measure(perturbed, classes, ids)
            columns["confidence"][chosen], columns["standard_error"][chosen] = confidence, error
            moved = (to_grid(perturbed) - to_grid(images)).flatten(1).double() / GRID
            columns["distance"][chosen] = moved.norm(dim=1).cpu()
            errored[chosen] |= non_finite.cpu() | unstable.cpu()
        return {"attacked": attacked, **columns}, errored, attacked

    def _is_certified(self, row: dict[str, Any]) -> bool:
        return not row["errored"] and not row["abstained"] and row["radius"] >= self._radius

    def _descend(self, images: Tensor, labels: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best images (n, ...) and which had an output that is not finite (n,)."""
        # All examples are attacked through the same draws, whatever `noise` says: they only point the way.
        draws = self._certifier.noise("attack", images, shared=True).draws(0, self._params.attack_draws)
        steps, box = self._params.attack_steps, box_of(self._context.classifier)

        def logits(noisy: Tensor) -> Tensor:
            # A step is attack_draws passes there and as many back: too long to wait for its end.
            self._context.check_cancelled()
            return self._context.classifier.logits(noisy)

        outcome = PGD("l2", epsilon=self._radius, step_size=2 * self._radius / steps, steps=steps, box=box).run(
            [lambda at: smoothed_logits(logits, draws, at, noisy_copies)],
            images,
            eta_omega(self._eta, labels if self._omega == "true" else classes),
            check_cancelled=self._context.check_cancelled,
        )
        return outcome.best, outcome.non_finite

    def _measure(self, images: Tensor, classes: Tensor, ids: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return smoothed confidences in ``classes`` (n,), their standard errors, and which were not finite."""
        smoother, noise = self._certifier.smoother, self._certifier.noise("attacked", images)
        stop = min(self._params.n, ATTACKED_DRAWS)
        statistics = smoother.start(images)
        smoother.extend(statistics, images, classes, np.arange(len(images)), noise, 0, stop, ids)
        draws = statistics.draws.double().cpu()
        mean = statistics.total.cpu() / draws
        # From the histogram: each score is off by less than 1 / LEVELS, far below a standard error that matters.
        centres = (torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS
        histogram = statistics.histogram.double().cpu()
        variance = (histogram * (centres - mean.unsqueeze(1)) ** 2).sum(1) / draws
        return mean, (variance / draws).sqrt(), statistics.non_finite
