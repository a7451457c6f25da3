"""What the rest of the house reads of ``low_level_attack``."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.controls import Evidence
from seatrial.contracts.family import FamilySpec, Misfit, Qualifiers, Situation
from seatrial.contracts.models import TAGGING, TEXTS
from seatrial.contracts.noise import ATTACKERS, COMBINED, NOT_OF_TOKENS, heeding_phi
from seatrial.contracts.stopping import Stopping
from seatrial.families.low_level_attack.flags import FLAGS
from seatrial.families.low_level_attack.metrics import METRICS, OF_ALL_ATTACKERS
from seatrial.families.low_level_attack.params import LowLevelAttackParams, stage_costs
from seatrial.reporting.words import enumerate_words, words


def canonical(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters of noise with what stands for others written out: the same noise in other words is the same."""
    given = dict(params)
    if not _hits_by_phi(name, qualifiers, params):
        given.pop("phi", None)
    if "attackers" in given:
        given["attackers"] = sorted(ATTACKERS if given["attackers"] == "all" else given["attackers"])
    if "selection" in given:
        given["selection"] = given["selection"] or given.get("variant")
    return given


def _hits_by_phi(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> bool:
    """Tell whether `phi` says how hard one of the attackers behind a metric hits a word."""
    attacker = qualifiers.get("attacker")
    heeding = heeding_phi(params.get("variant"))
    if attacker is not None and attacker != COMBINED and name not in OF_ALL_ATTACKERS:
        return attacker in heeding
    among = params.get("attackers", "all")
    return not heeding.isdisjoint(ATTACKERS if among == "all" else among)


def misfits(params: LowLevelAttackParams, situation: Situation) -> Iterator[Misfit]:
    """Find attackers that cannot be run on tagged sentences."""
    if situation.task != TAGGING or params.attackers == "all":
        return
    left = [name for name in params.attackers if name not in NOT_OF_TOKENS]
    for place, name in enumerate(params.attackers):
        if name not in NOT_OF_TOKENS:
            continue
        remedy = "leave it out" if left else "name others, or `all`, which leaves it out"
        if params.combined and len(left) == 1:
            remedy += f", and name another beside {left[0]}, among which `combined` can draw"
        yield Misfit(
            f"{name} joins words, which leaves no tag for each token, and {situation.model} does {situation.task}: "
            f"{remedy}.",
            f"attackers/{place}",
            is_mismatch=True,
        )


def attacked(params: Mapping[str, Any]) -> str:
    """Return whose noise, and on which shares of the words."""
    given = params.get("attackers", "all")
    names = "all attackers" if given == "all" else enumerate_words(words(str(one)) for one in given)
    levels = enumerate_words(f"{100 * float(level):g}%" for level in params.get("levels") or ())
    return f"by low-level noise ({names})" + (f" on {levels} of the words" if levels else "")


SPEC = FamilySpec(
    kind="low_level_attack",
    params=LowLevelAttackParams,
    stopping=Stopping(whole=lambda params: "", grain=8),
    tasks=TEXTS,
    metrics=METRICS,
    flags=FLAGS,
    worker="workers.families.low_level_attack.family:FAMILY",
    narrative="seatrial.families.low_level_attack.narrative",
    evidence=tuple(
        Evidence(control=control, metrics=("worst_case_score", "persistent_score", "relative_score", "score_drop"))
        for control in ("AISVS 11.2.1", "AISVS 11.2.7", "AML.T0015", "AML.T0043")
    ),
    misfits=misfits,
    canonical=canonical,
    attacked=attacked,
    unlike_hardware=1e-3,
    unset={"phi": "not set (the level)", "selection": "not set (as the variant)"},
    stage_costs=stage_costs,
    audit_examples={
        "How well does a text model withstand spam-like noise and typos?": {
            "samples": 300,
            "checks": [
                {
                    "kind": "low_level_attack",
                    "attackers": ["visual", "intrude", "keyboard_typo", "segment"],
                    "levels": [0.2, 0.5],
                    "draws": 3,
                }
            ],
            "policy": "standard",
        }
    },
    policy_examples={
        "What spam and tired thumbs may do": {
            "name": "noise",
            "rules": [
                {"metric": "low_level_attack.worst_case_score[level=0.2]", "min": 0.6},
                {"metric": "low_level_attack.relative_score[attacker=*,level=0.5]", "min": 0.7, "severity": "warn"},
            ],
        }
    },
)
