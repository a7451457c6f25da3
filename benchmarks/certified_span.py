"""How much of a certified span of uncertainty an attack reaches, and what it is beside the other certified numbers.

    python -m benchmarks.certified_span --weights cnn.safetensors --layers cnn.json --images test.npz --n 10000

Runs a whole check of certified_calibration with its block uncertainty and the attack: per radius the certified span of
the entropy of the mean scores and of the mean entropy of a draw's scores, what SmoothAdv's PGD reaches, their ratio,
and the certified calibration errors. Asked: nobody's scores or uncertainties leave their certificates, at any radius.
Without --weights it trains a CNN on scikit-learn's bundled digits with Gaussian noise of sigma; with --members several
of them, from other seeds, audited as an ensemble: the aleatoric and the epistemic part of its entropy are then
certified and attacked too.
"""

import argparse
import json
import pathlib
import sys
import time

import torch

from benchmarks.adaptive import own_case
from benchmarks.cases import add_options, given_case, parse
from seatrial.contracts.estimates import Result, metric_name
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import SMOOTHED
from tests.families.in_memory import Model, run_check
from tests.families.uncertainty_span.audits import ensemble
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.span_attack import directions

COLUMNS = (
    "certified_ks",
    "certified_kuiper",
    "cce",
    "cce_quantiles",
    "cce_any_bins",
    "cce_classwise",
    "certified_log_loss",
    "certified_brier",
)


def value(result: Result, name: str, **qualifiers: object) -> float:
    """Return an estimate, NaN where there is none."""
    found = result.estimates.get(metric_name(name, **qualifiers))
    return float("nan") if found is None or found.value is None else found.value


def main() -> None:
    """Run the check, print two tables, and fail where an attack exceeds a certificate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=50)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--radii", type=float, nargs="+", default=[0.0, 0.0625, 0.125, 0.25])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--members", type=int, default=1, help="of an ensemble of CNNs trained here")
    parser.add_argument("--figure", type=pathlib.Path, help="where to write the figure of the spans, an SVG")
    add_options(parser)
    arguments = parse(parser)
    case = (
        given_case(arguments, torch.device("cpu"))
        if arguments.weights
        else own_case(arguments.examples, arguments.sigma)
    )
    params = CertifiedCalibrationParams.model_validate(
        {
            "kind": "certified_calibration",
            "sigma": arguments.sigma,
            "n": arguments.n,
            "radii": arguments.radii,
            "attack_steps": arguments.steps,
            "attack_draws": arguments.draws,
            "uncertainty": {"attack": True, "parts": [*SMOOTHED] if arguments.members > 1 else []},
        }
    )
    members = [
        case.model,
        *(own_case(arguments.examples, arguments.sigma, seed).model for seed in range(1, arguments.members)),
    ]
    classes = int(case.model(case.images[:1]).shape[1])
    model = (
        ensemble(*members, classes=classes) if len(members) > 1 else Model(lambda images: case.model(images), classes)
    )
    started = time.perf_counter()
    result, done = run_check(FAMILY, params, model, (case.images, case.labels))
    took = time.perf_counter() - started
    print(f"{len(members)} x {case.name}: {len(case.images)} images, n = {arguments.n:,}, {took:.0f} s")
    beyond = {}
    shown = ["entropy", *(params.uncertainty.smoothed if params.uncertainty else ())]
    print("\n| radius" + "".join(f" | {one}: certified | attacked | ratio" for one in shown) + " |")
    print("| --- " * (1 + 3 * len(shown)) + "|")
    for radius in arguments.radii:
        row = []
        for uncertainty in shown:
            certified, attacked = (
                value(result, name, uncertainty=uncertainty, radius=radius)
                for name in ("certified_span", "attacked_span")
            )
            row += [f"{certified:.3f}", f"{attacked:.3f}", f"{certified / attacked:.2f}"]
        print(f"| {radius:g} | {' | '.join(row)} |")
        if radius > 0:
            column = metric_name("beyond", radius=radius)
            beyond[radius] = max(max(done[name][column].to_pylist()) for name in directions(params))
    print(f"\n| radius | {' | '.join(COLUMNS)} |\n" + "| --- " * (len(COLUMNS) + 1) + "|")
    for radius in arguments.radii:
        print(f"| {radius:g} | {' | '.join(f'{value(result, name, radius=radius):.3f}' for name in COLUMNS)} |")
    if arguments.figure is not None:
        arguments.figure.write_text(FAMILY.figures(params, result)["span"])
    print("\n" + json.dumps({"beyond": beyond, "flags": [flag.code for flag in result.flags]}))
    sys.exit(any(beyond.values()))


if __name__ == "__main__":
    main()
