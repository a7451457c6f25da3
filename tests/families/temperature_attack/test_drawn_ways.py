"""Words in a way that a grammar draws: models that take them for their opposite, beside some that cannot read them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
import torch
from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from seatrial.contracts.estimates import Flag
from seatrial.families.temperature_attack.params import (
    AS_SERVED,
    CONFIRMED_WAYS,
    DRAWN_WAYS,
    FEWEST_WITHSTANDING,
    LABEL_ONLY,
    TEXTS_A_WAY,
    TemperatureAttackParams,
)
from tests.families.in_memory import TextModel
from tests.families.temperature_attack.fabricated import Ending, parameters
from tests.families.temperature_attack.test_family import Context
from tests.families.temperature_attack.test_written import BAD, GOOD, sample, sided
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import Records, TextExample
from workers.families.protocol import Shard
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.drawn_ways import (
    CONFIRMED,
    DRAWN,
    LOSING,
    promising,
    read_ways,
    ways_stage,
    withstanding,
)
from workers.families.temperature_attack.family import FAMILY
from workers.families.temperature_attack.records import attack_records
from workers.models import UnansweredError

PARAMS = parameters(arms=[])
COUNT = 24
OPINIONS = dict.fromkeys(GOOD, 1.0) | dict.fromkeys(BAD, -1.0)
OTHERS = ("film", "number", "seems", "and", "throughout")
CAPITALS = r"(?<!\S)([A-Z]{2}[a-z]+)(?!\S)"
COMMA = r"(?<!\S)([A-Za-z]+),([A-Za-z]+)(?!\S)"
Answering = Callable[[Any], Any]


@dataclass
class Correcting:
    """Reads every word as the known one that is nearest, and words that match a pattern for a share of what they say.

    Attributes:
        pattern: Its groups are the words.
        counts: The share; below 0 they count against it.
        kept: Words as they were read.
    """

    pattern: str = r"(?!)"
    counts: float = 1.0
    kept: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> torch.Tensor:
        odd = [word for found in re.finditer(self.pattern, text) for word in found.groups()]
        plain = re.sub(self.pattern, " ", text).split()
        opinion = sum(map(self._says, plain)) + self.counts * sum(map(self._says, odd))
        # Of no opinion at all it says what it says of most films.
        return sided(opinion >= 0.0)

    def _says(self, word: str) -> float:
        if word not in self.kept:
            found = extractOne(word.lower(), [*OPINIONS, *OTHERS], scorer=OSA.distance, score_cutoff=len(word) // 2)
            self.kept[word] = found[0] if found else ""
        return OPINIONS.get(self.kept[word], 0.0)


class Watched(TextModel):
    """Keeps what it was asked."""

    asked: list[Text]

    def logits(self, texts: Sequence[Text]) -> list[Any]:
        self.__dict__.setdefault("asked", []).extend(texts)
        return super().logits(texts)


class Short(Watched):
    """Sees sixty characters."""

    def seen(self, text: str) -> tuple[int]:
        return (60,)


def attacked(examples: Sequence[TextExample], turned: int = 0, of: str = LABEL_ONLY) -> Records:
    """Return the records of an attack in which all texts but so many withstood, and one word changed."""
    stands = [torch.nn.functional.one_hot(torch.tensor(row.label), 2).float() for row in examples]
    falls = [-one if row < turned else one for row, one in enumerate(stands)]
    ended = [Ending("failed", _changed(row.text), 9, 0.1) for row in examples]
    arms = {arm: falls if arm == of else stands for arm in (AS_SERVED, LABEL_ONLY)}
    return attack_records(examples, stands, dict.fromkeys(arms, ended), arms)  # type: ignore[arg-type]


def _changed(text: Text) -> Text:
    return text.replace("seems", "semes") if isinstance(text, str) else (text[0], str(_changed(text[1])))


def asked(
    function: Answering,
    examples: Sequence[TextExample],
    *,
    params: TemperatureAttackParams = PARAMS,
    cut: int = COUNT,
    model: type[Watched] = Watched,
    turned: int = 0,
) -> tuple[dict[str, Records], Watched]:
    """Return the records of the two stages, as far as there are any, and who was asked."""
    served = model(function, ["bad", "good"])
    done = {"probe": pa.table({"example_id": range(len(examples))}), "attack_deepwordbug": attacked(examples, turned)}
    while (stage := FAMILY.next_stage(params, done)) is not None and stage.name in (DRAWN, CONFIRMED):
        assert stage.limit == len(examples)
        parts = []
        for start in range(0, len(examples), cut):
            context = Context(list(examples[start : start + cut]), {None: ScoringService(served, max_bytes=0)}, done)
            parts.append(FAMILY.run(params, Shard(stage.name, start, start + cut), context))
        done[stage.name] = pa.concat_tables(parts).combine_chunks()
    return done, served


def doubts(done: dict[str, Records], code: str = "worse_than_unreadable") -> list[Flag]:
    judged = {name: table for name, table in done.items() if name != "probe"}
    return [flag for flag in estimates.reduce(PARAMS, judged, 0).flags if flag.code == code]


def numbers(done: dict[str, Records], stage: str, column: str = "ways") -> list[list[int]]:
    return [row or [] for row in done[stage][column].to_pylist()]


@pytest.mark.parametrize(
    ("pattern", "way"), [(CAPITALS, "case as in AAaaa"), (COMMA, "',' for")], ids=["two capitals", "a comma"]
)
def test_who_takes_words_written_in_a_way_for_their_opposite_is_told(pattern: str, way: str) -> None:
    done, _ = asked(Correcting(pattern, -1.0), sample(COUNT))
    (flag,) = doubts(done)
    assert flag.severity == "error"
    assert way in flag.message
    found = read_ways(done)
    assert found is not None
    assert found.texts == COUNT
    assert 0 < len(found.asked) <= CONFIRMED_WAYS


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (CAPITALS, lambda text: re.sub(r"\b[a-z]{2}", lambda two: two[0].upper(), text)),
        (COMMA, lambda text: re.sub(r"(\w+) and (\w+)", r"\1,\2", text)),
    ],
    ids=["two capitals", "a comma"],
)
@pytest.mark.parametrize("counts", [0.0, 0.3])
def test_who_cannot_read_words_written_so_is_not(pattern: str, written: Callable[[str], str], counts: float) -> None:
    model, (text, *_) = Correcting(pattern, counts), [str(row.text) for row in sample(COUNT) if not row.label]
    # Whatever it does not read at all it cannot decide by; what it reads a little it can.
    assert int(model(written(text)).argmax()) == (counts == 0.0)
    assert not doubts(asked(model, sample(COUNT))[0])


def test_a_model_that_corrects_spelling_is_asked_no_second_time() -> None:
    done, served = asked(Correcting(), sample(COUNT))
    assert list(done) == ["probe", "attack_deepwordbug", DRAWN]
    assert promising(done[DRAWN]) == []
    assert read_ways(done) is None
    assert not doubts(done)
    # No more than the estimate says.
    assert len(served.asked) <= PARAMS._stage_costs(COUNT, 0, 25.0)[DRAWN][1]
    assert len(served.asked) > 0.5 * DRAWN_WAYS * TEXTS_A_WAY
    assert FAMILY.next_stage(PARAMS, done).name == "closing"  # type: ignore[union-attr]


def test_each_way_is_asked_of_four_texts_and_again_of_all_others() -> None:
    done, _ = asked(Correcting(CAPITALS, -1.0), sample(COUNT))
    first, again = numbers(done, DRAWN), numbers(done, CONFIRMED)
    chosen = promising(done[DRAWN])
    for number in range(DRAWN_WAYS):
        assert sum(number in ways for ways in first) <= TEXTS_A_WAY
    for before, after in zip(first, again, strict=True):
        assert not {*before} & {*after}
        assert {*after} <= {*chosen}
    assert sum(map(len, first)) > 0.8 * DRAWN_WAYS * TEXTS_A_WAY
    assert all(sum(number in ways for ways in again) > COUNT / 2 for number in chosen[:1])


@pytest.mark.parametrize("cut", [8, 16])
def test_how_texts_are_cut_into_shards_changes_no_row(cut: int) -> None:
    whole, _ = asked(Correcting(CAPITALS, -1.0), sample(COUNT))
    parts, _ = asked(Correcting(CAPITALS, -1.0), sample(COUNT), cut=cut)
    assert list(whole) == ["probe", "attack_deepwordbug", DRAWN, CONFIRMED]
    assert parts[DRAWN].equals(whole[DRAWN])
    assert parts[CONFIRMED].equals(whole[CONFIRMED])


@pytest.mark.parametrize(("count", "is_asked"), [(FEWEST_WITHSTANDING - 1, False), (FEWEST_WITHSTANDING, True)])
@pytest.mark.parametrize("turned", [0, 5])
def test_few_texts_that_withstand_are_not_asked(count: int, turned: int, is_asked: bool) -> None:
    done = {"attack_deepwordbug": attacked(sample(count + turned), turned)}
    assert len(withstanding(PARAMS, done)) == count
    assert (ways_stage(PARAMS, done) is not None) is is_asked
    costs = PARAMS._stage_costs(count, 0, 25.0)
    assert ({DRAWN, CONFIRMED} <= costs.keys()) is is_asked


@pytest.mark.parametrize("arm", [AS_SERVED, LABEL_ONLY])
def test_texts_that_any_recipe_turned_are_left_alone(arm: str) -> None:
    params = parameters(arms=[], recipes=["deepwordbug", "pruthi", "input_reduction"])
    examples = sample(COUNT)
    done = {"attack_deepwordbug": attacked(examples), "attack_pruthi": attacked(examples, 4, arm)}
    ended = withstanding(params, done)
    assert list(ended) == list(range(4, COUNT))
    assert "semes" in ended[4]
    done, served = asked(Correcting(), examples, turned=4)
    assert done[DRAWN]["ways"].null_count == 4
    texts = {text.split()[2] for text in map(str, served.asked) if re.match(r"film number \d+ seems ", text)}
    assert texts == {str(number) for number in range(4, COUNT)}


def test_records_from_before_there_were_such_stages_are_read() -> None:
    examples = sample(COUNT)
    old = attacked(examples)
    without = {"attack_deepwordbug": old.select([name for name in old.column_names if LABEL_ONLY not in name])}
    assert withstanding(PARAMS, without) == {}
    assert ways_stage(PARAMS, without) is None
    done = {"attack_deepwordbug": old}
    assert read_ways(done) is None
    assert not doubts(done)
    alone = parameters(arms=[], recipes=["input_reduction"])
    assert ways_stage(alone, {"attack_input_reduction": old}) is None


def test_a_first_stage_from_before_words_were_ranked_is_gone_on_with() -> None:
    done, _ = asked(Correcting(QUOTED, -1.0), sample(COUNT))
    done = {name: table for name, table in done.items() if name != CONFIRMED}
    done[DRAWN] = done[DRAWN].drop_columns(["ranked", "gains", "losses", "is_left_out", "is_unread"])
    rows = done[DRAWN].to_pylist()
    rows = [row | {"turning": row["ways"]} for row in rows]
    done[DRAWN] = pa.Table.from_pylist(rows, schema=done[DRAWN].schema)
    examples = sample(COUNT)
    served = Watched(Correcting(), ["bad", "good"])
    context = Context(examples, {None: ScoringService(served, max_bytes=0)}, done)
    again = FAMILY.run(PARAMS, Shard(CONFIRMED, 0, COUNT), context)
    assert again.num_rows == COUNT
    assert any(again["ways"].to_pylist())


def test_ways_that_write_no_other_text_otherwise_are_no_evidence() -> None:
    done, _ = asked(Correcting(CAPITALS, -1.0), sample(COUNT))
    rows = [row | {"ways": [], "names": [], "turning": []} for row in done[CONFIRMED].to_pylist()]
    done[CONFIRMED] = pa.Table.from_pylist(rows, schema=done[CONFIRMED].schema)
    assert not doubts(done)


def test_a_budget_of_queries_holds_for_the_ways() -> None:
    params = parameters(arms=[], query_budget=7)
    done, served = asked(Correcting(CAPITALS, -1.0), sample(COUNT), params=params)
    assert max(map(len, numbers(done, DRAWN))) == 7
    assert len(served.asked) <= params._stage_costs(COUNT, 0, 25.0)[DRAWN][1]
    assert params._stage_costs(COUNT, 0, 25.0)[CONFIRMED][1] == 7 * COUNT


def test_of_a_pair_the_last_part_is_edited() -> None:
    pairs = [TextExample(row.example_id, ("as it was", str(row.text)), row.label) for row in sample(COUNT)]
    model = Correcting(CAPITALS, -1.0)
    done, served = asked(lambda text: model(text[1]), pairs)
    assert {text[0] for text in served.asked} == {"as it was"}
    assert len({text[1] for text in served.asked}) > DRAWN_WAYS
    assert len(doubts(done)) == 1


def test_what_a_model_does_not_see_is_not_edited() -> None:
    seen, served = asked(Correcting(), sample(COUNT), model=Short)
    # The longest first: one may end as another does.
    rests = sorted({str(row.text)[60:] for row in sample(COUNT)}, key=len, reverse=True)
    assert len(rests[-1]) > 10
    assert {next((rest for rest in rests if str(text).endswith(rest)), "") for text in served.asked} == {*rests}
    assert sum(map(len, numbers(seen, DRAWN))) > DRAWN_WAYS


def test_who_does_not_answer_what_is_written_so_has_withstood_nothing() -> None:
    model = Correcting()

    def function(text: str) -> Any:
        return UnansweredError("no") if re.search(CAPITALS, text) else model(text)

    (flag,) = doubts(asked(function, sample(COUNT))[0])
    assert "case as in AAaaa" in flag.message

    # Of whoever answers nothing but the texts as they are nothing is known.
    known = {str(row.text) for row in sample(COUNT)}
    done, _ = asked(lambda text: model(text) if text in known else UnansweredError("no"), sample(COUNT))
    assert {tuple(words) for words in numbers(done, DRAWN, "words")} == {()}


TWICE = r"(?<!\S)(\w+) \1(?!\S)"
QUOTED = r"\"(\w[^\"]*)\""


@pytest.mark.parametrize(("pattern", "way"), [(TWICE, "written twice"), (QUOTED, "'\"' and '\"' around")])
def test_who_takes_what_is_said_twice_or_quoted_for_its_opposite_is_told(pattern: str, way: str) -> None:
    model = Correcting()

    def function(text: str) -> torch.Tensor:
        odd = [word for found in re.findall(pattern, text) for word in found.split()]
        plain = re.sub(pattern, " ", text).split()
        return sided(sum(map(model._says, plain)) - 2 * sum(map(model._says, odd)) >= 0.0)

    (flag,) = doubts(asked(function, sample(COUNT))[0])
    assert way in flag.message


def test_words_that_may_be_touched_are_ranked_by_what_the_decision_is_without_them() -> None:
    model = Correcting()

    def function(text: str) -> torch.Tensor:
        return torch.tensor([0.0, sum(model._says(word) * (3.0 if word == BAD[0] else 1.0) for word in text.split())])

    examples = [row for row in sample(2 * COUNT) if not row.label and BAD[0] in str(row.text)]
    done, _ = asked(function, examples)
    for row in done[DRAWN].to_pylist():
        assert row["ranked"][0] == BAD[0]
        assert set(row["ranked"][:6]) <= {*BAD}
        assert row["words"][0] == BAD[0] or BAD[0] not in row["words"]


def test_ways_by_which_decisions_lose_most_of_their_lead_are_asked_again() -> None:
    model = Correcting()

    def function(text: str) -> torch.Tensor:
        """Count what is written twice for its opposite, a little, and not at all what has a hyphen within."""
        odd = [word for found in re.findall(TWICE, text) for word in found.split()]
        plain = re.sub(rf"{TWICE}|\S+-\S+", " ", text).split()
        return torch.tensor([0.0, 0.1 + sum(map(model._says, plain)) - 0.7 * sum(map(model._says, odd))])

    done, _ = asked(function, sample(2 * COUNT))
    names, losses = dict[int, str](), dict[str, list[float]]()
    for row in done[DRAWN].to_pylist():
        names |= dict(zip(row["ways"], row["names"], strict=True))
        assert len(row["gains"]) == len(row["ranked"])
        for name, loss in zip(row["names"], row["losses"], strict=True):
            losses.setdefault(name, []).append(loss)
    chosen = [names[way] for way in promising(done[DRAWN])]
    assert "written twice (words)" in chosen
    assert min(losses["written twice (words)"]) > LOSING
    # What loses the words alone loses nothing beyond.
    assert not any("'-'" in name for name in chosen)
    hyphened = [loss for name, found in losses.items() if name.startswith("parted") and "'-'" in name for loss in found]
    assert hyphened
    assert max(map(abs, hyphened)) < 0.05

    # Of few turned texts alone none would be asked again.
    few = [row | {"turning": []} for row in done[DRAWN].to_pylist()]
    table = pa.Table.from_pylist(few, schema=done[DRAWN].schema)
    assert "written twice (words)" in [names[way] for way in promising(table)]
    assert promising(table.drop_columns(["losses"])) == []


def test_what_turns_where_the_same_words_are_unreadable_is_not_counted() -> None:
    # Whatever words may be touched, a text all in capitals has no other left.
    examples = [row for row in sample(2 * COUNT) if not row.label]
    done, _ = asked(model := Correcting(r"(?<!\S)([A-Z]+)(?!\S)", 0.0), examples)
    rows = zip(examples, done[DRAWN].to_pylist(), strict=True)
    written = [(example, row) for example, row in rows if "all in capitals" in row["names"]]
    assert len(written) == TEXTS_A_WAY
    for example, row in written:
        assert int(model(str(example.text).upper()).argmax()) != example.label
        assert row["ways"][row["names"].index("all in capitals")] not in row["turning"]
