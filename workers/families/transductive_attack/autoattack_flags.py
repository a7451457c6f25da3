"""What speaks against AutoAttack on the static model, which defences are held against."""

from collections.abc import Mapping

from seatrial.contracts.estimates import Flag
from seatrial.families.shared.robust_accuracy_flags import OWN_RADIUS
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from workers.families import robust_accuracy
from workers.families.contexts import Records
from workers.families.transductive_attack.sample import STATIC, Games
from workers.families.transductive_attack.static import make_autoattack

WEAKER = 0.01
"""Share of examples that PGD breaks and AutoAttack does not; restarts and chance explain some in a thousand."""


def autoattack_weaker_than_pgd(games: Games) -> list[Flag]:
    """Flag examples that withstand AutoAttack on the static model and not PGD: AutoAttack fell short there."""
    strong, weak = games.static("robust_autoattack"), games.static("robust_pgd")
    if strong is None or weak is None or len(strong) == 0:
        return []
    missed = strong.successes[0] & ~weak.successes[0]
    fraction = float(missed.mean())
    if fraction == 0:
        return []
    worst = float((strong.successes[0] & weak.successes[0]).mean())
    return [
        Flag(
            code="autoattack_weaker_than_pgd",
            severity="warning" if fraction > WEAKER else "info",
            message=f"{int(missed.sum())} of {len(missed)} examples ({fraction:.1%}) withstand AutoAttack on the "
            "static model and fall to PGD. static_robustness is AutoAttack's and too high by at least these (against "
            f"the worse of the two it is {worst:.1%}), so gain_over_static is too low. A few are chance; many are a "
            "sign of gradients that mislead it, or of an autoattack_queries set low.",
        )
    ]


def autoattack_doubted(params: TransductiveAttackParams, done: Mapping[str, Records]) -> list[Flag]:
    """Flag what speaks against AutoAttack on the static model, and so against static_robustness and its transfers."""
    if "transfer_autoattack" not in params.attacks or STATIC not in done:
        return []
    flags = robust_accuracy.doubt(done[STATIC], make_autoattack(params), of="AutoAttack on the static model")
    adapting = (
        "The model given as static runs backward passes inside its forward pass: it adapts to its input. The attacks "
        "take it for one that does not, so every number overestimates it. Give the model without its adaptation, and "
        "the adaptation as one of the defences: a shipped one, or your own, registered."
    )
    return [
        flag.model_copy(update={"message": adapting}) if flag.code == "optimizes_at_inference" else flag
        for flag in flags
        # Told of all attacks.
        if flag.code not in OWN_RADIUS
    ]


def autoattack_without_square(params: TransductiveAttackParams) -> list[Flag]:
    """Note that AutoAttack was run without its one attack that needs no gradient."""
    if params.autoattack_queries or not {"transfer_autoattack", "defence_autoattack"} & {*params.attacks}:
        return []
    return [
        Flag(
            code="autoattack_without_square",
            severity="info",
            message="AutoAttack was run without Square (autoattack_queries is 0), its one attack without "
            "gradients. "
            "Where gradients mislead, its numbers are too high and nothing here would tell. They are not those of "
            "standard AutoAttack; do not compare them with published ones. Leave autoattack_queries at 5000.",
        )
    ]
