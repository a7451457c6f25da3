import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from torch import Tensor

from tests.attacks.autoattack.networks import IMAGES, LABELS, NET, Linear, is_in_ball_and_box, near_the_middle
from workers.attacks.autoattack.dlr import likeliest_targets
from workers.attacks.autoattack.fab import FAB, to_hyperplane

PIXELS = 6


def shortest_by_scipy(norm: str, x: np.ndarray, w: np.ndarray, offset: float) -> float | None:
    """Return the least length of a move onto the hyperplane within the unit box; None where there is none."""
    bounds = list(zip(-x, 1 - x, strict=True))
    if norm == "linf":
        # Minimise t with |move_i| <= t.
        d = len(x)
        limits = np.block([[np.eye(d), -np.ones((d, 1))], [-np.eye(d), -np.ones((d, 1))]])
        solved = linprog(
            np.r_[np.zeros(d), 1], limits, np.zeros(2 * d), np.r_[w, 0][None], [-offset], [*bounds, (0, None)]
        )
        return float(solved.x[-1]) if solved.success else None
    corner = np.where(w * -np.sign(offset) > 0, 1 - x, -x)
    if abs(w @ corner) < abs(offset):
        return None
    solved = minimize(
        lambda move: move @ move,
        corner,
        jac=lambda move: 2 * move,
        bounds=bounds,
        constraints={"type": "eq", "fun": lambda move: w @ move + offset, "jac": lambda move: w},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(np.linalg.norm(solved.x))


@given(
    norm=st.sampled_from(["linf", "l2"]),
    seed=st.integers(0, 10_000),
    offset=st.floats(-3, 3),
    zeros=st.integers(0, PIXELS - 1),
    at_the_ends=st.booleans(),
)
def test_the_projection_is_the_shortest_move_to_the_hyperplane_within_the_box(
    norm, seed, offset, zeros, at_the_ends
) -> None:
    random = np.random.default_rng(seed)
    x, w = random.random(PIXELS), random.normal(size=PIXELS) * 10.0 ** random.integers(-3, 3)
    x = x.round() if at_the_ends else x
    w[:zeros] = 0
    offset *= float(np.abs(w).max())
    batch = (torch.tensor(np.asarray(v, dtype=np.float64))[None] for v in (x, w, offset))
    move = to_hyperplane(norm, *batch, (0.0, 1.0))[0].numpy()
    assert (x + move >= -1e-12).all()
    assert (x + move <= 1 + 1e-12).all()
    expected = shortest_by_scipy(norm, x, w, offset)
    if expected is None:
        # The hyperplane is out of reach: as near to it in value as the box allows.
        nearest = np.where(w == 0, 0, np.where(w * -np.sign(offset) > 0, 1 - x, -x))
        np.testing.assert_allclose(move, nearest)
    else:
        assert w @ move == pytest.approx(-offset, rel=1e-9, abs=1e-12)
        length = np.abs(move).max() if norm == "linf" else np.linalg.norm(move)
        assert length == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_projection_of_gradients_whose_squares_round_to_zero() -> None:
    w, offset = torch.tensor([[3e-30, 4e-30]]), torch.tensor([-1e-30])
    move = to_hyperplane("l2", torch.full((1, 2), 0.5), w, offset, (0.0, 1.0))
    torch.testing.assert_close(move, torch.tensor([[0.12, 0.16]]))


def test_no_gradient_no_move() -> None:
    zero = torch.zeros(1, 3)
    for norm in ("linf", "l2"):
        assert torch.equal(to_hyperplane(norm, zero, zero, torch.tensor([-1.0]), (0.0, 1.0)), zero)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_finds_the_distance_of_a_linear_model(norm, classes) -> None:
    model, images = Linear(classes), near_the_middle(12)
    labels = model(images).argmax(1)
    found = FAB(norm, steps=25).nearest(model, images, labels, likeliest_targets(model(images), labels, 9))
    delta = (found.images - images).flatten(1)
    length = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
    exact = model.distances(images, labels, norm)
    assert found.broken.all()
    assert (model(found.images).argmax(1) != labels).all()
    assert (length >= exact * (1 - 1e-9)).all()
    assert (length <= exact * 1.02).all()


def test_follows_the_published_step() -> None:
    """In l_2, away from the ends of the box, on a model whose boundary is a circle; one example, plain numpy."""
    centre, radius = np.array([0.45, 0.5]), 0.12
    origin = np.array([0.62, 0.66])

    def f(x):
        return radius**2 - ((x - centre) ** 2).sum()

    seen: list[Tensor] = []

    def model(images: Tensor) -> Tensor:
        if images.requires_grad:
            seen.append(images.detach().clone())
        z = radius**2 - (images - torch.tensor(centre)).square().sum(1)
        return torch.stack([torch.zeros_like(z), z], 1)

    x, expected, best = origin, [], None
    for _ in range(12):
        expected.append(x)
        w = -2 * (x - centre)
        move, from_origin = (-(value / (w @ w)) * w for value in (f(x), f(x) + w @ (origin - x)))
        near, far = np.linalg.norm(move), np.linalg.norm(from_origin)
        alpha = min(near / (near + far), 0.1)
        x = (1 - alpha) * (x + 1.05 * move) + alpha * (origin + 1.05 * from_origin)
        if f(x) > 0:
            best = x if best is None or np.linalg.norm(x - origin) < np.linalg.norm(best - origin) else best
            x = origin + 0.9 * (x - origin)
    search = FAB("l2", steps=12, search_steps=0)
    found = search.run(model, torch.tensor(origin)[None], torch.tensor([0]), torch.tensor([1]))
    np.testing.assert_allclose(torch.cat(seen).numpy(), np.array(expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.images[0].numpy(), best, rtol=0, atol=1e-12)


def test_the_last_search_is_by_secants_of_the_margin() -> None:
    """One pixel, margin 0.2 - x^2: each secant is drawn between the last right and the nearest wrong point."""
    asked: list[float] = []

    def model(images: Tensor) -> Tensor:
        asked.append(images.item())
        z = images.flatten(1).square().sum(1) - 0.2
        return torch.stack([torch.zeros_like(z), z], 1)

    start = torch.tensor([[0.1]], dtype=torch.float64)
    found = FAB("l2", steps=1).run(model, start, torch.tensor([0]), torch.tensor([1]))
    right, wrong = 0.1, 1.0
    expected = [right, wrong]
    for _ in range(3):
        # The margin is concave: every secant's zero is still classified right, and the nearest wrong image stays.
        low, high = 0.2 - right**2, 0.2 - wrong**2
        right += low / (low - high) * (wrong - right)
        expected.append(right)
    assert asked == pytest.approx(expected, rel=1e-12)
    assert found.images.item() == wrong


@given(norm=st.sampled_from(["linf", "l2"]), epsilon=st.floats(0, 1), seed=st.integers(0, 1000), run=st.integers(0, 3))
def test_every_image_stays_in_ball_and_box(norm, epsilon, seed, run) -> None:
    images = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(seed)).double().round(decimals=1)
    logits = NET(images)
    targets = likeliest_targets(logits, logits.argmax(1), 4)[:, run]
    found = FAB(norm, epsilon, 8).run(NET, images, logits.argmax(1), targets)
    assert is_in_ball_and_box(found.images, images, norm, epsilon)
    assert torch.equal(NET(found.images).argmax(1) != logits.argmax(1), found.broken)


def test_more_steps_never_find_a_farther_image() -> None:
    targets = likeliest_targets(NET(IMAGES), LABELS, 2)
    searches = [FAB("l2", steps=steps, search_steps=0) for steps in (2, 30)]
    near = [search.nearest(NET, IMAGES, LABELS, targets).images for search in searches]
    few, many = ((images - IMAGES).flatten(1).norm(dim=1) for images in near)
    assert (many <= few * (1 + 1e-9)).all()
    assert (many < few).any()


def test_the_last_search_shortens_the_way() -> None:
    target = likeliest_targets(NET(IMAGES), LABELS, 1)[:, 0]
    runs = [FAB("l2", steps=1, overshoot=1.5, search_steps=n).run(NET, IMAGES, LABELS, target) for n in (0, 3)]
    without, searched = ((run.images - IMAGES).flatten(1).norm(dim=1)[runs[0].broken] for run in runs)
    assert (searched <= without).all()
    assert (searched < 0.99 * without).any()


def test_nearer_than_epsilon_is_enough() -> None:
    target = likeliest_targets(NET(IMAGES), LABELS, 1)[:, 0]
    found = FAB("linf", 0.02, 30).run(NET, IMAGES, LABELS, target)
    assert 0 < found.broken.sum() < 10
    most = FAB("linf", 0.02, 30).passes()
    assert (found.backward[found.broken] < most.backward).any()
    assert (found.backward <= most.backward).all()
    assert (found.forward <= most.forward).all()
    assert torch.equal(found.images[~found.broken], IMAGES[~found.broken])


def test_an_example_does_not_depend_on_its_neighbours_or_on_memory() -> None:
    def limited(images: Tensor) -> Tensor:
        if len(images) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    target = likeliest_targets(NET(IMAGES), LABELS, 1)[:, 0]
    whole = FAB("l2", 0.3, 20).run(NET, IMAGES, LABELS, target)
    halved = FAB("l2", 0.3, 20).run(limited, IMAGES, LABELS, target)
    torch.testing.assert_close(halved.images, whole.images)
    assert torch.equal(halved.broken, whole.broken)


def test_an_output_that_is_not_finite_is_unsound_and_not_broken() -> None:
    def breaks(images: Tensor) -> Tensor:
        clean = (images.flatten(1).unsqueeze(1) == IMAGES.flatten(1)).all(2).any(1)
        return torch.where(clean.unsqueeze(1), NET(images), torch.nan)

    found = FAB("linf", 0.3, 5).run(breaks, IMAGES, LABELS, (LABELS + 1) % 5)
    assert found.non_finite.all()
    assert not found.broken.any()
    assert torch.equal(found.images, IMAGES)


def test_a_model_without_gradient_is_told_and_not_moved() -> None:
    found = FAB("linf", 0.3, 5).run(lambda x: NET((x * 8).round() / 8), IMAGES, LABELS, (LABELS + 1) % 5)
    assert found.zero_gradient.all()
    assert not (found.broken & (NET((IMAGES * 8).round() / 8).argmax(1) == LABELS)).any()


def test_ticks_before_every_forward_pass() -> None:
    events: list[str] = []

    def model(images: Tensor) -> Tensor:
        events.append("forward")
        return NET(images)

    FAB("linf", 0.01, 4).run(
        model, IMAGES, LABELS, (LABELS + 1) % 5, check_cancelled=lambda: events.append("check_cancelled")
    )
    assert events == ["check_cancelled", "forward"] * (len(events) // 2)
    assert len(events) >= 16


@pytest.mark.parametrize("wrong", [{"epsilon": -1.0}, {"steps": 0}, {"alpha_max": 2.0}, {"backward": 1.0}], ids=str)
def test_refuses_numbers_that_are_no_search(wrong) -> None:
    with pytest.raises(ValueError, match="not an attack"):
        FAB(**({"norm": "linf"} | wrong))
