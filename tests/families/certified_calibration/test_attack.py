"""Attacks on a smoothed confidence inside the certified radius: attack <= certificate."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seatrial.families.certified_calibration.params import BOUNDS, PROBES
from tests.families.certified_calibration.audits import DATA, IMAGES, NETWORK, audit, measure, parameters
from tests.families.in_memory import Context, Model
from workers.attacks.ace import ETA_OMEGA, eta_omega
from workers.attacks.pgd import PGD
from workers.attacks.smoothed import smoothed_logits
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import column_of
from workers.families.contexts import Records
from workers.families.protocol import Shard

ATTACKS = list(ETA_OMEGA)

Floats = NDArray[np.float64]


def columns(records: Records) -> dict[str, Floats]:
    """Return every column as float64, null as NaN."""
    return {
        name: np.array([np.nan if value is None else value for value in records[name].to_pylist()], dtype=np.float64)
        for name in records.column_names
    }


def is_certified(certify: dict[str, Floats], radius: float) -> NDArray[np.bool_]:
    return (certify["abstained"] == 0) & (certify["radius"] >= radius)


@pytest.fixture(scope="module")
def attacked() -> tuple[Any, dict[str, Any], Any]:
    params = parameters(
        n=4000, ace_attacks=ATTACKS, attack_radius=0.1, attack_steps=10, attack_draws=32, solvers=["exact"]
    )
    result, done = audit(params, NETWORK, DATA)
    return result, {name: columns(table) for name, table in done.items()}, params


@pytest.fixture(scope="module")
def tables(attacked: Any) -> dict[str, Any]:
    return attacked[1]


@pytest.mark.slow
def test_those_certified_at_the_radius_are_attacked_and_nobody_else(tables: Any) -> None:
    certified = is_certified(tables["certify"], 0.1)
    assert 5 < certified.sum() < len(certified)
    for name in ATTACKS:
        assert ((tables[name]["attacked"] == 1) == certified).all()
        assert (np.isfinite(tables[name]["confidence"]) == certified).all()


def test_an_attack_stays_within_its_radius(tables: Any) -> None:
    for name in ATTACKS:
        distances = tables[name]["distance"][tables[name]["attacked"] == 1]
        assert (distances <= 0.1 * (1 + 1e-5)).all()
        assert distances.max() > 0.08


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attacked_confidence_leaves_its_certified_interval(tables: Any, name: str) -> None:
    certify, attack = tables["certify"], tables[name]
    slack = 5 * attack["standard_error"]
    for bound in BOUNDS:
        lower, upper = (certify[column_of(side, bound, 0.1)] for side in ("lower", "upper"))
        known = attack["attacked"] == 1
        assert (attack["confidence"] >= lower - slack)[known].all()
        assert (attack["confidence"] <= upper + slack)[known].all()


def test_attacks_move_confidence_their_way(tables: Any) -> None:
    before = tables["certify"]["confidence"]
    known = tables["ace_lower_predicted"]["attacked"] == 1
    lowered = (tables["ace_lower_predicted"]["confidence"] - before)[known]
    raised = (tables["ace_raise_predicted"]["confidence"] - before)[known]
    assert lowered.mean() < -0.05
    assert raised.mean() > 0.02


def test_calibration_under_attack_is_below_the_certificate(attacked: Any) -> None:
    estimates = attacked[0].estimates
    for name in ATTACKS:
        assert estimates[f"ece[attack={name},radius=0.1]"].value <= estimates["cce[radius=0.1]"].value
        assert estimates[f"brier[attack={name},radius=0.1]"].value <= estimates["cbs[radius=0.1]"].value


@pytest.mark.drill
@pytest.mark.slow
def test_many_draws_and_many_steps_do_not_beat_the_certificate() -> None:
    """A direct attack, without the family: 256 draws a step, judged on 20,000 fresh draws."""
    params = parameters(n=20_000, solvers=["exact"])
    certify = columns(measure(params, NETWORK, DATA)["certify"])
    chosen = np.flatnonzero(is_certified(certify, 0.1))[:6]
    classes = torch.as_tensor(certify["candidate"][chosen].astype(np.int64))
    generator = torch.Generator().manual_seed(11)
    draws = 0.25 * torch.randn(256, 1, 4, 4, generator=generator)
    fresh = 0.25 * torch.randn(20_000, 1, 4, 4, generator=generator)
    # Pixels may leave [0, 1] under a certificate, so the attack may too.
    search = PGD("l2", epsilon=0.1, step_size=0.02, steps=12, box=(-10.0, 10.0))
    for eta, end in ((1, "lower"), (-1, "upper")):
        outcome = search.run(
            [lambda noisy: smoothed_logits(NETWORK.logits, draws, noisy)], IMAGES[chosen], eta_omega(eta, classes)
        )
        for row, image, label in zip(chosen, outcome.best, classes, strict=True):
            scores = NETWORK.logits(image + fresh).softmax(1)[:, label].double()
            error = 5 * float(scores.std()) / len(fresh) ** 0.5
            certified = certify[column_of(end, "cdf", 0.1)][row]
            reached = float(scores.mean())
            assert reached >= certified - error if end == "lower" else reached <= certified + error


@pytest.mark.parametrize("noise", ["shared", "independent"])
def test_no_draw_of_noise_serves_two_purposes(noise: str) -> None:
    """Selection, estimation, search and what the search found are independent: guarantees rest on the first two."""
    seen: list[bytes] = []

    def sure(images: torch.Tensor) -> torch.Tensor:
        seen.extend(image.numpy().tobytes() for image in images.detach())
        # Without a gradient the image stays where it is, and only noise tells what the model is given apart.
        return torch.tensor([9.0, 0.0]).expand(len(images), 2)

    params = parameters(n=200, ace_attacks=["ace_lower_true"], attack_radius=0.1, attack_steps=3, attack_draws=16)
    audit(params.model_copy(update={"noise": noise}), Model(sure, 2), (IMAGES[:1], torch.zeros(1, dtype=torch.int64)))
    # n0 and n draws, some of the n0 once more, one without noise, those of the search at every step, and n again.
    assert len(set(seen)) == 50 + 200 + 1 + 16 + 200
    assert len(seen) == 50 + 200 + PROBES + 1 + 4 * 16 + 200


def test_the_standard_error_is_that_of_as_many_draws() -> None:
    """Without a gradient the image stays where it is, so that the scores can be drawn again."""
    still = Model(lambda images: NETWORK.logits(images.detach()), 4)
    params = parameters(n=500, ace_attacks=["ace_lower_true"], attack_radius=0.1, attack_steps=1, attack_draws=2)
    done = {name: columns(table) for name, table in measure(params, still, DATA).items()}
    certify, attack = done["certify"], done["ace_lower_true"]
    fresh = 0.25 * torch.randn(4000, 1, 4, 4, generator=torch.Generator().manual_seed(5))
    chosen = np.flatnonzero(attack["attacked"])
    assert len(chosen) > 3
    for row in chosen:
        scores = NETWORK.logits(IMAGES[row] + fresh).softmax(1)[:, int(certify["candidate"][row])]
        assert attack["standard_error"][row] == pytest.approx(float(scores.std()) / 500**0.5, rel=0.35)


@pytest.mark.slow
def test_what_is_not_finite_under_attack_is_errored_alone() -> None:
    params = parameters(n=500, ace_attacks=["ace_lower_true"], attack_radius=0.1, attack_steps=1, attack_draws=2)
    done = measure(params, NETWORK, DATA)
    certified = np.flatnonzero(is_certified(columns(done["certify"]), 0.1))
    marked = IMAGES.clone()
    marked[certified[0], 0, 0, 0] = 9.0
    breaks = Model(
        lambda x: torch.where(x.flatten(1)[:, :1] > 5, torch.nan, NETWORK.logits(x)),
        4,
    )
    context = Context(breaks, (marked, DATA[1]), Shard("ace_lower_true", 0, 24), 24, 24, done=done)
    attack = columns(FAMILY.run(params, context.shard, context))
    assert np.flatnonzero(attack["errored"]).tolist() == [certified[0]]
    assert np.flatnonzero(np.isfinite(attack["confidence"])).tolist() == certified[1:].tolist()


def test_cancelling_need_not_wait_for_a_step() -> None:
    class Stop(Exception):
        pass

    passes = 0

    class Stoppable(Context):
        def check_cancelled(self) -> None:
            nonlocal passes
            passes += 1
            if passes == stop_at:
                raise Stop

    params = parameters(n=200, ace_attacks=["ace_lower_true"], attack_radius=0.1, attack_steps=3, attack_draws=16)
    done = measure(params, NETWORK, DATA)
    # In the first step's forward pass, and in its backward pass.
    for stop_at in (10, 25):
        passes = 0
        context = Stoppable(NETWORK, DATA, Shard("ace_lower_true", 0, 24), 24, 24, done=done)
        with pytest.raises(Stop):
            FAMILY.run(params, context.shard, context)
        assert passes == stop_at


@pytest.mark.slow
def test_no_cut_changes_an_attack_beyond_its_batches() -> None:
    params = parameters(n=500, ace_attacks=["ace_lower_true"], attack_radius=0.1, attack_steps=3, attack_draws=4)
    once = measure(params, NETWORK, DATA)["ace_lower_true"]
    again = measure(params, NETWORK, DATA, shards=2)["ace_lower_true"]
    assert again.equals(once)
