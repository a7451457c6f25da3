"""Doubts about what the scores tell an attack, and about how much the attacks could do: from what was measured."""

import numpy as np

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, UNSCORED
from seatrial.statistics.paired import discordant
from seatrial.statistics.proportions import score_interval
from workers.families.temperature_attack.afterwards import (
    answered_by_company,
    edited_otherwise,
    edited_otherwise_lightly,
    edited_otherwise_once_asked,
    edited_otherwise_since,
    moved_since,
)
from workers.families.temperature_attack.anew import Anew
from workers.families.temperature_attack.audit import Audit
from workers.families.temperature_attack.crossing import clinging
from workers.families.temperature_attack.decision_flags import REMEMBERED, doubt_decisions
from workers.families.temperature_attack.displaced import displaced_with
from workers.families.temperature_attack.pieced import less_withstand
from workers.families.temperature_attack.probe import CHANGED, FEWEST, ProbeSample
from workers.families.temperature_attack.records import AttackSample
from workers.families.temperature_attack.sent_once import FEWEST as FEWEST_SENT
from workers.families.temperature_attack.surrogate import LabelSurrogate, SurrogateAgreement, surrogate_agreement
from workers.families.temperature_attack.unasked import FEWEST as FEWEST_UNASKED
from workers.families.temperature_attack.unprobed import compare_with_unprobed

STILL = 0.5
"""Share of one-letter edits that move no score from which on scores tell little. Measured on TF-IDF: 0.09 as it is,
0.18 with probabilities of two digits, 0.59 clipped to [0.05, 0.95], 0.79 with whole logits."""

CROWDED = 0.3
"""Share of texts with the same confidence. Measured: 0.04 with two digits, 0.42 where it is 0.5 below 0.7."""

RESTLESS = 0.75
"""Distance of neighbours relative to strangers. Measured: 0.28 on TF-IDF, 1.2 for a hash."""

FEW_LEVELS = 8
"""Distinct confidences from which on an attack is led by steps instead of a slope."""

AGREEING = 0.05
"""Lower end of the rank correlation with a surrogate of decisions from which on scores are shown to follow them; asked
where labels alone found more. Measured on naive Bayes behind endpoints, 100 to 300 texts: 0.13 and more as it is, -0.03
and less for a hash, a confidence by length or another model's, -0.10 where it is surer the nearer to a flip."""

SPARED = 0.15
"""Share of texts by which those that were not probed may withstand more than those that were."""

HELD_BACK = 0.5
"""Share of attacks that a recipe's own limit may end before a failure says nothing."""

ENOUGH_LABEL_QUERIES = 50
"""Questions a text below which the search by labels is a formality: on honest log-odds 30 leave .375 where 100 leave
.275 and 300 .233 (specification of honest verdicts, section 2)."""


def few_label_queries(audit: Audit) -> list[Flag]:
    """Flag a search by labels alone that was too short to contradict the scores."""
    asked = audit.params.most_label_queries
    if not audit.flipping or asked >= ENOUGH_LABEL_QUERIES:
        return []
    return [
        Flag(
            code="few_label_queries",
            severity="warning",
            message=f"The search by labels alone had {asked} questions a text, where {ENOUGH_LABEL_QUERIES} are the "
            "least that contradict scores which mislead: nothing shows that these do not.",
        )
    ]


def doubt_scores(audit: Audit) -> list[Flag]:
    """Return the flags about scores and about the attacks' strength."""
    return [
        *uninformative_scores(audit),
        *answers_depend_on_history(audit),
        *doubt_decisions(audit),
        *masked_importance(audit),
        *weak_attack(audit),
    ]


