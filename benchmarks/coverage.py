"""How often the interval of every published metric misses, on either side, where errors are rare and where not.

    OMP_NUM_THREADS=1 python -m benchmarks.coverage
    OMP_NUM_THREADS=1 python -m benchmarks.coverage --only calibration ranking --seconds 5

Samples of 50, 100, 300 and 1000 examples are drawn from populations whose truth is known (``benchmarks.populations``),
and each goes through the very function that makes the metric's interval (``benchmarks.simulated``). An end is wrong
when the truth lies beyond it: nominal is 2.5 % a side, asked at most 4 %. ``SIMULATED`` says what stands for a metric;
one that the registry has and it has not ends the run before it begins. Shares are enumerated, which has no simulation
error. A cell of the others is simulated for ``--seconds``, but 300 to 2,000 times, with twice the standard error of a
true 2.5 % printed beside its rates. Widths are means over the samples of the group's first, ordinary population.

Ends with status 1 where a rate exceeds 4 % by more than its simulation error. Ten minutes on two cores.
"""

import argparse
import math
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from benchmarks.populations import SPARSE
from benchmarks.simulated import GROUPS
from seatrial.contracts.registry import families, metrics_of
from seatrial.statistics.exact import clopper_pearson

SIZES = (50, 100, 300, 1000)
LEAST, MOST = 300, 2000
ASKED, NOMINAL = 0.04, 0.025
RATES = {
    "30%": 0.3,
    **{f"{share:.0%}": share for share in SPARSE},
    **{f"{1 - share:.0%}": 1 - share for share in SPARSE},
}

SPAN, CERTIFIED, TEXT = "uncertainty_span", "certified_calibration", "temperature_attack"
GAMES, NOISE, TABLES = "transductive_attack", "low_level_attack", "calibration"

