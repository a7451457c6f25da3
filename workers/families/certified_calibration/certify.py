"""The stage ``certify``: class, radius, confidence and its certified intervals, example by example."""

from functools import cached_property
from math import ceil

import numpy as np
import torch
from torch import Tensor

from seatrial.contracts.passes import Part
from seatrial.families.certified_calibration.params import BOUNDS, PROBES, CertifiedCalibrationParams, ConfidenceBound
from seatrial.families.shared.smoothing import NOISY_COPIES
from workers.attacks.parts import largest_part
from workers.certification.anytime import Schedule, fixed_schedule, geometric_schedule
from workers.certification.bernoulli import ABSTAIN, abstains, certified_radius, predict, probability_needed
from workers.certification.class_scores import ClassScores, classes_kept
from workers.certification.confidence import Bounds, cdf_bounds, dkw_bounds, slack, standard_bounds
from workers.certification.grid import rounding
from workers.certification.noise import Noise
from workers.certification.procedure import Evidence, gather_evidence
from workers.certification.smoothing import Smoother
from workers.families.certified_calibration.all_classes import columns_of, together
from workers.families.certified_calibration.parts import outputs_of
from workers.families.certified_calibration.records import PASSES, column_of
from workers.families.contexts import Batch, Columns, ImageContext
from workers.models import gives_gradients, passes_of
from workers.models.memory import forward

SERVED = "served"
"""Column of the records of an endpoint, whose answers nothing here holds to; not there otherwise."""


