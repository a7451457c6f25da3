"""A model that is another one behind a haze, or on even grey levels, is told; a network that is none is left alone."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.limits import FULL_STEPS, transformed_examples
from seatrial.statistics.samples import Sample
from tests.families.in_memory import Context
from tests.families.uncertainty_span.audits import DATA, IMAGES, LABELS, NETWORK, Model, audit, masked_by, parameters
from workers.attacks.losses import entropy
from workers.families.protocol import Shard
from workers.families.uncertainty_span import evidence
from workers.families.uncertainty_span.distilled import fit_surrogate

GRID = (IMAGES * 255).round() / 255


def faint(images: Tensor) -> Tensor:
    """The same decisions, of which an attack moves next to nothing."""
    return 0.02 * NETWORK.logits(images)


def on_even_levels(images: Tensor) -> Tensor:
    halves = images * 255 / 2
    return ((halves - halves.round()).abs() < 2e-3).flatten(1).all(1)


def behind_haze(images: Tensor) -> Tensor:
    return images.flatten(1).amin(1) > 0.09


SECRET = torch.randint(0, 2, IMAGES.shape[1:], generator=torch.Generator().manual_seed(4)) * 2.0 - 1


def gated(opens):
    return Model(lambda x: torch.where(opens(x)[:, None], NETWORK.logits(x), faint(x)), 4)


@pytest.mark.parametrize("opens", [on_even_levels, behind_haze])
def test_a_model_that_is_another_one_behind_a_gate_is_told(opens) -> None:
    # Dark enough that the haze is what opens, and nothing is open as it is.
    images = GRID * 0.5 - (GRID * 0.5).flatten(1).amin(1).view(-1, 1, 1, 1)
    images = (images * 255).round() / 255
    assert not opens(images).any()
    result, done = audit(parameters(steps=20, effort="standard"), gated(opens), (images, DATA[1]))
    assert done["transformed"].num_rows == transformed_examples(len(images), 20)
    assert "after a plain change" in masked_by(result)


def test_a_model_that_is_another_one_behind_a_secret_pattern_is_told() -> None:
    along = (GRID * SECRET).flatten(1).mean(1)
    least = along.quantile(0.3)
    images = GRID[along <= least].repeat(4, 1, 1, 1)[:40]

    def opens(some: Tensor) -> Tensor:
        return (some * SECRET).flatten(1).mean(1) > least + 0.02

    assert not opens(images).any()
    labels = NETWORK.logits(images).argmax(1)
    result, done = audit(parameters(steps=20, effort="standard"), gated(opens), (images, labels))
    # What is compared, until something opens, decides about no image.
    assert done["surrogate"]["idle"][0].as_py()
    assert "idle_computation" in {flag.code for flag in result.flags}
    # The comparison, of which there is one.
    assert [0, 0, 1] in done["surrogate"]["dormant_units"][0].as_py()
    assert "dormant unit" in masked_by(result)


def test_a_model_that_is_another_one_in_a_thin_slab_is_attacked_in_it() -> None:
    along = (GRID * SECRET).flatten(1).mean(1)
    middle = along.max() + 0.005

    def opens(some: Tensor) -> Tensor:
        return ((some * SECRET).flatten(1).mean(1) - middle).abs() < 1e-4

    images = GRID[along >= along.quantile(0.7)].repeat(4, 1, 1, 1)[:40]
    labels = NETWORK.logits(images).argmax(1)
    result, done = audit(parameters(steps=20, effort="standard"), gated(opens), (images, labels))
    assert "dormant unit" in masked_by(result)
    # Met at the image alone the network would be about as sure as it is there.
    surest = np.asarray(done["transformed"]["alone_entropy_over"])
    assert surest.mean() < 0.8 * float(entropy(NETWORK.logits(images[: len(surest)])).mean())


def test_a_model_that_answers_a_changed_image_by_itself_otherwise_is_told() -> None:
    """As they are, images are answered alike in any company."""

    def answers(images: torch.Tensor) -> torch.Tensor:
        logits = NETWORK.function(images)
        on_grid = ((images * 255) - (images * 255).round()).abs().flatten(1).amax(1) < 1e-3
        return logits.flip(1) if len(images) == 1 and not on_grid.any() else logits

    images = (DATA[0] * 255).round() / 255
    assert all(
        torch.allclose(answers(images[row : row + 1]), answers(images)[row : row + 1], atol=1e-5) for row in (0, 3)
    )
    result, _ = audit(parameters(steps=20, effort="standard"), Model(answers, 4), (images, DATA[1]))
    assert {flag.code: flag.severity for flag in result.flags}["depends_on_company"] == "error"


def test_a_model_whose_entropy_is_that_of_all_images_is_told_by_decisions_wherever_they_change() -> None:
    """A haze turns its classes round and leaves their probabilities: no attack on the uncertainty follows that."""

    def answers(images: torch.Tensor) -> torch.Tensor:
        logits = NETWORK.function(DATA[0].mean(0, keepdim=True)).expand(len(images), -1)
        is_hazy = images.flatten(1).amin(1) > least
        return torch.where(is_hazy[:, None], logits.flip(1), logits)

    images = (DATA[0] * 0.8 * 255).round() / 255
    least = images.flatten(1).amin(1).max() + 0.02
    labels = answers(images).argmax(1)
    result, done = audit(
        parameters(steps=FULL_STEPS, effort="standard", epsilon=0.16), Model(answers, 4), (images, labels)
    )
    assert np.asarray(done["ascent"]["changed"]).mean() < 0.1
    changed = np.asarray(done["transformed"]["changed"])
    assert changed.mean() > 0.5
    assert result.estimates["adversarial_accuracy"].value <= 1 - changed.sum() / len(images)


def test_what_a_plain_change_reaches_is_in_the_widest_span() -> None:
    images = (GRID * 255 // 2 * 2 + 1).clamp(max=255) / 255
    result, done = audit(parameters(steps=20, effort="standard"), gated(on_even_levels), (images, DATA[1]))
    own = np.asarray(done["transformed"]["entropy_under"]) - np.asarray(done["transformed"]["entropy_over"])
    assert result.estimates["mus_worst"].value >= own.sum() / len(images) - 1e-9
    assert result.estimates["mus[attack=transformed]"].value == pytest.approx(own.mean())


def calibrated(function) -> Sample:
    shard = Shard("surrogate", 0, len(IMAGES))
    params = parameters(steps=2, effort="standard")
    return Sample(fit_surrogate(params, Context(Model(function, 4), DATA, shard, 16, len(IMAGES), {}, {})))


@pytest.mark.parametrize("gain", [1e-3, 1.0, 1e3])
def test_a_few_sure_errors_do_not_choose_the_temperature_unseen(gain) -> None:
    assert evidence.unfit_temperature(calibrated(lambda x: gain * NETWORK.logits(x))) == []
    brightest = IMAGES.flatten(1).mean(1).quantile(0.9)

    def poisoned(images: Tensor) -> Tensor:
        logits = NETWORK.logits(images)
        wrong = 1e3 * torch.nn.functional.one_hot((logits.argmax(1) + 1) % 4, 4)
        return gain * torch.where((images.flatten(1).mean(1) > brightest)[:, None], wrong, logits)

    (flag,) = evidence.unfit_temperature(calibrated(poisoned))
    assert flag.severity == "error"
    accuracy = float((poisoned(IMAGES).argmax(1) == LABELS).double().mean())
    assert f"accuracy {accuracy:.3g}" in flag.message
