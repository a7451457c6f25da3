"""Parameters of ``temperature_attack``: is a text classifier's robustness an illusion."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Real
from seatrial.contracts.costs import OnDemand, Passes
from seatrial.contracts.datasets import PairParts
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.rules import all_different
from seatrial.families.temperature_attack.quiet import amid_questions, first_texts, quiet_questions
from seatrial.families.temperature_attack.records import UNCOUNTED
from seatrial.families.temperature_attack.sent import PROBED, sent_questions, transferred_questions

Recipe = Literal["deepwordbug", "pwws", "textfooler", "bae", "textbugger", "pruthi", "input_reduction", "iga"]
"""TextAttack's attack recipes, by its own short names."""

Arm = Literal["calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix", "transfer"]
"""Ways to look at the model beside as served: what an attacker could do to get its search signal back."""

AS_SERVED = "as_served"

LABEL_ONLY = "label_only"
"""The arm of an attacker who is told labels and no scores: always run, since no score can hide anything from it."""

UNSCORED: frozenset[str] = frozenset({"transfer", LABEL_ONLY})
"""Arms that see no scores of the model under audit."""

FITTED: frozenset[str] = frozenset({"calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix"})
"""Arms that are fitted on validation examples."""

QUERIES_PER_WORD: dict[str, float] = {
    "deepwordbug": 3.0,
    "pwws": 10.0,
    "textfooler": 10.0,
    "bae": 10.0,
    "textbugger": 8.0,
    "pruthi": 30.0,
    "input_reduction": 3.0,
    "iga": 100.0,
}
"""Queries an attack that finds nothing makes per word of a text, for estimates before anything is spent. Measured on
film reviews of 21 words, with and without saturation; an attack that succeeds makes fewer."""

FURTHER_ARM = 0.2
"""Forward passes of a further arm relative to the first: the rest is answered from the cache of logits (measured: 0.05
without, 0.18 with saturation)."""

FURTHER_EVALUATION = 0.05
"""The same for a further temperature of the adversarial temperature search (measured: 0.03)."""

ASSUMED_WORDS = 25.0

ROUND = 4
"""Temperatures of each round of the search but the first."""

PROBE_STEPS, DRAWN_TEXTS = 10, 6
"""One-letter edits of each of them, at most; and texts with as many, each drawn by itself."""

CROSSING_STEPS = 16
"""Those of a second path of each, at most, that is to end on another decision."""

UNASKED = 40
"""Further texts of the data, at most, that are attacked and never asked as they are."""

ANEW = 16
"""Questions about texts pieced together and their edits, for each of those texts."""

DOSES = ((0.15, 3), (0.3, 6))
"""Share of a probed text's words that are edited at random, and how many at least."""

WRITTEN_KINDS = 5
"""Kinds of such edits."""

FEWEST_SURVIVORS = 20
"""Of the first of two phases, that the second needs at least."""

MEANING_FREE_EDITS, LARGE_STEPS = 40, 16
"""Questions about a text that withstood the search by labels, at most: with edits that leave alone what it says, and
with many words misspelt at once."""

WAYS = 45
"""To write words otherwise that a reader reads past."""

MARKS = 2 * WAYS + 45
"""Further questions, at most, with words of its written otherwise: all and those an attack changed in each way, and as
ways and words are drawn."""

DRAWN_WAYS, TEXTS_A_WAY = 1040, 4
"""Ways to write words that are drawn from a grammar, and texts that withstood all attacks which each is asked of."""

CONFIRMED_WAYS = 12
"""Of them, at most, that are asked of all the other texts."""

SIGN_WAYS = 153
"""Of the ways that are drawn, those that put signs to the words which a decision hangs on."""

MARK_CONTROLS = 3
"""Texts with typing errors in the words that a mark touched which have to keep the decision, each drawn anew."""

FEWEST_WITHSTANDING = 10
"""Texts that have to withstand all attacks for that."""

WAY_CONTROLS = 80
"""Questions about each of them, at most, that look for words which may be unreadable (46 of 64 words, and 57 of 200),
rank 24 of these, and leave out some of them in three ways, and make those unreadable."""