def uninformative_scores(audit: Audit) -> list[Flag]:
    """Flag scores that do not lead an attack; an error where labels alone found more than every score did."""
    evidence, undercut = [] if audit.probe is None else _evidence(audit.probe), _undercut(audit)
    agreement = None if undercut is None else score_agreement(audit)
    if agreement is not None and agreement.low < AGREEING:
        evidence.append(
            f"what {agreement.edits} one-letter edits do to them has a rank correlation of "
            f"{agreement.correlation:.2f} [{agreement.low:.2f}, {agreement.high:.2f}] with what they do to a surrogate "
            "fitted to the model's decisions"
        )
    if not evidence:
        return []
    finding = (
        f"An attack that sees labels alone leaves {undercut[0]:.1%} where the strongest that reads scores leaves "
        f"{undercut[1]:.1%}: that much of its robustness comes from the scores alone. "
        if undercut is not None
        else "Texts that withstand attacks on its scores say little about the model. "
    )
    return [
        Flag(
            code="uninformative_scores",
            severity="warning" if undercut is None else "error",
            message=f"The scores tell an attack little: {'; '.join(evidence)}. {finding}Judge by the arm label_only, "
            "or let the endpoint answer with the model's own scores.",
        )
    ]


def score_agreement(audit: Audit) -> SurrogateAgreement | None:
    """Return how edits move the scores as they move a surrogate of the decisions; None where that is not known.

    The surrogate is fitted to every text of the attacks that the unmodified model decided on.
    """
    if audit.probe is None or audit.probe.written is None or not audit.flipping:
        return None
    texts: list[str] = []
    decisions: list[int] = []
    for recipe in audit.flipping:
        sample = audit.attacks[recipe]
        texts += [" ".join(parts) for parts in sample.texts]
        decisions += sample.clean.predictions.tolist()
        for ended in sample.arms.values():
            texts += [" ".join(parts) for parts in ended.texts]
            decisions += ended.predictions.tolist()
    decided = dict(zip(texts, decisions, strict=True))
    surrogate = LabelSurrogate(list(decided), list(decided.values()))
    return surrogate_agreement(surrogate, audit.probe.written, audit.probe.path)


def answers_depend_on_history(audit: Audit) -> list[Flag]:
    """Flag answers that are another when asked again, or that stand still where the first question was."""
    seen = [] if audit.probe is None else _remembered(audit.probe)
    if audit.closing is not None:
        seen += [] if seen else _remembered(audit.closing)
        seen += [] if audit.probe is None else moved_since(audit.probe, audit.closing)
        seen += [] if seen or audit.probe is None else _clings(audit.probe, audit.closing)
    if (ends := audit.displacement) is not None and ends.ends_changed > max(1.0, CHANGED * ends.ends_asked):
        seen.append(
            f"{ends.ends_changed} of {ends.ends_asked} texts that attacks ended with changed class when they were "
            "asked again after all attacks, some of them by themselves"
        )
    if (of := audit.priming) is not None and of.p < REMEMBERED:
        seen.append(
            f"of {of.texts} edited texts {of.more} have the decision of the unedited one only where that was asked "
            f"first, and {of.less} only where it was not (p = {of.p:.1g})"
        )
    seen += _by_order(audit.anew) + _where_asked(audit) + _where_near_copies_were(audit)
    seen += answered_by_company(audit.first_quiet, is_first=True)
    seen += answered_by_company(audit.quiet)
    seen += edited_otherwise(audit.amid, audit.first_quiet, audit.quiet)
    seen += edited_otherwise_since(audit.transfer, audit.first_quiet, audit.amid, audit.quiet)
    seen += edited_otherwise_once_asked(audit.transfer) + edited_otherwise_lightly(audit.transfer)
    if (of_those := audit.insistence) is not None and of_those.p < REMEMBERED:
        seen.append(
            f"of {len(of_those.moved)} texts that withstand the search by labels {of_those.more} are decided rightly "
            f"more often, much misspelt, after they were attacked than before, and {of_those.less} less often "
            f"(p = {of_those.p:.1g})"
        )
    if (of_probed := compare_with_unprobed(audit)) is not None and (
        of_probed.p < REMEMBERED and of_probed.others - of_probed.probed > SPARED
    ):
        seen.append(
            f"of the texts that were probed {of_probed.probed:.0%} withstand the search by labels, of the others "
            f"{of_probed.others:.0%} (p = {of_probed.p:.1g})"
        )
    if not seen:
        return []
    return [
        Flag(
            code="answers_depend_on_history",
            severity="error",
            message=f"What the model answers depends on what was asked before or beside it: {'; '.join(seen)}. A cache "
            "of similar texts, a session, the rest of a request or chance answers in its place, and an attack learns "
            "nothing about the model. Audit the model without whatever looks beyond a question.",
        )
    ]


