from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
import torch

from tests.defences import builders
from workers.defences import registry
from workers.defences.identity import Identity, IdentityParams
from workers.defences.protocol import DefenceError, Training
from workers.defences.registry import Plugin, find_plugin, known, make_defence


@dataclass(frozen=True)
class TheirParams:
    strength: int = 1


THEIRS = Plugin(
    lambda params, check_cancelled: Identity(IdentityParams(batch_size=params.strength)), {"loose": TheirParams(7)}
)
NO_PLUGIN = object()


def install(monkeypatch, **values: str) -> None:
    points = [EntryPoint(name=name, value=value, group=registry.GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])


def test_identity_gives_the_logits_of_the_base_exactly() -> None:
    base, images = builders.base(), builders.points(40)
    adapted = Identity().adapt(base, None, images, builders.generator())
    assert torch.equal(adapted.logits(images), base.logits(images))
    assert torch.equal(adapted.logits(images[3:5], torch.tensor([3, 4])), base.logits(images[3:5]))
    assert (adapted.classes, adapted.device) == (10, base.device)


def test_identity_draws_no_random_number_and_keeps_no_state() -> None:
    defence, generator = Identity(), builders.generator()
    before = generator.get_state()
    defence.adapt(builders.base(), None, builders.points(4), generator)
    defence.end_round(builders.points(4), generator)
    assert torch.equal(generator.get_state(), before)
    assert defence.state() == {}


@pytest.mark.parametrize("preset", ["mnist", "cifar10", "small"])
@pytest.mark.parametrize("name", list(registry.SHIPPED))
def test_every_shipped_defence_can_be_made_with_every_preset(name, preset) -> None:
    defence = make_defence(name, preset)
    assert defence.state() == {}
    assert defence.batch_size >= 1
    assert not (defence.traits.is_one_round and name in {"identity", "tent", "dent", "rmc"})


def test_changes_replace_what_the_preset_says() -> None:
    assert make_defence("dent", "cifar10", {"batch_size": 17}).batch_size == 17


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        DefenceError, match=r"no defence is called 'rcm'.*dann, dent, identity, rmc, tadv, tent, urejectron"
    ):
        find_plugin("rcm")


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DefenceError, match="rmc has no preset 'imagenet'; it has cifar10, mnist, small"):
        make_defence("rmc", "imagenet")


def test_an_unknown_parameter_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DefenceError, match="identity has no parameter depth; it has batch_size"):
        make_defence("identity", "small", {"depth": 3})


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("identity", {"batch_size": 0}),
        ("tent", {"steps": 0}),
        ("dent", {"beta3": 1.0}),
        ("dent", {"steps": 0}),
        ("rmc", {"nearest_share": 1.0}),
        ("rmc", {"neighbours": 5}),
        ("rmc", {"patience": 0}),
    ],
    ids=["identity-batch", "tent-steps", "dent-beta3", "dent-steps", "rmc-share", "rmc-neighbours", "rmc-patience"],
)
def test_a_parameter_out_of_range_is_an_error_of_the_defence(name, changes) -> None:
    with pytest.raises(DefenceError, match=f"^{name}: "):
        make_defence(name, "small", changes)


def test_an_operators_defence_is_found_by_its_entry_point(monkeypatch) -> None:
    install(monkeypatch, theirs=f"{__name__}:THEIRS")
    assert "theirs" in known()
    assert make_defence("theirs", "loose").batch_size == 7
    assert make_defence("theirs", "loose", {"strength": 9}).batch_size == 9


def test_an_operators_defence_does_not_replace_a_shipped_one(monkeypatch) -> None:
    install(monkeypatch, dent=f"{__name__}:THEIRS")
    assert "cifar10" in find_plugin("dent").presets


@pytest.mark.parametrize(
    ("value", "reason"),
    [("no_such_package:PLUGIN", "cannot be loaded"), (f"{__name__}:NO_PLUGIN", "is a object, not a Plugin")],
    ids=["import", "type"],
)
def test_an_operators_defence_that_is_none_says_so(monkeypatch, value, reason) -> None:
    install(monkeypatch, theirs=value)
    with pytest.raises(DefenceError, match=reason):
        find_plugin("theirs")


def test_images_and_labels_of_different_numbers_are_no_training_data() -> None:
    with pytest.raises(ValueError, match="not a labelled sample"):
        Training(builders.images(0, 3), builders.labels(0, 4))