class TemperatureAttackParams(FamilyParams):
    """Attack a text classifier as served and at other temperatures, and report the illusion between (Raina et al.)."""

    kind: Literal["temperature_attack"] = Field(description="Which family: this one.")
    recipes: list[Recipe] = Field(
        default=["deepwordbug"],
        min_length=1,
        max_length=8,
        description="TextAttack recipes. deepwordbug, pruthi and input_reduction need nothing; pwws needs WordNet, "
        "iga word vectors; textfooler, bae and textbugger need more: `seatrial resources` says what is there.",
    )
    survivors: int | None = Field(
        default=None,
        ge=FEWEST_SURVIVORS,
        le=10**6,
        description="Two phases: the first recipe attacks every text, and each other recipe only what the recipes "
        "before it left standing, among the first texts of the random sample that hold so many survivors of the first "
        "recipe as served. Give the cheap recipe first. `adversarial_accuracy[arm=]` is then the product of two "
        "shares with an interval that takes in both (MOVER, Donner and Zou 2012), `illusion_gap` is of the texts that "
        "met all recipes, and recipes after the first have no accuracy of their own. Null: every recipe attacks every "
        "text.",
    )
    arms: list[Arm] = Field(
        default=["calibrated", "optimized"],
        max_length=6,
        description="What `as_served`, which is always there, is compared with. `calibrated`: temperature by exact "
        "maximum likelihood on validation examples; `calibrated_paper`: by the paper's LBFGS; `optimized`: the "
        "temperature at which DeepWordBug does most harm to validation examples; `platt_vector`, `platt_matrix`: Platt "
        "scaling; `transfer`: texts found on source_model.",
    )
    design_temperature: Real = Field(
        default=1.0,
        ge=1e-9,
        le=1e9,
        description="The model is audited as if it were served with logits divided by this: below 1 over-confident, "
        "above 1 under-confident. The paper's demonstrations correspond to about 0.01 and 1e6.",
    )
    validation_samples: int = Field(
        default=200, ge=2, le=100_000, description="Examples temperatures are fitted on, never attacked themselves."
    )
    validation_dataset: str | None = Field(
        default=None,
        pattern=r"^dat_",
        description="Where validation examples come from; by default the audit's dataset, apart from those attacked.",
    )
    source_model: str | None = Field(
        default=None, pattern=r"^mdl_", description="Model the texts of arm `transfer` are found on."
    )
    query_budget: int | None = Field(
        default=None,
        ge=2,
        le=10**7,
        description="Most queries of one attack on one example, the text as it is included; null for no limit.",
    )
    pair_parts: PairParts = Field(
        default="published",
        description="Which parts of a pair are edited. `published`: what each recipe was published with, which is the "
        "hypothesis alone for textfooler and both for the others.",
    )
    edit_share: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Share of a text's characters that deepwordbug, and label_only with it, may edit, instead of the "
        "30 characters of its publication, which are a quarter of a short review and a hundredth of a long one. Null: "
        "as published.",
    )
    time_budget_s: Real | None = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="Most CPU seconds one attack on one example may compute beside the model, which long texts reach; "
        "beyond it the example is errored. Null for no limit.",
    )
    label_queries: int = Field(
        default=100,
        ge=2,
        le=100_000,
        description="Most queries of the arm `label_only` on one example with one recipe; it is always run, asks for "
        "labels alone, and keeps within query_budget. 300 find about a tenth more. What withstands it is asked at most "
        "40 times more, with edits that leave alone what it says, and 16 times with many words misspelt at once.",
    )
    temperature_evaluations: int = Field(
        default=20, ge=3, le=200, description="Temperatures tried by arm `optimized`, at most."
    )
    temperature_search: Literal["bounded", "paper_bracket"] = Field(
        default="bounded",
        description="`bounded`: over log10 T in [-10, 6], the best temperature seen kept; `paper_bracket`: the paper's "
        "own code (Brent in T itself), which fails on most models and then says so.",
    )
    precision: Literal["float64", "float32"] = Field(
        default="float64",
        description="What the arms of the paper's own code compute probabilities in: `calibrated_paper` and "
        "`optimized` with its search. The paper ran float32, where probabilities saturate at both ends of the search "
        "and at the temperature its calibration may end at; all other arms compute in float64.",
    )
    bins: int = Field(default=15, ge=1, le=1000, description="Equal-width confidence bins of ECE and MCE.")

    # Rules between fields stand at the later one, so that a refusal points at a field.
    @field_validator("arms", mode="before")
    @classmethod
    def _leaves_out_what_is_always_there(cls, names: Any) -> Any:
        for name in (AS_SERVED, LABEL_ONLY):
            if isinstance(names, list) and name in names:
                raise ValueError(f"{name} is always run: leave it out, arms are what {AS_SERVED} is compared with")
        return names

    _names_differ = field_validator("recipes", "arms")(all_different)

    @field_validator("survivors")
    @classmethod
    def _two_phases_need_two_recipes(cls, survivors: int | None, info: ValidationInfo) -> int | None:
        recipes = info.data.get("recipes")
        if survivors is None or recipes is None:
            return survivors
        if recipes[0] == UNCOUNTED or sum(recipe != UNCOUNTED for recipe in recipes) < 2:
            raise ValueError(
                f"two phases need a recipe that changes predictions first and another one after it; {UNCOUNTED} keeps "
                "them"
            )
        return survivors

    @model_validator(mode="after")
    def _transfer_has_a_source(self) -> Self:
        if ("transfer" in self.arms) != (self.source_model is not None):
            raise ValueError("arm transfer and source_model go together: give both or neither")
        return self

    @property
    def second_phase(self) -> list[Recipe]:
        """Recipes that attack what those before them left; none where every recipe attacks every text."""
        return [] if self.survivors is None else [recipe for recipe in self.recipes[1:] if recipe != UNCOUNTED]

    @property
    def is_fitted(self) -> bool:
        """Whether any arm is fitted on validation examples."""
        return bool(FITTED & set(self.arms))

    def references(self) -> dict[str, str]:
        """Return ids of further models and datasets by the parameter that names them."""
        named = {}
        if self.validation_dataset is not None:
            named["validation_dataset"] = self.validation_dataset
        if self.source_model is not None:
            named["source_model"] = self.source_model
        return named

    def held_out(self) -> int:
        """Return how many examples of the audit's dataset are needed beside those attacked."""
        return self.validation_samples if self.is_fitted and self.validation_dataset is None else 0

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return what the check takes, nearly always an upper bound: attacks stop when they succeed.

        Args:
            samples: Examples attacked.
            sizes: Examples of each further dataset of :meth:`references`, by the same keys.
            mean_words: Mean words of a text; 25 when not known.
        """
        validation = min(self.validation_samples, sizes.get("validation_dataset", self.validation_samples))
        costs = self._stage_costs(samples, validation, mean_words or ASSUMED_WORDS).values()
        forward, queries = (sum(one) for one in zip(*costs, strict=True))
        return Passes(forward=round(forward), backward=0, queries=round(queries))

    @property
    def phase_prices(self) -> tuple[float, float]:
        """What one more text costs in the first of two phases, and one more survivor in the second, in passes."""
        one = self.model_copy(update={"survivors": None})._stage_costs(1, 0, ASSUMED_WORDS)
        later = sum(one[f"attack_{recipe}"][0] for recipe in self.second_phase)
        return one[f"attack_{self.recipes[0]}"][0], later

    def _stage_costs(self, samples: int, validation: int, words: float) -> dict[str, tuple[float, float]]:
        """Return forward passes and queries of each stage, in the order in which they are run."""
        costs: dict[str, tuple[float, float]] = {}
        further = len(self.arms)
        # A path of edits, three of its texts once more, its ends from another session, which one more begins, a path
        # that is to cross, and edits drawn one by one: all of it before everything else and after it.
        # Before it, words are edited at random as well; after it, one of the first path's texts is asked again.
        path = PROBE_STEPS + 7 + CROSSING_STEPS + 1 + DRAWN_TEXTS
        probe = (path + 1 + WRITTEN_KINDS * len(DOSES)) * min(samples, PROBED)
        flipping = len(self.flipping)
        if flipping:
            first = float(sum(first_texts(samples)))
            sent = float(transferred_questions(samples))
            costs |= {"quiet_first": (first, first), "transferred": (sent, sent)}
        costs["probe"] = probe, probe
        if flipping:
            once, later = sent_questions(samples, words)
            costs |= {"sent_once": (once, once), "prepared": (later, later)}
        if self.is_fitted:
            costs["validation"] = validation, validation
            if "optimized" in self.arms:
                attack = self._queries("deepwordbug", words) * validation
                search = (1 + FURTHER_EVALUATION * (self.temperature_evaluations - 1)) * attack
                costs["search"] = search, self.temperature_evaluations * attack
        closing = float((path + 1) * min(samples, PROBED))
        if flipping:
            # Texts beside words of no meaning are attacked as well and texts pieced together, what attacks ended with
            # is asked again, half of it four times, and edited texts before and after unedited ones, of the data and of
            # pieces.
            ends = 2.5 * (2 + further) * flipping
            closing += (2 * (self.most_label_queries + 2) + 7 + ANEW + ends) * min(samples, PROBED)
        for number, recipe in enumerate(self.recipes):
            attacked = samples
            if self.survivors is not None and recipe in self.second_phase:
                attacked = min(samples, self.survivors)
            attack = self._queries(recipe, words) * attacked
            # The texts as they are are scored once.
            forward = queries = 0.0 if number else float(samples)
            queries += (1 + further) * attack
            forward += (1 + FURTHER_ARM * further) * attack
            if "transfer" in self.arms:
                # The source model answers for itself.
                forward += (1 - FURTHER_ARM) * attack
            if recipe != UNCOUNTED:
                asked = self._within_budget(self.most_label_queries + MEANING_FREE_EDITS + MARKS + LARGE_STEPS)
                queries += asked * attacked
                forward += asked * attacked
            costs[f"attack_{recipe}"] = forward, queries
        if flipping and samples >= FEWEST_WITHSTANDING:
            ways = self._ways(samples)
            costs["ways"] = ways, ways
            again = self._within_budget(CONFIRMED_WAYS * (1 + MARK_CONTROLS)) * samples
            costs["ways_confirmed"] = again, again
        if flipping:
            amid = float(amid_questions(samples))
            costs["quiet_amid"] = amid, amid
        costs["closing"] = closing, closing
        if flipping:
            unasked = float(min(samples, UNASKED) * (self.most_label_queries + MEANING_FREE_EDITS + WAYS + 4))
            quiet = float(quiet_questions(samples))
            costs |= {"unasked": (unasked, unasked), "quiet": (quiet, quiet)}
        return costs

    def _ways(self, samples: int) -> float:
        """Return the questions in ways that are drawn, if all texts withstand and turn at any sign."""
        ways = min(DRAWN_WAYS * TEXTS_A_WAY, samples * self._within_budget(DRAWN_WAYS))
        signs = min(SIGN_WAYS * TEXTS_A_WAY, samples * self._within_budget(SIGN_WAYS))
        return ways + MARK_CONTROLS * signs + WAY_CONTROLS * samples

    @property
    def flipping(self) -> list[str]:
        """Recipes that change predictions."""
        return [recipe for recipe in self.recipes if recipe != UNCOUNTED]

    @property
    def most_label_queries(self) -> int:
        """Queries of arm ``label_only`` on one example, at most."""
        return round(self._within_budget(self.label_queries))

    def _queries(self, recipe: str, words: float) -> float:
        return self._within_budget(2 + QUERIES_PER_WORD[recipe] * words)

    def _within_budget(self, most: float) -> float:
        return most if self.query_budget is None else min(most, self.query_budget)


def stage_costs(params: Mapping[str, Any], samples: int) -> dict[str, float]:
    """Return the forward passes of each stage there may be, in the order in which they are run.

    Half of the temperatures are tried in the first round of the search and :data:`ROUND` in each further one, until
    none is left; a search in the paper's own way may take more rounds, to which nothing is left.

    Args:
        params: As stored with the check.
        samples: Examples audited.
    """
    asked = TemperatureAttackParams.model_construct(**params)
    costs: dict[str, float] = {}
    for name, (forward, _) in asked._stage_costs(samples, asked.validation_samples, ASSUMED_WORDS).items():
        if name != "search":
            costs[name] = forward
            if name == "sent_once" and params.get("validation_dataset"):
                # Of those, where the data hold too few texts.
                costs["sent_once_elsewhere"] = OnDemand(forward)
            continue
        most = left = asked.temperature_evaluations
        for number in range(most):
            tried = min(left, ROUND if number else (most + 1) // 2)
            costs[f"search_{number + 1}"] = forward * tried / most
            left -= tried
    return costs
