"""The block ``uncertainty``: what the same draws say of all classes."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.special import softmax

from seatrial.contracts.estimates import metric_name, split_name
from seatrial.families.certified_calibration import narrative
from seatrial.families.certified_calibration.class_narrative import class_findings
from seatrial.families.certified_calibration.uncertainty import METRICS, largest
from seatrial.statistics.estimating import mean
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.audits import DATA, IMAGES, LABELS, NETWORK, audit, measure, parameters
from tests.families.in_memory import Model
from workers.certification.class_scores import ALL, ClassScores, class_bounds, classes_kept, entropy_bounds
from workers.certification.confidence import LEVELS
from workers.certification.failures import failing, price
from workers.certification.smoothing import Smoother
from workers.certification.uncertainty import UNCERTAINTIES, uncertainty_of
from workers.families.certified_calibration import all_classes
from workers.families.certified_calibration.class_estimates import classwise_estimate, clean_quantiles, span_estimates
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import class_column, uncertainty_column, worst_column

SIGMA, RADII = 0.25, [0.0, 0.1, 0.25, 0.5]
DIRECTION = torch.randn(16, generator=torch.Generator().manual_seed(5))
DIRECTION /= DIRECTION.norm()
SLOPES, OFFSETS = torch.tensor([4.0, 0.0, -3.0]), torch.tensor([0.3, 0.0, 0.2])


def _line(images: torch.Tensor) -> torch.Tensor:
    return ((images.flatten(1) - 0.5) @ DIRECTION)[:, None] * SLOPES + OFFSETS


LINE = Model(_line, 3)
"""Three classes whose scores depend on one projection: the worst perturbations are along it, and known."""

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def scores_at(projection: np.ndarray) -> np.ndarray:
    """Return scores (..., 3) of images whose projection is given."""
    return softmax(projection[..., None] * SLOPES.numpy() + OFFSETS.numpy(), axis=-1)


def smoothed_at(projection: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smoothed scores (..., 3) and the smoothed entropy (...)."""
    drawn = scores_at(projection[..., None] + SIGMA * NODES)
    weights = WEIGHTS / WEIGHTS.sum()
    return np.einsum("...nk,n->...k", drawn, weights), uncertainty_of("entropy", drawn) @ weights


def many_classes(classes: int = ALL + 4) -> Model:
    rows = torch.randn(classes, 16, generator=torch.Generator().manual_seed(8)) * 3
    return Model(lambda x: (x.flatten(1) - 0.5) @ rows.T, classes)


@pytest.fixture(scope="module")
def line():
    params = parameters(n=2000, uncertainty={}, noise="independent")
    return params, audit(params, LINE, (IMAGES, LINE.logits(IMAGES).argmax(1)))


@pytest.fixture(scope="module")
def network():
    params = parameters(n=1000, uncertainty={})
    return params, *audit(params, NETWORK, DATA)


@pytest.mark.slow
def test_what_the_worst_perturbation_reaches_is_within_the_certificates(line) -> None:
    """All perturbations along the projection, on a grid: of every class, every uncertainty and every score."""
    params, (_, done) = line
    records = done["certify"]
    at = ((IMAGES.flatten(1) - 0.5) @ DIRECTION).double().numpy()
    labels = records["label"].to_numpy()
    for radius in params.radii:
        scores, entropy = smoothed_at(at[:, None] + np.linspace(-radius, radius, 41))
        lower, upper = (np.stack(records[class_column(side, radius)].to_pylist()) for side in ("lower", "upper"))
        assert (lower[:, None] <= scores).all()
        assert (scores <= upper[:, None]).all()
        reached = {one: uncertainty_of(one, scores) for one in UNCERTAINTIES} | {"smoothed_entropy": entropy}
        for name, values in reached.items():
            low, high = (records[uncertainty_column(side, name, radius)].to_numpy() for side in ("low", "high"))
            assert (low <= values.min(1)).all()
            assert (values.max(1) <= high).all()
        of_label = np.take_along_axis(scores, labels[:, None, None], axis=2)[:, :, 0]
        assert (-np.log(of_label).min(1) <= records[worst_column("log_loss", radius)].to_numpy()).all()
        briers = ((scores - np.eye(3)[labels][:, None]) ** 2).sum(2)
        assert (briers.max(1) <= records[worst_column("brier", radius)].to_numpy() + 1e-9).all()


