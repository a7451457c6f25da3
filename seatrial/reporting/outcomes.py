"""What every output says of a judgement, in one place.

HTML, Markdown, JUnit and SARIF print the verdict of :mod:`seatrial.judging`; none of them makes one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Judgement, RuleOutcome, Unmeasured
from seatrial.reporting.numbers import format_aligned, format_bound, format_estimate, format_interval

Level = Literal["none", "note", "warning", "error"]
"""How serious an outcome is to a pipeline. Only `error` blocks; `warning` and `note` are reported."""


@dataclass(frozen=True)
class Judged:
    """A judgement and the policy it is of.

    Attributes:
        judgement: The verdict with all it rests on.
        document: The policy as it was stored; one of an older version may hold what this version no longer reads.
    """

    judgement: Judgement
    document: Mapping[str, Any]

    def rule(self, outcome: RuleOutcome) -> Mapping[str, Any]:
        """Return the policy's rule an outcome is of."""
        rules = self.document.get("rules") or []
        return rules[outcome.rule] if outcome.rule < len(rules) else {}


def level(outcome: RuleOutcome) -> Level:
    """Return how serious an outcome is to a pipeline: anything but `error` leaves the verdict passed."""
    if outcome.counts_as == "passed":
        return "none" if outcome.outcome == "passed" else "note"
    # What is skipped and required counts as errored.
    if outcome.counts_as == "skipped":
        return "none"
    if outcome.severity == "block":
        return "error"
    return "note" if outcome.counts_as == "inconclusive" else "warning"


def is_silent(judgement: Judgement) -> bool:
    """Return whether the verdict is not passed though no outcome keeps it from passing: nothing was tested."""
    return judgement.verdict != "passed" and all(level(outcome) != "error" for outcome in judgement.rules)


def measured(outcome: RuleOutcome) -> str:
    """Return what was measured and what was judged, each with its interval.

    The judged interval may be wider than the measured one; for a regression it is that of the loss.

    >>> from seatrial.contracts.estimates import Estimate
    >>> mus = Estimate(value=0.41, low=0.38, high=0.44, n=500, method="bootstrap")
    >>> said = {"rule": 0, "label": "span", "metric": "a.mus", "severity": "block", "bound": 0.3}
    >>> said |= {"requirement": "at most 0.3", "outcome": "failed", "counts_as": "failed", "reason": "Too large."}
    >>> measured(RuleOutcome(**said, estimate=mus, judged=mus))
    '0.4100 [0.3800, 0.4400], n = 500'
    >>> measured(RuleOutcome(**said, estimate=None, judged=None))
    'not measured'
    """
    if outcome.estimate is None:
        return "not measured"
    text = format_estimate(outcome.estimate)
    if outcome.highest is not None and outcome.estimate.value is not None:
        text += f" {outcome.unit}, {share_of_range(outcome.estimate.value, outcome.highest)}"
    text += f", n = {outcome.estimate.n:,}" if outcome.estimate.n else ""
    if outcome.baseline is not None:
        text += f"; baseline {format_estimate(outcome.baseline)}"
        if outcome.judged is not None:
            text += f"; {format_loss(outcome.judged)}"
    elif outcome.judged is not None and format_interval(outcome.judged) != format_interval(outcome.estimate):
        text += f"; judged by {format_interval(outcome.judged) or 'no interval'}"
    return text


def format_loss(loss: Estimate) -> str:
    """Write how much worse than the baseline a number is; below 0 it is better, and so are the ends turned.

    >>> format_loss(Estimate(value=-0.05, low=-0.2, high=0.08, n=60, method="mover"))
    'better by 0.0500 [-0.0800, 0.2000]'
    """
    if loss.value is not None and loss.value < 0:
        return f"better by {format_estimate(loss.negative())}"
    return f"worse by {format_estimate(loss)}"


def further_in_words(further: int, left: int | None, survivors: int | None = None) -> str:
    """Say how many more examples would decide a rule, and where the dataset does not hold as many.

    Args:
        further: Examples beside those there are.
        left: What the dataset holds beside those audited; None where that is not known.
        survivors: Of a share measured in two phases, more of those for the second.

    >>> further_in_words(1400, 300), further_in_words(20, None)
    ('about 1,400 more examples would probably decide it, and the dataset holds only 300 more', \
'about 20 more examples would probably decide it')
    >>> further_in_words(0, 300, 450)
    'about 450 more survivors would probably decide it'
    >>> further_in_words(37_571, None)
    'about 38,000 more examples would probably decide it'
    """
    more = [(further, "example")] if further or not survivors else []
    more += [(survivors, "survivor")] if survivors else []
    asked = " and ".join(f"{rounded_up(number):,} more {noun}{'' if number == 1 else 's'}" for number, noun in more)
    told = f"about {asked} would probably decide it"
    if left is None or further <= left:
        return told
    return f"{told}, and the dataset holds {f'only {left:,}' if left else 'no'} more"


