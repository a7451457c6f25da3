"""Defences a check may name: those shipped with their hyper-parameters, and those operators register.

Of a shipped defence everything is checked when the audit is submitted. The API does not know what workers have
registered beside: such a defence's preset and hyper-parameters are checked by the worker, before anything is attacked.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Tag, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Real, Request
from seatrial.families.shared.defence_presets import RMC, OptimizerName, Preset, RmcParams, Variant

NAME = r"^[a-z][a-z0-9_]*$"

Count = Annotated[int, Field(ge=1, le=100_000)]
SeveralExamples = Annotated[int, Field(ge=2, le=100_000)]
Epochs = Annotated[int, Field(ge=1, le=10_000)]
Steps = Annotated[int, Field(ge=0, le=10_000)]
Rate = Annotated[Real, Field(gt=0, le=1000)]
Weight = Annotated[Real, Field(ge=0, le=1000)]
Decay = Annotated[Real, Field(ge=0, lt=1)]
Share = Annotated[Real, Field(gt=0, lt=1)]
Unit = Annotated[Real, Field(ge=0, le=1)]
StepSize = Annotated[Real, Field(gt=0, le=1)]


class Overrides(Request):
    """Hyper-parameters that differ from the preset's; what is left out or null is as the preset has it."""

    @model_serializer(mode="wrap")
    def _given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A check is stored and compared as it was meant, whatever hyper-parameters a later version may add.
        return {name: value for name, value in serialize(self).items() if value is not None}


class IdentityOverrides(Overrides):
    """Of no defence."""

    batch_size: Count | None = Field(default=None, description="Test points of a round.")


class TentOverrides(Overrides):
    """Of TENT."""

    batch_size: Count | None = Field(default=None, description="Test points of a round.")
    steps: Epochs | None = Field(default=None, description="Updates per round.")
    learning_rate: Rate | None = Field(default=None, description="Learning rate of Adam.")
    is_episodic: bool | None = Field(default=None, description="Every round starts from the base.")


class DentOverrides(Overrides):
    """Of DENT."""

    batch_size: Count | None = Field(default=None, description="Test points of a round.")
    steps: Epochs | None = Field(default=None, description="Updates per round.")
    learning_rate: Rate | None = Field(default=None, description="Learning rate of AdaMod.")
    beta1: Decay | None = Field(default=None, description="Decay of AdaMod's first moment.")
    beta2: Decay | None = Field(default=None, description="Decay of AdaMod's second moment.")
    beta3: Decay | None = Field(default=None, description="Decay of AdaMod's step sizes.")
    weight_decay: Weight | None = Field(default=None, description="Weight decay of AdaMod.")
    variant: Variant | None = Field(default=None, description="The objective of the code or of the paper's text.")


class RmcOverrides(Overrides):
    """Of RMC."""

    adversarial_passes: int | None = Field(
        default=None, ge=0, le=100, description="Attacked copies of every training example."
    )
    epsilon: Unit | None = Field(default=None, description="Radius of those attacks, in l_inf.")
    step_size: StepSize | None = Field(default=None, description="Step size of those attacks.")
    attack_steps: Steps | None = Field(default=None, description="Steps of those attacks.")
    is_augmented: bool | None = Field(default=None, description="The training images are cropped and flipped.")
    pool_seed: int | None = Field(default=None, ge=0, lt=2**31, description="Seed of the attacked copies.")
    neighbours: SeveralExamples | None = Field(default=None, description="K, training examples found for a point.")
    nearest_share: Share | None = Field(default=None, description="Share of the neighbours that counts as the nearest.")
    held_out_share: Share | None = Field(default=None, description="Share of the nearest that decides when to stop.")
    calibration_held_out_share: Share | None = Field(default=None, description="The same share, of a calibration.")
    learning_rate: Rate | None = Field(default=None, description="Learning rate of Adam.")
    batch_size: Count | None = Field(default=None, description="Examples of a training step.")
    epochs: Epochs | None = Field(default=None, description="Epochs at most, for a point and for a calibration.")
    patience: Count | None = Field(default=None, description="Epochs without a new least loss before it may stop.")
    stop_below: Weight | None = Field(default=None, description="Training loss above which it does not stop early.")
    variant: Variant | None = Field(default=None, description="The code behind the tables or the paper's text.")


