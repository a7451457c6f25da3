"""What is asked of an audit, and what is told about one."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Read, Real, Request
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.estimates import Result
from seatrial.contracts.meters import Meters
from seatrial.contracts.policies import Judgement, PolicyReference, Verdict
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

MOST_SAMPLES = 1_000_000
"""Examples of an audit at most, and how all are asked for where each costs nothing."""


class AuditCreate(Request):
    """A model, a dataset and the checks to run."""

    model: str = Field(min_length=1, max_length=100, description="Id of the model.", examples=["mdl_..."])
    dataset: str = Field(min_length=1, max_length=100, description="Id of the dataset.", examples=["dat_..."])
    checks: list[CheckParams] = Field(
        min_length=1, max_length=16, description="What to run; each is a family and its parameters."
    )
    seed: int = Field(default=0, ge=0, le=2**53 - 1, description="Everything random follows from it.")
    salt: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{32}$",
        description="Of a model behind a URL: what the edits and orders of a text audit follow from beside the seed, "
        "so that no vendor can know them. Null: the service draws one, `drawn_salt` of the `spec`. To run an audit "
        "again to the byte give its own: such an audit carries the doubt `chosen_salt`.",
    )
    samples: int | None = Field(
        default=None,
        ge=2,
        le=MOST_SAMPLES,
        description="Examples drawn, stratified by label; the whole dataset when it is smaller. Null: 500, or as many "
        "as the dataset holds beside those that a check sets apart.",
    )
    policy: PolicyReference | None = Field(
        default=None,
        description="What it is judged by when it ends: the id of a policy, a name (its newest version), "
        "`name@version`, a shipped one (`lenient`, `standard`, `strict`), or a policy itself. Never changes a number.",
    )
    baseline: str | None = Field(
        default=None,
        max_length=100,
        description="Audit, or name of a baseline of the model, to compare it with then; by default the policy's. A "
        "name need not be there yet: it may be promoted before the audit ends. `notes` of the answer says so.",
    )
    stop: Literal["decided"] | None = Field(
        default=None,
        description="`decided`: look at 30, 60, 125, 250, 500, 1,000 and so on of the examples (whole batches), and "
        "stop a check once its policy's blocking rules are decided; its intervals are wider for having been looked at. "
        "Takes a `policy`. To pass before the end takes 125 examples, no doubt and `seed` 0. Null: measure all.",
    )
    reuse: bool = Field(
        default=False,
        description="Whether checks may take the records of identical ones over, which are then not measured again: "
        "of the same project, model, data, parameters, seed, code and type of hardware, from an audit that succeeded. "
        "`reused` of a check says which. Not of models behind a URL.",
    )
    batch_size: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="Examples per forward pass. Part of what makes a run repeatable: float sums follow the batch.",
    )
    shards: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Pieces each stage is cut into, at most one per batch; by default sized to a minute each at most. "
        "Never changes a number.",
    )
    priority: int = Field(
        default=0,
        ge=-100,
        le=100,
        description="Audits of a project are taken up in the order of this, the highest first, and then of their age. "
        "Between projects it says nothing. Never changes a number.",
    )
    max_error_rate: Annotated[Real, Field(ge=0, le=1)] = Field(
        default=0.05, description="A check with a larger share of errored examples fails."
    )

    @field_validator("checks")
    @classmethod
    def _checks_differ(cls, checks: list[CheckParams]) -> list[CheckParams]:
        seen: list[str] = []
        for position, check in enumerate(checks):
            said = check.model_dump_json()
            if said in seen:
                # `path` leads on from this field to the member at fault; see app.web.bodies.
                raise PydanticCustomError(
                    "repeated_check",
                    "checks must differ from each other: this one repeats check {first}",
                    {"first": seen.index(said), "path": [position]},
                )
            seen.append(said)
        return checks

    @model_validator(mode="after")
    def _is_decided_by_something(self) -> Self:
        if self.stop is not None and self.policy is None:
            raise PydanticCustomError(
                "nothing_decides", "stop takes a policy: nothing else says what is decided", {"path": ["stop"]}
            )
        return self


class Reused(Read):
    """The check that measured what another shows."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True)

    audit: str = Field(description="Id of the audit the records were taken from.", examples=["aud_..."])
    check: str = Field(description="Id of the check they were taken from.", examples=["chk_..."])
    measured_at: datetime = Field(description="When it had ended (UTC).")


