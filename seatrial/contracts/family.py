"""What a family declares: one :class:`FamilySpec`, which is all that the rest of the house reads of it.

A family is two folders: a torch-free one (parameters, metrics, flags, sentences) and one that measures. Nothing outside
of them names a family: gates, console, reports, estimates and workers ask :mod:`seatrial.contracts.registry`. The types
stand here, below the families, so that requests can be about checks without importing any.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from seatrial.contracts.base import Request
from seatrial.contracts.controls import Evidence
from seatrial.contracts.costs import Passes, StageCosts
from seatrial.contracts.estimates import Result
from seatrial.contracts.formulas import Formula as Formula
from seatrial.contracts.formulas import difference as difference
from seatrial.contracts.formulas import equals as equals
from seatrial.contracts.formulas import formula as formula
from seatrial.contracts.formulas import value as value
from seatrial.contracts.plugins import Plugin
from seatrial.contracts.stopping import Stopping

Better = Literal["higher", "lower", "neither"]
Severity = Literal["info", "warning", "error"]
Range = tuple[float, float]
Limits = tuple[float | None, float | None]
"""Least and largest value; None where there is no end, or none that is known."""
Qualifiers = Mapping[str, str]

SHARE: Limits = (0.0, 1.0)
SIGNED_SHARE: Limits = (-1.0, 1.0)
"""A share less another, a correlation, a signed error."""
FROM_ZERO: Limits = (0.0, None)
UNLIMITED: Limits = (None, None)


class FamilyParams(Request):
    """Base of a family's parameters; a field ``kind``, a ``Literal`` of the family's slug, comes first."""

    if TYPE_CHECKING:
        kind: str

    def references(self) -> dict[str, str]:
        """Return ids of further models (``mdl_``) and datasets (``dat_``) by the parameter that names them."""
        return {}

    def plugins(self) -> dict[str, Plugin]:
        """Return what it names that packages bring by entry point, by JSON pointer; what is shipped is none."""
        return {}

    @property
    def phase_prices(self) -> tuple[float, float] | None:
        """What one more example costs in either of two phases of the family's own, in passes; None: it has none."""
        return None

    def held_out(self) -> int:
        """Return how many examples of the audit's dataset are needed beside its sample."""
        return 0

    def questions(self, samples: int, sizes: dict[str, int]) -> Passes:
        """Return the same where the model gives no gradients, by default what it takes with them.

        Args:
            samples: Examples audited.
            sizes: Examples of each further dataset.
        """
        return self.passes(samples, sizes)

    @abstractmethod
    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return what the check takes at most.

        Args:
            samples: Examples audited.
            sizes: Examples of each further dataset of :meth:`references`, by the same keys.
            mean_words: Mean words of a text; None where it is not known, or where there are no texts.
        """


@dataclass(frozen=True)
class Measurement:
    """One number of a check that has been run.

    Attributes:
        qualifiers: Of the metric.
        params: Of the check, as stored.
        result: Of the check; None where it has none.
    """

    qualifiers: Qualifiers
    params: Mapping[str, Any]
    result: Result | None


@dataclass(frozen=True)
class Dependence:
    """Which parameters a metric depends on; made by :func:`only` and :func:`all_but`."""

    names: frozenset[str]
    is_all_but: bool

    def __contains__(self, parameter: str) -> bool:
        """Tell whether a metric depends on a parameter.

        >>> "epsilon" in all_but("bins"), "epsilon" in only("bins")
        (True, False)
        """
        return (parameter in self.names) != self.is_all_but


def only(*parameters: str) -> Dependence:
    """Return that a metric depends on these parameters and no others."""
    return Dependence(frozenset(parameters), is_all_but=False)


def all_but(*parameters: str) -> Dependence:
    """Return that a metric depends on all parameters but these, those of later versions among them."""
    return Dependence(frozenset(parameters), is_all_but=True)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number a family publishes, under one name and one set of qualifiers.

    Attributes:
        name: Name without qualifiers.
        qualifiers: Their keys, in the order they are written.
        same_as: The number it is another name of, with its qualifiers: lists of many numbers have one of both.
        unit: Unit of the value; "1" for a share.
        better: Which way is good for the model.
        description: One sentence, with the source.
        label: What people call it, a noun phrase with the qualifiers in it, as in ``{arm}``: what a rule is called that
            has no label of its own. By default the name in words.
        claim: A clause for the headline of a verdict, with ``{value}`` and the qualifiers in it.
        range: Between which values it always lies.
        limits: The same, once a check has been run; by default the range.
        example_range: Least and largest value one example can have in a check that has been run, None where that is not
            known: what a bootstrap cannot see in a sample. By default the range, where both ends are known.
        examples: How many examples it rests on where its ``n`` adds up two samples.
        is_fixed: Whether it rests on the same examples however many are drawn.
        per_example: What an example contributes, where it is a mean over examples, or over the decisions about them:
            what gates resample and compare in pairs. A :class:`Formula`, or "module:attribute" of one or of a function
            of :class:`seatrial.families.shared.per_example.Records`. None of what is no such mean: two audits are
            compared by their intervals then.
        values: Values its qualifiers take, by key. Where these are known, and where there are none, a number with
            ``per_example`` need not be worked out by the family: workers publish what it leaves out.
        depends_on: Parameters that change what it means, which may follow from its qualifiers. Everything by default:
            a parameter nobody thought of keeps two audits apart instead of mixing them up.
    """

    name: str
    unit: str
    better: Better
    description: str
    qualifiers: tuple[str, ...] = ()
    same_as: str = ""
    label: str = ""
    claim: str = ""
    range: Limits = SHARE
    limits: Callable[[Measurement], Limits] | None = None
    example_range: Callable[[Measurement], Range | None] | None = None
    examples: Callable[[Result], int] | None = None
    is_fixed: bool = False
    per_example: Formula | str | None = None
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    depends_on: Dependence | Callable[[Qualifiers], Dependence] = field(default_factory=all_but)

    def is_called(self, name: str, qualifiers: Iterable[str]) -> bool:
        """Tell whether it is published under a name with these qualifiers, in whatever order."""
        return self.name == name and set(self.qualifiers) == set(qualifiers)

    def depends(self, qualifiers: Qualifiers) -> Dependence:
        """Return which parameters change what it means."""
        return self.depends_on if isinstance(self.depends_on, Dependence) else self.depends_on(qualifiers)


