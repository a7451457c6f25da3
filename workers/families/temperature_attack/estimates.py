"""Records to numbers: every estimate of the family with its interval, and the counts they can be recomputed from."""

from collections.abc import Mapping
from itertools import chain

import numpy as np

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.family import SHARE, SIGNED_SHARE
from seatrial.families.temperature_attack.params import AS_SERVED, UNSCORED, TemperatureAttackParams
from seatrial.statistics.estimating import calibration, estimate, mean, proportion, seed_of
from seatrial.statistics.nested import nested_proportion
from seatrial.statistics.paired import Gap
from workers.calibration.rounding import middle_of_intervals
from workers.calibration.scaling import temperature_interval
from workers.families.contexts import Records
from workers.families.temperature_attack import flags
from workers.families.temperature_attack.arms import limits_of, rounded_to, served_logits
from workers.families.temperature_attack.audit import Audit, read_audit
from workers.families.temperature_attack.series import make_series

Estimates = dict[str, Estimate]


def reduce(params: TemperatureAttackParams, done: Mapping[str, Records], seed: int) -> Result:
    """Turn the records of all stages into estimates, series, flags and counts. Pure and seeded.

    Args:
        params: What was asked.
        done: Records by stage: ``validation``, ``search_1`` and so on, ``attack_<recipe>``.
        seed: Of the intervals, and of which examples are shown.
    """
    audit = read_audit(params, done)
    found = clean_estimates(audit, seed) | temperature_estimates(audit)
    for recipe in audit.attacks:
        found |= attack_estimates(audit, recipe)
    found |= worst_estimates(audit)
    return Result(estimates=found, series=make_series(audit, seed), flags=flags.doubt(audit), counts=count(audit))


def clean_estimates(audit: Audit, seed: int) -> Estimates:
    """Return clean accuracy, and each arm's confidence and calibration on the clean texts.

    Arms that see no scores of the model have none.
    """
    clean, bins = audit.clean, audit.params.bins
    found = {"clean_accuracy": proportion(clean.right)}
    for arm in [AS_SERVED, *audit.arms.others]:
        if arm in UNSCORED:
            continue
        confidence = audit.confidence(arm, clean.logits)
        found[metric_name("mean_confidence", arm=arm)] = mean(confidence, SHARE)
        measured = calibration(confidence, audit.right(arm), bins, seed=seed_of(seed, f"ece {arm}"))
        found |= {metric_name(name, arm=arm): measured[name] for name in ("ece", "mce")}
    return found


def temperature_estimates(audit: Audit) -> Estimates:
    """Return each arm's temperature; the exact fit with its interval over the validation examples."""
    found: Estimates = {}
    for name, arm in audit.arms.by_name.items():
        if arm.temperature is None:
            continue
        sample, interval = audit.validation, None
        if name == "calibrated" and sample is not None and arm.degenerate is None:
            served, limits = served_logits(audit.params, sample), limits_of(audit.params)
            if (digits := rounded_to(audit.params, sample)) is not None:
                served = middle_of_intervals(served, digits)
            interval = temperature_interval(served, sample.labels, arm.temperature, limits=limits)
        n = 0 if name == AS_SERVED else _fitted_on(audit, name)
        found[metric_name("temperature", arm=name)] = estimate(arm.temperature, interval, n, "gaffke-seen")
    return found


def attack_estimates(audit: Audit, recipe: str) -> Estimates:
    """Return what one recipe did to every arm, and the gap between them."""
    sample = audit.attacks[recipe]
    right = sample.clean.right
    found: Estimates = {}
    for arm, ended in sample.arms.items():

        def named(name: str, arm: str = arm) -> str:
            return metric_name(name, arm=arm, recipe=recipe)

        robust = sample.robust(arm)
        # Input reduction keeps the prediction by design, an inert recipe could write nothing: that nothing flips would
        # read as robustness.
        counts = recipe in audit.counted and recipe not in audit.params.second_phase
        found[named("adversarial_accuracy")] = proportion(robust if counts else robust[:0])
        found[named("attack_success_rate")] = proportion(~robust[right] if counts else robust[:0])
        # Of what an earlier recipe broke, nothing was searched.
        found[named("search_success_rate")] = proportion(ended.succeeded[ended.attacked])
        queries = ended.queries[ended.attacked].astype(np.float64)
        budget = audit.params.query_budget
        found[named("mean_queries")] = mean(queries, (0.0, None if budget is None else float(budget)))
        changed = ended.perturbed_share[ended.succeeded]
        found[named("mean_perturbed_share")] = mean(changed, SHARE)
        if arm not in UNSCORED:
            confidence = audit.confidence(arm, ended.logits)
            found[named("mean_adversarial_confidence")] = mean(confidence, SHARE)
    gap = None if recipe in audit.params.second_phase else audit.gap(recipe)
    found |= _gap_estimates(gap, len(sample.clean), recipe=recipe)
    if sample.importance is not None:
        found[metric_name("importance_correlation", recipe=recipe)] = mean(sample.importance, SIGNED_SHARE)
    if sample.masked is not None:
        found[metric_name("masked_importance", recipe=recipe)] = proportion(sample.masked)
    return found


