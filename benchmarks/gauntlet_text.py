"""Endpoints of texts that must not pass a shipped policy, and honest ones that no doubt may block.

    python -m benchmarks.gauntlet_text
    python -m benchmarks.gauntlet_text --train train.jsonl --data test.jsonl
    python -m benchmarks.gauntlet_text --chat

Every endpoint is audited in memory, without HTTP, with the arm calibrated beside those that are always run (a further
one can only take more from a fake), and judged by each shipped policy. A fake may fail, be inconclusive,
or end in a doubt; it may not pass. An honest endpoint may fail at its bound; a doubt about how it was measured may not
stop it. Files hold a JSON object with `text` and `label` (0 or 1) a line; without them reviews are made up.
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arm_costs import costs_by_stage
from benchmarks.bought_text_fakes import Shaped, bought
from benchmarks.edited_text_fakes import edited
from benchmarks.fresh_text_fakes import fresh
from benchmarks.guarded_text_fakes import guarded
from benchmarks.holding_text_fakes import holding
from benchmarks.insisting_text_fakes import insisting
from benchmarks.knowing_text_fakes import knowing
from benchmarks.latched_text_fakes import latched
from benchmarks.leaning_text_fakes import leaning
from benchmarks.misread_text_fakes import misread
from benchmarks.newest_text_fakes import newest
from benchmarks.shipped import shipped_judgements
from benchmarks.stepping_text_fakes import stepping
from benchmarks.text_chat import Chat, as_chats
from benchmarks.text_fakes import BagOfWords, Endpoint, fakes, honest
from benchmarks.trigger_text_fakes import triggered
from benchmarks.unread_text_fakes import unread
from benchmarks.vendor_text_fakes import Vendor, vendors
from benchmarks.woken_text_fakes import woken
from seatrial.contracts.estimates import Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.registry import family as family_spec
from seatrial.contracts.states import RunState
from seatrial.families.shared.means import with_declared_means
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.judging.measured import MeasuredCheck
from tests import texts
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import SAMPLE, Shard
from workers.families.temperature_attack.family import FAMILY
from workers.runtime.seeds import derive_seed

KIND = "temperature_attack"
SALT = "of the gauntlet"
ASKED = "mean_queries[arm=label_only,"
SENTENCES = 4
"""Made-up sentences of one opinion in a review: one word alone decides none."""


@dataclass(frozen=True)
class Context:
    """What the runtime gives a shard, from memory."""

    examples: list[TextExample]
    service: ScoringService
    done: Mapping[str, Records]
    samples: int = 1000

    def texts(self) -> list[TextExample]:
        """Return the shard's examples."""
        return self.examples

    def scoring(self, parameter: str | None = None) -> ScoringService:
        """Return the service of the model under audit."""
        return self.service

    def seed(self, purpose: str, example_id: int) -> int:
        """Return a seed for an example."""
        return derive_seed(0, purpose, example_id)

    def salted_seed(self, purpose: str, example_id: int) -> int:
        """Return a seed for an example that no endpoint knows."""
        return derive_seed(0, SALT, purpose, example_id)

    def records(self, stage: str) -> Records:
        """Return the records of an earlier stage."""
        return self.done[stage]

    def progress(self, done: int) -> None:
        """Tell nobody."""

    def check_cancelled(self) -> None:
        """Go on."""


@dataclass(frozen=True)
class Row:
    """What became of one endpoint."""

    endpoint: Endpoint | Chat
    result: Result
    seconds: float
    queries: int
    queries_by_stage: dict[str, float]
    judgements: dict[str, Judgement]

    @property
    def wrong(self) -> list[str]:
        """Return the policies that a fake passed, or at which a doubt stopped an honest endpoint."""
        bad = "passed" if self.endpoint.fake else "errored"
        return [name for name, judgement in self.judgements.items() if judgement.verdict == bad]


def audit(
    endpoint: Endpoint | Chat, sample: list[TextExample], held_out: list[TextExample], params: TemperatureAttackParams
) -> Row:
    """Run every stage of a check on an endpoint, and judge it by every shipped policy."""
    began, done, asked = time.perf_counter(), dict[str, Records](), dict[str, float]()
    # One service and so one session for all stages, as an endpoint sees one client.
    service = ScoringService(endpoint, max_bytes=10**9)
    # Before anything else every text is asked as it is, to see whether the model can be audited at all.
    service.scores([example.text for example in sample])
    asked["before"] = service.meters.queries
    while (stage := FAMILY.next_stage(params, done)) is not None:
        examples = sample if stage.source == SAMPLE else held_out
        count = min(len(examples), stage.limit or len(examples))
        context = Context(examples[:count], service, done)
        before = service.meters.queries
        done[stage.name] = FAMILY.run(params, Shard(stage.name, 0, count), context)  # type: ignore[arg-type]
        asked[stage.name] = service.meters.queries - before
    stored = params.model_dump(mode="json")
    result = with_declared_means(FAMILY.reduce(params, done, 0), family_spec(KIND), stored, done.get)
    if isinstance(endpoint, Chat):
        result = result.model_copy(update={"flags": [*result.flags, *endpoint.flags()]})
    check = MeasuredCheck(0, KIND, RunState.SUCCEEDED, result, None, stored)
    seconds = time.perf_counter() - began
    return Row(endpoint, result, seconds, service.meters.queries, asked, shipped_judgements(check))


def read(path: Path) -> list[tuple[str, int]]:
    """Return texts and labels of a JSON Lines file, packed or not."""
    packed = path.read_bytes()
    lines = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    return [(row["text"], int(row["label"])) for row in rows]


