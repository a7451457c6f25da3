"""Text attacks: ours against TextAttack as it comes, and what a full temperature audit costs against one cold run.

    python -m benchmarks.text_attack
    python -m benchmarks.text_attack --model minilm_l6_rotten_tomatoes --data rotten_tomatoes.test.jsonl
    python -m benchmarks.text_attack --model ... --data ... --device cuda --parts batches

Three parts, each a ratio within this run:

peer     CPU seconds of plain TextAttack (its own recipe, its own Hugging Face wrapper, one example after the other)
         over ours, recipe by recipe with an empty cache, and on how many examples both find the same. Asked: 10x.
audit    Forward passes of the family temperature_attack (as served, calibrated, optimized with 20 temperatures on as
         many validation texts, 2 recipes, importances, re-scoring) over one cold run of the same recipes as served.
         Asked: at most 2x. With --own-luck also as it would be if each temperature of the search drew its own letters.
batches  Texts a call and examples a second with many attacks in flight, over one attack at a time with the same
         classifier. Asked on a GPU: 64 texts a call and 5x.

Without --model it trains the tests' own tiny model in seconds and writes a WordNet of a few words: then the script is
tried, not the targets, which are for a real model. With --model SEATRIAL_RESOURCES names the folder with WordNet. Ends
with status 1 when a target of a real model is missed.
"""

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import torch

from seatrial.contracts.models import ModelManifest
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.textattack_environment import quiet
from workers.calibration.scaling import Scaling
from workers.families.contexts import TextExample
from workers.families.protocol import HELD_OUT, Shard
from workers.families.temperature_attack import family
from workers.models.hf_text import load_huggingface_text
from workers.resources.library import Library
from workers.resources.wordnet import load_wordnet

RECIPES: list[Literal["deepwordbug", "pwws"]] = ["deepwordbug", "pwws"]
BUILDERS = {"deepwordbug": "DeepWordBugGao2018", "pwws": "PWWSRen2019"}
CACHE_BYTES = 2**30
EVALUATIONS = 20
PEER_TARGET, AUDIT_TARGET, BATCH_TARGET, THROUGHPUT_TARGET = 10.0, 2.0, 64.0, 5.0


class Bench:
    """A model, its texts and the recipes."""

    def __init__(self, folder: Path, texts: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.device = torch.device(arguments.device)
        manifest = ModelManifest.model_validate(
            {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "huggingface"}}
        )
        self.classifier = load_huggingface_text(manifest, folder, self.device)
        rows = [json.loads(line) for line in texts.read_text(encoding="utf-8").splitlines()]
        order = random.Random(arguments.seed).sample(range(len(rows)), len(rows))
        self.examples = [TextExample(place, rows[place]["text"], int(rows[place]["label"])) for place in order]
        self.recipes = {name: load_recipe(name, Library.of()) for name in RECIPES}

    def service(self, max_bytes: int = CACHE_BYTES) -> ScoringService:
        """Return a service that knows nothing yet."""
        return ScoringService(self.classifier, max_bytes=max_bytes)

    def jobs(self, recipe: Recipe, examples: Sequence[TextExample], design: float = 1.0) -> list[Job]:
        """Return one attack per example on the model as served at a design temperature."""
        view = Scaling(design, is_native=True).probabilities
        return [Job(each.example_id, each.text, each.label, each.example_id, view, recipe) for each in examples]


class Context:
    """What the family needs of a runtime: everything in this process, one shard a stage."""

    def __init__(self, service: ScoringService, sample: list[TextExample], validation: list[TextExample]) -> None:
        self.done: dict[str, pa.Table] = {}
        self.spent: dict[str, int] = {}
        self._service = service
        self._sources = {True: validation, False: sample}
        self._is_held_out = False

    def audit(self, params: TemperatureAttackParams) -> None:
        """Run all stages."""
        audited = family.TemperatureAttack()
        while (stage := audited.next_stage(params, self.done)) is not None:
            self._is_held_out = stage.source == HELD_OUT
            before = self._service.meters.forward_passes
            self.done[stage.name] = audited.run(params, Shard(stage.name, 0, len(self.texts())), self)
            self.spent[stage.name] = self._service.meters.forward_passes - before

    def texts(self) -> list[TextExample]:
        """Return the stage's examples."""
        return self._sources[self._is_held_out]

    def scoring(self, parameter: str | None = None) -> ScoringService:
        """Return the one service."""
        return self._service

    def seed(self, purpose: str, example_id: int) -> int:
        """Return the example's number: as in the cold run."""
        return example_id

    samples = 1000

    def salted_seed(self, purpose: str, example_id: int) -> int:
        """Return the same: nobody here is told it."""
        return self.seed(purpose, example_id)

    def records(self, stage: str) -> pa.Table:
        """Return a finished stage."""
        return self.done[stage]

    def check_cancelled(self) -> None:
        """Nobody cancels."""

    def progress(self, done: int) -> None:
        """Nobody watches."""


