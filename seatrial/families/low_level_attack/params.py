"""Parameters and metrics of ``low_level_attack``: what spam and tired thumbs do to a text classifier."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Real, Request
from seatrial.contracts.estimates import Metric
from seatrial.families.shared.costs import Passes, StageShares
from seatrial.families.shared.rules import all_different

Attacker = Literal[
    "inner_shuffle",
    "full_shuffle",
    "intrude",
    "disemvowel",
    "truncate",
    "segment",
    "keyboard_typo",
    "natural_typo",
    "phonetic",
    "visual",
]
"""The attackers of the Zéroe catalogue (Eger and Benz 2020, section 3.1)."""

ATTACKERS: tuple[Attacker, ...] = get_args(Attacker)

COMBINED = "combined"
"""One more attacker: each word it attacks is met by one of the others, drawn anew."""

NOT_OF_TOKENS: frozenset[Attacker] = frozenset({"segment"})
"""Attackers that leave no tag per token: not run on sentences that are tagged token by token (section 3.2)."""

Reading = Literal["code", "paper"]

WORDS_A_SECOND = 20_000.0
"""Words a core perturbs, compares and records a second at least: 70,000 and more where measured, of `combined` too."""

REDUCING_S = 0.1
"""Seconds of bootstraps and figures for each attacker at each level, per thousand examples; more than of ten labels."""

ASSUMED_WORDS = 25.0

LEAST_LEVEL = 1e-6
"""Least share of words: a thousandth of a word in a text of a thousand."""


class Noise(Request):
    """How noise is made, whichever attackers make it."""

    variant: Reading = Field(
        default="code",
        description="Whose rules: `code`, those of the released program, which made the published numbers; `paper`, "
        "those of the text. docs/families.md has both, attacker by attacker.",
    )
    selection: Reading | None = Field(
        default=None,
        description="Which words of a text are attacked. `code`: words drawn without replacement until a share of "
        "`level` has changed; `paper`: the same with a coin for each, so fewer. By default that of `variant`. segment, "
        "and visual of `code` without a phi, select no words.",
    )
    phi: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="How hard an attacked word is hit, apart from how many words are: the probability of a symbol in "
        "each gap (intrude), of another glyph for each character (visual), of a further merge (segment), of a typo at "
        "each key (keyboard_typo of `paper`). Null: the level.",
    )
    typos: Literal["codespell", "nlpaug"] = Field(
        default="codespell",
        description="Where natural_typo finds misspellings: `codespell`, shipped; `nlpaug`, the table the paper's "
        "program has, after `seatrial resources install typos-nlpaug`.",
    )
    glyphs: Literal["dejavu", "dejavu_bmp", "confusables"] = Field(
        default="dejavu",
        description="Where visual finds look-alikes: `dejavu`, 20 nearest among Latin, Greek, Cyrillic and Armenian "
        "letters as DejaVu Sans draws them; `dejavu_bmp`, among 5,036 characters; `confusables`, Unicode's list, after "
        "`seatrial resources install confusables`.",
    )

    @property
    def selects(self) -> Reading:
        """How words are selected."""
        return self.selection or self.variant

    def lacks_nothing_for(self, attacker: str) -> bool:
        """Tell whether an attacker runs on what is shipped."""
        shipped = {"natural_typo": self.typos == "codespell", "visual": self.glyphs != "confusables"}
        return all(shipped.values()) if attacker == COMBINED else shipped.get(attacker, True)


def shares(levels: list[float], *, at_zero: str) -> list[float]:
    """Return levels in rising order, each as names of metrics hold it: 0.1 + 0.2 is the level 0.3.

    Args:
        levels: As asked for.
        at_zero: What to tell who asks for level 0.

    Raises:
        ValueError: One is no share of words, or stands twice.
    """
    for level in levels:
        if not LEAST_LEVEL <= level <= 1:
            hint = f": {at_zero}" if level == 0 else ""
            raise ValueError(f"levels must be at least {LEAST_LEVEL:f} and at most 1, got {level:.9g}{hint}")
    # Names of metrics, and seeds, hold six digits of a level: two that share them would be one level with two noises.
    rounded = sorted(float(f"{level:g}") for level in levels)
    if len(set(rounded)) != len(rounded):
        raise ValueError("levels must differ from each other in their first six digits")
    return rounded


def in_a_list(attackers: object) -> object:
    """Return what is asked for as ``attackers``, unless it is a name where a list of names is needed.

    Raises:
        ValueError: It is; the message has the list.
    """
    if isinstance(attackers, str) and attackers != "all":
        raise ValueError(f"attackers must be `all` or a list of names: write {json.dumps([attackers])}")
    return attackers


class LowLevelAttackParams(Noise):
    """Meet a text classifier or tagger with character-level noise at several levels (Eger and Benz, Zéroe)."""

    kind: Literal["low_level_attack"] = Field(description="This family.")
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
        description="Random draws of each text at each level. Above 1 the worst of them is told too "
        "(`persistent_score`): what somebody achieves who tries so often and knows nothing of the model. `score` is "
        "always that of the first.",
    )
    bins: int = Field(default=15, ge=1, le=1000, description="Equal-width confidence bins of ECE.")

    @field_validator("attackers", mode="before")
    @classmethod
    def _attackers_are_listed(cls, attackers: object) -> object:
        return in_a_list(attackers)

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
    def _levels_are_shares(cls, levels: list[float]) -> list[float]:
        return shares(levels, at_zero="what 0 gives is always told")

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


def stage_shares(params: Mapping[str, Any], stage: str) -> StageShares | None:
    """Return where a stage stands: the texts as they are come first, then every attacker takes as long as another.

    Args:
        params: As stored with the check.
        stage: Its name, ``clean`` or ``attack_<attacker>``; of any other nothing is known.

    >>> stage_shares({"attackers": ["visual", "phonetic"], "levels": [0.2, 0.5], "draws": 1}, "attack_phonetic")
    StageShares(before=1, here=2, after=2)
    """
    asked = [name for name in ATTACKERS if params["attackers"] == "all" or name in params["attackers"]]
    stages = ["clean", *(f"attack_{name}" for name in (*asked, *([COMBINED] if params.get("combined") else [])))]
    if stage not in stages:
        return None
    each, number = len(params["levels"]) * params["draws"], stages.index(stage)
    following = (len(stages) - 1 - number) * each
    return StageShares(1 + (number - 1) * each, each, following) if number else StageShares(0, 1, following)


_SCORE = "accuracy of texts and pairs, token accuracy of tagged sentences, macro AUROC of multi-label texts"
_CONFIDENCE = (
    "largest probability of a class or tag; of multi-label texts, each label's probability of what is decided at 0.5"
)

METRICS = [
    Metric(
        name="score",
        qualifiers=["level"],
        unit="1",
        better="higher",
        description=f"Score at level 0, of the texts as they are: {_SCORE}.",
    ),
    Metric(
        name="score",
        qualifiers=["attacker", "level"],
        unit="1",
        better="higher",
        description=f"Score on the texts one attacker has perturbed once: {_SCORE}.",
    ),
    Metric(
        name="relative_score",
        qualifiers=["attacker", "level"],
        unit="1",
        better="higher",
        description="Score under the attacker over the score without, s*(p) of section 5.",
    ),
    Metric(
        name="mean_relative_score",
        qualifiers=["level"],
        unit="1",
        better="higher",
        description="Mean of relative_score over the attackers asked for.",
    ),
    Metric(
        name="score_drop",
        qualifiers=["attacker", "level"],
        unit="1",
        better="lower",
        description="Score without noise less the score under the attacker, on the same examples.",
    ),
    Metric(
        name="worst_case_score",
        qualifiers=["level"],
        unit="1",
        better="higher",
        description="Score when each example is met by whichever attacker, and whichever of its draws, does it most "
        "harm: the number to gate on. Of multi-label texts harm is told by each text's own labels, so macro AUROC "
        "need not be the least there could be.",
    ),
    Metric(
        name="persistent_score",
        qualifiers=["attacker", "level"],
        unit="1",
        better="higher",
        description="Score when each example is met by the worst of `draws` draws of the attacker; with one draw it "
        "is left out.",
    ),
    Metric(
        name="rank",
        qualifiers=["attacker"],
        unit="1",
        better="neither",
        description="Place in harmfulness at the highest level, 1 the most harmful, ties sharing the mean of their "
        "places; the interval is of the ranks over resampled examples. Null for an attacker under which less than "
        "half of the examples were answered.",
    ),
    Metric(
        name="flip_rate",
        qualifiers=["attacker", "level"],
        unit="1",
        better="lower",
        description="Share of what was decided that is decided otherwise under noise, right or wrong: classes of "
        "texts, tags of tokens, labels of multi-label texts.",
    ),
    Metric(
        name="characters_changed",
        qualifiers=["attacker", "level"],
        unit="1",
        better="neither",
        description="Mean Levenshtein distance between a text and what became of it, per character of the text; a "
        "tagged sentence is its tokens with a space between.",
    ),
    Metric(
        name="tokens_changed",
        qualifiers=["attacker", "level"],
        unit="1",
        better="neither",
        description="Mean share of a text's tokens that changed.",
    ),
    Metric(
        name="edit_correlation",
        unit="1",
        better="neither",
        description="Pearson correlation of characters_changed and relative_score over attackers and levels (Figure "
        "5): near -1 where harm goes by how much is changed.",
    ),
    Metric(
        name="ece",
        qualifiers=["level"],
        unit="1",
        better="lower",
        description="Expected calibration error at level 0, mean-confidence form.",
    ),
    Metric(
        name="ece",
        qualifiers=["attacker", "level"],
        unit="1",
        better="lower",
        description="Expected calibration error under noise, mean-confidence form: whether confidence falls with the "
        "score.",
    ),
    Metric(
        name="mean_confidence",
        qualifiers=["level"],
        unit="1",
        better="neither",
        description=f"Mean confidence at level 0: {_CONFIDENCE}.",
    ),
    Metric(
        name="mean_confidence",
        qualifiers=["attacker", "level"],
        unit="1",
        better="neither",
        description=f"Mean confidence under noise: {_CONFIDENCE}.",
    ),
]
