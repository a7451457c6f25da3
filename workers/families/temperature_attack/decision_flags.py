"""Doubts about what decides a text: knowledge of it, signs nobody reads, or that it was edited at all."""

from collections import Counter

import numpy as np

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import LABEL_ONLY
from seatrial.reporting.words import enumerate_words
from seatrial.statistics.exact import clopper_pearson
from workers.attacks.text.marked_words import SEVERAL
from workers.families.temperature_attack.audit import Audit
from workers.families.temperature_attack.displaced import Displacement, displaced_with, lost
from workers.families.temperature_attack.meaning_free import EditSample
from workers.families.temperature_attack.pieced import less_withstand
from workers.families.temperature_attack.records import AttackSample
from workers.families.temperature_attack.written import FEWEST_OTHERS

REMEMBERED = 0.001
"""p below which answers are said to depend on their order, or on knowledge of the texts."""

MEMORISED = 0.15
"""Share of texts, net, that may withstand as they are and not beside words of no meaning."""

PAIRS_HELD, PAIRS_LEFT = 0.25, 0.5
"""Share of pairs that withstand, at least, and how much of it pieced pairs may have at most, to speak of knowledge."""

TURNED = 0.3
"""Share of texts that withstand the search by labels and may yet turn round at an edit without a meaning: the interval
has to lie above it."""

NO_AGREEMENT = 0.3
"""Agreement beyond chance with itself that a model has which reads texts with some words edited: it is doubted where
the interval lies below."""

UNANSWERED = 0.05
"""Share of the texts of a control that may have no answer."""

WORSE = 0.15
"""Share of texts that a way which was drawn may turn, although they can do without the words it touches. Honest
endpoints turn 0 to 1 of 31; those that take one way for its opposite 12 to 26."""

MISSING = 0.2
"""Share of texts that stand without some of their words, and may turn where these are unreadable. Of 94, 114
and 117 MiniLM turns 12, 5 and 7, log-odds none of 90 to 106."""

MARKED_TURNED, MARKED_IN_ANY = 0.2, 0.3
"""Share of the same that may where words of theirs are written otherwise in one way, each looked at by itself, and in
any of them. An honest corrector of spelling that weighs what a word may be turns at .08 of one way, and .17 of any. At
signs beside the words it hangs on turn 2 of 36 decisions of one, and 1 of 56 of MiniLM; 22 of 36 of a corrector that
leaves out what a note stands at."""

MARKED_OF_ALL = 0.1
"""Share of all texts that may in any: of a model that hardly withstands recipes the few that it does are near to
turning, and make no difference. Naive Bayes on film reviews keeps .15, of which .71 turn."""

FEWEST_EDITED = 10
"""Texts asked with such edits from which on they are judged."""


def doubt_decisions(audit: Audit) -> list[Flag]:
    """Return the flags about what decides."""
    return [
        *memorised_texts(audit),
        *meaning_free_edits(audit),
        *marked_words(audit),
        *marked_decisive_words(audit),
        *worse_than_unreadable(audit),
        *worse_than_missing(audit),
        *arbitrary_when_edited(audit),
        *one_sided_decisions(audit),
        *controls_unanswered(audit),
    ]


def memorised_texts(audit: Audit) -> list[Flag]:
    """Flag robustness that a text has as it stands, and loses beside words of no meaning or in pieces."""
    if audit.displacement is None or LABEL_ONLY not in audit.arms.by_name:
        return []
    recipe = displaced_with(audit.flipping)
    if recipe not in audit.counted:
        return []
    sample = audit.attacks[recipe]
    return _lost_beside(sample, audit.displacement) or _lost_in_pieces(audit, sample)


def _lost_beside(sample: AttackSample, displacement: Displacement) -> list[Flag]:
    before = dict(zip(sample.clean.example_ids.tolist(), sample.robust(LABEL_ONLY).tolist(), strict=True))
    gone, new, count, p = lost(before, displacement)
    if p >= REMEMBERED or gone - new <= MEMORISED * count:
        return []
    held = sum(before[example] for example in displacement.example_ids if example in before)
    clean = f"{float(displacement.right.mean()):.1%} of them are decided rightly there, unattacked"
    return [
        Flag(
            code="memorised_texts",
            severity="error",
            message=f"Of {count} texts {held} withstand the search that sees labels alone, and {held - gone + new} "
            f"with reference numbers behind them ({gone} no longer, {new} newly, p = {p:.1g}; {clean}). Reference "
            "numbers change nothing about what a text says: it is not the model that withstands, but its knowledge of "
            "these very texts. Audit texts it has not seen, without whatever remembers them.",
        )
    ]


