"""Each way to look robust without being it gets its flag, and an honest model gets none."""

import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from seatrial.families.uncertainty_span.flags import FLAGS
from seatrial.families.uncertainty_span.inside import GRADIENT_EXAMPLES
from seatrial.families.uncertainty_span.limits import looked_examples
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    NETWORK,
    Context,
    Model,
    audit,
    measure,
    network,
    parameters,
)
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted
from workers.families.protocol import Shard
from workers.families.uncertainty_span import flags
from workers.families.uncertainty_span.tempered import attack_tempered


def codes(result) -> set[str]:
    assert all(len(flag.message) > 80 for flag in result.flags)
    return {flag.code for flag in result.flags} - {"quick_effort", "few_steps"}


@pytest.mark.parametrize("effort", ["quick", "standard"])
def test_an_honest_model_gets_no_flag_but_for_a_short_check(effort) -> None:
    params = parameters(transfer_model="mdl_1", effort=effort)
    result, _ = audit(params, NETWORK, DATA, models={"transfer_model": network(1)})
    expected = ["quick_effort", "few_steps"] if effort == "quick" else ["few_steps"]
    assert [(flag.code, flag.severity) for flag in result.flags] == [(code, "warning") for code in expected]
    assert result.estimates["mus_worst"].value >= result.estimates["mus"].value
    assert result.estimates["span_growth"].low > 0


def test_attacks_too_short_to_say_anything_are_flagged_whatever_the_effort() -> None:
    for steps, told in ((99, ["few_steps"]), (100, [])):
        assert [one.code for one in flags.few_steps(parameters(steps=steps, effort="thorough"))] == told


def test_what_a_network_could_not_be_followed_through_is_flagged_by_name() -> None:
    def surrogate(*names: str) -> pa.Table:
        return pa.table({"unfollowed": pa.array([list(names), None], pa.list_(pa.string()))})

    assert flags.unfollowed(None) == flags.unfollowed(pa.table({"agrees": [True]})) == []
    assert flags.unfollowed(surrogate()) == []
    (flag,) = flags.unfollowed(surrogate("embedding", "rows"))
    assert (flag.code, flag.severity) == ("unfollowed_operations", "warning")
    assert "through embedding and few numbers that are of no one image: " in flag.message


def test_what_a_network_computes_inside_is_flagged_by_name() -> None:
    def surrogate(idle: list[str], swinging: list[str]) -> pa.Table:
        return pa.table(
            {"idle": pa.array([idle], pa.list_(pa.string())), "swinging": pa.array([swinging], pa.list_(pa.string()))}
        )

    assert flags.inside(None) == flags.inside(pa.table({"agrees": [True]})) == flags.inside(surrogate([], [])) == []
    (flag,) = flags.inside(surrogate(["sub", "relu"], []))
    assert (flag.code, flag.severity) == ("idle_computation", "warning")
    assert "computes by sub and relu somewhere" in flag.message
    (flag,) = flags.inside(surrogate([], ["sin"]))
    assert (flag.code, flag.severity) == ("swinging_computation", "warning")
    assert "computes by sin somewhere" in flag.message


def test_images_that_are_answered_otherwise_by_themselves_are_flagged_by_how_far() -> None:
    columns = {"idle": pa.array([[]], pa.list_(pa.string())), "swinging": pa.array([[]], pa.list_(pa.string()))}
    for difference, told in ((None, []), (0.7, ["depends_on_company"])):
        found = flags.inside(pa.table(columns | {"company_difference": pa.array([difference], pa.float64())}))
        assert [flag.code for flag in found] == told
    assert "changed images have log probabilities that differ by up to 0.7" in found[0].message


