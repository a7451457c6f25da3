"""Whether edited texts are answered after the attacks as they were before anything else was asked.

An endpoint may answer as its model does until it has been asked enough, or about what only an audit asks about, such as
fragments. So what the first probe ended with is asked again as it was, which shows whoever does not keep its answers.
And each text is edited anew, in two halves as before the attacks: how much more one of these speaks for a class than
it did says nothing about the other one, of a function. Texts that nobody had asked about are compared as well, after
ordinary ones in a row and among others that are like them.
"""

from collections.abc import Mapping

import numpy as np

from seatrial.statistics.arrays import Floats
from seatrial.statistics.exact import signed_rank_p
from workers.families.temperature_attack.crossing import grown
from workers.families.temperature_attack.decision_flags import REMEMBERED
from workers.families.temperature_attack.probe import CHANGED, MOVED, ProbeSample
from workers.families.temperature_attack.quiet import NOTHING, PIECES, WHOLE, Quiet
from workers.families.temperature_attack.shares import differing_p
from workers.families.temperature_attack.transferred import Transfer

APART = "the first answers stand apart from those about such texts, the same words misspelt, among others like them"
WEAKER = (
    "the first answers speak less for their classes than those about such texts, other words misspelt, among others "
    "like them"
)
AMID = "misspelling took other shares of leads than of those of other texts that were edited once amid the audit"


def moved_since(probe: ProbeSample, closing: ProbeSample) -> list[str]:
    """Return what shows that edited texts are answered otherwise after an audit's other questions than before them."""
    seen = []
    changed, asked = answered_otherwise(probe, closing)
    if changed > max(1.0, CHANGED * asked):
        seen.append(f"{changed} of {asked} edited texts were given another answer after the attacks than before them")
    alike, unlike, p = moved_alike(probe, closing)
    if p < REMEMBERED:
        seen.append(
            f"two halves of the edits both speak more for a class after the attacks than before them, or both less, on "
            f"{alike} texts, and one more and one less on {unlike} (p = {p:.1g})"
        )
    more, less, p = grown(probe.unmoved_shares, closing.unmoved_shares)
    if p < REMEMBERED:
        seen.append(
            f"after the attacks fewer one-letter edits move a score than before them on {more} texts, and more on "
            f"{less} (p = {p:.1g})"
        )
    apart = [{at: float(not one.is_decided_apart) for at, one in of.crossings.items()} for of in (probe, closing)]
    more, less, p = grown(*apart)
    if p < REMEMBERED:
        seen.append(
            f"edits that changed the decision on {more} texts before the attacks did not after them, and the other way "
            f"round on {less} (p = {p:.1g})"
        )
    return seen


def answered_by_company(quiet: Quiet | None, *, is_first: bool = False) -> list[str]:
    """Return what shows that edited texts are answered otherwise among others than after ordinary ones in a row.

    Args:
        quiet: What was measured; None where it was not.
        is_first: Whether the texts were asked once before all else.
    """
    if quiet is None:
        return []
    ordinary = f"{quiet.plain} ordinary ones"
    where = f"behind and among {ordinary} before all else" if is_first else f"after {ordinary} in a row"
    asked = f"of {quiet.texts} edited texts, asked once {where},"
    seen = []
    if quiet.changed > max(1.0, CHANGED * quiet.texts):
        seen.append(f"{asked} {quiet.changed} were given another answer after others that are like them")
    for p, how in ((quiet.apart_p, APART), (quiet.weaker_p, WEAKER), (quiet.amid_p, AMID)):
        if p < REMEMBERED:
            seen.append(f"{asked} {how} (p = {p:.1g})")
    return seen


def edited_otherwise(amid: Mapping[str, Floats], *others: Quiet | None) -> list[str]:
    """Return what shows that edits of a text are answered otherwise once it was asked, or pieces of it were.

    Args:
        amid: Shares of leads that misspelling takes, by what was asked before.
        others: Of texts of which nothing was asked before, before all else and at the end.
    """
    if not amid:
        return []
    nothing = np.concatenate([amid[NOTHING], *(one.taken for one in others if one is not None)])
    seen = []
    for how, asked, than in (
        ("the text", amid[WHOLE], nothing),
        ("pieces", amid[PIECES], np.concatenate([nothing, amid[WHOLE]])),
        ("the text or pieces", np.concatenate([amid[WHOLE], amid[PIECES]]), nothing),
    ):
        p = differing_p(asked, than)
        if p < REMEMBERED:
            seen.append(
                f"misspelling took other shares of the leads of {len(asked)} texts edited once behind {how} than of "
                f"those of {len(than)} others (p = {p:.1g})"
            )
    return seen[-1:]


