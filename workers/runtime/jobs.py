"""What the database says about a piece of work, as it is handed to whoever runs models.

Without torch, and without a session: a job is read in one process and run in another.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.contracts.family import FamilyParams
from seatrial.contracts.registry import as_meant, params_contract
from seatrial.contracts.training import MethodParams
from seatrial.store.artifacts import digest_of_bytes
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow, StageRow
from workers.families.stages import HELD_OUT, SAMPLE, Shard, Stage
from workers.runtime.code import code_version


@dataclass(frozen=True)
class ModelJob:
    """A model to be checked."""

    model: ModelRow

    def models(self) -> list[ModelRow]:
        """Return the models it loads."""
        return [self.model]

    def digests(self) -> set[str]:
        """Return the artifacts it may read."""
        return {self.model.digest}


@dataclass(frozen=True)
class ShardJob:
    """Everything about one shard that the database says.

    Attributes:
        shard_id: Of its row.
        check_id: Of its check.
        audit_id: Of its audit.
        kind: Family.
        params: Of the check.
        shard: Stage, and positions in it.
        seed: Of the audit.
        samples: Examples of the audit.
        batch_size: Examples at once, at most.
        model: Under audit.
        source: The dataset the stage runs over: the audit's own or a further one.
        is_further_source: Whether it is a further one, whose images are brought to the model's shape.
        is_held_out: Whether the stage runs over what the audit's sample leaves of its dataset.
        examples: Examples of the stage, all its shards together.
        further_models: Other models by the parameter naming them.
        further_datasets: Other datasets by the parameter naming them.
        salt: What of a model behind a URL randomness follows from that its vendor may not know; None of others.
        earlier: Artifacts of the records of the stages before this one.
        sent: Texts, or images, this check's other shards have sent through a text model or an endpoint so far.
        checkpoint: Artifact of the shard's checkpoint, if it has one.
        may_resume: Whether this attempt may begin from it.
    """

    shard_id: str
    check_id: str
    audit_id: str
    kind: str
    params: FamilyParams
    shard: Shard
    seed: int
    salt: str | None
    samples: int
    batch_size: int
    model: ModelRow
    source: DatasetRow
    is_further_source: bool
    is_held_out: bool
    examples: int
    further_models: dict[str, ModelRow]
    further_datasets: dict[str, DatasetRow]
    earlier: dict[str, list[str]]
    sent: int
    checkpoint: str | None
    may_resume: bool

    def belongs_to(self) -> str:
        """Return a digest of all that a state inside this shard depends on, the code that runs it included."""
        rows: list[tuple[str, ModelRow | DatasetRow]] = [("model", self.model), ("source", self.source)]
        rows += [*sorted(self.further_models.items()), *sorted(self.further_datasets.items())]
        facts = {
            "shard": [self.shard_id, self.shard.stage, self.shard.start, self.shard.stop],
            "kind": self.kind,
            "params": self.params.model_dump(mode="json"),
            "sample": [self.seed, self.salt, self.samples, self.batch_size],
            "resources": [[name, row.digest, row.manifest] for name, row in rows],
            "code": code_version(),
        }
        return digest_of_bytes(json.dumps(facts, sort_keys=True).encode())

    def models(self) -> list[ModelRow]:
        """Return the models it loads."""
        return [self.model, *self.further_models.values()]

    def digests(self) -> set[str]:
        """Return the artifacts it may read."""
        rows: list[ModelRow | DatasetRow] = [*self.models(), self.source, *self.further_datasets.values()]
        records = [digest for digests in self.earlier.values() for digest in digests]
        return {row.digest for row in rows} | set(records) | ({self.checkpoint} if self.checkpoint else set())


@dataclass(frozen=True)
class HardeningJob:
    """Everything about a training that the database says.

    Attributes:
        hardening_id: Of its row.
        seed: Of the hardening.
        model: That is trained on.
        params: Of the method, which they name.
        dataset: Trained on.
        validation: What every epoch is judged on; None for a part of ``dataset``.
        audited: What both versions will be audited on, and none of which may be trained on.
        checkpoint: Artifact of its checkpoint, if it has one.
        may_resume: Whether this attempt may begin from it.
    """

    hardening_id: str
    params: MethodParams
    seed: int
    model: ModelRow
    dataset: DatasetRow
    validation: DatasetRow | None
    audited: DatasetRow
    checkpoint: str | None
    may_resume: bool

    def belongs_to(self) -> str:
        """Return a digest of all that a state inside this training depends on, the code that runs it included."""
        rows: list[ModelRow | DatasetRow | None] = [self.model, self.dataset, self.validation]
        facts = {
            "hardening": self.hardening_id,
            "params": self.params.model_dump(mode="json"),
            "seed": self.seed,
            "resources": [row and [row.digest, row.manifest] for row in rows],
            "code": code_version(),
        }
        return digest_of_bytes(json.dumps(facts, sort_keys=True).encode())

    def models(self) -> list[ModelRow]:
        """Return the models it loads."""
        return [self.model]

    def digests(self) -> set[str]:
        """Return the artifacts it may read."""
        rows: list[ModelRow | DatasetRow | None] = [self.model, self.dataset, self.validation, self.audited]
        return {row.digest for row in rows if row is not None} | ({self.checkpoint} if self.checkpoint else set())


@dataclass(frozen=True)
class CheckJob:
    """Everything about a check that the database says."""

    check: CheckRow
    params: FamilyParams
    audit: AuditRow
    by_name: dict[str, ModelRow]
    """The audit's model under "model", and further ones by the parameter naming them."""
    datasets: dict[str, DatasetRow]
    """The audit's dataset under ``SAMPLE``, and further ones by the parameter naming them."""
    stages: list[StageRow]
    shards: list[ShardRow]
    kinds: tuple[str, ...] = ()
    """Families of all checks of the audit, in the order asked."""
    has_baseline: bool = False
    """Whether there is an audit that regressions would be measured from."""

    def sampled(self) -> int:
        """Return how many examples the audit draws."""
        return min(self.audit.samples, int(self.datasets[SAMPLE].facts["examples"]))

    def examples(self, stage: Stage) -> int:
        """Return how many examples a stage has in all."""
        available = int(self.datasets[SAMPLE if stage.source == HELD_OUT else stage.source].facts["examples"])
        if stage.source == HELD_OUT:
            available -= min(self.audit.samples, available)
        limit = stage.limit if stage.limit is not None else self.audit.samples
        return min(limit, available, *([self.audit.samples] if stage.source == SAMPLE else []))

    def records(self, most: int | None = None) -> dict[str, list[str]]:
        """Return the artifacts of each stage's shards, in order; with ``most`` of those that begin before it."""
        kept = [one for one in self.shards if most is None or one.start < most]
        return {
            stage.name: [one.records_digest for one in kept if one.stage == stage.name and one.records_digest]
            for stage in self.stages
        }

    def looks_with(self, more: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the looks that left it open, and more of them."""
        return [*(self.check.looks or []), *map(dict, more)]

    def models(self) -> list[ModelRow]:
        """Return the models its shards load; advancing it loads none."""
        return list(self.by_name.values())

    def digests(self) -> set[str]:
        """Return the artifacts it may read."""
        return {digest for digests in self.records().values() for digest in digests}


@dataclass(frozen=True)
class Measured:
    """What a shard measured.

    Attributes:
        records_digest: Artifact of its records.
        records_bytes: Size of that file.
        flags: Doubts that do not stop the audit.
        queries: Texts the model under audit was asked for; None where it was not asked.
        forward_passes: Texts it computed.
        seconds: Time the shard took.
    """

    records_digest: str
    records_bytes: int
    flags: list[dict[str, Any]]
    queries: int | None
    forward_passes: int | None
    seconds: float


@dataclass(frozen=True)
class Hardened:
    """What a training made.

    Attributes:
        digest: Artifact of the new version; that of the old one where only a map of logits was fitted.
        size_bytes: Its size.
        weights_digest: Artifact of its weights as one safetensors file; None where they are as they were.
        weights_bytes: Size of that.
        recalibration: The map of logits, for the manifest; None where weights were trained.
        kept_epoch: Whose weights were kept, from 1; None of a map.
        notes: What to know about it.
        curves: A point per epoch.
        seconds: Time the training took.
    """

    digest: str
    size_bytes: int
    weights_digest: str | None
    weights_bytes: int | None
    recalibration: dict[str, Any] | None
    kept_epoch: int | None
    notes: list[str]
    curves: list[dict[str, float]]
    seconds: float


@dataclass(frozen=True)
class Advanced:
    """How a check goes on.

    Attributes:
        stage: Its next stage, or one that goes on; None at its end. Beside ``open_looks``, that of the look after them.
        open_looks: What is written of looks that leave it open, after which it goes on to the next.
        error: Why it failed; None where it did not.
        values: What is stored at its end: result and figures.
    """

    stage: Stage | None = None
    open_looks: Sequence[Mapping[str, Any]] = ()
    error: dict[str, Any] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def read_params(check: CheckRow) -> FamilyParams:
    """Return a check's parameters; once for a job, which carries them wherever it is run."""
    return params_contract(check.kind).model_validate(as_meant(check.kind, check.params), strict=False)


def parse_manifest(model: type[Any], stored: dict[str, Any]) -> Any:
    """Return a stored manifest as the contract it was accepted under."""
    return model.model_validate(stored, strict=False)