@pytest.mark.slow
def test_a_class_that_only_grows_has_the_certificate_of_its_closed_form(line) -> None:
    """Its score is monotone in the projection, so the distribution's bound is attained: only the band is wide."""
    _, (_, done) = line
    at = ((IMAGES.flatten(1) - 0.5) @ DIRECTION).double().numpy()
    highest = smoothed_at(at + 0.25)[0][:, 0]
    certified = np.stack(done["certify"][class_column("upper", 0.25)].to_pylist())[:, 0]
    assert (certified >= highest).all()
    assert (certified - highest).max() < 0.1


@pytest.mark.slow
def test_nothing_else_changes_and_the_model_is_asked_no_more(network) -> None:
    asked = []

    def counted(images: torch.Tensor) -> torch.Tensor:
        asked.append(len(images))
        return NETWORK.logits(images)

    rows = []
    tables = []
    for block in (None, {}):
        asked.clear()
        result, done = audit(parameters(n=300, radii=[0.1], uncertainty=block), Model(counted, 4), DATA)
        rows.append(sum(asked))
        tables.append((result, done["certify"]))
    assert rows[0] == rows[1]
    (before, without), (after, with_block) = tables
    assert with_block.select(without.column_names).equals(without)
    assert {name: after.estimates[name] for name in before.estimates} == before.estimates


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["fixed", "adaptive"])
def test_records_do_not_depend_on_shards_or_on_what_is_held(sampling, monkeypatch) -> None:
    params, data = parameters(n=300, radii=[0.1], uncertainty={}, sampling=sampling), (IMAGES[:9], LABELS[:9])
    whole = measure(params, NETWORK, data)
    cut = measure(params, NETWORK, data, shards=3, batch_size=2)
    assert cut["certify"].equals(whole["certify"])
    monkeypatch.setattr(all_classes, "HELD", 3 * 5 * 2**16)
    assert all_classes.together(4, 10) == 3
    parts = measure(params, NETWORK, data)
    assert parts["certify"].equals(whole["certify"])


@pytest.mark.parametrize(("classes", "kept", "parts"), [(10, 10, 0), (10, 10, 2), (1000, 10, 0), (1000, 1, 0)])
def test_64_kib_a_class_and_a_mean_are_held_of_an_example(classes, kept, parts) -> None:
    """The candidate's histogram is one of them; its class has one also where it is not the label."""
    votes, labels = torch.zeros(3, classes, dtype=torch.int64), torch.tensor([1, 2, 3])
    votes[:, 7] = 5
    counted = ClassScores(3, classes, torch.device("cpu"), classes_kept(votes, labels, kept), [1.0] * parts)
    smoother = Smoother(lambda images: images.flatten(1)[:, :1].expand(-1, classes), classes=classes)
    statistics = smoother.start(torch.zeros(3, 1, 40, 40), counted)
    held = [counted.histogram, counted.entropies, statistics.histogram]
    columns = classes if classes <= ALL else max(kept, 2) + 1
    assert sum(one.numel() * one.element_size() for one in held) == 3 * (columns + 1 + parts) * 2**16
    assert counted.bytes_per_example == (columns + 1 + parts) * 2**16
    assert all_classes.together(classes, kept, parts) * counted.bytes_per_example <= all_classes.HELD
    counted.add(torch.tensor([1]), torch.eye(classes)[None, :1] + 3 * torch.eye(classes)[7], torch.zeros(1, 1, parts))
    assert counted.of(torch.tensor([7, 7, 7])).argmax(1)[1] / LEVELS > 2 / classes
    # All that is held beside histograms is a few numbers a class.
    others = [one for one in (*vars(counted).values(), *vars(statistics).values()) if isinstance(one, torch.Tensor)]
    assert sum(one.numel() for one in others) - sum(one.numel() for one in held) <= 3 * (3 * classes + 20)


