"""Cross-entropy, of logits at a training temperature, and what is done to its gradient."""

import torch.nn.functional as F
from torch import Tensor

from seatrial.hardening.params import TrainingParams
from workers.training.data import Batch, TrainingData
from workers.training.gradients import treat
from workers.training.models import Trainable
from workers.training.protocol import Preparation, Step


class CrossEntropy:
    """Cross-entropy of clean examples; the base of methods with another loss.

    With ``training_temperature`` T the loss is that of softmax(l / T), whose gradient by the logits is
    (softmax(l / T) - onehot) / T; the model is used at T = 1 afterwards (Raina et al., ``training.md`` B3). With
    ``gradients: normalised`` the factor 1 / T cancels.

    Args:
        params: Of the run.
        model: What is trained.
    """

    divisible = True
    cuts_itself = False

    def __init__(self, params: TrainingParams, model: Trainable) -> None:
        self.params = params
        self.model = model

    def prepare(self, data: TrainingData, preparation: Preparation) -> TrainingData:
        """Return the data as they are."""
        return data

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy (nats) of logits / training temperature."""
        temperature = self.params.training_temperature
        return F.cross_entropy(logits if temperature == 1 else logits / temperature, labels)

    def loss(self, batch: Batch, step: Step) -> Tensor:
        """Return the mean loss of a micro-batch (0-d)."""
        return self.cross_entropy(step.model.logits(batch.inputs), batch.labels)

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        """Add the gradient of :meth:`loss`."""
        loss = self.loss(batch, step)
        (loss if share == 1 else loss * share).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def finish(self, step: Step) -> bool:
        """Treat the gradient as the parameters say."""
        return treat(step.model.module, self.params.gradients, self.params.clip_norm)

    def attacked(self, batch: Batch, step: Step) -> Tensor | None:
        """Return None: nothing is attacked."""
        return None