def rounded_up(number: int) -> int:
    """Return a number of two digits followed by zeros: how many more it takes is known no better."""
    step: int = 10 ** max(len(str(number)) - 2, 0)
    return math.ceil(number / step) * step


def units_in_words(judgement: Judgement) -> list[str]:
    """Return what the units of a verdict's numbers are, a sentence each: of those that not everybody knows.

    >>> from seatrial.contracts.policies import PolicySource
    >>> mus = Estimate(value=0.4, low=0.3, high=0.5, n=500, method="bootstrap")
    >>> said = {"rule": 0, "label": "span", "metric": "a.mus", "severity": "block", "bound": 0.6, "reason": "Small."}
    >>> said |= {"requirement": "at most 0.6", "outcome": "passed", "counts_as": "passed", "judged": mus}
    >>> rules = [RuleOutcome(**said, estimate=mus, unit="nat", highest=2.302585)]
    >>> units_in_words(Judgement.model_construct(rules=rules))
    ['Uncertainty is measured as entropy, in nat: 0 is certain, 2.30 is all classes equally likely.']
    """
    highest = {outcome.highest for outcome in applied(judgement) if outcome.unit == "nat" and outcome.highest}
    return [
        f"Uncertainty is measured as entropy, in nat: 0 is certain, {most:.2f} is all classes equally likely."
        for most in sorted(highest)
    ]


def required(outcome: RuleOutcome) -> str:
    """Return what a rule asks, with its unit, and as a share of the range where a value is told as one.

    >>> said = {"rule": 0, "label": "span", "metric": "a.mus", "severity": "block", "bound": 0.6, "reason": "None."}
    >>> said |= {"requirement": "at most 0.6", "outcome": "failed", "counts_as": "failed", "judged": None}
    >>> required(RuleOutcome(**said, estimate=None, unit="nat", highest=2.4))
    'at most 0.6 nat (25% of the range)'
    """
    if outcome.highest is None or outcome.baseline is not None:
        return outcome.requirement
    return f"{outcome.requirement} {outcome.unit} ({share_of_range(outcome.bound, outcome.highest)})"


def share_of_range(value: float, highest: float) -> str:
    """Write a number as a share of the largest there is.

    >>> share_of_range(0.6, 2.4), share_of_range(0.008, 2.4), share_of_range(0.0, 2.4)
    ('25% of the range', 'under 1% of the range', '0% of the range')
    """
    share = 100 * value / highest
    return f"{'under 1' if 0 < share < 0.5 else f'{share:.0f}'}% of the range"


def applied_rules(outcomes: Iterable[RuleOutcome]) -> set[int]:
    """Return the positions of rules that found something to judge, or that nothing to judge counts against."""
    return {outcome.rule for outcome in outcomes if outcome.counts_as != "skipped"}


def not_measured(judgement: Judgement) -> list[RuleOutcome]:
    """Return the outcomes of rules that do not apply, which the policy allows: outputs fold them into a line."""
    there = applied_rules(judgement.rules)
    return [outcome for outcome in judgement.rules if outcome.rule not in there]


def applied(judgement: Judgement) -> list[RuleOutcome]:
    """Return those of the other rules, in the order of the policy."""
    there = applied_rules(judgement.rules)
    return [outcome for outcome in judgement.rules if outcome.rule in there]


_UNMEASURED: tuple[tuple[Unmeasured | None, str, str], ...] = (
    ("no_check", "is about a check that was not run ({})", "are about checks that were not run ({})"),
    ("not_set_to_measure", "asks for more than {} was set to measure", "ask for more than {} was set to measure"),
    ("no_baseline", "has no baseline to compare {} with", "have no baseline to compare {} with"),
    # Of a judgement that an earlier version stored.
    (None, "found nothing to judge ({})", "found nothing to judge ({})"),
)