SIMULATED: dict[str, dict[str, str]] = {
    SPAN: {
        "shares": "clean_accuracy adversarial_accuracy accuracy[arm] accuracy[attack] robust_accuracy "
        "robust_accuracy[attack] conformal_coverage[score,arm]",
        "means": "mus mus[attack] mus_worst mus_calibrated mus_scaled msus nud nud[arm] entropy[arm] confidence[arm] "
        "confidence[attack] outlier_entropy[epsilon] conformal_set_size[score,arm] part_span[part] part_lowest[part] "
        "part_highest[part] entropy_part[part,arm]",
        "unbounded": "nud[arm]",
        "signed": "span_growth",
        "deviation": "mus_std msus_std",
        "calibration.ece": "ece[arm] ece[attack]",
        "predictions.ece_equal_mass": "ece_equal_mass[arm] ece_equal_mass[attack]",
        "calibration.ece_centre": "ece_centre[arm]",
        "calibration.s_ece": "s_ece[arm] s_ece[attack]",
        "calibration.mce": "mce[arm]",
        "calibration.brier": "brier[arm]",
        "ranking.auroc": "auroc[epsilon]",
        "ranking.aupr_in": "aupr_in[epsilon]",
        "ranking.aupr_out": "aupr_out[epsilon]",
        "ranking.fpr95": "fpr95[epsilon]",
    },
    CERTIFIED: {
        "shares": "certified_accuracy[radius] certified_share[radius] abstention_rate accuracy robust_accuracy "
        "robust_accuracy[attack] certified_coverage[radius] robust_coverage[radius]",
        "means": "certified_set_size[radius] robust_set_size[radius] "
        "average_certified_radius cbs[radius] interval_width[bound,radius] uncertainty[uncertainty] "
        "uncertainty_low[uncertainty,radius] uncertainty_high[uncertainty,radius] certified_span[uncertainty,radius] "
        "attacked_span[uncertainty,radius] "
        "certified_log_loss[radius] certified_brier[radius]",
        "worst.cce": "cce[radius]",
        "worst.cce_system": "cce_system[radius]",
        "beyond.certified_ks": "certified_ks[radius]",
        "beyond.certified_kuiper": "certified_kuiper[radius]",
        "beyond.cce_quantiles": "cce_quantiles[radius]",
        "beyond.cce_any_bins": "cce_any_bins[radius]",
        "certified classes": "cce_classwise[radius]",
        "calibration.ece": "ece ece[radius] ece[attack,radius]",
        "calibration.brier": "brier brier[attack,radius]",
        "none": "acce[radius] dece[radius] brier_ece[radius]",
    },
    TEXT: {
        "shares": "clean_accuracy adversarial_accuracy[arm] adversarial_accuracy[arm,recipe] "
        "attack_success_rate[arm,recipe] search_success_rate[arm,recipe] masked_importance[recipe]",
        "means": "mean_queries[arm,recipe] mean_perturbed_share[arm,recipe] mean_confidence[arm] "
        "mean_adversarial_confidence[arm,recipe]",
        "unbounded": "mean_queries[arm,recipe]",
        "signed": "importance_correlation[recipe]",
        "calibration.ece": "ece[arm]",
        "calibration.mce": "mce[arm]",
        "temperature": "temperature[arm]",
        "gap": "illusion_gap illusion_gap[recipe]",
        "none": "mcnemar_p mcnemar_p[recipe]",
    },
    GAMES: {
        "shares": "static_accuracy static_robustness clean_accuracy[defence] robustness[defence,attack] "
        "rejection_rate[defence,attack] clean_rejection_rate[defence,attack]",
        "repeats.share": "clean_accuracy[defence] robustness[defence,attack] rejection_rate[defence,attack] "
        "clean_rejection_rate[defence,attack]",
        "repeats.selective_error": "selective_error[defence,attack]",
        "gap": "overestimate[defence] gain_over_static[defence]",
        "repeats.gap": "overestimate[defence] gain_over_static[defence]",
        "repeats.least": "lowest_robustness[defence]",
        "none": "robustness_std[defence,attack]",
    },
    NOISE: {
        "shares": "score[level] score[attacker,level] worst_case_score[level] persistent_score[attacker,level] "
        "flip_rate[attacker,level]",
        "tags": "score[level] score[attacker,level] worst_case_score[level] persistent_score[attacker,level] "
        "flip_rate[attacker,level]",
        "areas.score": "score[level] score[attacker,level] worst_case_score[level] persistent_score[attacker,level]",
        "means": "characters_changed[attacker,level] tokens_changed[attacker,level] mean_confidence[level] "
        "mean_confidence[attacker,level]",
        "unbounded": "characters_changed[attacker,level]",
        "noise.relative_score": "relative_score[attacker,level]",
        "tagged noise.relative_score": "relative_score[attacker,level]",
        "areas.relative_score": "relative_score[attacker,level] mean_relative_score[level]",
        "noise.mean_relative_score": "mean_relative_score[level]",
        "noise.score_drop": "score_drop[attacker,level]",
        "tagged noise.score_drop": "score_drop[attacker,level]",
        "areas.score_drop": "score_drop[attacker,level]",
        "noise.rank": "rank[attacker]",
        "noise.edit_correlation": "edit_correlation",
        "tagged calibration.ece": "ece[level] ece[attacker,level]",
        "tagged calibration.mean_confidence": "mean_confidence[level] mean_confidence[attacker,level]",
    },
    TABLES: {
        "shares": "accuracy accuracy[arm] conformal_coverage",
        "means": "confidence brier conformal_set_size",
        "unbounded": "nll nll[arm]",
        "calibration.ece": "ece ece[arm]",
        "calibration.s_ece": "s_ece",
        "predictions.ece_equal_mass": "ece_equal_mass",
        "predictions.ks": "ks",
        "predictions.aurc": "aurc",
        "classwise": "ece_classwise",
        "slices": "worst_group_accuracy",
        "slices of confidence": "worst_group_ece",
        "temperature": "temperature",
        "ranking.auroc": "failure_auroc ood_auroc",
        "ranking.fpr95": "ood_fpr95",
        "none": "ks_p",
    },
}
"""By family: what is simulated, and which of its metrics that stands for; ``none`` of those published without one."""


class Cell(NamedTuple):
    """One metric of a group on one population at one sample size.

    Attributes:
        name: ``group`` or ``group.name``.
        population: Its name.
        n: Examples of a sample.
        times: Samples that had an interval; 0 where it was enumerated.
        low: Share of them whose lower end was wrong.
        high: Share of them whose upper end was.
        width: Mean width.
    """

    name: str
    population: str
    n: int
    times: int
    low: float
    high: float
    width: float

    @property
    def error(self) -> float:
        """Twice the standard error of a true 2.5 %."""
        return 2 * math.sqrt(NOMINAL * (1 - NOMINAL) / self.times) if self.times else 0.0


def published() -> Iterator[tuple[str, str]]:
    """Yield the families and the names, with the keys of their qualifiers, of all metrics."""
    for kind in families():
        for metric in metrics_of(kind):
            yield kind, metric.name + (f"[{','.join(metric.qualifiers)}]" if metric.qualifiers else "")