def test_gradients_that_the_network_does_not_follow_are_flagged_by_both_numbers() -> None:
    columns = {"idle": pa.array([[]], pa.list_(pa.string())), "swinging": pa.array([[]], pa.list_(pa.string()))}

    def found(agreements: list[float] | None) -> list:
        return flags.inside(pa.table(columns | {"gradient_agreements": pa.array([agreements], pa.list_(pa.float64()))}))

    assert found(None) == found([]) == found([1.0] * 40) == []
    # The interval of 22 of 32 begins at .4999, of 23 at .53.
    assert found([0.49] * 22 + [0.9] * 10) == found([0.5] * 32) == found([0.0] * 3) == []
    (flag,) = found([0.12] * 23 + [0.9] * 9)
    assert (flag.code, flag.severity) == ("failed_gradient_check", "error")
    assert "At 23 of 32 images" in flag.message
    assert "is 12% of the larger" in flag.message


def test_slopes_that_are_gone_a_small_step_away_are_flagged_where_they_are_of_more_than_few() -> None:
    columns = {"idle": pa.array([[]], pa.list_(pa.string())), "swinging": pa.array([[]], pa.list_(pa.string()))}
    columns["gradient_agreements"] = pa.array([[1.0] * 64], pa.list_(pa.float64()))

    def found(slopes: list[float] | None) -> list:
        return flags.inside(pa.table(columns | {"kept_slopes": pa.array([slopes], pa.list_(pa.float64()))}))

    assert flags.inside(pa.table(columns)) == found(None) == found([]) == found([0.9] * 32) == []
    # The interval of 9 of 32 begins at .137, of 10 at .161.
    assert found([-1.0] * 9 + [0.9] * 23) == found([0.5] * 32) == []
    (flag,) = found([0.1] * 10 + [0.9] * 22)
    assert (flag.code, flag.severity) == ("failed_gradient_check", "error")
    assert "At 10 of 32 images" in flag.message
    assert "nowhere but at the image itself" in flag.message


def test_a_network_whose_gradients_float32_makes_up_is_told() -> None:
    def lying(images: torch.Tensor) -> torch.Tensor:
        return NETWORK.function(images + ((-2 * images + 1e8) - 1e8))

    assert torch.equal(lying(IMAGES), NETWORK.logits(IMAGES))
    for model, told in ((Model(lying, 4), {"failed_gradient_check"}), (NETWORK, set())):
        result, done = audit(parameters(steps=20, effort="standard"), model, DATA)
        agreements = done["surrogate"]["gradient_agreements"]
        assert len(agreements[0]) == 2 * looked_examples(GRADIENT_EXAMPLES, len(IMAGES), 20)
        assert agreements[1].as_py() is None
        assert codes(result) & {"failed_gradient_check"} == told


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
    assert "masked_gradients" in codes(result)
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


def test_a_sure_model_in_a_small_ball_is_robust_and_not_masked() -> None:
    """Margins of many nats leave entropies of 1e-7 and less: they move by a few per cent, which is nothing in nats."""
    sure = Model(lambda x: NETWORK.logits(x) * 6, 4)
    result, done = audit(parameters(epsilon=1e-4), sure, DATA)
    assert (np.asarray(done["attack"]["gain_under"]) <= flags.IMPROVEMENT).mean() > flags.NOT_IMPROVED
    assert "attack_not_improving" not in codes(result)


def test_a_sure_model_that_hides_its_gradients_is_still_flagged() -> None:
    result, _ = audit(parameters(), Model(lambda x: NETWORK.logits((x * 10).round() / 10) * 6, 4), DATA)
    assert {"zero_gradients", "attack_not_improving"} <= codes(result)


def test_a_model_does_not_beat_itself() -> None:
    params = parameters(steps=12, step_size=0.03, selection="final_or_clean", transfer_model="mdl_1")
    result, _ = audit(params, NETWORK, DATA, models={"transfer_model": NETWORK})
    assert "masked_gradients" not in codes(result)
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    # Its best iterates are better than those selected; both arms are told as they were asked for.
    assert value["mus[attack=transfer]"] > value["mus"] + 0.01
    assert value["mus_worst"] == pytest.approx(value["mus[attack=transfer]"], abs=1e-4)


