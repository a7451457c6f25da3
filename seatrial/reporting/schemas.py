"""A report as data: the JSON answer, and what the HTML page is rendered from."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from seatrial.contracts.audits import Reused
from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Estimate, Flag, Looks
from seatrial.contracts.meters import Meters
from seatrial.contracts.policies import Judgement
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

Standing = Literal["real", "partly", "not_real", "unproven", "pending"]
"""Whether the confidence shown is real: `unproven` when the numbers cannot be relied on, `pending` before any."""


class Answer(Read):
    """Whether the confidence the model shows is real: the question behind every check."""

    standing: Standing = Field(description="`real`, `partly`, `not_real`, `unproven` (doubtful numbers) or `pending`.")
    headline: str = Field(description="The answer in one sentence.")
    findings: list[str] = Field(description="What it rests on, a sentence each.")


class Scale(Read):
    """A range an attacker controls, on the scale of everything possible; drawn as a bar."""

    label: str = Field(description="What is measured.")
    unit: str = Field(description="Unit of the numbers.")
    low: float = Field(description="Where an attacker can push it down to.")
    mark: float = Field(description="Where it stands unattacked.")
    high: float = Field(description="Where an attacker can push it up to.")
    maximum: float = Field(description="The largest value there is; the smallest is 0.")
    band: str = Field(default="what an attacker can choose", description="What lies between low and high.")
    line: str = Field(default="unattacked", description="What the mark is.")


Outcome = Literal["flipped", "held", "skipped", "errored"]
"""What became of a prediction: the attacker changed it, did not, had no reason to, or nobody knows."""


class ComparisonRow(Read):
    """What one way of attacking made of a text."""

    name: str = Field(description="The way, in words.")
    after: list[str] = Field(description="The text, or its parts.")
    outcome: Outcome = Field(description="`flipped`, `held`, `skipped` (not attacked) or `errored`.")
    prediction: str | None = Field(description="What the model predicts for it, in words.")
    confidence: float | None = Field(description="How confident the model looked in that way of attacking.")


class Comparison(Read):
    """A text and what attacks made of it, to be read side by side."""

    title: str = Field(description="Which text.")
    note: str = Field(description="Its label and what the model said before any attack.")
    parts: list[str] = Field(description="Names of the parts; none where there is only one.")
    before: list[str] = Field(description="The text, or its parts, unattacked.")
    rows: list[ComparisonRow] = Field(description="What became of it, a row per attack.")


class ReportParameter(Read):
    """One parameter of a check."""

    name: str = Field(description="Name.")
    value: Any = Field(description="Value the check ran with.")
    is_default: bool = Field(description="Whether that is the default.")
    description: str = Field(description="What it means.")


class ReportEstimate(Estimate):
    """An estimate with its meaning."""

    name: str = Field(description="Full name, as policies use it: `family.metric[key=value,...]`.")
    unit: str = Field(description="Unit of the value.")
    better: Literal["higher", "lower", "neither"] = Field(description="Which way is good for the model.")
    description: str = Field(description="What it says, with the source.")
    open_end: Literal["low", "high"] | None = Field(
        default=None,
        description="The bad end of the interval, where it is that of the metric itself: the sample does not bound the "
        "value on that side.",
    )


class ReportFigure(Read):
    """A figure of a check."""

    name: str = Field(description="Name.")
    alt: str = Field(description="What it shows, in words.")
    digest: str = Field(description="SHA-256 of the SVG.")
    svg: str | None = Field(description="The SVG; null when its bytes are gone.")


class ReportCheck(Read):
    """One check of the audit."""

    id: str = Field(description="Identifier.")
    kind: str = Field(description="Family.")
    title: str = Field(description="What the family measures.")
    question: str = Field(description="What it asks.")
    state: RunState = Field(description="State; numbers are there once it has succeeded.")
    progress: str = Field(description="Progress, in words.")
    answer: Answer = Field(description="What it found.")
    scale: Scale | None = Field(default=None, description="The range an attacker controls.")
    attacked: str = Field(
        default="", description="How its examples were attacked, in a sentence; empty where they were not."
    )
    params: list[ReportParameter] = Field(description="What was asked.")
    flags: list[Flag] = Field(description="Doubts about the numbers, with what to do.")
    estimates: list[ReportEstimate] = Field(description="Numbers, in the order the family publishes them.")
    counts: dict[str, int] = Field(description="Whole numbers every rate can be recomputed from.")
    series: dict[str, Any] = Field(description="Curves and histograms behind the figures.")
    figures: list[ReportFigure] = Field(description="Figures.")
    comparisons: list[Comparison] = Field(default_factory=list, description="Some texts beside what became of them.")
    error: StoredProblem | None = Field(description="Why it failed.")
    seconds: float | None = Field(description="From its first shard to its end.")
    meters: Meters | None = Field(default=None, description="What was asked of a text model; null for others.")
    looks: Looks | None = Field(
        default=None,
        exclude_if=lambda looks: looks is None,
        description="Of an audit that stops when it is decided: at how many examples it did, and the error rate spent "
        "at each look; absent from others.",
    )
    reused: Reused | None = Field(
        default=None,
        exclude_if=lambda reused: reused is None,
        description="The earlier check whose records these are; absent where the audit measured them itself.",
    )


class ReportSource(Read):
    """A model or dataset the numbers are about."""

    role: str = Field(description="`model`, `dataset`, or the parameter that names it.")
    id: str = Field(description="Identifier.")
    name: str = Field(description="Name and version.")
    digest: str = Field(description="SHA-256 of its bytes.")
    facts: dict[str, str] = Field(description="What else is known of it, in words.")


class ReportTerm(Read):
    """An entry of the glossary."""

    term: str = Field(description="Term.")
    meaning: str = Field(description="Meaning.")


class ReportReproduction(Read):
    """What running the same audit again takes."""

    request: dict[str, Any] = Field(description="Body of POST /v1/audits.")
    seed: int = Field(description="Everything random follows from it.")
    spec_digest: str = Field(description="SHA-256 of the specification with the digests of model and data.")
    versions: dict[str, str] = Field(description="What composed this report and what measured.")


class ReportSignature(Read):
    """What this installation signed of the verdict, and what that covers."""

    digest: str = Field(description="SHA-256 of the attestation, as GET /v1/audits/{id}/attestation gives it.")
    key_id: str = Field(description="The key: one of /.well-known/seatrial-keys.json.")
    signed_at: datetime = Field(description="When, by the signer's clock (UTC).")
    result: Literal["PASSED", "WARNED", "FAILED"] = Field(description="The verdict as in-toto's test result.")
    preregistered_at: datetime | None = Field(
        description="When specification, policy and seed were signed, at submission; null: they were not."
    )
    other_seeds: int = Field(description="Audits that asked the same with another seed before the verdict was made.")
    covers: list[str] = Field(description="What cannot have been changed since, a sentence each.")
    leaves_out: list[str] = Field(description="What the signature does not speak for, a sentence each.")


class ReportControl(Read):
    """A control of a published framework, and what the audit has for it: evidence, never conformity."""

    id: str = Field(description="As the framework numbers it.")
    framework: str = Field(description="Name of the framework.")
    version: str = Field(description="Which version the number is of.")
    title: str = Field(description="What it is about.")
    source: str = Field(description="Where it is published.")
    standing: Literal["evidence", "partial", "none"] = Field(
        description="`evidence`: what the control asks of an audit is there; `partial`: numbers are, and something is "
        "missing; `none`: no number that can be relied on speaks for it."
    )
    numbers: list[str] = Field(description="Names of the numbers that speak for it.")
    rules: list[str] = Field(description="Rules of the policy about these, with what they count as.")
    missing: str = Field(description="What is missing; empty where nothing is.")


class ReportRead(Read):
    """What an audit found."""

    format: Literal["seatrial.report/1"] = Field(default="seatrial.report/1", description="Layout of this document.")
    audit: str = Field(description="Id of the audit.")
    url: str | None = Field(
        default=None, description="Page of the audit in the console; null of a service that ends with a command."
    )
    state: RunState = Field(description="State of the audit.")
    is_final: bool = Field(description="Whether nothing will change any more.")
    question: str = Field(description="What the audit asks of the model.")
    verdict: str | None = Field(description="Verdict of the gate; null without a policy.")
    judgement: Judgement | None = Field(
        default=None,
        description="What the verdict rests on: of the policy the audit was submitted with, or of the one asked for.",
    )
    answer: Answer = Field(description="Over all checks: the least favourable answer.")
    created_at: datetime = Field(description="When it was submitted (UTC).")
    started_at: datetime | None = Field(description="When a worker first took it up.")
    finished_at: datetime | None = Field(description="When it ended.")
    samples: int = Field(description="Examples asked for.")
    error: StoredProblem | None = Field(description="Why it could not start.")
    sources: list[ReportSource] = Field(description="Models and datasets the numbers are about.")
    checks: list[ReportCheck] = Field(description="Its checks, in the order asked.")
    glossary: list[ReportTerm] = Field(description="The terms used.")
    reproduction: ReportReproduction = Field(description="What running it again takes.")
    controls: list[ReportControl] = Field(
        default_factory=list, description="Controls of published frameworks, with what the audit has for each."
    )
    signature: ReportSignature | None = Field(
        default=None, description="What was signed of the verdict; null where none is here."
    )
