"""What float32 hides from an attack, as the paper ran it: its calibrated model and its Figure 1, in both precisions.

    python -m benchmarks.paper_precision --model FOLDER --data TEST.jsonl --validation VALIDATION.jsonl

FOLDER is a Hugging Face sequence classifier; files hold `text` and `label` a line. Audits in memory, DeepWordBug:

calibrated  the model served under-confident (logits / 1e6, 1e7) and over-confident (logits / 0.01), calibrated as the
            paper does it and exactly, and attacked in float32 and in float64 on the same texts.
curve       accuracy under attack against temperature and mean confidence (the paper's Figure 1), on validation texts.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.gauntlet_text import Context
from seatrial.contracts.estimates import Result
from seatrial.contracts.models import ModelManifest
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import Records, TextExample
from workers.families.protocol import SAMPLE, Shard
from workers.families.temperature_attack.family import FAMILY
from workers.models.hf_text import load_huggingface_text

PRECISIONS: tuple[Literal["float32", "float64"], ...] = ("float32", "float64")
CENTRE = 100.0
"""Design temperature of the curve: the search goes from 1e-10 to 1e6 times it, far enough for float32 to tie."""

ARMS = ("as_served", "calibrated_paper", "calibrated", "label_only")


def read(path: Path, count: int, seed: int) -> list[TextExample]:
    """Return texts of a JSON Lines file, drawn by a seed."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    order = random.Random(seed).sample(range(len(rows)), min(count, len(rows)))
    return [TextExample(place, rows[place]["text"], int(rows[place]["label"])) for place in order]


def audit(
    service: ScoringService, sample: list[TextExample], held_out: list[TextExample], params: TemperatureAttackParams
) -> Result:
    """Run every stage of a check; texts the service knows from an earlier one cost nothing."""
    done: dict[str, Records] = {}
    while (stage := FAMILY.next_stage(params, done)) is not None:
        examples = sample if stage.source == SAMPLE else held_out
        count = min(len(examples), stage.limit or len(examples))
        context = Context(examples[:count], service, done)
        done[stage.name] = FAMILY.run(params, Shard(stage.name, 0, count), context)  # type: ignore[arg-type]
    return FAMILY.reduce(params, done, 0)


def _params(**changes: Any) -> TemperatureAttackParams:
    return TemperatureAttackParams.model_validate({"kind": "temperature_attack"} | changes)


def _written(result: Result, name: str) -> str:
    found = result.estimates[name]
    return "-" if found.value is None else f"{found.value:.3f} [{found.low or 0:.3f}, {found.high or 0:.3f}]"


def main() -> int:
    """Run the audits and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--validation", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--evaluations", type=int, default=40, help="temperatures of the curve")
    parser.add_argument("--designs", type=float, nargs="+", default=[1e6, 1e7, 0.01], help="what logits are divided by")
    parser.add_argument("--parts", nargs="+", default=["calibrated", "curve"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    manifest = ModelManifest.model_validate(
        {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "huggingface"}}
    )
    service = ScoringService(load_huggingface_text(manifest, options.model, torch.device("cpu")), max_bytes=2 * 10**9)
    sample, held_out = read(options.data, options.examples, 0), read(options.validation, options.examples, 1)
    if "calibrated" in options.parts:
        for design in options.designs:
            for precision in PRECISIONS:
                began = time.perf_counter()
                arms = ["calibrated_paper", "calibrated"]
                params = _params(
                    arms=arms, design_temperature=design, precision=precision, validation_samples=len(held_out)
                )
                result = audit(service, sample, held_out, params)
                print(f"logits / {design:g}, {precision} ({time.perf_counter() - began:.0f} s, n = {len(sample)})")
                for arm in ARMS:
                    temperature = result.estimates.get(f"temperature[arm={arm}]")
                    at = "" if temperature is None or arm == "as_served" else f" at T = {temperature.value:.4g}"
                    print(f"  {arm:18}{_written(result, f'adversarial_accuracy[arm={arm},recipe=deepwordbug]')}{at}")
                print(f"  flags: {', '.join(f'{flag.code} ({flag.severity})' for flag in result.flags)}", flush=True)
    if "curve" in options.parts:
        print(f"{'precision':>9} {'temperature':>12} {'confidence':>11} {'accuracy':>9}")
        for precision in PRECISIONS:
            params = _params(
                arms=["optimized"],
                precision=precision,
                design_temperature=CENTRE,
                validation_samples=len(held_out),
                temperature_evaluations=options.evaluations,
            )
            for point in audit(service, sample[:20], held_out, params).series["temperature_curve"]["points"]:
                temperature = CENTRE * point["temperature"]
                print(f"{precision:>9} {temperature:12.4g} {point['confidence']:11.8f} {point['accuracy']:9.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
