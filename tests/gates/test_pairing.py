"""Which records a metric is the mean of: against what workers published of whole checks, and by hand."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from app.contracts.estimates import Estimate, Result
from app.contracts.families import METRICS
from app.contracts.states import RunState
from app.gates.means import MEANS, NoMeanError
from app.gates.measured import MeasuredCheck
from app.gates.pairing import Pairing, is_mean, values_of
from tests.families.certified_calibration import audits as certificates
from tests.families.certified_calibration import fabricated as fabricated_certificates
from tests.families.low_level_attack import fabricated as fabricated_noise
from tests.families.temperature_attack import fabricated as fabricated_texts
from tests.families.transductive_attack import fabricated as fabricated_games
from tests.families.uncertainty_span import audits as spans
from workers.families.certified_calibration.family import FAMILY as CERTIFICATES
from workers.families.low_level_attack import estimates as noise
from workers.families.temperature_attack import estimates as texts
from workers.families.transductive_attack.estimates import estimate_all as games

Run = tuple[dict[str, Any], dict[str, Estimate], Mapping[str, pa.Table]]
"""Parameters as stored, what was published, records by stage."""

AUTOATTACK = {"steps": 2, "queries": 5}


def _spans() -> Run:
    params = spans.parameters(
        attacks=["ace", "max_miscalibration"], transfer_model="mdl_1", steps=4, robust_accuracy=AUTOATTACK
    )
    images = spans.IMAGES.clone()
    # An example that errors is in no number.
    images[5] = torch.nan
    saturated = spans.Model(lambda x: spans.NETWORK.logits(x) * 40, 4)
    result, done = spans.audit(params, saturated, (images, spans.LABELS), models={"transfer_model": spans.network(1)})
    return params.model_dump(mode="json"), result.estimates, done


def _texts() -> Run:
    params = fabricated_texts.parameters(
        recipes=["deepwordbug", "pwws", "input_reduction"], arms=["calibrated", "optimized"]
    )
    done = fabricated_texts.records(params, errored=frozenset({3, 17}))
    return params.model_dump(mode="json"), texts.reduce(params, done, 0).estimates, done


def _texts_that_errored_here_and_there() -> Run:
    params = fabricated_texts.parameters(recipes=["deepwordbug", "pwws"], arms=["calibrated"])
    done = fabricated_texts.records(params)
    for row, stage in enumerate(["attack_deepwordbug", "attack_pwws"]):
        errored = [position == row for position in range(done[stage].num_rows)]
        reasons = pa.array(["it took too long" if one else None for one in errored], pa.string())
        for name, column in {"errored": pa.array(errored), "error": reasons}.items():
            done[stage] = done[stage].set_column(done[stage].column_names.index(name), name, column)
    return params.model_dump(mode="json"), texts.reduce(params, done, 0).estimates, done


def _certificates() -> Run:
    params = fabricated_certificates.parameters(radii=[0.0, 0.1, 0.25])
    done = fabricated_certificates.records(params, errored=frozenset({0, 40}))
    return params.model_dump(mode="json"), CERTIFICATES.reduce(params, done, 0).estimates, done


def _certificates_and_autoattack() -> Run:
    robust = {"norm": "linf", "epsilon": 0.05, "version": "rand", "steps": 2}
    params = certificates.parameters(n=200, radii=[0.0, 0.1], robust_accuracy=robust)
    result, done = certificates.audit(params, certificates.NETWORK, certificates.DATA)
    return params.model_dump(mode="json"), result.estimates, done


def _games() -> Run:
    params = fabricated_games.parameters(defences=["dent", "urejectron"], repeats=3)
    done = fabricated_games.records(
        params,
        failed={"dent.fpa.1": "it took too long"},
        errored={"static": {4}, "dent.clean.0": {7}, "dent.gmsa_min.2": {9, 11}},
    )
    return params.model_dump(mode="json"), games(params, done), done


def _games_without_autoattack() -> Run:
    params = fabricated_games.parameters(defences=["tent"], attacks=["transfer_pgd", "fpa"])
    done = fabricated_games.records(params)
    return params.model_dump(mode="json"), games(params, done), done


def _noise(task: str = "text-classification", draws: int = 1) -> Run:
    params = fabricated_noise.parameters(attackers=["visual", "segment", "truncate"], levels=[0.2, 0.8], draws=draws)
    done = fabricated_noise.sampled(task, params, errored=frozenset({4, 11}))
    return params.model_dump(mode="json"), noise.reduce(params, done, 0).estimates, done


def _noise_that_errored_here_and_there() -> Run:
    params = fabricated_noise.parameters(attackers=["visual", "segment", "truncate"], levels=[0.2, 0.8], draws=2)
    done = fabricated_noise.sampled("text-pair-classification", params)
    # Of the last attacker so much that it is compared with no other.
    for stage, lost in (("attack_visual", range(3)), ("attack_segment", [2, 9]), ("attack_truncate", range(5, 50))):
        errored = [position in lost for position in range(done[stage].num_rows)]
        reasons = pa.array(["too late" if one else None for one in errored], pa.string())
        for name, column in {"errored": pa.array(errored), "error": reasons}.items():
            done[stage] = done[stage].set_column(done[stage].column_names.index(name), name, column)
    return params.model_dump(mode="json"), noise.reduce(params, done, 0).estimates, done


RUNS = {
    "spans": ("uncertainty_span", cache(_spans)),
    "texts": ("temperature_attack", cache(_texts)),
    "texts, errored apart": ("temperature_attack", cache(_texts_that_errored_here_and_there)),
    "certificates": ("certified_calibration", cache(_certificates)),
    "certificates and AutoAttack": ("certified_calibration", cache(_certificates_and_autoattack)),
    "games": ("transductive_attack", cache(_games)),
    "games without AutoAttack": ("transductive_attack", cache(_games_without_autoattack)),
    "noise": ("low_level_attack", cache(_noise)),
    "noise, several draws": ("low_level_attack", cache(lambda: _noise(draws=3))),
    "noise, errored apart": ("low_level_attack", cache(_noise_that_errored_here_and_there)),
}


def _mapped(kind: str, published: Mapping[str, Estimate]) -> Iterator[tuple[str, Estimate]]:
    for name, estimate in published.items():
        if is_mean(f"{kind}.{name}") and estimate.value is not None:
            yield f"{kind}.{name}", estimate


@pytest.mark.parametrize("run", RUNS)
def test_the_mean_of_the_records_is_what_was_published(run: str) -> None:
    kind, made = RUNS[run]
    params, published, done = made()
    for metric, estimate in _mapped(kind, published):
        found = values_of(metric, params, done.get)
        assert found is not None, metric
        assert (float(found.values.mean()), len(found.values)) == (
            pytest.approx(estimate.value, rel=1e-9, abs=1e-12),
            estimate.n,
        ), metric
        assert (np.diff(found.example_ids) > 0).all(), metric


@pytest.mark.parametrize("kind", MEANS)
def test_every_mean_is_one_of_some_run(kind: str) -> None:
    seen = {
        (metric.partition("[")[0].partition(".")[2], *sorted(_keys(metric)))
        for of, made in RUNS.values()
        if of == kind
        for metric, _ in _mapped(of, made()[1])
    }
    assert seen == set(MEANS[kind])


@pytest.mark.parametrize("kind", MEANS)
def test_every_mean_is_one_of_a_metric_there_is(kind: str) -> None:
    assert set(MEANS[kind]) <= {(metric.name, *sorted(metric.qualifiers)) for metric in METRICS[kind]}


def test_a_number_that_is_no_mean_is_none() -> None:
    for metric in (
        "uncertainty_span.ece[arm=clean]",
        "temperature_attack.illusion_gap",
        "certified_calibration.cbs[radius=0]",
    ):
        assert values_of(metric, {}, lambda stage: None) is None


def test_without_records_there_are_no_values() -> None:
    for kind, made in RUNS.values():
        params, published, _ = made()
        for metric, _ in _mapped(kind, published):
            assert values_of(metric, params, lambda stage: None) is None, metric


@pytest.mark.parametrize("task", ["token-classification", "multi-label-classification"])
def test_a_score_of_tags_or_labels_is_no_mean_over_examples_and_what_was_changed_is(task: str) -> None:
    params, published, done = _noise(task)
    level = "[attacker=visual,level=0.2]"
    for name in ("score", "score_drop", "flip_rate", "mean_confidence", "persistent_score"):
        with pytest.raises(NoMeanError):
            values_of(f"low_level_attack.{name}{level}", params, done.get)
    changed = values_of(f"low_level_attack.characters_changed{level}", params, done.get)
    assert changed is not None
    assert changed.values.mean() == pytest.approx(published[f"characters_changed{level}"].value)
    stored = {("aud_2", 0, stage): table for stage, table in done.items()}
    check = MeasuredCheck(0, "low_level_attack", RunState.SUCCEEDED, Result(estimates={}, counts={}), None, params)
    pairing = Pairing(lambda *of: stored.get(of), is_same_dataset=True)
    found = pairing.pair(f"low_level_attack.score{level}", ("aud_2", check), ("aud_2", check))
    assert found == "it is no mean over examples of this task"


def _table(right: dict[int, bool]) -> pa.Table:
    return pa.table(
        {
            "example_id": list(right),
            "errored": [False] * len(right),
            "label": [1] * len(right),
            "prediction_clean": [int(hit) for hit in right.values()],
        }
    )


def _check(position: int = 0) -> MeasuredCheck:
    result = Result(estimates={}, counts={})
    return MeasuredCheck(position, "uncertainty_span", RunState.SUCCEEDED, result, None, {})


def _pair(now: dict[int, bool], then: dict[int, bool], **how: Any) -> Any:
    stored = {("aud_2", 0, "attack"): _table(now), ("aud_1", 3, "attack"): _table(then)}
    pairing = Pairing(lambda *of: stored.get(of), **({"is_same_dataset": True} | how))
    return pairing.pair("uncertainty_span.clean_accuracy", ("aud_2", _check()), ("aud_1", _check(3)))


def test_rows_are_paired_by_example_whatever_their_order() -> None:
    now, then = _pair({3: True, 1: False, 2: True, 9: True}, {1: True, 2: True, 3: False, 8: False})
    assert now.tolist() == [0, 1, 1]
    assert then.tolist() == [1, 1, 0]


def test_audits_of_different_datasets_are_not_paired() -> None:
    answers = {1: True, 2: False}
    assert _pair(answers, answers, is_same_dataset=False) == "the audits are of different datasets"


def test_audits_with_few_examples_in_common_are_not_paired() -> None:
    now, then = dict.fromkeys(range(10), True), dict.fromkeys(range(6, 16), True)
    assert _pair(now, then) == "the audits share 4 examples only"


def test_records_that_are_gone_are_not_paired() -> None:
    pairing = Pairing(lambda *of: None, is_same_dataset=True)
    found = pairing.pair("uncertainty_span.clean_accuracy", ("aud_2", _check()), ("aud_1", _check()))
    assert found == "the records are not there"


def _keys(metric: str) -> list[str]:
    inside = metric.partition("[")[2].removesuffix("]")
    return [pair.partition("=")[0] for pair in inside.split(",") if pair]
