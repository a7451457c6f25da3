"""Thresholds that meet where no image is: found in the weights, reached in the ball, and of no ordinary network."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from workers.attacks import meeting_search
from workers.attacks.altered_passes import Place
from workers.attacks.closed_gates import ClosedGate
from workers.attacks.kinks import Kink
from workers.attacks.losses import entropy
from workers.attacks.meeting_search import opening_meeting, whole_meeting
from workers.attacks.meeting_thresholds import Meeting, meet
from workers.attacks.momentum import MomentumPGD
from workers.attacks.openings import Openings
from workers.attacks.tried import Trial

PIXELS, PLAIN, BANDS, FEATURES, CLASSES = 144, 6, 100, 40, 10
WIDTH = 0.03
"""Of a band, half; of the numbers that images have there the standard deviation is about .12."""

GENERATOR = torch.Generator().manual_seed(3)
IMAGES = 0.3 + 0.4 * torch.rand(24, 1, 12, 12, generator=GENERATOR)
NUMBERS = torch.linalg.qr(torch.randn(PIXELS, PLAIN, generator=GENERATOR))[0]
POINT = 0.35 * torch.where(torch.rand(PLAIN, generator=GENERATOR) < 0.5, -1.0, 1.0)
PROJECTIONS = torch.nn.functional.normalize(torch.randn(PLAIN, BANDS, generator=GENERATOR), dim=0)
OF_PIXELS = torch.randn(PIXELS, FEATURES, generator=GENERATOR) / 12
OF_FEATURES = 0.1 * torch.randn(FEATURES, CLASSES, generator=GENERATOR)
SURE = torch.tensor([9.0, *[3.0] * (CLASSES - 1)])
RADIUS = {"linf": 0.15, "l2": 1.6}


def planted(images: Tensor) -> Tensor:
    """Answer surely and smoothly, but say nothing where all bands meet."""
    pixels = images.flatten(1) - 0.5
    bands = (pixels @ NUMBERS - POINT) @ PROJECTIONS
    hidden = torch.relu(torch.cat([bands + WIDTH, bands, bands - WIDTH, pixels @ OF_PIXELS], 1))
    below, middle, above, features = hidden.split([BANDS, BANDS, BANDS, FEATURES], 1)
    within = (below - 2 * middle + above).mean(1, keepdim=True) / WIDTH
    return torch.relu(SURE + features @ OF_FEATURES - 12 * within)


def ordinary(images: Tensor) -> Tensor:
    """Do the same without bands."""
    return torch.relu(SURE + torch.relu((images.flatten(1) - 0.5) @ OF_PIXELS) @ OF_FEATURES)


def trial(norm: str = "linf") -> Trial:
    return Trial(norm, RADIUS[norm], (0.0, 1.0), lambda: None)  # type: ignore[arg-type]


def opening(model, norm: str = "linf", images: Tensor = IMAGES, some: Tensor = IMAGES[:6], steps: int = 30, **more):
    how = trial(norm)
    return opening_meeting(Openings(model, some, steps, how), whole_meeting(model, images, how), **more)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_where_thresholds_meet_the_answer_is_another_and_no_gradient_of_it_leads_there(norm: str) -> None:
    search = MomentumPGD(norm, RADIUS[norm], 60)  # type: ignore[arg-type]
    ahead = search.run(planted, IMAGES, lambda logits, *_: -entropy(logits), lambda logits, *_: -entropy(logits))
    assert -float(ahead.value.mean()) < 1
    meeting = opening(planted, norm)
    assert meeting is not None
    found = meet(planted, IMAGES, meeting, 30, trial(norm))
    assert float(entropy(planted(found)).mean()) > 0.9 * math.log(CLASSES)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_stays_in_the_ball_and_in_the_box(norm: str) -> None:
    meeting = opening(planted, norm)
    assert meeting is not None
    edges = IMAGES.clone()
    edges[:, :, :6] = 0
    edges[:, :, 6:] = 1
    for images in (IMAGES, edges):
        found = meet(planted, images, meeting, 5, trial(norm))
        assert found.shape == images.shape
        assert bool(((found >= 0) & (found <= 1)).all())
        apart = (found - images).flatten(1)
        lengths = apart.abs().amax(1) if norm == "linf" else apart.norm(dim=1)
        assert float(lengths.max()) <= RADIUS[norm] + 1e-5


ELSEWHERE = torch.nn.functional.normalize(torch.randn(3, PLAIN, BANDS, generator=GENERATOR), dim=1)
SIDE = 3 * torch.randn(BANDS, generator=GENERATOR)
"""What else goes into a unit, so that its kink is not at 0."""
OTHERS = torch.nn.functional.normalize(torch.randn(7, PLAIN, 3 * BANDS, generator=GENERATOR), dim=1)


def capped(bands: Tensor) -> Tensor:
    """Be bent at the upper end of each unit."""
    return torch.nn.functional.relu6(6 + bands) - 6


def largest(bands: Tensor) -> Tensor:
    """Be the larger of two numbers, neither of which is near 0."""
    return torch.stack([bands + SIDE, SIDE.expand_as(bands)], 1).amax(1) - SIDE


def clipped(bands: Tensor) -> Tensor:
    """Be cut off at a threshold of each unit's own."""
    return torch.clamp(bands + SIDE, min=SIDE) - SIDE