@dataclass(frozen=True, kw_only=True)
class FlagSpec:
    """A doubt about numbers that somebody may raise.

    Attributes:
        code: Snake-case name, stable across versions.
        severities: How grave it can be, the gravest first; ``error``: the numbers must not be relied on.
        speaks_of: Metrics it is about, ``*`` standing for any part of a name.
        shown_by: Those of them whose value says what was seen, so that it is no doubt about these: a gap it measures.
        spares: Metrics that stand although it is an error: what was measured before anything was attacked.
        meaning: What was seen, and what that means for the numbers.
        remedy: What to do about it.
        of_scope: Whether it is of what was asked, such as a small radius, and not of how well it was measured: no doubt
            where a policy names the check itself.
    """

    code: str
    severities: tuple[Severity, ...]
    speaks_of: tuple[str, ...]
    meaning: str
    remedy: str
    shown_by: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    of_scope: bool = False

    def is_about(self, metric: str) -> bool:
        """Tell whether it speaks of a metric, by its name without family and qualifiers."""
        return any(fnmatchcase(metric, pattern) for pattern in self.speaks_of)

    def doubts(self, metric: str) -> bool:
        """Tell whether it keeps a metric's value from being taken for what it says, by the same name.

        >>> said = {"code": "c", "severities": (), "speaks_of": ("*",), "meaning": "", "remedy": ""}
        >>> seen = FlagSpec(**said, shown_by=("a*",))
        >>> seen.doubts("accuracy"), seen.doubts("gap")
        (False, True)
        """
        return self.is_about(metric) and not any(fnmatchcase(metric, pattern) for pattern in self.shown_by)


@dataclass(frozen=True)
class HeldOut:
    """How examples are set apart.

    Attributes:
        number: Parameter that says how many.
        dataset: Parameter that names a dataset to take them from instead.
    """

    number: str
    dataset: str


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a family needs of a model and of the data.

    Attributes:
        gradients: Whether the model's weights: an endpoint will not do.
        held_out: How examples are set apart, where some are.
        training: Parameters naming datasets that something learns from: of the model's shape, all in memory at once.
    """

    gradients: bool = False
    held_out: HeldOut | None = None
    training: tuple[str, ...] = ()


@dataclass(frozen=True)
class Situation:
    """What a check is asked of, as far as the database tells.

    Attributes:
        model: Id of the model.
        task: What it does.
        shape: Of the images (channels, height, width), where there are any of one shape.
        samples: Examples audited.
        sizes: Examples of each further dataset, by the parameter that names it.
        most_bytes: Bytes of images that a worker holds at once.
        has_gradients: Whether the model can be differentiated: an endpoint cannot.
        passes: Forward passes whose mean is a prediction, of an ensemble or with Monte-Carlo dropout.
    """

    model: str
    task: str
    shape: list[int] | None
    samples: int
    sizes: Mapping[str, int]
    most_bytes: int
    has_gradients: bool = True
    passes: int = 1


class Misfit(NamedTuple):
    """Why a check cannot be run.

    Attributes:
        detail: Sentences for people.
        parameter: Path of the parameter at fault, like ``attackers/1``; empty for the check as a whole.
        is_mismatch: Whether model and check are for different things, rather than the numbers out of proportion.
    """

    detail: str
    parameter: str = ""
    is_mismatch: bool = False


def nothing_misfits(params: Any, situation: Situation) -> Iterator[Misfit]:
    """Find nothing."""
    return iter(())


def as_stored(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters as they are."""
    return params


