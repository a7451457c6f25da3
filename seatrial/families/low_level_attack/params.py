"""Parameters of ``low_level_attack``: what spam and tired thumbs do to a text classifier."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Real
from seatrial.contracts.costs import Passes
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.noise import ATTACKERS, COMBINED, NOT_OF_TOKENS, Attacker, Noise, check_levels, in_a_list
from seatrial.contracts.rules import all_different

WORDS_A_SECOND = 20_000.0
"""Words a core perturbs, compares and records a second at least: 70,000 and more where measured, of `combined` too."""

REDUCING_S = 0.1
"""Seconds of bootstraps and figures for each attacker at each level, per thousand examples; more than of ten labels."""

ASSUMED_WORDS = 25.0


class LowLevelAttackParams(Noise, FamilyParams):
    """Meet a text classifier or tagger with character-level noise at several levels (Eger and Benz, Zéroe)."""

    kind: Literal["low_level_attack"] = Field(description="Which family: this one.")
    attackers: Literal["all"] | list[Attacker] = Field(
        default="all",
        description=f"`all`, or names: {', '.join(ATTACKERS)}. segment is not run on tagged tokens: it would leave no "
        "tag for each.",
        examples=["all", ["visual", "keyboard_typo"]],
    )
    combined: bool = Field(
        default=False,
        description="Whether `combined` is run as well: each word it attacks is met by one of the attackers above, "
        "drawn anew.",
    )
    levels: list[Real] = Field(
        default=[0.2, 0.5, 0.8],
        min_length=1,
        max_length=10,
        description="Shares of the words that are attacked, 0.000001 to 1; the paper's low, mid and high by "
        "default. Attackers are ranked at the highest.",
    )
    draws: int = Field(
        default=1,
        ge=1,
        le=100,
        description="Random draws of each text at each level. Above 1 the worst of them is reported too "
        "(`persistent_score`): what a best-of-k black-box attacker achieves. `score` is "
        "always that of the first.",
    )
    bins: int = Field(default=15, ge=1, le=1000, description="Equal-width confidence bins of ECE.")

    @field_validator("attackers", mode="before")
    @classmethod
    def _attackers_are_listed(cls, attackers: object) -> object:
        return in_a_list(attackers, ATTACKERS)

    @field_validator("attackers", mode="after")
    @classmethod
    def _attackers_differ(
        cls, attackers: Literal["all"] | list[Attacker], info: ValidationInfo
    ) -> Literal["all"] | list[Attacker]:
        if attackers == []:
            raise ValueError("attackers must name one at least, or be `all`")
        return attackers if attackers == "all" else all_different(attackers, info)

    @field_validator("levels")
    @classmethod
    def _levels_are_fractions(cls, levels: list[float]) -> list[float]:
        return check_levels(levels, at_zero="what 0 gives is always told")

    @model_validator(mode="after")
    def _combined_has_several(self) -> Self:
        if self.combined and len(self.names) < 2:
            raise ValueError("combined draws among several attackers: name two at least")
        return self

    @property
    def names(self) -> tuple[Attacker, ...]:
        """The attackers asked for, in the paper's order: in which they were named changes no number."""
        return tuple(name for name in ATTACKERS if self.attackers == "all" or name in self.attackers)

    def runs(self, task: str) -> tuple[str, ...]:
        """Return the attackers run on models of a task, `combined` last."""
        names = tuple(name for name in self.names if task != "token-classification" or name not in NOT_OF_TOKENS)
        return (*names, COMBINED) if self.combined and len(names) > 1 else names

    def references(self) -> dict[str, str]:
        """Return ids of further models and datasets by the parameter that names them: none."""
        return {}

    def held_out(self) -> int:
        """Return how many examples of the audit's dataset are needed beside its sample: none."""
        return 0

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return what the check takes at most; a text that stays as it was costs nothing again.

        Args:
            samples: Examples perturbed.
            sizes: Not used: there are no further datasets.
            mean_words: Mean words of a text; 25 when not known.
        """
        rounds = (len(self.names) + self.combined) * len(self.levels)
        forward = samples * (1 + rounds * self.draws)
        words = samples * rounds * self.draws * (mean_words or ASSUMED_WORDS)
        compute = words / WORDS_A_SECOND + rounds * (1 + samples / 1000) * REDUCING_S
        return Passes(forward=forward, backward=0, queries=forward, compute_s=compute)


def stage_costs(params: Mapping[str, Any], samples: int) -> dict[str, float]:
    """Return the forward passes of each stage: the texts as they are, then every attacker as many as another.

    Args:
        params: As stored with the check.
        samples: Examples audited.

    >>> stage_costs({"attackers": ["visual", "phonetic"], "levels": [0.2, 0.5], "draws": 1}, 10)
    {'clean': 10, 'attack_phonetic': 20, 'attack_visual': 20}
    """
    asked = [name for name in ATTACKERS if params["attackers"] == "all" or name in params["attackers"]]
    stages = ["clean", *(f"attack_{name}" for name in (*asked, *([COMBINED] if params.get("combined") else [])))]
    each = len(params["levels"]) * params["draws"]
    return {name: samples * (each if number else 1) for number, name in enumerate(stages)}