def _lost_in_pieces(audit: Audit, sample: AttackSample) -> list[Flag]:
    if audit.pieced is None or audit.displacement is None:
        return []
    probed = np.isin(sample.clean.example_ids, audit.displacement.example_ids)
    held, texts = int((sample.robust(LABEL_ONLY) & probed).sum()), int(probed.sum())
    still, read = int(audit.pieced.robust.sum()), len(audit.pieced.right)
    if not texts or not read or held / texts - still / read <= MEMORISED:
        return []
    of_pairs = len(sample.texts[0]) > 1
    # How parts pieced together are related nobody knows, and so not how far they are from another class.
    if of_pairs and (held < PAIRS_HELD * texts or still * texts > PAIRS_LEFT * held * read):
        return []
    p = less_withstand(held, texts, audit.pieced.robust)
    if p >= REMEMBERED:
        return []
    return [
        Flag(
            code="memorised_texts",
            severity="error",
            message=f"Of {texts} {'pairs' if of_pairs else 'texts'} {held} withstand the search that sees labels "
            f"alone; of {read} that are pieced together from several of their class {still} do (p = {p:.1g}). "
            "Both are of the same words: it is not the model that withstands, but its knowledge of these very texts. "
            "Audit texts it has not seen, without whatever remembers them.",
        )
    ]


def meaning_free_edits(audit: Audit) -> list[Flag]:
    """Flag decisions that hang on what nobody reads: withstanding typing errors, they turn round at a full stop."""
    flags = []
    for recipe in audit.counted:
        edits = audit.edits.get(recipe)
        if edits is None or len(edits.kinds) < FEWEST_EDITED:
            continue
        count, turned = len(edits.kinds), int(edits.flipped.sum())
        low, high = clopper_pearson(turned, count)
        if low <= TURNED:
            continue
        (kind, times), *_ = Counter(one for one in edits.kinds if one is not None).most_common(1)
        flags.append(
            Flag(
                code="meaning_free_edits",
                severity="error",
                message=f"Of {count} texts that withstand {recipe} with labels alone, {turned} (95% interval {low:.0%} "
                f"to {high:.0%}) change class after an edit that does not change what they say; the most frequent one "
                f"to do so is: {kind} ({times}). A model that reads its texts would not: this one withstands only the "
                "recipes. These edits count in label_only; others like them may do more.",
            )
        )
    return flags


def marked_words(audit: Audit) -> list[Flag]:
    """Flag decisions that turn round where words are written otherwise in ways that a reader reads past."""
    flags = []
    for recipe in audit.counted:
        edits = audit.edits.get(recipe)
        if edits is None or not edits.marks:
            continue
        withstanding = f"texts that withstand {recipe} with labels alone"
        if ways := _one_way(edits):
            (way, low), others = ways[0], [other for other, _ in ways[1:]]
            flags.append(
                _withstands_recipes(
                    f"Of {edits.marks[way]} {withstanding}, {edits.turned[way]} change class, or have no answer, when "
                    f"words of theirs are written in one way that a reader reads past: {way} (at least {low:.0%})"
                    + (f". So do others: {enumerate_words(others)}" if others else "")
                )
            )
        elif (share := _in_any(edits.turning, edits.marked, edits.texts)) is not None:
            often = enumerate_words([way for way, _ in edits.turned.most_common(2)])
            flags.append(
                _withstands_recipes(
                    f"Of {edits.marked} {withstanding}, {edits.turning} change class, or have no answer, when some of "
                    f"their words are written otherwise, each in one way or another that a reader reads past (at least "
                    f"{share:.0%}; most often {often})"
                )
            )
    if not flags and (of := audit.unasked) is not None:
        share = _in_any(of.turning, of.marked, of.answered)
        if share is not None:
            flags.append(
                _withstands_recipes(
                    f"Of {of.marked} texts that were never asked as they are and withstand the search by labels, "
                    f"{of.turning} change class, or have no answer, when some of their words are written otherwise in "
                    f"a way that a reader reads past (at least {share:.0%})"
                )
            )
    return flags


def marked_decisive_words(audit: Audit) -> list[Flag]:
    """Flag decisions that turn round at a sign beside the words they hang on, and stand with these misspelt."""
    found = audit.marks
    turning = [] if found is None else _turning(found.asked, found.turned, MARKED_TURNED)
    if found is None or not turning:
        return []
    (way, low), *others = turning
    more = f"; so do others: {enumerate_words([other for other, _ in others[:3]])}" if others else ""
    return [
        _withstands_recipes(
            f"Of {found.asked[way]} texts that withstand all attacks, {found.turned[way]} change class, or have no "
            f"answer, when the words their decision hangs on are written with a sign that a reader reads past: {way} "
            f"(at least {low:.0%}){more}. With a typing error in each of the same words they keep it"
        )
    ]


def _withstands_recipes(told: str) -> Flag:
    return Flag(
        code="marked_words",
        severity="error",
        message=f"{told}. The model withstands the errors that recipes write, and no others.",
    )


def _one_way(edits: EditSample) -> list[tuple[str, float]]:
    """Return the ways that turn surely too many, with the lower end of their share, the largest first."""
    return [one for one in _turning(edits.marks, edits.turned, MARKED_TURNED) if one[0] != SEVERAL]


def _turning(asked: Counter[str], turned: Counter[str], most: float) -> list[tuple[str, float]]:
    """Return the ways that surely turn a larger share of the texts asked so, with its lower end, the largest first."""
    # Each way is looked at by itself, so that each has its part of the error.
    ends = {
        way: float(clopper_pearson(turned[way], count, alpha=0.05 / len(asked))[0])
        for way, count in asked.items()
        if count >= FEWEST_EDITED
    }
    return sorted(((way, low) for way, low in ends.items() if low > most), key=lambda one: -one[1])


