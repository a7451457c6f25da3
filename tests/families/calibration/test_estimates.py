"""Every number of ``calibration`` by a second implementation: scikit-learn, SciPy, or a loop."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from seatrial.contracts.registry import metrics_of
from tests.families.calibration.tables import PARAMS, judged, made, predictions, reduced
from workers.families.calibration.estimates import Audit, conformal
from workers.families.calibration.family import FAMILY
from workers.families.calibration.sample import read_arm, to_records

SHARES = (0.6, 0.25, 0.15)


def value(result: object, name: str) -> float:
    found = result.estimates[name].value  # type: ignore[attr-defined]
    assert found is not None
    return float(found)


def test_the_numbers_of_a_table_are_those_of_others() -> None:
    told, labels, arms = made(600, heat=1.7, arms=SHARES)
    groups = [f"g{at % 3}" for at in range(600)]
    result = judged(told, labels, arms, groups)
    clean, truth = told[arms == 0], labels[arms == 0]
    sure, right = clean.max(axis=1), clean.argmax(axis=1) == truth
    assert value(result, "accuracy") == accuracy_score(truth, clean.argmax(axis=1))
    assert value(result, "confidence") == pytest.approx(sure.mean())
    assert value(result, "nll") == pytest.approx(log_loss(truth, clean))
    assert value(result, "brier") == pytest.approx(((clean - np.eye(4)[truth]) ** 2).sum(axis=1).mean())
    assert value(result, "s_ece") == pytest.approx(right.mean() - sure.mean())
    edges = np.arange(16) / 15
    ece = sum(
        abs((right.astype(float) - sure)[(sure >= low) & ((sure < high) | (high == 1))].sum())
        for low, high in itertools.pairwise(edges)
    )
    assert value(result, "ece") == pytest.approx(ece / len(sure))
    assert value(result, "failure_auroc") == pytest.approx(roc_auc_score(~right, -sure))
    fitted = minimize_scalar(
        lambda beta: -log_softmax(beta * np.log(clean), axis=1)[np.arange(len(truth)), truth].mean(),
        bounds=(0.01, 10),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert value(result, "temperature") == pytest.approx(1 / fitted.x, rel=1e-5)
    assert value(result, "temperature") == pytest.approx(1.7, rel=0.2)
    attacked, of_attacked = told[arms == 1], labels[arms == 1]
    assert value(result, "accuracy[arm=attacked]") == accuracy_score(of_attacked, attacked.argmax(axis=1))
    assert value(result, "nll[arm=attacked]") == pytest.approx(log_loss(of_attacked, attacked))
    outliers = told[arms == 2].max(axis=1)
    is_outlier = np.r_[np.zeros(len(sure)), np.ones(len(outliers))]
    assert value(result, "ood_auroc") == pytest.approx(roc_auc_score(is_outlier, -np.r_[sure, outliers]))
    threshold = np.sort(1 - outliers)[::-1][int(np.ceil(0.95 * len(outliers))) - 1]
    assert value(result, "ood_fpr95") == pytest.approx(np.mean(1 - sure >= threshold))
    of_groups = [right[np.array(groups)[arms == 0] == name].mean() for name in set(groups)]
    assert value(result, "worst_group_accuracy") == pytest.approx(min(of_groups))
    errors = []
    for name in set(groups):
        part = np.array(groups)[arms == 0] == name
        gaps = [
            abs((right[part] - sure[part])[(sure[part] >= low) & ((sure[part] < high) | (high == 1))].sum())
            for low, high in itertools.pairwise(edges)
        ]
        errors.append(sum(gaps) / part.sum())
    assert value(result, "worst_group_ece") == pytest.approx(max(errors))
    assert result.counts == {
        **{"n": 600, "errored": 0, "clean_correct": int(right.sum())},
        **{f"{name}_n": int((arms == at).sum()) for at, name in enumerate(("clean", "attacked", "ood"))},
    }
    published = {name.partition("[")[0] for name in result.estimates}
    assert published == {metric.name for metric in metrics_of("calibration")}


def test_sets_of_the_other_half_hold_their_labels() -> None:
    told, labels, _ = made(2000)
    clean = read_arm(to_records(predictions(told, labels)), "clean")
    found = conformal(Audit(PARAMS, clean, clean, clean, seed=0))
    coverage, size = found["conformal_coverage"], found["conformal_set_size"]
    assert coverage.n == size.n == 1000
    assert coverage.value == pytest.approx(0.9, abs=0.04)
    assert size.value is not None
    assert 1 < size.value < 4


def test_logits_and_their_probabilities_say_the_same() -> None:
    told, labels, _ = made(300)
    by_logits = judged(3 + np.log(told), labels, is_logits=True)
    by_probabilities = judged(told, labels)
    for name, estimate in by_probabilities.estimates.items():
        assert by_logits.estimates[name].value == pytest.approx(estimate.value, rel=1e-6, abs=1e-9), name


def test_neither_shards_nor_their_order_change_a_number() -> None:
    told, labels, arms = made(200, arms=SHARES)
    groups = [f"g{at % 2}" for at in range(200)]
    whole = to_records(predictions(told, labels, arms, groups))
    parts = [
        to_records(predictions(told[part], labels[part], arms[part], groups[part.start : part.stop])).set_column(
            0, "example_id", pa.array(np.arange(200)[part])
        )
        for part in (slice(120, 200), slice(0, 120))
    ]
    cut = pa.concat_tables([parts[1], parts[0]])
    assert cut.equals(whole)
    assert reduced(pa.concat_tables(parts)) == reduced(whole)


def test_an_arm_that_is_not_there_has_no_numbers_and_nothing_clean_has_none() -> None:
    told, labels, _ = made(100)
    assert not any("arm" in name or "ood" in name for name in judged(told, labels).estimates)
    nothing = judged(told, labels, np.ones(100, dtype=np.int64))
    assert nothing.estimates == {}
    assert FAMILY.figures(PARAMS, nothing) == {}


def test_a_probability_of_0_has_the_likelihood_that_scikit_learn_gives_it() -> None:
    told = np.tile([1.0, 0.0], (60, 1))
    labels = np.r_[np.zeros(59, dtype=np.int64), 1]
    assert value(judged(told, labels), "nll") == pytest.approx(log_loss(labels, told), rel=1e-9)
