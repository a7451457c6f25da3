"""How a defence is played: which games can be had of it, which of two rules an attack goes by, and what is said of it.

Where the authors' code and the text of their paper differ the code is followed (``official``), and results say so.
"""

from collections.abc import Callable
from typing import Any, Literal

from seatrial.families.shared.defence_params import DefenceParams
from seatrial.families.transductive_attack.params import MODEL_SPACE, TransductiveAttackParams
from workers.defences.protocol import Defence, Traits
from workers.defences.registry import find_plugin, make_defence

StartAt = Literal["above_one", "one", "clean"]

OFFICIAL = "official"

STATIC_START = ("dann", "urejectron")
"""Defences whose F^(0) is the static model: of DANN in the official code; of URejectron, which is not attacked there,
by Algorithm 2. That of TADV is one of its own networks."""

SELECTION = (
    "As in the authors' code, an attack that simulates a defence sends the iteration whose induced model is right "
    "least often; the paper's text goes by the greatest loss."
)

INITIAL = (
    " Attacks on {names} begin with the static model, as that code's on DANN do (initial_model official).",
    " Attacks on {names} begin with what the unperturbed points induce (initial_model induced); that code's on DANN "
    "begin with the static model.",
)


def build(defence: DefenceParams, check_cancelled: Callable[[], None] = lambda: None) -> Defence:
    """Return a defence as the parameters have it.

    Raises:
        DefenceError: There is no such defence, preset or hyper-parameter.
    """
    return make_defence(defence.name, defence.preset, defence.settings, check_cancelled=check_cancelled)


def is_playable(attack: str, traits: Traits) -> bool:
    """Tell whether an attack can be run on a defence at all.

    AutoAttack on a defence itself asks it thousands of times, each time about other points: what it remembers would not
    be that of any round, and one that trains on its whole sample would train a network for every question.
    """
    is_module = traits.is_differentiable and not traits.is_stateful and not traits.is_one_round
    return is_module or attack != "defence_autoattack"


def start_at(name: str, traits: Traits) -> StartAt:
    """Return what the official attack on a defence must lie below; ``clean`` for others that adapt batch by batch."""
    if traits.is_one_round:
        return "above_one"
    return "one" if name == "rmc" else "clean"


def starts_static(name: str, params: TransductiveAttackParams) -> bool:
    """Tell whether attacks on a one-round defence begin with the static model, so with what is carried over."""
    return name in STATIC_START and params.initial_model == OFFICIAL


def followed(params: TransductiveAttackParams) -> list[dict[str, Any]]:
    """Return what results follow where code and paper differ: of attacks that simulate, then of each defence.

    Returns:
        ``of``, a defence or ``attacks``; ``variant``, ``official`` or ``paper``; ``says``, sentences. Defences of which
        nothing has to be said are left out.
    """
    rows = []
    if any(attack in MODEL_SPACE for attack in params.attacks):
        rows.append(
            {"of": "attacks", "variant": OFFICIAL, "says": SELECTION + _falling_back(params) + _initial(params)}
        )
    for defence in params.defences:
        plugin = find_plugin(defence.name)
        preset = getattr(plugin.presets[defence.preset], "variant", OFFICIAL)
        variant = str(defence.settings.get("variant", preset))
        if variant in plugin.deviations:
            rows.append({"of": defence.name, "variant": variant, "says": plugin.deviations[variant]})
    return rows


def _falling_back(params: TransductiveAttackParams) -> str:
    """Say of which defences an attacker may send the clean batch; with one iteration there is nothing to choose."""
    if params.iterations == 0:
        return ""
    starts = {one.name: start_at(one.name, build(one).traits) for one in params.defences}
    told = [name for name, start in starts.items() if start != "above_one"]
    if not told:
        return ""
    return f" On {', '.join(told)} the clean points are sent where no iteration is better, as in that code alone."


def _initial(params: TransductiveAttackParams) -> str:
    """Say what attacks begin with where there is a choice."""
    names = [one.name for one in params.defences if one.name in STATIC_START]
    return INITIAL[params.initial_model != OFFICIAL].format(names=", ".join(names)) if names else ""
