"""Parameters that all methods which train have: epochs, batches, the optimiser and its schedule."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.training import MethodParams


class TrainingParams(MethodParams):
    """How weights are trained, whichever the loss."""

    epochs: int = Field(default=5, ge=1, le=1000, description="Times the training set is gone through.")
    batch_size: int = Field(default=32, ge=1, le=65_536, description="Examples of one step of the optimiser.")
    micro_batch_size: int | None = Field(
        default=None,
        ge=1,
        description="Examples whose graph is held at once; their gradients are accumulated to those of the batch. "
        "Null: the whole batch. It is halved where memory runs out. Batch normalisation sees micro-batches.",
    )
    optimizer: Literal["adamw", "sgd"] = Field(default="sgd", description="Which optimiser.")
    learning_rate: Real = Field(default=0.01, gt=0, le=100, description="Learning rate of the first epoch.")
    momentum: Real = Field(default=0.9, ge=0, lt=1, description="Momentum of SGD; AdamW ignores it.")
    weight_decay: Real = Field(
        default=0.0, ge=0, le=1, description="Decoupled for AdamW, added to the gradient for SGD."
    )
    milestones: list[Annotated[int, Field(ge=1)]] = Field(
        default_factory=list,
        max_length=32,
        description="Epochs after which the learning rate is multiplied by `decay`, ascending.",
    )
    decay: Real = Field(default=0.1, gt=0, le=1, description="Factor of the learning rate at each milestone.")
    gradients: Literal["plain", "normalised", "clipped"] = Field(
        default="plain",
        description="What is done to the gradient over all parameters before the optimiser: nothing; divided by its "
        "l_2 norm, also where that is below 1; or scaled down to `clip_norm` where it is longer.",
    )
    clip_norm: Real = Field(default=1.0, gt=0, description="Longest gradient of `clipped`.")
    training_temperature: Real = Field(
        default=1.0,
        ge=1e-3,
        le=1e6,
        description="Logits are divided by it in the training loss; the model is used without it.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="Precision of products in forward passes; `bfloat16` on GPUs only. Weights stay float32.",
    )
    keep: Literal["best", "last"] = Field(
        default="best",
        description="Whose weights are the result: those of the epoch of the best validation accuracy (attacked where "
        "the method measures it; the first of equals), or those of the last one.",
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if any(after <= before for before, after in zip(self.milestones, self.milestones[1:], strict=False)):
            raise ValueError(f"milestones must ascend, got {self.milestones}")
        if self.micro_batch_size is not None and self.micro_batch_size > self.batch_size:
            raise ValueError(
                f"micro_batch_size must be at most batch_size ({self.batch_size}), got {self.micro_batch_size}"
            )
        return self

    def forward_backward(self) -> int:
        """Return forward and backward passes of one training example in one epoch."""
        return 1

    def graphs(self) -> int:
        """Return how many forward passes of an example in the micro-batch a step keeps at once."""
        return 1

    def further_gradients(self) -> int:
        """Return how many gradients of all weights a step holds beside the one it ends in."""
        return 0

    def passes(self, examples: int, validation: int) -> Passes:
        """Return what training takes at most, validation after every epoch included."""
        return Passes(self.epochs * validation, self.epochs * examples * self.forward_backward())


class TextTrainingParams(TrainingParams):
    """The same with the defaults of paper 000 (Raina et al.), section B1 of its code."""

    batch_size: int = Field(default=8, ge=1, le=65_536, description="Examples of one step of the optimiser.")
    optimizer: Literal["adamw", "sgd"] = Field(default="adamw", description="Which optimiser.")
    learning_rate: Real = Field(default=1e-5, gt=0, le=100, description="Learning rate of the first epoch.")
    weight_decay: Real = Field(
        default=0.01, ge=0, le=1, description="Decoupled for AdamW, added to the gradient for SGD."
    )
    milestones: list[Annotated[int, Field(ge=1)]] = Field(
        default=[3],
        max_length=32,
        description="Epochs after which the learning rate is multiplied by `decay`, ascending.",
    )
