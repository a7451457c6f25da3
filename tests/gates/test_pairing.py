"""Which records a metric is the mean of: against what workers published of whole checks, and by hand."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.contracts.registry import families, metrics_of
from seatrial.contracts.states import RunState
from seatrial.families.shared.per_example import NoMeanError
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.pairing import Pairing, is_mean, values_of
from seatrial.judging.regression import mover, paired_difference
from seatrial.statistics.widening import unseen_share
from tests.families.calibration import tables
from tests.families.certified_calibration import audits as certificates
from tests.families.certified_calibration import fabricated as fabricated_certificates
from tests.families.low_level_attack import fabricated as fabricated_noise
from tests.families.temperature_attack import fabricated as fabricated_texts
from tests.families.transductive_attack import fabricated as fabricated_games
from tests.families.uncertainty_span import audits as spans
from workers.attacks.text.strength import Strength
from workers.families.certified_calibration.family import FAMILY as CERTIFICATES
from workers.families.low_level_attack import estimates as noise
from workers.families.temperature_attack import estimates as texts
from workers.families.transductive_attack.estimates import estimate_all as games

Run = tuple[dict[str, Any], dict[str, Estimate], Mapping[str, pa.Table]]
"""Parameters as stored, what was published, records by stage."""

AUTOATTACK = {"steps": 2, "queries": 5}


def _spans() -> Run:
    params = spans.parameters(
        attacks=["ace", "max_miscalibration"],
        transfer_model="mdl_1",
        steps=4,
        effort="standard",
        robust_accuracy=AUTOATTACK,
    )
    images = spans.IMAGES.clone()
    # An example that errors is in no number.
    images[5] = torch.nan
    saturated = spans.Model(lambda x: spans.NETWORK.logits(x) * 40, 4)
    result, done = spans.audit(params, saturated, (images, spans.LABELS), models={"transfer_model": spans.network(1)})
    return params.model_dump(mode="json"), result.estimates, done


def _spans_of_parts() -> Run:
    params = spans.parameters(parts=["aleatoric", "epistemic"], steps=4)
    model = spans.ensemble(*(spans.network(seed).logits for seed in range(3)))
    result, done = spans.audit(params, model, spans.DATA)
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


def _texts_under_an_inert_recipe() -> Run:
    params = fabricated_texts.parameters(recipes=["deepwordbug", "pwws"], arms=["calibrated"])
    could_write = {"deepwordbug": Strength(20, 60, 8, is_limited=False), "pwws": Strength(20, 28, 14, is_limited=False)}
    done = fabricated_texts.records(params, errored=frozenset({3}), could_write=could_write, label_only=0.5)
    return params.model_dump(mode="json"), texts.reduce(params, done, 0).estimates, done


def _certificates() -> Run:
    params = fabricated_certificates.parameters(radii=[0.0, 0.1, 0.25])
    done = fabricated_certificates.records(params, errored=frozenset({0, 40}))
    return params.model_dump(mode="json"), CERTIFICATES.reduce(params, done, 0).estimates, done


def _certificates_and_autoattack() -> Run:
    robust = {"norm": "linf", "epsilon": 0.05, "version": "rand", "steps": 2}
    params = certificates.parameters(n=200, radii=[0.0, 0.1], robust_accuracy=robust, uncertainty={})
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


def _tags(n: int, seed: int = 0) -> Run:
    params = fabricated_noise.parameters(attackers=["visual", "truncate"], levels=[0.2])
    done = fabricated_noise.sampled(TAGGING, params, n=n, seed=seed)
    return params.model_dump(mode="json"), noise.reduce(params, done, 0).estimates, done


def _noise_that_errored_here_and_there(task: str = "text-pair-classification") -> Run:
    names = ["visual", "phonetic", "truncate"]
    params = fabricated_noise.parameters(attackers=[*names, "segment"], levels=[0.2, 0.8], draws=2)
    done = fabricated_noise.sampled(task, params)
    # Of the last attacker so much that it is compared with no other.
    for stage, lost in (("attack_visual", range(3)), ("attack_phonetic", [2, 9]), ("attack_truncate", range(5, 50))):
        errored = [position in lost for position in range(done[stage].num_rows)]
        reasons = pa.array(["too late" if one else None for one in errored], pa.string())
        for name, column in {"errored": pa.array(errored), "error": reasons}.items():
            done[stage] = done[stage].set_column(done[stage].column_names.index(name), name, column)
    return params.model_dump(mode="json"), noise.reduce(params, done, 0).estimates, done


def _table() -> Run:
    told, labels, arms = tables.made(120, arms=(0.6, 0.3, 0.1))
    records = tables.to_records(tables.predictions(told, labels, arms))
    return tables.PARAMS.model_dump(mode="json"), tables.reduced(records).estimates, {tables.STAGE: records}


RUNS = {
    "spans of parts": ("uncertainty_span", cache(_spans_of_parts)),
    "spans": ("uncertainty_span", cache(_spans)),
    "texts": ("temperature_attack", cache(_texts)),
    "texts, errored apart": ("temperature_attack", cache(_texts_that_errored_here_and_there)),
    "texts, an inert recipe": ("temperature_attack", cache(_texts_under_an_inert_recipe)),
    "certificates": ("certified_calibration", cache(_certificates)),
    "certificates and AutoAttack": ("certified_calibration", cache(_certificates_and_autoattack)),
    "games": ("transductive_attack", cache(_games)),
    "games without AutoAttack": ("transductive_attack", cache(_games_without_autoattack)),
    "noise": ("low_level_attack", cache(_noise)),
    "noise, several draws": ("low_level_attack", cache(lambda: _noise(draws=3))),
    "noise, errored apart": ("low_level_attack", cache(_noise_that_errored_here_and_there)),
    "noise on tags": ("low_level_attack", cache(lambda: _noise(TAGGING, draws=2))),
    "noise on tags, errored apart": ("low_level_attack", cache(lambda: _noise_that_errored_here_and_there(TAGGING))),
    "a table": ("calibration", cache(_table)),
    "noise on labels": ("low_level_attack", cache(lambda: _noise(MULTI_LABEL, draws=2))),
}


def _mapped(kind: str, published: Mapping[str, Estimate]) -> Iterator[tuple[str, Estimate]]:
    for name, estimate in published.items():
        if is_mean(f"{kind}.{name}") and estimate.value is not None:
            yield f"{kind}.{name}", estimate


def task_of(done: Mapping[str, pa.Table]) -> str:
    return str(done["clean"]["task"][0].as_py()) if "clean" in done else ""


_AREAS = ("score", "score_drop", "worst_case_score", "persistent_score")
NO_MEANS = {
    ("low_level_attack", TAGGING): {"low_level_attack.mean_confidence"},
    ("low_level_attack", MULTI_LABEL): {f"low_level_attack.{name}" for name in _AREAS},
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_the_mean_of_the_records_is_what_was_published(run: str) -> None:
    kind, made = RUNS[run]
    params, published, done = made()
    for metric, estimate in _mapped(kind, published):
        try:
            found = values_of(metric, params, done.get)
        except NoMeanError:
            assert metric.partition("[")[0] in NO_MEANS[kind, task_of(done)], metric
            continue
        assert found is not None, metric
        decided = found.decided(found.example_ids)
        mean = found.values.sum() / decided.sum()
        # Where examples are answered or not, those that are count: the mean over repeats, rounded down.
        is_answered = found.decisions is not None and decided.max() <= 1 and decided.min() < 1
        assert (float(mean), int(decided.sum() + 1e-9) if is_answered else len(found.values)) == (
            pytest.approx(estimate.value, rel=1e-9, abs=1e-12),
            estimate.n,
        ), metric
        assert (np.diff(found.example_ids) > 0).all(), metric


@pytest.mark.parametrize("kind", families())
def test_every_mean_is_one_of_some_run(kind: str) -> None:
    seen = {
        (metric.partition("[")[0].partition(".")[2], *sorted(_keys(metric)))
        for of, made in RUNS.values()
        if of == kind
        for metric, _ in _mapped(of, made()[1])
    }
    means = (metric for metric in metrics_of(kind) if metric.per_example is not None)
    assert seen == {(metric.name, *sorted(metric.qualifiers)) for metric in means}


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


LEVEL = "[attacker=visual,level=0.2]"


def _noise_pair(name: str, now: Run, then: Run) -> Any:
    stored = {("aud_2", 0, stage): table for stage, table in now[2].items()}
    stored |= {("aud_1", 0, stage): table for stage, table in then[2].items()}
    first, second = (
        MeasuredCheck(0, "low_level_attack", RunState.SUCCEEDED, Result(estimates={}, counts={}), None, run[0])
        for run in (now, then)
    )
    pairing = Pairing(lambda *of: stored.get(of), is_same_dataset=True)
    return pairing.pair(f"low_level_attack.{name}", ("aud_2", first), ("aud_1", second))


def test_an_area_under_curves_is_no_mean_over_examples_and_what_was_changed_is() -> None:
    run = _noise(MULTI_LABEL)
    for name in ("score[level=0]", f"score{LEVEL}", f"score_drop{LEVEL}", "worst_case_score[level=0.2]"):
        assert _noise_pair(name, run, run) == "for this task it is not a mean over examples"
    for name in ("flip_rate", "mean_confidence", "characters_changed"):
        found = _noise_pair(f"{name}{LEVEL}", run, run)
        assert found.now.mean() == pytest.approx(run[1][f"{name}{LEVEL}"].value)


def test_confidence_under_noise_is_over_the_tags_there_still_are() -> None:
    run = _noise(TAGGING)
    assert _noise_pair(f"mean_confidence{LEVEL}", run, run) == "for this task it is not a mean over examples"


@pytest.mark.parametrize(
    "name", ["score[level=0]", f"score{LEVEL}", f"flip_rate{LEVEL}", "worst_case_score[level=0.2]"]
)
def test_two_identical_audits_of_a_tagger_differ_by_nothing_and_less_than_their_intervals_say(name: str) -> None:
    run, other = _tags(400), _tags(400)
    found = _noise_pair(name, run, other)
    evidence = paired_difference(found.then - found.now, (0.0, 1.0), found.weights)
    published = run[1][name]
    assert evidence.judged.value == 0
    # The share of sentences that may be otherwise, times the weight of one in which a tag drawn from all lies.
    side = unseen_share(400) * float(np.mean(found.weights**2))
    assert (evidence.judged.low, evidence.judged.high) == pytest.approx((-side, side), rel=0.02)
    assert evidence.judged.high < mover(published, published).high


def test_what_a_tagger_lost_is_the_difference_of_what_was_published() -> None:
    now, then = _tags(100, seed=1), _tags(100)
    for name in ("score[level=0]", f"score{LEVEL}", f"flip_rate{LEVEL}", "worst_case_score[level=0.2]"):
        found = _noise_pair(name, now, then)
        wanted = then[1][name].value - now[1][name].value
        assert (found.then - found.now).mean() == pytest.approx(wanted, abs=1e-12), name
        assert found.weights.mean() == pytest.approx(1)
        assert found.weights.std() > 0.2


def test_models_that_tag_other_tokens_are_not_compared_sentence_by_sentence() -> None:
    now, then = _tags(20), _tags(20)
    decisions = then[2]["clean"]["decisions"].to_pylist()
    table = then[2]["clean"]
    fewer = pa.array([decisions[0] - 1, *decisions[1:]], pa.int64())
    then[2]["clean"] = table.set_column(table.column_names.index("decisions"), "decisions", fewer)  # type: ignore
    assert _noise_pair("score[level=0]", now, then) == "the two models make different numbers of decisions per example"


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
    now, then, weights = _pair({3: True, 1: False, 2: True, 9: True}, {1: True, 2: True, 3: False, 8: False})
    assert weights is None
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
    assert found == "the records are missing"


def _keys(metric: str) -> list[str]:
    inside = metric.partition("[")[2].removesuffix("]")
    return [pair.partition("=")[0] for pair in inside.split(",") if pair]
