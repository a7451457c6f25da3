"""From logits to the probabilities somebody sees: temperature and Platt scaling, and how they are fitted.

Temperatures are fitted on validation examples by maximum likelihood: once exactly, and once as the paper on the
illusion of robustness does it (Raina et al., section 4.1, after gpleiss/temperature_scaling), which is not the same.
Every fit says in ``degenerate`` why its answer is none, where it is none.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax, softmax
from torch import Tensor

from seatrial.statistics.arrays import Floats, Ints
from seatrial.statistics.bounded import chance_above_zero
from seatrial.statistics.intervals import Interval

TEMPERATURES = (1e-10, 1e6)
"""Least and largest temperature (Raina et al., appendix G.1: "0 causes floating point errors")."""

START = 1.5
RATE = 0.01
ITERATIONS = 5000
"""The paper's optimiser: where it begins, its learning rate, and its iterations at most."""

MOVED = 1e-3
"""Relative move from ``START`` below which the paper's optimiser has found nothing to follow."""

RIDGE = 1e-6
"""Penalty on squared standardised weights where likelihood alone has no maximum."""

FAR = 80.0
"""Logarithm of 1/T, on logits of unit scale, beyond which a root is rounding: float64 tells 1 from 1 + e^-36."""

MARGINS = 401
"""Margins at which the strongest right answer not seen is looked for, from none to the widest seen."""

DIGITS = 12
"""Significant digits of a fitted temperature: more differ between machines."""


@dataclass(frozen=True)
class Scaling:
    """How raw logits become the probabilities an attacker sees.

    The model is served with its logits divided by ``design_temperature``; everything else happens to what is served.
    Predictions are no business of a scaling: take them from the raw logits, which do not tie.

    Attributes:
        design_temperature: What the raw logits are divided by before anybody sees them.
        temperature: What the served logits are divided by.
        weights: Platt scaling instead of a temperature: one factor per class, or a row of factors per class.
        bias: One summand per class, with ``weights``.
        is_native: Compute in the logits' own precision, as the model is met out of the box, saturation included;
            otherwise in float64.
        is_single: Compute in float32, whatever precision the logits have: as the paper's own code.
    """

    design_temperature: float = 1.0
    temperature: float = 1.0
    weights: tuple[float, ...] | tuple[tuple[float, ...], ...] | None = None
    bias: tuple[float, ...] | None = None
    is_native: bool = False
    is_single: bool = False

    def logits(self, raw: Tensor) -> Tensor:
        """Return scaled logits (n, classes) of raw ones (n, classes); a row depends on its own row alone, bit for bit.

        >>> Scaling(temperature=2.0).logits(torch.tensor([[2.0, 4.0]])).tolist()
        [[1.0, 2.0]]
        """
        scaled = raw.float() if self.is_single else raw if self.is_native else raw.double()
        scaled = scaled / self.design_temperature
        if self.weights is None or self.bias is None:
            return scaled / self.temperature
        bias, weights = scaled.new_tensor(self.bias), scaled.new_tensor(self.weights)
        if weights.ndim == 1:
            return scaled * weights + bias
        # Not a matrix product: how that rounds a row depends on how many rows there are.
        for source in range(scaled.shape[1]):
            bias = bias + scaled[:, source : source + 1] * weights[:, source]
        return bias

    def probabilities(self, raw: Tensor) -> Tensor:
        """Return probabilities (n, classes) of raw logits (n, classes).

        >>> Scaling(is_native=True).probabilities(torch.tensor([[20.0, 0.0]]))[0, 0].item()
        1.0
        >>> Scaling().probabilities(torch.tensor([[20.0, 0.0]]))[0, 0].item() < 1
        True
        """
        return torch.softmax(self.logits(raw), dim=1)


@dataclass(frozen=True)
class FittedTemperature:
    """A temperature and whether it means anything.

    Attributes:
        temperature: Positive.
        degenerate: None, or why the likelihood does not determine it: ``no_examples``, ``constant_logits``,
            ``no_errors`` (the likelihood grows without end as T falls), ``no_signal`` (as T grows),
            ``beyond_range`` (it was cut). Of the paper's optimiser: ``vanishing_gradient`` (it never left its start),
            ``crossed_zero`` (the last positive temperature is kept), ``not_converged``.
    """

    temperature: float
    degenerate: str | None = None


