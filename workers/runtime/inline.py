"""Running jobs in this process: what a child does, and what tests do without one."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc

from seatrial.contracts.estimates import Flag, Looks, Result
from seatrial.contracts.model_facts import ModelFacts
from seatrial.contracts.models import ARRAYS, PREDICTIONS, ModelManifest
from seatrial.contracts.policies import Policy
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import family as family_spec
from seatrial.contracts.registry import require_registered
from seatrial.families.shared.means import with_declared_means
from seatrial.families.shared.settling import settled
from seatrial.judging.stopping import Look, measured_so_far, take_look
from seatrial.statistics.samples import ByColumn
from seatrial.store.records import to_parquet
from seatrial.store.salts import GIVEN
from seatrial.store.seeds import derive_seed
from seatrial.store.settings import Settings
from seatrial.store.tables import ShardRow
from workers.families.contexts import Records, by_column
from workers.families.protocol import AnyFamily
from workers.families.stages import Stage
from workers.models.checks import check_target
from workers.models.endpoint import EndpointClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.text_checks import check_text_target
from workers.runtime.bins import few_bins
from workers.runtime.context import ShardContext
from workers.runtime.device import describe, prepare
from workers.runtime.executor import Files, Holder
from workers.runtime.families import find_family
from workers.runtime.hardening import harden
from workers.runtime.jobs import (
    Advanced,
    CheckJob,
    Hardened,
    HardeningJob,
    Measured,
    ModelJob,
    ShardJob,
    parse_manifest,
)
from workers.runtime.looks import at_look, planned_looks, reach
from workers.runtime.open_looks import NotReachedError, following, is_surely_open
from workers.runtime.preflight import run_preflight
from workers.runtime.resources import Resources
from workers.runtime.stages import PREFLIGHT, PREFLIGHT_EXAMPLES
from workers.runtime.stored import StoredRecords


class InlineExecutor:
    """Runs jobs in this process; implements :class:`workers.runtime.executor.Executor`.

    Args:
        store: Where bytes are.
        settings: Device, limits.
    """

    def __init__(self, store: Files, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._device = prepare(settings)
        self.resources = Resources(store, self._device, settings)

    def device(self) -> str:
        """Return the name of the device, for people."""
        return describe(self._device)

    @property
    def device_kind(self) -> str:
        """``cpu`` or ``cuda``."""
        return self._device.type

    def check(self, job: ModelJob, holder: Holder) -> dict[str, Any]:
        """Load a model, measure it, and return its facts as JSON."""
        row = job.model
        manifest = parse_manifest(ModelManifest, row.manifest)
        if manifest.task == PREDICTIONS:
            self.resources.answers(row)
            classes = len(manifest.labels or [])
            # Nothing is computed, and so nothing is timed.
            facts = ModelFacts(parameters=0, classes=classes, device=self.device(), forward_s=0.0, backward_s=None)
            return facts.model_copy(update={"labels": manifest.labels}).model_dump(mode="json")
        if manifest.task in ARRAYS:
            image_classifier = self.resources.classifier(row)
            if isinstance(image_classifier, ImageEndpoint):
                image_classifier.endpoint.work_for(holder.check_cancelled)
            report, labels = check_target(image_classifier, manifest), image_classifier.labels
        else:
            text_classifier = self.resources.scoring(row).classifier
            if isinstance(text_classifier, EndpointClassifier):
                # It may be at hand from an audit that has ended: that one's cancellation and budget are not this
                # check's.
                text_classifier.work_for(holder.check_cancelled)
            report, labels = check_text_target(text_classifier, manifest), text_classifier.labels
        return report.facts.model_copy(update={"flags": report.flags, "labels": labels}).model_dump(mode="json")

    def advance(self, job: CheckJob, holder: Holder) -> Advanced:
        """Return the next stage of a check, or its end."""
        done = StoredRecords(job.records(), self._store)
        problem = _too_many_errors(job, done)
        if problem is not None:
            return Advanced(error=problem.model_dump())
        family = find_family(job.check.kind)
        if not job.stages:
            return Advanced(stage=Stage(PREFLIGHT, limit=PREFLIGHT_EXAMPLES, is_whole=True))
        looks = planned_looks(job)
        if looks is not None:
            return self._look(family, job, looks, holder)
        stage = family.next_stage(job.params, done)
        if stage is not None:
            return Advanced(stage=stage)
        return Advanced(values=self._drawn(family, job, self._reduce(family, job, done, holder)))

    def _look(self, family: AnyFamily, job: CheckJob, looks: Looks, holder: Holder) -> Advanced:
        """Return the stage a look still lacks; else what it says: the next look, or the end."""
        done, lacking = self._reached(family, job, looks)
        policy = Policy.model_validate_json(json.dumps((job.audit.policy or {})["document"]))
        whole = _is_reached(lacking, looks)
        read = done.get if whole else partial(_reached_by_now, done)
        asked = (policy, family_spec(job.check.kind), job.params.model_dump(mode="json"), read, looks)
        # As soon as the stages that tell are there: others wait for a look that needs them.
        if looks.is_early and is_surely_open(*asked, seed=job.audit.seed):
            return self._left_open(family, job, looks, following(*asked, seed=job.audit.seed), is_doubted=None)
        if not whole:
            return Advanced(stage=lacking)
        result, look = self._taken(family, job, policy, looks, done, holder, was_doubted=_was_doubted(job))
        if (
            not look.is_open
            and looks.is_early
            and look.may_pass
            and self._was_doubted_unseen(family, job, policy, looks, holder)
        ):
            result, look = self._taken(family, job, policy, looks, done, holder, was_doubted=True)
        if look.is_open or (looks.is_early and _errs_often(job, done)):
            later = following(*asked, seed=job.audit.seed)
            return self._left_open(family, job, looks, later, is_doubted=look.is_doubted)
        if lacking is not None:
            # Only once it is known that this look ends the audit.
            return Advanced(stage=lacking)
        told = looks.model_copy(update={"may_pass": look.may_pass})
        return Advanced(values=self._drawn(family, job, result.model_copy(update={"looks": told})))

    def _left_open(
        self, family: AnyFamily, job: CheckJob, looks: Looks, later: Looks, *, is_doubted: bool | None
    ) -> Advanced:
        """Return what is written of looks that leave a check open, and the stage that a later one lacks first."""
        _, lacking = self._reached(family, job, later)
        over = [{"examples": examples, "doubted": None} for examples in looks.sizes[looks.ended : later.ended - 1]]
        return Advanced(
            stage=None if _is_reached(lacking, later) else lacking,
            open_looks=[{"examples": looks.examples, "doubted": is_doubted}, *over],
        )

    def _reached(self, family: AnyFamily, job: CheckJob, looks: Looks) -> tuple[StoredRecords, Stage | None]:
        """Return the records as far as a look takes them, and the stage that it lacks."""
        begun = {stage.name: stage for stage in job.stages}
        reached, taken = {PREFLIGHT: job.records()[PREFLIGHT]}, dict[str, int]()
        # It reads what stages are added to: each is read once, not anew for every stage.
        done = StoredRecords(reached, self._store, taken)
        while (stage := family.next_stage(job.params, done)) is not None:
            most = reach(job, stage, looks)
            if stage.name not in begun or begun[stage.name].examples < most:
                return done, stage
            reached[stage.name], taken[stage.name] = job.records(most)[stage.name], most
        return done, None

    def _taken(
        self,
        family: AnyFamily,
        job: CheckJob,
        policy: Policy,
        looks: Looks,
        done: StoredRecords,
        holder: Holder,
        *,
        was_doubted: bool,
    ) -> tuple[Result, Look]:
        """Return the numbers of a look, and what it says."""
        kind, stored = job.check.kind, job.params.model_dump(mode="json")
        result = at_look(self._reduce(family, job, done, holder), kind, stored, looks)
        check = measured_so_far(job.check.ordinal, kind, stored, result)
        return result, take_look(
            *(policy, job.kinds, check),
            seed=job.audit.seed,
            was_doubted=was_doubted,
            has_baseline=job.has_baseline,
        )

    def _was_doubted_unseen(
        self, family: AnyFamily, job: CheckJob, policy: Policy, looks: Looks, holder: Holder
    ) -> bool:
        """Tell whether a doubt shows at a look that was passed over before its numbers were worked out."""
        for number, earlier in enumerate(job.check.looks or [], 1):
            # None: its numbers were not worked out.
            if earlier["doubted"] is not None:
                continue
            then = looks.model_copy(update={"ended": number})
            done, _ = self._reached(family, job, then)
            if self._taken(family, job, policy, then, done, holder, was_doubted=False)[1].is_doubted:
                return True
        return False

    def run(self, job: ShardJob, holder: Holder) -> Measured:
        """Run a shard and store its records."""
        context = ShardContext(job, self.resources, holder)
        records, flags = _measure(job, context, holder)
        asked = context.asked()
        stored = to_parquet(records)
        return Measured(
            records_digest=self._store.put_bytes(stored),
            records_bytes=len(stored),
            flags=[flag.model_dump() for flag in flags],
            queries=asked and asked[0],
            forward_passes=asked and asked[1],
            seconds=context.spent_s(),
        )

    def harden(self, job: HardeningJob, holder: Holder) -> Hardened:
        """Train, and store what came of it."""
        # Loaded for itself: an audit in this process must not meet the model as it becomes.
        return harden(job, Resources(self._store, self._device, self._settings), holder)

    def close(self) -> None:
        """Let go of everything; the process's end does."""

    def _reduce(self, family: AnyFamily, job: CheckJob, done: StoredRecords, holder: Holder) -> Result:
        seed = derive_seed(job.audit.seed, job.check.kind, "reduce")
        result: Result = family.reduce(job.params, done, seed, check_cancelled=holder.check_cancelled)
        require_registered(job.check.kind, result.flags)
        stored = job.params.model_dump(mode="json")
        result = with_declared_means(result, family_spec(job.check.kind), stored, done.by_column)
        noted = [Flag.model_validate(flag) for shard in job.shards for flag in shard.flags or []]
        noted += [*mixed(job.shards), *left_out(done.each_by_column(), job.audit.spec["max_error_rate"])]
        noted += [*chosen_salt(job.audit.spec), *few_bins(stored.get("bins"))]
        return settled(job.check.kind, stored, result.model_copy(update={"flags": [*noted, *result.flags]}))

    def _drawn(self, family: AnyFamily, job: CheckJob, result: Result) -> dict[str, Any]:
        """Return a result as it is stored, with the artifacts of its figures."""
        drawn = {name: svg.encode() for name, svg in sorted(family.figures(job.params, result).items())}
        figures = {name: self._store.put_bytes(svg) for name, svg in drawn.items()}
        sizes = {figures[name]: len(svg) for name, svg in drawn.items()}
        return {
            "result": result.model_dump(mode="json"),
            "figures": figures,
            "figures_bytes": sum(sizes.values()),
            "figure_sizes": sizes,
        }