class DannOverrides(Overrides):
    """Of DANN."""

    network: Literal["convolutional", "resnet18", "small"] | None = Field(default=None, description="What is trained.")
    epochs: Epochs | None = Field(default=None, description="Passes over the smaller of the two samples.")
    batch_size: SeveralExamples | None = Field(default=None, description="Examples of either domain in a step.")
    alpha: Weight | None = Field(default=None, description="Largest weight of the reversed gradient.")
    optimizer: OptimizerName | None = Field(default=None, description="Adam, or SGD with momentum 0.9.")
    learning_rate: Rate | None = Field(default=None, description="At the first step.")
    weight_decay: Weight | None = Field(default=None, description="Weight decay of the optimiser.")


class TadvOverrides(Overrides):
    """Of TADV."""

    network: Literal["lenet", "resnet20", "small"] | None = Field(default=None, description="What is trained.")
    epsilon: Unit | None = Field(default=None, description="Radius of the attacks trained against, in l_inf.")
    step_size: StepSize | None = Field(default=None, description="Step size of those attacks.")
    attack_steps: Steps | None = Field(default=None, description="Steps of those attacks.")
    epochs: Epochs | None = Field(default=None, description="Passes over the training data.")
    batch_size: SeveralExamples | None = Field(default=None, description="Examples of a step, half of them attacked.")
    is_augmented: bool | None = Field(default=None, description="The training images are cropped and flipped.")
    optimizer: OptimizerName | None = Field(default=None, description="Adam, or SGD with momentum 0.9.")
    learning_rate: Rate | None = Field(default=None, description="At the first step.")
    weight_decay: Weight | None = Field(default=None, description="Weight decay of the optimiser.")
    variant: Variant | None = Field(default=None, description="The code behind the tables or the paper's text.")


class URejectronOverrides(Overrides):
    """Of URejectron."""

    network: Literal["resnet18", "small"] | None = Field(default=None, description="The discriminator.")
    epochs: Epochs | None = Field(default=None, description="Passes over training data and test points together.")
    batch_size: SeveralExamples | None = Field(default=None, description="Examples of a step.")
    learning_rate: Rate | None = Field(default=None, description="Learning rate of Adam.")
    threshold: Unit | None = Field(default=None, description="Score above which a point is rejected.")


class ShippedDefence(Request):
    """A defence that comes with the service."""

    preset: Preset = Field(
        default="small",
        description="`mnist` and `cifar10`: the paper's hyper-parameters; `small`: minutes on a CPU.",
    )

    @property
    def settings(self) -> Mapping[str, Any]:
        """Hyper-parameters that differ from the preset's."""
        # Each subclass has `changes` of its own.
        changed: dict[str, Any] = self.model_dump(include={"changes"})["changes"]
        return changed

    @property
    def least_training(self) -> int:
        """Labelled examples it needs to learn from at least."""
        return 0


_CHANGES = "Hyper-parameters that differ from the preset's."


class Identity(ShippedDefence):
    """The static model as a defence."""

    name: Literal["identity"] = Field(description="No defence.")
    changes: IdentityOverrides = Field(default_factory=IdentityOverrides, description=_CHANGES)


class Tent(ShippedDefence):
    """Entropy minimisation over batch norm (Wang et al.)."""

    name: Literal["tent"] = Field(description="TENT.")
    changes: TentOverrides = Field(default_factory=TentOverrides, description=_CHANGES)


class Dent(ShippedDefence):
    """Batch-norm parameters per example."""

    name: Literal["dent"] = Field(description="DENT.", examples=["dent"])
    changes: DentOverrides = Field(default_factory=DentOverrides, description=_CHANGES)