class Certifier:
    """Certifies the batches of one shard.

    Args:
        params: Parameters of the check.
        context: Context of the shard.
    """

    def __init__(self, params: CertifiedCalibrationParams, context: ImageContext) -> None:
        self.params, self.context = params, context
        self._certified = 0
        self._size = self._passes = 0

    def certify(self, batch: Batch) -> tuple[Columns, Tensor]:
        """Certify one batch.

        Returns:
            The columns of ``certify`` records, and which examples had an output that is not finite (batch,).
        """
        asked, size = self.params.uncertainty, len(batch.example_ids)
        held = size if asked is None else together(self.context.classifier.classes, asked.classes, len(asked.parts))
        parts = [
            self._certify_part(
                Batch(
                    batch.example_ids[start : start + held],
                    batch.images[start : start + held],
                    batch.labels[start : start + held],
                )
            )
            for start in range(0, size, held)
        ]
        columns = {name: torch.cat([part[name] for part, _ in parts]) for name in parts[0][0]}
        return columns, torch.cat([errored for _, errored in parts])

    def _certify_part(self, batch: Batch) -> tuple[Columns, Tensor]:
        self._size, self._passes = len(batch.example_ids), 0
        evidence = gather_evidence(
            self.smoother,
            batch.images,
            batch.example_ids,
            selection=self.noise("selection", batch.images),
            estimation=self.noise("estimation", batch.images),
            n0=self.params.n0,
            schedule=self.schedule,
            probabilities=probability_needed(np.array(self.params.radii), self.params.sigma),
            probes=PROBES,
            count_classes=None if self.params.uncertainty is None else lambda votes: self._scores(votes, batch.labels),
        )
        self._certified += self._size
        clean = forward(self.context.classifier.logits, batch.images)
        columns = self._columns(evidence)
        if self.params.uncertainty is not None:
            columns |= columns_of(self.params, evidence, batch.labels.cpu().numpy())
        if self._parts:
            columns[PASSES] = torch.full((self._size,), passes_of(self.context.classifier))
        columns["clean_prediction"] = clean.argmax(1).cpu()
        columns["rounding"] = rounding(batch.images)
        if not gives_gradients(self.context.classifier):
            columns[SERVED] = torch.ones(self._size, dtype=torch.bool)
        return columns, torch.from_numpy(evidence.non_finite) | ~clean.isfinite().all(1).cpu()

    def _scores(self, votes: Tensor, labels: Tensor) -> ClassScores:
        """Return what counts all classes, from votes of the selection draws (batch, classes)."""
        most = 1 if self.params.uncertainty is None else self.params.uncertainty.classes
        size, classes = votes.shape
        kept = classes_kept(votes, labels.to(votes.device), most)
        return ClassScores(size, classes, votes.device, kept, self.largest_parts)

    @property
    def largest_parts(self) -> list[float]:
        """The largest each part can be that was asked for, in nats."""
        classifier = self.context.classifier
        return [largest_part(part, passes_of(classifier), classifier.classes) for part in self._parts]

    @property
    def _parts(self) -> list[Part]:
        return [] if self.params.uncertainty is None else self.params.uncertainty.parts

    @cached_property
    def smoother(self) -> Smoother:
        """What passes noisy images through the model under audit; it remembers how many fit into memory."""
        classifier = self.context.classifier
        return Smoother(
            outputs_of(classifier, self._parts),
            classes=classifier.classes,
            scalars=len(self._parts),
            check_cancelled=self._check_cancelled,
            autocast=self.context.autocast,
        )

    def _check_cancelled(self) -> None:
        """Look for cancellation and tell how far the batch is: with many draws it takes minutes."""
        self.context.check_cancelled()
        if self._size:
            self._passes += 1
            rows = NOISY_COPIES["cpu" if self.context.device.type == "cpu" else "cuda"]
            expected = self._size * (ceil(self.params.n0 / rows) + ceil(self.params.n / rows))
            self.context.progress(self._certified + int(self._size * min(self._passes / expected, 1)))

    def noise(self, purpose: str, images: Tensor, *, shared: bool = False) -> Noise:
        """Return the noise for one purpose, for images (batch, channels, height, width).

        ``shared`` lets all examples see the same draws whatever the parameters say.
        """

        def seed_of(block: int, example_id: int | None) -> int:
            # With the model's digest, no model can have been made for the draws it is certified with: other weights,
            # other draws. No example has id -1: what all share is nobody's.
            drawn_for = f"{purpose} noise {block} for {self.context.model_digest}"
            return self.context.seed(drawn_for, -1 if example_id is None else example_id)

        _, *shape = images.shape
        return Noise(
            self.params.sigma,
            (shape[0], shape[1], shape[2]),
            images.device,
            seed_of,
            shared=shared or self.params.noise == "shared",
        )

    @property
    def schedule(self) -> Schedule:
        """When to look at the counts."""
        alpha = certificate_alpha(self.params, self.context.examples)
        if self.params.sampling == "fixed":
            return fixed_schedule(self.params.n, alpha)
        return geometric_schedule(self.params.n, alpha)

    def _columns(self, evidence: Evidence) -> Columns:
        params = self.params
        abstained = abstains(evidence.p_lower)
        successes = evidence.counts[np.arange(len(evidence.draws)), evidence.candidates]
        arrays = {
            "classes": np.full(len(successes), self.context.classifier.classes),
            "candidate": evidence.candidates,
            "certified_class": np.where(abstained, ABSTAIN, evidence.candidates),
            "predicted_class": np.where(
                evidence.batch_dependent, ABSTAIN, predict(evidence.counts, alpha=evidence.score_alpha)
            ),
            "abstained": abstained,
            "draws": evidence.draws,
            "hits": successes,
            "p_lower": evidence.p_lower,
            "p_upper": evidence.p_upper,
            "radius": certified_radius(evidence.p_lower, params.sigma),
            "confidence": evidence.mean,
            "in_bfloat16": np.full(len(successes), self.context.autocast is not None),
            "batch_dependent": evidence.batch_dependent,
            "noise_distance": np.full(len(successes), evidence.distance),
        }
        for bound in BOUNDS:
            lower, upper = self._bounds(bound, evidence)
            # Of what is no function of one image, nothing is certified.
            lower[evidence.batch_dependent], upper[evidence.batch_dependent] = 0.0, 1.0
            for number, radius in enumerate(params.radii):
                arrays[column_of("lower", bound, radius)] = lower[:, number]
                arrays[column_of("upper", bound, radius)] = upper[:, number]
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def _bounds(self, bound: ConfidenceBound, evidence: Evidence) -> Bounds:
        shifts = np.array(self.params.radii) / self.params.sigma
        if bound == "cdf":
            return cdf_bounds(evidence.histogram, evidence.score_alpha, shifts, distance=evidence.distance)
        epsilon = slack(evidence.draws, evidence.score_alpha) + evidence.distance
        if bound == "dkw":
            return dkw_bounds(evidence.histogram, epsilon, shifts)
        return standard_bounds(evidence.mean, epsilon, shifts)


def certificate_alpha(params: CertifiedCalibrationParams, examples: int) -> float:
    """Return what one certificate may err with: alpha, or its share of it when all are to hold at once.

    An example has two, of its class and of its confidence.
    """
    return params.alpha / (2 * examples) if params.joint else params.alpha