class NextLook(Read):
    """The look that a check which stops when it is decided is measuring for."""

    number: int = Field(ge=1, description="Which, counting from 1.")
    of: int = Field(description="Looks there are at most.")
    examples: int = Field(description="Examples it is taken at.")
    most: int = Field(description="Examples of the last one.")


class Progress(Read):
    """How far a check is."""

    stage: str | None = Field(description="Stage being worked on; null before the first.")
    done: int = Field(description="Examples of that stage finished.")
    total: int = Field(description="Examples of that stage.")
    remaining_s: float | None = Field(
        description="Estimated seconds until the check ends, where it stops when it is decided: at the last look; 0 "
        "when ended, null when unknown."
    )
    look: NextLook | None = Field(
        default=None,
        exclude_if=lambda look: look is None,
        description="Of a check that runs and stops when it is decided: the look it is measured for, to whose examples "
        "`total` counts; absent from others.",
    )


class CheckRead(Read):
    """One check of an audit."""

    id: str = Field(description="Identifier.", examples=["chk_..."])
    kind: str = Field(description="Family.")
    params: dict[str, Any] = Field(description="Parameters, defaults filled in.")
    state: RunState = Field(description="State.")
    progress: Progress = Field(description="Progress.")
    meters: Meters | None = Field(default=None, description="What was asked of a text model; null for others.")
    stages: list[str] = Field(description="Stages begun so far; each has its own table of records.")
    result: Result | None = Field(default=None, description="Numbers, once the check has succeeded.")
    figures: list[str] = Field(default_factory=list, description="Names of its figures.")
    error: StoredProblem | None = Field(default=None, description="Why it failed.")
    reused: Reused | None = Field(
        default=None, description="The earlier check whose records these are; null where this audit measured them."
    )


class AuditSummary(Read):
    """An audit in a list."""

    id: str = Field(description="Identifier.", examples=["aud_..."])
    state: RunState = Field(description="State.")
    verdict: Verdict | None = Field(
        default=None,
        description="Verdict of the policy it was submitted with; null without one and until it has been judged.",
    )
    model: str = Field(description="Id of the model.")
    model_name: str | None = Field(default=None, description="Name of the model; null where an older service answers.")
    model_version: str | None = Field(default=None, description="Version of the model, likewise.")
    dataset: str = Field(description="Id of the dataset.")
    dataset_name: str | None = Field(default=None, description="Name of the dataset, likewise.")
    dataset_version: str | None = Field(default=None, description="Version of the dataset, likewise.")
    seed: int = Field(description="Seed.")
    samples: int = Field(description="Examples asked for.")
    kinds: list[str] = Field(description="Families of its checks.")
    priority: int = Field(default=0, description="Its place among the audits of its project; the highest first.")
    created_at: datetime = Field(description="When it was submitted (UTC).")
    started_at: datetime | None = Field(default=None, description="When a worker first took it up.")
    finished_at: datetime | None = Field(default=None, description="When it ended.")

    @property
    def subject(self) -> str:
        """Names and versions of what is audited, on what; ids where they are not told."""
        model = self.model if self.model_name is None else f"{self.model_name} {self.model_version}"
        dataset = self.dataset if self.dataset_name is None else f"{self.dataset_name} {self.dataset_version}"
        return f"{model} on {dataset}"


class AuditProgress(Read):
    """How far an audit is, all its checks together."""

    share: float | None = Field(
        default=None,
        description="Share of its work that is done, 0 to 1: work that may turn out not to be needed counts until that "
        "is known, so the share does not fall. Null where nothing is known yet.",
    )
    remaining_s: float | None = Field(
        default=None, description="Estimated seconds until its last check ends; 0 when ended, null when unknown."
    )
    remaining_low_s: float | None = Field(
        default=None,
        description="Between this and `remaining_high_s` it should end: by what earlier checks took until the first "
        "batches of each check are done, by their speed from then on. Null when unknown.",
    )
    remaining_high_s: float | None = Field(default=None, description="See `remaining_low_s`.")


