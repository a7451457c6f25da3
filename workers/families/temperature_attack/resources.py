"""Which language resources a recipe ran with: recorded with its rows, and doubted where workers differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from seatrial.contracts.estimates import Flag
from workers.attacks.text.recipes import Recipe
from workers.families.contexts import Records
from workers.resources.library import Found, Library
from workers.resources.requirements import RECIPES as NEEDS

RECIPE, RESOURCES = "recipe", "resources"
"""Columns of the recipe's name with what stands in for what, and of its resources' digests; the same in every row."""

ORIGINALS = {
    "encoder": "the Universal Sentence Encoder",
    "tagger": "NLTK's averaged perceptron",
    "vectors": "counter-fitted word vectors",
    "lm": "bert-base-uncased",
    "wordnet": "WordNet 3.0",
}
"""What a recipe was published with, by the name of what stands in for it."""


def with_resources(records: Records, recipe: Recipe, library: Library) -> Records:
    """Return a recipe's table with its name, and with the SHA-256 of each resource where it needs any."""
    records = records.append_column(RECIPE, pa.array([recipe.label] * records.num_rows, pa.string()))
    found = {name: library.find(name) for name in NEEDS[recipe.name]}
    digests = {name: resource.digest for name, resource in found.items() if isinstance(resource, Found)}
    if not digests:
        return records
    written = json.dumps(digests, sort_keys=True)
    return records.append_column(RESOURCES, pa.array([written] * records.num_rows, pa.string()))


def resource_series(tables: Mapping[Any, Records]) -> dict[str, Any]:
    """Return by recipe its name with its variants, and the digests of what it ran with."""
    return {
        "recipes": {recipe: ", ".join(_names(table)) for recipe, table in tables.items()},
        "resources": {recipe: digests[0] for recipe, table in tables.items() if (digests := _digests(table))},
    }


def resource_flags(recipe: str, records: Records) -> list[Flag]:
    """Flag workers that ran a recipe with different resources, and what stands in for an original."""
    variants, digests = _names(records), _digests(records)
    if len(variants) > 1 or len(digests) > 1:
        differing = "; ".join(variants) if len(variants) > 1 else f"other content: {', '.join(_differing(digests))}"
        return [
            Flag(
                code="resources_differ",
                severity="error",
                message=f"Workers ran {recipe} with different resources ({differing}): its numbers mix them. "
                "Give all workers the same SEATRIAL_RESOURCES.",
            )
        ]
    if variants == [recipe] or not variants:
        return []
    return [
        Flag(
            code="recipe_variant",
            severity="info",
            message=f"{', '.join(variants)}: the recipe ran with a substitute for a resource of the original"
            f"{_in_place_of(variants[0])}; compare its numbers with those of the same variant only. "
            "`seatrial resources list` says how to supply the original.",
        )
    ]


def _names(records: Records) -> list[str]:
    return sorted(set(records[RECIPE].to_pylist()))


def _digests(records: Records) -> list[dict[str, str]]:
    if RESOURCES not in records.column_names:
        return []
    return [json.loads(written) for written in sorted(set(records[RESOURCES].to_pylist()))]


def _differing(digests: Sequence[Mapping[str, str]]) -> list[str]:
    return sorted(name for name in digests[0] if len({each.get(name) for each in digests}) > 1)


def _in_place_of(variant: str) -> str:
    """Return which substitute ran for which original.

    >>> _in_place_of("bae (variant: encoder=minilm-l6, lm=bert-l4-h256)")
    ' (minilm-l6 for the Universal Sentence Encoder, bert-l4-h256 for bert-base-uncased)'
    """
    listed = variant.partition("(variant: ")[2].removesuffix(")")
    pairs = [part.partition("=") for part in listed.split(", ") if "=" in part]
    told = ", ".join(f"{stand_in} for {ORIGINALS.get(kind, kind)}" for kind, _, stand_in in pairs)
    return f" ({told})" if told else ""
