"""Robust accuracy in two phases: what is attacked, against AutoAttack on everything, and however a check is cut."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError

from seatrial.contracts.estimates import Result
from seatrial.families.shared.per_example import NoMeanError, Records
from seatrial.families.shared.robust_accuracy import FIRST, FIRST_STEPS, SECOND, RobustAccuracyParams
from seatrial.families.shared.robust_accuracy_narrative import robust_findings
from seatrial.families.shared.robust_accuracy_records import holding
from tests.attacks.autoattack import networks
from tests.families.in_memory import Context, Model
from tests.families.robust_accuracy.stages import parameters
from tests.families.uncertainty_span import audits as spans
from workers.families import robust_accuracy
from workers.families.protocol import Shard
from workers.families.robust_accuracy_first import STANDING, reach, run_first, stages

IMAGES = torch.rand(90, 1, 6, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
PREDICTIONS = networks.NET(IMAGES).argmax(1)
LABELS = torch.where(torch.arange(90) % 7 == 2, (PREDICTIONS + 1) % 5, PREDICTIONS)
DATA = (IMAGES, LABELS)
PARAMS = parameters(survivors=20, epsilon=0.01)


def both(model: Model, *, batch_size: int = 16) -> dict[str, pa.Table]:
    first = run_first(PARAMS, Context(model, DATA, Shard(FIRST, 0, 90), batch_size, 90))
    (_, second) = stages(PARAMS, first)
    assert second.limit is not None
    context = Context(model, DATA, Shard(SECOND, 0, second.limit), batch_size, second.limit, done={FIRST: first})
    return {FIRST: first, SECOND: robust_accuracy.run(PARAMS, context)}


def result_of(done: dict[str, pa.Table]) -> Result:
    result = Result(estimates={}, counts={})
    robust_accuracy.add_to(result, PARAMS, done)
    return result


def test_autoattack_goes_on_with_the_first_that_pgd_leaves_standing_and_no_others() -> None:
    seen: list[int] = []

    def counted(images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return networks.NET(images)

    done = both(Model(counted, 5))
    standing = np.array(done[FIRST][STANDING].to_pylist())
    assert 20 < standing.sum() < 70
    rows = done[SECOND].to_pylist()
    assert len(rows) == int(np.flatnonzero(standing)[19]) + 1
    assert [row["example_id"] for row in rows if row[STANDING]] == (1000 + np.flatnonzero(standing)[:20]).tolist()
    assert all(row["broken_by"] is None and row["correct"] is None for row in rows if not row[STANDING])
    # Each survivor as AutoAttack on all images finds it.
    whole = robust_accuracy.run(
        PARAMS.model_copy(update={"survivors": None}),
        Context(Model(networks.NET, 5), DATA, Shard(SECOND, 0, 90), 16, 90),
    ).to_pylist()
    for row, alone in zip(rows, whole, strict=False):
        if row[STANDING]:
            assert (row["robust"], row["broken_by"]) == (alone["robust"], alone["broken_by"])
        elif alone["correct"]:
            assert not alone["robust"]


def test_the_number_is_the_product_of_the_two_shares() -> None:
    done = both(Model(networks.NET, 5))
    standing = sum(done[FIRST][STANDING].to_pylist())
    attacked = [row for row in done[SECOND].to_pylist() if row[STANDING]]
    held = sum(row["broken_by"] is None for row in attacked)
    found = result_of(done).estimates
    assert found["robust_accuracy"].value == pytest.approx(standing / 90 * held / 20)
    assert (found["robust_accuracy"].method, found["robust_accuracy"].n) == ("mover", 90)
    assert found["robust_accuracy[attack=pgd]"].value == standing / 90
    values = [
        found[f"robust_accuracy[attack={name}]"].value for name in ("pgd", "apgd-ce", "apgd-t", "fab-t", "square")
    ]
    assert values == sorted(values, reverse=True)
    assert values[-1] == found["robust_accuracy"].value
    assert values[-1] < values[0]


def test_what_is_said_of_it_names_both_phases_and_what_to_raise() -> None:
    result, asked = result_of(both(Model(networks.NET, 5))), PARAMS.model_dump(mode="json")
    told = " ".join(robust_findings(result, {"robust_accuracy": asked}))
    counts = result.counts
    assert f"left {counts['robust_accuracy_first_standing']} of 90 examples standing" in told
    assert f"and AutoAttack {counts['robust_accuracy_held']} of 20 of those" in told
    assert "the first phase's: more examples make it narrower" in told
    assert f"of {counts['robust_accuracy_first_correct'] / 90:.1%} unattacked" in told
    assert "Of the 20 that stood" in told


def test_more_survivors_are_asked_for_where_they_are_what_the_interval_lacks() -> None:
    result, asked = result_of(both(Model(networks.NET, 5))), {"robust_accuracy": PARAMS.model_dump(mode="json")}
    result.counts |= {"robust_accuracy_first_standing": 5_000, "robust_accuracy_first_n": 10_000}
    assert "the second phase's: more survivors make it narrower" in " ".join(robust_findings(result, asked))
    result.counts |= {"robust_accuracy_first_standing": 20}
    assert "narrower" not in " ".join(robust_findings(result, asked))


def test_where_fewer_stand_than_were_asked_for_all_of_them_are_attacked() -> None:
    table = pa.table({STANDING: [True, None, False, True]})
    assert [reach(table, survivors) for survivors in (1, 2, 3)] == [1, 4, 4]
    assert reach(pa.table({STANDING: [False, False]}), 20) == 2


def test_an_output_that_is_not_finite_stands_in_neither_phase() -> None:
    def breaks(images: torch.Tensor) -> torch.Tensor:
        bad = images.flatten(1)[:, 0] > 0.9
        return torch.where(bad[:, None], torch.nan, networks.NET(images))

    done = both(Model(breaks, 5))
    bad = (IMAGES.flatten(1)[:, 0] > 0.9).tolist()
    assert [row["errored"] for row in done[FIRST].to_pylist()] == bad
    assert not any(row["errored"] for row in done[SECOND].to_pylist() if not row[STANDING])
    assert result_of(done).counts["robust_accuracy_first_errored"] == sum(bad)


def test_a_check_is_the_same_however_it_is_cut() -> None:
    block = {"epsilon": 0.02, "steps": 4, "queries": 20, "survivors": 20}
    params = spans.parameters(steps=2, robust_accuracy=block)
    whole, done = spans.audit(params, spans.NETWORK, spans.DATA, batch_size=8)
    cut, pieces = spans.audit(params, spans.NETWORK, spans.DATA, batch_size=8, shards=3)
    assert [stage for stage in done if stage != "pictures"][-2:] == [FIRST, SECOND]
    assert all(done[name].equals(pieces[name]) for name in (FIRST, SECOND))
    assert whole == cut
    assert whole.estimates["robust_accuracy"].value is not None


@pytest.mark.parametrize(
    ("asked", "told"),
    [({"survivors": 19}, "greater than or equal to 20"), ({"survivors": 20, "version": "rand"}, "rand has one phase")],
)
def test_what_makes_no_two_phases_is_refused_at_its_field(asked: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told) as refused:
        RobustAccuracyParams.model_validate({"epsilon": 0.1} | asked)
    assert refused.value.errors()[0]["loc"] == ("survivors",)


def test_no_example_has_a_value_of_its_own() -> None:
    with pytest.raises(NoMeanError):
        holding(Records({"robust_accuracy": {"survivors": 20}}, {}, lambda stage: None))


def test_the_estimate_prices_both_phases() -> None:
    one = PARAMS.model_copy(update={"survivors": None})
    few, all_of_them = PARAMS.passes(1000), one.passes(20)
    assert few.forward == 2 * 1000 + all_of_them.forward
    assert few.backward == FIRST_STEPS * 1000 + all_of_them.backward
    assert one.passes(1000).backward > 10 * few.backward
