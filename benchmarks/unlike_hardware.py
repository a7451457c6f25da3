"""How far the numbers of each family are apart on unlike hardware, beside what a replay allows there.

    python -m benchmarks.unlike_hardware

A small check of each family is measured in processes of its own, whose libraries are told to compute as older
processors do: without vector instructions, with AVX2, and with two threads. What each adds in another order is what
unlike processors add in another order; no GPU is asked. Ends with status 1 when a default tolerance is exceeded.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from app.reports.replays import Comparison, compare_results, compare_tables
from seatrial.contracts.estimates import Result
from seatrial.contracts.registry import families, family
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests import assets, shared, texts
from tests.attacks.text.classifiers import tiny_sentiment
from tests.defences import builders
from tests.families.calibration import tables
from tests.families.certified_calibration import audits as certified
from tests.families.in_memory import Model, run_check, run_text_check
from tests.families.temperature_attack import test_family as temperature
from tests.families.transductive_attack import test_family as transductive
from workers.families.contexts import LabelledText
from workers.families.low_level_attack.family import FAMILY as LOW_LEVEL
from workers.families.temperature_attack.family import FAMILY as TEMPERATURE
from workers.families.uncertainty_span.family import FAMILY as SPAN

Run = tuple[Result, Mapping[str, Any]]

LIKE = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "AVX2"}
SCALAR = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
NO_VECTORS = {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"}
KINDS: dict[str, dict[str, str]] = {
    "as it is": {},
    "AVX2": LIKE,
    "no vectors": SCALAR | NO_VECTORS,
    "two threads": {"SEATRIAL_TORCH_THREADS": "2"},
}
"""Environments, the first of which the others are compared with."""


def of_spans() -> Run:
    """Attack a hundred digits twice."""
    images, labels = (torch.from_numpy(array[1000:1100]) for array in assets.digits())
    network = assets.build()
    network.load_state_dict(shared.once("unlike-digits", lambda: assets.trained().state_dict()))
    params = UncertaintySpanParams(kind="uncertainty_span", epsilon=0.1, steps=40, effort="standard")
    data = (images.float() / 255, labels)
    return run_check(SPAN, params, Model(network.eval(), 10), data, batch_size=50)


def of_certificates() -> Run:
    """Draw noise two thousand times around each of 24 images."""
    return certified.audit(certified.parameters(), certified.NETWORK, certified.DATA)


def of_defences() -> Run:
    """Play every quick attack against two defences that adapt."""
    trained = shared.once("unlike-points", lambda: builders.base().module.state_dict())
    module = builders.network()
    module.load_state_dict(trained)
    dent, tent = ({"name": name, "changes": {"batch_size": 20, "steps": 2}} for name in ("dent", "tent"))
    return transductive.check(transductive.parameters(dent, tent), builders.classifier(module.eval()))


def of_words() -> Run:
    """Look for words that lead a sentiment model astray."""
    params = temperature.asked(recipes=["deepwordbug", "input_reduction"], arms=["calibrated", "optimized"])
    done = temperature.audit(params, shard=20, max_bytes=10**8)
    return TEMPERATURE.reduce(params, done, 0), done


def of_noise() -> Run:
    """Ask the same model for noisy texts."""
    attackers = ["inner_shuffle", "full_shuffle", "truncate", "segment", "disemvowel"]
    params = LowLevelAttackParams.model_validate({"kind": "low_level_attack", "attackers": attackers})
    sample = [LabelledText(at, text, (label,)) for at, (text, label) in enumerate(texts.sentences(40, seed=9))]
    return run_text_check(LOW_LEVEL, params, tiny_sentiment(), sample, task="text-classification")


def of_tables() -> Run:
    """Read a table of 600 predictions, which no model is asked for."""
    made = tables.made(600, heat=1.7)
    records = tables.to_records(tables.predictions(*made))
    return tables.reduced(records), {"read": records}


CHECKS: dict[str, Callable[[], Run]] = {
    "uncertainty_span": of_spans,
    "certified_calibration": of_certificates,
    "transductive_attack": of_defences,
    "temperature_attack": of_words,
    "low_level_attack": of_noise,
    "calibration": of_tables,
}


def run_all(path: Path) -> None:
    """Run every check here and keep what came of it."""
    torch.set_num_threads(int(os.environ.get("SEATRIAL_TORCH_THREADS", "1")))
    shared.use(path.parent)
    path.write_bytes(pickle.dumps({kind: run() for kind, run in CHECKS.items()}))


def compared(kind: str, first: Run, second: Run, tolerance: float) -> tuple[Comparison, float]:
    """Return what differs by more than the tolerance, and how far published numbers are apart at most."""
    comparison, published = Comparison(), Comparison()
    compare_results(published, f"0/{kind}", first[0], second[0], tolerance, False)
    compare_results(comparison, f"0/{kind}", first[0], second[0], tolerance, False)
    for stage, table in first[1].items():
        compare_tables(comparison, f"0/{kind}/{stage}", table, second[1][stage], tolerance)
    return comparison, published.largest.get(kind, 0.0)


def main() -> None:
    """Measure, or be one of the processes that measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    if (into := parser.parse_args().into) is not None:
        run_all(into)
        return
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, environment in KINDS.items():
            path = Path(folder, f"{len(runs)}.pickle")
            command = [sys.executable, "-m", "benchmarks.unlike_hardware", "--into", str(path)]
            subprocess.run(command, env={**os.environ, **environment}, check=True)
            runs[name] = pickle.loads(path.read_bytes())
    first, *others = runs
    is_well = True
    for kind in families():
        allowed = family(kind).unlike_hardware
        told = []
        for name in others:
            comparison, published = compared(kind, runs[first][kind], runs[name][kind], allowed)
            is_well &= not comparison.differences
            told.append(f"{name} {published:.2g} {comparison.largest.get(kind, 0.0):.2g}")
            for one in comparison.differences[:5]:
                print("  different:", *(part[:60] for part in one))
        print(f"{kind} ({allowed:g} allowed): numbers and records apart by {'; '.join(told)}")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
