"""TextAttack's attack recipes, made so that many examples can be attacked at once."""

import copy
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from workers.attacks.text.substitutes import building, substitute
from workers.attacks.text.textattack_environment import prepare, quiet
from workers.resources.library import Found, Library
from workers.resources.requirements import RECIPES as NEEDS
from workers.resources.requirements import Missing, missing, variant

if TYPE_CHECKING:
    from textattack import Attack

ALL_CANDIDATES = 2**30
"""Texts a goal function passes on at once: all it has. How they are batched is the scoring service's business."""

RECIPES: dict[str, tuple[str, str]] = {
    "deepwordbug": ("deepwordbug_gao_2018", "DeepWordBugGao2018"),
    "pwws": ("pwws_ren_2019", "PWWSRen2019"),
    "textfooler": ("textfooler_jin_2019", "TextFoolerJin2019"),
    "bae": ("bae_garg_2019", "BAEGarg2019"),
    "textbugger": ("textbugger_li_2018", "TextBuggerLi2018"),
    "pruthi": ("pruthi_2019", "Pruthi2019"),
    "input_reduction": ("input_reduction_feng_2018", "InputReductionFeng2018"),
    "iga": ("iga_wang_2019", "IGAWang2019"),
}
"""Module below ``textattack.attack_recipes`` and class of each recipe."""


class ResourceMissingError(LookupError):
    """A recipe lacks resources.

    Attributes:
        missing: Each with why and how to get it.
    """

    def __init__(self, name: str, lacks: list[Missing]) -> None:
        self.missing = lacks
        needs = "; ".join(f"{each.resource} ({each.why}): {each.how_to_get_it}" for each in lacks)
        super().__init__(f"{name} lacks {needs}")


class ModelWrapper(Protocol):
    """What an attack asks."""

    def __call__(self, texts: list[Any]) -> Tensor:
        """Return probabilities (texts, classes), taken as they are: no second softmax, whatever a row sums to."""
        ...


@dataclass(frozen=True)
class Recipe:
    """One of TextAttack's recipes with what it needs loaded.

    Attributes:
        name: As in the audit's parameters.
        variant: What stands in for which original resource (``encoder=minilm-l6``); None for the recipe as published.
        built: TextAttack's attack, from which one is made for each example.
    """

    name: str
    variant: str | None
    built: "Attack"

    @property
    def label(self) -> str:
        """The recipe's name in results."""
        return self.name if self.variant is None else f"{self.name} (variant: {self.variant})"

    def attack(self, model_wrapper: ModelWrapper, *, query_budget: int | None = None) -> "Attack":
        """Return an attack for one example in flight.

        Its goal function, search method and caches are its own, so one example's outcome never depends on another's.
        Transformations, encoders, vectors and models are shared: they keep nothing of an example.

        Args:
            model_wrapper: The model under attack.
            query_budget: Most queries, the first one on the clean text included, at least 2; None: as many as it takes.
        """
        built = self.built
        goal_function = copy.copy(built.goal_function)
        goal_function.model = model_wrapper
        goal_function.query_budget = float("inf") if query_budget is None else query_budget
        # Those with a cache clear it at the end of every example, also for their neighbours.
        constraints = [copy.copy(each) if hasattr(each, "clear_cache") else each for each in built.constraints]
        return type(built)(
            goal_function,
            [*built.pre_transformation_constraints, *constraints],
            built.transformation,
            copy.copy(built.search_method),
        )


def load_recipe(name: str, library: Library) -> Recipe:
    """Return a recipe: TextAttack's own, with the parts it would download taken from ``library``.

    Args:
        name: One of ``RECIPES``.
        library: Where resources are.

    Raises:
        KeyError: There is no such recipe.
        ResourceMissingError: The library lacks what the recipe needs.
        ValueError: A resource is there and cannot be used; the message names its file.
    """
    module, recipe = RECIPES[name]
    if lacks := missing(name, library):
        raise ResourceMissingError(name, lacks)
    resources = {need: finding for need in NEEDS[name] if isinstance(finding := library.find(need), Found)}
    prepare()
    with quiet(), building(resources):
        built = getattr(importlib.import_module(f"textattack.attack_recipes.{module}"), recipe).build(_NoModel())
    substitute(built, resources)
    goal_function = built.goal_function
    goal_function.__class__ = _taking_probabilities(type(goal_function))
    # Scores are cached once for all examples, temperatures and recipes, by the scoring service.
    goal_function.use_cache = False
    goal_function._call_model_cache = None
    goal_function.batch_size = ALL_CANDIDATES
    return Recipe(name, variant(name, library), built)


class _NoModel:
    """Stands for the model while a recipe is built: the parts are made before there is one."""

    model = None


def _taking_probabilities(goal_function: type) -> type:
    """Return a goal function that takes the model's rows as the probabilities they are.

    TextAttack's applies a softmax to rows that miss a sum of 1 by 1e-6, which float32 rows of many classes do: a
    second softmax, on those texts only.
    """

    def _process_model_outputs(self: object, inputs: list[Any], scores: Tensor) -> Tensor:
        if scores.ndim != 2 or len(scores) != len(inputs):
            raise ValueError(f"the model answered {tuple(scores.shape)} to {len(inputs)} texts: one row each is needed")
        return scores

    return type(goal_function.__name__, (goal_function,), {"_process_model_outputs": _process_model_outputs})
