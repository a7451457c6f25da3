"""Certificates of the parts of a draw's entropy: closed forms, a grid, attacks, and passes that agree."""

from functools import cache

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seatrial.contracts.estimates import metric_name
from seatrial.contracts.family import Situation
from seatrial.families.certified_calibration.class_narrative import class_findings
from seatrial.families.certified_calibration.spec import SPEC
from seatrial.families.certified_calibration.uncertainty import SMOOTHED
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.audits import IMAGES, LABELS, NETWORK, audit, measure, network, parameters
from tests.families.in_memory import Context
from tests.families.uncertainty_span.audits import ensemble
from workers.attacks.parts import PARTS
from workers.certification.class_scores import ClassScores, entropy_bounds
from workers.errors import PreflightError
from workers.families.certified_calibration.class_flags import SHOWN, passes_agree, span_not_shown
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import stages_of, uncertainty_column
from workers.families.protocol import DataInfo, Shard, TargetInfo

BOTH = ["aleatoric", "epistemic"]
HONEST = ensemble(*(network(seed).logits for seed in range(3)))
SMALL = IMAGES[:8], LABELS[:8]
ATTACKED = parameters(n=300, radii=[0.0, 0.1, 0.25], attack_steps=6, attack_draws=4,
                      uncertainty={"attack": True, "parts": BOTH})  # fmt: skip


@cache
def checked():
    return audit(ATTACKED, HONEST, SMALL)


def ends(done, part: str, radius: float) -> tuple[np.ndarray, np.ndarray]:
    low, high = (done["certify"][uncertainty_column(side, SMOOTHED[part], radius)] for side in ("low", "high"))
    return low.to_numpy(), high.to_numpy()


def halved(margin: np.ndarray) -> np.ndarray:
    """Return the entropy of sigmoid(margin)."""
    p = 1 / (1 + np.exp(-np.abs(margin)))
    return -p * np.log(p) - (1 - p) * np.log1p(-p)