def not_measured_in_words(outcomes: Sequence[RuleOutcome]) -> str:
    """Say which rules found nothing to judge: of checks that were not run, and those that ask for more of one that was.

    >>> said = {"label": "span", "severity": "block", "bound": 0.3, "requirement": "at most 0.3"}
    >>> said |= {"outcome": "skipped", "counts_as": "skipped", "judged": None, "estimate": None, "reason": "..."}
    >>> absent = RuleOutcome(**said, rule=0, metric="a.mus", unmeasured="no_check")
    >>> another = RuleOutcome(**said, rule=1, metric="a.msus", unmeasured="no_check")
    >>> unasked = RuleOutcome(**said, rule=2, metric="b.parts", unmeasured="not_set_to_measure")
    >>> of_before = RuleOutcome(**said, rule=3, metric="b.parts")
    >>> alone = RuleOutcome(**said, rule=4, metric="b.mus", unmeasured="no_baseline")
    >>> not_measured_in_words([absent])
    '1 rule does not apply to this audit: it is about a check that was not run (a).'
    >>> not_measured_in_words([absent, another, unasked])
    '3 rules do not apply to this audit: 2 are about checks that were not run (a), and 1 asks for more than b was set \
to measure.'
    >>> not_measured_in_words([absent, unasked, alone]).partition(": ")[2]
    '1 is about a check that was not run (a), 1 asks for more than b was set to measure, and 1 has no baseline to \
compare b with.'
    >>> not_measured_in_words([of_before])
    '1 rule does not apply to this audit: it found nothing to judge (b).'
    """
    # A rule that names several numbers counts once, as it does in the headline.
    rules = list({outcome.rule: outcome for outcome in outcomes}.values())

    def family(outcome: RuleOutcome) -> str:
        return outcome.metric.partition(".")[0]

    told = []
    for cause, one, several in _UNMEASURED:
        if some := [outcome for outcome in rules if outcome.unmeasured == cause]:
            count = ("it" if len(some) == 1 else "they") if len(some) == len(rules) else f"{len(some):,}"
            names = ", ".join(dict.fromkeys(map(family, some)))
            told.append(f"{count} {(one if len(some) == 1 else several).format(names)}")
    count = f"{len(rules):,} {'rule does' if len(rules) == 1 else 'rules do'} not apply to this audit"
    return f"{count}: {_listed(told)}."


def _listed(clauses: Sequence[str]) -> str:
    """Return clauses as a list of which the last alone has an "and"."""
    *first, last = clauses
    return f"{', '.join(first)}, and {last}" if first else last


def counted(outcome: RuleOutcome) -> str:
    """Return the outcome, and what it counts as where that is something else."""
    if outcome.outcome == outcome.counts_as:
        return outcome.outcome
    return f"{outcome.outcome}, counted as {outcome.counts_as}"


def policy_name(judgement: Judgement) -> str:
    """Return the name of the policy, with its version if it has one."""
    version = judgement.policy.version
    return judgement.policy.name if version is None else f"{judgement.policy.name}@{version}"


@dataclass(frozen=True)
class Gauge:
    """An interval and a bound on a line, in per cent of its length.

    Attributes:
        left: Where the interval begins.
        width: How long it is.
        mark: Where the value is.
        bound: Where the bound is.
        label: The same in words.
    """

    left: float
    width: float
    mark: float
    bound: float
    label: str


def gauge(outcome: RuleOutcome) -> Gauge | None:
    """Return what was judged beside its bound, to be drawn; None where there is no interval.

    >>> from seatrial.contracts.estimates import Estimate
    >>> mus = Estimate(value=0.4, low=0.3, high=0.5, n=500, method="bootstrap")
    >>> said = {"rule": 0, "label": "span", "metric": "a.mus", "severity": "block", "bound": 0.1}
    >>> said |= {"requirement": "at most 0.1", "outcome": "failed", "counts_as": "failed", "reason": "Too large."}
    >>> gauge(RuleOutcome(**said, estimate=mus, judged=mus)).label
    '0.3000 to 0.5000, around 0.4000; the bound is 0.1'
    """
    judged = outcome.judged
    if judged is None or judged.value is None or judged.low is None or judged.high is None:
        return None
    lowest, highest = min(judged.low, outcome.bound), max(judged.high, outcome.bound)
    margin = 0.1 * (highest - lowest) or 1.0
    start, length = lowest - margin, highest - lowest + 2 * margin

    def place(value: float) -> float:
        return 100 * (value - start) / length

    low, high, value = format_aligned([judged.low, judged.high, judged.value])
    return Gauge(
        left=place(judged.low),
        width=place(judged.high) - place(judged.low),
        mark=place(judged.value),
        bound=place(outcome.bound),
        label=f"{low} to {high}, around {value}; the bound is {format_bound(outcome.bound)}",
    )
