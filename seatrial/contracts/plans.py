"""Chained work: jobs there are anyway, each begun when the one before it has succeeded."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from seatrial.contracts.audits import AuditCreate, AuditEstimate
from seatrial.contracts.base import Read, Request
from seatrial.contracts.hardenings import HardeningCreate, HardeningEstimate
from seatrial.contracts.policies import PolicyReference, Verdict
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

StepKind = Literal["harden", "audit", "judge", "attest", "notify"]

ORDER: tuple[StepKind, ...] = ("harden", "audit", "judge", "attest", "notify")
"""In which steps stand, each once at most."""

HARDENED = "hardened"
"""What the audit after a hardening names as its model: the version that is made. No id is like it."""


class HardenStep(Request):
    """Make the next version of a model; the audit that follows is of that version."""

    kind: Literal["harden"] = Field(description="This step.")
    hardening: HardeningCreate = Field(description="The hardening, as POST /v1/hardenings takes it.")


class AuditStep(Request):
    """Run an audit."""

    kind: Literal["audit"] = Field(description="This step.")
    audit: AuditCreate = Field(
        description="The audit, as POST /v1/audits takes it. After a `harden` step its `model` is `hardened`, the "
        "version that step makes, and its `dataset` the one the hardening audits, which is kept out of the training."
    )


class JudgeStep(Request):
    """Judge the audit."""

    kind: Literal["judge"] = Field(description="This step.")
    policy: PolicyReference = Field(
        description="Policy to judge by, as POST /v1/audits/{id}/judge takes it; the version there is at submission."
    )
    baseline: str | None = Field(
        default=None, max_length=100, description="Audit, or name of a baseline of the model, to compare with."
    )


class AttestStep(Request):
    """Sign the verdict: of the step before, or of the policy the audit is submitted with."""

    kind: Literal["attest"] = Field(description="This step.")


class NotifyStep(Request):
    """Tell a webhook what came of it, by a message of type `plan.notified`, and wait for its answer."""

    kind: Literal["notify"] = Field(description="This step.")
    webhook: str = Field(
        pattern=r"^whk_[0-9a-f]{1,64}$",
        description="Id of the webhook.",
        examples=["whk_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"],
    )


PlanStep = Annotated[HardenStep | AuditStep | JudgeStep | AttestStep | NotifyStep, Field(discriminator="kind")]


class PlanCreate(Request):
    """Steps that follow each other."""

    name: str = Field(default="", max_length=200, description="For people.")
    steps: list[PlanStep] = Field(
        min_length=1,
        max_length=len(ORDER),
        description="`harden` if wanted, `audit`, then any of `judge`, `attest`, `notify`.",
    )

    @field_validator("steps")
    @classmethod
    def _stand_in_order(cls, steps: list[PlanStep]) -> list[PlanStep]:
        kinds = [step.kind for step in steps]
        if kinds[0] not in ("harden", "audit"):
            raise ValueError(f"the first step is harden or audit, not {kinds[0]}")
        if "audit" not in kinds:
            raise ValueError("after harden stands an audit of the version it makes")
        if kinds != [kind for kind in ORDER if kind in kinds]:
            raise ValueError(
                f"steps stand in this order, each once at most: {', '.join(ORDER)}; got {', '.join(kinds)}"
            )
        return steps


class PlanStepRead(Read):
    """One step."""

    kind: StepKind = Field(description="What it does.")
    state: RunState = Field(description="State; `queued` until the step before it has succeeded.")
    job: str | None = Field(
        description="Id of the hardening, of the audit, or of the webhook's delivery, once there is one."
    )
    result: dict[str, Any] | None = Field(
        description="What came of it: `hardening`, the `model` it made, its `verdict` (null without a policy) and "
        "`accuracy_holds`; `audit` and `verdict`; `judgement` and `verdict`; `attestation` and its `digest`; or "
        "`delivery`."
    )
    error: StoredProblem | None = Field(description="Why it failed; while it runs, what it waits for.")
    started_at: datetime | None = Field(description="When it was begun.")
    finished_at: datetime | None = Field(description="When it ended.")


class PlanSummary(Read):
    """A plan in a list."""

    id: str = Field(description="Identifier.", examples=["pln_..."])
    name: str = Field(description="For people.")
    state: RunState = Field(
        description="`succeeded` only where every step has and no verdict is another than `passed`."
    )
    verdict: Verdict | None = Field(
        description="The least favourable verdict of its steps, of clean accuracy after a hardening too; null before."
    )
    created_at: datetime = Field(description="When it was submitted (UTC).")
    started_at: datetime | None = Field(description="When its first step was begun.")
    finished_at: datetime | None = Field(description="When it ended.")


class PlanRead(PlanSummary):
    """A plan with its steps."""

    steps: list[PlanStepRead] = Field(description="Its steps, in order.")
    error: StoredProblem | None = Field(description="Why it failed.")


class StepEstimate(Read):
    """What one step would cost."""

    kind: StepKind = Field(description="What it does.")
    hardening: HardeningEstimate | None = Field(default=None, description="Estimate of a step `harden`.")
    audit: AuditEstimate | None = Field(default=None, description="Estimate of a step `audit`.")


class PlanEstimate(Read):
    """What a plan would cost."""

    seconds: float | None = Field(
        description="Seconds of training and audits on one worker like the one that checked the model; null until it "
        "has. The other steps take moments."
    )
    steps: list[StepEstimate] = Field(description="Its steps, in order.")
