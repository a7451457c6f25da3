import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import expit, ndtr, ndtri
from torch import Tensor, nn

from seatrial.families.shared.smoothing import NOISY_COPIES
from tests.certification.test_noise import CPU, seed_of
from workers.certification.confidence import LEVELS
from workers.certification.grid import to_grid, to_pixels
from workers.certification.noise import Noise
from workers.certification.smoothing import UNITS, DrawStatistics, Smoother

SHAPE = (3, 6, 6)
PIXELS = math.prod(SHAPE)
IMAGES = torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(3))
IDS = [10, 11, 12, 13, 14, 15]
CANDIDATES = torch.tensor([0, 1, 2, 0, 1, 2])
EVERYONE = range(6)
STEPS = NOISY_COPIES["cpu"] * np.array([0, 3, 10])

torch.manual_seed(0)
NET = nn.Sequential(
    *[nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()],
    *[nn.Flatten(), nn.Linear(72, 3)],
)
NET.eval().requires_grad_(False)
NET[6].weight.mul_(8)
PLANES = torch.linalg.qr(torch.randn(PIXELS, 5, generator=torch.Generator().manual_seed(4)))[0].T.contiguous()
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(100)


def noise(sigma: float = 0.25, *, shared: bool = True, shape: tuple[int, int, int] = SHAPE) -> Noise:
    return Noise(sigma, shape, CPU, seed_of, shared=shared)


def linear(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda images: images.flatten(1) @ weight.T + bias


def tallied(
    model: Callable[[Tensor], Tensor], drawn: Noise, draws: int, *, classes: int = 3, **options
) -> DrawStatistics:
    smoother = Smoother(model, classes=classes, **options)
    statistics = smoother.start(IMAGES)
    smoother.extend(statistics, IMAGES, CANDIDATES, EVERYONE, drawn, 0, draws, IDS)
    return statistics


def assert_same(
    statistics: DrawStatistics, other: DrawStatistics, rows: Tensor | list[int] | slice = slice(None)
) -> None:
    for name, values in vars(other).items():
        assert torch.equal(getattr(statistics, name)[rows], values[rows]), name


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "independent"])
def test_classes_of_a_linear_model_come_as_often_as_the_closed_form_says(shared: bool) -> None:
    """With orthonormal weights the logits are independent normal: P(argmax = k) is a one-dimensional integral."""
    sigma, draws, bias = 0.5, 4000, torch.tensor([0.1, 0.0, -0.1, 0.2, 0.0])
    statistics = tallied(linear(PLANES, bias), noise(sigma, shared=shared), draws, classes=5)
    means = (IMAGES.flatten(1) @ PLANES.T + bias).double().numpy()
    for mean, counts in zip(means, statistics.counts.numpy(), strict=True):
        below = ndtr((mean[:, None, None] + sigma * NODES - mean[:, None]) / sigma)
        expected = [np.prod(np.delete(below[k], k, 0), 0) @ WEIGHTS / math.sqrt(2 * math.pi) for k in range(5)]
        assert sum(expected) == pytest.approx(1, abs=1e-9)
        for share, probability in zip(counts / draws, expected, strict=True):
            assert abs(share - probability) < 4.5 * math.sqrt(probability * (1 - probability) / draws) + 1e-3
    assert statistics.counts.sum(1).tolist() == [draws] * 6


def test_radius_and_confidence_of_a_two_class_model_are_those_of_its_margin() -> None:
    """P(candidate) = Phi(margin / (sigma ||w||)), the radius is margin / ||w||, and E sigmoid is an integral."""
    sigma, draws, weight = 0.3, 6000, 3 * PLANES[:2]
    centre = (IMAGES.flatten(1) @ weight.T).mean(0)
    smoother = Smoother(linear(weight, -centre), classes=2)
    statistics = smoother.start(IMAGES)
    margins = (IMAGES.flatten(1) @ weight.T - centre).double()
    candidates = margins.argmax(1)
    smoother.extend(statistics, IMAGES, candidates, EVERYONE, noise(sigma), 0, draws, IDS)
    norm = (weight[0] - weight[1]).double().norm().item()
    for row, candidate in enumerate(candidates.tolist()):
        margin = (margins[row, candidate] - margins[row, 1 - candidate]).item()
        share, probability = statistics.counts[row, candidate].item() / draws, ndtr(margin / (sigma * norm))
        error = math.sqrt(probability * (1 - probability) / draws)
        assert abs(share - probability) < 4.5 * error
        slope = sigma / math.exp(-(ndtri(probability) ** 2) / 2) * math.sqrt(2 * math.pi)
        assert sigma * ndtri(share) == pytest.approx(margin / norm, abs=6 * error * slope)
        scores = expit(margin + sigma * norm * NODES)
        confidence = scores @ WEIGHTS / math.sqrt(2 * math.pi)
        spread = math.sqrt(scores**2 @ WEIGHTS / math.sqrt(2 * math.pi) - confidence**2)
        assert abs(statistics.total[row].item() / draws - confidence) < 4.5 * spread / math.sqrt(draws)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "independent"])