@dataclass(frozen=True, kw_only=True)
class FamilySpec:
    """A family: what it asks, what it publishes, and where the rest of it is.

    Attributes:
        kind: Its slug, which is also the name of its entry point.
        params: Its parameters.
        tasks: What the models it audits do.
        metrics: What it publishes; a name with two sets of qualifiers is two metrics.
        flags: Doubts it may raise.
        worker: The measuring half, a :class:`workers.families.protocol.Family`, as "module:attribute".
        narrative: What it says of a result, a module with the functions of
            :class:`seatrial.families.narratives.Narrative`. Without one its numbers stand for themselves.
        extra: Extra of this distribution whose packages its worker needs, beside those every worker does; none of
            another distribution, which asks for its own.
        needs: What it needs of model and data.
        misfits: What else keeps a check from being run: (parameters, :class:`Situation`) to :class:`Misfit` s.
        canonical: (name, qualifiers, parameters as stored with defaults filled in) to the parameters in one way of
            writing, so that two that mean the same of a metric are equal.
        formerly: What checks did that were made before a parameter was there, where that is not its default.
        unset: What parameters that are not given stand for, in words.
        starting: What stands in a form where parameters have no default.
        stopping: Whether its checks can stop when they are decided.
        stage_costs: (parameters as stored, examples audited) to :data:`seatrial.contracts.costs.StageCosts`.
        unlike_hardware: Largest difference between numbers of one check, records included, that processors or GPUs of
            other types than those that measured it make; a replay there allows it unless it is told otherwise.
        attacked: Parameters as stored, with what was done where one was not there yet, to how a check attacks its
            examples, a phrase after "Attacked"; empty where it attacks none. By default the ball of parameters ``norm``
            and ``epsilon``, where it has these.
        glossary: Terms of its report that are not in everybody's, with their meanings.
        evidence: Which of its numbers speak for which controls of published frameworks.
        not_for: Why it does not audit what another task's models do, by task, where there is more to say.
        audit_examples: Bodies of audits for the documentation, without model and dataset, by what they ask.
        policy_examples: Bodies of policies, likewise.
    """

    kind: str
    params: type[FamilyParams]
    tasks: tuple[str, ...]
    metrics: tuple[Metric, ...]
    flags: tuple[FlagSpec, ...]
    worker: str
    narrative: str = ""
    extra: str = ""
    needs: Needs = Needs()
    misfits: Callable[[Any, Situation], Iterator[Misfit]] = nothing_misfits
    canonical: Callable[[str, Qualifiers, Mapping[str, Any]], Mapping[str, Any]] = as_stored
    formerly: Mapping[str, Any] = field(default_factory=dict)
    unset: Mapping[str, str] = field(default_factory=dict)
    starting: Mapping[str, Any] = field(default_factory=dict)
    stopping: Stopping = field(default_factory=Stopping)
    stage_costs: Callable[[Mapping[str, Any], int], StageCosts] | None = None
    unlike_hardware: float = 0.0
    attacked: Callable[[Mapping[str, Any]], str] | None = None
    glossary: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    not_for: Mapping[str, str] = field(default_factory=dict)
    audit_examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policy_examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def find_metric(self, name: str, qualifiers: Iterable[str]) -> Metric | None:
        """Return the metric of a name and keys of qualifiers; None where there is none."""
        keys = set(qualifiers)
        return next((metric for metric in self.metrics if metric.is_called(name, keys)), None)


def load(reference: str) -> Any:
    """Return what a "module:attribute" names; a module where there is no attribute.

    Raises:
        ImportError, AttributeError: There is none.
    """
    module, _, attribute = reference.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found