class AuditRead(AuditSummary):
    """An audit with its checks."""

    progress: AuditProgress = Field(default_factory=AuditProgress, description="Progress of all checks together.")
    checks: list[CheckRead] = Field(description="Its checks, in the order asked.")
    judgement: Judgement | None = Field(
        default=None, description="What the policy it was submitted with makes of it; null before, and without one."
    )
    spec: dict[str, Any] = Field(description="The request as understood, defaults filled in.")
    spec_digest: str = Field(description="SHA-256 of the specification together with the digests of model and data.")
    estimated_s: float | None = Field(
        default=None,
        description="Seconds for the most passes it may make, at the speed at which the model was checked: attacks "
        "that succeed early take less, a busier machine takes longer. Null until the model has been measured.",
    )
    estimated_low_s: float | None = Field(
        default=None, description="Between this and `estimated_high_s` it was to end, by what earlier checks had taken."
    )
    estimated_high_s: float | None = Field(default=None, description="See `estimated_low_s`.")
    error: StoredProblem | None = Field(default=None, description="Why it could not start.")
    notes: list[str] = Field(
        default_factory=list,
        description="In the answer to its submission: what to know, such as that its `baseline` is not there yet.",
    )


class AuditEstimate(Read):
    """What an audit would cost."""

    examples: int = Field(description="Examples that would be audited.")
    forward_passes: int = Field(description="Single-example forward passes, at most.")
    backward_passes: int = Field(description="Single-example forward-backward passes, at most.")
    queries: int = Field(description="Scores black-box attacks ask for, at most; many are answered from a cache.")
    seconds: float | None = Field(
        description="Seconds the most passes take on one worker at the speed of the one that checked the model; null "
        "until it has. An estimate, no bound: see `seconds_low` and `seconds_high`."
    )
    seconds_low: float | None = Field(
        default=None,
        description="Between this and `seconds_high` it should end, by what the project's last checks of each family "
        "took of their estimates (four in five ended inside, once nine have); null where `seconds` is.",
    )
    seconds_high: float | None = Field(default=None, description="See `seconds_low`.")
    least_seconds: float | None = Field(
        default=None,
        description="With `stop`: seconds where every check is decided at its first look; null without, and until the "
        "model has been measured. What it takes lies between this and `seconds`.",
    )
    memory_bytes: int | None = Field(
        default=None,
        description="Most memory the process that runs the model takes, beside the 0.5 GB of its code: weights and "
        "a batch, by `batch_size`; on a GPU of its memory. Batches are halved where it runs out. Null of texts, of "
        "models behind a URL, of defences that train, and until the model has been measured.",
    )
    checks: list[dict[str, Any]] = Field(
        description="The same per check: kind, forward_passes, backward_passes, queries, seconds, memory_bytes. With "
        "`stop` also `looks`, the examples at which it may end, or `whole`, why it does not end before all of them. "
        "With `reuse` `reused`, the check whose records are there, at no passes and no seconds but those of computing "
        "the numbers; null where it is to be measured. A file that turns out damaged is measured again."
    )
    query_budget: int | None = Field(
        default=None,
        description="Most that each check may ask a model behind a URL for, as its manifest says; what goes beyond is "
        "errored. Null: no limit.",
    )
    notes: list[str] = Field(
        default_factory=list,
        description="What to know before it is submitted, as that its `baseline` is not there yet.",
    )

    refused: str | None = Field(
        default=None,
        exclude_if=lambda refused: refused is None,
        description="Why it would be refused if it were submitted now, as that it is beyond a quota; absent where not.",
    )

    @property
    def over_budget(self) -> list[str]:
        """Kinds of the checks that may ask for more than the budget; every forward pass is asked for."""
        return [
            str(one["kind"])
            for one in self.checks
            if self.query_budget is not None and one["forward_passes"] > self.query_budget
        ]
