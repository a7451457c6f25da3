"""Each way to look robust without being it gets its flag, and an honest model gets none."""

import math

import numpy as np
import torch

from tests.families.uncertainty_span.audits import DATA, IMAGES, NETWORK, Model, audit, network, parameters


def codes(result) -> set[str]:
    assert all(len(flag.message) > 80 for flag in result.flags)
    return {flag.code for flag in result.flags}


def test_an_honest_model_gets_no_flag() -> None:
    result, _ = audit(parameters(transfer_model="mdl_1"), NETWORK, DATA, models={"transfer_model": network(1)})
    assert codes(result) == set()
    assert result.estimates["mus_worst"].value >= result.estimates["mus"].value
    assert result.estimates["span_growth"].low > 0


def test_a_saturated_softmax_does_not_look_robust() -> None:
    honest, _ = audit(parameters(), NETWORK, DATA)
    result, done = audit(parameters(), Model(lambda x: NETWORK.logits(x) * 1e4, 4), DATA)
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    assert value["mus"] < 0.02
    assert {"saturated_logits"} <= codes(result)
    assert next(flag for flag in result.flags if flag.code == "saturated_logits").severity == "error"
    # On the boundary two classes tie, and the unmodified softmax has an entropy of log 2, whatever the logits' scale.
    crossed = np.asarray(done["tempered"]["crossed"])
    assert crossed.mean() > 0.4
    assert (np.asarray(done["tempered"]["entropy_under"])[crossed] > 0.6).all()
    assert value["mus[attack=tempered]"] > 0.4 * math.log(2)
    assert value["mus_worst"] >= value["mus[attack=tempered]"]
    assert value["mus_scaled"] > 0.5 * honest.estimates["mus"].value


def test_tempering_changes_nothing_about_an_image_outside_the_ball() -> None:
    seen = []

    def saturated(images: torch.Tensor) -> torch.Tensor:
        if len(images) == 40:
            seen.append((images.detach() - IMAGES).abs().max().item())
        return NETWORK.logits(images) * 1e4

    audit(parameters(), Model(saturated, 4), DATA, batch_size=40)
    assert max(seen) <= 0.2 + 1e-6  # the growth stage goes to twice epsilon


def test_masked_gradients_are_flagged() -> None:
    def quantised(images: torch.Tensor) -> torch.Tensor:
        return NETWORK.logits((images * 10).round() / 10)

    result, _ = audit(parameters(), Model(quantised, 4), DATA)
    assert codes(result) == {"zero_gradients", "attack_not_improving", "span_not_growing"}
    assert next(flag for flag in result.flags if flag.code == "zero_gradients").severity == "error"
    assert result.estimates["mus"].value == 0.0


def test_a_transferred_attack_that_does_better_is_flagged() -> None:
    def quantised(images: torch.Tensor) -> torch.Tensor:
        return NETWORK.logits((images * 20).round() / 20)

    result, done = audit(
        parameters(transfer_model="mdl_1"), Model(quantised, 4), DATA, models={"transfer_model": NETWORK}
    )
    assert "transfer_beats_white_box" in codes(result)
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    assert value["mus[attack=transfer]"] > value["mus"] + 0.2
    assert value["mus_worst"] >= value["mus[attack=transfer]"]
    assert (np.asarray(done["transfer"]["entropy_over"]) <= np.asarray(done["attack"]["entropy_clean"]) + 1e-12).all()


def test_a_gradient_that_points_nowhere_useful_is_flagged() -> None:
    class Misleading(torch.autograd.Function):
        """The identity, with a gradient that points the wrong way."""

        @staticmethod
        def forward(ctx, images):
            return images.clone()

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    result, _ = audit(parameters(), Model(lambda x: NETWORK.logits(Misleading.apply(x)), 4), DATA)
    assert "attack_not_improving" in codes(result)
    assert "zero_gradients" not in codes(result)
