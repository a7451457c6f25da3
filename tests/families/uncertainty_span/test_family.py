import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from seatrial.families.uncertainty_span.effort import STAGES
from seatrial.families.uncertainty_span.metrics import METRICS
from seatrial.families.uncertainty_span.records import CALIBRATED, CHANGED
from seatrial.statistics.samples import Sample
from tests.attacks.test_pgd import naive_best_entropy
from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    LABELS,
    NETWORK,
    Model,
    audit,
    ensemble,
    measure,
    network,
    parameters,
)
from workers.errors import PreflightError
from workers.families.protocol import DataInfo, TargetInfo
from workers.families.uncertainty_span.estimates import calibrated_spans
from workers.families.uncertainty_span.family import FAMILY

ATTACKS = [
    "ace",
    "ace_lower_true",
    "ace_raise_true",
    "ace_lower_predicted",
    "ace_raise_predicted",
    "max_miscalibration",
    "random_confidence",
]
OUTLIERS = (
    torch.rand(24, 1, 4, 4, generator=torch.Generator().manual_seed(9)).round(),
    torch.zeros(24, dtype=torch.int64),
)


def everything(**changes):
    return parameters(
        attacks=ATTACKS,
        transfer_model="mdl_1",
        outliers={"dataset": "dat_1", "epsilons": [0.05, 0.1]},
        conformal={"coverage": 0.8},
        random_start=True,
        restarts=2,
        steps=5,
        robust_accuracy={"steps": 2, "queries": 5},
        **changes,
    )


def saturated(images: torch.Tensor) -> torch.Tensor:
    return NETWORK.logits(images) * 1e4


@pytest.mark.slow
def test_every_published_estimate_is_documented_and_every_documented_one_published() -> None:
    params = everything(effort="standard", parts=["aleatoric", "epistemic"])
    models = {"transfer_model": network(1)}
    result, _ = audit(params, ensemble(saturated, saturated), DATA, outliers=OUTLIERS, models=models)
    published = set()
    for name in result.estimates:
        base, _, inside = name.rstrip("]").partition("[")
        published.add((base, tuple(pair.split("=")[0] for pair in inside.split(",") if pair)))
    assert published == {(metric.name, tuple(metric.qualifiers)) for metric in METRICS}


@pytest.mark.slow
def test_records_do_not_depend_on_how_stages_are_cut() -> None:
    kwargs = {"outliers": OUTLIERS, "models": {"transfer_model": network(1)}, "batch_size": 8}
    whole, once = audit(everything(effort="standard"), NETWORK, DATA, shards=1, **kwargs)
    again, cut = audit(everything(effort="standard"), NETWORK, DATA, shards=3, **kwargs)
    assert once.keys() == cut.keys()
    for name, records in once.items():
        assert records.column_names[:3] == ["example_id", "label", "errored"]
        assert records.equals(cut[name]), name
    assert whole == again
    assert whole.model_dump_json() == again.model_dump_json()


def test_msus_is_the_square_of_mus_and_the_variance() -> None:
    result, done = audit(parameters(), NETWORK, DATA)
    span = np.asarray(done["attack"]["entropy_under"]) - np.asarray(done["attack"]["entropy_over"])
    value = {name: result.estimates[name].value for name in ("mus", "mus_std", "msus", "msus_std")}
    assert value["mus"] == pytest.approx(span.mean())
    assert value["mus_std"] == pytest.approx(span.std(ddof=1))
    assert value["msus_std"] == pytest.approx((span**2).std(ddof=1))
    assert value["msus"] == pytest.approx(value["mus"] ** 2 + value["mus_std"] ** 2 * 39 / 40)


def test_mus_agrees_with_a_naive_attack() -> None:
    done = measure(parameters(steps=20, step_size=0.01), NETWORK, DATA)
    expected = naive_best_entropy(NETWORK.logits, IMAGES, 0.1, 0.01, 20)
    assert np.allclose(done["attack"]["entropy_over"], expected, atol=1e-5)


def test_arms_are_ordered_and_signed_ece_follows() -> None:
    result, _ = audit(parameters(), NETWORK, DATA)
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    assert value["entropy[arm=over]"] < value["entropy[arm=clean]"] < value["entropy[arm=under]"]
    assert value["accuracy[arm=over]"] == value["clean_accuracy"] == 0.75
    assert value["s_ece[arm=over]"] < value["s_ece[arm=clean]"]
    for arm in ("clean", "over", "under"):
        expected = value[f"accuracy[arm={arm}]"] - value[f"confidence[arm={arm}]"]
        assert value[f"s_ece[arm={arm}]"] == pytest.approx(expected, abs=1e-12)
        assert value[f"ece[arm={arm}]"] >= abs(value[f"s_ece[arm={arm}]"]) - 1e-12
    for name, estimate in result.estimates.items():
        assert estimate.low <= estimate.value <= estimate.high, name
    assert value["nud"] == value["nud[arm=under]"]


def test_best_entropy_dominates_the_authors_rule() -> None:
    best, _ = audit(parameters(steps=12, step_size=0.03), NETWORK, DATA)
    theirs, records = audit(parameters(steps=12, step_size=0.03, selection="final_or_clean"), NETWORK, DATA)
    assert best.estimates["mus"].value > theirs.estimates["mus"].value
    table = {name: np.asarray(records["attack"][f"entropy_{name}"]) for name in ("clean", "over", "under")}
    assert (table["over"] <= table["clean"]).all()
    assert (table["under"] >= table["clean"]).all()


