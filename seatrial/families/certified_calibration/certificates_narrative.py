"""What a result of certified_calibration holds at one radius: what is proven, and what was seen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.contracts.estimates import Estimate, Result, metric_name, split_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.shared.estimates_in_words import defined, number_of
from seatrial.reporting.balls import format_radius


@dataclass(frozen=True)
class Known:
    """What is known at one radius; an estimate is None where it was not published or is undefined.

    Attributes:
        radius: l_2.
        cce: Certified calibration error, the ceiling.
        clean: ECE without an attack, of the same examples.
        fraction: Of all examples, those that are certified.
        attacks: ECE under attack, of the same examples, by attack.
    """

    radius: float
    cce: Estimate | None
    clean: Estimate | None
    fraction: Estimate | None
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
        attack: estimate
        for radius, attack, name in _under_attack(result)
        if radius == f"{at:g}" and (estimate := defined(result, name))
    }
    cce, clean, fraction = (defined(result, metric_name(one, radius=at)) for one in ("cce", "ece", "certified_share"))
    return Known(at, cce, clean, fraction, attacks)


def asked(params: Mapping[str, Any], name: str) -> Any:
    """Return a parameter, or its default in a check that a version without it has stored."""
    return params.get(name, CertifiedCalibrationParams.model_fields[name].get_default(call_default_factory=True))


def certainty(result: Result, params: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Say with what probability certificates hold, and whether each or all of them."""
    alpha, n = float(asked(params, "alpha")), result.counts.get("n", 0) - result.counts.get("errored", 0)
    if n <= 0:
        return
    if asked(params, "joint"):
        yield (
            f"All {2 * n:,} certificates, of classes and of confidences, hold at once, except with probability "
            f"{alpha:g} at most."
        )
        return
    # Its confidence leaves one bin's sum and enters another's, by 1 each at most.
    moved = (
        ""
        if known.cce is None
        else f"; a wrong one moves the ECE over {known.cce.n:,} by {min(2 / known.cce.n, 1):.2g} at most"
    )
    shared = " As all examples see the same noise, errors come together." if asked(params, "noise") == "shared" else ""
    yield (
        "Each certificate, one of an example's class and one of its confidence, is wrong with probability "
        f"{alpha:g} at most. They need not all hold at once: of the {2 * n:,}, {2 * n * alpha:.3g} may be wrong on "
        f"average{moved}.{shared}"
    )


def guarantee(result: Result, params: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Say what is guaranteed of what, and what is not."""
    yield (
        "The guarantees are those of the smoothed model: the class that most copies of an image with noise of sigma "
        f"{float(asked(params, 'sigma')):g} are given, and the mean score of that class. Serve it like that, with as "
        "many copies as certified it; the network alone, asked once and without noise, has no guarantee."
    )
    if noise := result.series.get("noise"):
        yield (
            "They hold for every 8-bit image within the radius, in floating point too: image and noise are added on a "
            f"grid of 1/{noise['grid']:,} of the pixels' range, which 8-bit images lie on. An image in other numbers "
            "must be rounded to that grid before it is served."
        )
    else:
        yield (
            "Image and noise were added in floating point, by an earlier version: a model made to deceive can read the "
            "image off the last bits of the sum and be certified for more than holds (Voracek and Hein 2023). Audit it "
            "again for a guarantee against that."
        )
    yield (
        "Each says nothing about changes longer than its radius (a shift or a rotation of the image often is longer "
        f"than {known.place}), nor about data unlike these."
    )
