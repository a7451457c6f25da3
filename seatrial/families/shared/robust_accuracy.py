"""What image families offer beside their own question: robust accuracy under AutoAttack (Croce and Hein 2020)."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Real, Request
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import Metric, Misfit, only
from seatrial.families.shared.robust_accuracy_flags import FLAGS
from seatrial.families.shared.rules import LEAST, fits_its_norm

Norm = Literal["linf", "l2"]

AttackName = Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab-t", "square", "rays"]
Version = Literal["standard", "rand"]

ATTACKS: dict[Version, tuple[AttackName, ...]] = {
    # For models that answer the same image always the same.
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    # For randomised models, with ``DRAWS`` passes averaged at every iterate.
    "rand": ("apgd-ce", "apgd-dlr"),
}
"""What each version of AutoAttack runs, in this order."""

WITHOUT_GRADIENTS: tuple[AttackName, ...] = ("square", "rays")
"""What runs where a model is asked over HTTP: by scores, then by decisions alone (RayS, Chen and Gu 2020)."""

DOUBTS = frozenset(flag.code for flag in FLAGS)
"""Codes of the flags about a robust accuracy."""

TARGETS = 9
"""Wrong classes a targeted attack tries at most."""

DRAWS = 20
"""Passes that `rand` averages at every iterate."""

LOOKS = 5
"""Passes of the clean images that are compared with each other."""

SLOPE_STEPS = 3
"""Steps down the gradient of a clean image by which it is seen how much of it is left."""

FIRST_STEPS = 10
"""Of PGD, in the first of two phases."""

FEWEST_SURVIVORS = 20

FIRST, SECOND = "robust_accuracy_first", "robust_accuracy"
"""Names of the two stages; a robust accuracy in one phase has the second alone."""


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
    steps: int = Field(default=100, ge=1, le=10_000, description="Steps of every run of APGD and FAB.")
    queries: int = Field(
        default=5000,
        ge=0,
        le=100_000,
        description="Queries of Square, in `standard`; 0 leaves it out. An endpoint is attacked by Square and, with a "
        "fifth as many queries, by decisions alone (RayS, Chen and Gu 2020), and by nothing else.",
    )

    survivors: int | None = Field(
        default=None,
        ge=FEWEST_SURVIVORS,
        le=10**6,
        description="Two phases: PGD of ten steps on every example, then AutoAttack on the first so many of the random "
        "sample that it leaves standing. The robust accuracy is the product of the two shares, with an interval that "
        "takes in both (MOVER, Donner and Zou 2012): at the same cost some times narrower, the nearer PGD comes to "
        "AutoAttack. Null: AutoAttack on every example. Not in `rand`, and not for models that give no gradients.",
    )

    @field_validator("survivors")
    @classmethod
    def _two_phases_need_one_answer(cls, survivors: int | None, info: ValidationInfo) -> int | None:
        if survivors is not None and info.data.get("version") == "rand":
            raise ValueError("version rand has one phase: a model that answers at random may stand by luck")
        return survivors

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
        if self.survivors is not None:
            phases = self.phases(samples).values()
            return Passes(sum(one.forward for one in phases), sum(one.backward for one in phases))
        # Once more to see whether the model computes gradients of its own.
        forward, draws = LOOKS + 1, 1
        if self.version == "rand":
            draws, runs = DRAWS, 2
            forward += draws * (1 + runs)
            backward = draws * runs * self.steps
        else:
            runs = 1 + 2 * TARGETS
            # FAB looks at the image each step leads to, and three times on the line to the nearest at the end.
            forward += draws + 1 + TARGETS + TARGETS * (self.steps + 3) + self.queries + SLOPE_STEPS
            # One to see what is left of it near by.
            backward = runs * self.steps + 1
        return Passes(samples * forward, samples * backward)

    def phases(self, samples: int) -> dict[str, Passes]:
        """Return the same by stage, in the order in which they are run.

        Args:
            samples: Examples attacked.
        """
        if self.survivors is None:
            return {SECOND: self.passes(samples)}
        # The first phase sees the clean image, and the last iterate after its steps. What it breaks on the way to the
        # last survivor is not attacked again.
        again = self.model_copy(update={"survivors": None})
        return {
            FIRST: Passes(samples * 2, samples * FIRST_STEPS),
            SECOND: again.passes(min(samples, self.survivors)),
        }

    def questions(self, samples: int) -> int:
        """Return how many images a model that gives no gradients is asked about at most.

        Args:
            samples: Examples attacked.
        """
        return samples * (LOOKS + 1 + self.queries + self.decisions)

    @property
    def decisions(self) -> int:
        """Queries of the attack by decisions alone: a fifth of those by scores, at least 1."""
        return max(1, self.queries // 5)


def without_gradients(params: RobustAccuracyParams) -> Iterator[Misfit]:
    """Find what keeps a model that gives no gradients from being attacked."""
    if params.version == "rand":
        yield Misfit("Version rand is two attacks by gradients, which an endpoint has not.", "robust_accuracy/version")
    if params.survivors is not None:
        yield Misfit(
            "The first of two phases is an attack by gradients, which an endpoint has not.", "robust_accuracy/survivors"
        )
    if not params.queries:
        yield Misfit("An endpoint is attacked by queries alone: ask for some.", "robust_accuracy/queries")


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
        label="Accuracy under AutoAttack",
        claim="{value} of the examples withstand AutoAttack",
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
        label="Accuracy left after {attack} in AutoAttack's sequence",
        unit="1",
        better="higher",
        description="Share of all examples classified right and broken neither by this attack nor by those before it "
        "in AutoAttack's sequence: cumulative, not what the attack alone would leave.",
        depends_on=only("robust_accuracy"),
        per_example="seatrial.families.shared.robust_accuracy_records:holding",
    ),
)