def against_textattack(bench: Bench, count: int) -> dict[str, Any]:
    """Attack the same examples by TextAttack's own loop and by ours; return CPU seconds and agreement per recipe."""
    import textattack
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(bench.folder, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(bench.folder, local_files_only=True)
    wrapper = textattack.models.wrappers.HuggingFaceModelWrapper(model, tokenizer)
    examples = bench.examples[:count]
    swaps = importlib.import_module("textattack.transformations.word_swaps.word_swap_wordnet")
    # NLTK would look for it in folders of its own.
    swaps.__dict__["wordnet"] = load_wordnet(Library.of().folder / "wordnet")
    print(f"\npeer: {count} examples, CPU seconds; TextAttack pads every text to {tokenizer.model_max_length} tokens")
    print(f"  {'':14}{'TextAttack':>12}{'ours':>9}{'ratio':>8}   same outcome")
    numbers = {}
    for name, recipe in bench.recipes.items():
        with quiet():
            attack = getattr(textattack.attack_recipes, BUILDERS[name]).build(wrapper)
        start = time.process_time()
        theirs = []
        for example in examples:
            random.seed(example.example_id)
            np.random.seed(example.example_id)
            theirs.append(attack.attack(example.text, example.label))
        their_s = time.process_time() - start
        start = time.process_time()
        ours = attack_all(bench.jobs(recipe, examples), bench.service())
        our_s = time.process_time() - start
        same = sum(map(_is_same, ours, theirs))
        ratio = their_s / our_s
        print(f"  {name:14}{their_s:11.1f}s{our_s:8.1f}s{ratio:7.1f}x   {same} of {count}")
        numbers[name] = {"textattack_s": their_s, "ours_s": our_s, "ratio": ratio, "same": same, "examples": count}
    return numbers


def full_audit(bench: Bench, count: int, design: float, lucks: Sequence[str]) -> dict[str, Any]:
    """Run a whole audit and one cold run; return their forward passes, with each luck of the search's attacks."""
    sample, validation = bench.examples[:count], bench.examples[-count:]
    cold = bench.service()
    for recipe in bench.recipes.values():
        attack_all(bench.jobs(recipe, sample, design), cold)
    params = TemperatureAttackParams(
        kind="temperature_attack",
        recipes=list(RECIPES),
        arms=["calibrated", "optimized"],
        design_temperature=design,
        validation_samples=count,
        temperature_evaluations=EVALUATIONS,
    )
    numbers: dict[str, Any] = {"design_temperature": design, "examples": count, "cold": cold.meters.forward_passes}
    print(f"\naudit: {count} examples, {count} for validation, design temperature {design:g}; forward passes")
    print(f"  one cold run as served, {len(RECIPES)} recipes{cold.meters.forward_passes:31}")
    for luck in lucks:
        service = bench.service()
        context = Context(service, sample, validation)
        with patch.object(family, "Job", Job if luck == "common" else _job_of_its_own_luck):
            context.audit(params)
        total = service.meters.forward_passes
        ratio = total / cold.meters.forward_passes
        name = {"common": "same luck at every temperature", "own": "each temperature its own luck"}[luck]
        print(f"  full audit, {name:36}{total:7}{ratio:7.2f}x   hits {service.meters.hit_rate:.1%}; ", end="")
        print(", ".join(f"{stage} {passes}" for stage, passes in context.spent.items()))
        numbers[luck] = {"passes": total, "ratio": ratio, "stages": context.spent}
    return numbers


def batches(bench: Bench, count: int) -> dict[str, Any]:
    """Attack with many in flight and one at a time; return batch sizes and examples a second."""
    examples = [bench.examples[place % len(bench.examples)] for place in range(count)]
    print(f"\nbatches: {count} examples on {bench.device}")
    print(f"  {'':14}{'texts a call':>24}{'examples/s':>24}{'ratio':>8}")
    numbers = {}
    for name, recipe in bench.recipes.items():
        jobs = bench.jobs(recipe, examples)
        # Kernels are chosen and compiled on first use.
        attack_all(jobs[:8], bench.service())
        alone, together = bench.service(max_bytes=0), bench.service()
        start = time.perf_counter()
        one_by_one = attack_all(jobs, alone, in_flight=1)
        alone_s = time.perf_counter() - start
        start = time.perf_counter()
        at_once = attack_all(jobs, together)
        together_s = time.perf_counter() - start
        if one_by_one != at_once:
            raise SystemExit(f"{name}: outcomes depend on what is in flight")
        sizes = [service.meters.forward_passes / service.meters.calls for service in (alone, together)]
        ratio = alone_s / together_s
        print(f"  {name:14}{sizes[0]:11.1f} ->{sizes[1]:10.1f}", end="")
        print(f"{count / alone_s:12.2f} ->{count / together_s:9.2f}{ratio:7.2f}x")
        numbers[name] = {"texts_a_call": sizes[1], "examples_per_s": count / together_s, "ratio": ratio}
    return numbers


def missed(numbers: dict[str, Any], device: torch.device) -> list[str]:
    """Return the targets of a real model that were missed, each as a sentence."""
    found = [
        f"{name}: {recipe['ratio']:.1f}x of TextAttack's CPU seconds saved, {PEER_TARGET:g}x asked"
        for name, recipe in numbers.get("peer", {}).items()
        if recipe["ratio"] < PEER_TARGET
    ]
    found += [
        f"an audit at T_d = {audit['design_temperature']:g} cost {audit['common']['ratio']:.2f} cold runs, "
        f"{AUDIT_TARGET:g} asked"
        for audit in numbers.get("audit", [])
        if audit["common"]["ratio"] > AUDIT_TARGET
    ]
    if device.type == "cuda":
        found += [
            f"{name}: {recipe['texts_a_call']:.0f} texts a call and {recipe['ratio']:.1f}x, {BATCH_TARGET:g} and "
            f"{THROUGHPUT_TARGET:g}x asked"
            for name, recipe in numbers.get("batches", {}).items()
            if recipe["texts_a_call"] < BATCH_TARGET or recipe["ratio"] < THROUGHPUT_TARGET
        ]
    return found


def _is_same(ours: Outcome, theirs: Any) -> bool:
    status = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped"}[ours.status]
    is_same_text: bool = ours.text == theirs.perturbed_result.attacked_text.text
    return is_same_text and type(theirs).__name__.startswith(status)


def _job_of_its_own_luck(*arguments: Any, **more: Any) -> Job:
    return dataclasses.replace(Job(*arguments, **more), common_random_numbers=False)


def _tiny(folder: Path) -> tuple[Path, Path]:
    """Write the tests' model, reviews and WordNet; returns the folder of the model and the file of the reviews."""
    from tests import texts as reviews
    from tests.resources.making import write_wordnet

    write_wordnet(folder / "resources" / "wordnet")
    os.environ["SEATRIAL_RESOURCES"] = str(folder / "resources")
    model = reviews.tiny_sentiment(folder / "model")
    return model, reviews.jsonl(
        folder / "reviews.jsonl", [{"text": text, "label": label} for text, label in reviews.sentences(400, seed=5)]
    )


def main() -> None:
    """Run the parts asked for and print tables and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="Hugging Face folder, instead of the tests' own model")
    parser.add_argument("--data", type=Path, help="JSON lines with text and label")
    parser.add_argument(
        "--parts", nargs="+", choices=["peer", "audit", "batches"], default=["peer", "audit", "batches"]
    )
    parser.add_argument("--examples", type=int, default=12, help="of part peer: TextAttack takes about 5 s for each")
    parser.add_argument("--audited", type=int, default=40, help="examples of part audit, and as many for validation")
    parser.add_argument("--design-temperatures", nargs="+", type=float, default=[1.0, 0.01])
    parser.add_argument("--own-luck", action="store_true", help="part audit also without common random numbers")
    parser.add_argument("--attacked", type=int, default=0, help="of part batches; default 24 on a CPU, 512 on a GPU")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the examples")
    arguments = parser.parse_args()
    if (arguments.model is None) != (arguments.data is None):
        parser.error("give --model and --data together")
    torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as scratch:
        model, data = (arguments.model, arguments.data) if arguments.model else _tiny(Path(scratch))
        bench = Bench(model, data, arguments)
        version = importlib.metadata.version("textattack")
        print(f"torch {torch.__version__}, textattack {version}, {arguments.threads} threads, ", end="")
        print(f"{bench.classifier.parameters / 1e6:.1f} M weights on {bench.device}")
        numbers: dict[str, Any] = {}
        if "peer" in arguments.parts:
            numbers["peer"] = against_textattack(bench, arguments.examples)
        if "audit" in arguments.parts:
            lucks = ["common", "own"] if arguments.own_luck else ["common"]
            numbers["audit"] = [
                full_audit(bench, arguments.audited, design, lucks) for design in arguments.design_temperatures
            ]
        if "batches" in arguments.parts:
            many = arguments.attacked or (24 if bench.device.type == "cpu" else 512)
            numbers["batches"] = batches(bench, many)
    print("\n" + json.dumps(numbers))
    if arguments.model and (failures := missed(numbers, bench.device)):
        sys.exit("missed: " + "; ".join(failures))


if __name__ == "__main__":
    main()
