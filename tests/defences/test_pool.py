import pytest
import torch
from torch import nn

from tests.defences import builders
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted
from workers.defences.pool import Pool, augmented, make_pool
from workers.defences.protocol import DefenceError, Training

SEARCH = PGD("linf", 0.2, 0.05, 4, random_start=True)


def pool(
    count: int = 30, passes: int = 2, seed: int = 0, is_augmented: bool = False, check_cancelled=lambda: None
) -> Pool:
    training = builders.training(count)
    return make_pool(
        builders.base(),
        training,
        SEARCH,
        passes=passes,
        is_augmented=is_augmented,
        seed=seed,
        check_cancelled=check_cancelled,
    )


def test_neighbours_are_those_of_a_brute_force_search() -> None:
    found = pool()
    point = torch.randn(64, generator=builders.generator(2)) + found.features.mean(0)
    distances = [sum((a - b) ** 2 for a, b in zip(row, point.tolist(), strict=True)) for row in found.features.tolist()]
    expected = sorted(range(90), key=lambda i: distances[i])[:25]
    assert found.nearest(point, 25).tolist() == expected


def test_neighbours_are_the_same_however_the_search_is_cut(monkeypatch) -> None:
    found = pool()
    expected = found.nearest(found.features[40], 60)
    monkeypatch.setattr("workers.defences.pool.ROWS", 7)
    assert torch.equal(found.nearest(found.features[40], 60), expected)
    assert expected[0] == 40


def test_ties_go_to_the_first() -> None:
    features = torch.tensor([[1.0], [-1.0], [0.5], [1.0]])
    tied = Pool(torch.zeros(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64), features, 4)
    assert tied.nearest(torch.zeros(1), 3).tolist() == [2, 0, 1]


def test_the_clean_examples_come_first_then_every_pass_with_its_labels() -> None:
    found, training = pool(), builders.training(30)
    assert torch.equal(found.images[:30], training.images)
    assert torch.equal(found.labels, training.labels.repeat(3))
    assert (len(found.images), found.clean) == (90, 30)


def test_adversarial_copies_are_in_the_ball_differ_by_pass_and_raise_the_loss() -> None:
    found, base = pool(), builders.base()
    clean, first, second = found.images.split(30)
    for copy in (first, second):
        assert (copy - clean).abs().max() <= 0.2 + 1e-6
        assert copy.min() >= 0
        assert copy.max() <= 1
    assert not torch.equal(first, second)
    losses = nn.functional.cross_entropy(base.logits(found.images), found.labels, reduction="none").split(30)
    assert (losses[1] >= losses[0] - 1e-6).all()
    assert losses[1].mean() > losses[0].mean() + 1


def test_what_is_kept_of_an_attack_is_its_best_iterate_not_its_last() -> None:
    base, training = builders.base(), builders.training(30)
    overshooting = PGD("linf", 0.2, 0.4, 3, random_start=True)
    found = make_pool(base, training, overshooting, passes=1, is_augmented=False, seed=6)
    seeds = torch.randint(2**63 - 1, (30,), generator=builders.generator(6)).tolist()
    generators = [builders.generator(seed) for seed in seeds]
    last = pgd_untargeted(
        overshooting, base.logits, training.images, training.labels, until_wrong=False, generators=generators
    ).final
    kept, ended = (
        nn.functional.cross_entropy(base.logits(images), training.labels, reduction="none")
        for images in (found.images[30:], last)
    )
    assert (kept >= ended - 1e-5).all()
    assert (kept > ended + 0.01).any()


def test_features_are_those_of_the_base_which_stays_as_it_is() -> None:
    base = builders.base()
    before = builders.weights(base)
    found = make_pool(base, builders.training(20), SEARCH, passes=1, is_augmented=False, seed=0)
    last = base.module[-1]
    torch.testing.assert_close(found.features @ last.weight.T + last.bias, base.logits(found.images))
    assert builders.same(builders.weights(base), before)


def test_the_seed_alone_decides(monkeypatch) -> None:
    first = pool(is_augmented=True)
    torch.rand(3)
    assert torch.equal(pool(is_augmented=True).images, first.images)
    assert not torch.equal(pool(is_augmented=True, seed=1).images, first.images)
    monkeypatch.setattr("workers.defences.pool.CHUNK", 8)
    torch.testing.assert_close(pool(is_augmented=True).images, first.images)


def test_augmented_images_are_shifted_and_flipped_originals() -> None:
    images = torch.rand(40, 2, 5, 6, generator=builders.generator(1)) + 0.1
    padded = nn.functional.pad(images, (4, 4, 4, 4))
    found = augmented(images, builders.generator(4))
    seen = set()
    for original, result in zip(padded, found, strict=True):
        fits = [
            (top, left, is_flipped)
            for top in range(9)
            for left in range(9)
            for is_flipped in (False, True)
            for crop in [original[:, top : top + 5, left : left + 6]]
            if torch.equal(crop.flip(2) if is_flipped else crop, result)
        ]
        assert fits
        seen |= set(fits[:1])
    assert len({top for top, _, _ in seen}) > 5
    assert len({left for _, left, _ in seen}) > 5
    assert {is_flipped for _, _, is_flipped in seen} == {False, True}


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        (Training(torch.rand(3, 1, 9, 9), torch.zeros(3, dtype=torch.int64)), r"3 training images of \(1, 9, 9\)"),
        (Training(torch.rand(0, 1, 8, 8), torch.zeros(0, dtype=torch.int64)), "0 training images"),
        (Training(torch.rand(2, 1, 8, 8), torch.tensor([3, 10])), "labels are 3 to 10, and the model has 10 classes"),
    ],
    ids=["shape", "empty", "labels"],
)
def test_training_data_that_does_not_fit_the_model_is_refused(training, reason) -> None:
    with pytest.raises(DefenceError, match=reason):
        make_pool(builders.base(), training, SEARCH, passes=1, is_augmented=False, seed=0)


def test_every_pass_through_the_model_ticks() -> None:
    ticks: list[int] = []
    pool(count=20, passes=1, check_cancelled=lambda: ticks.append(1))
    # The clean image, then five iterates; one chunk of features.
    assert len(ticks) == 1 + (SEARCH.steps + 1) + 1