@pytest.mark.slow
def test_of_many_classes_the_label_and_the_most_frequent_are_kept() -> None:
    model = many_classes()
    labels = (model.logits(IMAGES).argmax(1) + 7) % model.classes
    params = parameters(n=300, uncertainty={"classes": 5})
    result, done = audit(params, model, (IMAGES, labels))
    records = done["certify"]
    ids, means = np.stack(records["class_ids"].to_pylist()), np.stack(records["class_mean"].to_pylist())
    assert ids.shape == (24, 5)
    assert means.shape == (24, 6)
    assert (ids == labels.numpy()[:, None]).any(1).all()
    assert (ids == records["candidate"].to_numpy()[:, None]).any(1).all()
    np.testing.assert_allclose(means.sum(1), 1, atol=1e-5)
    clean = records["uncertainty[uncertainty=entropy]"].to_numpy()
    for radius in params.radii:
        low, high = (records[uncertainty_column(side, "entropy", radius)].to_numpy() for side in ("low", "high"))
        assert (low <= clean).all()
        assert (clean <= high).all()
        assert (high <= np.log(model.classes) + 1e-9).all()
        assert metric_name("cce_classwise", radius=radius) not in result.estimates
    assert {flag.code for flag in result.flags} >= {"classes_summed"}


def test_scores_are_counted_where_they_are() -> None:
    scores = ClassScores(2, 3, torch.device("cpu"))
    logits = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(1)) * 3
    scores.add(torch.tensor([0, 1]), logits)
    expected = logits.double().softmax(2).numpy()
    np.testing.assert_allclose(scores.total.numpy(), expected.sum(1), atol=1e-4)
    np.testing.assert_allclose(
        scores.entropy[:, 0].numpy() * np.log(3), uncertainty_of("entropy", expected).sum(1), atol=1e-4
    )
    cells = scores.histogram.numpy()
    assert cells.sum() == 2 * 50 * 3
    middle = (np.arange(LEVELS) + 0.5) / LEVELS
    np.testing.assert_allclose(cells @ middle / 50, expected.mean(1), atol=1 / LEVELS)


def test_what_is_not_finite_is_counted_without_a_warning() -> None:
    scores = ClassScores(1, 3, torch.device("cpu"))
    scores.add(torch.tensor([0]), torch.tensor([[[torch.inf, 0.0, 1.0], [0.0, -torch.inf, 0.0]]]))
    assert scores.histogram.sum() == 6
    assert torch.isfinite(scores.total).all()
    assert torch.isfinite(scores.entropy).all()


@pytest.mark.slow
def test_certificates_miss_no_more_often_than_said() -> None:
    """Scores of one projection at alpha 0.1, against every perturbation on a grid; a miss of any class is a miss."""
    rng = np.random.default_rng(3)
    alpha, draws, repeats = 0.1, 200, 400
    at = rng.normal(0, 0.3, repeats)
    noisy = torch.from_numpy(at[:, None] + SIGMA * rng.normal(size=(repeats, draws))).float()
    counted = ClassScores(repeats, 3, torch.device("cpu"))
    counted.add(torch.arange(repeats), noisy[..., None] * SLOPES + OFFSETS)
    shifts = np.array([0.0, 0.5])
    low, high = entropy_bounds(counted, np.full(repeats, alpha), shifts, 0.0)
    box_missed, entropy_missed, halved = (np.zeros(repeats, dtype=bool) for _ in range(3))
    for row in range(repeats):
        lower, upper = class_bounds(counted, row, alpha, shifts, 0.0)
        for number, shift in enumerate(shifts):
            scores, entropy = smoothed_at(at[row] + np.linspace(-1, 1, 9) * shift * SIGMA)
            box_missed[row] |= bool(((scores < lower[:, number]) | (scores > upper[:, number])).any())
            quarter = (upper[:, number] - lower[:, number]) / 4
            halved[row] |= bool(((scores < lower[:, number] + quarter) | (scores > upper[:, number] - quarter)).any())
            entropy_missed[row] |= bool((entropy < low[row, number]).any() or (entropy > high[row, number]).any())
    # Three standard errors above what is allowed.
    allowed = alpha + 3 * np.sqrt(alpha * (1 - alpha) / repeats)
    assert box_missed.mean() <= allowed
    assert entropy_missed.mean() <= allowed
    # Half as wide, they would.
    assert halved.mean() > allowed


