"""Whole audits in this process, cut and cached in several ways: the records are the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from tests import texts
from tests.attacks.text.classifiers import LetterCounter, tiny_sentiment
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import SAMPLE, Shard
from workers.families.temperature_attack.family import FAMILY
from workers.runtime.interruptions import ShardCancelled
from workers.runtime.seeds import derive_seed

EXAMPLES = [TextExample(number, text, label) for number, (text, label) in enumerate(texts.sentences(32, seed=9))]
# The same text twice, once with another label.
EXAMPLES[3] = TextExample(3, EXAMPLES[2].text, EXAMPLES[2].label)
EXAMPLES[7] = TextExample(7, EXAMPLES[0].text, 1 - EXAMPLES[0].label)
ATTACKED, HELD_OUT = EXAMPLES[:12], EXAMPLES[12:]


@dataclass
class Context:
    """What the runtime gives a shard, from memory."""

    examples: list[TextExample]
    services: dict[str | None, ScoringService]
    done: dict[str, Records]
    check_cancelled: Callable[[], None] = lambda: None
    told: list[int] = field(default_factory=list)
    samples: int = 1000

    def texts(self) -> list[TextExample]:
        return self.examples

    def scoring(self, parameter: str | None = None) -> ScoringService:
        return self.services[parameter]

    def seed(self, purpose: str, example_id: int) -> int:
        return derive_seed(0, purpose, example_id)

    def salted_seed(self, purpose: str, example_id: int) -> int:
        return self.seed(purpose, example_id)

    def records(self, stage: str) -> Records:
        return self.done[stage]

    def progress(self, done: int) -> None:
        self.told.append(done)


def asked(**more: Any) -> TemperatureAttackParams:
    params = {"kind": "temperature_attack", "validation_samples": len(HELD_OUT), "query_budget": 15} | more
    return TemperatureAttackParams.model_validate(params)


def audit(params: TemperatureAttackParams, *, shard: int, max_bytes: int) -> dict[str, Records]:
    """Return the records of all stages, cut into shards of so many examples, each with a cache of its own."""
    done: dict[str, Records] = {}
    while (stage := FAMILY.next_stage(params, done)) is not None:
        examples = ATTACKED if stage.source == SAMPLE else HELD_OUT
        parts = []
        for start in range(0, len(examples), shard):
            own = {None: tiny_sentiment(), "source_model": LetterCounter()}
            services = {name: ScoringService(model, max_bytes=max_bytes) for name, model in own.items()}
            context = Context(examples[start : start + shard], services, done)
            parts.append(FAMILY.run(params, Shard(stage.name, start, start + shard), context))
        done[stage.name] = pa.concat_tables(parts).combine_chunks()
    return done


def as_bytes(records: Records) -> bytes:
    buffer = BytesIO()
    pq.write_table(records, buffer)
    return buffer.getvalue()


def test_neither_shards_nor_the_cache_change_a_record() -> None:
    params = asked(
        recipes=["deepwordbug", "input_reduction"],
        arms=["calibrated", "optimized", "platt_matrix", "transfer"],
        source_model="mdl_other",
        design_temperature=0.01,
        temperature_evaluations=7,
    )
    whole = audit(params, shard=20, max_bytes=10**8)
    cut = audit(params, shard=8, max_bytes=0)
    assert list(whole) == [
        "quiet_first",
        "transferred",
        "probe",
        "sent_once",
        "prepared",
        "validation",
        "search_1",
        "search_2",
        "attack_deepwordbug",
        "attack_input_reduction",
        "quiet_amid",
        "closing",
        "unasked",
        "quiet",
    ]
    assert {name: as_bytes(records) for name, records in cut.items()} == {
        name: as_bytes(records) for name, records in whole.items()
    }
    assert FAMILY.reduce(params, cut, 0) == FAMILY.reduce(params, whole, 0)


def test_scoring_alone_can_be_cancelled() -> None:
    looks: list[int] = []

    def cancel() -> None:
        looks.append(1)
        if len(looks) == 2:
            raise ShardCancelled("now")

    service = ScoringService(tiny_sentiment(), max_bytes=10**8)
    context = Context(HELD_OUT, {None: service}, {}, check_cancelled=cancel)
    with pytest.raises(ShardCancelled):
        FAMILY.run(asked(), Shard("validation", 0, len(HELD_OUT)), context)
    assert 0 < service.meters.forward_passes < len(HELD_OUT)
