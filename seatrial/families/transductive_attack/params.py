"""Parameters of ``transductive_attack``: does a test-time defence hold."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.plugins import Plugin
from seatrial.contracts.rules import all_different
from seatrial.families.shared import defence_params
from seatrial.families.shared.defence_costs import (
    RUNS,
    ignores_points,
    is_module,
    passes_to_adapt,
    passes_to_begin,
    passes_to_reject,
)
from seatrial.families.shared.defence_params import DefenceParams
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from seatrial.families.shared.rules import fits_its_norm

AttackName = Literal[
    "transfer_autoattack",
    "transfer_pgd",
    "transfer_confidence",
    "transfer_cw",
    "defence_autoattack",
    "fpa",
    "gmsa_avg",
    "gmsa_min",
]
CorruptionName = Literal["brightness"]

TRANSFERS: tuple[AttackName, ...] = ("transfer_autoattack", "transfer_pgd", "transfer_confidence")
"""Made on the static model, whatever the defence, within the radius."""
UNBOUNDED: tuple[AttackName, ...] = ("transfer_cw",)
"""They look for the smallest perturbation, whatever the radius: no part of any comparison within it."""
CORRUPTIONS: tuple[CorruptionName, ...] = ("brightness",)
"""Nobody's attacks: what they change, a model has to answer."""
MODEL_SPACE: tuple[AttackName, ...] = ("fpa", "gmsa_avg", "gmsa_min")
"""They simulate the defence."""
ADAPTIVE: tuple[AttackName, ...] = (*MODEL_SPACE, "defence_autoattack")
"""They know the defence; the lowest of them says what it is worth."""

SHIPPED = tuple(defence_params.SHIPPED)
"""Defences that come with the service; operators register more by entry point."""

NEEDS_TRAINING = ("rmc", "dann", "tadv", "urejectron")
"""Shipped defences that learn from labelled examples."""

WHOLE_SAMPLE = ("dann", "tadv", "urejectron")
"""Shipped defences that adapt to the whole sample at once and train a network for it."""

STATIC = "static"
"""The first stage: attacks on the model without a defence."""

CLEAN: Literal["clean"] = "clean"
"""A game without an attack."""

ASSUMED_TRAINING = 1000
"""Examples of a training dataset whose size is not at hand: what is told of progress needs no better."""

LEAST = 1e-6
"""Least radius: pixels are float32, and what is much smaller does not change them."""


