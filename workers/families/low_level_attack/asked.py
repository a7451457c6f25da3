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
    """Flag words that are hit less hard than the level says."""
    phi = audit.params.phi
    if phi is None or phi >= audit.highest or not heeding_phi(audit.params.variant) & set(audit.attackers):
        return []
    return [
        Flag(
            code="mild_noise",
            severity="warning",
            message=f"An attacked word is hit with phi = {phi:g}, at the level {audit.highest:g} too: scores under "
            "noise are of milder noise than that level says, and not to be held against bounds of it. Leave phi out.",
        )
    ]
