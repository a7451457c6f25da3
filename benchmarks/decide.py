"""Gates that stop when they are decided: how often they are wrong, and what a verdict costs.

    python -m benchmarks.decide --gates 2000
    python -m benchmarks.decide --gates 0 --weights cnn.safetensors --layers cnn.json --images test.npz --epsilon 0.1
    python -m benchmarks.decide --gates 0 --pairs 6 --effort standard --samples 500

First simulated gates, the truth at the bound: of a rate, a mean, an expected calibration error and a difference of
pairs, each alone, and of four rates under Holm's correction; "passed" and "failed" is the share of gates that say so,
of which each may be 2.5 %. The numbers are a worker's, and so is the question whether to take the next look.

Then audits of a real model, by a worker in this process, of `--samples` images: by rules whose bounds are far from and
near what a whole audit finds, the examples attacked and the seconds of CPU time until the verdict, with looks and
without. An audit of uncertainty_span has its whole sample attacked; a quarter of a percent is its preflight.

With `--pairs` only bounds at what a whole audit finds, where looks decide nothing: so many times both, the other one
first each time, so that a machine that becomes busy slows both; the median of the ratios of CPU time, and beside it
what no noise touches: images through the model, those whose gradients were asked for, shards, and claims.
"""

import argparse
import io
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from app.gates.stored import read_measured
from benchmarks.cases import add_options, parse
from seatrial.contracts.estimates import Estimate, Looks, Result
from seatrial.contracts.policies import Policy, PolicySource
from seatrial.contracts.states import ModelState, RunState
from seatrial.judging.evidence import decide
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.regression import paired_difference
from seatrial.judging.stopping import take_look
from seatrial.judging.verdict import judge
from seatrial.statistics.estimating import calibration, mean, proportion
from seatrial.statistics.looks import look_sizes, spending
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, ModelRow
from tests import assets
from tests.databases import migrated
from tests.runtime.bench import AuditBench
from workers.models.image_classifier import ImageClassifier
from workers.runtime.looks import at_look

KIND = "uncertainty_span"
SOURCE = PolicySource(id=None, name="simulated", version=None, digest="")
PARAMS = {"kind": KIND, "epsilon": 0.1}
SIZES = look_sizes(1000)
ALPHAS = spending(len(SIZES))
SPEED = {"forward_s": 1e-4, "backward_s": 2e-4}
Estimates = dict[str, Estimate]
BINS = 15
BOUNDS = {"far, held": 8.0, "near, held": 1.3, "at it": 0.0, "near, missed": -1.3, "far, missed": -8.0}
"""Where bounds are, in half widths of the interval of a whole audit."""
NEAR = 2.0


def gate(policy: Policy, measure: Callable[[int], Estimates]) -> tuple[list[str], int]:
    """Return the outcome of each rule of one gate and the examples it took.

    Args:
        policy: With rules of numbers that ``measure`` returns.
        measure: Estimates of the first so many examples.
    """
    for look, size in enumerate(SIZES, 1):
        looks = Looks(sizes=SIZES, alphas=ALPHAS, ended=look)
        result = at_look(Result(estimates=measure(size), counts={"classes": 10}), KIND, PARAMS, looks)
        check = MeasuredCheck(0, KIND, RunState.SUCCEEDED, result, None, PARAMS)
        taken = take_look(policy, [KIND], check, seed=0, was_doubted=False, has_baseline=False)
        if not taken.is_open:
            break
    return [rule.outcome for rule in judge(policy, SOURCE, Measured("", [check])).rules], size


def rates(rng: np.random.Generator) -> Callable[[int], Estimates]:
    """Return what a model that is right half of the time looks like."""
    right = rng.random(1000) < 0.5
    return lambda n: {"clean_accuracy": proportion(right[:n])}