class TransductiveAttackParams(FamilyParams):
    """Attack defences that adapt at test time, by what is made without and with knowledge of them (Chen et al.)."""

    kind: Literal["transductive_attack"] = Field(description="Which family: this one.")
    defences: list[DefenceParams] = Field(min_length=1, max_length=8, description="Defences of the audited model.")
    attacks: list[AttackName] = Field(
        default=["transfer_autoattack", "transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"],
        min_length=1,
        max_length=8,
        description="`transfer_`: made on the static model (`confidence`: the 14 runs of PGD that DENT's authors are "
        "answered with; `cw`: Carlini and Wagner's least l_2 perturbation, whatever the radius); `defence_autoattack`: "
        "on the defence where it can be differentiated; `fpa`, `gmsa_avg`, `gmsa_min`: simulating it.",
    )
    corruptions: list[CorruptionName] = Field(
        default=[],
        max_length=1,
        description="Harmless changes that are nobody's attack: `brightness`, as in Hendrycks and Dietterich. A "
        "defence that refuses these refuses what it should answer.",
    )
    norm: Literal["linf", "l2"] = Field(default="linf", description="Norm of the perturbation, on pixels in [0, 1].")
    epsilon: Real = Field(default=8 / 255, ge=LEAST, le=1e6, description="Radius of the perturbation in that norm.")
    step_size: Real = Field(default=1 / 255, ge=LEAST / 16, le=2.5e6, description="Length of a step of PGD.")
    steps: int = Field(default=40, ge=1, le=10_000, description="Steps of PGD against one model.")
    iterations: int = Field(
        default=9, ge=0, le=100, description="T of the paper: an attack simulates the defence T + 1 times."
    )
    initial_model: Literal["official", "induced"] = Field(
        default="official",
        description="The model, F^(0), with which attacks that simulate a one-round defence begin. `official`: as in "
        "the authors' code, the static model for `dann` and `urejectron`, and for others the model that the "
        "unperturbed points induce; `induced`: the latter for all.",
    )
    order: Literal["natural", "adversarial"] = Field(
        default="natural", description="`adversarial`: examples come sorted by label within windows of two batches."
    )
    state: Literal["private", "leaking"] = Field(
        default="private",
        description="`leaking`: before each round the attacker sees the state a defender with memory is in.",
    )
    repeats: int = Field(
        default=1,
        ge=1,
        le=20,
        description="How often each game is played, each time with other private randomness of the defender.",
    )
    autoattack_queries: int = Field(
        default=5000, ge=0, le=100_000, description="Queries of AutoAttack's Square attack; 0 leaves it out."
    )
    cw_steps: int = Field(default=100, ge=1, le=10_000, description="Steps of `transfer_cw`.")
    cw_learning_rate: Real = Field(
        default=0.01, ge=1e-6, le=100, description="Learning rate of Adam in `transfer_cw`, in the space of arctanh."
    )
    brightness: Real = Field(
        default=0.05,
        ge=0,
        le=1,
        description="What `brightness` adds to the value (HSV) of each pixel; 0.05 is severity 1.",
    )
    round_timeout_s: Real = Field(
        default=3600.0, ge=1, le=86_400, description="Seconds an iteration or a round may take; beyond, a game fails."
    )
    training_dataset: str | None = Field(
        default=None,
        pattern=r"^dat_",
        validate_default=True,
        description="Labelled examples defences may learn from, of the model's shape; not the audited ones.",
    )

    def plugins(self) -> dict[str, Plugin]:
        """Return the defences that operators register."""
        named = {f"/defences/{at}/name": one.name for at, one in enumerate(self.defences) if one.name not in SHIPPED}
        return {pointer: Plugin(defence_params.GROUP, name, SHIPPED) for pointer, name in named.items()}

    _epsilon_fits_its_norm = field_validator("epsilon")(fits_its_norm)
    _attacks_differ = field_validator("attacks")(all_different)
    _corruptions_differ = field_validator("corruptions")(all_different)

    @field_validator("defences")
    @classmethod
    def _defences_differ(cls, defences: list[DefenceParams]) -> list[DefenceParams]:
        names = [defence.name for defence in defences]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} stands twice: submit one check for each way to set it")
        return defences

    @field_validator("training_dataset")
    @classmethod
    def _training_is_there(cls, training_dataset: str | None, info: ValidationInfo) -> str | None:
        wanting = [one.name for one in info.data.get("defences", []) if one.name in NEEDS_TRAINING]
        if training_dataset is None and wanting:
            # By this kind a refusal points at the field that is not there.
            told = "needed to learn from by {names}: name a training_dataset"
            raise PydanticCustomError("missing", told, {"names": ", ".join(wanting)})
        return training_dataset

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return how many single-example passes the check takes at most, those of training defences among them.

        Args:
            samples: Examples audited.
            sizes: Examples of the training dataset, by the parameter that names it.
            mean_words: Of no meaning here.
        """
        stages = self.stage_passes(samples, sizes.get("training_dataset", 0)).values()
        passes = sum(one.forward for one in stages), sum(one.backward for one in stages)
        return Passes(*passes, together=None)

    def stage_passes(self, samples: int, training: int) -> dict[str, Passes]:
        """Return what each stage takes at most, in the order in which they are run.

        Args:
            samples: Examples audited.
            training: Of the training dataset.
        """
        ball = {"norm": self.norm, "epsilon": self.epsilon}
        auto = RobustAccuracyParams.model_validate({**ball, "queries": self.autoattack_queries}).passes(samples)
        # Each attack's images are answered once more, and brightening them takes none.
        forward, backward = (3 + len(self.attacks)) * samples, 0
        if "transfer_autoattack" in self.attacks:
            forward, backward = forward + auto.forward, backward + auto.backward
        backward += samples * sum(self._steps_on_static(attack) for attack in self.attacks)
        costs = {STATIC: Passes(forward, backward)}
        for defence in self.defences:
            for repeat in range(self.repeats):
                for attack in (CLEAN, *self.corruptions, *self.attacks):
                    costs[game_of(defence.name, attack, repeat)] = self._passes_of_game(
                        defence, attack, samples, training, auto, is_first=attack == CLEAN and not repeat
                    )
        return costs

    def _passes_of_game(
        self, defence: DefenceParams, attack: str, samples: int, training: int, auto: Passes, *, is_first: bool
    ) -> Passes:
        settings = (defence.name, defence.preset, defence.settings)
        adapting = passes_to_adapt(*settings, samples, training)
        # Answers to the perturbed points and, of a defence that refuses, to the clean ones.
        forward, backward = 3 * samples, self._adaptations(defence.name, attack) * adapting
        if is_first:
            # A worker does that once, whatever it plays.
            backward += passes_to_begin(*settings, training)
        if attack in MODEL_SPACE:
            runs, rejecting = RUNS.get(defence.name, 1), passes_to_reject(*settings)
            backward += runs * self._passes_of_attack(attack, samples) * (1 + rejecting)
            # Where a run begins and ends, on each model, and for the least of them a look at all.
            looks = 2 + (self.steps if attack == "gmsa_min" else 0)
            models = sum(range(1, self.iterations + 2))
            forward += runs * samples * looks * models * (1 + rejecting)
            # Each induced model beside the first.
            forward += 2 * samples * (self.iterations + 2)
        elif attack == "defence_autoattack" and is_module(defence.name, defence.settings):
            # It adapts anew at every pass.
            forward += auto.forward
            backward += auto.backward + (auto.forward + auto.backward) * adapting // samples
        return Passes(forward, backward)

    def _adaptations(self, defence: str, attack: str) -> int:
        """Return how often a defence adapts in a game, without AutoAttack's on itself."""
        if ignores_points(defence):
            # The defender's network is the same in every game, and so are those of the simulations.
            simulated = next((one for one in self.attacks if one in MODEL_SPACE), None)
            return int(attack == CLEAN) + (self.iterations + 2) * (attack == simulated)
        # Simulated: to clean points, T + 1 times to attacked ones, to those chosen, and the defender's own.
        return self.iterations + 4 if attack in MODEL_SPACE else 1

    def _steps_on_static(self, attack: AttackName) -> int:
        """Return the steps of an attack on the static model that are not AutoAttack's."""
        own = {"transfer_pgd": self.steps, "transfer_confidence": RUNS["dent"] * (self.steps + 2)}
        return (own | {"transfer_cw": self.cw_steps}).get(attack, 0)

    def _passes_of_attack(self, attack: str, samples: int) -> int:
        """Return the passes of the iterations of one attack in model space, each one run."""
        # Iteration i is on i + 1 models; the minimum takes i + 1 times the steps on top.
        models = range(1, self.iterations + 2)
        counts = {"fpa": len(models), "gmsa_avg": sum(models), "gmsa_min": sum(count * count for count in models)}
        return samples * self.steps * counts[attack]

    def references(self) -> dict[str, str]:
        """Return the id of the training dataset by the parameter that names it."""
        return {} if self.training_dataset is None else {"training_dataset": self.training_dataset}

    def held_out(self) -> int:
        """Return 0: nothing of the audited dataset is set apart."""
        return 0


def game_of(defence: str, attack: str, repeat: int) -> str:
    """Return the name of the stage in which a defence answers an attack, a corruption, or ``clean``, which is neither.

    >>> game_of("dent", "gmsa_min", 0)
    'dent.gmsa_min.0'
    """
    return f"{defence}.{attack}.{repeat}"


def stage_costs(params: Mapping[str, Any], samples: int) -> dict[str, float]:
    """Return the forward passes of each stage there may be, in the order in which they are run.

    Args:
        params: As stored with the check.
        samples: Examples audited.
    """
    asked = TransductiveAttackParams.model_validate(params)
    costs = asked.stage_passes(samples, ASSUMED_TRAINING)
    return {name: passes.in_forward for name, passes in costs.items()}