def test_two_opposite_lines_have_the_certificate_of_their_closed_form() -> None:
    # Logits (0, m) and (0, -m) of a projection: the mean is even, so a draw's information is log 2 - H(sigmoid(m)).
    direction = torch.randn(16, generator=torch.Generator().manual_seed(5))
    direction /= direction.norm()

    def line(images: Tensor, sign: float) -> Tensor:
        margin = 4 * sign * ((images.flatten(1) - 0.5) @ direction)
        return torch.stack([torch.zeros_like(margin), margin], 1)

    # Some near the middle, where all perturbations matter; some so far out that no draw crosses it.
    at = torch.tensor([0.0, 0.05, -0.1, 0.2, 1.2, -1.2])
    images = 0.5 + at.view(-1, 1, 1, 1) * direction.view(1, 1, 4, 4)
    radii = [0.0, 0.1, 0.25]
    params = parameters(n=4000, radii=radii, noise="independent", uncertainty={"parts": BOTH})
    model = ensemble(lambda x: line(x, 1.0), lambda x: line(x, -1.0), classes=2)
    done = measure(params, model, (images, torch.zeros(6, dtype=torch.int64)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    for radius in radii:
        moved = at.numpy()[:, None] + np.linspace(-radius, radius, 41)
        unsure = halved(4 * (moved[..., None] + params.sigma * nodes)) @ (weights / weights.sum())
        for part, values in (("aleatoric", unsure), ("epistemic", np.log(2) - unsure)):
            low, high = ends(done, part, radius)
            assert np.all(low <= values.min(1))
            assert np.all(values.max(1) <= high)
            assert np.all(high <= np.log(2) + 1e-9)
            # Far out a draw's part grows with the projection alone, and the bound is attained: only the band is wide.
            assert np.all((high - values.max(1))[4:] < 0.06)
            assert np.all((values.min(1) - low)[4:] < 0.06)


def test_certificates_of_a_part_miss_no_more_often_than_said() -> None:
    """The information of two opposite lines at alpha 0.1, against every perturbation; half as wide it misses more."""
    rng, alpha, sigma, draws, repeats = np.random.default_rng(3), 0.1, 0.25, 200, 400
    at = rng.normal(0, 0.3, repeats)
    drawn = np.log(2) - halved(4 * (at[:, None] + sigma * rng.normal(size=(repeats, draws))))
    counted = ClassScores(repeats, 2, torch.device("cpu"), parts=[np.log(2)])
    counted.add(torch.arange(repeats), torch.zeros(repeats, draws, 2), torch.from_numpy(drawn)[..., None].float())
    shifts = np.array([0.0, 0.5])
    low, high = entropy_bounds(counted, np.full(repeats, alpha), shifts, 0.0, 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    missed, halved_missed = np.zeros((2, repeats), dtype=bool)
    for number, shift in enumerate(shifts):
        moved = at[:, None] + np.linspace(-1, 1, 9) * shift * sigma
        truth = np.log(2) - halved(4 * (moved[..., None] + sigma * nodes)) @ (weights / weights.sum())
        ends = low[:, number], high[:, number]
        quarter = (ends[1] - ends[0]) / 4
        missed |= (truth.min(1) < ends[0]) | (truth.max(1) > ends[1])
        halved_missed |= (truth.min(1) < ends[0] + quarter) | (truth.max(1) > ends[1] - quarter)
    allowed = alpha + 3 * np.sqrt(alpha * (1 - alpha) / repeats)
    assert missed.mean() <= allowed < halved_missed.mean()


def test_no_perturbation_on_a_grid_leaves_the_certificates() -> None:
    """Of two pixels: the mean part of a draw by quadrature, at every perturbation of a disc."""
    generator = torch.Generator().manual_seed(5)
    hidden, outer = torch.randn(3, 8, 2, generator=generator) * 4, torch.randn(3, 3, 8, generator=generator)
    members = [lambda x, i=i: torch.relu((x.flatten(1) - 0.5) @ hidden[i].T) @ outer[i].T for i in range(3)]
    images = 0.3 + 0.4 * torch.rand(8, 1, 1, 2, generator=generator)
    params = parameters(n=1000, radii=[0.25], noise="independent", uncertainty={"parts": BOTH})
    done = measure(params, ensemble(*members, classes=3), (images, torch.zeros(8, dtype=torch.int64)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    drawn = params.sigma * torch.from_numpy(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)).float()
    weight = torch.from_numpy(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    angles, norms = torch.arange(16) * np.pi / 8, torch.tensor([0.0, 0.125, 0.25])
    ball = torch.cat([norm * torch.stack([angles.cos(), angles.sin()], 1) for norm in norms]).float()
    for row, image in enumerate(images):
        points = image.flatten() + ball[:, None] + drawn
        logits = torch.stack([member(points.reshape(-1, 2)) for member in members], 1)
        for part in BOTH:
            reached = (PARTS[part](logits).view(len(ball), -1) @ weight).numpy()
            low, high = (end[row] for end in ends(done, part, 0.25))
            assert low <= reached.min() + 1e-6
            assert reached.max() - 1e-6 <= high
            # A bound that says nothing would hold too.
            assert high - low < 0.9 * np.log(3)


def test_an_attack_on_a_part_moves_it_and_stays_within_its_certificate() -> None:
    result, done = checked()
    for part, name in SMOOTHED.items():
        clean = done["certify"][metric_name("uncertainty", uncertainty=name)].to_numpy()
        for radius in (0.1, 0.25):
            raised, lowered = (
                done[stage][metric_name("uncertainty", uncertainty=name, radius=radius)].to_numpy()
                for stage in stages_of(name)
            )
            assert (raised > clean).mean() > 0.7
            assert (lowered < clean).mean() > 0.7
            low, high = ends(done, part, radius)
            assert np.all(raised <= high)
            assert np.all(lowered >= low)
            spans = [
                result.estimates[metric_name(one, uncertainty=name, radius=radius)]
                for one in ("attacked_span", "certified_span")
            ]
            assert 0 < spans[0].value < spans[1].value
            assert spans[1].value == pytest.approx((high - low).mean())
            # Attacks on the entropy of the mean scores do less to it than those on itself.
            others = [
                done[stage][metric_name("uncertainty", uncertainty=name, radius=radius)].to_numpy()
                for stage in stages_of("entropy")
            ]
            assert spans[0].value > (others[0] - others[1]).mean()
    assert not {"attack_beyond_span", "passes_agree"} & {flag.code for flag in result.flags}
    assert result.counts["passes"] == 3


def test_certificates_of_a_part_that_are_too_narrow_are_caught(monkeypatch) -> None:
    _, done = checked()
    table, name = done["certify"], uncertainty_column("high", "smoothed_epistemic", 0.25)
    low, _ = ends(done, "epistemic", 0.25)
    table = table.set_column(table.column_names.index(name), name, [low])
    again = {**done}
    images, labels = SMALL
    monkeypatch.setattr("tests.families.in_memory.Books.records", lambda self, stage: table)
    for stage in stages_of("smoothed_epistemic"):
        shard = Shard(stage, 0, len(images))
        again[stage] = FAMILY.run(ATTACKED, shard, Context(HONEST, (images, labels), shard, 16, len(images)))
    assert "attack_beyond_span" in {flag.code for flag in FAMILY.reduce(ATTACKED, again, 0).flags}


def test_parts_change_nothing_else_and_ask_the_passes_no_more() -> None:
    asked = []

    def counted(images: Tensor) -> Tensor:
        asked.append(len(images))
        return NETWORK.logits(images)

    seen = []
    for parts in ([], BOTH):
        asked.clear()
        params = parameters(n=300, radii=[0.1], uncertainty={"parts": parts})
        model = ensemble(counted, network(1).logits)
        result, done = audit(params, model, SMALL, shards=2 if parts else 1)
        seen.append((sum(asked), result, done["certify"]))
    assert seen[0][0] == seen[1][0]
    names = seen[0][2].column_names
    assert seen[1][2].select(names).equals(seen[0][2])
    assert not any("aleatoric" in name or name == "passes" for name in names)
    for name, estimate in seen[0][1].estimates.items():
        assert seen[1][1].estimates[name] == estimate
    # No more passes than priced, with the attack on each part.
    plain = ATTACKED.model_copy(update={"uncertainty": ATTACKED.uncertainty.model_copy(update={"parts": []})})
    assert ATTACKED.passes(10, {}).backward == 3 * plain.passes(10, {}).backward


def test_a_model_of_one_pass_has_no_parts() -> None:
    params = parameters(uncertainty={"parts": ["epistemic"]})

    def misfits(passes):
        situation = Situation("mdl_1", "image-classification", [1, 4, 4], 24, {}, 10**9, passes=passes)
        return [one.parameter for one in SPEC.misfits(params, situation)]

    assert misfits(2) == []
    assert misfits(1) == ["uncertainty/parts"]
    with pytest.raises(PreflightError, match="this model has one") as refused:
        FAMILY.preflight(TargetInfo(4, None, (1, 4, 4), classifier=NETWORK), DataInfo(24, 4, 0.75), params)
    assert refused.value.problem.field == "uncertainty/parts"
    FAMILY.preflight(TargetInfo(4, None, (1, 4, 4), classifier=HONEST), DataInfo(24, 4, 0.75), params)
    with pytest.raises(ValidationError, match="must differ"):
        parameters(uncertainty={"parts": ["epistemic", "epistemic"]})


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (ensemble(NETWORK.logits, NETWORK.logits), "agree on noisy copies"),
        (ensemble(NETWORK.logits, lambda x: 1.01 * NETWORK.logits(x)), "agree on noisy copies"),
        (ensemble(*(lambda x, k=k: 0 * NETWORK.logits(x) + 20 * torch.eye(4)[k] for k in range(2))), "disagree alike"),
        (HONEST, None),
    ],
)
def test_an_epistemic_part_of_nothing_is_not_sold_as_robust(model, told) -> None:
    params = parameters(n=300, radii=[0.0, 0.1], uncertainty={"parts": ["epistemic"]})
    done = measure(params, model, SMALL)
    flags = passes_agree(params, Sample(done["certify"]))
    assert [flag.severity for flag in flags] == ([] if told is None else ["warning"])
    assert told is None or told in flags[0].message
    # Other parts are not spoken of.
    assert passes_agree(parameters(uncertainty={}), Sample(done["certify"])) == []


def test_the_report_draws_and_says_what_is_certified_of_parts() -> None:
    result, _ = checked()
    told = [*class_findings(result, 0.25)]
    for part in BOTH:
        [said] = [one for one in told if f"its {part} part" in one]
        assert "over 3 passes" in said
        assert "an attack on it moved it by" in said
    drawn = FAMILY.figures(ATTACKED, result)["span"]
    assert "its epistemic part" in drawn
    assert "its epistemic part" not in FAMILY.figures(parameters(radii=ATTACKED.radii, uncertainty={}), result)["span"]


def test_a_part_whose_attack_reached_little_is_told() -> None:
    result, _ = checked()
    span, name = (
        metric_name(one, uncertainty="smoothed_epistemic", radius=0.25) for one in ("certified_span", "attacked_span")
    )
    for times, is_told in ((1.01, False), (0.99, True)):
        reached = result.estimates[span].value / SHOWN * times
        changed = {**result.estimates, name: result.estimates[name].model_copy(update={"value": reached})}
        messages = " ".join(flag.message for flag in span_not_shown(ATTACKED, changed))
        assert (f"of smoothed_epistemic against {reached:.3g} at 0.25" in messages) == is_told
