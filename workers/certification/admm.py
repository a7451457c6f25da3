"""The paper's way to the certified calibration error: lp-box ADMM on its mixed-integer program (Emde et al., Alg. 1).

Kept to be compared with the exact solution in ``worst_calibration``. Every value here is that of confidences and bins
the intervals allow: never above the exact one, usually below it, and so never a certificate.

The program chooses a bin for each example (``a``, a column each) and a confidence in each bin it might be in (``z``).
Arrays are (bins, n): sums over bins then add long rows, which took a quarter less time than (n, bins). The runs are
made one after another: their arrays then stay in the processor's cache. At 2000 examples that took a third less than
all 16 as one array, at 500 the same; only below 300, where the 16 take about 5 seconds, it took longer.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import ece
from workers.certification.brier import brier_confidences, clean_confidences
from workers.certification.worst_calibration import Intervals

FIRST_PENALTY, LAST_PENALTY = 0.01, 10.0
STEPS = 3000
LARGEST_GRADIENT = 5.0
"""Of the assignment, in each entry: the l_inf ball it is projected to."""

SPREAD = 1.2
"""How much further from 1/2 an assignment may be than its copy on the sphere."""

PATIENCE = 100
"""A run ends when the penalty has stopped growing and the value stayed the same, to ``STILL``, over this many steps.

Few runs get there: on realistic samples of 200 to 600 examples, 97 to 100 % of the 3000 steps were made. Ten times
``STILL`` saved up to half of them, at up to 0.7 % of the exact value.
"""

STILL = 1e-4

LOOKED_AT, MIDWAY, FOLLOWED = 50, 300, 10
"""Steps between looks at the constraints, the step at which assignments are looked at between beginning and end, and of
how many examples."""


@dataclass(frozen=True)
class Setting:
    """Where a run starts and how it moves.

    Attributes:
        start: The confidences it starts from: without an attack, or those of the worst Brier score.
        alpha_z: Step size of the confidences.
        alpha_a: Step size of the assignment.
        growth: Factor by which the penalty grows with each step.
    """

    start: Literal["clean", "brier"]
    alpha_z: float
    alpha_a: float
    growth: float


STARTS: tuple[Literal["clean", "brier"], ...] = ("clean", "brier")
GRID = tuple(itertools.starmap(Setting, itertools.product(STARTS, (1e-3, 1e-2), (1e-3, 1e-2), (1.004, 1.02))))
"""The 16 runs of the paper's evaluation; its own values are not published, these are near the best it names."""


@dataclass(frozen=True)
class Convergence:
    """How a run came to hold its constraints (appendix G.1, figures 10 and 11).

    Attributes:
        steps: The steps looked at: 0, every ``LOOKED_AT``-th, and the last.
        violations: By constraint, how far it is from holding at these: the l_2 and the l_inf norm of the distance to
            what fulfils it, (2, steps). Confidences within their ends (``bounded_confidence``), an assignment of zeros
            and ones (``binary_assignment``), which adds up to 1 for each example (``unique_assignment``), and is 0 for
            bins that an example cannot be in (``valid_assignment``).
        assignments: By step, a at the beginning, at step ``MIDWAY`` and at the end, of the first ``FOLLOWED`` examples:
            (examples, bins).
    """

    steps: tuple[int, ...]
    violations: dict[str, Floats]
    assignments: dict[int, Floats]


@dataclass(frozen=True)
class AdmmOutcome:
    """What the runs found.

    Attributes:
        value: The largest ECE of all runs, their starts included; None without an example.
        best: The setting that found it, the first of equals; None without an example.
        values: The largest ECE of each run, its start included.
        steps: Steps each run took.
        traces: Each run's ECE by step, its start first, (steps + 1,).
        convergence: Of the run that found the largest; None without an example.
    """

    value: float | None
    best: Setting | None
    values: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    traces: tuple[Floats, ...] = ()
    convergence: Convergence | None = None


@dataclass(frozen=True)
class Program:
    """The mixed-integer program of a sample.

    Attributes:
        correct: (n,) 1 where the certified class is the label, else 0.
        lower: (bins, n) least confidence of an example within a bin; 0 where its interval does not meet the bin.
        upper: (bins, n) largest one; 0 likewise.
        inaccessible: (bins, n) 1 where an example's interval does not meet the bin, else 0.
    """

    correct: Floats
    lower: Floats
    upper: Floats
    inaccessible: Floats

    @classmethod
    def of(cls, sample: Intervals) -> "Program":
        """Return the program of certified intervals.

        Intervals and bins are closed, so that an interval of no width has a bin; the paper's strict inequality leaves
        it none.
        """
        lower = np.maximum(sample.lower, sample.edges[:-1, None])
        upper = np.minimum(sample.upper, sample.edges[1:, None])
        shut = lower > upper
        lower[shut] = upper[shut] = 0
        return cls(sample.correct.astype(np.float64), lower, upper, shut.astype(np.float64))

    def clip(self, confidence: Floats) -> Floats:
        """Return confidences (bins, n) moved to the nearest ends."""
        # np.clip takes twice as long when its limits are arrays.
        return np.minimum(np.maximum(confidence, self.lower), self.upper)

    def value(self, assignment: Floats, confidence: Floats) -> float:
        """Return the ECE of the nearest allowed point: each example in its likeliest bin, its confidence clipped.

        Args:
            assignment: (bins, n) a; the largest entry among the bins an example can be in counts, the first of equals.
            confidence: (bins, n) z.
        """
        chosen = np.where(self.inaccessible, -np.inf, assignment).argmax(0)
        at = chosen, np.arange(len(chosen))
        errors = self.correct - np.clip(confidence[at], self.lower[at], self.upper[at])
        return float(np.abs(np.bincount(chosen, errors, minlength=len(assignment))).sum()) / len(chosen)