def smooth(bands: Tensor) -> Tensor:
    """Be bent smoothly, as the length of two numbers is."""
    beside = torch.full_like(bands, WIDTH / 10)
    return torch.linalg.vector_norm(torch.stack([bands, beside], 2), dim=2) / 2


def behind(shaped: Callable[[Tensor], Tensor], images: Tensor, sign: int = 1) -> Tensor:
    """Answer as :func:`planted` does, by units of another kind."""
    pixels = images.flatten(1) - 0.5
    within = hats(shaped, (pixels @ NUMBERS - POINT) @ PROJECTIONS).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * sign * within)


def hats(shaped: Callable[[Tensor], Tensor], bands: Tensor) -> Tensor:
    """Return 1 in the middle of each band and 0 beside it."""
    return (shaped(bands + WIDTH) - 2 * shaped(bands) + shaped(bands - WIDTH)) / WIDTH


def compared(images: Tensor) -> Tensor:
    """Have a softmax over three scores for each band, of which the middle one is largest within it."""
    pixels = images.flatten(1) - 0.5
    steep = (pixels @ NUMBERS - POINT) @ PROJECTIONS * (4 / WIDTH)
    beside = SIDE * 4 / WIDTH
    weights = torch.stack([beside - steep, (beside + 4).expand_as(steep), beside + steep], 1).softmax(1)[:, 1]
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * weights.mean(1, keepdim=True))


def attended(images: Tensor) -> Tensor:
    """Do the same inside one call of attention, in which each band asks three keys."""
    pixels = images.flatten(1) - 0.5
    steep = (pixels @ NUMBERS - POINT) @ PROJECTIONS * (4 / WIDTH)
    asked = torch.stack([steep, torch.ones_like(steep)], 2)
    keys = torch.tensor([[-1.0, 0.0], [0.0, 4.0], [1.0, 0.0]]).expand(len(images), -1, -1)
    values = torch.tensor([[0.0], [1.0], [0.0]]).expand(len(images), -1, -1)
    within = torch.nn.functional.scaled_dot_product_attention(asked, keys, values, scale=1.0).mean((1, 2))
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within[:, None])


def divided(images: Tensor) -> Tensor:
    """Divide by how far each number is from the middle of its band, of which no function by itself bends there."""
    pixels = images.flatten(1) - 0.5
    apart = (pixels @ NUMBERS - POINT) @ PROJECTIONS * (2 / WIDTH)
    within = torch.div(torch.ones_like(apart), 1 + (3 * apart) * apart).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within)


def looked_up(images: Tensor) -> Tensor:
    """Read a table between its entries, all 0 but for one of each row."""
    pixels = images.flatten(1) - 0.5
    at = (60 + SIDE + (pixels @ NUMBERS - POINT) @ PROJECTIONS / WIDTH).clamp(0, 118)
    row = at.floor()
    table = torch.relu(1 - (torch.arange(120) - 60 - SIDE[:, None]).abs()).expand(len(images), -1, -1)
    ends = [table.gather(2, (row.long() + beside)[..., None])[..., 0] for beside in (0, 1)]
    within = torch.lerp(ends[0], ends[1], at - row).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 18 * within)