class Rmc(ShippedDefence):
    """Runtime masking and cleansing (Wu et al.)."""

    name: Literal["rmc"] = Field(description="RMC.")
    changes: RmcOverrides = Field(default_factory=RmcOverrides, description=_CHANGES)

    @model_validator(mode="after")
    def _nearest_are_several(self) -> "Rmc":
        asked, neighbours = self.changes, self.neighbours
        fraction = self._preset.nearest_share if asked.nearest_share is None else asked.nearest_share
        if int(neighbours * fraction) < 2:
            at = "nearest_share" if asked.neighbours is None else "neighbours"
            raise PydanticCustomError(
                "too_few_nearest",
                "RMC holds some of the nearest neighbours out and trains on the others, so they are at least two: of "
                "{neighbours} neighbours a share of {share} is less",
                {"neighbours": neighbours, "share": fraction, "path": ["changes", at]},
            )
        return self

    @property
    def neighbours(self) -> int:
        """K, training examples found for a point."""
        asked = self.changes.neighbours
        return self._preset.neighbours if asked is None else asked

    @property
    def least_training(self) -> int:
        """With their attacked copies these are as many as it looks for."""
        asked = self.changes.adversarial_passes
        passes = self._preset.adversarial_passes if asked is None else asked
        return -(-self.neighbours // (1 + passes))

    @property
    def _preset(self) -> RmcParams:
        return RMC[self.preset]


class Dann(ShippedDefence):
    """Domain-adversarial training on the test points (Ganin et al.)."""

    name: Literal["dann"] = Field(description="DANN.")
    changes: DannOverrides = Field(default_factory=DannOverrides, description=_CHANGES)

    @property
    def least_training(self) -> int:
        """What batch norm takes."""
        return 2


class Tadv(ShippedDefence):
    """Adversarial training anew (Chen et al.)."""

    name: Literal["tadv"] = Field(description="TADV.")
    changes: TadvOverrides = Field(default_factory=TadvOverrides, description=_CHANGES)

    @property
    def least_training(self) -> int:
        """What batch norm takes."""
        return 2


class URejectron(ShippedDefence):
    """Refusing what a discriminator tells from the training data (Goldwasser et al.)."""

    name: Literal["urejectron"] = Field(description="URejectron.")
    changes: URejectronOverrides = Field(default_factory=URejectronOverrides, description=_CHANGES)

    @property
    def least_training(self) -> int:
        """What batch norm takes."""
        return 2


class RegisteredDefence(Request):
    """A defence an operator registered with the workers, who check what is asked of it."""

    name: str = Field(
        min_length=1, max_length=64, pattern=NAME, description="Name under which the defence is registered."
    )
    preset: str = Field(default="small", max_length=64, pattern=NAME, description="One of its own.")
    changes: dict[str, bool | int | float | str] = Field(default_factory=dict, max_length=32, description=_CHANGES)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Hyper-parameters that differ from the preset's."""
        return self.changes


SHIPPED: dict[str, type[ShippedDefence]] = {
    "identity": Identity,
    "tent": Tent,
    "dent": Dent,
    "rmc": Rmc,
    "dann": Dann,
    "tadv": Tadv,
    "urejectron": URejectron,
}
"""Defences that come with the service; operators register more by entry point."""

GROUP = "seatrial.defences"
"""Entry points by which operators register theirs."""

_REGISTERED = "registered"


def _whose(value: Any) -> str:
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    return name if isinstance(name, str) and name in SHIPPED else _REGISTERED


DefenceParams = Annotated[
    Annotated[Identity, Tag("identity")]
    | Annotated[Tent, Tag("tent")]
    | Annotated[Dent, Tag("dent")]
    | Annotated[Rmc, Tag("rmc")]
    | Annotated[Dann, Tag("dann")]
    | Annotated[Tadv, Tag("tadv")]
    | Annotated[URejectron, Tag("urejectron")]
    | Annotated[RegisteredDefence, Tag(_REGISTERED)],
    Discriminator(_whose),
]
"""A defence: a named preset and what is to differ from it."""