class Iterate:
    """A point of the augmented Lagrangian of a program: primal blocks, multipliers, penalty.

    L(a, z, q1, q2, g) = -sum_bins |sum_n a (correct - z)| + l1.(a - q1) + l2.(a - q2) + l3.(sum_bins a - 1)
    + l4.(sum_bins inaccessible a) + l5.(z - g) + penalty / 2 times the squared norm of each of the five brackets, where
    q1 is in [0, 1], q2 on the sphere around 1/2 through its corners, and g within a bin's ends.
    """

    def __init__(self, program: Program, confidence: Floats) -> None:
        """Start at confidences (n,) and the same weight for every bin, copies projected, multipliers 0."""
        self.program = program
        shape = program.lower.shape
        self.a = np.full(shape, 1 / shape[0])
        self.z = np.tile(confidence, (shape[0], 1))
        self.q1, self.q2 = np.clip(self.a, 0, 1), onto_sphere(self.a)
        self.g = program.clip(self.z)
        self.l1, self.l2, self.l5 = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.l3, self.l4 = np.zeros(shape[1]), np.zeros(shape[1])
        self.penalty = FIRST_PENALTY
        self._measure()

    def place(self, confidence: Floats) -> None:
        """Put every bin's confidences at those (n,) that something else has moved, an attack on inputs say."""
        self.z = np.tile(confidence, (len(self.program.lower), 1))

    def _measure(self) -> None:
        """Measure how far what each example has in all bins is from holding; (bins, n) gaps are made when needed."""
        self.r3 = self.a.sum(0) - 1
        self.r4 = np.einsum("mn,mn->n", self.program.inaccessible, self.a)

    def _signs(self, errors: Floats) -> Floats:
        """Return the sign (bins, 1) of each bin's error."""
        signs: Floats = np.sign(np.einsum("mn,mn->m", self.a, errors))[:, None]
        return signs

    def gradient_a(self) -> Floats:
        """Return dL/da (bins, n)."""
        rho = self.penalty
        gradient: Floats = self.program.inaccessible * (self.l4 + rho * self.r4)
        gradient += self.l3 + rho * self.r3
        gradient += self.l1
        gradient += self.l2
        gaps = self.a - self.q1
        gaps += self.a - self.q2
        gaps *= rho
        gradient += gaps
        errors = np.subtract(self.program.correct, self.z, out=gaps)
        errors *= self._signs(errors)
        gradient -= errors
        return gradient

    def gradient_z(self) -> Floats:
        """Return dL/dz (bins, n)."""
        errors = self.program.correct - self.z
        gradient: Floats = np.multiply(self._signs(errors), self.a, out=errors)
        gradient += self.l5
        gaps = self.z - self.g
        gaps *= self.penalty
        gradient += gaps
        return gradient

    def violations(self) -> dict[str, Floats]:
        """Return how far each constraint is from holding: l_2 and l_inf norm of the distance, (2,)."""
        away: dict[str, Callable[[], Floats]] = {
            "bounded_confidence": lambda: self.z - self.program.clip(self.z),
            "binary_assignment": lambda: self.a - (self.a > 0.5),
            "unique_assignment": lambda: self.r3,
            "valid_assignment": lambda: self.r4,
        }
        # One at a time: of 100,000 examples each is 12 MB, and so are the iterate's eight blocks.
        return {name: _norms(distance()) for name, distance in away.items()}

    def step(self, alpha_a: float, alpha_z: float) -> None:
        """Move once: a, then z by one gradient step each, the copies by projection, the multipliers by ascent."""
        change = self.gradient_a()
        np.clip(change, -LARGEST_GRADIENT, LARGEST_GRADIENT, out=change)
        change *= alpha_a
        self.a -= change
        reach = SPREAD * max(self.q2.max() - 0.5, 0.5 - self.q2.min())
        np.clip(self.a, 0.5 - reach, 0.5 + reach, out=self.a)
        change = self.gradient_z()
        change *= alpha_z
        self.z -= change
        rho = self.penalty
        _moved(self.l5, rho, self.z, out=self.g)
        np.minimum(np.maximum(self.g, self.program.lower, out=self.g), self.program.upper, out=self.g)
        np.clip(_moved(self.l1, rho, self.a, out=self.q1), 0, 1, out=self.q1)
        onto_sphere(_moved(self.l2, rho, self.a, out=self.q2), out=self.q2)
        self._measure()
        for multiplier, block, copy in (
            (self.l1, self.a, self.q1),
            (self.l2, self.a, self.q2),
            (self.l5, self.z, self.g),
        ):
            gaps = np.subtract(block, copy, out=change)
            gaps *= rho
            multiplier += gaps
        self.l3 += rho * self.r3
        self.l4 += rho * self.r4


