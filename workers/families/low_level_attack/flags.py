"""Doubts about the numbers, each with what it means and what to do.

Is the robustness there, or was nothing tested? Of each doubt there is one flag, however many attackers it is about.
"""

from collections import Counter
from collections.abc import Mapping

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.contracts.models import MULTI_LABEL
from seatrial.contracts.noise import COMBINED
from seatrial.statistics.clusters import interval_of
from workers.families.low_level_attack.areas import auroc_of
from workers.families.low_level_attack.asked import attackers_not_asked, mild_noise
from workers.families.low_level_attack.audit import Audit
from workers.families.low_level_attack.names import ATTACK, CLEAN, listed
from workers.families.low_level_attack.resampling import Resampled
from workers.families.low_level_attack.series import chance

TESTED = 0.02
"""Mean share of tokens changed at the highest level below which, under every attacker, nothing was tested; at levels so
low that this were much to ask, ``LITTLE`` of the level."""

LITTLE = 0.15
"""Share of the level that the tokens changed must reach for a score to say something."""

UNMOVED = 0.9
"""Share of changed texts whose answer is bit for bit that to the original from which on the model does not see them."""

OVERCONFIDENT = 0.1
"""Mean confidence above accuracy from which on confidence is said to stay where the score falls."""

ERRORED_SHARE = 0.05
"""Share of examples that may err before an attacker's numbers are in doubt: what an audit allows by default."""

EXCESS = 2.0
"""Characters changed, as a multiple of the level, from which on a text could not honour it. In sentences of English the
attackers change less of the characters than of the words."""

SOME_TEXTS, MOST_TEXTS = 0.1, 0.5
"""Share of such texts from which it is told, and from which the scores are of another noise than they say."""

UNANSWERED_SHARE = 0.01
"""Share of tokens without a tag from which on a score is as much about the tokenizer as about the model."""


def doubt(audit: Audit, drawn: Resampled, found: Mapping[str, Estimate]) -> list[Flag]:
    """Return all flags of a finished audit, those that make its numbers void first."""
    return [
        *nothing_measured(audit),
        *noise_changed_nothing(audit),
        *answers_unmoved(audit),
        *attackers_left_out(audit),
        *attackers_not_asked(audit),
        *mild_noise(audit),
        *errored_examples(audit),
        *score_at_chance(audit, found),
        *little_noise(audit),
        *level_not_reached(audit),
        *confident_under_noise(audit, drawn),
        *tokens_unanswered(audit),
        *tokens_untagged(audit),
        *classes_left_out(audit),
        *ranks_unclear(audit, found),
        *worst_of_draws(audit),
    ]


def nothing_measured(audit: Audit) -> list[Flag]:
    """Flag an audit of which no number is left."""
    if len(audit.common) and audit.decisions[audit.common].sum():
        return []
    why = Counter(reason for stage in audit.errors.values() for reason in stage).most_common(1)
    most = f" Most often: {why[0][0][:300]}." if why else ""
    return [
        Flag(
            code="nothing_measured",
            severity="error",
            message=f"Of {audit.size} examples none was answered both without noise and under the attackers that can "
            f"be compared, so nothing is known of the model under noise.{most} Fix that and run the audit again.",
        )
    ]


def noise_changed_nothing(audit: Audit) -> list[Flag]:
    """Flag texts that no attacker can touch: a score that does not fall says nothing then."""
    shares = {attacker: changed_share(audit, attacker, audit.highest) for attacker in audit.attackers}
    known = {attacker: share for attacker, share in shares.items() if share is not None}
    bound = min(TESTED, LITTLE * audit.highest)
    if not known or max(known.values()) >= bound:
        return []
    return [
        Flag(
            code="noise_changed_nothing",
            severity="error",
            message=f"At level {audit.highest:g} no attacker changed as much as {100 * bound:.2g}% of the tokens "
            f"(the most: {max(known.values()):.1%}): the texts are in a script or a language the attackers do not "
            "know, or their words are too short. The scores under noise are those without: nothing was tested. Choose "
            "attackers that fit the texts, or leave the check out.",
        )
    ]


