"""Doubts about what was asked for: mild attackers, and mild noise."""

from seatrial.contracts.estimates import Flag
from seatrial.contracts.noise import COMBINED, heeding_phi
from workers.families.low_level_attack.audit import Audit
from workers.families.low_level_attack.names import listed


def attackers_not_asked(audit: Audit) -> list[Flag]:
    """Flag attackers that run on the task and were not asked for: who names the mild ones keeps a high mean."""
    whole = audit.params.model_copy(update={"attackers": "all"}).runs(audit.task)
    others = [attacker for attacker in whole if attacker not in (*audit.attackers, COMBINED)]
    if not others:
        return []
    return [
        Flag(
            code="attackers_not_asked",
            severity="warning",
            message=f"{len(others)} of {len(others) + len(set(audit.attackers) - {COMBINED})} attackers were not asked "
            f"for ({listed(others)}): the mean over attackers and the worst case are of the others alone, and of them "
            "alone a bound on either may be kept. Audit with all attackers, or judge each by itself.",
        )
    ]


def mild_noise(audit: Audit) -> list[Flag]:
    """Flag words that are hit less hard than the level says, or fewer words."""
    params, why = audit.params, []
    if params.phi is not None and params.phi < audit.highest and heeding_phi(params.variant) & set(audit.attackers):
        why.append(
            f"an attacked word is hit with phi = {params.phi:g}, at levels above it too, up to {audit.highest:g}"
        )
    if params.selects == "paper":
        why.append("words are selected as the paper's text says, by a coin for each, which attacks fewer")
    if not why:
        return []
    told = " and ".join(why)
    return [
        Flag(
            code="mild_noise",
            severity="warning",
            message=f"{told[0].upper()}{told[1:]}: scores under noise are of milder noise than the level says, and "
            "not to be held against bounds of it, nor against published numbers, which the released code made.",
        )
    ]
