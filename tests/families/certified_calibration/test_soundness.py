"""What a check says of the grid its certificates are on, and what it does with models that would cheat it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seatrial.families.certified_calibration.params import BOUNDS
from seatrial.statistics.exact import clopper_pearson_lower
from tests.families.certified_calibration.audits import DATA, IMAGES, NETWORK, audit, measure, parameters
from tests.families.in_memory import Context, Data, Model
from workers.certification.grid import GRID, to_grid, to_pixels
from workers.families.certified_calibration.certify import Certifier
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import column_of
from workers.families.contexts import Records
from workers.families.protocol import Shard

SMALL = parameters(n=400, radii=[0.0, 0.1])


def certify(model: Model, data: Data, digest: str) -> Records:
    """Return the records of a shard of a model with a digest."""
    return FAMILY.run(SMALL, (shard := Shard("certify", 0, len(data[0]))), context(model, data, digest, shard))


def context(model: Model, data: Data, digest: str, shard: Shard) -> Context:
    return Context(model, data, shard, 16, len(data[0]), model_digest=digest)


def test_8_bit_images_are_certified_as_they_are() -> None:
    eight_bits = (IMAGES * 255).round() / 255
    result, done = audit(SMALL, NETWORK, (eight_bits, DATA[1]))
    assert set(done["certify"]["rounding"].to_pylist()) == {0.0}
    assert "rounded_to_grid" not in {flag.code for flag in result.flags}
    assert result.series["noise"] == {
        "grid": 16320,
        "distance": done["certify"]["noise_distance"].to_pylist()[0],
        "rounded": 0,
        "furthest": 0.0,
    }


def test_images_in_other_numbers_are_rounded_to_the_grid_and_it_is_said() -> None:
    result, done = audit(SMALL, NETWORK, DATA)
    moved = np.array(done["certify"]["rounding"].to_pylist())
    expected = (IMAGES.double() - to_grid(IMAGES).double() / GRID).flatten(1).norm(dim=1)
    assert moved == pytest.approx(expected.numpy(), rel=0.02)
    assert (moved <= 4 * 0.5 / GRID).all()
    [told] = [flag.message for flag in result.flags if flag.code == "rounded_to_grid"]
    assert "24 of 24 images have values off the grid of 1/16,320" in told
    assert f"at most {moved.max():.2g}" in told
    # The rounded images have the same certificates, and nothing is said of them.
    again, same = audit(SMALL, NETWORK, (to_pixels(to_grid(IMAGES)), DATA[1]))
    assert same["certify"]["p_lower"].equals(done["certify"]["p_lower"])
    assert again.series["noise"]["rounded"] == 0


def test_bounds_of_probabilities_allow_for_the_law_of_the_draws() -> None:
    certified = measure(SMALL, NETWORK, DATA)["certify"]
    hits, draws, off, p_lower = (certified[name].to_numpy() for name in ("hits", "draws", "noise_distance", "p_lower"))
    assert (off > 0).all()
    assert (p_lower == np.maximum(clopper_pearson_lower(hits, draws, alpha=SMALL.alpha) - off, 0)).all()


def test_a_model_that_knows_the_draws_has_other_draws_for_knowing_them() -> None:
    """It has class 1 for noise it was made with, and class 0 for all other: an overfitted certificate."""
    image, label = IMAGES[:1], torch.ones(1, dtype=torch.int64)

    def knows(digest: str) -> Model:
        asking = Certifier(SMALL, context(NETWORK, (image, label), digest, Shard("certify", 0, 1)))
        drawn = [asking.noise(purpose, image).draws(0, SMALL.n) for purpose in ("selection", "estimation")]
        known = {copy.numpy().tobytes() for copy in to_pixels(to_grid(image) + torch.cat(drawn))}

        def logits(images: Tensor) -> Tensor:
            is_known = torch.tensor([copy.contiguous().numpy().tobytes() in known for copy in images]).float()
            return torch.stack([1 - is_known, is_known], 1)

        return Model(logits, 2)

    overfitted = knows("sha256:a")
    assert certify(overfitted, (image, label), "sha256:a")["certified_class"].to_pylist() == [1]
    # The file of the model that knows them is another file.
    assert certify(overfitted, (image, label), "sha256:b")["certified_class"].to_pylist() == [0]


def test_what_depends_on_its_batch_is_certified_nowhere_and_an_error() -> None:
    def averaging(images: Tensor) -> Tensor:
        return NETWORK.logits(images.mean(0, keepdim=True)).expand(len(images), -1)

    result, done = audit(SMALL, Model(averaging, 4), DATA)
    dependent = np.array(done["certify"]["batch_dependent"].to_pylist())
    assert dependent.mean() > 0.5
    for name, value in (("radius", 0.0), ("certified_class", -1), ("predicted_class", -1), ("p_lower", 0.0)):
        assert set(done["certify"][name].to_numpy()[dependent]) == {value}
    for bound in BOUNDS:
        for side, value in (("lower", 0.0), ("upper", 1.0)):
            assert set(done["certify"][column_of(side, bound, 0.1)].to_numpy()[dependent]) == {value}
    [flag] = [flag for flag in result.flags if flag.code == "batch_dependent"]
    assert flag.severity == "error"
    assert f"On {dependent.sum()} of 24 examples" in flag.message


@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["float32", "bfloat16"])
def test_an_ordinary_model_does_not_depend_on_its_batch(autocast: torch.dtype | None) -> None:
    result, done = audit(SMALL, NETWORK, DATA, autocast=autocast)
    assert set(done["certify"]["batch_dependent"].to_pylist()) == {False}
    assert "batch_dependent" not in {flag.code for flag in result.flags}