def answers_unmoved(audit: Audit) -> list[Flag]:
    """Flag texts that changed while the answers are those to the originals, bit for bit."""
    shares = {attacker: _unmoved_share(audit, attacker) for attacker in audit.attackers}
    known = {attacker: share for attacker, share in shares.items() if share is not None}
    unmoved = [attacker for attacker, share in known.items() if share >= UNMOVED]
    if not unmoved:
        return []
    if len(unmoved) == len(known):
        return [
            Flag(
                code="answers_unmoved",
                severity="error",
                message=f"Under every attacker at least {UNMOVED:.0%} of the texts that changed are answered, bit for "
                "bit, as the originals were. The model does not see the noise: its input is not the text sent or is "
                "cut off before it, a cache answers, or scores are rounded. That is no robustness of the model: check "
                "the request template, the tokenizer and the endpoint.",
            )
        ]
    return [
        Flag(
            code="answers_unmoved",
            severity="warning",
            message=f"At least {UNMOVED:.0%} of the texts changed by {listed(unmoved)} are answered, bit for bit, as "
            "the originals were: something before the model undoes this noise (a normaliser that strips accents or "
            "punctuation, an unknown-word token). It withstands this attacker; say so only of the model as it is "
            "served, that step included.",
        )
    ]


def attackers_left_out(audit: Audit) -> list[Flag]:
    """Flag attackers answered on too few examples to be compared: the worst case is then not the worst."""
    left = [attacker for attacker in audit.attackers if attacker not in audit.compared]
    if not left or not len(audit):
        return []
    return [
        Flag(
            code="attackers_left_out",
            severity="error",
            message=f"Under {listed(left)} less than half of the examples were answered. They have no rank, and the "
            "worst case and the mean over attackers are without them, so both are higher than they should be. Give "
            "the endpoint a larger budget or more time, or leave the attackers out.",
        )
    ]


def errored_examples(audit: Audit) -> list[Flag]:
    """Flag examples that errored, with what they leave open."""
    kept = {CLEAN: len(audit)} | {
        f"{ATTACK}{attacker}": len(audit.noise(attacker, audit.highest).answers) for attacker in audit.attackers
    }
    errored = {stage: audit.size - number for stage, number in kept.items()}
    worst, most = max(errored.items(), key=lambda pair: pair[1])
    if not most:
        return []
    reason, times = Counter(audit.errors[worst]).most_common(1)[0]
    where = "without noise" if worst == CLEAN else f"under {listed([worst.removeprefix(ATTACK)])}"
    return [
        Flag(
            code="errored_examples",
            severity="warning" if most > ERRORED_SHARE * audit.size else "info",
            message=f"{most} of {audit.size} examples errored {where} and count in none of its numbers; the most "
            f"frequent reason ({times} times): {reason[:300]}. What compares attackers is measured on the "
            f"{len(audit.common)} examples answered under all that are compared. If long or odd texts err more often "
            "than others, the scores are higher than those of all texts.",
        )
    ]


def score_at_chance(audit: Audit, found: Mapping[str, Estimate]) -> list[Flag]:
    """Flag a model that has nothing to lose."""
    score, guess = found[metric_name("score", level=0)], chance(audit)
    if score.low is None or guess is None or score.low > guess:
        return []
    return [
        Flag(
            code="score_at_chance",
            severity="warning",
            message=f"Without noise the score is {score.value:.1%} (at least {score.low:.1%}); guessing gives "
            f"{guess:.1%}. A model with nothing to lose keeps all of it under noise: relative scores near 1 are no "
            "sign of robustness. Audit more examples, or check labels and tokenizer.",
        )
    ]