def _in_any(turning: int, marked: int, texts: int) -> float | None:
    """Return the lower end of the share of marked texts that any way turned; None where it may be small, or few all."""
    if marked < FEWEST_EDITED or clopper_pearson(turning, max(marked, texts))[0] <= MARKED_OF_ALL:
        return None
    low = float(clopper_pearson(turning, marked)[0])
    return low if low > MARKED_IN_ANY else None


def worse_than_unreadable(audit: Audit) -> list[Flag]:
    """Flag decisions that turn round where words are written in a way, and stand where the same are unreadable."""
    found = audit.ways
    turning = [] if found is None else _turning(found.asked, found.turned, WORSE)
    if found is None or not turning:
        return []
    (way, low), *others = turning
    more = f" So do others that were drawn: {enumerate_words([other for other, _ in others[:3]])}." if others else ""
    return [
        Flag(
            code="worse_than_unreadable",
            severity="error",
            message=f"Of {found.asked[way]} texts that withstand all attacks, {found.turned[way]} change class, or "
            f"have no answer, where they are written in a way that was drawn: {way} (at least {low:.0%}); they "
            f"keep it where letters drawn at random stand in the place of the same words.{more} Not to understand how "
            "words are written does less harm: the model reads them for something else, and withstands the errors that "
            "recipes write, and no others.",
        )
    ]


def worse_than_missing(audit: Audit) -> list[Flag]:
    """Flag decisions that stand without some words, and turn round where those are letters drawn at random."""
    found = audit.missing
    turning = [] if found is None else _turning(found.texts, found.unread, MISSING)
    if found is None or not turning:
        return []
    share, low = turning[0]
    return [
        Flag(
            code="worse_than_missing",
            severity="error",
            message=f"Of {found.texts[share]} texts that withstand all attacks and keep their class without {share} of "
            f"their words, {found.unread[share]} change class, or have no answer, where those words are letters drawn "
            f"at random (at least {low:.0%}). The model does not pass over what it cannot read: it takes it for "
            "something, so that the errors which recipes write are withstood, and others turn it.",
        )
    ]


def arbitrary_when_edited(audit: Audit) -> list[Flag]:
    """Flag decisions about texts with words edited at random that do not follow those about the texts."""
    if audit.written is None:
        return []
    unread = [one for one in audit.written.agreements() if one.kappa.high < NO_AGREEMENT]
    if not unread:
        return []
    least = min(unread, key=lambda one: one.kappa.value)
    return [
        Flag(
            code="arbitrary_when_edited",
            severity="error",
            message=f"Of {least.texts} texts with {least.share:.0%} of their words edited at random ({least.kind}), "
            f"{least.same} keep their class: by chance about as many would (Cohen's kappa {least.kappa.value:.2f} "
            f"[{least.kappa.low:.2f}, {least.kappa.high:.2f}]). Such texts are not decided by what they say, so an "
            "attack that writes them has nothing left to change, and that a text withstands it says nothing.",
        )
    ]


def one_sided_decisions(audit: Audit) -> list[Flag]:
    """Flag texts hardly any of which is decided for another class than the commonest: nothing tells if edits are read.

    A model may then give that class to whatever holds words it does not know, and keep most texts from any attack.
    """
    if audit.written is None or not len(audit.written.plain):
        return []
    counts = np.bincount(audit.written.plain[audit.written.plain >= 0], minlength=1)
    texts, others = int(counts.sum()), int(counts.sum() - counts.max())
    if others >= FEWEST_OTHERS:
        return []
    return [
        Flag(
            code="one_sided_decisions",
            severity="warning",
            message=f"Of the first {texts} texts {others} are decided for another class than the commonest, where at "
            f"least {FEWEST_OTHERS} are needed to tell whether edited texts are read at all: a model that gave one "
            "class to every text with an unknown word would withstand as much here.",
        )
    ]


def controls_unanswered(audit: Audit) -> list[Flag]:
    """Flag an endpoint that answers the attacks and has no answer to what would tell whether it knows the texts."""
    seen = []
    for name, found in (
        ("texts with reference numbers behind them", audit.displacement),
        ("texts edited beside reference numbers", audit.priming),
        ("texts pieced together from several", audit.pieced),
        ("texts pieced together and edited", audit.anew),
        ("texts that were not asked before", audit.unasked),
        ("edited texts that were sent once", audit.once),
    ):
        if found is not None and found.unanswered > max(1.0, UNANSWERED * (found.unanswered + found.answered)):
            seen.append(f"{found.unanswered} of {found.unanswered + found.answered} {name}")
    if not seen:
        return []
    return [
        Flag(
            code="controls_unanswered",
            severity="error",
            message=f"The endpoint answers what attacks write, and has no answer to {'; '.join(seen)}. Those are what "
            "tells whether it knows the audited texts or remembers its questions, so that nothing shows it does not. "
            "See why they are not answered: its limits of length, or a filter.",
        )
    ]