@pytest.mark.slow
def test_every_number_is_there_with_its_interval(network) -> None:
    params, result, _ = network
    published = {(base, frozenset(inside)) for base, inside in map(split_name, result.estimates)}
    known = {one.name for one in METRICS} - {"attacked_span"}
    assert {(one.name, frozenset(one.qualifiers)) for one in METRICS if one.name in known} <= published
    assert ("attacked_span", frozenset({"uncertainty", "radius"})) not in published
    for name, value in result.estimates.items():
        if name.partition("[")[0] in known and value.low is not None and value.value is not None:
            assert value.low <= value.value <= value.high, name
    for radius in params.radii:
        certified, any_bins, fixed, ks, kuiper = (
            result.estimates[metric_name(name, radius=radius)].value
            for name in ("cce", "cce_any_bins", "cce_quantiles", "certified_ks", "certified_kuiper")
        )
        if certified is not None:
            assert any_bins >= max(certified, fixed) - 1e-9
            assert ks <= kuiper + 1e-9 <= certified + 2e-9 or kuiper <= any_bins + 1e-9
    assert result.counts["classes"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("uncertainty", ["entropy", "gini", "smoothed_entropy"])
def test_intervals_of_spans_allow_for_certificates_that_fail(network, uncertainty) -> None:
    """Each is wrong with probability alpha at most, and then by no more than the largest uncertainty."""
    params, result, done = network
    certify, most = Sample(done["certify"]), largest(uncertainty, 4)
    low, high = (certify.floats(uncertainty_column(side, uncertainty, 0.25)) for side in ("low", "high"))
    span, least = (
        result.estimates[metric_name(name, uncertainty=uncertainty, radius=0.25)]
        for name in ("certified_span", "uncertainty_low")
    )
    assert span.value == pytest.approx((high - low).mean())
    plain = mean(high - low, (0.0, most)), mean(low, (0.0, most))
    assert span.high == pytest.approx(min(most, plain[0].high + params.alpha * most))
    assert span.low == plain[0].low
    assert least.low == pytest.approx(max(0.0, plain[1].low - params.alpha * most))
    joint = params.model_copy(update={"joint": True})
    told = span_estimates(joint, certify, uncertainty, 0.25)[
        metric_name("certified_span", uncertainty=uncertainty, radius=0.25)
    ]
    assert told.high == pytest.approx(min(most, plain[0].high + params.alpha / 48 * most))


@pytest.mark.slow
def test_failures_that_are_paid_for_raise_calibration_errors_by_their_price() -> None:
    plain, priced = (
        audit(
            parameters(n=600, radii=[0.1], noise="independent", alpha=0.01, uncertainty={"price_failures": paid}),
            NETWORK,
            DATA,
        )[0].estimates
        for paid in (False, True)
    )
    n = plain["certified_ks[radius=0.1]"].n
    paid = price(failing(24, 0.02), n)
    assert paid > 0
    ks = [one["certified_ks[radius=0.1]"].value for one in (plain, priced)]
    assert ks[1] == pytest.approx(min(1.0, ks[0] + paid))
    whole = price(failing(24, 0.01), 24)
    for name in ("cce_classwise[radius=0.1]", "certified_brier[radius=0.1]"):
        assert priced[name].value == pytest.approx(plain[name].value + whole)
    assert priced["cce[radius=0.1]"] == plain["cce[radius=0.1]"]


@pytest.mark.parametrize(
    ("changes", "told"), [({"joint": True, "noise": "independent"}, "joint"), ({"noise": "shared"}, "independent")]
)
def test_failures_are_paid_for_once_and_where_they_are_independent(changes, told) -> None:
    with pytest.raises(ValidationError, match=told):
        parameters(uncertainty={"price_failures": True}, **changes)


def test_a_model_that_looks_at_its_batch_is_certified_nothing() -> None:
    """Averages the noise of a batch away: every class's interval is [0, 1], and every uncertainty possible."""
    averaging = Model(lambda x: NETWORK.logits(x.mean(0, keepdim=True)).expand(len(x), -1) * 50, 4)
    done = measure(parameters(n=300, uncertainty={}), averaging, (IMAGES[:4], LABELS[:4]))
    records = done["certify"]
    caught = records["batch_dependent"].to_numpy(zero_copy_only=False)
    assert caught.any()
    for name, greatest in (("entropy", np.log(4)), ("smoothed_entropy", np.log(4)), ("gini", 0.75)):
        assert (records[uncertainty_column("low", name, 0.0)].to_numpy()[caught] == 0).all()
        np.testing.assert_allclose(records[uncertainty_column("high", name, 0.0)].to_numpy()[caught], greatest)


def test_quantiles_are_edges_from_0_to_1() -> None:
    edges = clean_quantiles(np.array([0.2, 0.4, 0.4, 0.9]), 2)
    assert edges.tolist() == [0.0, 0.4, 1.0]


def test_one_example_has_no_classwise_interval() -> None:
    ends = np.array([[0.2, 0.4]]), np.array([[0.6, 0.8]])
    found = classwise_estimate(*ends, np.array([[0.4, 0.6]]), np.array([1]), 5, 0)
    assert found.value is not None
    assert found.low is None


def spans_of(estimates):
    return [
        estimates[metric_name("certified_span", uncertainty=one, radius=0.1)].value
        for one in ("entropy", "smoothed_entropy")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "code"), [(1e-3, "uniform"), (1e4, "one-hot"), (1.0, None)])