def _measure(job: ShardJob, context: ShardContext, holder: Holder) -> tuple[Records, list[Flag]]:
    holder.poll_cancelled()
    family = find_family(job.kind)
    if job.shard.stage == PREFLIGHT:
        looked = run_preflight(family, job, context)
        require_registered(job.kind, looked[1])
        return looked
    records = family.run(job.params, job.shard, context)
    expected = job.shard.stop - job.shard.start
    if records.num_rows != expected:
        raise RuntimeError(f"{job.kind} returned {records.num_rows} records for {expected} examples")
    return records, []


def _is_reached(lacking: Stage | None, looks: Looks) -> bool:
    """Tell whether a look has all it needs to be taken: an early one does without the stages that close a check."""
    return lacking is None or (lacking.is_closing and looks.is_early)


def _reached_by_now(done: StoredRecords, stage: str) -> Records:
    if stage not in done:
        raise NotReachedError(stage)
    return done[stage]


def _was_doubted(job: CheckJob) -> bool:
    return any(one["doubted"] for one in job.check.looks or [])


LEFT_OUT = 0.05
"""Share of errored examples of a stage above which its numbers are doubted: what audits allow by default."""


def _too_many_errors(job: CheckJob, done: StoredRecords) -> StoredProblem | None:
    if not job.stages:
        return None
    # Earlier stages were looked at when they ended.
    name, allowed = job.check.stage or job.stages[-1].name, job.audit.spec["max_error_rate"]
    records = by_column(done, name)
    errored = pc.sum(records.column("errored").cast("int64")).as_py() or 0
    # What is looked at before its end may still have fewer: it fails once all that are left could not make up for them.
    examples = records.num_rows if planned_looks(job) is None else max(job.sampled(), records.num_rows)
    if errored <= allowed * examples:
        return None
    return StoredProblem(
        code="too-many-errors",
        title="Too many examples errored",
        detail=f"{errored} of {records.num_rows} examples of stage {name} errored: outputs that are not finite, no "
        f"answer, or a budget that ran out. max_error_rate allows {allowed:.0%}. An errored example is never counted "
        "as robust. Its records stay readable; a retry would judge the same ones: submit a new audit when the cause is "
        "gone.",
        field="/max_error_rate",
    )