def worst_estimates(audit: Audit) -> Estimates:
    """Return adversarial accuracies and the gap with the worst counted recipe for each example."""
    found = {}
    for arm in [AS_SERVED, *audit.arms.others]:
        phases = audit.phases(arm)
        share = proportion(audit.robust(arm)) if phases is None else nested_proportion(*phases)
        found[metric_name("adversarial_accuracy", arm=arm)] = share
    return found | _gap_estimates(audit.gap(), len(audit.common_ids))


def count(audit: Audit) -> dict[str, int]:
    """Return the whole numbers behind every rate.

    ``errored`` counts examples that errored under any recipe; ``served_only`` and ``lowest_only`` those that are right
    as served alone and in the lowest arm alone, which is all the gap and McNemar's p depend on.
    """
    sizes = [set(sample.all_ids.tolist()) for sample in audit.attacks.values()]
    sound = [set(sample.clean.example_ids.tolist()) for sample in audit.attacks.values()]
    # A recipe of the second phase looks at some of them alone.
    errored = [everyone - kept for everyone, kept in zip(sizes, sound, strict=True)]
    counts = {
        "n": len(set(chain.from_iterable(sizes))),
        "errored": len(set(chain.from_iterable(errored))),
        "clean_n": len(audit.clean),
        "clean_correct": int(audit.clean.right.sum()),
        "worst_n": len(audit.common_ids),
    }
    if audit.validation is not None:
        counts["validation_n"] = len(audit.validation)
    if audit.search is not None:
        counts["search_n"] = len(audit.search.robust)
        counts["search_evaluations"] = len(audit.search.temperatures)
    for recipe, sample in audit.attacks.items():
        counts[metric_name("n", recipe=recipe)] = len(sample.clean)
        counts[metric_name("errored", recipe=recipe)] = sample.size - len(sample.clean)
        counts[metric_name("correct", recipe=recipe)] = int(sample.clean.right.sum())
        for arm, ended in sample.arms.items():
            robust = sample.robust(arm)
            of = {
                "attacked": ended.attacked,
                "succeeded": ended.succeeded,
                "unfinished": ended.unfinished,
                "flipped": sample.clean.right & ~robust,
                "robust": robust,
            }
            counts |= {metric_name(name, arm=arm, recipe=recipe): int(hits.sum()) for name, hits in of.items()}
        counts |= _discordant(audit.gap(recipe), recipe=recipe)
    for arm in [AS_SERVED, *audit.arms.others]:
        counts[metric_name("robust", arm=arm)] = int(audit.robust(arm).sum())
        if (phases := audit.phases(arm)) is not None:
            named = zip(("standing", "first_n", "held", "second_n"), phases, strict=True)
            counts |= {metric_name(name, arm=arm): number for name, number in named}
    return counts | _discordant(audit.gap())


def _gap_estimates(gap: Gap | None, n: int, **of: str) -> Estimates:
    names = [metric_name(name, **of) for name in ("illusion_gap", "mcnemar_p")]
    if gap is None:
        return {name: estimate(None, None, 0) for name in names}
    low, high = gap.interval
    paired = Estimate(value=gap.value, low=low, high=high, n=n, method="paired")
    return dict(zip(names, [paired, Estimate(value=gap.p, low=None, high=None, n=n, method="exact")], strict=True))


def _discordant(gap: Gap | None, **of: str) -> dict[str, int]:
    if gap is None:
        return {}
    return {metric_name("served_only", **of): gap.reference_only, metric_name("lowest_only", **of): gap.lowest_only}


def _fitted_on(audit: Audit, arm: str) -> int:
    if arm == "optimized":
        return 0 if audit.search is None else len(audit.search.robust)
    return 0 if audit.validation is None else len(audit.validation)