def test_an_example_whose_output_is_not_finite_is_errored_and_counted() -> None:
    def breaks(images: torch.Tensor) -> torch.Tensor:
        logits = NETWORK.logits(images)
        bad = (images.flatten(1)[:, 0] > 0.97) | (images.flatten(1)[:, 0] < 0.01)
        return torch.where(bad.unsqueeze(1), math.nan, logits)

    result, done = audit(parameters(attacks=["ace"]), Model(breaks, 4), DATA)
    errored = np.asarray(done["attack"]["errored"])
    assert 0 < errored.sum() < 40
    assert result.counts["n"] == 40
    assert result.counts["errored"] == errored.sum() == 40 - result.counts["attacked"]
    assert result.estimates["mus"].n == 40 - errored.sum()
    assert result.estimates["clean_accuracy"].n == 40 - errored.sum()
    assert done["attack"]["entropy_under"].null_count == errored.sum()


def test_nothing_but_errors_is_undefined_and_not_robust() -> None:
    result, _ = audit(parameters(attacks=["ace"]), Model(lambda x: NETWORK.logits(x) * math.nan, 4), DATA)
    assert result.estimates["mus"].value is None
    assert result.estimates["mus_worst"].value is None
    assert result.counts["attacked"] == 0
    assert FAMILY.figures(parameters(attacks=["ace"]), result).keys() <= {"attacks"}


@pytest.mark.slow
def test_stages_follow_parameters_and_records() -> None:
    plain = measure(parameters(), NETWORK, DATA)
    assert list(plain) == ["attack", "growth", "pictures"]
    full = measure(
        everything(), Model(saturated, 4), DATA, outliers=OUTLIERS, models={"transfer_model": Model(saturated, 4)}
    )
    further = ["tempered", "transfer", *ATTACKS, "outliers", "robust_accuracy", "pictures"]
    assert list(full) == ["attack", "growth", *further]
    further = ["surrogate", "ascent", "smoothed", "score", "distilled", "repeated", "crossing", "transformed"]
    further += ["integrated", "displaced"]
    stages, done = [], {name: full[name] for name in ("attack", "growth")}
    while (stage := FAMILY.next_stage(parameters(effort="thorough"), done)) is not None:
        stages.append(stage)
        done[stage.name] = full["attack"]
    assert [stage.name for stage in stages] == [*further, "tempered", "pictures"]
    # What learns from all examples is of one piece.
    assert stages[0].grain == stages[0].limit
    before = [name for name in full if name not in ("outliers", "robust_accuracy", "pictures")]
    stage = FAMILY.next_stage(everything(), {name: full[name] for name in before})
    assert (stage.source, stage.limit) == ("outliers/dataset", 40)


def test_preflight_refuses_targets_it_cannot_attack() -> None:
    target = TargetInfo(classes=1, labels=None, input_shape=(1, 4, 4))
    with pytest.raises(PreflightError) as raised:
        FAMILY.preflight(target, DataInfo(examples=10, classes=2, clean_accuracy=0.9), parameters())
    assert raised.value.problem.field == "model"


def test_preflight_accepts_a_binary_model() -> None:
    FAMILY.preflight(TargetInfo(2, None, (1, 4, 4)), DataInfo(10, 2, 0.9), parameters())


def test_a_transfer_model_with_other_classes_is_refused() -> None:
    with pytest.raises(PreflightError, match="5 classes"):
        audit(parameters(transfer_model="mdl_1"), NETWORK, DATA, models={"transfer_model": network(1, classes=5)})


@pytest.mark.drill
@pytest.mark.slow
def test_reduce_takes_twenty_thousand_examples() -> None:
    done = measure(parameters(steps=2), NETWORK, DATA)
    many = {"attack": pa.concat_tables([done["attack"]] * 500).combine_chunks(), "growth": done["growth"]}
    result = FAMILY.reduce(parameters(steps=2), many, 0)
    small = FAMILY.reduce(parameters(steps=2), done, 0)
    assert result.counts["n"] == 20_000
    assert result.estimates["mus"].value == pytest.approx(small.estimates["mus"].value)
    assert result.estimates["ece[arm=under]"].value == pytest.approx(small.estimates["ece[arm=under]"].value)
    assert len(LABELS) == 40


def test_what_a_transfer_model_finds_counts_at_the_calibrated_temperature_and_for_decisions() -> None:
    few = IMAGES[:6], LABELS[:6]
    params = parameters(effort="standard", steps=8, transfer_model="mdl_1")
    tripled = Model(lambda x: NETWORK.logits(x) * 3, 4)
    result, done = audit(params, tripled, few, models={"transfer_model": NETWORK})
    others = {name: Sample(done[name]) for name in (*STAGES, "transfer")}
    over, under = (
        np.stack([one.floats(CALIBRATED.format(arm)) for one in others.values()]) for arm in ("over", "under")
    )
    widest = under.max(axis=0) - over.min(axis=0)
    assert calibrated_spans(others) == pytest.approx(widest)
    assert result.estimates["mus_calibrated"].value >= widest.mean() - 1e-12
    assert others["transfer"].has(CHANGED)
    # By itself, with an effort that runs nothing else for decisions, it is no accuracy under attack.
    quick, _ = audit(parameters(transfer_model="mdl_1"), tripled, few, models={"transfer_model": NETWORK})
    assert "adversarial_accuracy" not in quick.estimates
