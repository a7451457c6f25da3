"""A search that sees labels alone: what a score hides from a greedy attack, a decision cannot.

It edits words in random order, in any of several ways or all in one, and keeps every edit until the model's decision
flips, then takes edits back that the flip does not need: the initialisation and the walk back of decision-based attacks
(Brendel et al., "Decision-Based Adversarial Attacks", 2018; of texts Maheshwary et al., "Generating Natural Language
Attacks in a Hard Label Black Box Setting", 2021), without the optimisation between. Tries ask after every few edits or
after each, since what flips a text may be one word or most of them.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workers.attacks.text.textattack_environment import prepare
from workers.attacks.text.word_edits import EXCHANGED, LEFT_OUT, LEVEL, PUT_IN, REPLACED, ZEROE, zeroe_attackers

if TYPE_CHECKING:
    from workers.attacks.text.recipes import Recipe

STRIDES = (2, 3, 1)
"""Edits between two questions, in turn from try to try."""

CHARACTERS, WRITTEN = (EXCHANGED, REPLACED, LEFT_OUT, PUT_IN), tuple(range(4, 8))
"""DeepWordBug's edits, and Zéroe's attackers of words, which are as many and as often drawn."""

STYLES = (
    *((kind,) for kind in CHARACTERS),
    (EXCHANGED, LEFT_OUT),
    CHARACTERS,
    WRITTEN,
)
"""Edits of every other try, one of these as it is drawn; of the rest all: whoever knows a search by what it writes, and
nobody else writes, withstands no text that is written in one way."""

ANY = (*CHARACTERS, *WRITTEN)


def decisions(logits: Tensor) -> Tensor:
    """Return what an attacker sees who is told the label and nothing else: 1 for it and 0 for the rest.

    >>> decisions(torch.tensor([[0.1, 0.4, 0.4]])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    # numpy's argmax is the first of several that tie, on every platform: the prediction that is reported.
    labels = torch.from_numpy(logits.numpy().argmax(axis=1))
    return torch.nn.functional.one_hot(labels, logits.shape[1]).to(torch.float64)


def searching_labels(recipe: "Recipe") -> "Recipe":
    """Return a recipe whose constraints are as they were, with DeepWordBug's and Zéroe's edits and this search.

    Args:
        recipe: Left as it is.
    """
    prepare()
    from textattack import Attack

    built = recipe.built
    constraints = [*built.pre_transformation_constraints, *built.constraints]
    return replace(recipe, built=Attack(built.goal_function, constraints, _edits(), _search()()))


@cache
def _search() -> type[Any]:
    from textattack.goal_function_results import GoalFunctionResultStatus
    from textattack.search_methods import SearchMethod

    class LabelOnlySearch(SearchMethod):  # type: ignore[misc]
        """Keep random edits until the decision flips, then take back what it does not need."""

        is_black_box = True

        def perform_search(self, initial_result: Any) -> Any:
            tries, last, is_spent = 0, initial_result, False
            while not is_spent:
                self._wanted = STRIDES[tries % len(STRIDES)]
                self._kinds = random.choice(STYLES) if tries % 2 else ANY  # noqa: S311 - the coroutine's own generator
                tries += 1
                asked = 0
                for result, edits, is_spent in self._try(initial_result.attacked_text):
                    asked += 1
                    last = result
                    if result.goal_status == GoalFunctionResultStatus.SUCCEEDED:
                        return result if is_spent else self._walked_back(result, edits)
                    if is_spent:
                        break
                if not asked:
                    break
            return last

        def _try(self, original: Any) -> Any:
            """Yield what the model says after every few edits, the edits so far, and whether the budget is spent."""
            places = sorted(map(int, self.get_indices_to_order(original)[1]))
            random.shuffle(places)
            current, edits, pending = original, [], 0
            for place in places:
                edited = self._edit(current, original, place)
                if edited is None:
                    continue
                current = edited
                edits.append((place, current.words[place]))
                pending += 1
                if pending == self._wanted:
                    pending = 0
                    results, is_spent = self.get_goal_results([current])
                    if not results:
                        return
                    yield results[0], list(edits), is_spent
            if pending:
                results, is_spent = self.get_goal_results([current])
                if results:
                    yield results[0], list(edits), is_spent

        def _edit(self, current: Any, original: Any, place: int) -> Any:
            candidates = self.get_transformations(
                current, original_text=original, indices_to_modify=[place], kinds=self._kinds
            )
            # A word that falls apart, or vanishes, would move all places after it.
            candidates = [each for each in candidates if each.num_words == original.num_words]
            return random.choice(candidates) if candidates else None  # noqa: S311 - the coroutine's own generator

        def _walked_back(self, result: Any, edits: list[tuple[int, str]]) -> Any:
            """Return the flipped text without the edits it does not need."""
            original = self.goal_function.initial_attacked_text
            for place, _ in reversed(edits):
                current = result.attacked_text
                fewer = current.replace_word_at_index(place, original.words[place])
                if fewer.num_words != original.num_words or fewer.text == original.text:
                    continue
                # Constraints ask a text what made it.
                fewer.attack_attrs["last_transformation"] = current.attack_attrs["last_transformation"]
                fewer.attack_attrs["modified_indices"] = current.attack_attrs["modified_indices"] - {place}
                kept = self.filter_transformations([fewer], current, original)
                if not kept:
                    continue
                results, is_spent = self.get_goal_results(kept)
                if results and results[0].goal_status == GoalFunctionResultStatus.SUCCEEDED:
                    result = results[0]
                if is_spent:
                    break
            return result

    return LabelOnlySearch


def _edits() -> Any:
    from textattack.transformations import (
        CompositeTransformation,
        WordSwap,
        WordSwapNeighboringCharacterSwap,
        WordSwapRandomCharacterDeletion,
        WordSwapRandomCharacterInsertion,
        WordSwapRandomCharacterSubstitution,
    )

    class ZeroeSwap(WordSwap):  # type: ignore[misc]
        """Replace a word by what one of Zéroe's attackers makes of it."""

        def _get_replacement_words(self, word: str) -> list[str]:
            rng = random.Random(random.getrandbits(64))  # noqa: S311 - not for secrets
            attacked = (attack(word, LEVEL, rng) for attack in rng.sample(zeroe_attackers(), len(ZEROE)))
            return [other for other in attacked if other != word][:1]

    class OneEdit(CompositeTransformation):  # type: ignore[misc]
        """Edit a word in one of several ways, drawn anew: a search without scores has no use for the others."""

        def __call__(self, *of: Any, return_indices: bool = False, kinds: Sequence[int] = ANY, **options: Any) -> Any:
            if return_indices:
                return super().__call__(*of, return_indices=True, **options)
            for kind in random.sample(kinds, len(kinds)):
                if found := self.transformations[kind](*of, **options):
                    return found
            return []

    characters = {
        EXCHANGED: WordSwapNeighboringCharacterSwap(),
        REPLACED: WordSwapRandomCharacterSubstitution(),
        LEFT_OUT: WordSwapRandomCharacterDeletion(),
        PUT_IN: WordSwapRandomCharacterInsertion(),
    }
    return OneEdit([*(characters[kind] for kind in sorted(characters)), *(ZeroeSwap() for _ in WRITTEN)])
