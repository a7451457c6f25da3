import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.families.temperature_attack.fabricated import Ending
from workers.attacks.text.importance import Agreement
from workers.attacks.text.strength import Strength
from workers.families.contexts import TextExample
from workers.families.temperature_attack.records import (
    AttackSample,
    SearchSample,
    attack_records,
    merge_clean,
    read_validation,
    search_records,
    validation_records,
)
from workers.models import UnansweredError

EXAMPLES = [TextExample(7, "good film", 1), TextExample(3, ("a premise", "a hypothesis"), 0), TextExample(5, "bad", 0)]
LOGITS = [torch.tensor([0.1, 0.7]), torch.tensor([0.5, 0.5]), torch.tensor([-1.0, 2.0])]


def ending(text, status: str = "failed") -> Ending:
    return Ending(status, text, 9, 0.5)


def stored(table: pa.Table) -> pa.Table:
    """The table as it comes back from where records are kept."""
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(io.BytesIO(file.getvalue()))


def test_validation_records_hold_raw_logits_in_their_precision() -> None:
    sample = read_validation(stored(validation_records(EXAMPLES, [LOGITS[0], UnansweredError("late"), LOGITS[2]])))
    assert sample.example_ids.tolist() == [7, 5]
    assert sample.logits.dtype == torch.float32
    assert torch.equal(sample.logits, torch.stack([LOGITS[0], LOGITS[2]]))
    assert sample.right.tolist() == [True, False]
    doubles = read_validation(validation_records(EXAMPLES, [logits.double() / 3 for logits in LOGITS]))
    assert doubles.logits.dtype == torch.float64
    assert torch.equal(doubles.logits, torch.stack(LOGITS).double() / 3)
    with pytest.raises(ValueError, match="float32 or float64, not float16"):
        validation_records(EXAMPLES[:1], [LOGITS[0].half()])


def test_an_output_that_is_not_finite_is_errored_and_a_tie_predicts_the_first() -> None:
    table = validation_records(EXAMPLES, [torch.tensor([float("nan"), 1.0]), LOGITS[1], None])
    assert table.column("errored").to_pylist() == [True, False, True]
    assert table.column("prediction").to_pylist() == [None, 0, None]
    assert table.column("logits").to_pylist()[0] is None


def test_an_attack_table_comes_back_as_it_went_in() -> None:
    outcomes = {
        "as_served": [ending("godo film"), ending(("a premise", "a hyp")), ending("bda", "skipped")],
        "optimized": [ending("gdoo film", "succeeded"), ending(("a premise", "b")), ending("bad", "skipped")],
    }
    adversarial = {"as_served": LOGITS, "optimized": [torch.tensor([3.0, 1.0]), *LOGITS[1:]]}
    outcomes["as_served"][1] = replace(outcomes["as_served"][1], strength=Strength(4, 9, 1, is_limited=True))
    agreements = [Agreement(0.5), Agreement(float("nan")), Agreement(0.0, is_masked=True)]
    table = stored(attack_records(EXAMPLES, LOGITS, outcomes, adversarial, agreements))
    sample = AttackSample(table)
    assert list(sample.arms) == ["as_served", "optimized"]
    assert sample.texts == [("good film",), ("a premise", "a hypothesis"), ("bad",)]
    assert sample.arms["optimized"].texts[:2] == [("gdoo film",), ("a premise", "b")]
    assert sample.arms["optimized"].succeeded.tolist() == [True, False, False]
    assert sample.arms["optimized"].attacked.tolist() == [True, True, False]
    # Right and still right; wrong before the attack is an error, whatever it is afterwards.
    assert sample.robust("as_served").tolist() == [True, True, False]
    assert sample.robust("optimized").tolist() == [False, True, False]
    assert np.isnan(sample.importance[1])
    assert sample.masked.tolist() == [False, False, True]
    assert sample.strength == (4, 9, 1, 1, 1)
    before = AttackSample(table.drop(["words", "candidates", "words_without", "limited", "importance_masked"]))
    assert (before.strength, before.masked) == (None, None)


def test_an_example_that_errors_in_one_arm_is_in_no_number_of_the_table() -> None:
    outcomes = {
        "as_served": [ending("x"), ending("y"), ending("z")],
        "optimized": [ending("x"), ending("y", "errored"), ending("z")],
    }
    adversarial = {"as_served": LOGITS, "optimized": [*LOGITS[:2], UnansweredError("gone")]}
    table = attack_records(EXAMPLES, LOGITS, outcomes, adversarial)
    assert table.column("errored").to_pylist() == [False, True, True]
    assert table.column("as_served.status").to_pylist() == ["failed"] * 3
    assert table.column("optimized.status").to_pylist() == ["failed", "errored", "errored"]
    assert table.column("as_served.logits").to_pylist()[1:] == [None, None]
    assert table.column("second_text").to_pylist() == [None, "a hypothesis", None]
    sample = AttackSample(table)
    assert (sample.size, len(sample.clean)) == (3, 1)
    assert sample.importance is None


def test_shards_of_any_content_have_one_schema() -> None:
    examples = [EXAMPLES[0]]
    lost = attack_records(examples, [None], {"as_served": [ending("x", "errored")]}, {"as_served": [None]})
    kept = attack_records(examples, LOGITS[:1], {"as_served": [ending("x")]}, {"as_served": LOGITS[:1]})
    assert AttackSample(pa.concat_tables([lost, kept])).clean.example_ids.tolist() == [7]
    assert len(AttackSample(lost).clean) == 0
    assert AttackSample(lost).robust("as_served").tolist() == []


def test_search_rounds_are_read_on_the_examples_common_to_all() -> None:
    first = search_records(EXAMPLES, [1.0, 10.0], [[True, False], None, [True, True]], [[4, 5], None, [6, 7]])
    second = search_records(EXAMPLES, [100.0], [[False], [True], [True]], [[1], [2], [3]])
    sample = SearchSample([stored(first), second])
    assert sample.temperatures == [1.0, 10.0, 100.0]
    assert sample.robust.tolist() == [[True, False, False], [True, True, True]]
    assert sample.evaluated == [(1.0, 1.0), (10.0, 0.5), (100.0, 0.5)]
    nothing = SearchSample([search_records(EXAMPLES, [1.0], [None] * 3, [None] * 3)])
    assert [np.isnan(accuracy) for _, accuracy in nothing.evaluated] == [True]
    assert SearchSample([]).evaluated == []
    with pytest.raises(ValueError, match="one entry per temperature"):
        search_records(EXAMPLES[:1], [1.0, 2.0], [[True]], [[1]])
    with pytest.raises(ValueError, match="one entry per example"):
        search_records(EXAMPLES, [1.0], [[True]], [[1]])


def test_clean_examples_of_several_tables_count_once() -> None:
    first = read_validation(validation_records(EXAMPLES, [LOGITS[0], None, LOGITS[2]]))
    second = read_validation(validation_records(EXAMPLES, LOGITS))
    empty = read_validation(validation_records(EXAMPLES, [None] * 3))
    merged = merge_clean([empty, first, second])
    assert merged.example_ids.tolist() == [7, 5, 3]
    assert torch.equal(merged.logits, torch.stack([LOGITS[0], LOGITS[2], LOGITS[1]]))
    assert len(merge_clean([empty])) == 0