def test_a_small_span_by_the_scale_of_logits_alone_is_told(scale, code) -> None:
    """What a cheat would try: no prediction changes, and the span of one of the uncertainties is nearly 0."""
    params = parameters(n=300, radii=[0.1], uncertainty={})
    data = IMAGES[:8], LABELS[:8]
    result, _ = audit(params, Model(lambda x: NETWORK.logits(x) * scale, 4), data)
    told = [flag.message for flag in result.flags if flag.code == "span_says_little"]
    assert len(told) == (code is not None)
    if code is None:
        return
    assert code in told[0]
    spans = spans_of(result.estimates)
    honest = audit(params, NETWORK, data)[0].estimates
    plain = spans_of(honest)
    assert min(spans) < plain[spans.index(min(spans))] / 2
    # The scores of all classes are not flattered.
    for name in ("certified_log_loss[radius=0.1]", "certified_brier[radius=0.1]"):
        if scale > 1:
            assert result.estimates[name].value > honest[name].value


@pytest.mark.slow
def test_what_is_certified_of_all_classes_is_said_in_words(network) -> None:
    params, result, _ = network
    stored = params.model_dump(mode="json")
    findings = " ".join(narrative.answer(result, stored, 4).findings)
    for said in ("certified spans, over all 24 examples", "classwise calibration error", "Conformal prediction sets"):
        assert said in findings
    assert list(class_findings(result.model_copy(update={"estimates": {}}), 0.25)) == []
    for name in FAMILY.figures(params, result):
        assert len(narrative.describe_figure(name)) > 60