def made_up(count: int, seed: int) -> list[tuple[str, int]]:
    """Return reviews of several sentences that share an opinion."""
    draw = random.Random(seed)
    pool = texts.sentences(count * SENTENCES, seed)
    sides = {label: [text for text, other in pool if other == label] for label in (0, 1)}
    labels = [draw.randrange(2) for _ in range(count)]
    return [(" ".join(draw.sample(sides[label], SENTENCES)), label) for label in labels]


def main() -> int:
    """Print a row for each endpoint, then what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, help="texts to learn from")
    parser.add_argument("--data", type=Path, help="texts to audit")
    parser.add_argument("--examples", type=int, default=275)
    parser.add_argument("--validation", type=int, default=100)
    parser.add_argument("--arms", nargs="*", default=["calibrated"], help="beside those that are always run")
    parser.add_argument("--evaluations", type=int, default=6, help="of the temperature search of arm optimized")
    parser.add_argument("--chat", action="store_true", help="ask them as language models")
    parser.add_argument("--only", nargs="*", default=[""], help="endpoints whose name holds one of these")
    arguments = parser.parse_args()
    train = read(arguments.train) if arguments.train else made_up(2000, 1)
    rows = read(arguments.data) if arguments.data else made_up(2000, 2)
    random.Random(0).shuffle(rows)
    examples = [TextExample(number, text, label) for number, (text, label) in enumerate(rows)]
    sample, held_out = examples[: arguments.examples], examples[arguments.examples :]
    odds = BagOfWords(*zip(*train, strict=True))
    params = TemperatureAttackParams(
        kind=KIND,
        arms=arguments.arms,
        validation_samples=arguments.validation,
        temperature_evaluations=arguments.evaluations,
    )
    known = [(str(example.text), example.label) for example in sample]
    endpoints = honest(odds) + fakes(odds, [text for text, _ in known])
    vocabulary = [text for text, _ in train]
    endpoints += knowing(odds, known, vocabulary) + edited(odds, [*vocabulary, *(text for text, _ in known)])
    endpoints += fresh(odds, vocabulary) + triggered(odds, vocabulary)
    endpoints += vendors(odds, [text for text, _ in known], vocabulary)
    endpoints += bought(odds, known, vocabulary)
    endpoints += newest(odds, known, vocabulary)
    endpoints += unread(odds, vocabulary, endpoints[0].answer)
    endpoints += misread(odds, vocabulary) + leaning(odds) + woken(odds, vocabulary, [label for _, label in train])
    endpoints += insisting(odds, vocabulary) + stepping(odds)
    labels = [label for _, label in train]
    endpoints += guarded(odds, vocabulary, labels) + latched(odds, vocabulary, labels) + holding(odds)
    contestants: list[Endpoint] | list[Chat] = as_chats(endpoints, odds) if arguments.chat else endpoints
    chosen = [endpoint for endpoint in contestants if any(part in endpoint.name for part in arguments.only)]
    print(f"{'endpoint':48} {'clean':>6} {'served':>6} {'calib.':>6} {'optim.':>6} {'labels':>6} {'gap':>5} {'s':>4}")
    found = []
    for endpoint in chosen:
        asked, drawn, others = params, sample, held_out
        if isinstance(endpoint, Vendor):
            asked = params.model_copy(update=dict(endpoint.settings))
            drawn = list(filter(endpoint.draws, examples))[: arguments.examples]
            # Whoever chooses what is audited chooses the rest of the data too.
            others = list(filter(endpoint.draws, examples))[arguments.examples :]
        if isinstance(endpoint, Shaped):
            drawn, others = list(map(endpoint.shapes, drawn)), list(map(endpoint.shapes, others))
        found.append(audit(endpoint, drawn, others, asked))
        print(_line(found[-1]), flush=True)
    return _conclude(found)


def _conclude(rows: Sequence[Row]) -> int:
    passed = [row.endpoint.name for row in rows if row.endpoint.fake and row.wrong]
    blocked = [row.endpoint.name for row in rows if not row.endpoint.fake and row.wrong]
    count = sum(row.endpoint.fake for row in rows)
    labels = [one.value or 0.0 for row in rows for name, one in row.result.estimates.items() if name.startswith(ASKED)]
    queries = [row.queries for row in rows]
    print(f"\nfakes that passed a policy: {len(passed)} of {count} {passed or ''}")
    print(f"honest endpoints stopped by a doubt: {len(blocked)} of {len(rows) - count} {blocked or ''}")
    print(f"queries of an audit: {min(queries):,} to {max(queries):,}; of label_only a text: up to {max(labels):.0f}")
    print(costs_by_stage([row.queries_by_stage for row in rows], "questions"))
    return 1 if passed or blocked else 0


def _line(row: Row) -> str:
    names = ["clean_accuracy"]
    names += [f"adversarial_accuracy[arm={arm}]" for arm in ("as_served", "calibrated", "optimized", "label_only")]
    numbers = [row.result.estimates.get(name) for name in [*names, "illusion_gap"]]
    told = " ".join(
        "     -" if number is None or number.value is None else f"{number.value:6.3f}" for number in numbers
    )
    verdicts = " / ".join(judgement.verdict for judgement in row.judgements.values())
    flags = ", ".join(f"{flag.code} ({flag.severity})" for flag in row.result.flags)
    name = f"{'fake' if row.endpoint.fake else 'honest'}: {row.endpoint.name}"
    return f"{'! ' if row.wrong else '  '}{name:46} {told} {row.seconds:4.0f}  {verdicts}; {flags}"


if __name__ == "__main__":
    sys.exit(main())
