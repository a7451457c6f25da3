"""Cheap recipes before dear ones, beside the same recipes on every text: nothing differs but what is left out."""

import pyarrow as pa
import pytest

from seatrial.families.temperature_attack import narrative
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.two_phases import phases_of, prices_of
from seatrial.statistics.nested import nested_proportion
from seatrial.statistics.products import Phases
from tests import texts
from tests.attacks.text.classifiers import tiny_sentiment
from tests.families.temperature_attack.test_family import Context, as_bytes
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import Shard
from workers.families.temperature_attack.family import FAMILY

EXAMPLES = [TextExample(number, text, label) for number, (text, label) in enumerate(texts.sentences(52, seed=5))]
ARMS = ("as_served", "label_only")
RECIPES = ["pruthi", "deepwordbug"]


def asked(survivors: int | None) -> TemperatureAttackParams:
    return TemperatureAttackParams(
        kind="temperature_attack", recipes=RECIPES, arms=[], survivors=survivors, query_budget=12, label_queries=6
    )


def audit(params: TemperatureAttackParams, shard: int = 52) -> dict[str, Records]:
    done: dict[str, Records] = {}
    while (stage := FAMILY.next_stage(params, done)) is not None:
        count = min(len(EXAMPLES), stage.limit or len(EXAMPLES))
        parts = []
        # Of stages that are one shard, whatever the cut, the grain is all there may be.
        step = count if stage.grain == stage.limit else shard
        for start in range(0, count, step):
            stop = min(count, start + step)
            context = Context(EXAMPLES[start:stop], {None: ScoringService(tiny_sentiment(), max_bytes=10**7)}, done)
            parts.append(FAMILY.run(params, Shard(stage.name, start, stop), context))
        done[stage.name] = parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()
    return done


@pytest.fixture(scope="module")
def whole() -> dict[str, Records]:
    return audit(asked(None))


@pytest.fixture(scope="module")
def phased() -> dict[str, Records]:
    return audit(asked(20))


def stands(row: dict, arm: str) -> bool:
    return row["prediction"] == row["label"] == row[f"{arm}.prediction"]


def test_what_is_attacked_comes_out_as_in_an_audit_of_every_text(whole, phased) -> None:
    first, second = phased["attack_pruthi"].to_pylist(), phased["attack_deepwordbug"].to_pylist()
    assert as_bytes(phased["attack_pruthi"]) == as_bytes(whole["attack_pruthi"])
    standing = [number for number, row in enumerate(first) if stands(row, "as_served")]
    assert 20 < len(standing) < len(EXAMPLES)
    assert len(second) == standing[19] + 1
    seen = set()
    for row, before, plain in zip(second, first, whole["attack_deepwordbug"].to_pylist(), strict=False):
        for arm in ARMS:
            columns = [name for name in row if name.startswith(f"{arm}.")]
            if stands(before, arm):
                assert {name: row[name] for name in columns} == {name: plain[name] for name in columns}
            else:
                assert row[f"{arm}.status"] == "skipped"
                assert row[f"{arm}.queries"] == 0
                assert row[f"{arm}.text"] == before[f"{arm}.text"]
                assert row[f"{arm}.prediction"] == before[f"{arm}.prediction"]
            seen.add((arm, stands(before, arm), stands(row, arm)))
    # Broken before, broken by the second, and standing after both, as served at least.
    assert {("as_served", False, False), ("as_served", True, False), ("as_served", True, True)} <= seen


def test_shards_change_nothing(phased) -> None:
    assert {name: as_bytes(table) for name, table in audit(asked(20), 8).items()} == {
        name: as_bytes(table) for name, table in phased.items()
    }


def test_accuracies_are_products_of_what_either_phase_leaves(whole, phased) -> None:
    params = asked(20)
    result = FAMILY.reduce(params, phased, 1)
    first, reach = whole["attack_pruthi"].to_pylist(), phased["attack_deepwordbug"].num_rows
    second = whole["attack_deepwordbug"].to_pylist()
    for arm in ARMS:
        standing = [number for number, row in enumerate(first) if stands(row, arm)]
        again = [number for number in standing if number < reach]
        held = sum(stands(second[number], arm) for number in again)
        expected = nested_proportion(len(standing), len(first), held, len(again))
        found = result.estimates[f"adversarial_accuracy[arm={arm}]"]
        assert found == expected
        assert found.method == "mover"
        check = MeasuredCheck(0, params.kind, "succeeded", result, None, params.model_dump(mode="json"))
        metric = f"temperature_attack.adversarial_accuracy[arm={arm}]"
        assert phases_of(metric, found, check) == Phases(len(standing), len(first), held, len(again))
    alone = result.estimates["adversarial_accuracy[arm=as_served,recipe=pruthi]"]
    assert alone == FAMILY.reduce(asked(None), whole, 1).estimates["adversarial_accuracy[arm=as_served,recipe=pruthi]"]
    assert result.estimates["adversarial_accuracy[arm=as_served,recipe=deepwordbug]"].value is None
    assert result.estimates["illusion_gap"].n == reach
    assert (result.counts["n"], result.counts["errored"], result.counts["worst_n"]) == (len(EXAMPLES), 0, reach)


def test_the_report_says_what_attacked_what(phased) -> None:
    params = asked(20)
    result = FAMILY.reduce(params, phased, 1)
    told = " ".join(narrative.answer(result, params.model_dump(mode="json"), 2).findings)
    assert f"of the first {phased['attack_deepwordbug'].num_rows}" in told
    assert "None" not in told
    assert set(FAMILY.figures(params, result)) == set(FAMILY.figures(asked(None), result))


def test_progress_counts_texts_that_are_not_attacked_again(phased) -> None:
    told = Context(EXAMPLES[:16], {None: ScoringService(tiny_sentiment(), max_bytes=10**7)}, phased)
    FAMILY.run(asked(20), Shard("attack_deepwordbug", 0, 16), told)
    assert told.told == sorted(told.told)
    assert told.told[-1] == 16


def test_a_survivor_costs_what_the_dearer_recipes_take() -> None:
    params = asked(20).model_copy(update={"recipes": ["deepwordbug", "pruthi"], "query_budget": None})
    cheap, dear = prices_of(MeasuredCheck(0, params.kind, "succeeded", None, None, params.model_dump(mode="json")))
    plain = params.model_copy(update={"survivors": None})
    # Beside what is asked of every text alike.
    assert cheap + dear <= plain.passes(1, {}).forward
    assert 100 < 2 * cheap < dear


def test_it_costs_what_is_left_to_attack() -> None:
    whole, phased = (asked(survivors).passes(1000, {}).queries for survivors in (None, 20))
    alone = asked(None).model_copy(update={"recipes": RECIPES[:1]}).passes(1000, {}).queries
    assert alone < phased < alone + 0.1 * (whole - alone)


@pytest.mark.parametrize(
    "recipes", [["deepwordbug"], ["input_reduction", "deepwordbug"], ["pruthi", "input_reduction"]]
)
def test_two_phases_need_two_recipes_that_change_predictions(recipes) -> None:
    with pytest.raises(ValueError, match="survivors"):
        TemperatureAttackParams.model_validate({"kind": "temperature_attack", "recipes": recipes, "survivors": 20})
