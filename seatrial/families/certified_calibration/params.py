"""Parameters of ``certified_calibration``: what can an adversary provably do to a model's confidence."""

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.rules import all_different
from seatrial.families.certified_calibration.uncertainty import UncertaintyParams
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams, in_the_check_s_ball
from seatrial.families.shared.rules import LEAST
from seatrial.families.shared.smoothing import NOISY_COPIES

AceAttack = Literal["ace_lower_true", "ace_raise_true", "ace_lower_predicted", "ace_raise_predicted"]
"""The (eta, omega)-ACE attacks: confidence in the true or the predicted class is lowered (eta = +1) or raised."""

ConfidenceBound = Literal["cdf", "dkw", "standard"]
Solver = Literal["exact", "admm", "dece", "brier"]

BOUNDS: tuple[ConfidenceBound, ...] = ("cdf", "dkw", "standard")
"""All are always computed; ``confidence_bound`` says which one the calibration bounds rest on."""

PROBES = 32
"""Noisy copies of an image that are asked for once more, apart from each other. Of a model that gives one copy in ten
another class when it sees them together, two images in three show it."""

ATTACKED_DRAWS = 1000
"""Draws of noise an attacked image's smoothed confidence is measured with, at most ``n``."""


class CertifiedCalibrationParams(FamilyParams):
    """Bound calibration under every perturbation of an l_2 radius, by randomized smoothing (Emde et al.)."""

    kind: Literal["certified_calibration"] = Field(description="Which family: this one.")
    sigma: Real = Field(
        default=0.25,
        ge=1e-3,
        le=100,
        description="Standard deviation of the Gaussian noise, on pixels in [0, 1]; pixels are not clipped. Use what "
        "the model was trained with.",
    )
    n0: int = Field(default=100, ge=1, le=100_000, description="Draws that select the class; used for nothing else.")
    n: int = Field(
        default=100_000,
        ge=10,
        le=10_000_000,
        description="Draws that estimate its probability; no radius above sigma Phi^-1(alpha^(1/n)) can be certified.",
    )
    alpha: Real = Field(
        default=0.001,
        ge=1e-12,
        le=0.2,
        description="Probability that an example's certified radius is wrong, and likewise its certified confidences.",
    )
    radii: list[Annotated[Real, Field(ge=0, le=1e4)]] = Field(
        default=[0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75],
        min_length=1,
        max_length=32,
        description="l_2 radii to certify at, ascending, on pixels in [0, 1]. The paper goes on to 1, 1.5, 2, 2.5 for "
        "larger sigma.",
    )
    bins: int = Field(default=15, ge=1, le=100, description="Equal-width confidence bins.")
    sampling: Literal["fixed", "adaptive"] = Field(
        default="fixed",
        description="`fixed`: n draws each. `adaptive`: an example's draws end once a confidence sequence has settled "
        "at which of the radii it is certified. Those intervals and cce are wider then, and radii between those asked "
        "for cut short; half of alpha is spent on the way, so the largest radius is a little smaller.",
    )
    confidence_bound: ConfidenceBound = Field(
        default="cdf",
        description="`cdf`: from the distribution of scores, by a band that is narrow in its tails (tightest); `dkw`: "
        "from the distribution by a band of one width, as the paper; `standard`: from the mean of the scores.",
    )
    noise: Literal["shared", "independent"] = Field(
        default="shared",
        description="`shared`: all examples see the same draws, which is fastest; every example's guarantee holds, but "
        "errors are correlated across examples. `independent`: each its own.",
    )
    joint: bool = Field(
        default=False,
        description="Let all certificates of the sample hold at once with probability 1 - alpha: each is made at "
        "alpha / (2 samples), a union bound. The paper makes each at alpha.",
    )
    solvers: list[Solver] = Field(
        default=["exact", "brier"],
        max_length=4,
        description="Ways to the worst-case calibration error. `exact` always; the others, which find no more than it "
        "and certify nothing, to compare: `admm` (the paper's), `dece` (gradient ascent), `brier` (confidences of the "
        "worst Brier score).",
    )
    ace_attacks: list[AceAttack] = Field(
        default_factory=list,
        max_length=4,
        description="Also attack the smoothed model's confidence, to see that no attack goes beyond the certificate.",
    )
    attack_radius: Real | None = Field(
        default=None, description="Which of the radii to attack at. Default: the largest one not above sigma."
    )
    attack_steps: int = Field(default=20, ge=1, le=1000, description="Gradient steps of an attack.")
    attack_draws: int = Field(default=16, ge=1, le=1000, description="Draws of noise per gradient step.")
    uncertainty: UncertaintyParams | None = Field(
        default=None,
        description="Certify all classes' scores too, from the same draws: the span of uncertainty, and calibration "
        "errors and scores beyond those of the predicted class in equal-width bins.",
    )
    robust_accuracy: RobustAccuracyParams | None = Field(
        default=None,
        description="Also attack the predictions of the network alone, without noise, by AutoAttack. No certificate "
        "covers these; it shows what smoothing has to improve on.",
    )

    @field_validator("radii")
    @classmethod
    def _radii_ascend(cls, radii: list[float]) -> list[float]:
        for before, after in pairwise(radii):
            # Metrics are named by six digits of the radius.
            if after <= before or f"{after:g}" == f"{before:g}":
                raise ValueError(f"radii must ascend and differ in six digits: {after!r} follows {before!r}")
        return radii

    _named_once = field_validator("solvers", "ace_attacks")(all_different)

    @field_validator("solvers")
    @classmethod
    def _exact_always(cls, solvers: list[Solver]) -> list[Solver]:
        return ["exact", *[solver for solver in solvers if solver != "exact"]]

    @field_validator("attack_radius")
    @classmethod
    def _attack_radius_is_certified(cls, radius: float | None, info: ValidationInfo) -> float | None:
        radii = info.data.get("radii")
        if radius is not None and radii is not None and (radius <= 0 or radius not in radii):
            told = ", ".join(f"{one:g}" for one in radii if one > 0) or "there is none"
            raise ValueError(f"attack_radius must be one of the radii above 0 ({told}), got {radius:g}")
        return radius

    @field_validator("robust_accuracy", mode="before")
    @classmethod
    def _attacks_in_its_ball(cls, asked: Any, info: ValidationInfo) -> Any:
        if not {"radii", "sigma", "attack_radius"} <= info.data.keys():
            return in_the_check_s_ball(asked, "l2", LEAST)
        radius = info.data["attack_radius"] or _default_radius(info.data["radii"], info.data["sigma"])
        return in_the_check_s_ball(asked, "l2", radius)

    @model_validator(mode="after")
    def _say_the_attack_radius(self) -> Self:
        # What is stored and reported can be run again, also by a version with another default.
        if self.ace_attacks and self.attack_radius is None:
            self.attack_radius = _default_radius(self.radii, self.sigma)
            if self.attack_radius is None:
                raise ValueError("ace_attacks need a radius above 0 among radii")
        return self

    @model_validator(mode="after")
    def _block_can_be_done(self) -> Self:
        if self.uncertainty is not None and self.uncertainty.attack and max(self.radii) <= 0:
            raise ValueError("uncertainty.attack needs a radius above 0 among radii")
        if self.uncertainty is not None and self.uncertainty.price_failures:
            if self.joint:
                raise ValueError("price_failures and joint pay for the same failures: choose one of them")
            if self.noise == "shared":
                raise ValueError("price_failures counts failures one by one: it needs noise independent, not shared")
        return self

    def references(self) -> dict[str, str]:
        """Return nothing: no further model or dataset takes part."""
        return {}

    def held_out(self) -> int:
        """Return 0: nothing is fitted."""
        return 0

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return how many single-example passes the check takes at most; adaptive sampling takes fewer.

        Args:
            samples: Examples audited.
            sizes: Of no meaning here.
            mean_words: Of no meaning here.
        """
        # One more without noise.
        forward = samples * (self.n0 + self.n + 1)
        gradients = len(self.ace_attacks) * samples * self.attack_steps * self.attack_draws
        # A step's forward pass is done again in its backward pass, so that one draw's graph is held at a time.
        # Where the last step leads is looked at without one.
        forward += gradients + len(self.ace_attacks) * samples * (self.attack_draws + min(self.n, ATTACKED_DRAWS))
        if self.uncertainty is not None and self.uncertainty.attack:
            # Twice at every radius above 0, each beginning where the one before ended and looking at the clean image,
            # of the entropy and of every part.
            runs = 2 * (1 + len(self.uncertainty.parts)) * sum(radius > 0 for radius in self.radii) * samples
            gradients += runs * self.attack_steps * self.attack_draws
            forward += runs * ((self.attack_steps + 2) * self.attack_draws + min(self.n, ATTACKED_DRAWS))
        robust = Passes(0, 0) if self.robust_accuracy is None else self.robust_accuracy.passes(samples)
        return Passes(
            forward + robust.forward,
            gradients + robust.backward,
            slowdown=2.0 if self.noise == "independent" else 1.25,
            together=NOISY_COPIES,
            compute_s=len(self.radii) * self._seconds_a_radius(samples) + self._seconds_of_classes(samples),
        )

    def questions(self, samples: int, sizes: dict[str, int]) -> Passes:
        """Return how many images a model that gives no gradients is asked about at most.

        Args:
            samples: Examples audited.
            sizes: Of no meaning here.
        """
        passes = self.passes(samples, sizes)
        # Without noise, and once to see how it likes its input laid out.
        asked = samples * (self.n0 + self.n + min(self.n0, PROBES) + 2)
        if self.robust_accuracy is not None:
            asked += self.robust_accuracy.questions(samples)
        return Passes(asked, 0, asked, passes.slowdown, passes.compute_s)

    def _seconds_of_classes(self, samples: int) -> float:
        return 0.0 if self.uncertainty is None else self.uncertainty.seconds(samples, len(self.radii))

    def _seconds_a_radius(self, samples: int) -> float:
        """Return the seconds of one core a radius takes beside the model, as measured: see benchmarks/RESULTS.md."""
        seconds = 0.3 + 0.025 * self.bins + 0.0004 * samples
        if "admm" in self.solvers:
            seconds += 4 + 0.0012 * samples * self.bins
        if "dece" in self.solvers:
            seconds += 0.2 + 2e-5 * samples * self.bins
        return seconds


def _default_radius(radii: list[float], sigma: float) -> float | None:
    """Return the largest radius above 0 and not above sigma, else the smallest; None where none is above 0."""
    positive = [radius for radius in radii if radius > 0]
    return max((radius for radius in positive if radius <= sigma), default=positive[0]) if positive else None
