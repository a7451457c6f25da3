"""Methods that train image models (and models of tables) on perturbed inputs."""

from typing import Literal

from pydantic import Field, model_validator

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.training import MethodSpec
from seatrial.hardening.params import TrainingParams

TASKS = ("image-classification", "tabular-classification")


class AdversarialParams(TrainingParams):
    """Train on the worst inputs PGD finds within a ball (Madry et al. 2018), or by TRADES (Zhang et al. 2019)."""

    method: Literal["adversarial"] = Field(description="This method.")
    loss: Literal["pgd", "trades"] = Field(
        default="pgd",
        description="`pgd`: cross-entropy of attacked inputs; `trades`: cross-entropy of clean ones and `beta` times "
        "the divergence of attacked from clean predictions.",
    )
    norm: Literal["linf", "l2"] = Field(default="linf", description="Norm of the perturbation.")
    epsilon: Real = Field(default=0.03, gt=0, le=100, description="Radius, on pixels in [0, 1].")
    steps: int = Field(default=7, ge=1, le=100, description="Gradient steps of the attack on each batch.")
    step_size: Real | None = Field(
        default=None, gt=0, description="Step size of the attack. Null: 2.5 epsilon / steps."
    )
    random_start: bool = Field(default=True, description="Start at a random point of the ball; TRADES always does.")
    beta: Real = Field(default=6.0, ge=0, le=1000, description="Weight of the divergence, for TRADES.")

    @property
    def length(self) -> float:
        """Length of a step of the attack."""
        return 2.5 * self.epsilon / self.steps if self.step_size is None else self.step_size

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch: the attack's, and the weights' (two for TRADES)."""
        return self.steps + (2 if self.loss == "trades" else 1)

    def graphs(self) -> int:
        """Return how many forward passes of an example a step keeps at once."""
        return 2 if self.loss == "trades" else 1

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with the attack on validation examples."""
        trained = super().passes(examples, validation)
        return Passes(
            trained.forward + self.epochs * validation, trained.backward + self.epochs * validation * self.steps
        )


class GaussianParams(TrainingParams):
    """Train on inputs with Gaussian noise, for randomized smoothing (Cohen et al. 2019)."""

    method: Literal["gaussian"] = Field(description="This method.")
    sigma: Real = Field(default=0.25, gt=0, le=100, description="Standard deviation of the noise, on pixels in [0, 1].")
    draws: int = Field(default=1, ge=1, le=256, description="Noisy copies of each example in a batch.")

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch."""
        return self.draws

    def graphs(self) -> int:
        """Return how many forward passes of an example a step keeps at once."""
        return self.draws

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with noisy validation examples."""
        trained = super().passes(examples, validation)
        return trained._replace(forward=trained.forward + self.epochs * validation * self.draws)


class SmoothedAttackParams(TrainingParams):
    """Noise, and an attack on the smoothed model."""

    sigma: Real = Field(default=0.25, gt=0, le=100, description="Standard deviation of the noise, on pixels in [0, 1].")
    epsilon: Real = Field(default=0.25, gt=0, le=100, description="l_2 radius of the attack, on pixels in [0, 1].")
    steps: int = Field(
        default=2, ge=1, le=100, description="Gradient steps of the attack; each is 2 epsilon / steps long."
    )
    draws: int = Field(
        default=2, ge=1, le=256, description="Draws of noise: the same for all steps and for the weights' update."
    )
    trains_all_draws: bool = Field(
        default=True, description="Train on every draw; otherwise on the first (the paper's `train-multi-noise`)."
    )
    warmup_epochs: int = Field(
        default=1, ge=1, le=1000, description="Epochs over which the radius of the attack grows to epsilon, linearly."
    )

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch."""
        return self.draws * self.steps + (self.draws if self.trains_all_draws else 1)

    def graphs(self) -> int:
        """Return how many forward passes of an example a step keeps at once, if only for the attack."""
        return self.draws

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with the attack on validation examples."""
        trained = super().passes(examples, validation)
        looked = self.epochs * validation * self.draws
        return Passes(trained.forward + looked, trained.backward + looked * self.steps)