def several(rng: np.random.Generator) -> Callable[[int], Estimates]:
    """Return four rates, each at its bound."""
    right = rng.random((4, 1000)) < 0.5
    names = ("clean_accuracy", "accuracy[arm=over]", "accuracy[arm=under]", "robust_accuracy")
    return lambda n: {name: proportion(one[:n]) for name, one in zip(names, right, strict=True)}


def means(rng: np.random.Generator) -> Callable[[int], Estimates]:
    """Return spans of 0.6 on average, most of them small and some large."""
    spans = rng.beta(0.5, 0.5 * (math.log(10) - 0.6) / 0.6, 1000) * math.log(10)
    return lambda n: {"mus": mean(spans[:n], (0.0, math.log(10)))}


def errors(rng: np.random.Generator) -> Callable[[int], Estimates]:
    """Return confidences 0.1 above how often they are right."""
    confidence = rng.uniform(0.4, 1.0, 1000)
    right = rng.random(1000) < confidence - 0.1
    seed = int(rng.integers(2**32))
    return lambda n: {"ece[arm=clean]": calibration(confidence[:n], right[:n], BINS, seed=[seed])["ece"]}


def simulate(name: str, rules: list[dict[str, Any]], draw: Any, gates: int, correction: str) -> None:
    """Print how often gates at their bounds pass and fail; of several rules, how often any does."""
    policy = Policy(name="simulated", rules=rules, correction=correction)  # type: ignore[arg-type]
    passed = failed = examples = 0
    for number in range(gates):
        outcomes, size = gate(policy, draw(np.random.default_rng([7, number])))
        passed += "passed" in outcomes
        failed += "failed" in outcomes
        examples += size
    print(f"{name:36} {passed / gates:8.4f} {failed / gates:8.4f} {examples / gates:8.0f}", flush=True)


def simulate_pairs(name: str, draw: Callable[[np.random.Generator], Any], span: Any, gates: int) -> None:
    """Print the same of differences from a baseline, which is as good: not worse by more than 0."""
    passed = failed = examples = 0
    for number in range(gates):
        worse = draw(np.random.default_rng([8, number]))
        for size, alpha in zip(SIZES, ALPHAS, strict=True):
            found = paired_difference(worse[:size], span, level=alpha).interval
            outcome = "inconclusive" if found is None else decide(found, 0.0, "max")
            if outcome != "inconclusive":
                break
        passed += outcome == "passed"
        failed += outcome == "failed"
        examples += size
    print(f"{name:36} {passed / gates:8.4f} {failed / gates:8.4f} {examples / gates:8.0f}", flush=True)


def simulate_all(gates: int) -> None:
    """Print the table of simulated gates."""
    print(f"{gates} gates, the truth at the bound, looks at {', '.join(map(str, SIZES))}")
    print(f"{'':36} {'passed':>8} {'failed':>8} {'examples':>8}")
    half = [
        {"metric": f"{KIND}.{name}", "min": 0.5}
        for name in ("clean_accuracy", "accuracy[arm=over]", "accuracy[arm=under]", "robust_accuracy")
    ]
    simulate("a rate", half[:1], rates, gates, "none")
    simulate("any of four rates, Holm", half, several, gates, "holm")
    simulate("a mean", [{"metric": f"{KIND}.mus", "max": 0.6}], means, gates, "none")
    simulate_pairs("a difference of paired proportions", _paired_rates, (0.0, 1.0), gates)
    simulate_pairs("a difference of paired means", _paired_means, (0.0, 1.0), gates)
    simulate("an ECE", [{"metric": f"{KIND}.ece[arm=clean]", "max": 0.1}], errors, gates, "none")


def _paired_rates(rng: np.random.Generator) -> Any:
    return rng.choice([-1.0, 0.0, 1.0], 1000, p=[0.1, 0.8, 0.1])


def _paired_means(rng: np.random.Generator) -> Any:
    return rng.beta(0.5, 2, 1000) - rng.beta(0.5, 2, 1000)


