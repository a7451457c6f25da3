"""Records of audits that never ran: a made-up model, and an attacker as good as the signal it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import torch

from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, TemperatureAttackParams
from workers.attacks.text.importance import Agreement
from workers.attacks.text.strength import Strength
from workers.calibration.scaling import Scaling
from workers.families.contexts import Records, TextExample
from workers.families.temperature_attack.arms import Arms, fitted_temperature, resolve_arms, view_at
from workers.families.temperature_attack.records import (
    SearchSample,
    attack_records,
    search_records,
    validation_records,
)
from workers.families.temperature_attack.search import next_round
from workers.models import UnansweredError


@dataclass(frozen=True)
class Ending:
    status: str
    text: str
    queries: int
    perturbed_share: float
    error: str | None = None
    strength: Strength | None = None


def parameters(**changes: object) -> TemperatureAttackParams:
    return TemperatureAttackParams.model_validate({"kind": "temperature_attack"} | changes)


def model(seed: int, n: int, classes: int = 2, scale: float = 3.0) -> tuple[list[TextExample], list[torch.Tensor]]:
    """Texts and float32 logits of a model that is right about as often as it says at temperature 1.5."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, scale, (n, classes))
    chances = np.exp(logits / 1.5)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    examples = [TextExample(100 + i, f"text number {i} of this sample", int(label)) for i, label in enumerate(labels)]
    return examples, list(torch.from_numpy(logits).float())


def attack(example: TextExample, raw: torch.Tensor, scaling: Scaling, strength: float) -> tuple[Ending, torch.Tensor]:
    """Take ``strength`` off the label's logit, or nothing where the attacker sees a probability of 1 or a tie."""
    if int(raw.argmax()) != example.label:
        return Ending("skipped", example.text, 1, 0.0), raw
    seen = scaling.probabilities(raw[None])[0]
    top = seen.topk(2).values
    if float(top[0]) == 1 or float(top[0]) == float(top[1]):
        return Ending("failed", example.text.replace("text", "texr"), 40, 0.2), raw
    changed = raw.clone()
    changed[example.label] -= strength
    status = "succeeded" if int(changed.argmax()) != example.label else "failed"
    return Ending(status, example.text.replace("number", "nubmer"), 12, 0.2), changed


def records(
    params: TemperatureAttackParams,
    *,
    n: int = 60,
    validation: int = 80,
    classes: int = 2,
    seed: int = 0,
    errored: frozenset[int] = frozenset(),
    label_only: float | None = None,
    could_write: Mapping[str, Strength] = MappingProxyType({}),
    masked: int = 0,
) -> dict[str, Records]:
    """Return the records of every stage.

    ``errored`` are positions of examples that give no answer; ``label_only`` is how strong the search is that sees
    labels alone, relative to one that sees a score, and None where the records are from before there was one;
    ``could_write`` is what each recipe could write of every text, and ``masked`` how many begin the
    sample whose words are all as important as served.
    """
    done: dict[str, Records] = {}
    rng = np.random.default_rng(seed + 1)
    if params.is_fitted:
        examples, logits = model(seed + 2, validation, classes)
        answers = [UnansweredError("no") if row in errored else given for row, given in enumerate(logits)]
        done["validation"] = validation_records(examples, answers)
        strengths = rng.gamma(2, 2, validation)
        while "optimized" in params.arms and (wanted := next_temperatures(params, done)):
            views = [view_at(params, temperature) for temperature in wanted]
            kept, queries = [], []
            for row, (example, raw) in enumerate(zip(examples, logits, strict=True)):
                ended = [attack(example, raw, view, strengths[row]) for view in views]
                kept.append(None if row in errored else [int(x.argmax()) == example.label for _, x in ended])
                queries.append(None if row in errored else [ending.queries for ending, _ in ended])
            done[f"search_{len(rounds(done)) + 1}"] = search_records(examples, wanted, kept, queries)
    arms = resolve_arms(params, done.get("validation"), rounds(done))
    examples, logits = model(seed + 3, n, classes)
    for recipe in params.recipes:
        done[f"attack_{recipe}"] = _attack_stage(
            recipe, arms, examples, logits, rng.gamma(2, 2, n), errored, label_only, could_write.get(recipe), masked
        )
    return done


def _attack_stage(
    recipe: str,
    arms: Arms,
    examples: list[TextExample],
    logits: list[torch.Tensor],
    strengths: np.ndarray,
    errored: frozenset[int],
    label_only: float | None,
    could_write: Strength | None,
    masked: int,
) -> Records:
    outcomes, adversarial = {}, {}
    for arm in [AS_SERVED, *arms.others]:
        if arm == LABEL_ONLY and (label_only is None or recipe == "input_reduction"):
            continue
        given = zip(examples, logits, label_only * strengths if arm == LABEL_ONLY else strengths, strict=True)
        scaling = Scaling(temperature=10.0) if arm == LABEL_ONLY else arms[arm].scaling
        ended = [attack(example, raw, scaling, strength) for example, raw, strength in given]
        outcomes[arm] = [replace(ending, strength=could_write) for ending, _ in ended]
        adversarial[arm] = [x for _, x in ended]
    clean = [UnansweredError("no") if row in errored else given for row, given in enumerate(logits)]
    correlations = [Agreement(float("nan") if row % 5 == 0 else 0.3 + 0.01 * (row % 7)) for row in range(len(examples))]
    correlations[:masked] = [Agreement(0.0, is_masked=True)] * masked
    ranks = recipe in ("pwws", "textfooler") and "calibrated" in arms.by_name
    return attack_records(examples, clean, outcomes, adversarial, correlations if ranks else None)


def rounds(done: dict[str, Records]) -> list[Records]:
    return [table for name, table in done.items() if name.startswith("search_")]


def next_temperatures(params: TemperatureAttackParams, done: dict[str, Records]) -> list[float]:
    known = SearchSample(rounds(done)).evaluated
    fitted = fitted_temperature(params, done["validation"])
    return next_round(known, fitted, params.temperature_evaluations, params.temperature_search)