def test_agrees_with_a_loop_that_keeps_every_output(shared: bool) -> None:
    drawn = noise(shared=shared)
    statistics = tallied(NET, drawn, 1250)
    for row, image in enumerate(IMAGES):
        logits = NET(to_pixels(to_grid(image) + drawn.draws(0, 1250, IDS[row])))
        scores = logits.double().softmax(1)[:, CANDIDATES[row]]
        # A logit two classes share may fall either way, a score at a cell's edge on either side.
        assert (logits.argmax(1).bincount(minlength=3) - statistics.counts[row]).abs().sum() <= 2
        assert statistics.total[row].item() == pytest.approx(scores.sum().item(), abs=1e-3)
        cells = (scores * LEVELS).long().clamp(max=LEVELS - 1).bincount(minlength=LEVELS)
        assert (cells.cumsum(0) - statistics.histogram[row].cumsum(0)).abs().max() <= 3


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "independent"])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["float32", "bfloat16"])
def test_an_example_is_the_same_alone_with_others_stopped_and_in_steps(shared: bool, autocast) -> None:
    start, middle, stop = STEPS.tolist()
    together = tallied(NET, noise(shared=shared), stop, autocast=autocast)
    smoother = Smoother(NET, classes=3, autocast=autocast)
    alone = smoother.start(IMAGES[2:3])
    smoother.extend(alone, IMAGES[2:3], CANDIDATES[2:3], [0], noise(shared=shared), start, stop, IDS[2:3])
    for name, values in vars(together).items():
        assert torch.equal(getattr(alone, name)[0], values[2]), name
    stepwise, drawn = smoother.start(IMAGES), noise(shared=shared)
    smoother.extend(stepwise, IMAGES, CANDIDATES, EVERYONE, drawn, start, middle, IDS)
    smoother.extend(stepwise, IMAGES, CANDIDATES, np.array([4, 2]), drawn, middle, stop, IDS)
    assert_same(stepwise, together, [2, 4])
    assert stepwise.draws.tolist() == [middle, middle, stop, middle, stop, middle]
    assert stepwise.counts.sum(1).tolist() == stepwise.draws.tolist()


def test_steps_that_cut_passes_change_no_more_than_last_bits() -> None:
    smoother, drawn = Smoother(NET, classes=3), noise()
    statistics = smoother.start(IMAGES)
    for start, stop in ((0, 37), (37, 250), (250, 1130)):
        smoother.extend(statistics, IMAGES, CANDIDATES, EVERYONE, drawn, start, stop, IDS)
    whole = tallied(NET, noise(), 1130)
    torch.testing.assert_close(statistics.total, whole.total, rtol=1e-6, atol=0)
    assert (statistics.counts - whole.counts).abs().sum() <= 2


def test_histogram_holds_every_draw_and_brackets_the_total() -> None:
    statistics = tallied(NET, noise(), 700)
    assert statistics.histogram.sum(1).tolist() == [700] * 6
    lower = (statistics.histogram.double() * torch.arange(LEVELS) / LEVELS).sum(1)
    assert (lower <= statistics.total).all()
    assert (statistics.total <= lower + 700 / LEVELS).all()
    assert len(statistics.histogram[0].nonzero()) > 100


def test_the_total_is_a_sum_without_rounding() -> None:
    total = tallied(NET, noise(), 1000).total * UNITS
    assert torch.equal(total, total.round())
    assert (total > 0).all()


