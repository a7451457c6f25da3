"""What the shipped policies make of one check."""

from app.policies import presets
from seatrial.contracts.policies import Judgement, PolicySource
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.verdict import judge


def shipped_judgements(check: MeasuredCheck) -> dict[str, Judgement]:
    """Return the judgement of every shipped policy, by its name, on an audit of this check alone."""
    return {
        name: judge(
            presets.get(name), PolicySource(id=None, name=name, version=None, digest=""), Measured("gauntlet", [check])
        )
        for name in presets.POLICIES
    }
