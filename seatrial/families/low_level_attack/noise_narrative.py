"""What a result of low_level_attack holds: scores by attacker and level, the worst of them, who does most harm."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Result, metric_name, split_name
from seatrial.contracts.noise import COMBINED
from seatrial.reporting.numbers import format_percentage, format_percentage_estimate
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import words

AUROC = "macro AUROC"
"""A score that guessing gives 0.5 of, and that is no share of anything."""


def estimate_of(result: Result, name: str, **qualifiers: str | float) -> Estimate | None:
    """Return a published number; None where there is none or it is undefined."""
    estimate = result.estimates.get(metric_name(name, **qualifiers))
    return None if estimate is None or estimate.value is None else estimate


def value_of(result: Result, name: str, **qualifiers: str | float) -> float | None:
    """Return the value of a published number; None where there is none."""
    estimate = estimate_of(result, name, **qualifiers)
    return None if estimate is None else estimate.value


def levels_of(result: Result) -> list[float]:
    """Return the levels of noise, ascending, without 0."""
    told = {split_name(name)[1].get("level") for name in result.estimates if name.startswith("worst_case_score[")}
    return sorted(float(level) for level in told if level is not None)


def attackers_of(result: Result) -> list[str]:
    """Return the attackers that were run, the most harmful first."""
    ranks = {
        split_name(name)[1]["attacker"]: estimate.value
        for name, estimate in result.estimates.items()
        if name.startswith("rank[") and estimate.value is not None
    }
    return sorted(ranks, key=lambda attacker: ranks[attacker] or 0.0)


def first_of(result: Result) -> list[str]:
    """Return the attacker that does most harm in the sample, and all whose ranks' intervals overlap with that one's.

    Ranks without intervals overlap where they tie.
    """
    ends: dict[str, tuple[float, float]] = {}
    for attacker in attackers_of(result):
        rank = estimate_of(result, "rank", attacker=attacker)
        if rank is not None and rank.value is not None:
            low, high = (rank.value if end is None else end for end in (rank.low, rank.high))
            ends[attacker] = low, high
    reach = next((high for _, high in ends.values()), 0.0)
    return [attacker for attacker, (low, _) in ends.items() if low <= reach]


def score_name(result: Result) -> str:
    """Return what the score is: accuracy, token accuracy or macro AUROC."""
    return str(result.series.get("score", "accuracy"))


def things(result: Result) -> str:
    """Return what examples are."""
    of_task = {"token-classification": "sentences", "text-pair-classification": "pairs"}
    return of_task.get(str(result.series.get("task")), "texts")


def chance_of(result: Result) -> float:
    """Return the score of guessing; 0 where it is not known."""
    return float(result.series.get("chance") or 0.0)


def kept(score: float, clean: float, result: Result) -> float:
    """Return which share of a score is left; of macro AUROC of what it has above guessing.

    The accuracy under the worst of many attackers is not measured from guessing: who guesses anew for each of them is
    hardly ever right on all.
    """
    floor = 0.5 if score_name(result) == AUROC else 0.0
    return (score - floor) / (clean - floor) if clean > floor else 0.0


def scored(value: float | None, result: Result) -> str:
    """Return a score as people read it: a share in per cent, an area with three decimals."""
    if score_name(result) != AUROC or value is None:
        return format_percentage(value)
    return f"{value:.3f}"


def with_interval(estimate: Estimate, result: Result, of: str = "") -> str:
    """Return a score with what is behind it and its interval."""
    if score_name(result) != AUROC:
        return format_percentage_estimate(estimate, of)
    if estimate.low is None or estimate.high is None:
        return scored(estimate.value, result) + of
    low, high = (scored(min(max(end, 0.0), 1.0), result) for end in (estimate.low, estimate.high))
    return f"{scored(estimate.value, result)}{of} (95% interval {low} to {high})"


def worst_fractions(result: Result, level: float) -> Iterator[tuple[str, float]]:
    """Yield attackers and the share of examples they did most harm to at a level, the largest first."""
    rows = result.series.get("worst_attackers") or []
    found = {str(row["attacker"]): int(row["examples"]) for row in rows if float(row["level"]) == level}
    total = sum(found.values())
    for attacker, examples in sorted(found.items(), key=lambda pair: -pair[1]):
        if examples:
            yield attacker, examples / total


def in_full(attacker: str) -> str:
    """Return an attacker's name and what it does."""
    return value_words("attacker", attacker)


_SOURCES: dict[str, dict[str, str]] = {
    "typos": {
        "codespell": "natural typos come from codespell's list of misspellings, in place of the paper's list",
        "nlpaug": "natural typos come from nlpaug's table, which is that of the paper's program",
    },
    "glyphs": {
        "dejavu": "look-alikes are the letters DejaVu Sans draws most alike, in place of the paper's learned pictures",
        "dejavu_bmp": "look-alikes are the characters DejaVu Sans draws most alike, out of 5,036, in place of the "
        "paper's learned pictures",
        "confusables": "look-alikes are Unicode's list of confusables, in place of the paper's learned pictures",
    },
}
_NEEDS = {"typos": "natural_typo", "glyphs": "visual"}


def how_made(params: Mapping[str, Any], attackers: list[str], asked: list[str]) -> Iterator[str]:
    """Yield whose rules the noise follows, and what stands in for what the paper used.

    Args:
        params: Of the check.
        attackers: That were run.
        asked: The same, with those a mixture draws from.
    """
    variant = params.get("variant", "code")
    selection = params.get("selection") or variant
    whose = {"code": "the program released with the paper", "paper": "the text of the paper, not the released program"}
    told = f"Noise follows {whose[variant]} (variant {variant})"
    if selection != variant:
        told += f", with words selected as in variant {selection}"
    phi = params.get("phi")
    told += "" if phi is None else f", and an attacked word is hit with phi = {phi:g} at every level"
    used = {*attackers, *(asked if COMBINED in attackers else [])}
    sources = [
        by[str(params[field])]
        for field, by in _SOURCES.items()
        if _NEEDS[field] in used and str(params.get(field)) in by
    ]
    if "phonetic" in used:
        sources.append("respellings follow the pronunciations of CMUdict, in place of the paper's trained networks")
    yield told + (f"; {'; '.join(sources)}." if sources else ".")
    of = {"segment": "of the spaces between words"}
    if variant == "code" and phi is None:
        of["visual"] = "of the characters"
    apart = [f"under {words(attacker)}, {how}" for attacker, how in of.items() if attacker in used]
    yield f"A level is the share of a text's words that are attacked{''.join(f'; {one}' for one in apart)}."
