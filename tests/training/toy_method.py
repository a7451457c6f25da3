"""A method of another distribution: it turns labels round, and its attack breaks everything."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from seatrial.contracts.training import MethodSpec
from seatrial.hardening.params import TrainingParams
from workers.training.data import Batch
from workers.training.methods.plain import CrossEntropy
from workers.training.protocol import Step


class ToyParams(TrainingParams):
    method: Literal["toy"] = Field(description="This method.")


class Toy(CrossEntropy):
    def loss(self, batch: Batch, step: Step) -> Tensor:
        return -self.cross_entropy(step.model.logits(batch.inputs), batch.labels)

    def attacked(self, batch: Batch, step: Step) -> Tensor:
        logits = torch.ones(len(batch), 3)
        logits[torch.arange(len(batch)), batch.labels] = 0
        return logits


SPEC = MethodSpec("toy", ToyParams, "tests.training.toy_method:Toy", ("image-classification",), "none")