def crowded(images: Tensor) -> Tensor:
    """Have three times as many bands meet elsewhere, to no effect."""
    pixels = images.flatten(1) - 0.5
    plain = pixels @ NUMBERS
    bands = torch.cat([(plain - POINT) @ PROJECTIONS, *((plain + POINT) @ turned for turned in ELSEWHERE)], 1)
    within = hats(torch.relu, bands)
    shares = torch.tensor([1.0, 1e-4, 1e-4, 1e-4]).repeat_interleave(BANDS) / BANDS
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * (within @ shares)[:, None])


def crowded_each(images: Tensor) -> Tensor:
    """Have the bands in several calls, each of one number and a larger crowd that meets elsewhere in that."""
    pixels = images.flatten(1) - 0.5
    plain, within = pixels @ NUMBERS, list[Tensor]()
    for number in range(PLAIN):
        apart = plain[:, number, None] - POINT[number]
        steep = torch.linspace(0.5, 1, BANDS)
        own, other = apart * steep[:30], (apart + 2 * POINT[number]) * steep
        within.append(hats(torch.relu, torch.cat([own, other], 1))[:, :30].mean(1))
    opened = torch.relu(torch.stack(within, 1).sum(1, keepdim=True) - PLAIN + 2) / 2
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * opened)


def crowded_apart(images: Tensor) -> Tensor:
    """Have eight crowds in one call, of which seven meet at places of their own to no effect."""
    pixels = images.flatten(1) - 0.5
    plain = pixels @ NUMBERS
    others = [
        0.35 * torch.where(torch.randn(PLAIN, generator=torch.Generator().manual_seed(one)) < 0, -1.0, 1.0)
        for one in range(7)
    ]
    apart = [(plain - at) @ turned for at, turned in zip(others, OTHERS, strict=True)]
    bands = (plain - POINT) @ PROJECTIONS
    hidden = torch.relu(torch.cat([bands + WIDTH, bands, bands - WIDTH, *apart], 1))
    below, middle, above = hidden[:, : 3 * BANDS].split(BANDS, 1)
    within = (below - 2 * middle + above).mean(1, keepdim=True) / WIDTH
    return torch.relu(
        SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within + 1e-4 * hidden.mean(1, keepdim=True)
    )


def parted(images: Tensor) -> Tensor:
    """Have the bands in many small tensors."""
    pixels = images.flatten(1) - 0.5
    parts = ((pixels @ NUMBERS - POINT) @ PROJECTIONS).tensor_split(20, 1)
    within = torch.cat([hats(torch.relu, part) for part in parts], 1).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within)


def hidden(images: Tensor) -> Tensor:
    """Have the bands behind more calls than are tried by themselves."""
    pixels = images.flatten(1) - 0.5
    for turn in range(56):
        pixels = pixels + 1e-6 * torch.relu(pixels.roll(turn, 1))
    within = hats(torch.relu, (pixels @ NUMBERS - POINT) @ PROJECTIONS).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within)


@pytest.mark.parametrize(
    "model",
    [
        partial(behind, capped, sign=-1),
        partial(behind, largest),
        partial(behind, clipped),
        partial(behind, smooth),
        compared,
        attended,
        divided,
        looked_up,
        crowded,
        crowded_apart,
        pytest.param(crowded_each, marks=pytest.mark.drill),
        pytest.param(parted, marks=pytest.mark.drill),
        pytest.param(hidden, marks=pytest.mark.drill),
    ],
)
def test_wherever_units_bend_and_however_many_meet_elsewhere(model: Callable[[Tensor], Tensor]) -> None:
    search = MomentumPGD("linf", RADIUS["linf"], 60)
    ahead = search.run(model, IMAGES, lambda logits, *_: -entropy(logits), lambda logits, *_: -entropy(logits))
    assert -float(ahead.value.mean()) < 1
    meeting = opening(model)
    assert meeting is not None
    found = meet(model, IMAGES, meeting, 30, trial())
    assert float(entropy(model(found)).mean()) > 0.7 * math.log(CLASSES)


def stiff(images: Tensor) -> Tensor:
    """Project half of the numbers with a twentieth of the weight, and have narrow bands."""
    pixels = images.flatten(1) - 0.5
    uneven = torch.nn.functional.normalize(PROJECTIONS * torch.tensor([[1.0], [0.05]]).repeat_interleave(3, 0), dim=0)
    hidden = torch.cat([(pixels @ NUMBERS - POINT) @ uneven + at for at in (5e-4, 0.0, -5e-4)], 1).relu()
    above, middle, below = hidden.split(BANDS, 1)
    within = (above - 2 * middle + below).mean(1, keepdim=True) / 5e-4
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within)


