"""Methods that train text models: on perturbed word embeddings, and on perturbed texts."""

from typing import Literal

from pydantic import Field

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.noise import Attacker, Reading
from seatrial.contracts.training import MethodSpec
from seatrial.hardening.params import TextTrainingParams

TASKS = ("text-classification", "text-pair-classification")
LEVELS = (0.2, 0.5, 0.8)
"""Shares of words: low, mid and high of the Zéroe catalogue."""

Treatment = Literal["plain", "normalised", "clipped"]


class EmbeddingAttackParams(TextTrainingParams):
    """An attack on word embeddings: gradient ascent on one perturbation per token."""

    steps: int = Field(default=5, ge=1, le=100, description="K: gradient steps of the attack on each batch.")
    step_size: Real = Field(default=0.03, gt=0, le=100, description="Length of a step, over all tokens of a text.")
    start: Real = Field(default=0.05, ge=0, le=100, description="Size of the random start, over all tokens of a text.")
    max_norm: Real = Field(default=1.0, ge=0, le=100, description="Longest perturbation of a text; 0: any.")
    norm: Literal["l2", "linf"] = Field(default="l2", description="Norm of the perturbation.")
    gradients: Treatment = Field(
        default="clipped",
        description="What is done to the gradient over all parameters before the optimiser: `clipped` to `clip_norm`, "
        "as the official code; `normalised`, which the paper finds to feign robustness; or nothing.",
    )

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with the attack on validation examples."""
        trained = super().passes(examples, validation)
        looked = self.epochs * validation
        return trained._replace(forward=trained.forward + looked, backward=trained.backward + looked * self.steps)


class PgdKParams(EmbeddingAttackParams):
    """Train on embeddings that K steps of gradient ascent make worst (Madry et al.; as TextDefender does it)."""

    method: Literal["pgd_k"] = Field(description="This method.")

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch."""
        return self.steps + 1


class FreeLBParams(EmbeddingAttackParams):
    """The same, taking the weights' gradient at every step of the ascent (Zhu et al. 2020)."""

    method: Literal["freelb"] = Field(description="This method.")

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch."""
        return self.steps


class DDiAtParams(EmbeddingAttackParams):
    """Danskin's descent direction: the shortest convex combination of gradients at several attacked batches."""

    method: Literal["ddi_at"] = Field(description="This method.")
    attacks: int = Field(default=3, ge=1, le=32, description="M: attacks on each batch, from different random starts.")
    steps: int = Field(default=3, ge=1, le=100, description="K: gradient steps of each attack.")
    gradients: Treatment = Field(
        default="normalised",
        description="What is done to the combination: `normalised` is the method; `clipped` and `plain` are the "
        "paper's ablation.",
    )

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch."""
        return self.attacks * (self.steps + 1)

    def further_gradients(self) -> int:
        """Return how many gradients of all weights a step holds beside the one it ends in."""
        return self.attacks


class AsccParams(TextTrainingParams):
    """Train against the worst mixture of each word with its synonyms (Dong et al. 2021)."""

    method: Literal["ascc"] = Field(description="This method.")
    steps: int = Field(default=5, ge=1, le=100, description="Steps of Adam on the mixture's weights.")
    sparsity: Real = Field(default=10.0, ge=0, le=1000, description="Weight of the mixture's entropy in the attack.")
    beta: Real = Field(
        default=4.0,
        ge=0,
        le=1000,
        description="Weight of the divergence of attacked from clean predictions: 4 in the official codes, 40 in Raina "
        "et al.",
    )
    neighbours: int = Field(default=8, ge=1, le=64, description="Synonyms of a word, at most.")
    gradients: Treatment = Field(
        default="clipped", description="What is done to the gradient over all parameters before the optimiser."
    )

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch: the search's, and two for the weights."""
        return self.steps + 2

    def graphs(self) -> int:
        """Return how many forward passes of an example a step keeps at once: of the clean text and the mixture."""
        return 2

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with the search's clean pass, and the attack on validation examples."""
        trained = super().passes(examples, validation)
        looked = self.epochs * validation
        forward = trained.forward + 2 * looked + self.epochs * examples
        return trained._replace(forward=forward, backward=trained.backward + looked * self.steps)


class DgAugParams(TextTrainingParams):
    """Train on the texts and on what DeepWordBug makes of each against the model as it is (Raina et al., dg-aug)."""

    method: Literal["dg_aug"] = Field(description="This method.")
    unbroken: Literal["add", "drop"] = Field(
        default="add",
        description="Texts whose attack fails: `add` its last candidate all the same, or `drop` it. The paper does not "
        "say.",
    )
    query_budget: int = Field(default=500, ge=2, le=100_000, description="Queries of one attack, at most.")

    def forward_backward(self) -> int:
        """Return passes of one example in one epoch: the set doubles."""
        return 2

    def passes(self, examples: int, validation: int) -> Passes:
        """Return the same with the attacks."""
        return super().passes(examples, validation)._replace(queries=examples * self.query_budget)


class NoiseMixParams(TextTrainingParams):
    """Train on texts with character-level noise of mixed kinds (Eger and Benz 2020, section 4.3)."""

    method: Literal["noise_mix"] = Field(description="This method.")
    mix: Literal["one_to_one", "leave_one_out"] = Field(
        default="leave_one_out",
        description="`one_to_one`: noise of `attacker` alone; `leave_one_out`: of all others. Levels in equal shares.",
    )
    attacker: Attacker = Field(default="visual", description="Whose noise is trained on, or left out.")
    variant: Reading = Field(
        default="code", description="Whose rules: of the released program, or of the paper's text."
    )


def _spec(params: type[TextTrainingParams], worker: str, paper: str) -> MethodSpec:
    (slug,) = params.model_fields["method"].annotation.__args__  # type: ignore[union-attr]
    return MethodSpec(slug, params, f"workers.training.methods.{worker}", TASKS, paper)


PGD_K = _spec(PgdKParams, "embeddings:PgdK", "Raina et al. 2024, The Illusion of Robustness")
FREELB = _spec(FreeLBParams, "embeddings:FreeLB", "Zhu et al. 2020, FreeLB; Raina et al. 2024")
ASCC = _spec(
    AsccParams, "ascc:Ascc", "Dong et al. 2021, Towards Robustness against Natural Language Word Substitutions"
)
DDI_AT = _spec(DDiAtParams, "ddi:DDiAt", "Latorre et al. 2023, Finding Actual Descent Directions; Raina et al. 2024")
DG_AUG = _spec(DgAugParams, "augmenting:DgAug", "Raina et al. 2024, The Illusion of Robustness")
NOISE_MIX = _spec(NoiseMixParams, "augmenting:NoiseMix", "Eger and Benz 2020, From Hero to Zéroe")
