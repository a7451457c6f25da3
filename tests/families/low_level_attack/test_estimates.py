"""Numbers recomputed by hand, by second implementations and from counts, and every way of having nothing to count."""

import hashlib
import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, rankdata
from sklearn.metrics import roc_auc_score
from torchmetrics.functional.classification import multiclass_calibration_error

from seatrial.families.low_level_attack.metrics import METRICS
from seatrial.statistics.estimating import seed_of
from seatrial.statistics.exact import clopper_pearson
from seatrial.statistics.intervals import counts
from seatrial.statistics.proportions import score_interval
from tests.families.low_level_attack.fabricated import audit, logits, marked, parameters, sampled, singles
from workers.families.contexts import LabelledText
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.audit import Audit
from workers.models import UnansweredError

SINGLE, PAIRS = "text-classification", "text-pair-classification"
LABELS, TAGS = "multi-label-classification", "token-classification"
TWO = {"attackers": ["truncate", "visual"], "levels": [0.5]}
FEW = {"attackers": ["truncate", "visual", "intrude"], "levels": [0.2, 0.8]}


@pytest.fixture(scope="module", params=[SINGLE, PAIRS, LABELS, TAGS])
def reduced(request):
    params = parameters(**FEW, draws=2, combined=True)
    done = sampled(request.param, params)
    return params, done, estimates.reduce(params, done, 0)


def value(result, name: str) -> float | None:
    return result.estimates[name].value


def test_scores_are_what_one_counts_by_hand() -> None:
    result = estimates.reduce(
        parameters(**TWO), marked(parameters(**TWO), "++++-", truncate=["+++--"], visual=["---++"]), 0
    )
    assert value(result, "score[level=0]") == 0.8
    score = result.estimates["score[attacker=visual,level=0.5]"]
    assert (score.value, score.low, score.high) == (0.4, *clopper_pearson(2, 5))
    assert value(result, "relative_score[attacker=truncate,level=0.5]") == pytest.approx(0.75)
    drop = result.estimates["score_drop[attacker=visual,level=0.5]"]
    assert (drop.value, drop.low, drop.high) == (pytest.approx(0.4), *score_interval(3, 1, 5))
    # Whatever it was before: right or wrong, it is decided otherwise.
    assert value(result, "flip_rate[attacker=visual,level=0.5]") == 0.8
    assert value(result, "flip_rate[attacker=truncate,level=0.5]") == 0.2
    # Only the fourth text withstands neither, and only the last is mended by one.
    assert value(result, "worst_case_score[level=0.5]") == 0.0
    assert value(result, "mean_relative_score[level=0.5]") == pytest.approx((0.75 + 0.5) / 2)
    assert value(result, "rank[attacker=visual]") == 1
    assert value(result, "rank[attacker=truncate]") == 2


def test_the_worst_case_is_the_worst_attacker_for_each_example_and_persistence_the_worst_draw() -> None:
    params = parameters(**TWO, draws=3)
    done = marked(params, "+++++", truncate=["++++-,++++-,+++--"], visual=["+++++,-++++,+++++"])
    result = estimates.reduce(params, done, 0)
    assert value(result, "score[attacker=truncate,level=0.5]") == 0.8
    assert value(result, "persistent_score[attacker=truncate,level=0.5]") == 0.6
    assert value(result, "score[attacker=visual,level=0.5]") == 1.0
    assert value(result, "persistent_score[attacker=visual,level=0.5]") == 0.8
    assert value(result, "worst_case_score[level=0.5]") == 0.4
    assert done["attack_truncate"].column("draw[level=0.5,draw=worst]").to_pylist()[3:] == [2, 0]
    assert result.series["worst_attackers"] == [
        {"level": 0.5, "attacker": "truncate", "examples": 2},
        {"level": 0.5, "attacker": "visual", "examples": 1},
    ]


def test_without_a_score_to_lose_nothing_is_relative() -> None:
    params = parameters(**TWO)
    result = estimates.reduce(params, marked(params, "----", truncate=["+---"], visual=["----"]), 0)
    assert value(result, "score[attacker=truncate,level=0.5]") == 0.25
    for name in (
        "relative_score[attacker=truncate,level=0.5]",
        "mean_relative_score[level=0.5]",
        "rank[attacker=visual]",
    ):
        assert value(result, name) is None
        assert result.estimates[name].low is None
    assert value(result, "edit_correlation") is None