def standing_for() -> dict[tuple[str, str], list[str]]:
    """Return what is simulated for every metric.

    Raises:
        LookupError: A metric has no population, or what has one is no metric.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for kind, of in SIMULATED.items():
        for group, names in of.items():
            for name in names.split():
                found.setdefault((kind, name), []).append(group)
    wrong = set(published()) ^ set(found)
    if wrong:
        told = ", ".join(sorted(".".join(one) for one in wrong))
        raise LookupError(f"Give these a group in SIMULATED of benchmarks/coverage.py, or take them out of it: {told}")
    return found


def enumerate_shares(n: int) -> Iterator[Cell]:
    """Yield what the exact intervals of shares miss, from the binomial distribution."""
    hits = np.arange(n + 1)
    ends = np.array([clopper_pearson(int(k), n) for k in hits])
    for name, rate in RATES.items():
        chance = binom.pmf(hits, n, rate)
        wrong = chance[ends[:, 0] > rate].sum(), chance[ends[:, 1] < rate].sum()
        yield Cell("shares", name, n, 0, *map(float, wrong), float((ends[:, 1] - ends[:, 0]) @ chance))


def simulate(group: str, population: str, n: int, seconds: float) -> list[Cell]:
    """Return what the intervals of a group miss on one population."""
    made = GROUPS[group]
    draw = made.populations[population]
    rng = np.random.default_rng(zlib.crc32(f"{group} {population}".encode()))
    truth = made.truth(draw, rng)
    rng = np.random.default_rng(zlib.crc32(f"{group} {population} {n}".encode()))
    found: dict[str, list[tuple[bool, bool, float]]] = {}
    started, times = time.monotonic(), 0
    while times < LEAST or (times < MOST and time.monotonic() - started < seconds):
        sample = draw(rng, n)
        of_sample, times = made.of_sample(sample, truth), times + 1
        for name, interval in made.ends(sample, times).items():
            one = found.setdefault(name, [])
            if interval is not None:
                # A truth that is an end itself differs from it by rounding.
                value, (low, high) = float(of_sample[name]), interval
                one.append((low > value + 1e-9, high < value - 1e-9, high - low))
    cells = []
    for name, told in found.items():
        low, high, width = np.mean(told, axis=0).tolist() if told else (0.0, 0.0, math.nan)
        cells.append(Cell(f"{group}.{name}".rstrip("."), population, n, len(told), low, high, width))
    return cells


def run(only: list[str], sizes: list[int], seconds: float, workers: int) -> list[Cell]:
    """Return the cells of some groups, or of all, at some sizes."""
    cells = [cell for n in sizes for cell in enumerate_shares(n)] if not only or "shares" in only else []
    tasks = [
        (group, population, n)
        for n in reversed(sizes)
        for group, made in GROUPS.items()
        if not only or group in only
        for population in made.populations
    ]
    with ProcessPoolExecutor(workers) as pool:
        for done in pool.map(simulate, *zip(*tasks, strict=True), [seconds] * len(tasks)) if tasks else ():
            cells += done
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return cells


def report(cells: list[Cell]) -> list[Cell]:
    """Print the worst rates of every name with its widths, and return what exceeds what was asked."""
    sizes = sorted({cell.n for cell in cells})
    print(f"| interval | worst low | where | worst high | where | widths at n = {', '.join(map(str, sizes))} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in dict.fromkeys(cell.name for cell in cells):
        own = [cell for cell in cells if cell.name == name and (cell.times or name == "shares")]
        low, high = max(own, key=lambda cell: cell.low), max(own, key=lambda cell: cell.high)
        first = next(cell.population for cell in cells if cell.name == name)
        widths = {cell.n: f"{cell.width:.3g}" for cell in own if cell.population == first}
        told = [
            f"{rate:.1%} | {cell.population}, n = {cell.n}{_error(cell)}"
            for rate, cell in ((low.low, low), (high.high, high))
        ]
        print(f"| {name} | {' | '.join(told)} | {', '.join(widths[n] for n in sorted(widths))} |")
    return [cell for cell in cells if max(cell.low, cell.high) > ASKED + cell.error]


def _error(cell: Cell) -> str:
    return f" ({cell.times:,}, +-{cell.error:.1%})" if cell.times else ""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="groups: shares, " + ", ".join(GROUPS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[*SIZES], help="of the samples")
    parser.add_argument("--seconds", type=float, default=4.0, help="of simulation in a cell")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    metrics = standing_for()
    cells = run(asked.only, asked.sizes, asked.seconds, asked.workers)
    beyond = report(cells)
    simulated = sum(groups != ["none"] for groups in metrics.values())
    times = [cell.times for cell in cells if cell.times]
    print(f"\n{len(metrics)} metrics, {simulated} of them with intervals; {len(cells)} cells", end="")
    print(f" of {min(times):,} to {max(times):,} samples" if times else "")
    for cell in beyond:
        rates = f"{cell.low:.1%} low, {cell.high:.1%} high"
        print(f"over {ASKED:.0%}: {cell.name} on {cell.population}, n = {cell.n}: {rates}")
    sys.exit(bool(beyond))


if __name__ == "__main__":
    main()
