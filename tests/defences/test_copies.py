import pytest
import torch
from torch import nn

from tests.defences import builders
from workers.defences.copies import affine_batch_norms, copied, frozen_copy, penultimate, seeded
from workers.defences.protocol import DefenceError


def test_a_copy_computes_the_same_with_weights_of_its_own() -> None:
    base, images = builders.base(), builders.points(5)
    twin = copied(base)
    assert torch.equal(twin.logits(images), base.logits(images))
    before = builders.weights(base)
    with torch.no_grad():
        for value in twin.module.state_dict().values():
            value.mul_(2)
    assert builders.same(builders.weights(base), before)


def test_a_frozen_copy_is_in_eval_mode_and_does_not_follow_its_original() -> None:
    moving = copied(builders.base(dropout=0.5))
    moving.module.train()
    images = builders.points(5)
    frozen = frozen_copy(moving)
    before = frozen.logits(images)
    assert moving.module.training
    with torch.no_grad():
        moving.module[0].weight.zero_()
    assert torch.equal(frozen.logits(images), before)
    assert torch.equal(before, builders.base().logits(images))


def test_features_times_the_last_layer_are_the_logits() -> None:
    base, images = builders.base(), builders.points(6)
    last = base.module[-1]
    features = penultimate(base, images)
    assert features.shape == (6, 64)
    torch.testing.assert_close(features @ last.weight.T + last.bias, base.logits(images))


def test_features_leave_nobody_listening() -> None:
    base = builders.base()
    penultimate(base, builders.points(2))
    assert not any(layer._forward_pre_hooks for layer in base.module.modules())


def test_features_are_of_the_last_layer_reached_not_the_last_defined() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.body = nn.Linear(7, 10), nn.Linear(64, 7)

        def forward(self, images):
            return self.head(self.body(images.flatten(1)))

    assert penultimate(builders.classifier(Backwards()), builders.points(3)).shape == (3, 7)


def test_a_model_without_a_linear_layer_has_no_features() -> None:
    module = nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten())
    with pytest.raises(DefenceError, match="no linear layer"):
        penultimate(builders.classifier(module), builders.points(3))


def test_batch_norms_are_found_by_name_in_order() -> None:
    assert list(affine_batch_norms(builders.network(), "X")) == ["1", "3.1"]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)), "X moves .* no BatchNorm2d layer"),
        (nn.Sequential(nn.BatchNorm2d(1, affine=False), nn.Flatten(), nn.Linear(64, 10)), "'0' lacks them"),
        (nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(64, 10)), "'0' lacks"),
    ],
    ids=["none", "affine", "statistics"],
)
def test_a_model_without_usable_batch_norms_is_refused(module, reason) -> None:
    with pytest.raises(DefenceError, match=reason):
        affine_batch_norms(module, "X")


def test_torchs_own_numbers_depend_on_the_generator_inside_and_on_nothing_outside() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with seeded(builders.generator(1), builders.CPU):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with seeded(builders.generator(1), builders.CPU):
        assert torch.equal(torch.rand(3), first)
    with seeded(builders.generator(2), builders.CPU):
        assert not torch.equal(torch.rand(3), first)