def test_noise_that_changed_no_decision_is_no_proof_that_it_never_does() -> None:
    params = parameters(**TWO)
    result = estimates.reduce(params, marked(params, "+" * 20, truncate=["+" * 20], visual=["+" * 20]), 0)
    relative = result.estimates["relative_score[attacker=visual,level=0.5]"]
    assert relative.value == 1.0
    # Of twenty texts none of which changed the one in six that does may not have been seen.
    assert relative.low == pytest.approx(clopper_pearson(20, 20)[0], rel=0.01)


def test_examples_that_erred_under_one_attacker_are_in_the_others_numbers_only() -> None:
    params = parameters(**TWO)
    clean = logits("++++++")
    gone = UnansweredError("the budget is spent")
    attacked = {
        "truncate": {0.5: [[one] for one in logits("+++---")]},
        "visual": {0.5: [[gone if at == 5 else one] for at, one in enumerate(logits("-+++++"))]},
    }
    result = estimates.reduce(params, audit(params, SINGLE, singles("++++++"), clean, attacked), 0)
    assert result.estimates["score[level=0]"].n == 6
    assert result.estimates["score[attacker=truncate,level=0.5]"].n == 6
    assert value(result, "score[attacker=truncate,level=0.5]") == 0.5
    visual = result.estimates["relative_score[attacker=visual,level=0.5]"]
    assert (visual.value, visual.n) == (pytest.approx(0.8), 5)
    # The last text was lost under truncate as well: it is in no comparison.
    mean = result.estimates["mean_relative_score[level=0.5]"]
    assert (mean.value, mean.n) == (pytest.approx((0.6 + 0.8) / 2), 5)
    assert (value(result, "worst_case_score[level=0.5]"), result.estimates["worst_case_score[level=0.5]"].n) == (0.4, 5)
    assert (result.counts["errored"], result.counts["errored[attacker=visual]"], result.counts["worst_n"]) == (1, 1, 5)


def test_numbers_of_several_labels_are_made_in_steps_that_can_be_stopped() -> None:
    params = parameters(**FEW)
    ticks: list[None] = []
    estimates.reduce(params, sampled(LABELS, params), 0, check_cancelled=lambda: ticks.append(None))
    # Without noise, of each attacker at each level, and of the worst: each on the sample and on its resamples.
    assert len(ticks) >= 2 * (1 + 3 * 2 + 2)


def test_an_attacker_with_hardly_an_answer_takes_nobodys_rank() -> None:
    params = parameters(attackers=["truncate", "visual", "intrude"], levels=[0.5])
    gone = UnansweredError("the budget is spent")
    attacked = {
        "truncate": {0.5: [[one] for one in logits("+++---")]},
        "visual": {0.5: [[one] for one in logits("-+++++")]},
        "intrude": {0.5: [[one] if at < 2 else [gone] for at, one in enumerate(logits("------"))]},
    }
    result = estimates.reduce(params, audit(params, SINGLE, singles("++++++"), logits("++++++"), attacked), 0)
    assert [value(result, f"rank[attacker={name}]") for name in ("truncate", "visual", "intrude")] == [1.0, 2.0, None]
    assert result.series["attackers"] == ["truncate", "visual", "intrude"]
    assert result.estimates["worst_case_score[level=0.5]"].n == 6
    assert value(result, "score[attacker=intrude,level=0.5]") == 0.0


def test_every_published_name_is_in_the_contract_and_every_metric_is_published(reduced) -> None:
    _, _, result = reduced
    known = {(metric.name, tuple(metric.qualifiers)) for metric in METRICS}
    seen = set()
    for name in result.estimates:
        base, _, inside = name.partition("[")
        seen.add((base, tuple(part.split("=")[0] for part in inside.rstrip("]").split(",") if part)))
    assert seen == known


