"""Robustness that a text has as it stands and not beside a reference number is no robustness of a model."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType

import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import parameters, records
from tests.families.temperature_attack.test_crossing import LONG
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_probe import SAMPLE, likely
from tests.families.temperature_attack.test_probe import Context as Asking
from tests.families.temperature_attack.test_surrogate import honest
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import Records, TextExample
from workers.families.protocol import Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.displaced import RUNNING, displaced, own_part, read_displacement
from workers.families.temperature_attack.family import ATTACK, CLOSING, FAMILY, PROBE
from workers.families.temperature_attack.primed import read_priming, with_primed
from workers.families.temperature_attack.probe import run_probe
from workers.models import UnansweredError

PARAMS = TemperatureAttackParams(kind="temperature_attack", arms=[], query_budget=25, label_queries=25)
Answering = Callable[[str], torch.Tensor]


def right(text: str) -> int:
    return int(honest(text).argmax())


TEXTS = [TextExample(row.example_id, row.text, right(str(row.text))) for row in SAMPLE[:24]]


class Crowd(TextModel):
    """Answers several texts at once as its function does, and one by itself honestly."""

    def logits(self, texts: Sequence[Text]) -> list[torch.Tensor | UnansweredError]:
        return super().logits(texts) if len(texts) > 1 else [honest(str(text)) for text in texts]


@dataclass
class Insistent:
    """Answers honestly whoever asks the same some times running, and another as its function does."""

    function: Answering
    last: str = ""
    times: int = 0

    def __call__(self, text: str) -> torch.Tensor:
        self.times = self.times + 1 if text == self.last else 1
        self.last = text
        return honest(text) if self.times > 2 else self.function(text)


REQUESTS: list[list[str]] = []


class Noted(TextModel):
    """Notes what it is asked at once."""

    def logits(self, texts: Sequence[Text]) -> list[torch.Tensor | UnansweredError]:
        REQUESTS.append(list(map(str, texts)))
        return super().logits(texts)


def audited(
    during: Answering,
    after: Answering | None = None,
    cut: int = 24,
    examples: list[TextExample] = TEXTS,
    kind: type[TextModel] = TextModel,
    done: Mapping[str, Records] = MappingProxyType({}),
) -> dict[str, Records]:
    """Return the records of a probe, an attack, and the stage that closes an audit, cut into shards, after others."""
    done = dict(done)
    for stage, function in ((PROBE, during), (f"{ATTACK}deepwordbug", during), (CLOSING, after or during)):
        service = ScoringService(kind(function, ["bad", "good"]), max_bytes=0)
        parts = [
            FAMILY.run(
                PARAMS, Shard(stage, start, start + cut), Context(examples[start : start + cut], {None: service}, done)
            )
            for start in range(0, len(examples), cut)
        ]
        done[stage] = pa.concat_tables(parts).combine_chunks()
    return done


def flags(done: dict[str, Records]) -> dict[str, Flag]:
    return {flag.code: flag for flag in estimates.reduce(PARAMS, done, 0).flags}


@dataclass
class Knowing:
    """Says of texts near to those it knows what it knows of them."""

    edits: int
    known: dict[str, int] = field(default_factory=lambda: {str(row.text): row.label for row in TEXTS})

    def __call__(self, text: str) -> torch.Tensor:
        for known, label in self.known.items():
            if Levenshtein.distance(text, known, score_cutoff=self.edits) <= self.edits:
                return likely(0.9 if label else 0.1)
        return honest(text)


@dataclass
class Keeping:
    """Decides for texts near to those it was asked before what it decided then."""

    edits: int
    said: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        near = extractOne(text, self.said.keys(), scorer=Levenshtein.distance, score_cutoff=self.edits)
        self.said[text] = self.said[near[0]] if near else right(text)
        return likely(0.9 if self.said[text] else 0.1)


def constant(text: str) -> torch.Tensor:
    return likely(0.9)


def test_texts_known_by_heart_are_told() -> None:
    done = audited(Knowing(40))
    flag = flags(done)["memorised_texts"]
    assert flag.severity == "error"
    assert "withstand the search that sees labels alone" in flag.message
    found = read_displacement(done[CLOSING])
    assert found is not None
    # It is right about them too, unattacked: the number beside a text takes nothing from what it says.
    assert found.right.all()
    assert found.robust.mean() < 0.5


@pytest.mark.parametrize("function", [honest, Knowing(0), constant], ids=["honest", "only as they stand", "robust"])
def test_who_answers_what_a_text_says_is_left_alone(function: Answering) -> None:
    done = audited(function)
    found = flags(done)
    assert "memorised_texts" not in found
    assert "answers_depend_on_history" not in found
    read = read_displacement(done[CLOSING])
    assert read is not None
    assert read.ends_asked >= 24
    assert read.ends_changed == 0


def test_decisions_that_were_kept_while_a_text_was_attacked_and_then_forgotten_are_told() -> None:
    flag = flags(audited(Knowing(40), after=honest))["answers_depend_on_history"]
    assert "changed class when they were asked again after all attacks" in flag.message


def test_what_is_decided_otherwise_by_itself_is_told() -> None:
    done = audited(Knowing(40), kind=Crowd)
    several = [row for row in done[CLOSING].to_pylist() if row["ends_asked"] > 1]
    assert sum(row["ends_changed"] for row in several) > 1
    assert "some of them by themselves" in flags(done)["answers_depend_on_history"].message
    # Of one question at a time there is no company to hang on.
    alone = read_displacement(audited(honest, kind=Crowd)[CLOSING])
    assert alone is not None
    assert alone.ends_changed == 0


def test_who_answers_another_when_asked_again_and_again_is_told() -> None:
    done = audited(Insistent(Knowing(40)))
    assert "some of them by themselves" in flags(done)["answers_depend_on_history"].message


def test_half_of_what_attacks_ended_with_is_asked_as_many_at_once_as_there_are() -> None:
    REQUESTS.clear()
    done = audited(honest, kind=Noted)
    ends = {row[name] for row in done[f"{ATTACK}deepwordbug"].to_pylist() for name in row if name.endswith(".text")}
    alone = Counter(request[0] for request in REQUESTS if len(request) == 1 and request[0] in ends)
    assert sum(count >= RUNNING for count in alone.values()) > 6
    together = max((request for request in REQUESTS if set(request) <= ends), key=len)
    assert len(together) > 8
    assert not any(alone[text] >= RUNNING for text in together)


def test_decisions_kept_of_whatever_is_near_to_what_was_asked_are_told_by_asking_edits_first() -> None:
    for function, is_told in ((Keeping(20), True), (Keeping(1), False), (honest, False)):
        context = Asking(function)
        context.scoring().ask_anew([row.text for row in LONG])
        closing = with_primed(context, run_probe(context, LONG, CLOSING), LONG)  # type: ignore[arg-type]
        found = read_priming(closing)
        assert found is not None
        assert (found.texts, found.p < 0.001) == (128, is_told)
        done = records(params := parameters(arms=[]), label_only=0.5) | {CLOSING: closing}
        told = {flag.code: flag.message for flag in estimates.reduce(params, done, 0).flags}
        assert ("only where that was asked first" in told.get("answers_depend_on_history", "")) is is_told


def test_shards_change_no_record() -> None:
    whole, cut = audited(Knowing(40)), audited(Knowing(40), cut=8)
    assert whole[CLOSING].equals(cut[CLOSING])


@pytest.mark.parametrize("length", [1, 80, 1000])
def test_what_stands_beside_a_text_is_as_long_and_left_alone(length: int) -> None:
    text = "a" * length
    longer = displaced(text, 5)
    assert isinstance(longer, str)
    assert longer.startswith(f"{text} (No. ")
    assert max(60, min(length, 120)) <= len(longer) - length < 170
    assert not set(longer[length:].replace("No", "")) & set("abcdefghijklmnopqrstuvwxyz")
    assert displaced(text, 6) != longer
    elsewhere = [str(displaced(text, 5, places)) for places in ((0.0,), (0.5,), (0.0, 1.0), (0.5, 1.0))]
    assert [one.count("(") for one in elsewhere] == [1, 1, 2, 2]
    assert all(one.count("a") == length for one in elsewhere)
    far = [Levenshtein.distance(one, other) for one, other in combinations([longer, *elsewhere], 2)]
    assert min(far) > 40 or length == 1
    assert own_part(text, None) == (length,)
    assert own_part(text, (40,)) == (min(length, 40),)
    assert displaced((text, "b"), 5) == (longer, "b")
    assert own_part((text, "b"), (length + 9, 1)) == (length, 1)
