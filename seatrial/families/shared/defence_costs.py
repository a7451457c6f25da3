"""What adapting costs, by shipped defence: upper bounds, in passes of a network like the audited one.

A network a defence trains for itself counts as one like that, but for a ResNet-18, which dwarfs most that are audited.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.families.shared.defence_presets import PRESETS

Settings = Mapping[str, Any]

RUNS = {"dent": 14}
"""Runs of PGD an attack on a defence takes where it is not one: five on a margin, nine targets."""

_COUNTED: dict[str, tuple[str, ...]] = {
    "tent": ("steps",),
    "dent": ("steps",),
    "rmc": ("epochs", "neighbours", "adversarial_passes", "attack_steps"),
    "dann": ("epochs",),
    "tadv": ("epochs", "attack_steps"),
    "urejectron": ("epochs",),
}
"""Hyper-parameters that costs depend on."""

RESNET18 = 10
"""Passes one of a ResNet-18 counts as: on a core, 9 of a ResNet-20 and 24 of LeNet, at 32x32 and at 8x8 pixels."""


def is_module(name: str, changes: Settings) -> bool:
    """Tell whether AutoAttack can be run on a defence itself; one that is not shipped is held to be such.

    >>> is_module("rmc", {}), is_module("tent", {"is_episodic": True})
    (False, True)
    """
    return name not in _COUNTED or name == "dent" or (name == "tent" and bool(changes.get("is_episodic", False)))


def ignores_points(name: str) -> bool:
    """Tell whether a shipped defence's networks are the same whatever is asked, as TADV's are."""
    return name == "tadv"


def passes_to_adapt(name: str, preset: str, changes: Settings, samples: int, training: int) -> int:
    """Return the forward and backward passes of adapting to a sample once.

    Args:
        name: Defence; one that is not shipped costs nothing known.
        preset: Its preset.
        changes: What differs from that.
        samples: Examples audited.
        training: Labelled examples it may learn from.
    """
    of = _counted(name, preset, changes)
    match name:
        case "tent" | "dent":
            return of["steps"] * samples
        case "rmc":
            # Before and after its answer it trains on the neighbours of each example; features are one more pass.
            return samples * 2 * of["epochs"] * min(of["neighbours"], training)
        case "dann":
            # As many examples of either domain, and as many steps as the smaller has batches.
            return 2 * of["epochs"] * min(samples, training) * _weight(name, preset, changes)
        case "tadv":
            return of["epochs"] * training * (of["attack_steps"] + 2)
        case "urejectron":
            # The training data, and the points before and after they were perturbed.
            return of["epochs"] * (training + 2 * samples) * _weight(name, preset, changes)
    return 0


def _counted(name: str, preset: str, changes: Settings) -> dict[str, int]:
    """Return what a defence's cost is counted with; `mnist` and `cifar10` count alike, by the larger of the two."""
    presets = ("small",) if preset == "small" else ("mnist", "cifar10")
    return {
        setting: changes.get(setting, max(getattr(PRESETS[name][one], setting) for one in presets))
        for setting in _COUNTED.get(name, ())
    }


def _weight(name: str, preset: str, changes: Settings) -> int:
    network = changes.get("network", PRESETS[name][preset].network)
    return RESNET18 if network == "resnet18" else 1


def passes_to_begin(name: str, preset: str, changes: Settings, training: int) -> int:
    """Return the passes a defence takes once for all its games: RMC's pool of attacked training examples."""
    if name != "rmc":
        return 0
    of = _counted(name, preset, changes)
    return training * (1 + of["adversarial_passes"] * of["attack_steps"])


def passes_to_reject(name: str, preset: str, changes: Settings) -> int:
    """Return the passes that an attack through what decides on refusing takes beside one through the model.

    >>> passes_to_reject("dent", "small", {}), passes_to_reject("urejectron", "cifar10", {})
    (0, 10)
    """
    return _weight(name, preset, changes) if name == "urejectron" else 0