def test_the_way_across_the_boundary_is_found_as_often_as_by_pgd() -> None:
    sure = Model(lambda x: network(4, classes=10).logits(x) * 20, 10)
    images = torch.rand(200, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    predictions = sure.logits(images).argmax(1)
    search = PGD(norm="linf", epsilon=0.04, step_size=0.0025, steps=40)
    params = parameters(epsilon=0.04, step_size=0.0025, steps=40)
    context = Context(sure, (images, predictions), Shard("tempered", 0, 200), 200)
    columns, _ = attack_tempered(params, context, next(context.batches()))
    crossed = pgd_untargeted(search, sure.logits, images, predictions).reached
    assert 0.6 < crossed.float().mean() < 0.8
    assert columns["crossed"].float().mean() >= crossed.float().mean()


def test_the_tempered_attack_is_not_credited_with_what_a_transferred_one_found() -> None:
    result, _ = audit(
        parameters(transfer_model="mdl_1"),
        Model(lambda x: NETWORK.logits((x * 20).round() / 20) * 1e3, 4),
        DATA,
        models={"transfer_model": NETWORK},
    )
    value = {name: estimate.value for name, estimate in result.estimates.items()}
    flag = next(flag for flag in result.flags if flag.code == "saturated_logits")
    assert value["mus_worst"] > value["mus[attack=tempered]"]
    assert f"{value['mus[attack=tempered]']:.3g} nat" in flag.message


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e6])
def test_the_entropy_on_the_boundary_is_log_2_as_far_as_float32_goes(scale) -> None:
    done = measure(parameters(), Model(lambda x: NETWORK.logits(x) * scale, 4), DATA)
    crossed = np.asarray(done["tempered"]["crossed"])
    # Two logits within three units in the last place of the largest; one and a half were the most that noise of a unit
    # in the last place in every result of torch led to, in five repetitions.
    margin = 3 * np.spacing(np.float32(scale * NETWORK.logits(IMAGES).abs().max().item()))
    least = np.log1p(np.exp(-margin)) + margin / (1 + np.exp(margin))
    assert np.asarray(done["tempered"]["entropy_under"])[crossed].min() > least - 1e-6


def test_a_short_attack_that_does_worse_in_a_larger_ball_is_a_note_and_not_a_doubt() -> None:
    def sample(spans: np.ndarray) -> Sample:
        n = len(spans)
        columns = {
            "example_id": np.arange(n),
            "label": np.zeros(n, dtype=np.int64),
            "errored": np.zeros(n, dtype=bool),
            "entropy_over": np.zeros(n),
            "entropy_under": spans,
            "classes": np.full(n, 10),
        }
        return Sample(pa.table(columns))

    spans = np.linspace(0.2, 1.0, 50)
    shrunk = sample(spans * 0.9)
    for steps, severity in ((3, "info"), (40, "warning")):
        params = UncertaintySpanParams(kind="uncertainty_span", epsilon=0.1, steps=steps)
        assert [flag.severity for flag in flags.span_not_growing(params, sample(spans), shrunk, 0)] == [severity]
    # Noise that might be growth is no doubt, and neither is what a handful of examples show.
    draw = np.random.default_rng(0)
    params = UncertaintySpanParams(kind="uncertainty_span", epsilon=0.1, steps=40)
    assert flags.span_not_growing(params, sample(spans), sample(spans + draw.normal(0, 0.3, 50)), 0) == []
    assert flags.span_not_growing(params, sample(spans[:10]), sample(spans[:10] * 0.9), 0) == []


@pytest.mark.parametrize(
    "code",
    [
        *("masked_gradients", "unfollowed_operations", "idle_computation", "swinging_computation"),
        *("failed_gradient_check", "radius_below_a_level", "small_radius"),
    ],
)
def test_what_doubts_every_attack_doubts_the_accuracy_that_attacks_leave(code: str) -> None:
    (spec,) = (one for one in FLAGS if one.code == code)
    assert all(map(spec.is_about, ("adversarial_accuracy", "mus_worst", "mus")))
    assert not spec.is_about("clean_accuracy")