def _by_order(of: Anew | None) -> list[str]:
    """Return what shows that pieced texts are decided by what was asked before them."""
    seen = []
    if of is not None and of.kept_p < REMEMBERED:
        seen.append(
            f"of {of.edits} edited texts of pieces of others {of.more} have the decision of the unedited one only "
            f"where that was asked first, and {of.less} only where it was not (p = {of.kept_p:.1g})"
        )
    if of is not None and of.right_p < REMEMBERED:
        seen.append(
            f"of {of.first} texts of pieces of others {of.first_right} are decided rightly where they are asked "
            f"first, and {of.later_right} of {of.later} where an edited one was (p = {of.right_p:.1g})"
        )
    return seen


def _where_asked(audit: Audit) -> list[str]:
    """Return what shows that texts withstand because they were asked as they are."""
    recipe = displaced_with(audit.flipping) if audit.flipping else None
    if audit.unasked is None or recipe not in audit.counted or LABEL_ONLY not in audit.arms.by_name:
        return []
    held, others = audit.attacks[recipe].robust(LABEL_ONLY), audit.unasked.robust
    if len(others) < FEWEST_UNASKED or held.mean() - others.mean() <= SPARED:
        return []
    p = less_withstand(int(held.sum()), len(held), others)
    if p >= REMEMBERED:
        return []
    return [
        f"of {len(held)} texts {int(held.sum())} withstand the search by labels, and {int(others.sum())} of "
        f"{len(others)} that were never asked as they are (p = {p:.1g})"
    ]


def _where_near_copies_were(audit: Audit) -> list[str]:
    """Return what shows that texts withstand because near copies of them were asked about."""
    once = audit.once
    if once is None or min(once.answered, len(once.later)) < FEWEST_SENT:
        return []
    held, sent = int(once.later.sum()), int(once.robust.sum())
    p = less_withstand(held, len(once.later), once.robust)
    seen = []
    if once.later.mean() - once.robust.mean() > SPARED and p < REMEMBERED:
        seen.append(
            f"of {once.answered} edited texts {sent} are decided rightly where nothing near was asked about before, "
            f"and {held} of {len(once.later)}, edited in the same way, after near copies (p = {p:.1g})"
        )
    if once.p < REMEMBERED:
        seen.append(
            f"{len(once.later_leads)} edited texts speak for their classes more than {len(once.leads)} others, for "
            f"what their pieces say, where near copies were asked about before (p = {once.p:.1g})"
        )
    return seen


def _remembered(probe: ProbeSample) -> list[str]:
    """Return what shows that answers of one probe remember its questions or whoever asked them."""
    seen = []
    if not len(probe):
        return []
    changed = int(probe.changed.sum())
    if changed > max(1.0, CHANGED * len(probe)):
        seen.append(f"{changed} of {len(probe)} texts were given another answer after their neighbours had been asked")
    moved = int(probe.changed_elsewhere.sum())
    if moved > max(1.0, CHANGED * len(probe)) and moved > changed:
        seen.append(f"{moved} of {len(probe)} texts were given another answer in another session")
    if probe.memory_p < REMEMBERED:
        first, last = probe.plateaus.mean(axis=0)
        seen.append(
            f"along a path of one-letter edits the first {first:.1f} texts asked have one answer on average, the last "
            f"{last:.1f}, in whichever direction it is asked (p = {probe.memory_p:.1g})"
        )
    return seen + _clings(probe)