def little_noise(audit: Audit) -> list[Flag]:
    """Flag attackers that changed so few tokens that their score says nothing."""
    shares = {attacker: changed_share(audit, attacker, audit.highest) for attacker in audit.attackers}
    bound = LITTLE * audit.highest
    little = {attacker: share for attacker, share in shares.items() if share is not None and share < bound}
    if not little or noise_changed_nothing(audit):
        return []
    named = ", ".join(f"{listed([attacker])} {share:.1%}" for attacker, share in little.items())
    return [
        Flag(
            code="little_noise",
            severity="warning",
            message=f"At level {audit.highest:g} so few tokens changed that the score says little: {named}. Short "
            "words, words no lexicon has, or another script leave these attackers nothing to do; that the score "
            "stays is no robustness. Do not gate on them, or choose lexicons that fit the language.",
        )
    ]


def level_not_reached(audit: Audit) -> list[Flag]:
    """Flag levels that texts cannot honour: one of few words has no fifth to change, and one without spaces no word."""
    shares = {
        (attacker, level): float((audit.noise(attacker, level).characters_changed >= EXCESS * level).mean())
        for attacker in audit.attackers
        for level in audit.levels
        if len(audit.noise(attacker, level).characters_changed)
    }
    (attacker, level), share = max(shares.items(), key=lambda pair: pair[1], default=(("", 0.0), 0.0))
    if share < SOME_TEXTS:
        return []
    changed = float(audit.noise(attacker, level).characters_changed.mean())
    return [
        Flag(
            code="level_not_reached",
            severity="warning" if share >= MOST_TEXTS else "info",
            message=f"Under {listed([attacker])} at level {level:g}, {share:.0%} of the texts had at least "
            f"{EXCESS:g} times that share of their characters changed ({changed:.0%} on average). They have few words, "
            "or are of a script whose words are not told apart: the level cannot be reached from below, and the scores "
            "are those of harder noise. Compare them with those of such texts only.",
        )
    ]


def confident_under_noise(audit: Audit, drawn: Resampled) -> list[Flag]:
    """Flag confidence that stays where the score falls: nobody downstream can tell that the model is lost."""
    gaps: dict[str, float] = {}
    for attacker in audit.attackers:
        attacked = drawn.attacked(attacker)
        cell = attacked.cells[audit.highest]
        gap = cell.confidence - cell.accuracy
        growth = gap - (attacked.confidence_before - attacked.accuracy_before)
        over, more = interval_of(gap), interval_of(growth)
        if over is not None and more is not None and over[0] > OVERCONFIDENT and more[0] > 0:
            gaps[attacker] = float(gap[0])
    if not gaps:
        return []
    ordered = sorted(gaps, key=lambda attacker: -gaps[attacker])
    attacker = ordered[0]
    cell = drawn.attacked(attacker).cells[audit.highest]
    others = f" The same is true under {listed(ordered[1:])}." if ordered[1:] else ""
    return [
        Flag(
            code="confident_under_noise",
            # What was found, and no doubt about it: a gate has ECE under noise to ask for.
            severity="info",
            message=f"Under {listed([attacker])} at level {audit.highest:g}, {cell.accuracy[0]:.1%} of the decisions "
            f"are right and mean confidence is {cell.confidence[0]:.1%}: confidence does not reveal that the input is "
            f"damaged.{others} A threshold on confidence will not catch it; calibrate on noisy texts, or detect noise "
            "before the model.",
        )
    ]


def tokens_unanswered(audit: Audit) -> list[Flag]:
    """Flag tokens that were tagged without noise and are not under it; they count as wrong."""
    shares = {}
    for attacker in audit.attackers:
        predictions = audit.noise(attacker, audit.highest).answers.predictions
        if len(predictions):
            shares[attacker] = float((predictions < 0).mean())
    attacker, share = max(shares.items(), key=lambda pair: pair[1], default=("", 0.0))
    if not share:
        return []
    return [
        Flag(
            code="tokens_unanswered",
            severity="warning" if share > UNANSWERED_SHARE else "info",
            message=f"Under {listed([attacker])} at level {audit.highest:g}, {share:.1%} of the tokens have no tag any "
            "more: noise made sentences longer than the model takes, or tokens of nothing the tokenizer knows. They "
            "count as wrong; with a longer maximum, or shorter sentences, the score would be higher.",
        )
    ]


