"""What is asked of a hardening, and what is told about one."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.base import Read, Real, Request
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.estimates import Estimate, Flag
from seatrial.contracts.names import VERSION_SIGNS
from seatrial.contracts.policies import NAME, Judgement, Outcome, PolicyReference, Verdict
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import each_once
from seatrial.contracts.states import RunState

HardeningEventKind = Literal["hardening", "progress", "verdict"]


class HardeningAudit(Request):
    """The audit both versions of the model get, with the seed of the hardening."""

    dataset: str = Field(
        min_length=1,
        max_length=100,
        description="Id of the dataset both versions are audited on; none of its examples may be trained on.",
        examples=["dat_..."],
    )
    checks: list[CheckParams] = Field(
        min_length=1, max_length=16, description="What to run; each is a family and its parameters."
    )
    samples: int = Field(default=500, ge=2, le=1_000_000, description="Examples drawn, the same for both versions.")
    policy: PolicyReference | None = Field(
        default=None,
        description="What the hardened version is judged by, with the audit of the version before as its baseline. "
        "Without one there is no verdict, and nothing is promoted.",
    )
    batch_size: int = Field(default=64, ge=1, le=4096, description="Examples per forward pass.")
    max_error_rate: Annotated[Real, Field(ge=0, le=1)] = Field(
        default=0.05, description="A check with a larger share of errored examples fails."
    )

    def of(self, model: str, seed: int) -> AuditCreate:
        """Return the audit of one version."""
        return AuditCreate.model_construct(
            **{name: getattr(self, name) for name in type(self).model_fields}, model=model, seed=seed
        )


class HardeningCreate(Request):
    """A model, what it is trained on and how, and the audit that tells what that was worth."""

    model: str = Field(min_length=1, max_length=100, description="Id of the model.", examples=["mdl_..."])
    dataset: str = Field(
        min_length=1, max_length=100, description="Id of the dataset to train on.", examples=["dat_..."]
    )
    validation_dataset: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Id of the dataset every epoch is judged on, and `recalibrate` fits its map on. Null: a tenth of "
        "`dataset`, set apart from what is trained on; all of it for `recalibrate`.",
        examples=["dat_..."],
    )
    method: str = Field(
        min_length=1, max_length=100, description="Training method by its slug.", examples=["adversarial"]
    )
    params: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of the method; what is left out is at its default."
    )
    seed: int = Field(default=0, ge=0, le=2**53 - 1, description="Everything random follows from it, audits included.")
    version: Annotated[str, Field(min_length=1, max_length=50), VERSION_SIGNS] | None = Field(
        default=None,
        description="Version of the model that is made. Null: the present one, `+`, the method and a number.",
        examples=["4"],
    )
    audit: HardeningAudit = Field(description="The audit both versions get.")
    max_accuracy_loss: Real = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Largest loss of clean accuracy at which the new version may be promoted; decided by the interval "
        "of the paired difference, on the examples of the audit.",
    )
    promote: str | None = Field(
        default=None,
        pattern=NAME,
        description="Name of the baseline the new version's audit becomes if the verdict is `passed` and clean "
        "accuracy holds; null: none.",
        examples=["champion"],
    )


class HardeningEstimate(Read):
    """What a hardening would cost."""

    examples: int = Field(description="Examples trained on; 0 where a map of logits is fitted.")
    validation_examples: int = Field(description="Examples every epoch is judged on.")
    forward_passes: int = Field(description="Single-example forward passes of the training, at most.")
    backward_passes: int = Field(description="Single-example forward-backward passes of the training, at most.")
    seconds: float | None = Field(
        description="Seconds of the training on one worker like the one that checked the model; null until it has."
    )
    audit_seconds: float | None = Field(description="Seconds of the pair of audits; null until the model is checked.")
    memory_bytes: int | None = Field(
        description="Memory the training adds to the process: weights, gradients, optimiser, kept weights and the "
        "graph of a micro-batch, or what a save of them takes if that is more. Null for maps, and where the model was "
        "checked before this was counted."
    )
    refused: str | None = Field(
        default=None,
        exclude_if=lambda refused: refused is None,
        description="Why it would be refused if it were submitted now, as that it is beyond a quota; absent where not.",
    )


class EpochPoint(Read):
    """One epoch on the curves."""

    epoch: int = Field(description="Epoch, counted from 1.")
    train_loss: float = Field(description="Mean training loss, in the method's units.")
    learning_rate: float = Field(description="Learning rate of the epoch.")
    skipped: float = Field(description="Steps without a direction.")
    loss: float = Field(description="Cross-entropy of the validation examples, in nats.")
    accuracy: float = Field(description="Clean accuracy on them.")
    attacked_accuracy: float | None = Field(
        default=None, description="Accuracy on them under the method's attack; null where it has none."
    )
    ece: float = Field(description="Expected calibration error on them, 15 bins.")


class HardeningProgress(Read):
    """How far a training is."""

    epoch: int = Field(description="Epoch it is in, from 1.")
    epochs: int = Field(description="Epochs in all.")
    step: int = Field(description="Steps taken in this epoch.")
    steps: int = Field(description="Steps of an epoch.")
    loss: float | None = Field(default=None, description="Mean training loss of the epoch so far.")


class PairedDifference(Read):
    """A number of both versions, and how much worse the new one is, example by example where that can be told."""

    metric: str = Field(description="Full name; `clean_accuracy` is that of the first check's preflight.")
    better: Literal["lower", "higher"] | None = Field(description="Which way is better; null where neither is.")
    before: Estimate = Field(description="The number of the model as it was.")
    after: Estimate = Field(description="The number of the new version.")
    worse_by: Estimate = Field(description="How much worse the new version is; below 0 it is better.")
    note: str = Field(default="", description="How the difference was made, or why it is not paired.")

    @property
    def change(self) -> Estimate:
        """The number after less the number before, whichever way is better."""
        return self.worse_by.negative() if self.better == "higher" else self.worse_by


class HardeningResult(Read):
    """What a hardening was worth."""

    differences: list[PairedDifference] = Field(
        description="Numbers both audits have; what shipped policies judge is first."
    )
    not_compared: dict[str, str] = Field(description="Numbers that are not compared, and why.")
    accuracy: PairedDifference | None = Field(description="Clean accuracy on the audited examples; null unmeasured.")
    accuracy_holds: Outcome = Field(
        description="Whether the loss of clean accuracy is within `max_accuracy_loss`, by the interval."
    )
    judgement: str | None = Field(description="Id of the judgement; null without a policy.")
    is_promotable: bool = Field(description="Whether the verdict is `passed` and clean accuracy holds.")
    promoted: str | None = Field(description="Id of the baseline it became; null where it became none.")
    summary: str = Field(description="The same as a sentence.")

    @property
    def shown(self) -> list[PairedDifference]:
        """Clean accuracy, then every number both audits have, each once and under one name."""
        names = each_once(one.metric for one in self.differences)
        found = [one for one in self.differences if one.metric in names]
        if self.accuracy is None:
            return found
        first = self.accuracy
        values = (first.before.value, first.after.value)
        return [
            first,
            *(
                one
                for one in found
                if not (one.metric.endswith(f".{first.metric}") and (one.before.value, one.after.value) == values)
            ),
        ]


class HardeningSummary(Read):
    """A hardening in a list."""

    id: str = Field(description="Identifier.", examples=["hrd_..."])
    state: RunState = Field(description="State.")
    stage: Literal["training", "auditing"] = Field(description="What it does, or did last.")
    method: str = Field(description="Training method.")
    model: str = Field(description="Id of the model that was given.")
    hardened: str | None = Field(description="Id of the version that was made; null until the training has ended.")
    dataset: str = Field(description="Id of the dataset trained on.")
    seed: int = Field(description="Seed.")
    verdict: Verdict | None = Field(
        description="Verdict of the policy on the new version; null until it is judged, and without a policy."
    )
    created_at: datetime = Field(description="When it was submitted (UTC).")
    started_at: datetime | None = Field(description="When a worker first took it up.")
    finished_at: datetime | None = Field(description="When it ended.")


class HardeningRead(HardeningSummary):
    """A hardening with its curves and what came of it."""

    params: dict[str, Any] = Field(description="Parameters of the method, defaults filled in.")
    spec: dict[str, Any] = Field(description="The request as understood.")
    progress: HardeningProgress | None = Field(description="How far the training is; null before its first steps.")
    curves: list[EpochPoint] = Field(description="A point per epoch that has ended.")
    kept_epoch: int | None = Field(description="Epoch whose weights were kept, from 1; null before, and of maps.")
    kept_rule: str | None = Field(description="Rule by which it was chosen.")
    notes: list[str] = Field(description="What to know about the training.")
    audit_before: str | None = Field(description="Id of the audit of the model as it was.")
    audit_after: str | None = Field(description="Id of the audit of the new version.")
    result: HardeningResult | None = Field(description="What it was worth; null until both audits have ended.")
    estimated_s: float | None = Field(description="Seconds the training was estimated to take.")
    seconds: float | None = Field(description="Seconds the training took, over all attempts that were kept.")
    error: StoredProblem | None = Field(description="Why it failed, or what it waits for.")


class HardeningReportRead(Read):
    """The report of a hardening: what the page shows, to be read by programs."""

    hardening: HardeningRead = Field(description="The hardening, with the paired differences in `result`.")
    names: dict[str, str] = Field(description="Name and version of the models and datasets it names, by id.")
    judgement: Judgement | None = Field(
        description="Judgement of the new version, rule by rule; null without a policy."
    )
    flags: dict[Literal["before", "after"], list[Flag]] = Field(
        description="Doubts about the numbers of each version, the gravest first."
    )


class HardeningEventRead(Read):
    """One thing that happened to a hardening."""

    seq: int = Field(description="Position in this hardening's history, from 1 without gaps.")
    kind: HardeningEventKind = Field(
        description="`hardening` tells a change of state or stage, `progress` how far the training is, `verdict` what "
        "the gate says."
    )
    data: dict[str, Any] = Field(
        description="`hardening`: state, and stage, verdict or what it `waits` for; `progress`: epoch, epochs, step, "
        "steps, loss, and `point` at the end of an epoch; `verdict`: verdict, judgement."
    )
    created_at: datetime = Field(description="When it was recorded (UTC).")
