"""Parameters of ``uncertainty_span``: how far can an attacker push a model's uncertainty."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Real, Request
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.passes import Part
from seatrial.contracts.rules import all_different
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams, in_the_check_s_ball
from seatrial.families.shared.rules import LEAST, fits_its_norm
from seatrial.families.uncertainty_span.effort import CROSSING_PASSES, DISPLACED_PASSES, Effort, budget
from seatrial.families.uncertainty_span.limits import (
    CROSSING_EXAMPLES,
    DISPLACED_EXAMPLES,
    SURROGATE_EXAMPLES,
    integrated_examples,
    looked_examples,
    pictured_examples,
    transformed_examples,
)
from seatrial.families.uncertainty_span.parts import part_passes
from seatrial.families.uncertainty_span.prediction_sets import ConformalParams
from seatrial.families.uncertainty_span.questions import questions

SpecificAttack = Literal[
    "ace",
    "ace_lower_true",
    "ace_raise_true",
    "ace_lower_predicted",
    "ace_raise_predicted",
    "max_miscalibration",
    "random_confidence",
]
"""`ace` is Galil and El-Yaniv's; `ace_{lower,raise}_{true,predicted}` are the four (eta, omega)-ACE attacks: confidence
in the true or the predicted class is lowered (eta = +1) or raised (eta = -1)."""


class OutlierParams(Request):
    """The outlier protocol, which asks whether attacked outliers still look uncertain."""

    dataset: str = Field(
        pattern=r"^dat_", description="Dataset of outliers (labels are not used).", examples=["dat_..."]
    )
    kind: Literal["ood", "open_set"] = Field(
        default="ood", description="`ood`: another kind of image; `open_set`: novel classes of the same kind."
    )
    epsilons: list[Annotated[Real, Field(ge=0, le=1e6)]] = Field(
        default=[4 / 255, 8 / 255],
        min_length=1,
        max_length=16,
        description="Over-confidence attack radii on the outliers, in the check's norm; 0 (clean) is always added.",
    )
    inliers_per_outlier: Real = Field(
        default=1,
        ge=1,
        le=1000,
        description="Examples of the sample for each outlier: 10 is the paper's 8,000 to 800. Precision and recall "
        "depend on it. Where there are fewer outliers, all are taken.",
        examples=[10],
    )

    @field_validator("epsilons")
    @classmethod
    def _radii_change_a_pixel(cls, epsilons: list[float]) -> list[float]:
        for epsilon in epsilons:
            if 0 < epsilon < LEAST:
                raise ValueError(f"a radius is 0 or at least {LEAST:g}, got {epsilon:g}")
        return epsilons

    def limit(self, samples: int) -> int:
        """Return how many outliers are held against ``samples`` examples, at least 1.

        >>> OutlierParams(dataset="dat_1", inliers_per_outlier=10).limit(8000)
        800
        """
        return max(1, int(samples / self.inliers_per_outlier))


class UncertaintySpanParams(FamilyParams):
    """Attack a classifier's predictive entropy both ways and report the span between (Ledda et al.)."""

    kind: Literal["uncertainty_span"] = Field(description="Which family: this one.")
    norm: Literal["linf", "l2"] = Field(default="linf", description="Norm of the perturbation, on pixels in [0, 1].")
    epsilon: Real = Field(
        default=8 / 255, ge=LEAST, le=1e6, description="Radius of the perturbation in that norm.", examples=[0.031]
    )
    steps: int = Field(default=150, ge=1, le=10_000, description="Gradient steps per attack.")
    step_size: Real | None = Field(
        default=None,
        ge=LEAST / 16,
        le=2.5e6,
        description="Length of one step in that norm. Default: the larger of epsilon / 16 (the authors' 2e-3 at 8/255) "
        "and 2.5 epsilon / steps (so that few steps still cross the ball).",
    )
    random_start: bool = Field(default=False, description="Start from a random point of the ball (the authors do not).")
    restarts: int = Field(
        default=1, ge=1, le=100, description="Runs per attack, best kept; more than one needs random_start."
    )
    effort: Effort = Field(
        default="standard",
        description="What runs beside the paper's two attacks. `quick`: nothing but the checks of their gradients; "
        "`standard`: entropy ascent, walks to the decision boundary, gradients of a smoothed copy, score-based "
        "searches, and transfer from a surrogate, together at most four times the cost of `quick` as "
        "counted, from four images and 20 steps on (with fewer than 100 beside as few examples, fewer of these are "
        "looked at); `thorough`: the same with more steps, starts and queries, at five to seven times that.",
    )
    selection: Literal["best_entropy", "final_or_clean"] = Field(
        default="best_entropy",
        description="`best_entropy`: the best iterate of all, clean included; `final_or_clean`: the authors' rule.",
    )
    bins: int = Field(
        default=15, ge=1, le=1000, description="Equal-width confidence bins of ECE, s-ECE, MCE and diagrams."
    )
    outliers: OutlierParams | None = Field(
        default=None, description="Also run the outlier protocol on a second dataset."
    )
    attacks: list[SpecificAttack] = Field(
        default_factory=list,
        max_length=7,
        description="Further label-preserving attacks, each with its ECE and accuracy.",
    )
    conformal: ConformalParams | None = Field(
        default=None,
        description="Also make conformal prediction sets (split conformal, APS, RAPS) and see what the paper's two "
        "attacks do to their coverage and size.",
    )
    parts: list[Part] = Field(
        default_factory=list,
        max_length=2,
        description="Of an ensemble or a model with Monte-Carlo dropout: also attack these parts of the predictive "
        "entropy, each by itself. `aleatoric`: the mean entropy of the passes; `epistemic`: the mutual information of "
        "class and pass, what they disagree on.",
        examples=[["aleatoric", "epistemic"]],
    )
    transfer_model: str | None = Field(
        default=None,
        pattern=r"^mdl_",
        description="A second model: if its attacks, transferred, reach notably further than those by the gradients of "
        "the one under audit, these are masked.",
    )
    robust_accuracy: RobustAccuracyParams | None = Field(
        default=None,
        description="Also attack the predictions, by AutoAttack; in the check's ball unless it says otherwise.",
    )

    # Rules between fields stand at the later one, so that a refusal points at a field. `info.data` lacks a field that
    # was refused itself.
    _epsilon_fits_its_norm = field_validator("epsilon")(fits_its_norm)
    _named_once = field_validator("attacks", "parts")(all_different)

    @field_validator("restarts")
    @classmethod
    def _restarts_differ(cls, restarts: int, info: ValidationInfo) -> int:
        if restarts > 1 and not info.data.get("random_start", True):
            raise ValueError("restarts above 1 repeat the same attack unless random_start is true")
        return restarts

    @field_validator("robust_accuracy", mode="before")
    @classmethod
    def _attacks_in_its_ball(cls, asked: Any, info: ValidationInfo) -> Any:
        return in_the_check_s_ball(asked, info.data.get("norm", "linf"), info.data.get("epsilon", LEAST))

    @model_validator(mode="after")
    def _say_the_step_size(self) -> Self:
        # What is stored and reported can be run again, also by a version with another default.
        self.step_size = self.resolved_step_size
        return self

    @property
    def resolved_step_size(self) -> float:
        """Length of one step, the default worked out."""
        return self.step_size if self.step_size is not None else max(self.epsilon / 16, 2.5 * self.epsilon / self.steps)

    def references(self) -> dict[str, str]:
        """Return ids of further models and datasets by the parameter that names them."""
        named = {}
        if self.outliers is not None:
            named["outliers/dataset"] = self.outliers.dataset
        if self.transfer_model is not None:
            named["transfer_model"] = self.transfer_model
        return named

    def held_out(self) -> int:
        """Return 0: nothing is fitted."""
        return 0

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return how many single-example passes the check takes at most.

        Args:
            samples: Examples audited.
            sizes: Examples of each further dataset of :meth:`references`, by the same keys.
            mean_words: Of no meaning here.
        """
        attack = self.steps * self.restarts
        backward = 2 * attack * samples
        forward = 4 * samples
        # Attacks on scores inside cost less than this, or are in place of rounds (`rounds_left`): they add nothing.
        # Should the softmax prove saturated: both attacks again, one across the decision boundary, and 40 points of the
        # way back.
        backward += 3 * attack * samples
        forward += 44 * samples
        # The masked-gradient check repeats both attacks at twice the radius on at most 100 examples.
        backward += 2 * attack * min(samples, 100)
        further = budget(self.effort, self.steps)
        if further is not None:
            costs = [
                (further.passes(self.norm), samples),
                (further.surrogate_passes(min(samples, SURROGATE_EXAMPLES)), 1),
                (Passes(CROSSING_PASSES, 0), min(samples, CROSSING_EXAMPLES)),
                (further.transformed, transformed_examples(samples, self.steps)),
                (further.integrated, integrated_examples(samples, self.steps)),
                (DISPLACED_PASSES, looked_examples(DISPLACED_EXAMPLES, samples, self.steps)),
            ]
            forward += sum(each.forward * examples for each, examples in costs)
            backward += sum(each.backward * examples for each, examples in costs)
        pictured = pictured_examples(samples)
        forward += 10 * pictured
        backward += 2 * attack * pictured
        if further is not None:
            forward += further.picture.forward * pictured
            backward += further.picture.backward * pictured
        for name in self.attacks:
            backward += samples if name == "ace" else attack * samples
            forward += 15 * samples if name == "ace" else samples
        if self.parts:
            part = part_passes(attack, further)
            forward += (3 + len(self.parts) * part.forward) * samples
            backward += len(self.parts) * part.backward * samples
        if self.outliers is not None:
            outliers = self.outliers.limit(samples)
            outliers = min(outliers, sizes.get("outliers/dataset", outliers))
            backward += len({e for e in self.outliers.epsilons if e > 0}) * attack * outliers
            forward += 2 * outliers
        if self.transfer_model is not None:
            backward += 2 * attack * samples
            forward += 7 * samples
        if self.robust_accuracy is not None:
            robust = self.robust_accuracy.passes(samples)
            forward, backward = forward + robust.forward, backward + robust.backward
        return Passes(forward, backward, watches=further is not None)

    def questions(self, samples: int, sizes: dict[str, int]) -> Passes:
        """Return how many images a model that gives no gradients is asked about at most.

        Args:
            samples: Examples audited.
            sizes: Of no meaning here.
        """
        asked = samples * questions(self.effort, self.steps).total
        if self.robust_accuracy is not None:
            asked += self.robust_accuracy.questions(samples)
        return Passes(asked, 0, asked)


ARMS = ("clean", "over", "under")
