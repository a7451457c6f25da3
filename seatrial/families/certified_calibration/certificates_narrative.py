"""What a result of certified_calibration holds at one radius: what is proven, and what was seen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.contracts.estimates import Estimate, Result, metric_name, split_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.shared.estimates_in_words import defined, number_of
from seatrial.reporting.numbers import format_radius


@dataclass(frozen=True)
class Known:
    """What is known at one radius; an estimate is None where it was not published or is undefined.

    Attributes:
        radius: l_2.
        cce: Certified calibration error, the ceiling.
        clean: ECE without an attack, of the same examples.
        share: Of all examples, those that are certified.
        attacks: ECE under attack, of the same examples, by attack.
    """

    radius: float
    cce: Estimate | None
    clean: Estimate | None
    share: Estimate | None
    attacks: dict[str, Estimate]

    @property
    def place(self) -> str:
        """The radius, in words."""
        return f"l_2 {format_radius(self.radius)}"

    @property
    def strongest(self) -> tuple[str, Estimate] | None:
        """The attack that reached furthest, and the ECE it reached."""
        return max(self.attacks.items(), key=lambda pair: number_of(pair[1]), default=None)


def headline_radius(params: Mapping[str, Any]) -> float:
    """Return the radius the answer is about; 0 where none above it was asked for.

    That of the attacks; by default, as for them, the largest not above sigma, else the smallest.
    """
    if params.get("attack_radius") is not None:
        return float(params["attack_radius"])
    positive = sorted(float(one) for one in asked(params, "radii") if float(one) > 0)
    within = [one for one in positive if one <= float(asked(params, "sigma"))]
    return within[-1] if within else positive[0] if positive else 0.0


def attacked_radii(result: Result) -> list[float]:
    """Return the radii with an ECE under attack."""
    return sorted({float(radius) for radius, _, _ in _under_attack(result)})


def _under_attack(result: Result) -> Iterator[tuple[str, str, str]]:
    """Yield radius, attack and full name of each ECE under attack."""
    for name in result.estimates:
        base, qualifiers = split_name(name)
        if base == "ece" and qualifiers.keys() == {"attack", "radius"}:
            yield qualifiers["radius"], qualifiers["attack"], name


def known_at(result: Result, at: float) -> Known:
    """Return what is known at a radius."""
    attacks = {
        attack: found
        for radius, attack, name in _under_attack(result)
        if radius == f"{at:g}" and (found := defined(result, name))
    }
    cce, clean, share = (defined(result, metric_name(one, radius=at)) for one in ("cce", "ece", "certified_share"))
    return Known(at, cce, clean, share, attacks)


def asked(params: Mapping[str, Any], name: str) -> Any:
    """Return a parameter, or its default in a check that a version without it has stored."""
    return params.get(name, CertifiedCalibrationParams.model_fields[name].get_default(call_default_factory=True))