def tokens_untagged(audit: Audit) -> list[Flag]:
    """Flag tokens that have no tag even without noise; nothing is known of them."""
    total = audit.untagged + int(audit.decisions.sum())
    if not audit.untagged:
        return []
    share = audit.untagged / total
    return [
        Flag(
            code="tokens_untagged",
            severity="warning" if share > UNANSWERED_SHARE else "info",
            message=f"{audit.untagged} of {total} tokens ({share:.1%}) get no tag even without noise and are in no "
            "number: they lie beyond the model's maximum length, or the tokenizer drops them. Split long sentences to "
            "have all of them judged.",
        )
    ]


def classes_left_out(audit: Audit) -> list[Flag]:
    """Flag labels that all texts have, or none: they have no AUROC."""
    if audit.task != MULTI_LABEL or not len(audit) or audit.classes is None:
        return []
    left = sorted(set(range(audit.classes)) - set(auroc_of(audit, audit.clean.scored).classes))
    if not left:
        return []
    named = ", ".join(map(str, left[:10])) + (", ..." if len(left) > 10 else "")
    return [
        Flag(
            code="classes_left_out",
            severity="warning",
            message=f"{len(left)} of {audit.classes} labels ({named}, counted from 0) are on all texts of the sample, "
            "or on none, and have no AUROC: the macro mean is over the others. Audit more examples to judge rare "
            "labels.",
        )
    ]


def ranks_unclear(audit: Audit, found: Mapping[str, Estimate]) -> list[Flag]:
    """Note a ranking whose first place might be another's as well."""
    ends: dict[str, tuple[float, float, float]] = {}
    for attacker in audit.compared:
        rank = found[metric_name("rank", attacker=attacker)]
        if rank.value is not None and rank.low is not None and rank.high is not None:
            ends[attacker] = rank.value, rank.low, rank.high
    order = sorted(ends, key=lambda attacker: ends[attacker][0])
    first = [attacker for attacker in order if ends[attacker][1] <= ends[order[0]][2]]
    if len(first) < 2:
        return []
    whose = "all attackers" if len(first) == len(order) else listed(first)
    return [
        Flag(
            code="ranks_unclear",
            severity="info",
            message=f"On {len(audit.common)} examples the ranks of {whose} have intervals that overlap with that of "
            "the first: which of them does most harm cannot be told. Do not rely on their order; audit more examples "
            "to settle it.",
        )
    ]


def worst_of_draws(audit: Audit) -> list[Flag]:
    """Note what the numbers of several draws can be compared with."""
    if audit.params.draws == 1:
        return []
    return [
        Flag(
            code="worst_of_draws",
            severity="info",
            message=f"`persistent_score` and `worst_case_score` are of the worst of {audit.params.draws} draws for "
            "each example. They fall with every further draw, down to what a search with the model would find: "
            "compare them with those of as many draws only. `score` is that of the first draw.",
        )
    ]


def changed_share(audit: Audit, attacker: str, level: float) -> float | None:
    """Return the mean share of tokens an attacker changed; None where no example was answered."""
    changed = audit.noise(attacker, level).tokens_changed
    return float(changed.mean()) if len(changed) else None


def _unmoved_share(audit: Audit, attacker: str) -> float | None:
    """Return the share of changed texts answered as the originals were; None where none changed, or of `combined`."""
    noise = audit.noise(attacker, audit.highest)
    is_changed = noise.characters_changed > 0
    if attacker == COMBINED or not is_changed.any():
        return None
    before, after = audit.clean.digests[noise.answers.rows], noise.answers.digests
    return float((before == after)[is_changed].mean())
