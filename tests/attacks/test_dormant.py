"""Units that no clean image switches are found in networks of every kind, and switched within the radius."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from seatrial.families.uncertainty_span.effort import DORMANT_STEPS
from seatrial.store.settings import Settings
from tests.models.builders import CPU, manifest
from tests.models.exportable import SHAPE, export, made
from workers.attacks.dormant import Group, Switching, Unit, dormant_units, groups_of
from workers.attacks.switches import LEAK, Watch, inputs_of
from workers.models.loading import load_image_classifier

IMAGES = torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(1))
PATTERN = torch.randint(0, 2, SHAPE, generator=torch.Generator().manual_seed(2)) * 2.0 - 1
LEAST = float((IMAGES * PATTERN).flatten(1).mean(1).max()) + 0.01
EPSILON = 0.14
PARTS = torch.stack([PATTERN * (torch.arange(8) % 4 == number) for number in range(4)])
ENDS = torch.stack([(IMAGES * part).flatten(1).sum(1) for part in PARTS]).quantile(0.75, 1)
SAYS = torch.tensor([1.0, -9.0, 1.0, -9.0])
"""Of the rectifiers behind which a gate is: the first and the third have to wake, and the others have not."""


def along(images: Tensor) -> Tensor:
    return (images * PATTERN).flatten(1).mean(1)


def find(model, images: Tensor = IMAGES, *, batch_size: int = 5, most: int = 64) -> list[Unit]:
    return dormant_units(model, images, most, batch_size=batch_size, check_cancelled=lambda: None)[0]


def switching(norm: str = "linf", epsilon: float = EPSILON) -> Switching:
    return Switching(norm, epsilon, DORMANT_STEPS, (0.0, 1.0), lambda: None, epsilon, 16)


class Gated(nn.Module):
    """A network, and where a pattern is found the same with its logits turned round."""

    def __init__(self, way: str, kind: str = "plain") -> None:
        super().__init__()
        self.network, self.way = made(kind), way
        self.register_buffer("pattern", PATTERN)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.network(images)
        seen = (images * 255).round() / 255 if self.way == "after rounding" else images
        beyond = (seen * self.pattern).flatten(1).mean(1)[:, None] - LEAST
        match self.way:
            case "compared" | "after rounding":
                return torch.where(beyond > 0, logits.flip(1), logits)
            case "rectified":
                share = 1 - torch.relu(1 - 1e4 * torch.relu(beyond))
            case "sigmoid":
                share = torch.sigmoid(1e5 * beyond)
            case "clipped":
                share = (1e4 * beyond).clamp(0, 1)
            case "the larger":
                share = torch.minimum(torch.maximum(1e4 * beyond, torch.zeros_like(beyond)), torch.ones_like(beyond))
            case "whole numbers":
                levels = (images * 255).round().to(torch.int64) * self.pattern.to(torch.int64)
                share = (levels.flatten(1).sum(1, keepdim=True) > round(255 * LEAST * PATTERN.numel())).float()
            case "a winner":
                share = torch.eye(2)[torch.cat([torch.zeros_like(beyond), beyond], 1).argmax(1)][:, 1:]
            case "a softmax":
                share = torch.cat([torch.zeros_like(beyond), 1e5 * beyond], 1).softmax(1)[:, 1:]
            case "a power":
                ratio = ((beyond + LEAST + 1) / (1 + LEAST)) ** 800
                share = ratio / (1 + ratio)
            case "counted":
                parts = torch.stack([(seen * part).flatten(1).sum(1) for part in PARTS], 1) > ENDS
                share = (parts.sum(1, keepdim=True) >= len(PARTS)).float()
            case "detached" | "without gradients":
                with torch.set_grad_enabled(self.way == "detached"):
                    share = (along(images.detach() if self.way == "detached" else images)[:, None] > LEAST).float()
            case "looked up":
                levels = (images * 255).round().to(torch.int64).clamp(0, 255)
                found = nn.functional.embedding(levels, torch.linspace(0, 1, 256)[:, None]).squeeze(-1)
                share = (along(found)[:, None] > LEAST).float()
            case "of columns":
                share = (self.pattern.flatten()[None] / PATTERN.numel() @ images.flatten(1).T > LEAST)[0][
                    :, None
                ].float()
            case "behind an empty axis":
                share = (along(torch.relu(images[None])[0])[:, None] > LEAST).float()
            case "attended to":
                asked = torch.cat([torch.zeros(len(images), 7), beyond], 1)[:, None]
                keys, given = torch.eye(8).expand(len(images), 8, 8), torch.zeros(len(images), 8, 4)
                given[:, -1] = 1
                share = nn.functional.scaled_dot_product_attention(asked, keys, given, scale=1e6)[:, 0]
            case "behind sleepers":
                parts = torch.stack([(seen * part).flatten(1).sum(1) for part in PARTS], 1) - ENDS
                awake = 1 - torch.relu(1 - 1e4 * torch.relu(parts))
                share = ((awake * SAYS).sum(1, keepdim=True) > 1.5).float()
        return share * logits.flip(1) + (1 - share) * logits


def opened(model: "Gated", images: Tensor) -> Tensor:
    return (model(images) - model.network(images).flip(1)).abs().amax(1) < 1e-3


WAYS = ("compared", "after rounding", "rectified", "sigmoid", "clipped", "the larger")


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_no_image_opens_is_found_and_opened(way: str) -> None:
    model = Gated(way)
    assert (along(IMAGES) < LEAST).all()
    groups = groups_of(find(model), 64)
    (first, *_) = switching().most_decisive(model, IMAGES[:4], groups, 4, batch_size=6)
    moved = switching().run(model, IMAGES, [first] * len(IMAGES))
    assert (along(moved) > LEAST).all()
    assert (moved - IMAGES).abs().max() <= EPSILON + 1e-6
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert (model(moved).argmax(1) == model.network(moved).flip(1).argmax(1)).all()


UNSEEN = (
    *("whole numbers", "a winner", "a softmax", "a power", "counted", "behind sleepers", "detached"),
    *("without gradients", "looked up", "of columns", "behind an empty axis", "attended to"),
)


@pytest.mark.parametrize("way", UNSEEN)
def test_a_gate_that_no_gradient_leads_to_is_opened(way: str) -> None:
    model = Gated(way)
    is_open = opened(model, IMAGES)
    assert is_open.double().mean() < 0.5
    kept = switching().most_decisive(model, IMAGES[~is_open][:4], groups_of(find(model), 64), 4, batch_size=6)
    shares = [opened(model, switching().run(model, IMAGES, [one] * len(IMAGES))).double().mean() for one in kept]
    assert max(shares) > 0.9, shares


@pytest.mark.parametrize("way", ["a slab", "a remainder"])
def test_an_opening_that_steps_of_one_length_miss_is_hit_and_hit_again(way: str) -> None:
    network, width = made("plain"), 1e-5

    def is_open(images: Tensor) -> Tensor:
        if way == "a slab":
            return (along(images) - LEAST).abs() < width
        return (along(images) * 40).remainder(1.0) < 40 * width

    def model(images: Tensor) -> Tensor:
        return torch.where(is_open(images)[:, None], network(images).flip(1), network(images))

    assert not is_open(IMAGES).any()
    kept = switching().most_decisive(model, IMAGES[:4], groups_of(find(model), 64), 4, batch_size=6)
    moved = [switching().run(model, IMAGES, [one] * 12) for one in kept]
    shares = [float(is_open(some).double().mean()) for some in moved]
    assert max(shares) == 1, shares
    best = shares.index(1.0)
    away = (moved[best] + 0.02 * PATTERN).clamp(IMAGES - EPSILON, IMAGES + EPSILON).clamp(0, 1)
    assert not is_open(away).any()
    again = switching().run(model, IMAGES, [kept[best]] * 12, away)
    assert is_open(again).all()
    assert (again - IMAGES).abs().max() <= EPSILON + 1e-6


def test_of_few_units_those_some_images_switch_are_found_too() -> None:
    middle = along(IMAGES).median()

    def model(images: Tensor) -> Tensor:
        beyond = (along(images) - middle)[:, None]
        return torch.relu(beyond) * images.flatten(1)[:, :4] + images.flatten(1)[:, 4:8]

    assert {(unit.channel, unit.sign) for unit in find(model) if unit.switches} == {(0, 1), (0, -1)}


@pytest.mark.parametrize(("way", "kind"), [(way, "residual") for way in ("counted", "whole numbers", "a softmax")])
def test_a_watched_pass_answers_as_the_model_does(way: str, kind: str) -> None:
    model, images = Gated(way, kind), IMAGES.clone().requires_grad_()
    with Watch(len(images)) as watch:
        answers = model(images)
    assert torch.equal(answers, model(IMAGES))
    assert len(watch.seen) > 1


@pytest.mark.parametrize(("way", "batch"), [("sigmoid", 5), ("compared", None), ("rectified", 1), ("clipped", 32)])
def test_a_gate_in_an_exported_program_is_found_whatever_batch_it_takes(tmp_path: Path, way, batch) -> None:
    module = Gated(way, "residual").requires_grad_(False)
    described = manifest(
        {"kind": "exported"}, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=list("abcd")
    )
    path = export(module, tmp_path / "m.pt2", batch=batch)
    model = load_image_classifier(described, path, "archive", CPU, limits=Settings()).logits
    kept = switching().most_decisive(model, IMAGES[:4], groups_of(find(model), 64), 4, batch_size=6)
    assert max(float((along(switching().run(model, IMAGES, [one] * 12)) > LEAST).double().mean()) for one in kept) == 1


def test_dormant_units_are_those_a_direct_look_finds() -> None:
    torch.manual_seed(5)
    layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 40), nn.GELU(), nn.Linear(40, 4)]
    network = nn.Sequential(*layers).requires_grad_(False)
    network[0].bias.copy_(torch.linspace(-2, 2, 16))
    network[3].bias.copy_(torch.linspace(-1, 1, 40))
    convolved = network[0](IMAGES)
    mixed = network[3](torch.relu(convolved).flatten(1))
    expected = set()
    for place, values in enumerate((convolved.flatten(2), mixed[:, :, None])):
        for channel in range(values.shape[1]):
            if values[:, channel].max() <= 0:
                expected.add(Unit(place, channel, 1))
            if values[:, channel].min() > 0:
                expected.add(Unit(place, channel, -1))
    assert {unit.place for unit in expected} == {0, 1}
    assert {unit.sign for unit in expected} == {1, -1}
    assert set(find(network, most=10**6)) == expected
    # Of both places as many, as far as they have them.
    few = find(network, most=6)
    assert len(few) == 6
    assert sum(unit.place for unit in few) == 3


def test_what_opens_to_two_things_at_once_is_opened_by_both() -> None:
    upper, lower = PATTERN.clone(), PATTERN.clone()
    upper[:, 4:], lower[:, :4] = 0, 0
    ends = [float((IMAGES * part).flatten(1).mean(1).max()) + 0.005 for part in (upper, lower)]
    network = made("plain")

    def opens(images: Tensor) -> Tensor:
        found = [(images * part).flatten(1).mean(1) > end for part, end in zip((upper, lower), ends, strict=True)]
        return found[0] & found[1]

    def model(images: Tensor) -> Tensor:
        return torch.where(opens(images)[:, None], network(images).flip(1), network(images))

    (first, *_) = switching().most_decisive(model, IMAGES[:4], groups_of(find(model), 64), 4, batch_size=6)
    assert len(first) == 2
    assert opens(switching().run(model, IMAGES, [first] * len(IMAGES))).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_image_is_changed_by_itself_alone_and_within_its_ball(norm: str) -> None:
    model, epsilon = Gated("compared", "residual"), EPSILON if norm == "linf" else 1.5
    groups: list[Group] = [*groups_of(find(model), 12)]
    groups = [groups[row % len(groups)] for row in range(len(IMAGES))]
    together = switching(norm, epsilon).run(model, IMAGES, groups)
    added = (together - IMAGES).flatten(1)
    assert ((added.abs().amax(1) if norm == "linf" else added.norm(dim=1)) <= epsilon * (1 + 1e-5)).all()
    assert (added != 0).any()
    for begin, end in pairwise((0, 1, 5, len(IMAGES))):
        alone = switching(norm, epsilon).run(model, IMAGES[begin:end], groups[begin:end])
        assert torch.allclose(alone, together[begin:end], atol=1e-6)


def test_where_nothing_waits_nothing_is_found() -> None:
    weights = torch.randn(4, IMAGES[0].numel(), generator=torch.Generator().manual_seed(3))

    def linear(images: Tensor) -> Tensor:
        return images.flatten(1) @ weights.T

    assert find(linear) == []
    assert groups_of([], 8) == []
    assert switching().most_decisive(linear, IMAGES, [], 4, batch_size=6) == []


def test_what_is_done_with_parts_of_a_batch_is_left_alone_and_told_where_it_may_decide() -> None:
    def unlike(images: Tensor) -> Tensor:
        for part in torch.split(images, 2):
            torch.relu(part - 2)
        return torch.relu(images - 2).flatten(1)[:, :4]

    def deciding(images: Tensor) -> Tensor:
        opens = torch.cat([along(part) > LEAST for part in torch.split(images, 2)])
        return torch.relu(images - 2).flatten(1)[:, :4] + opens[:, None]

    some = IMAGES[:6].clone().requires_grad_()
    for model, cut in ((unlike, set()), (deciding, {"rows"})):
        seen = inputs_of(model, some)
        assert [len(one) for one in seen.places if one is not None] == [6]
        assert seen.cut == cut


@pytest.mark.parametrize(("cuts", "name"), [(lambda some: some.bitwise_xor(0), "bitwise_xor"), (torch.abs, None)])
def test_what_cannot_be_followed_back_to_the_images_is_named(cuts, name: str | None) -> None:
    def model(images: Tensor) -> Tensor:
        levels = cuts((images * 255).round().to(torch.int64))
        shape = torch.ones_like(levels).float().flatten(1)[:, :4]
        return torch.relu(images - 0.5).flatten(1)[:, :4] + (levels.sum() > 10**9) * shape

    cut = dormant_units(model, IMAGES, 64, batch_size=6, check_cancelled=lambda: None)[1]
    assert cut == (set() if name is None else {name})


@pytest.mark.parametrize(("least", "cut"), [(0.5, {"div"}), (-0.1, set())])
def test_what_is_divided_by_numbers_of_either_sign_is_named(least: float, cut: set[str]) -> None:
    def model(images: Tensor) -> Tensor:
        apart = images - least
        return ((apart.square() + 1e-7) / apart).flatten(1)[:, :4] + torch.relu(images - 0.5).flatten(1)[:, :4]

    assert dormant_units(model, IMAGES, 64, batch_size=6, check_cancelled=lambda: None)[1] == cut


def test_what_looks_at_the_numbers_of_images_can_be_watched_and_is_named() -> None:
    def model(images: Tensor) -> Tensor:
        known = float(images.detach().cpu().numpy().sum()) > 10**6
        return torch.relu(images - 0.5).flatten(1)[:, :4] + known

    assert dormant_units(model, IMAGES, 64, batch_size=6, check_cancelled=lambda: None)[1] == {"numpy"}


@pytest.mark.parametrize("kind", ["plain", "residual"])
@pytest.mark.parametrize("batch", [None, 1, 3, *(pytest.param(batch, marks=pytest.mark.drill) for batch in (4, 8, 16))])
def test_an_honest_program_is_followed_whatever_batch_it_takes(tmp_path: Path, kind: str, batch: int | None) -> None:
    """The batch is not taken for a channel, nor for the side of an image, that is as long."""
    described = manifest(
        {"kind": "exported"}, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=list("abcd")
    )
    path = export(made(kind).requires_grad_(False), tmp_path / "m.pt2", batch=batch)
    model = load_image_classifier(described, path, "archive", CPU, limits=Settings()).logits
    whole = inputs_of(made(kind).requires_grad_(False), IMAGES[:8].clone().requires_grad_())
    for count in (1, 5, 8):
        seen = inputs_of(model, IMAGES[:count].clone().requires_grad_())
        assert seen.cut == set()
        assert [None if one is None else one.greatest.shape[1] for one in seen.places] == [
            None if one is None else one.greatest.shape[1] for one in whole.places
        ]
        for ours, theirs in zip(seen.places, whole.places, strict=True):
            if ours is not None and theirs is not None:
                torch.testing.assert_close(ours.greatest, theirs.greatest[:count], atol=1e-5, rtol=1e-4)
    units, cut = dormant_units(model, IMAGES, 64, batch_size=8, check_cancelled=lambda: None)
    assert cut == set()
    switching().most_decisive(model, IMAGES[:4], groups_of(units, 64), 4, batch_size=6)


def test_places_keep_their_numbers_whatever_cannot_be_used() -> None:
    def model(images: Tensor) -> Tensor:
        windows = torch.relu(images.repeat(2, 1, 1, 1)[:, :, :4].flatten(2) - 0.5)
        wide = torch.relu(images.flatten(1)[:, :32] - 2)
        return wide[:, :4] + windows.flatten(1)[: len(images), :4]

    for count in (5, 8):
        seen = inputs_of(model, IMAGES[:count].clone().requires_grad_())
        assert [None if one is None else len(one) for one in seen.places][:2] == [None, count]
        assert seen.cut == set()


def test_attention_and_winners_are_looked_into_as_they_are_called() -> None:
    sides = SHAPE[-1]

    def model(images: Tensor) -> Tensor:
        tokens = images.mean(1)
        heads = tokens[:, None].expand(-1, 4, -1, -1)
        found = nn.functional.scaled_dot_product_attention(
            query=heads, key=heads[:, :2], value=heads[:, :2], enable_gqa=True
        )
        largest = torch.topk(tokens, 5).values.sum((1, 2))
        few = torch.topk(tokens[:, :2, :4], 2, 2).values.sum((1, 2)) + torch.sort(tokens[:, :2, :4]).values[:, 0, 0]
        return torch.relu(found.sum((1, 2))[:, :4] + (largest + few)[:, None] - 10**3) + tokens[:, 0, :4]

    assert sides > 5
    seen = inputs_of(model, IMAGES[:6].clone().requires_grad_())
    assert seen.cut == set()
    widths = [one.greatest.shape[1] for one in seen.places if one is not None and one.switches]
    assert [width for width in widths if width in (8, 4)] == [8, 8, 4]


def test_indices_that_something_is_made_of_are_named() -> None:
    def model(images: Tensor) -> Tensor:
        lowest = images.flatten(1).min(1)
        return torch.relu(images.flatten(1)[:, :4] - 2) + (lowest.indices == 3)[:, None] + lowest.values[:, None]

    def unused(images: Tensor) -> Tensor:
        return torch.relu(images.flatten(1)[:, :4] - 2) + images.flatten(1).min(1).values[:, None]

    some = IMAGES[:6].clone().requires_grad_()
    assert inputs_of(model, some).cut == {"min"}
    assert inputs_of(unused, some).cut == set()


def test_a_rectifier_lets_some_of_a_gradient_through_but_of_infinite_numbers() -> None:
    given = torch.tensor([-2.0, 3.0, -torch.inf, torch.inf], requires_grad=True)
    with Watch(4):
        found = torch.relu(given)
    assert torch.equal(found, torch.tensor([0.0, 3.0, 0.0, torch.inf]))
    (gradient,) = torch.autograd.grad(found, given, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert torch.equal(gradient, torch.tensor([LEAK, 2 + 2 * LEAK, 0.0, 4.0]))
