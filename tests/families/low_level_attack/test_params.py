"""What an audit asks for, and the bounds it is told before it runs."""

import pytest
from pydantic import ValidationError

from tests.families.in_memory import run_text_check
from tests.families.low_level_attack.fabricated import parameters
from tests.families.low_level_attack.test_family import LABELS, PAIRS, SINGLE, TAGS, model, sample
from workers.families.low_level_attack.family import FAMILY


@pytest.mark.parametrize("task", [SINGLE, PAIRS, LABELS, TAGS])
@pytest.mark.parametrize("draws", [1, 3])
def test_no_audit_asks_the_model_more_often_than_it_was_told(task, draws) -> None:
    params = parameters(
        attackers=["full_shuffle", "truncate", "segment"], levels=[0.4, 1.0], draws=draws, combined=True
    )
    asked: list[object] = []
    run_text_check(FAMILY, params, model(task, asked), sample(task, 17), task=task, shards=2)
    bound = params.passes(17, {})
    assert 17 < len(asked) <= bound.forward == bound.queries == 17 * (1 + 4 * 2 * draws)


def test_work_beside_the_model_grows_with_texts_draws_levels_and_words() -> None:
    few = parameters(attackers=["visual"], levels=[0.5]).passes(100, {}).compute_s
    assert parameters(attackers=["visual"], levels=[0.5]).passes(200, {}).compute_s > few
    assert parameters(attackers=["visual"], levels=[0.5], draws=5).passes(100, {}).compute_s > few
    assert parameters(attackers=["visual"], levels=[0.5, 0.8]).passes(100, {}).compute_s > few
    assert parameters(attackers=["visual"], levels=[0.5]).passes(100, {}, mean_words=200).compute_s > few


def test_levels_come_in_order_and_differ_as_names_of_metrics_do() -> None:
    assert parameters(levels=[0.8, 0.2]).levels == [0.2, 0.8]
    # Three of ten words, as the level named 0.3 attacks, not four.
    assert parameters(levels=[0.1 + 0.2]).levels == [0.3]
    for levels in ([0.0], [1.1], [0.5, 0.5], [0.1234567, 0.12345671], [], [float("nan")]):
        with pytest.raises(ValidationError):
            parameters(levels=levels)


def test_attackers_run_in_the_catalogues_order_however_they_are_named() -> None:
    asked = parameters(attackers=["visual", "intrude", "truncate"], combined=True)
    assert asked.names == ("intrude", "truncate", "visual")
    assert asked.runs(SINGLE) == ("intrude", "truncate", "visual", "combined")


def test_attackers_differ_and_combined_has_several() -> None:
    for asked in ({"attackers": []}, {"attackers": ["visual", "visual"]}, {"attackers": ["visual"], "combined": True}):
        with pytest.raises(ValidationError):
            parameters(**asked)
    # Of a tagger's sentences only one is left of these, and nothing to combine.
    assert parameters(attackers=["segment", "visual"], combined=True).runs(TAGS) == ("visual",)
    assert parameters(attackers=["segment", "visual"], combined=True).runs(SINGLE)[-1] == "combined"