def test_scores_of_exactly_one_and_zero_are_in_the_outer_cells() -> None:
    statistics = tallied(lambda images: torch.tensor([300.0, 0, 0]).expand(len(images), 3), noise(), 150)
    sure, sure_not = CANDIDATES == 0, CANDIDATES != 0
    assert statistics.histogram[sure, LEVELS - 1].tolist() == [150, 150]
    assert statistics.histogram[sure_not, 0].tolist() == [150] * 4
    assert statistics.total.tolist() == [150.0, 0, 0, 150, 0, 0]
    assert not statistics.non_finite.any()


def test_ties_go_to_the_first_class() -> None:
    statistics = tallied(lambda images: torch.tensor([1.0, 2.0, 2.0]).expand(len(images), 3), noise(), 150)
    assert statistics.counts.tolist() == [[0, 150, 0]] * 6


def test_a_class_is_told_by_logits_that_softmax_cannot_tell_apart() -> None:
    near = torch.tensor([-1e-9, 0.0, -1.0])
    assert near.softmax(0)[0] == near.softmax(0)[1]
    assert tallied(lambda images: near.expand(len(images), 3), noise(), 20).counts.tolist() == [[0, 20, 0]] * 6


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_one_output_that_is_not_finite_makes_its_example_unsound(poison: float) -> None:
    calls = iter(range(1000))

    def model(images: Tensor) -> Tensor:
        logits = images.flatten(1)[:, :3].clone()
        if next(calls) == 5:
            logits[7, 1] = poison
        return logits

    drawn, shape = Noise(0.25, (1, 2, 2), CPU, seed_of, shared=True), (3, 1, 2, 2)
    smoother, images = Smoother(model, classes=3), torch.rand(shape)
    statistics = smoother.start(images)
    smoother.extend(statistics, images, CANDIDATES[:3], range(3), drawn, 0, 300, IDS[:3])
    assert statistics.non_finite.tolist() == [False, True, False]
    assert statistics.histogram.sum(1).tolist() == [300] * 3
    assert statistics.total.isfinite().all()


def test_large_finite_logits_are_sound() -> None:
    largest = torch.finfo(torch.float32).max
    statistics = tallied(lambda images: torch.tensor([largest, largest, -largest]).expand(len(images), 3), noise(), 150)
    assert not statistics.non_finite.any()
    assert statistics.total[0].item() == 75


@pytest.mark.parametrize("most", [1, 7, 60])
def test_passes_that_do_not_fit_are_halved_and_stay_so(most: int) -> None:
    failures = []

    def limited(images: Tensor) -> Tensor:
        if len(images) > most:
            failures.append(len(images))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return linear(PLANES[:3] * 4, torch.zeros(3))(images)

    halved, whole = tallied(limited, noise(), 300), tallied(linear(PLANES[:3] * 4, torch.zeros(3)), noise(), 300)
    assert torch.equal(halved.counts, whole.counts)
    assert halved.histogram.sum(1).tolist() == [300] * 6
    torch.testing.assert_close(halved.total, whole.total, rtol=1e-6, atol=0)
    # Only the first pass is tried at sizes that do not fit.
    assert len(failures) < 2 * NOISY_COPIES["cpu"]
    assert failures.count(NOISY_COPIES["cpu"]) == 1