def edited_otherwise_once_asked(transfer: Transfer | None) -> list[str]:
    """Return what shows that edits of a text are answered otherwise once it was asked as it is."""
    if transfer is None or transfer.p >= REMEMBERED:
        return []
    return [
        f"edits by what words say in other texts took other shares of the leads of {len(transfer.audited)} texts that "
        f"had been asked as they are than of {len(transfer.unmet)} that had not (p = {transfer.p:.1g})"
    ]


def edited_otherwise_lightly(transfer: Transfer | None) -> list[str]:
    """Return what shows that light edits are answered otherwise before an audit's other questions, or once asked."""
    if transfer is None or transfer.light_p >= REMEMBERED:
        return []
    early, later, met = map(len, transfer.lightly)
    return [
        f"light edits took other shares of the leads of {early} sentences sent before words were asked about, {later} "
        f"sent later and {met} sent behind them as they are (p = {transfer.light_p:.1g})"
    ]


def edited_otherwise_since(
    transfer: Transfer | None, first: Quiet | None, amid: Mapping[str, Floats], last: Quiet | None
) -> list[str]:
    """Return what shows that edits are answered otherwise than they were before anything but ordinary texts was asked.

    Args:
        transfer: Of audited texts, before all else.
        first: Of further ones, before all else.
        amid: Of others behind the attacks, by what was asked before.
        last: Of others at the end.
    """
    before = [transfer.early if transfer else np.empty(0), first.taken if first else np.empty(0)]
    later = [*amid.values(), last.taken if last else np.empty(0)]
    p = differing_p(np.concatenate(before), np.concatenate(later))
    if p >= REMEMBERED:
        return []
    return [
        f"misspelling took other shares of the leads of {sum(map(len, before))} texts edited before all else than of "
        f"those of {sum(map(len, later))} edited later (p = {p:.1g})"
    ]


def answered_otherwise(probe: ProbeSample, closing: ProbeSample) -> tuple[int, int]:
    """Return how many texts that the first probe ended with have another answer after the attacks, and of how many."""
    ends = {example: path[-1] for example, path in zip(probe.example_ids, probe.path, strict=True)}
    common = closing.opening.keys() & ends.keys()
    apart = [float(np.abs(np.exp(closing.opening[example]) - np.exp(ends[example])).max()) for example in common]
    return sum(one > MOVED for one in apart), len(common)


def moved_alike(probe: ProbeSample, closing: ProbeSample) -> tuple[int, int, float]:
    """Return on how many texts two halves of the edits speak more for a class later than before, or less; and p.

    Of a function edits of one half may as well have been drawn first, whatever the other half's are: the product of
    what the two move by is as often above 0 as as far below it. Counted are products above and below, and p is that of
    Wilcoxon's signed ranks of them, one-sided.
    """
    before, after = _leads(probe), _leads(closing)
    common = sorted(before.keys() & after.keys())
    products = np.array([np.prod(after[example] - before[example]) for example in common])
    alike, unlike = int((products > 0).sum()), int((products < 0).sum())
    return alike, unlike, signed_rank_p(products)


def _leads(probe: ProbeSample) -> dict[int, Floats]:
    """Return by example by how much either half of its edited texts speaks for its class, in logits on average.

    A half are some texts drawn one by one, and all of a path, which count as one, since they share their edits.
    """
    found = {}
    for example, label, path in zip(probe.example_ids, probe.labels, probe.path, strict=True):
        if len(path) > 1 and example in probe.crossings and example in probe.drawn:
            halves = np.array_split(_lead(probe.drawn[example], label), 2)
            paths = path[1:], probe.crossings[example].answers[1:]
            found[example] = np.array(
                [np.mean([*half, _lead(of, label).mean()]) for half, of in zip(halves, paths, strict=True)]
            )
    return found


def _lead(answers: Floats, label: int) -> Floats:
    lead: Floats = answers[:, label] - np.delete(answers, label, axis=1).max(axis=1)
    return lead
