"""What image families offer beside their own question: robust accuracy under AutoAttack (Croce and Hein 2020)."""

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Real, Request
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import Metric, only
from seatrial.families.shared.robust_accuracy_flags import FLAGS
from seatrial.families.shared.rules import LEAST, fits_its_norm

Norm = Literal["linf", "l2"]

AttackName = Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "square"]
Version = Literal["standard", "rand"]

ATTACKS: dict[Version, tuple[AttackName, ...]] = {
    # For models that answer the same image always the same.
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    # For randomised models, with ``DRAWS`` passes averaged at every iterate.
    "rand": ("apgd-ce", "apgd-dlr"),
}
"""What each version of AutoAttack runs, in this order."""

DOUBTS = frozenset(flag.code for flag in FLAGS)
"""Codes of the flags about a robust accuracy."""

TARGETS = 9
"""Wrong classes a targeted attack tries at most."""

DRAWS = 20
"""Passes that `rand` averages at every iterate."""

LOOKS = 5
"""Passes of the clean images that are compared with each other."""


class RobustAccuracyParams(Request):
    """Attack the model's predictions as well, by AutoAttack."""

    version: Version = Field(
        default="standard",
        description="`standard`: APGD on the cross-entropy, targeted APGD, targeted FAB, Square; each attacks only "
        "what those before it could not break. `rand`, for models that answer at random: APGD on the cross-entropy and "
        "on DLR, on means over 20 passes.",
    )
    norm: Norm = Field(
        default="linf",
        description="Norm of the perturbation, on pixels in [0, 1]. Default: the check's (that of certificates: l2).",
    )
    epsilon: Real | None = Field(
        default=None,
        ge=LEAST,
        le=1e6,
        validate_default=True,
        description="Radius of the perturbation in that norm. Default: the check's, where that is in the same norm (of "
        "certificates the radius it attacks at, or would attack at).",
    )
    steps: int = Field(default=100, ge=1, le=10_000, description="Of every run of APGD and FAB.")
    queries: int = Field(default=5000, ge=0, le=100_000, description="Of Square, in `standard`; 0 leaves it out.")

    @field_validator("epsilon")
    @classmethod
    def _epsilon_is_there(cls, epsilon: float | None, info: ValidationInfo) -> float:
        if epsilon is None:
            # By this kind a refusal points at the field that is not there.
            told = "the check has no radius in {norm} to attack at: give epsilon"
            raise PydanticCustomError("missing", told, {"norm": info.data.get("norm", "this norm")})
        return fits_its_norm(epsilon, info)

    @property
    def radius(self) -> float:
        """The radius, which validation has seen to be there."""
        if self.epsilon is None:
            raise AssertionError("unreachable: refused without a radius")
        return self.epsilon

    def passes(self, samples: int) -> Passes:
        """Return how many single-example passes the attacks take at most, whatever the number of classes.

        Args:
            samples: Examples attacked.
        """
        # Once more to see whether the model computes gradients of its own.
        forward, draws = LOOKS + 1, 1
        if self.version == "rand":
            draws, runs = DRAWS, 2
            forward += draws * (1 + runs)
            backward = draws * runs * self.steps
        else:
            runs = 1 + 2 * TARGETS
            # FAB looks at the image each step leads to, and three times on the line to the nearest at the end.
            forward += draws + 1 + TARGETS + TARGETS * (self.steps + 3) + self.queries
            backward = runs * self.steps
        return Passes(samples * forward, samples * backward)


def in_the_check_s_ball(asked: Any, norm: Norm, epsilon: float | None) -> Any:
    """Return what was asked of robust accuracy, not yet validated, with the check's ball where it names none.

    A radius means nothing in another norm, so it is taken over in its own alone.

    >>> in_the_check_s_ball({"steps": 20}, "l2", 0.5)
    {'norm': 'l2', 'epsilon': 0.5, 'steps': 20}
    >>> in_the_check_s_ball({"norm": "linf"}, "l2", 0.5)
    {'norm': 'linf'}
    """
    if not isinstance(asked, dict):
        return asked
    given = {name: value for name, value in asked.items() if value is not None or name not in ("norm", "epsilon")}
    own: dict[str, Any] = {"norm": norm} if epsilon is None else {"norm": norm, "epsilon": epsilon}
    return given if given.get("norm", norm) != norm else own | given


METRICS = (
    Metric(
        name="robust_accuracy",
        unit="1",
        better="higher",
        description="Share of all examples classified right and broken by no attack of AutoAttack (Croce and Hein "
        "2020); those that errored count as broken. An upper bound of the true robust accuracy.",
        depends_on=only("robust_accuracy"),
        per_example="seatrial.families.shared.robust_accuracy_records:holding",
    ),
    Metric(
        name="robust_accuracy",
        qualifiers=("attack",),
        unit="1",
        better="higher",
        description="The same after this attack and those before it in AutoAttack's sequence: cumulative, not what the "
        "attack alone would leave.",
        depends_on=only("robust_accuracy"),
        per_example="seatrial.families.shared.robust_accuracy_records:holding",
    ),
)