def test_a_copy_that_does_not_fit_alone_is_an_error() -> None:
    def never(_: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        tallied(never, noise(), 10)


def test_selection_counts_what_an_extension_counts() -> None:
    for shared in (True, False):
        counts = Smoother(NET, classes=3).select(IMAGES, noise(shared=shared), 170, IDS).counts
        assert torch.equal(counts, tallied(NET, noise(shared=shared), 170).counts)
        assert (counts.amax(1) < 170).any()


def test_bfloat16_is_asked_for_and_gives_close_numbers() -> None:
    dtypes = []

    def seen(images: Tensor) -> Tensor:
        logits = NET(images)
        dtypes.append(logits.dtype)
        return logits

    fast, exact = tallied(seen, noise(), 500, autocast=torch.bfloat16), tallied(NET, noise(), 500)
    assert set(dtypes) == {torch.bfloat16}
    assert not torch.equal(fast.total, exact.total)
    torch.testing.assert_close(fast.total / 500, exact.total / 500, rtol=0, atol=0.01)
    assert (fast.counts - exact.counts).abs().max() <= 10


def test_nothing_grows_with_the_number_of_draws() -> None:
    sizes = [{name: values.shape for name, values in vars(tallied(NET, noise(), n)).items()} for n in (10, 2000)]
    assert sizes[0] == sizes[1]
    assert sizes[0] == {"draws": (6,), "counts": (6, 3), "total": (6,), "histogram": (6, LEVELS), "non_finite": (6,)}


def test_shared_noise_is_made_once_for_all_examples() -> None:
    blocks = []

    def counting(block: int, example_id: int | None) -> int:
        blocks.append(block)
        return seed_of(block, example_id)

    tallied(NET, Noise(0.25, SHAPE, CPU, counting, shared=True), 2500)
    assert blocks == [0, 1, 2]


def test_large_images_pass_in_blocks_that_fit() -> None:
    rows = []

    def model(images: Tensor) -> Tensor:
        rows.append(len(images))
        return images[:, :2, 0, 0]

    shape = (3, 400, 400)
    drawn = noise(shape=shape)
    assert drawn.block == 25
    Smoother(model, classes=2).select(torch.zeros(1, *shape), drawn, 60, [0])
    assert rows[1:] == [25, 25, 10]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_model_that_takes_one_layout_only_is_given_it(channels: int) -> None:
    images = torch.rand(2, channels, 4, 4)
    drawn = noise(shape=(channels, 4, 4))
    found = Smoother(lambda x: x.view(len(x), -1)[:, :5], classes=5).select(images, drawn, 150, [0, 1])
    expected = Smoother(lambda x: x.flatten(1)[:, :5], classes=5).select(images, drawn, 150, [0, 1])
    assert torch.equal(found.counts, expected.counts)


def test_colours_are_laid_out_last_where_the_model_takes_them() -> None:
    seen = []

    def model(images: Tensor) -> Tensor:
        seen.append((len(images), images.is_contiguous(memory_format=torch.channels_last)))
        return images.flatten(1)[:, :5]

    Smoother(model, classes=5).select(torch.rand(2, 3, 4, 4), noise(shape=(3, 4, 4)), 150, [0, 1])
    (tried, _), *passes = seen
    assert tried == 1
    assert [is_last for rows, is_last in passes if rows > 1] == [True] * len(passes)


def test_tick_comes_before_every_pass_and_may_stop() -> None:
    events = []

    def model(images: Tensor) -> Tensor:
        events.append("pass")
        return images[:, 0, 0]

    images, drawn = torch.rand(2, 1, 3, 3), noise(shape=(1, 3, 3))
    Smoother(model, classes=3, check_cancelled=lambda: events.append("check_cancelled")).select(
        images, drawn, 250, [0, 1]
    )
    assert events == ["check_cancelled", "pass"] * 6

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Smoother(model, classes=3, check_cancelled=stop).select(images, drawn, 250, [0, 1])


def test_draws_cannot_be_skipped_or_counted_twice() -> None:
    smoother, drawn = Smoother(NET, classes=3), noise()
    statistics = smoother.start(IMAGES)
    smoother.extend(statistics, IMAGES, CANDIDATES, [1], drawn, 0, 50, IDS)
    for rows, start in (([1], 0), ([1], 51), ([0, 1], 50), ([2, 2], 0)):
        with pytest.raises(ValueError, match="do not continue"):
            smoother.extend(statistics, IMAGES, CANDIDATES, rows, drawn, start, 60, IDS)
    assert statistics.draws.tolist() == [0, 50, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "ids", "draws"),
    [((3, 6, 5), IDS, 10), (SHAPE, IDS[:5], 10), (SHAPE, IDS, 0)],
    ids=["other shape", "an id is missing", "no draws"],
)
def test_what_does_not_fit_together_is_refused(shape: tuple[int, int, int], ids: list[int], draws: int) -> None:
    with pytest.raises(ValueError, match="not to be drawn for"):
        Smoother(NET, classes=3).select(IMAGES, noise(shape=shape), draws, ids)
    assert Smoother(NET, classes=3).select(IMAGES[:0], noise(), 10, []).counts.shape == (0, 3)