def _errs_often(job: CheckJob, done: StoredRecords) -> bool:
    """Tell whether a stage has a larger share of errored examples so far than a check may have in the end."""
    return any(share > job.audit.spec["max_error_rate"] for share in _errored_shares(done.each_by_column()).values())


def _errored_shares(done: Mapping[str, ByColumn | None]) -> dict[str, float]:
    """Return which share of the examples of each stage errored; nothing of a stage that is begun and not measured."""
    measured = {name: records for name, records in done.items() if records is not None}
    return {name: pc.mean(one.column("errored").cast("float64")).as_py() or 0.0 for name, one in measured.items()}


def chosen_salt(spec: Mapping[str, Any]) -> list[Flag]:
    """Doubt an audit whose randomness whoever asked for it knows wholly."""
    if (given := spec.get(GIVEN)) is None:
        return []
    return [
        Flag(
            code="chosen_salt",
            severity="warning",
            message=f"The salt {given} was given with the request: whoever serves the model can work out what "
            "this audit asks before it does.",
        )
    ]


def left_out(done: Mapping[str, ByColumn | None], allowed: float) -> list[Flag]:
    """Doubt numbers of which many examples of a stage are left out because they errored.

    That is where more may than by default, with which a check fails in the end, whatever its first examples do.
    """
    if allowed <= LEFT_OUT:
        return []
    shares = _errored_shares(done)
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is None or shares[worst] <= LEFT_OUT:
        return []
    return [
        Flag(
            code="left_out",
            severity="warning",
            message=f"{shares[worst]:.0%} of the examples of stage {worst} errored, which max_error_rate allowed, and "
            "are left out of its means: a model may err just where an attack succeeds.",
        )
    ]


def mixed(shards: Sequence[ShardRow]) -> list[Flag]:
    """Return the doubts that follow from who measured the shards of a check."""
    flags = []
    # Null: by a worker from before it was told, which is another code; of the hardware it says nothing.
    codes = sorted({shard.code or "unknown" for shard in shards if shard.records_digest})
    if len(codes) > 1:
        told = ", ".join(code[:12] for code in codes)
        flags.append(
            Flag(
                code="mixed_code", severity="warning", message=f"Measured by {len(codes)} versions of the code: {told}."
            )
        )
    machines = sorted({shard.hardware for shard in shards if shard.hardware})
    if len(machines) > 1:
        message = f"Measured on {len(machines)} types of hardware: {'; '.join(machines)}."
        flags.append(Flag(code="mixed_hardware", severity="info", message=message))
    return flags
