import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom
from sklearn import metrics

from seatrial.statistics.ranking import METRICS, aupr_in, aupr_out, auroc, fpr95, fpr95_interval, rank

# Few distinct values: ties are the hard part.
scores = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 2.3]), min_size=1, max_size=30)


def by_sklearn(inliers, outliers) -> list[float]:
    """OpenOOD's evaluation, on sklearn's curves: conf = -score, outliers positive but for AUPR-in."""
    confidence = -np.concatenate([inliers, outliers])
    is_outlier = np.concatenate([np.zeros(len(inliers)), np.ones(len(outliers))])
    # drop_intermediate would lose thresholds, and with them the first one that reaches 95 %.
    fpr, tpr, _ = metrics.roc_curve(is_outlier, -confidence, drop_intermediate=False)
    precision_in, recall_in, _ = metrics.precision_recall_curve(1 - is_outlier, confidence)
    precision_out, recall_out, _ = metrics.precision_recall_curve(is_outlier, -confidence)
    return [
        metrics.auc(fpr, tpr),
        metrics.auc(recall_in, precision_in),
        metrics.auc(recall_out, precision_out),
        fpr[np.argmax(tpr >= 0.95)],
    ]


@pytest.mark.slow
@given(scores, scores)
def test_agrees_with_sklearn(inliers, outliers) -> None:
    found = [metric(inliers, outliers) for metric in (auroc, aupr_in, aupr_out, fpr95)]
    assert found == pytest.approx(by_sklearn(inliers, outliers), abs=1e-12)


@given(scores, scores)
def test_auroc_is_the_probability_of_the_right_order(inliers, outliers) -> None:
    wins = sum((o > i) + (o == i) / 2 for o in outliers for i in inliers)
    assert auroc(inliers, outliers) == pytest.approx(wins / len(inliers) / len(outliers))


def test_chance_level_of_the_papers_group_sizes() -> None:
    assert aupr_in([1.0] * 8000, [1.0] * 800) == pytest.approx((1 + 8000 / 8800) / 2)
    assert fpr95([1.0] * 8000, [1.0] * 800) == 1.0
    assert auroc([1.0] * 8000, [1.0] * 800) == 0.5


def test_perfect_and_reversed_orders() -> None:
    low, high = [0.1, 0.2], [0.8, 0.9]
    assert [auroc(low, high), aupr_in(low, high), aupr_out(low, high), fpr95(low, high)] == [1.0, 1.0, 1.0, 0.0]
    assert auroc(high, low) == 0.0
    assert fpr95(high, low) == 1.0


@pytest.mark.parametrize(("inliers", "outliers"), [([], [1.0]), ([1.0], []), ([], [])])
def test_one_group_alone_is_undefined(inliers, outliers) -> None:
    assert auroc(inliers, outliers) is None
    assert set(rank(inliers, outliers, seed=0).values.values()) == {None}


def test_nan_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        auroc([float("nan")], [1.0])


def test_intervals_are_seeded_and_hold_the_values() -> None:
    rng = np.random.default_rng(0)
    inliers, outliers = rng.normal(0, 1, 300), rng.normal(1, 1, 60)
    found = rank(inliers, outliers, seed=1)
    assert found == rank(inliers, outliers, seed=1)
    assert list(found.values.values()) == pytest.approx(by_sklearn(inliers, outliers))
    for name in METRICS:
        low, high = found.intervals[name]
        assert low < found.values[name] < high
    # Hanley and McNeil's standard error at an AUROC of 0.76 with 60 and 300 examples is about 0.035.
    low, high = found.intervals["auroc"]
    assert 0.09 < high - low < 0.18


@pytest.mark.parametrize("name", METRICS)
def test_intervals_of_rankings_stay_in_the_range_and_grow_with_the_level(name) -> None:
    rng = np.random.default_rng(4)
    inliers, outliers = rng.beta(2, 6, 80), rng.beta(5, 3, 40)
    found, surer = (
        rank(inliers, outliers, seed=1, lowest=0, highest=1, alpha=alpha).intervals[name] for alpha in (0.05, 0.01)
    )
    assert 0 <= surer[0] <= found[0] < found[1] <= surer[1] <= 1


