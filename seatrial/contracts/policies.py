"""What a gate asks of an audit's numbers, and what it answers.

A policy is data: rules on metric names. A verdict is what :mod:`seatrial.judging` makes of a policy and stored numbers;
HTTP, the command line, JUnit, SARIF, Markdown and the report all show that one.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Read, Real, Request
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.estimates import Estimate, Looks, split_name
from seatrial.contracts.family import Better, Metric
from seatrial.contracts.metric_ranges import foregone, reach_of
from seatrial.contracts.near_names import instead
from seatrial.contracts.registry import families, family, metrics_of

Severity = Literal["block", "warn"]
"""Whether a rule that does not hold keeps the model from shipping, or only warns."""

Outcome = Literal["passed", "failed", "inconclusive", "errored", "skipped"]
"""What became of a rule. `inconclusive`: the interval holds the bound; `errored`: the check failed, was cancelled or is
not to be relied on; `skipped`: nothing in the audit measures it. Only `passed` is good."""

Unmeasured = Literal["no_check", "not_set_to_measure", "no_baseline"]
"""Why a rule was skipped: no check of its family was run, those that were were not set to measure its number, or there
is nothing to compare it with."""

Verdict = Literal["passed", "failed", "inconclusive", "errored"]
"""Of a whole policy. `failed`: the model is bad; `errored`: nobody knows, something did not run; `inconclusive`: nobody
knows, more examples would tell."""

NAME = r"^[a-z][a-z0-9_-]{0,63}$"

_METRIC = re.compile(r"^(?P<family>[a-z_]+)\.(?P<name>[a-z0-9_]+)(?:\[.+\])?$")


class MetricName(NamedTuple):
    """A metric's full name, taken apart.

    Attributes:
        family: Kind of check.
        name: Name without qualifiers.
        qualifiers: By key; `*` stands for every value.
    """

    family: str
    name: str
    qualifiers: dict[str, str]


def parse_metric(text: str) -> MetricName:
    """Take a full metric name apart; numbers in qualifiers come out as results write them: 0.250 is 0.25.

    Raises:
        ValueError: It is not such a name, or no family publishes one like it.
    """
    found = _METRIC.match(text)
    if found is None:
        raise ValueError(f"a metric is family.name or family.name[key=value,...], got {text!r}")
    kind, (name, told) = found["family"], split_name(text)
    if kind not in families():
        raise ValueError(f"there is no family {kind!r}{instead(kind, families())}")
    if not all(told.values()):
        raise ValueError(f"qualifiers are key=value, got {text!r}")
    qualifiers = {key.strip(): _canonical(value.strip()) for key, value in told.items()}
    known = [metric for metric in metrics_of(kind) if metric.name == name]
    if not known:
        names = dict.fromkeys(metric.name for metric in metrics_of(kind))
        raise ValueError(f"{kind} has no metric {name!r}{instead(name, names, 'it has')}")
    if not any(metric.is_called(name, qualifiers) for metric in known):
        forms = ", ".join(
            f"{name}[{','.join(f'{key}=' for key in metric.qualifiers)}]" if metric.qualifiers else name
            for metric in known
        )
        raise ValueError(f"{kind}.{name} is published as {forms}")
    return MetricName(kind, name, qualifiers)


def _canonical(value: str) -> str:
    try:
        return f"{float(value):g}" if value.lower() not in ("nan", "inf", "infinity") else value
    except ValueError:
        return value


def _one_of_three(given: Any) -> Any:
    # Told once, and not by each of the two types.
    if isinstance(given, bool) or given == "if_run":
        return given
    raise PydanticCustomError("required_or_not", "Input should be true, false or 'if_run'")


Required = Annotated[bool | Literal["if_run"], BeforeValidator(_one_of_three)]


class Rule(Request):
    """One demand on one metric: exactly one of `max`, `min` and `max_regression`, that can hold and can fail."""

    metric: str = Field(
        max_length=200,
        description="Full name, `family.metric` or `family.metric[key=value,...]`; `*` as a qualifier's value means "
        "every value the audit has, each judged by itself.",
        examples=[next(f"{kind}.{spec.metrics[0].name}" for kind, spec in families().items())],
    )
    max: Real | None = Field(default=None, description="The metric must be at most this.")
    min: Real | None = Field(default=None, description="The metric must be at least this.")
    max_regression: Annotated[Real, Field(ge=0)] | None = Field(
        default=None,
        description="The metric may be worse than the baseline's by at most this, in its own unit; 0: not worse.",
    )
    severity: Severity = Field(
        default="block", description="`block` decides the verdict, `warn` is reported without deciding it."
    )
    undecided: Literal["inconclusive", "fail", "pass"] = Field(
        default="inconclusive",
        description="What the verdict makes of an interval that holds the bound: it stays open, or counts against or "
        "for the model. The rule's own outcome is told as `inconclusive` all the same.",
    )
    required: Required = Field(
        default=True,
        description="What becomes of an audit that does not measure it (or, for `max_regression`, of a model without a "
        "baseline). `true`: it cannot pass; `false`: it can; `if_run`: it can where no check of the family was run, so "
        "that nobody passes by running one that leaves this number out. What was asked for and failed to run never "
        "passes.",
    )
    interval: Literal["required", "ignored"] = Field(
        default="required",
        description="`required`: a number without an interval decides nothing; `ignored`: the value alone is compared, "
        "which no pipeline should do with a sample.",
    )
    label: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="What people read instead of the metric's name; by default what Seatrial calls the metric.",
    )

    @field_validator("metric")
    @classmethod
    def _is_published(cls, metric: str) -> str:
        named = parse_metric(metric)
        inside = ",".join(f"{key}={value}" for key, value in named.qualifiers.items())
        return f"{named.family}.{named.name}" + (f"[{inside}]" if inside else "")

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        asked = [name for name in ("max", "min", "max_regression") if getattr(self, name) is not None]
        if len(asked) != 1:
            raise ValueError(f"exactly one of max, min and max_regression, got {' and '.join(asked) or 'none'}")
        if self.max_regression is not None and better_of(self.metric) == "neither":
            raise ValueError(f"{self.metric} has no better and worse: give max or min instead of max_regression")
        return self

    @model_validator(mode="after")
    def _can_hold_and_fail(self) -> Self:
        reach = reach_of(described_metric(self.metric))
        for asked in ("max", "min", "max_regression"):
            bound = getattr(self, asked)
            fate = None if bound is None else foregone(reach, asked, bound)
            if fate is not None:
                raise PydanticCustomError(
                    "bound_tests_nothing",
                    "{metric} is {reach}: {asked} {bound} {fate}",
                    {
                        "metric": self.metric,
                        "reach": str(reach),
                        "asked": asked,
                        "bound": f"{bound:g}",
                        "fate": fate,
                        "path": [asked],
                    },
                )
        return self


def better_of(metric: str) -> Better:
    """Return which way of a metric is good for the model."""
    return described_metric(metric).better


def described_metric(metric: str) -> Metric:
    """Return what a family says of a metric, by its full name.

    Raises:
        ValueError: No family publishes it.
    """
    named = parse_metric(metric)
    found = family(named.family).find_metric(named.name, named.qualifiers)
    if found is None:
        raise AssertionError("unreachable: parsing has found it")
    return found


class Policy(Request):
    """Rules a model must hold to ship; at least one of them blocks."""

    name: str = Field(pattern=NAME, description="Name; the same name again is its next version.", examples=["release"])
    description: str = Field(default="", max_length=2000, description="For people.")
    rules: list[Rule] = Field(min_length=1, max_length=200, description="What must hold.")
    correction: Literal["none", "holm"] = Field(
        default="none",
        description="`holm`: the chance that any of the rules that block is decided wrongly stays below 5 % together "
        "(Holm 1979), instead of each by itself; more rules stay open. Rules that warn are decided by themselves.",
    )
    doubts: Literal["error", "relevant", "warning", "ignored"] = Field(
        default="error",
        description="Which flags of a check make its rules `errored` where they would have passed: robustness that "
        "hides its gradients is not shown. Those of severity `error`; `relevant`: of these, and of warnings those that "
        "speak of the very metric a rule is about; `warning`: both, whatever they speak of; or none.",
    )
    baseline: str = Field(default="champion", pattern=NAME, description="Which baseline `max_regression` looks at.")
    checks: list[CheckParams] = Field(
        default_factory=list,
        max_length=16,
        exclude_if=lambda checks: not checks,
        description="What the rules are about, as an audit asks for it: `seatrial gate` runs it, and a rule about a "
        "family named here is judged of such checks alone, so that nobody passes it with a smaller radius. Without "
        "any, of whatever was run.",
    )

    @field_validator("rules")
    @classmethod
    def _one_blocks(cls, rules: list[Rule]) -> list[Rule]:
        if all(rule.severity == "warn" for rule in rules):
            raise ValueError("at least one rule must block: a gate that cannot fail tests nothing")
        return rules


def _kind_of_reference(given: Any) -> str | None:
    if isinstance(given, str):
        return "a reference"
    return "a policy" if isinstance(given, Policy | dict) else None


# Told apart before they are read, so that a refusal is about what was given and not also about what was not.
PolicyReference = Annotated[
    Annotated[str, Field(min_length=1, max_length=100), Tag("a reference")] | Annotated[Policy, Tag("a policy")],
    Discriminator(
        _kind_of_reference,
        custom_error_type="policy_reference",
        custom_error_message="a policy is given by its id or name, or as an object with name and rules",
    ),
]
"""A policy, or what one is found by: id, name, `name@version`."""


class GateFile(Policy):
    """The file of ``seatrial gate``: a policy, and how it is run, in one file of a repository."""

    samples: int | None = Field(default=None, ge=2, le=1_000_000, description="Examples drawn; default: the audit's.")
    seed: int | None = Field(default=None, ge=0, le=2**53 - 1, description="Seed; default: the audit's.")
    stop: Literal["decided"] | None = Field(
        default=None, description="`decided`: stop once the rules that block are decided, as in an audit."
    )

    def policy(self) -> Policy:
        """Return what is judged by, without how it is run."""
        return Policy.model_validate(self.model_dump(exclude={"samples", "seed", "stop"}))


class PolicyRead(Read):
    """A stored policy: one version of it."""

    id: str = Field(description="Identifier of this version.", examples=["pol_..."])
    name: str = Field(description="Name.")
    version: int = Field(ge=1, description="Counts from 1 within the name.")
    digest: str = Field(description="SHA-256 of the document.")
    document: dict[str, Any] = Field(description="The policy, defaults filled in.")
    created_at: datetime | None = Field(description="When it was stored (UTC); null for one that is shipped.")


class PolicySource(Read):
    """Which policy a verdict is of."""

    id: str | None = Field(description="Id of the stored version; null for a policy given in the request, or shipped.")
    name: str = Field(description="Name.")
    version: int | None = Field(description="Version; null for one given in the request or shipped.")
    digest: str = Field(description="SHA-256 of the document.")
    description: str = Field(
        default="",
        exclude_if=lambda description: not description,
        description="What the policy is for, as it says itself; absent where it says nothing.",
    )


class RuleOutcome(Read):
    """What became of one rule on one number."""

    rule: int = Field(ge=0, description="Position of the rule in the policy.")
    label: str = Field(description="What people read: the rule's label, or what Seatrial calls its metric.")
    metric: str = Field(description="Full name of the number, no `*` in it where there is a number.")
    severity: Severity = Field(description="`block` or `warn`.")
    requirement: str = Field(description="What was asked, in words.", examples=["at most 0.05"])
    bound: float = Field(description="What the number is held against.")
    unit: str = Field(default="", description="Unit of the number and its bound; `1` for a share.", examples=["nat"])
    highest: float | None = Field(
        default=None,
        description="The largest value there is, of a number from 0 that is no share: value and bound can be read as "
        "shares of it.",
    )
    outcome: Outcome = Field(description="`passed`, `failed`, `inconclusive`, `errored` or `skipped`.")
    counts_as: Outcome = Field(description="The same after `undecided`: what the verdict is made from.")
    estimate: Estimate | None = Field(description="The metric as measured; null where there is none.")
    baseline: Estimate | None = Field(default=None, description="The baseline's, for a regression.")
    judged: Estimate | None = Field(
        description="What was compared with the bound: the metric itself, or how much worse than the baseline it is."
    )
    p_value: float | None = Field(
        default=None,
        description="Smallest error rate at which the rule would be decided; of rules that block, with `holm`, "
        "adjusted.",
    )
    further_examples: int | None = Field(
        default=None,
        description="Examples beside those there are that would probably decide it (four times in five, if the value "
        "stays); null where it is decided or no number would do.",
    )
    further_survivors: int | None = Field(
        default=None,
        exclude_if=lambda survivors: survivors is None,
        description="Of a robust accuracy measured in two phases: the examples that stand after the first which the "
        "second would attack beside those it did, with `further_examples` more in the first; the cheapest such pair. "
        "Absent from other rules.",
    )
    available_examples: int | None = Field(
        default=None,
        description="Beside `further_examples`: what the dataset holds beside those audited. With fewer than are "
        "wanted a larger dataset is needed.",
    )
    reason: str = Field(description="Why, in a sentence.")
    unmeasured: Unmeasured | None = Field(
        default=None,
        exclude_if=lambda unmeasured: unmeasured is None,
        description="Of a skipped rule: `no_check` of its family was run, its checks were `not_set_to_measure` the "
        "number, or it has `no_baseline`; absent from others.",
    )
    looks: Looks | None = Field(
        default=None,
        exclude_if=lambda looks: looks is None,
        description="Of an audit that stops when it is decided: at how many examples the number was judged, and the "
        "error rate spent at each look; absent from others.",
    )


class Judgement(Read):
    """What a policy makes of an audit."""

    id: str | None = Field(default=None, description="Identifier, once stored.", examples=["jdg_..."])
    audit: str | None = Field(default=None, description="The audit judged.")
    verdict: Verdict = Field(description="`passed`, `failed`, `inconclusive` or `errored`.")
    headline: str = Field(description="The verdict in one sentence.")
    rules: list[RuleOutcome] = Field(description="One for each rule and number it names, in the policy's order.")
    policy: PolicySource = Field(description="The policy.")
    baseline: str | None = Field(default=None, description="The audit it was compared with.")
    judged_at: datetime | None = Field(default=None, description="When (UTC).")


class JudgementRequest(Request):
    """Which policy to judge an audit by."""

    policy: PolicyReference = Field(
        description="Id of a policy, a name (its newest version), `name@version`, a shipped one (`lenient`, "
        "`standard`, `strict`), or a policy itself.",
        examples=["standard"],
    )
    baseline: str | None = Field(
        default=None,
        max_length=100,
        description="Audit to compare with, or the name of a baseline of the model. Default: the policy's.",
    )


class BaselineCreate(Request):
    """An audit to compare later ones with."""

    audit: str = Field(pattern=r"^aud_", max_length=100, description="A succeeded audit of the model.")
    name: str = Field(default="champion", pattern=NAME, description="Name of the baseline.")
    note: str = Field(default="", max_length=2000, description="Why, for people.")


class BaselineRead(Read):
    """A baseline as promoted once; the newest of a model and a name is the one in force."""

    id: str = Field(description="Identifier.", examples=["bas_..."])
    name: str = Field(description="Name.")
    model: str = Field(description="Name of the model, over its versions.")
    audit: str = Field(description="The audit.")
    note: str = Field(description="Why.")
    is_current: bool = Field(description="Whether it is the newest of its model and name.")
    created_at: datetime = Field(description="When it was promoted (UTC).")
