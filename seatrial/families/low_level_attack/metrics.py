"""What ``low_level_attack`` publishes."""

from collections.abc import Callable

from seatrial.contracts.family import (
    FROM_ZERO,
    SIGNED_SHARE,
    Dependence,
    Limits,
    Measurement,
    Metric,
    Qualifiers,
    all_but,
    only,
    value,
)
from seatrial.contracts.noise import COMBINED

RECORDS = "seatrial.families.low_level_attack.records:"

OF_ALL_ATTACKERS = frozenset({"mean_relative_score", "worst_case_score", "rank", "edit_correlation"})
"""Metrics over all attackers of a check, whichever their qualifiers name."""


def places(measured: Measurement) -> Limits:
    """Return from where to where ranks go: there are as many places as attackers that were placed."""
    if measured.result is None:
        return 1.0, None
    ranks = [one for name, one in measured.result.estimates.items() if name.startswith("rank[")]
    return 1.0, float(sum(one.value is not None for one in ranks))


def _depends(
    *,
    is_binned: bool = False,
    is_of_all_attackers: bool = False,
    is_of_all_levels: bool = False,
    is_of_all_draws: bool = False,
) -> Callable[[Qualifiers], Dependence]:
    """Return what a number under noise depends on."""

    def of(qualifiers: Qualifiers) -> Dependence:
        attacker = qualifiers.get("attacker")
        idle = {"bins": not is_binned, "levels": not is_of_all_levels, "draws": not is_of_all_draws}
        if not is_of_all_attackers:
            # What a mixture draws from is part of it.
            idle |= {"combined": True, "attackers": attacker != COMBINED}
            idle |= {
                "typos": attacker not in ("natural_typo", COMBINED),
                "glyphs": attacker not in ("visual", COMBINED),
            }
        return all_but(*(name for name, is_idle in idle.items() if is_idle))

    return of