def test_every_interval_holds_its_value(reduced) -> None:
    _, _, result = reduced
    for name, estimate in result.estimates.items():
        assert estimate.value is not None, name
        assert estimate.low <= estimate.value <= estimate.high, name
        assert math.isfinite(estimate.high - estimate.low), name


def test_the_same_records_give_the_same_bytes(reduced) -> None:
    params, done, result = reduced

    def digest(other) -> str:
        return hashlib.sha256(other.model_dump_json().encode()).hexdigest()

    assert digest(estimates.reduce(params, done, 0)) == digest(result)
    assert digest(estimates.reduce(params, done, 1)) != digest(result)


def test_rates_follow_from_counts(reduced) -> None:
    params, done, result = reduced
    counted, task = result.counts, done["clean"].column("task")[0].as_py()
    for attacker in params.runs(task):
        decided = counted[f"decisions[attacker={attacker}]"]
        for level in params.levels:
            of = f"[attacker={attacker},level={level:g}]"
            assert value(result, f"flip_rate{of}") == pytest.approx(counted[f"flipped{of}"] / decided)
            if task != LABELS:
                assert value(result, f"score{of}") == pytest.approx(counted[f"correct{of}"] / decided)
    if task != LABELS:
        worst = counted["worst_correct[level=0.8]"] / counted["decisions"]
        assert value(result, "worst_case_score[level=0.8]") == pytest.approx(worst)


def test_ranks_and_correlation_follow_from_the_scores(reduced) -> None:
    params, done, result = reduced
    task = done["clean"].column("task")[0].as_py()
    runs = params.runs(task)
    relative = [value(result, f"relative_score[attacker={name},level=0.8]") for name in runs]
    assert [value(result, f"rank[attacker={name}]") for name in runs] == rankdata(relative).tolist()
    points = [
        [value(result, f"{metric}[attacker={name},level={level:g}]") for name in runs for level in params.levels]
        for metric in ("characters_changed", "relative_score")
    ]
    assert value(result, "edit_correlation") == pytest.approx(pearsonr(*points).statistic)
    asked = [one for name, one in zip(runs, relative, strict=True) if name != "combined"]
    assert value(result, "mean_relative_score[level=0.8]") == pytest.approx(np.mean(asked))
    for name in runs:
        of = f"[attacker={name},level=0.8]"
        assert value(result, f"relative_score{of}") == pytest.approx(
            value(result, f"score{of}") / value(result, "score[level=0]")
        )


def test_macro_auroc_agrees_with_sklearn_and_its_interval_with_a_bootstrap_by_hand() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    done = sampled(LABELS, params, n=50)
    result = estimates.reduce(params, done, 3)
    truths = np.array(done["clean"].column("truths").to_pylist())
    before, after = (
        np.array(done[stage].column(name).to_pylist())
        for stage, name in (("clean", "probabilities"), ("attack_visual", "probabilities[level=0.8]"))
    )
    assert value(result, "score[level=0]") == pytest.approx(roc_auc_score(truths, before))
    of = "[attacker=visual,level=0.8]"
    assert value(result, f"score{of}") == pytest.approx(roc_auc_score(truths, after))
    relative = roc_auc_score(truths, after) / roc_auc_score(truths, before)
    assert value(result, f"relative_score{of}") == pytest.approx(relative)
    drawn = []
    for weight in counts(np.random.default_rng(seed_of(3, "examples")), 80, 50):
        picked = np.repeat(np.arange(50), weight.astype(int))
        both = [number for number in range(4) if 0 < truths[picked, number].sum() < 50]
        drawn.append(
            roc_auc_score(truths[picked][:, both], after[picked][:, both])
            / roc_auc_score(truths[picked][:, both], before[picked][:, both])
        )
    estimate = result.estimates[f"relative_score{of}"]
    # With room for a text that was not seen of each label, the rarest of which five have.
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert low - 0.3 < estimate.low < low
    assert high < estimate.high < high + 0.3