class Passed:
    """Images that went through the model under audit, and those of them whose gradients were asked for."""

    def __init__(self) -> None:
        self.images = self.with_gradients = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count while the context is open."""
        logits = ImageClassifier.logits

        def counting(classifier: ImageClassifier, images: Tensor) -> Tensor:
            self.images += len(images)
            self.with_gradients += len(images) * (torch.is_grad_enabled() and images.requires_grad)
            return logits(classifier, images)

        with patch.object(ImageClassifier, "logits", counting):
            yield


class Cost(NamedTuple):
    """What a verdict took.

    Attributes:
        verdict: Of the policy.
        found: The number its rule is about.
        attacked: Examples of the first attack.
        seconds: CPU time of this process and of its children that have ended.
        counts: Images through the model, those with gradients, shards, claims.
    """

    verdict: str
    found: Estimate | None
    attacked: int
    seconds: float
    counts: dict[str, int]


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended, in seconds."""
    return sum(os.times()[:4])


class Bench(AuditBench):
    """A model and images of the command line, or the digits classifier, with a worker in this process."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        settings = Settings(home=folder, device="cpu", torch_threads=arguments.threads or 1)
        super().__init__(migrated(settings), settings, examples=790)
        if arguments.weights is None:
            return
        note, arrays = json.loads(arguments.layers.read_text()), np.load(arguments.images)
        buffer = io.BytesIO()
        np.savez(buffer, images=arrays["images"], labels=arrays["labels"])
        shape = list(arrays["images"].shape[1:])
        manifest = assets.model_manifest() | {
            "architecture": {"kind": "layers", "layers": note["arch"]},
            "input": {"shape": shape, **note["normalisation"]},
        }
        weights, data = arguments.weights.read_bytes(), buffer.getvalue()
        ids = {"project_id": self.project, "version": "2", "task": "image-classification"}
        self.model = ModelRow(
            **{"id": new_id("mdl"), "name": arguments.weights.stem, "manifest": manifest, **ids},
            **{"digest": self.store.put_bytes(weights), "size_bytes": len(weights), "format": "safetensors"},
            **{"state": ModelState.READY, "facts": {"parameters": 1, "classes": 10, "device": "cpu", **SPEED}},
        )
        facts = {"format": "npz", "examples": len(arrays["labels"]), "classes": 10, "shape": shape, "label_counts": {}}
        self.dataset = DatasetRow(
            **{"id": new_id("dat"), "name": "images", "split": "test", "manifest": assets.dataset_manifest(), **ids},
            **{"digest": self.store.put_bytes(data), "size_bytes": len(data), "format": "npz", "facts": facts},
        )
        with self.db.write() as session:
            session.add_all([self.model, self.dataset])

    def verdict(self, rule: dict[str, Any], *, stop: str | None, samples: int, params: dict[str, Any]) -> Cost:
        """Return the verdict of a rule, and what it took."""
        policy = Policy(name="bench", rules=[rule])  # type: ignore[list-item]
        stored = {"source": SOURCE.model_dump(), "document": policy.model_dump(mode="json")}
        passed, before = Passed(), cpu_seconds()
        audit_id = self.submit(samples=samples, shards=1, stop=stop, params=params, policy=stored, batch_size=32)
        with passed.counted():
            claims = self.worker().drain()
        seconds = cpu_seconds() - before
        with self.db.read() as session:
            judged = judge(policy, SOURCE, read_measured(session, audit_id))
        shards = self.shards(audit_id)
        counts = {"images": passed.images, "with gradients": passed.with_gradients, "shards": len(shards)}
        attacked = sum(shard.stop - shard.start for shard in shards if shard.stage == "attack")
        return Cost(judged.verdict, judged.rules[0].estimate, attacked, seconds, {**counts, "claims": claims})


def compare(bench: Bench, rule: dict[str, Any], asked: dict[str, Any], pairs: int) -> None:
    """Print what a verdict takes with looks, in parts of what it takes without, by pairs that alternate."""
    costs: dict[str | None, list[Cost]] = {None: [], "decided": []}
    for pair in range(pairs):
        for stop in (None, "decided") if pair % 2 == 0 else ("decided", None):
            costs[stop].append(bench.verdict(rule, stop=stop, **asked))
        ratio = costs["decided"][-1].seconds / costs[None][-1].seconds
        both = " ".join(f"{costs[stop][-1].seconds:7.2f} s" for stop in costs)
        print(f"    {both} {ratio:7.3f}x", flush=True)
    ratios = [early.seconds / whole.seconds for whole, early in zip(*costs.values(), strict=True)]
    print(f"    median {statistics.median(ratios):.3f}x, from {min(ratios):.3f}x to {max(ratios):.3f}x")
    whole, early = (costs[stop][-1] for stop in costs)
    told = [f"{name} {whole.counts[name]:,} and {early.counts[name]:,}" for name in whole.counts]
    print(f"    {'; '.join(told)}; {whole.verdict} and {early.verdict}", flush=True)


def measure(bench: Bench, arguments: argparse.Namespace) -> None:
    """Print what verdicts of a real model cost."""
    params = {"effort": arguments.effort, "epsilon": arguments.epsilon, "steps": arguments.steps}
    asked = {"samples": arguments.samples, "params": params}
    attack = f"effort {arguments.effort}, {arguments.steps} steps at {arguments.epsilon:g}"
    print(f"\n{bench.model.name}, {asked['samples']} images, {attack}")
    if not arguments.pairs:
        print(f"{'':52} {'whole':>24} {'looks':>24}   {'examples':>8} {'seconds':>8}")
    span = "mus" if arguments.effort == "quick" else "mus_worst"
    judged = (("clean_accuracy", "min", -1), (span, "max", 1))
    for metric, side, better in [one for one in judged if arguments.metric in (None, one[0])]:
        # The first one warms up, and says where the bounds are.
        found = bench.verdict({"metric": f"{KIND}.{metric}", side: 0.5}, stop=None, **asked).found
        if found is None or found.value is None or found.low is None or found.high is None:
            raise ValueError(f"{metric} has no interval")
        if arguments.pairs:
            print(f"{metric} {found.value:.3f}, exactly at its bound: whole, with looks", flush=True)
            compare(bench, {"metric": f"{KIND}.{metric}", side: found.value}, asked, arguments.pairs)
            continue
        width = (found.high - found.low) / 2
        for name, away in BOUNDS.items():
            if arguments.near and abs(away) > NEAR:
                continue
            bound = found.value + better * away * width
            if not 0 < bound < (1 if metric == "clean_accuracy" else math.inf):
                continue
            rule = {"metric": f"{KIND}.{metric}", side: bound}
            whole, early = bench.verdict(rule, stop=None, **asked), bench.verdict(rule, stop="decided", **asked)
            told = f"{metric} {found.value:.3f}, at {'least' if side == 'min' else 'most'} {bound:.3f} ({name})"
            cells = [f"{one.verdict:>12} {one.attacked:4d} {one.seconds:5.1f} s" for one in (whole, early)]
            saved = f"{whole.attacked / early.attacked:7.1f}x {whole.seconds / early.seconds:7.1f}x"
            print(f"{told:52} {cells[0]} {cells[1]}   {saved}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--gates", type=int, default=2000, help="simulated gates of each kind; 0 for none")
    parser.add_argument("--samples", type=int, default=1000, help="images of an audit; 0 for none")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--effort", choices=("quick", "standard"), default="quick")
    parser.add_argument("--near", action="store_true", help="only bounds near what a whole audit finds")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of audits with a bound exactly there, nothing else")
    parser.add_argument("--metric", choices=("clean_accuracy", "mus", "mus_worst"), help="bounds on this one alone")
    arguments = parse(parser)
    if arguments.gates:
        simulate_all(arguments.gates)
    if arguments.samples:
        with tempfile.TemporaryDirectory() as folder:
            measure(Bench(Path(folder), arguments), arguments)


if __name__ == "__main__":
    main()
