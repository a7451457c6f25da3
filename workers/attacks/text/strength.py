"""How much an attack had to work with on one text: a recipe that can hardly write anything shows nothing."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from workers.attacks.text.places import seen_rule

MOST_WORDS = 50
"""Words of a text whose candidates are counted, evenly spread: long texts have thousands."""


@dataclass(frozen=True)
class Strength:
    """What an attack could write of a text.

    Attributes:
        words: Words looked at.
        candidates: Texts that the recipe and its constraints allow, one word changed.
        without: Words that no candidate changes.
        is_limited: Whether the attack failed where its limit of edits kept it from words it could have changed.
    """

    words: int
    candidates: int
    without: int
    is_limited: bool


def measure_strength(attack: Any, original: Any, final: Any, *, has_failed: bool) -> Strength:
    """Return what a finished attack had to work with. Asks the model nothing.

    Args:
        attack: A ``textattack.Attack``, after its run: what it draws here can change nothing.
        original: The text it began with, with a word at least.
        final: The text it ended with.
        has_failed: Whether it found nothing.
    """
    open_places = list(range(original.num_words))
    for rule in attack.pre_transformation_constraints:
        # A stop word may not be edited by the recipe; what the model does not see is none of its words.
        if isinstance(rule, seen_rule()):
            open_places = sorted(rule(original, attack.transformation))
    step = max(1, -(-len(open_places) // MOST_WORDS))
    places = open_places[::step]
    written = attack.get_transformations(original, original_text=original, indices_to_modify=places)
    changed = Counter(place for text in written for place in text.attack_attrs["newly_modified_indices"])
    left = [place for place in places if place in changed and place not in final.attack_attrs["modified_indices"]]
    limits = {"LevenshteinEditDistance", "MaxWordsPerturbed"}
    has_limit = any(type(each).__name__ in limits for each in attack.constraints)
    is_limited = bool(
        has_failed
        and has_limit
        and left
        and not attack.get_transformations(final, original_text=original, indices_to_modify=left)
    )
    return Strength(len(places), len(written), sum(place not in changed for place in places), is_limited)