def test_token_accuracy_is_over_tokens_and_its_interval_over_sentences() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    done = sampled(TAGS, params, n=40)
    result = estimates.reduce(params, done, 0)
    right, decided = (np.array(done["clean"].column(name).to_pylist()) for name in ("correct", "decisions"))
    assert value(result, "score[level=0]") == pytest.approx(right.sum() / decided.sum())
    after = np.array(done["attack_visual"].column("correct[level=0.8]").to_pylist())
    draws = np.random.default_rng(0).integers(0, 40, (4000, 40))
    shares = after[draws].sum(axis=1) / decided[draws].sum(axis=1)
    found = result.estimates["score[attacker=visual,level=0.8]"]
    low, high = np.quantile(shares, [0.025, 0.975])
    assert low - 0.05 < found.low < low + 0.005
    assert high - 0.005 < found.high < high + 0.05
    # What is not tagged without noise is no decision.
    assert result.counts["untagged"] == 4


def test_the_worst_is_told_by_decisions_first_and_by_loss_among_equals() -> None:
    params = parameters(attackers=["truncate", "visual"], levels=[0.5], draws=2)
    clean = torch.tensor([3.0, 0.0, 0.0, 0.0])
    # Right with a loss of 1.3, wrong with 0.7, wrong with 5.
    unsure, wrong, far = torch.tensor([[0.1, 0.0, 0.0, 0.0], [1.0, 1.1, -5.0, -5.0], [0.0, 5.0, 0.0, 0.0]])
    attacked = {
        "truncate": {0.5: [[unsure, wrong], [wrong, far]]},
        "visual": {0.5: [[unsure, unsure], [wrong, wrong]]},
    }
    texts = [LabelledText(at, f"text {at}", (0,)) for at in range(2)]
    done = audit(params, SINGLE, texts, [clean, clean], attacked)
    draws = {name: done[f"attack_{name}"].column("draw[level=0.5,draw=worst]").to_pylist() for name in params.names}
    assert draws == {"truncate": [1, 1], "visual": [0, 0]}
    found = {row["attacker"]: row["examples"] for row in estimates.reduce(params, done, 0).series["worst_attackers"]}
    assert found == {"truncate": 2, "visual": 0}


def test_a_drop_is_counted_on_the_examples_that_were_answered() -> None:
    params = parameters(attackers=["visual"], levels=[0.5])
    gone = UnansweredError("the budget is spent")
    noisy = [[one] for one in logits("-+++-+")]
    attacked = {"visual": {0.5: [[gone], *noisy[1:]]}}
    result = estimates.reduce(params, audit(params, SINGLE, singles("-+++++"), logits("-+++++"), attacked), 0)
    found = result.estimates["score_drop[attacker=visual,level=0.5]"]
    assert (found.value, found.n) == (pytest.approx(0.2), 5)
    assert (found.low, found.high) == score_interval(1, 0, 5)


def test_a_tag_that_only_noise_brings_is_no_decision() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    noisy = torch.tensor([[2.0, 0.0], [0.0, 2.0], [9.0, 0.0]])
    clean = noisy.clone()
    clean[2] = torch.nan
    sentences = [LabelledText(at, ("a", "b", "c"), (0, 1, 1)) for at in range(4)]
    done = audit(params, TAGS, sentences, [clean] * 4, {"visual": {0.8: [[noisy]] * 4}})
    result = estimates.reduce(params, done, 0)
    of = "[attacker=visual,level=0.8]"
    sure = float(torch.tensor([2.0, 0.0]).softmax(0)[0])
    assert [value(result, f"{name}{of}") for name in ("score", "flip_rate", "score_drop")] == [1.0, 0.0, 0.0]
    assert value(result, f"mean_confidence{of}") == pytest.approx(sure)
    assert value(result, f"ece{of}") == pytest.approx(1 - sure)
    assert result.series["chance"] == 0.5


def test_a_relative_score_rests_on_the_texts_that_are_right_without_noise() -> None:
    params = parameters(attackers=["visual"], levels=[0.5])
    result = estimates.reduce(params, marked(params, "+" * 10 + "-" * 10, visual=["+" * 10 + "-" * 10]), 0)
    found = result.estimates["relative_score[attacker=visual,level=0.5]"]
    # Ten are; of as many again a text that noise makes right may not have been seen.
    assert [found.low, found.high] == pytest.approx([clopper_pearson(10, 10)[0], 0.025 ** (-1 / 10)], rel=0.01)