def _moved(multiplier: Floats, penalty: float, block: Floats, *, out: Floats) -> Floats:
    """Return where a block's copy would be but for what it must fulfil."""
    np.divide(multiplier, penalty, out=out)
    out += block
    return out


def _norms(distance: Floats) -> Floats:
    """Return the l_2 and the l_inf norm of a distance (2,)."""
    return np.array([np.linalg.norm(distance), np.abs(distance).max(initial=0.0)])


def onto_sphere(point: Floats, *, out: Floats | None = None) -> Floats:
    """Return the nearest point of the sphere around 1/2 that passes through every vector of zeros and ones.

    All of it is equally near to its centre, where a run over 2 bins starts: then the vector of ones is returned.

    >>> onto_sphere(np.array([[0.5, 0.6]])).round(3).tolist()
    [[0.5, 1.207]]
    """
    away = np.subtract(point, 0.5, out=out)
    if not away.any():
        away[:] = 1.0
        return away
    away *= np.sqrt(away.size) / 2 / np.linalg.norm(away)
    away += 0.5
    return away


def admm_calibration_error(
    lower: ArrayLike,
    upper: ArrayLike,
    correct: ArrayLike,
    clean: ArrayLike,
    bins: int = 15,
    *,
    settings: tuple[Setting, ...] = GRID,
    steps: int = STEPS,
    check_cancelled: Callable[[], None] = lambda: None,
) -> AdmmOutcome:
    """Return the largest ECE that ADMM finds among the confidences the intervals allow.

    It is never above the certified calibration error and, with runs from both starts as in the default, at least the
    ECE without an attack and that of the Brier confidences: a run's start counts too, which the paper does not ask.
    It is no certificate: it stays below the worst case, by 2 to 13 % on realistic samples of 100 to 2000. It takes
    about 4 + 0.0012 n bins seconds on one core. Source: Emde et al., Algorithm 1, after the lp-box ADMM of Wu and
    Ghanem (2018).

    Args:
        lower: (n,) lower ends of the confidence intervals, in [0, 1].
        upper: (n,) upper ends, none below its lower end.
        correct: (n,) whether the certified class is the label.
        clean: (n,) confidences without an attack; one outside its interval, by rounding, counts as the nearer end.
        bins: Equal-width bins, at least 1.
        settings: Runs to make, at least one.
        steps: Steps of a run at most.
        check_cancelled: Called before every step; may raise to stop.

    Raises:
        ValueError: As :meth:`Intervals.read`; the clean confidences do not fit the intervals; or there is no run.

    >>> admm_calibration_error([0.5], [0.75], [False], [0.625], settings=GRID[-1:], steps=10).value
    0.75
    """
    sample = Intervals.read(lower, upper, correct, bins)
    confidences = clean_confidences(sample, clean)
    if not settings:
        raise ValueError("there must be at least 1 run")
    if not len(confidences):
        return AdmmOutcome(None, None)
    program = Program.of(sample)
    starts = {"clean": confidences, "brier": brier_confidences(lower, upper, correct)}
    runs = [_run(program, starts[setting.start], setting, steps, check_cancelled) for setting in settings]
    traces = tuple(trace for trace, _ in runs)
    values = tuple(float(trace.max()) for trace in traces)
    best = int(np.argmax(values))
    made = tuple(len(trace) - 1 for trace in traces)
    return AdmmOutcome(values[best], settings[best], values, made, traces, runs[best][1])


def _run(
    program: Program, confidence: Floats, setting: Setting, steps: int, check_cancelled: Callable[[], None]
) -> tuple[Floats, Convergence]:
    """Return the ECE at the start and after each step of one run, and how it converged."""
    iterate = Iterate(program, confidence)
    found = [ece(confidence, program.correct, len(program.lower)) or 0.0]
    seen = {0: iterate.violations()}
    assignments = {0: iterate.a[:, :FOLLOWED].T.copy()}
    for number in range(1, steps + 1):
        check_cancelled()
        iterate.step(setting.alpha_a, setting.alpha_z)
        found.append(program.value(iterate.a, iterate.z))
        if number % LOOKED_AT == 0:
            seen[number] = iterate.violations()
        if number == MIDWAY:
            assignments[number] = iterate.a[:, :FOLLOWED].T.copy()
        recent = found[-PATIENCE:]
        if iterate.penalty == LAST_PENALTY and max(recent) - min(recent) <= STILL:
            break
        iterate.penalty = min(LAST_PENALTY, iterate.penalty * setting.growth)
    last = len(found) - 1
    seen[last], assignments[last] = iterate.violations(), iterate.a[:, :FOLLOWED].T.copy()
    violations = {name: np.stack([one[name] for one in seen.values()], axis=1) for name in seen[0]}
    return np.array(found), Convergence(tuple(seen), violations, assignments)
