"""The static model as a defence: what every other defence has to be better than."""

from collections.abc import Callable

import torch
from torch import Tensor

from seatrial.families.shared.defence_presets import IDENTITY as PRESETS
from seatrial.families.shared.defence_presets import IdentityParams
from workers.defences.copies import Frozen
from workers.defences.protocol import Training, Traits
from workers.defences.registry import Plugin
from workers.models.image_classifier import ImageClassifier


class Identity:
    """Answers with the base classifier itself, bit for bit; implements :class:`workers.defences.Defence`."""

    def __init__(
        self, params: IdentityParams = PRESETS["mnist"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params = params

    @property
    def traits(self) -> Traits:
        """Stateless and deterministic."""
        return Traits(is_stateful=False, is_one_round=False, is_randomized=False, is_differentiable=True)

    @property
    def batch_size(self) -> int:
        """Test points of one round."""
        return self._params.batch_size

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> Frozen:
        """Return the base; no random number is drawn."""
        return Frozen(base)

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do nothing."""

    def state(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Do nothing."""


PLUGIN = Plugin(lambda params, check_cancelled: Identity(params, check_cancelled=check_cancelled), PRESETS)
