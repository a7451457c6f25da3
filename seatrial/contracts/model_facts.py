"""What a worker found out about a model."""

from pydantic import Field

from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Flag


class ModelFactsSummary(Read):
    """What the worker measured when it checked the model, as a list has it: without class names and doubts."""

    parameters: int = Field(description="Number of weights; 0 where they are not known (an endpoint).")
    classes: int = Field(description="Logits per example.")
    device: str = Field(description="Where it was measured.", examples=["cpu", "NVIDIA H200"])
    forward_s: float = Field(
        description="Seconds per example of a forward pass, in a batch; of a text of `tokens` tokens, or of one "
        "example sent to an endpoint."
    )
    backward_s: float | None = Field(
        default=None,
        description="Seconds per example of a forward and a backward pass, in a batch; null for text models and "
        "endpoints, which are attacked without gradients.",
    )
    tokens: int | None = Field(default=None, description="Tokens of the texts a text model was timed on.")
    longest: int | None = Field(
        default=None,
        description="Tokens of a text a model takes at most: the end of longer ones is cut off. Null for images, for "
        "endpoints, and of models checked before this was kept.",
    )
    memory_bytes_per_example: int | None = Field(
        default=None, description="Device memory per example of a backward pass, where known."
    )
    training_bytes: list[float] | None = Field(
        default=None,
        max_length=2,
        description="Bytes a training keeps of an example between the forward and the backward pass: one number, or "
        "for a text of n tokens two, times n and times its square. Null where it cannot be trained, and of models "
        "checked before this was kept.",
    )
    attack_bytes: float | None = Field(
        default=None,
        description="Bytes an attack on an image keeps between the forward and the backward pass. Null of texts, of "
        "endpoints, and of models checked before this was kept.",
    )
    forward_bytes: float | None = Field(
        default=None, description="Bytes of an image that a forward pass holds at once, in tensors; null likewise."
    )


class ModelFacts(ModelFactsSummary):
    """What the worker measured when it checked the model."""

    labels: list[str] | None = Field(default=None, description="Class names in the order of the logits.")
    input_shape: list[int] | None = Field(
        default=None,
        description="Channels, height and width of the images it takes, of table rows 1, 1 and the columns; null of "
        "texts, and of models checked before this was kept.",
    )
    flags: list[Flag] = Field(default_factory=list, description="Doubts that do not stop the model from being audited.")
