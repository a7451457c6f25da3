"""What is counted as robust: closed forms, a direct run of AutoAttack, and a second implementation of the estimates."""

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from tests.attacks.autoattack.networks import Linear, near_the_middle
from tests.families.in_memory import Context, Model
from tests.families.robust_accuracy.stages import CNN, DATA, IMAGES, LABELS, attack, parameters
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.families import robust_accuracy
from workers.families.contexts import Batch
from workers.families.protocol import Shard
from workers.families.robust_accuracy import count, estimate, make_ensemble, run

IDS = [1000 + i for i in range(21)]
WHOLE = Shard("robust_accuracy", 0, 21)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_of_a_linear_model_it_is_the_closed_form(norm: str, classes: int) -> None:
    model, images = Linear(classes), near_the_middle(20)
    labels = model(images).argmax(1)
    labels[:2] = (labels[:2] + 1) % classes
    distances = model.distances(images, labels, norm)
    # In the widest gap between two distances, so that no attack is asked to be exact to a hair.
    ordered = distances[2:].sort().values
    gap = int((ordered[6:15] - ordered[5:14]).argmax()) + 5
    params = parameters(norm=norm, epsilon=float(ordered[gap : gap + 2].mean()), steps=15, queries=20)
    records = attack(params, Model(model, classes), (images, labels))
    assert records["robust"].to_pylist() == (distances > params.radius).tolist()
    assert estimate(params, records)["robust_accuracy"].value == int((distances > params.radius).sum()) / 20


@pytest.mark.parametrize("version", ["standard", "rand"])
def test_it_is_what_autoattack_finds_when_it_is_run_by_hand(version: str) -> None:
    params = parameters(version=version, steps=6)
    records = attack(params)
    by_hand = (
        AutoAttack("linf", 0.015, ("apgd-ce", "apgd-dlr"), steps=6, draws=20)
        if version == "rand"
        else AutoAttack("linf", 0.015, steps=6, queries=60)
    )
    generators = Context(CNN, DATA, WHOLE, 21).generators("robust_accuracy", IDS)
    found = by_hand.run(CNN.logits, IMAGES, LABELS, generators=generators)
    assert records["robust"].to_pylist() == found.robust.tolist()
    assert records["correct"].to_pylist() == found.correct.tolist()
    named = [by_hand.attacks[at] if at >= 0 else None for at in found.broken_by.tolist()]
    assert records["broken_by"].to_pylist() == named
    value = {name: one.value for name, one in estimate(params, records).items()}
    assert value["robust_accuracy"] == int(found.robust.sum()) / 21
    for name in by_hand.attacks:
        assert value[f"robust_accuracy[attack={name}]"] == int(found.holding_after(name).sum()) / 21
    assert 0 < value["robust_accuracy"] < 18 / 21


def made_up(**columns: list[object]) -> pa.Table:
    """Records nobody attacked: two wrong, three broken one by one, one errored, two held."""
    rows = {
        "errored": [False, False, False, False, False, True, False, False],
        "correct": [False, False, True, True, True, None, True, True],
        "broken_by": [None, None, "apgd-ce", "apgd-ce", "square", None, None, None],
    }
    return pa.table(rows | columns)


def test_estimates_agree_with_a_second_implementation() -> None:
    params, records = parameters(), made_up()
    found = estimate(params, records)
    order = ["apgd-ce", "apgd-t", "fab-t", "square"]
    for until, name in enumerate(order):
        held = 0
        for row in records.to_pylist():
            broken = row["broken_by"] in order[: until + 1]
            held += bool(row["correct"]) and not broken and not row["errored"]
        exact = binomtest(held, 8).proportion_ci(method="exact")
        one = found[f"robust_accuracy[attack={name}]"]
        assert (one.value, one.n, one.method) == (held / 8, 8, "clopper-pearson")
        assert (one.low, one.high) == pytest.approx((exact.low, exact.high))
    assert found["robust_accuracy"] == found["robust_accuracy[attack=square]"]
    assert [one.value for one in found.values()] == [0.25, 0.375, 0.375, 0.375, 0.25]


def test_counts_add_up() -> None:
    assert count(parameters(), made_up()) == {
        "robust_accuracy_n": 8,
        "robust_accuracy_errored": 1,
        "robust_accuracy_correct": 5,
        "robust_accuracy_held": 2,
        "broken[attack=apgd-ce]": 2,
        "broken[attack=apgd-t]": 0,
        "broken[attack=fab-t]": 0,
        "broken[attack=square]": 1,
    }