def _clings(*probes: ProbeSample) -> list[str]:
    """Return what shows that decisions persist where a path of edits was begun, on the paths of all probes together."""
    longer, shorter, p = clinging([crossing for probe in probes for crossing in probe.crossings.values()])
    if p >= REMEMBERED:
        return []
    return [
        "between two texts decided apart the decision of the end that one starts from persists for longer on "
        f"{longer} paths of edits and the other's on {shorter}, from whichever end (p = {p:.1g})"
    ]


def masked_importance(audit: Audit) -> list[Flag]:
    """Flag texts whose words all matter the same as served: their correlation is 0, not unknown."""
    flags = []
    for recipe, sample in audit.attacks.items():
        masked = 0.0 if sample.masked is None or not len(sample.masked) else float(sample.masked.mean())
        if not masked:
            continue
        flags.append(
            Flag(
                code="masked_importance",
                severity="info",
                message=f"For {masked:.0%} of the texts the scores as served give every word the same importance under "
                f"{recipe}, while calibrated ones tell words apart: the recipe had no order to follow there. Such "
                "texts count as a correlation of 0.",
            )
        )
    return flags


def weak_attack(audit: Audit) -> list[Flag]:
    """Flag recipes that could hardly do anything; a warning where no other recipe could do more."""
    reasons = {recipe: reason for recipe in audit.flipping if (reason := _weakness(audit.attacks[recipe]))}
    has_other = len(reasons) < len(audit.flipping)
    return [
        Flag(
            code="weak_attack",
            severity="info" if has_other else "warning",
            message=f"{recipe} could hardly attack: {reason}. That a text withstands it is no sign of robustness"
            + (", and it has no accuracy of its own" if audit.attacks[recipe].is_inert else "")
            + ("; judge by the other recipes." if has_other else ": ask for a recipe that can do more."),
        )
        for recipe, reason in reasons.items()
    ]


def _evidence(probe: ProbeSample) -> list[str]:
    """Return what was measured that speaks against the scores, each with its number."""
    if probe.texts < FEWEST:
        return []
    found = []
    levels, (common, share) = probe.levels, probe.commonest
    if share >= CROWDED:
        found.append(f"{share:.0%} of the texts asked have the same confidence, {common:.4g}")
    if probe.unmoved >= STILL:
        found.append(f"{probe.unmoved:.0%} of one-letter edits move no score at all")
    if len(levels) <= FEW_LEVELS:
        step = f", the closest {np.diff(levels).min():.2g} apart" if len(levels) > 1 else ""
        found.append(f"there are {len(levels)} distinct confidences{step}")
    if probe.restlessness >= RESTLESS:
        found.append(
            f"texts one letter apart differ {probe.restlessness:.2f} times as much in their scores as unrelated ones, "
            "as a hash would have it"
        )
    return found


def _undercut(audit: Audit) -> tuple[float, float] | None:
    """Return what labels alone and the strongest scores leave, where the former is less beyond chance, paired."""
    scored = [arm for arm in (AS_SERVED, *audit.arms.others) if arm not in UNSCORED]
    if LABEL_ONLY not in audit.arms.by_name or not len(audit.common_ids):
        return None
    labels = audit.robust(LABEL_ONLY)
    strongest = min((audit.robust(arm) for arm in scored), key=lambda robust: int(robust.sum()))
    low, _ = score_interval(*discordant(strongest, labels))
    return (float(labels.mean()), float(strongest.mean())) if low > 0 else None


def _weakness(sample: AttackSample) -> str | None:
    if sample.strength is None:
        return None
    words, candidates, without, limited, attacked = sample.strength
    if sample.is_inert:
        return (
            f"its constraints leave {candidates / words:.2f} candidates a word, and {without / words:.0%} of the words "
            "none"
        )
    if limited > HELD_BACK * attacked:
        return (
            f"{limited} of {attacked} texts ran into its limit of edits before every word was tried (edit_share makes "
            "one of letters grow with a text's length)"
        )
    return None