def test_what_is_ranked_without_a_fault_may_still_have_one() -> None:
    found = rank(np.zeros(60), np.ones(60), seed=0, lowest=0, highest=1)
    # Of sixty outliers that all score above, one in sixteen may lie among the inliers: 1 - 0.025^(1/60).
    assert found.values["auroc"] == 1
    assert found.intervals["auroc"][0] < 1 - 0.5 * (1 - 0.025 ** (1 / 60))
    assert found.intervals["auroc"][1] == 1
    # Sixty are too few to say above which score 95 % of all lie.
    assert (found.values["fpr95"], found.intervals["fpr95"]) == (0, (0, 1))
    many = rank(np.zeros(60), np.ones(500), seed=0, lowest=0, highest=1)
    assert many.intervals["fpr95"][1] < 0.1


def test_a_score_that_ends_somewhere_has_nothing_beyond() -> None:
    """An outlier not seen that is as sure as four in five inliers are ties with them, and scores below none."""
    rng = np.random.default_rng(5)
    inliers, outliers = np.where(rng.random(200) < 0.8, 0, rng.random(200)), rng.random(200)
    known, open_ended = rank(inliers, outliers, seed=0, lowest=0), rank(inliers, outliers, seed=0)
    assert known.intervals["aupr_in"][0] > open_ended.intervals["aupr_in"][0] + 0.1


def test_a_resample_is_ranked_as_if_its_examples_were_repeated() -> None:
    from seatrial.statistics.ranking import _Pooled

    rng = np.random.default_rng(3)
    inliers, outliers = rng.integers(0, 9, 40).astype(float), rng.integers(3, 12, 15).astype(float)
    some_in, some_out = rng.integers(0, 40, 40), rng.integers(0, 15, 15)
    weights = [
        np.bincount(some_in, minlength=40)[None].astype(float),
        np.bincount(some_out, minlength=15)[None].astype(float),
    ]
    found = _Pooled(inliers, outliers).metrics(*weights)[0]
    assert found.tolist() == pytest.approx(by_sklearn(inliers[some_in], outliers[some_out]), abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]), min_size=1, max_size=12), st.integers(1, 400))
def test_ends_of_fpr95_are_those_of_the_binomial_distribution(inliers: list[float], m: int) -> None:
    outliers = np.linspace(0, 1, m)
    falling, n = outliers[::-1], len(inliers)
    # P(fewer than k of m at the threshold or above) and P(k or more above it), both by SciPy.
    surely = [k for k in range(1, m + 1) if binom.cdf(k - 1, m, 0.95) <= 0.0125]
    never = [k for k in range(1, m + 1) if binom.sf(k - 1, m, 0.95) <= 0.0125]
    at = [np.sum(np.array(inliers) >= falling[k[pick] - 1]) if k else None for k, pick in ((surely, -1), (never, 0))]
    low = 0.0 if not at[0] else beta.ppf(0.0125, at[0], n - at[0] + 1)
    high = 1.0 if at[1] is None or at[1] == n else beta.ppf(0.9875, at[1] + 1, n - at[1])
    assert fpr95_interval(inliers, outliers) == pytest.approx((low, high), abs=1e-9)


def test_the_interval_of_fpr95_holds_where_the_share_jumps_at_the_threshold() -> None:
    """Five in a hundred outliers look like inliers: a sample tells by luck on which side of the jump it stands."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        inliers = np.where(rng.random(400) < 0.05, rng.random(400), 0.001 * rng.random(400))
        outliers = np.where(rng.random(400) < 0.05, 0.001 * rng.random(400), rng.uniform(0.5, 1, 400))
        # 95 % of the outliers score 0.5 or more, and 2.5 % of the inliers do.
        low, high = fpr95_interval(inliers, outliers)
        wrong += not low <= 0.025 <= high
    assert wrong <= 16