def test_a_handful_of_texts_proves_no_mean_relative_score_of_1() -> None:
    params = parameters(**TWO)
    result = estimates.reduce(params, marked(params, "+" * 5, truncate=["+" * 5], visual=["+" * 5]), 0)
    mean, one = (
        result.estimates[name]
        for name in ("mean_relative_score[level=0.5]", "relative_score[attacker=visual,level=0.5]")
    )
    assert (mean.low, mean.high) == (one.low, one.high)
    assert (mean.low, mean.high) == pytest.approx((clopper_pearson(5, 5)[0], 0.025 ** (-1 / 5)), rel=0.015)


def test_a_handful_of_sentences_proves_no_share_of_1() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    right = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    sentences = [LabelledText(at, ("a", "b", "c"), (0, 1, 1)) for at in range(4)]
    done = audit(params, TAGS, sentences, [right] * 4, {"visual": {0.8: [[right * 0.5]] * 4}})
    result = estimates.reduce(params, done, 0)
    of = "[attacker=visual,level=0.8]"
    # Twelve tags, all right before and after, in four sentences: what four sentences prove.
    least = clopper_pearson(4, 4)[0]
    expected = {name: (least, 1.0) for name in ("score[level=0]", f"score{of}", "worst_case_score[level=0.8]")}
    expected |= {f"flip_rate{of}": (0.0, 1 - least), f"score_drop{of}": (least - 1, 1 - least)}
    expected[f"relative_score{of}"] = least, 0.025 ** (-1 / 4)
    for name, ends in expected.items():
        found = result.estimates[name]
        assert (found.low, found.high) == pytest.approx(ends, rel=0.02), name


def test_a_tag_that_noise_takes_away_is_wrong_and_changed_and_has_no_confidence() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    sentence = LabelledText(1, ("a", "b", "c"), (0, 1, 1))
    clean = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    noisy = clean.clone()
    noisy[2] = torch.nan
    done = audit(
        params,
        TAGS,
        [LabelledText(at, sentence.text, sentence.truths) for at in range(4)],
        [clean] * 4,
        {"visual": {0.8: [[noisy]] * 4}},
    )
    result = estimates.reduce(params, done, 0)
    of = "[attacker=visual,level=0.8]"
    assert value(result, f"score{of}") == pytest.approx(2 / 3)
    assert value(result, f"flip_rate{of}") == pytest.approx(1 / 3)
    assert value(result, f"mean_confidence{of}") == pytest.approx(value(result, "mean_confidence[level=0]"))
    assert result.counts[f"unanswered{of}"] == 4


def test_calibration_under_noise_agrees_with_torchmetrics() -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    done = sampled(SINGLE, params, n=80)
    found = Audit(params, done).noise("visual", 0.8).answers
    result = estimates.reduce(params, done, 0)
    scores = np.zeros((80, 4))
    scores[np.arange(80), found.predictions] = found.confidences
    truths = torch.tensor([truth for (truth,) in done["clean"].column("truths").to_pylist()])
    theirs = multiclass_calibration_error(torch.from_numpy(scores), truths, 4, n_bins=15, norm="l1")
    assert value(result, "ece[attacker=visual,level=0.8]") == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("task", [SINGLE, PAIRS, LABELS, TAGS])
@pytest.mark.parametrize(("n", "errored"), [(5, range(5)), (1, range(0))], ids=["all errored", "one example"])
def test_a_sample_of_which_nothing_or_one_example_is_left_passes_through(task, n, errored) -> None:
    params = parameters(**FEW)
    result = estimates.reduce(params, sampled(task, params, n=n, errored=frozenset(errored)), 0)
    assert (result.counts["n"], result.counts["errored"]) == (n, len(errored))
    for name, estimate in result.estimates.items():
        if errored:
            assert (estimate.value, estimate.n) == (None, 0), name
    if errored:
        assert result.series["examples"] == []
    result.model_dump_json()


def test_a_reduction_can_be_stopped_between_attackers() -> None:
    params = parameters(**FEW)
    ticks = []
    estimates.reduce(params, sampled(SINGLE, params, n=8), 0, check_cancelled=lambda: ticks.append(1))
    assert len(ticks) >= 2 * len(params.names)