class SmoothAdvParams(SmoothedAttackParams):
    """Train on noisy inputs around the worst ones for the smoothed model (Salman et al. 2019)."""

    method: Literal["smoothadv"] = Field(description="This method.")


class CalibrationTrainingParams(SmoothedAttackParams):
    """What the adversarial calibration trainings of Emde et al. (appendix on ACT) have in common."""

    epochs: int = Field(default=10, ge=1, le=1000, description="Times the training set is gone through.")
    batch_size: int = Field(default=256, ge=1, le=65_536, description="Examples of one step of the optimiser.")
    weight_decay: Real = Field(
        default=1e-4, ge=0, le=1, description="Decoupled for AdamW, added to the gradient for SGD."
    )
    warmup_epochs: int = Field(
        default=3, ge=1, le=1000, description="Epochs over which the radius of the attack grows to epsilon, linearly."
    )
    step_factor: Real = Field(
        default=1.0, gt=0, le=100, description="Times 2 epsilon / steps: the length of a step of the attack."
    )

    @model_validator(mode="before")
    @classmethod
    def _decays_every_four_epochs(cls, body: object) -> object:
        if isinstance(body, dict) and "milestones" not in body:
            epochs = body.get("epochs", 10)
            return {**body, "milestones": [*range(4, epochs, 4)] if isinstance(epochs, int) else []}
        return body


class BrierActParams(CalibrationTrainingParams):
    """Fine-tune on inputs that are worst for the smoothed model's top-label Brier score (Emde et al., Brier-ACT)."""

    method: Literal["brier_act"] = Field(description="This method.")


class AcceActParams(CalibrationTrainingParams):
    """Fine-tune on inputs that are worst for the calibration error of a batch (Emde et al., ACCE-ACT)."""

    method: Literal["acce_act"] = Field(description="This method.")
    batch_size: int = Field(
        default=2048,
        ge=2,
        le=65_536,
        description="Examples of one step, whose calibration error is made worst together.",
    )
    inner: Literal["admm", "exact"] = Field(
        default="admm",
        description="How examples are assigned to bins: `admm`, the paper's, moved along with the inputs; `exact`, the "
        "assignment of the largest calibration error the certified intervals allow, solved once a batch.",
    )
    bins: int = Field(default=15, ge=1, le=100, description="Equal-width confidence bins.")
    assignment_rate: Real = Field(default=0.01, gt=0, le=10, description="Step size of the assignment, for `admm`.")
    growth: Real = Field(default=1.004, ge=1, le=10, description="Factor of the penalty at each step, for `admm`.")
    bound_alpha: Real | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Probability that an interval of confidences misses, which is then as wide as so few draws ask "
        "for. Null: intervals around the mean of the draws as if it were exact.",
    )

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with a look at the whole batch before the attack, and before each of its steps for `admm`."""
        trained = super().passes(examples, validation)
        looks = self.epochs * (examples + validation) * self.draws * (1 + self.steps * (self.inner == "admm"))
        return trained._replace(forward=trained.forward + looks)


def _spec(params: type[TrainingParams], worker: str, paper: str) -> MethodSpec:
    (slug,) = params.model_fields["method"].annotation.__args__  # type: ignore[union-attr]
    return MethodSpec(slug, params, f"workers.training.methods.{worker}", TASKS, paper)


ADVERSARIAL = _spec(AdversarialParams, "adversarial:Adversarial", "Madry et al. 2018; Zhang et al. 2019, TRADES")
GAUSSIAN = _spec(GaussianParams, "smoothed:Gaussian", "Cohen et al. 2019, Certified Adversarial Robustness")
SMOOTHADV = _spec(SmoothAdvParams, "smoothed:SmoothAdv", "Salman et al. 2019, Provably Robust Deep Learning")
BRIER_ACT = _spec(BrierActParams, "calibrated:BrierAct", "Emde et al. 2024, Certified Calibration")
ACCE_ACT = _spec(AcceActParams, "calibrated:AcceAct", "Emde et al. 2024, Certified Calibration")