@dataclass(frozen=True)
class FittedPlatt:
    """Platt scaling of served logits.

    Attributes:
        weights: (classes,) or (classes, classes), a row per output.
        bias: (classes,).
        degenerate: None, or why likelihood alone does not determine it: ``no_examples``, ``separable`` (every
            validation example can be got right, so weights would grow without end), ``not_converged``.
        ridge: Penalty that was needed, on squared weights of standardised logits; 0 for plain likelihood.
    """

    weights: Floats
    bias: Floats
    degenerate: str | None = None
    ridge: float = 0.0


def negative_log_likelihood(logits: Floats, labels: Ints) -> float:
    """Return the mean of -log softmax(logits)_label over (n, classes) logits, in nats.

    >>> round(negative_log_likelihood(np.zeros((3, 2)), np.array([0, 1, 1])), 4)
    0.6931
    """
    return float(-np.mean(np.take_along_axis(log_softmax(logits, axis=1), labels[:, None], axis=1)))


def fit_temperature(logits: Floats, labels: Ints, *, limits: tuple[float, float] = TEMPERATURES) -> FittedTemperature:
    """Return the temperature T that maximises the likelihood of softmax(logits / T), exactly.

    Guarantee: T is the only maximum (the likelihood is concave in 1/T) to twelve digits, whatever the logits' scale;
    dividing the logits by c divides T by c. Where there is none ``degenerate`` says why, and T is the limit it runs to.

    Args:
        logits: (n, classes).
        labels: (n,) class numbers.
        limits: Least and largest T returned.

    Raises:
        ValueError: The shapes or labels do not fit, or a logit is not finite.

    >>> fit_temperature(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])).temperature  # 2 / log 3
    1.82047845325
    """
    logits, labels = _sample(logits, labels)
    if len(logits) == 0:
        return FittedTemperature(1.0, "no_examples")
    standard, scale = _standardise(logits)
    if scale == 0:
        return FittedTemperature(1.0, "constant_logits")
    gain = _gain(standard, labels)
    if np.all(np.take_along_axis(standard, labels[:, None], axis=1) == 0):
        return FittedTemperature(limits[0], "no_errors")
    if gain(0.0) <= 0:
        return FittedTemperature(limits[1], "no_signal")
    low = high = 0.0
    while gain(np.exp(high)) > 0:
        high += 4.0
        if high > FAR:
            return FittedTemperature(limits[0], "no_errors")
    while gain(np.exp(low)) <= 0:
        low -= 4.0
        if low < -FAR:
            return FittedTemperature(limits[1], "no_signal")
    found = scale / np.exp(brentq(lambda log_beta: gain(np.exp(log_beta)), low, high, xtol=1e-14, maxiter=500))
    temperature = float(f"{found:.{DIGITS}g}")
    clipped = min(max(temperature, limits[0]), limits[1])
    return FittedTemperature(clipped, None if clipped == temperature else "beyond_range")


def temperature_interval(
    logits: Floats, labels: Ints, fitted: float, *, limits: tuple[float, float] = TEMPERATURES, alpha: float = 0.05
) -> Interval:
    """Return an interval of the temperature that maximises the likelihood in the population.

    Guarantee: each end is wrong with probability at most alpha / 2, as far as that of a mean holds
    (:mod:`seatrial.statistics.bounded`). The population's 1/T is above b where the mean, over examples, of the
    likelihood's derivative at b is above 0, so that an end is where the chance of that is alpha / 2. The example that
    was not seen has at most the widest margin seen: as a wrong answer it asks for a higher temperature, as a right one
    for a lower one. Failure: of margins far wider than those seen nothing is known.

    Args:
        logits: (n, classes), not all alike.
        labels: (n,).
        fitted: The temperature of the sample, not a degenerate one.
        limits: Least and largest T returned.
        alpha: Probability of missing the truth.
    """
    logits, labels = _sample(logits, labels)
    standard, scale = _standardise(logits)
    of_label = np.take_along_axis(standard, labels[:, None], axis=1)[:, 0]
    start, margins = float(np.log(scale / fitted)), np.linspace(0.0, 1.0, MARGINS)

    def gains(log_beta: float) -> tuple[Floats, float, float]:
        beta = float(np.exp(log_beta))
        expected = np.sum(softmax(beta * standard, axis=1) * standard, axis=1)
        right = float((margins * softmax(beta * np.stack([margins, 0 * margins]), axis=0)[1]).max())
        return of_label - expected, -float(1 / (1 + np.exp(-beta))), right

    def too_low(log_beta: float) -> float:
        found, wrong, _ = gains(log_beta)
        return chance_above_zero(np.append(-found, -wrong)) - alpha / 2

    def too_high(log_beta: float) -> float:
        found, _, right = gains(log_beta)
        return chance_above_zero(np.append(found, right)) - alpha / 2

    ends = (scale * np.exp(-_edge(excess, start, step)) for excess, step in ((too_high, 1.0), (too_low, -1.0)))
    low, high = (float(np.clip(end, *limits)) for end in ends)
    return min(low, fitted), max(high, fitted)