def test_numbers_after_each_attack_never_rise() -> None:
    """The cross-entropy of ten classes climbs towards a mixture of them; the targeted attacks find the way out."""
    model, images = Linear(10), near_the_middle(40)
    labels = model(images).argmax(1)
    params = parameters(epsilon=float(model.distances(images, labels, "linf").median()), steps=8, queries=10)
    found = estimate(params, attack(params, Model(model, 10), (images, labels), batch_size=40))
    values = [found[f"robust_accuracy[attack={name}]"].value for name in make_ensemble(params).attacks]
    assert all(later <= earlier for earlier, later in pairwise(values))
    assert values[-1] == found["robust_accuracy"].value < values[0]


def test_an_example_that_errors_under_attack_is_never_robust() -> None:
    """Nothing breaks this model; around two of its examples it has no finite output."""
    cursed = IMAGES[[1, 4]]

    def breaks(images: Tensor) -> Tensor:
        logits = torch.nn.functional.one_hot(torch.zeros(len(images), dtype=torch.int64), 5).double()
        near = (images[:, None] - cursed[None]).abs().flatten(2).amax(2)
        return (logits + 0 * images.flatten(1).sum(1, keepdim=True)).masked_fill(
            ((near > 0) & (near < 0.02)).any(1, keepdim=True), torch.nan
        )

    params, labels = parameters(), torch.zeros(21, dtype=torch.int64)
    records = attack(params, Model(breaks, 5), (IMAGES, labels))
    assert [i for i, lost in enumerate(records["errored"].to_pylist()) if lost] == [1, 4]
    assert records["robust"].null_count == records["correct"].null_count == 2
    found = estimate(params, records)
    assert {one.value for one in found.values()} == {19 / 21}
    assert count(params, records)["robust_accuracy_errored"] == 2


def test_without_queries_square_is_left_out() -> None:
    params = parameters(queries=0)
    assert make_ensemble(params).attacks == ("apgd-ce", "apgd-t", "fab-t")
    assert "robust_accuracy[attack=square]" not in estimate(params, attack(params))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["standard", "rand"])
def test_no_cut_changes_a_record(version: str) -> None:
    params = parameters(version=version, steps=3, queries=15)
    whole, cut = attack(params, batch_size=3), attack(params, batch_size=3, shards=7)
    assert whole.equals(cut)
    assert whole.schema.equals(cut.schema)
    assert whole.column_names[:3] == ["example_id", "label", "errored"]
    assert whole["example_id"].to_pylist() == IDS


@dataclass
class Stopped(Context):
    """A context whose worker is told to stop at some check for it, and remembers what was saved before."""

    stops_at: int = 10**9

    def check_cancelled(self) -> None:
        super().check_cancelled()
        if self.ticks == self.stops_at:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_stage_begun_again_goes_on_after_the_last_batch_and_ends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters(steps=3, queries=15)
    expected, attacked = attack(params, batch_size=3), []
    counted = Stopped(CNN, DATA, WHOLE, 3)
    run(params, counted)
    stopped = Stopped(CNN, DATA, WHOLE, 3, stops_at=counted.ticks // 2)
    with pytest.raises(KeyboardInterrupt):
        run(params, stopped)
    assert 0 < stopped.saves < 7

    once = robust_accuracy.attack_batch

    def watched(ensemble: AutoAttack, context: Context, batch: Batch, purpose: str):
        attacked.append(batch.example_ids[0])
        return once(ensemble, context, batch, purpose)

    monkeypatch.setattr(robust_accuracy, "attack_batch", watched)
    assert run(params, Stopped(CNN, DATA, WHOLE, 3, kept=stopped.kept)).equals(expected)
    assert attacked == [1000 + 3 * number for number in range(stopped.saves, 7)]


def test_it_looks_for_cancellation_before_every_pass() -> None:
    passes = 0

    def counting(images: Tensor) -> Tensor:
        nonlocal passes
        passes += 1
        return CNN.logits(images)

    context = Stopped(Model(counting, 5), DATA, WHOLE, 21)
    run(RobustAccuracyParams(epsilon=0.015, steps=5, queries=25), context)
    # The one that is watched for gradients of its own, and the save, stand for each other.
    assert context.ticks == passes