_SCORE = "accuracy of texts and pairs, token accuracy of tagged sentences, macro AUROC of multi-label texts"
_CONFIDENCE = (
    "largest probability of a class or tag; of multi-label texts, each label's probability of what is decided at 0.5"
)
METRICS = (
    Metric(
        name="score",
        qualifiers=("level",),
        label="Score without noise",
        claim="its score at noise level {level} is {value}",
        unit="1",
        better="higher",
        description=f"Score at level 0, of the texts as they are: {_SCORE}.",
        depends_on=only(),
        per_example=RECORDS + "SCORE_WITHOUT",
    ),
    Metric(
        name="score",
        qualifiers=("attacker", "level"),
        label="Score under {attacker}, level {level}",
        unit="1",
        better="higher",
        description=f"Score on the texts one attacker has perturbed once: {_SCORE}.",
        depends_on=_depends(),
        per_example=RECORDS + "SCORE",
    ),
    Metric(
        name="relative_score",
        qualifiers=("attacker", "level"),
        label="Score kept under {attacker}, level {level}",
        claim="{attacker} at level {level} leaves {value} of its score",
        unit="1",
        better="higher",
        description="Score under the attacker divided by the score without noise: s*(p) of the paper, section 5.",
        depends_on=_depends(),
        range=FROM_ZERO,
    ),
    Metric(
        name="mean_relative_score",
        qualifiers=("level",),
        label="Score kept under noise, on average, level {level}",
        claim="noise at level {level} leaves {value} of its score on average",
        unit="1",
        better="higher",
        description="Mean of relative_score over the attackers asked for.",
        depends_on=_depends(is_of_all_attackers=True),
        range=FROM_ZERO,
    ),
    Metric(
        name="score_drop",
        qualifiers=("attacker", "level"),
        label="Score lost under {attacker}, level {level}",
        unit="1",
        better="lower",
        description="Score without noise less the score under the attacker, on the same examples.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
        per_example=RECORDS + "SCORE_DROP",
    ),
    Metric(
        name="worst_case_score",
        qualifiers=("level",),
        label="Score under the worst noise for each text, level {level}",
        claim="the worst noise at level {level} leaves it a score of {value}",
        unit="1",
        better="higher",
        description="Score when each example is met by whichever attacker, and whichever of its draws, does it most "
        "harm: the number to gate on. Of multi-label texts harm is told by each text's own labels, so macro AUROC "
        "need not be the least there could be.",
        depends_on=_depends(is_of_all_attackers=True, is_of_all_draws=True),
        per_example=RECORDS + "WORST_CASE",
    ),
    Metric(
        name="persistent_score",
        qualifiers=("attacker", "level"),
        label="Score under the worst of several draws of {attacker}, level {level}",
        unit="1",
        better="higher",
        description="Score when each example is met by the worst of `draws` draws of the attacker; with one draw it "
        "is left out.",
        depends_on=_depends(is_of_all_draws=True),
        per_example=RECORDS + "PERSISTENT",
    ),
    Metric(
        name="rank",
        qualifiers=("attacker",),
        label="Rank of {attacker} by harm",
        unit="1",
        better="neither",
        description="Place in harmfulness at the highest level, 1 the most harmful, ties sharing the mean of their "
        "places; the interval holds every place that comparisons with the others leave open. Null for an attacker "
        "under which less than half of the examples were answered.",
        depends_on=_depends(is_of_all_attackers=True, is_of_all_levels=True),
        range=(1.0, None),
        limits=places,
    ),
    Metric(
        name="flip_rate",
        qualifiers=("attacker", "level"),
        label="Decisions that change under {attacker}, level {level}",
        unit="1",
        better="lower",
        description="Share of decisions that change under noise, whether they were right or wrong: classes of texts, "
        "tags of tokens, labels of multi-label texts.",
        depends_on=_depends(),
        per_example=RECORDS + "FLIPPED",
    ),
    Metric(
        name="characters_changed",
        qualifiers=("attacker", "level"),
        label="Characters changed by {attacker}, level {level}",
        unit="1",
        better="neither",
        description="Mean Levenshtein distance between a text and what became of it, per character of the text "
        "(grapheme clusters: a letter with its accents is one); a tagged sentence is its tokens with a space between.",
        depends_on=_depends(),
        range=FROM_ZERO,
        per_example=value("attack_{attacker}", "characters_changed[level={level}]"),
    ),
    Metric(
        name="tokens_changed",
        qualifiers=("attacker", "level"),
        label="Tokens changed by {attacker}, level {level}",
        unit="1",
        better="neither",
        description="Mean share of a text's tokens that changed.",
        depends_on=_depends(),
        per_example=value("attack_{attacker}", "tokens_changed[level={level}]"),
    ),
    Metric(
        name="edit_correlation",
        label="Correlation of harm with how much is changed",
        unit="1",
        better="neither",
        description="Pearson correlation of characters_changed and relative_score over attackers and levels (Figure "
        "5): near -1 where harm goes by how much is changed.",
        depends_on=_depends(is_of_all_attackers=True, is_of_all_levels=True),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="ece",
        qualifiers=("level",),
        label="Calibration error without noise",
        unit="1",
        better="lower",
        description="Expected calibration error at level 0, mean-confidence form.",
        depends_on=only("bins"),
    ),
    Metric(
        name="ece",
        qualifiers=("attacker", "level"),
        label="Calibration error under {attacker}, level {level}",
        unit="1",
        better="lower",
        description="Expected calibration error under noise, mean-confidence form: whether confidence falls with the "
        "score.",
        depends_on=_depends(is_binned=True),
    ),
    Metric(
        name="mean_confidence",
        qualifiers=("level",),
        label="Mean confidence without noise",
        unit="1",
        better="neither",
        description=f"Mean confidence at level 0: {_CONFIDENCE}.",
        depends_on=only(),
        per_example=RECORDS + "CONFIDENCE_WITHOUT",
    ),
    Metric(
        name="mean_confidence",
        qualifiers=("attacker", "level"),
        label="Mean confidence under {attacker}, level {level}",
        unit="1",
        better="neither",
        description=f"Mean confidence under noise: {_CONFIDENCE}.",
        depends_on=_depends(),
        per_example=RECORDS + "CONFIDENCE",
    ),
)