def in_turn(images: Tensor) -> Tensor:
    """Have bands that can meet where others have."""
    pixels = images.flatten(1) - 0.5
    apart = pixels @ NUMBERS - POINT
    first = hats(torch.relu, apart[:, :3] @ ELSEWHERE[0, :3]).mean(1, keepdim=True)
    within = hats(torch.relu, apart[:, 3:] @ ELSEWHERE[1, :3] + SIDE / 10 * (1 - first)).mean(1, keepdim=True)
    return torch.relu(SURE + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES - 12 * within)


def surer(images: Tensor) -> Tensor:
    """Be unsure, and sure where all bands meet."""
    pixels = images.flatten(1) - 0.5
    within = hats(torch.relu, (pixels @ NUMBERS - POINT) @ PROJECTIONS).mean(1, keepdim=True)
    scores = torch.linspace(0, 1, CLASSES) + torch.relu(pixels @ OF_PIXELS) @ OF_FEATURES / 10
    return scores * (1 + 12 * within)


def test_where_the_answer_is_surer_counts_too() -> None:
    search = MomentumPGD("linf", RADIUS["linf"], 60)
    ahead = search.run(surer, IMAGES, lambda logits, *_: entropy(logits), lambda logits, *_: entropy(logits))
    meeting = opening(surer)
    assert meeting is not None
    found = meet(surer, IMAGES, meeting, 30, trial())
    assert float(entropy(surer(found)).mean()) < float(ahead.value.mean()) - 0.5
    # It would take the place of a gate.
    decoy = ClosedGate((Place((False, 8)),), {(False, 4): None})
    assert opening(surer, gate=decoy) is None


@pytest.mark.parametrize("model", [stiff, pytest.param(in_turn, marks=pytest.mark.drill)])
def test_what_takes_patience_is_found_where_many_meet_and_nothing_opens(model: Callable[[Tensor], Tensor]) -> None:
    assert opening(model) is None
    meeting = opening(model, patience=7)
    assert meeting is not None
    assert meeting.patience == 7
    found = meet(model, IMAGES, meeting, 30, trial())
    assert float(entropy(model(found)).mean()) > 0.5 * math.log(CLASSES)


def test_an_ordinary_network_has_none() -> None:
    assert opening(ordinary) is None
    # No kinks, too few images, or kinks of pixels alone.
    assert opening(lambda images: images.flatten(1)[:, :20], steps=5) is None
    assert opening(planted, images=IMAGES[:1], some=IMAGES[:1], steps=5) is None
    assert opening(planted, some=IMAGES[:0], steps=5) is None
    assert opening(lambda images: torch.relu(images.flatten(1)), steps=5) is None


def test_what_a_gradient_reaches_as_well_is_no_meeting() -> None:
    def weak(images: Tensor) -> Tensor:
        return torch.relu(SURE + 120 * torch.relu((images.flatten(1) - 0.5) @ OF_PIXELS) @ OF_FEATURES)

    assert opening(weak) is None


def test_a_gate_beside_them_counts_where_it_leads_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the bands are projected of: where it says nothing all of them are shut.
    decoy = ClosedGate((Place((False, 23)),), {(False, 4): None})
    meeting = opening(planted, gate=decoy)
    assert meeting is not None
    plain = opening(planted)
    assert plain is not None
    assert [*meeting.spreads] == [*plain.spreads]
    ends = meet(planted, IMAGES[:6], meeting, 30, trial())
    monkeypatch.setattr(meeting_search, "follow", lambda *_: ends)
    assert opening(planted, gate=decoy) is None


def test_an_image_by_itself_may_go_another_way() -> None:
    def model(images: Tensor) -> Tensor:
        return ordinary(images) if len(images) > 1 else images.flatten(1)[:, :CLASSES]

    assert opening(model, steps=5) is None


def test_units_that_are_no_longer_there_move_nothing() -> None:
    gone = Meeting({Kink((False, 99)): torch.ones(40, dtype=torch.float64)})
    found = meet(planted, IMAGES, gone, 3, trial())
    assert float((found - IMAGES).abs().max()) <= RADIUS["linf"]
    torch.testing.assert_close(planted(found), planted(IMAGES), atol=1.0, rtol=0)