def _edge(excess: Callable[[float], float], start: float, step: float) -> float:
    """Return where a function that falls away from ``start`` is 0; beyond ``FAR`` steps, there."""
    if excess(start) <= 0:
        return start
    end = start + step
    while excess(end) > 0:
        if abs(end - start) > FAR:
            return end
        step *= 2
        end += step
    return float(brentq(excess, start, end, xtol=1e-9))


def fit_temperature_lbfgs(logits: Floats, labels: Ints) -> FittedTemperature:
    """Return the temperature the paper's optimiser ends at, which need not be the best one.

    One parameter T from 1.5 on, torch's LBFGS with learning rate 0.01 and at most 5000 iterations on the mean cross
    entropy of float32 logits / T (Raina et al., eq. 8; gpleiss/temperature_scaling). On logits far from unit scale its
    gradient vanishes and it stays at 1.5, and nothing keeps T positive: here it stops at the last positive value.

    Raises:
        ValueError: As :func:`fit_temperature`.
    """
    logits, labels = _sample(logits, labels)
    if len(logits) == 0:
        return FittedTemperature(1.0, "no_examples")
    values, targets = torch.from_numpy(logits).float(), torch.from_numpy(labels)
    temperature = torch.nn.Parameter(torch.full((1,), START))
    optimiser = torch.optim.LBFGS([temperature], lr=RATE, max_iter=ITERATIONS)
    positive = START

    def closure() -> Tensor:
        nonlocal positive
        now = float(temperature.detach())
        if not (now > 0 and np.isfinite(now)):
            raise _ZeroCrossedError
        positive = now
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(values / temperature, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    try:
        optimiser.step(closure)  # type: ignore[no-untyped-call]
        # What the last step ended at has not been looked at yet.
        last = float(temperature.detach())
        if not (last > 0 and np.isfinite(last)):
            raise _ZeroCrossedError
    except _ZeroCrossedError:
        return FittedTemperature(positive, "crossed_zero")
    best = fit_temperature(logits, labels, limits=(0.0, np.inf))
    if best.degenerate == "constant_logits":
        return best
    if abs(last - START) < MOVED * START and abs(best.temperature - START) > 2 * MOVED * START:
        return FittedTemperature(last, "vanishing_gradient")
    if int(optimiser.state[temperature].get("n_iter", 0)) >= ITERATIONS:
        return FittedTemperature(last, "not_converged")
    return FittedTemperature(last, best.degenerate)


def fit_platt(logits: Floats, labels: Ints, kind: str) -> FittedPlatt:
    """Return the Platt scaling that maximises the likelihood of softmax(weights * logits + bias).

    Guarantee: on the same examples NLL(matrix) <= NLL(vector) <= NLL(temperature), each being begun where the one
    before ended, unless a ridge was needed, which is then stated. Unlike a temperature it can change predictions
    (Raina et al., appendix E.6, whose parametrisation is not stated: hence both).

    Args:
        logits: (n, classes).
        labels: (n,) class numbers.
        kind: ``vector``, one factor per class, or ``matrix``, a row of factors per class.

    Raises:
        ValueError: As :func:`fit_temperature`, or ``kind`` is neither.
    """
    if kind not in ("vector", "matrix"):
        raise ValueError(f"kind must be vector or matrix, got {kind!r}")
    logits, labels = _sample(logits, labels)
    classes = logits.shape[1]
    if len(logits) == 0:
        return FittedPlatt(np.ones(classes) if kind == "vector" else np.eye(classes), np.zeros(classes), "no_examples")
    centre = logits.mean(axis=0)
    scale = float(np.abs(logits - centre).max()) or 1.0
    standard = (logits - centre) / scale
    fitted = fit_temperature(logits, labels, limits=(0.0, np.inf))
    beta = scale / fitted.temperature if fitted.degenerate is None else 1.0
    start = np.concatenate([np.full(classes, beta), beta * centre / scale])
    found, degenerate, ridge = _climb(standard, labels, start)
    if kind == "matrix":
        start = np.concatenate([np.diag(found[:classes]).ravel(), found[classes:]])
        found, degenerate, ridge = _climb(standard, labels, start)
    weights, bias = _unpack(found, classes)
    # Back from the standardised logits to those given.
    weights = weights / scale
    bias = bias - (weights * centre if weights.ndim == 1 else weights @ centre)
    return FittedPlatt(weights, bias - bias.mean(), degenerate, ridge)


class _ZeroCrossedError(Exception):
    """The optimiser proposes a temperature that is none."""


def _climb(standard: Floats, labels: Ints, start: Floats) -> tuple[Floats, str | None, float]:
    """Return parameters of most likelihood, why it has no maximum if so, and the ridge that was then needed."""
    found, has_converged = _minimise(standard, labels, start, 0.0)
    weights, bias = _unpack(found, standard.shape[1])
    if np.all(np.argmax(_affine(standard, weights, bias), axis=1) == labels):
        # Twice these parameters would be likelier still.
        found, _ = _minimise(standard, labels, np.clip(start, -100, 100), RIDGE)
        return found, "separable", RIDGE
    return found, None if has_converged else "not_converged", 0.0


def _minimise(standard: Floats, labels: Ints, start: Floats, ridge: float) -> tuple[Floats, bool]:
    classes, n = standard.shape[1], len(labels)
    truth = np.zeros_like(standard)
    truth[np.arange(n), labels] = 1.0

    def objective(parameters: Floats) -> tuple[float, Floats]:
        weights, bias = _unpack(parameters, classes)
        outputs = _affine(standard, weights, bias)
        value = negative_log_likelihood(outputs, labels) + ridge / 2 * float(parameters @ parameters)
        error = (softmax(outputs, axis=1) - truth) / n
        by_weight = np.sum(error * standard, axis=0) if weights.ndim == 1 else (error.T @ standard).ravel()
        return value, np.concatenate([by_weight, error.sum(axis=0)]) + ridge * parameters

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
    done = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return done.x, bool(done.success)


def _unpack(parameters: Floats, classes: int) -> tuple[Floats, Floats]:
    weights, bias = parameters[:-classes], parameters[-classes:]
    return (weights if len(weights) == classes else weights.reshape(classes, classes)), bias


def _affine(logits: Floats, weights: Floats, bias: Floats) -> Floats:
    scaled: Floats = (logits * weights if weights.ndim == 1 else logits @ weights.T) + bias
    return scaled


def _standardise(logits: Floats) -> tuple[Floats, float]:
    """Return logits with every row's largest at 0 and the least of all at -1, and the factor taken out."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    scale = float(-shifted.min())
    return (shifted / scale if scale > 0 else shifted), scale


def _gain(standard: Floats, labels: Ints) -> Callable[[float], float]:
    """Return the derivative of the mean log likelihood with respect to 1/T: mean(l_y - E_p[l])."""
    rows = np.arange(len(standard))
    of_label = standard[rows, labels]

    def gain(beta: float) -> float:
        expected = np.sum(softmax(beta * standard, axis=1) * standard, axis=1)
        return float(np.mean(of_label - expected))

    return gain


def _sample(logits: Floats, labels: Ints) -> tuple[Floats, Ints]:
    values, classes = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if values.ndim != 2 or classes.shape != values.shape[:1]:
        raise ValueError(f"logits must be (n, classes) and labels (n,): {values.shape}, {classes.shape}")
    if not np.isfinite(values).all():
        raise ValueError("logits must be finite")
    if len(classes) and not (classes.min() >= 0 and classes.max() < values.shape[1]):
        raise ValueError(f"labels must be class numbers below {values.shape[1]}: {classes.min()} to {classes.max()}")
    return values, classes
