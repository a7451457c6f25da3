"""The standard normal distribution and its inverse.

The rational approximations of Cephes (Moshier 1989) that SciPy's ``ndtr`` and ``ndtri`` evaluate, operation for
operation: intervals made with SciPy, as stored audits have them, come out the same to the last bit without it.
``statistics.NormalDist`` is as accurate and differs in that bit for two in three arguments.
"""

import math
from collections.abc import Sequence

# Numerators, highest power first, and denominators, whose highest power has the factor 1.
# fmt: off
_MIDDLE = (
    (-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125),
    (1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
     -82.03722561683334, 15.90562251262117, -1.1833162112133),
)
_TAIL = (
    (4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
     2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854),
    (15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
     -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574),
)
_FAR_TAIL = (
    (3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
     0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09),
    (6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
     0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09),
)
_ERF = (
    (9.604973739870516, 90.02601972038427, 2232.005345946843, 7003.325141128051, 55592.30130103949),
    (33.56171416475031, 521.3579497801527, 4594.323829709801, 22629.000061389095, 49267.39426086359),
)
_ERFC = (
    (2.461969814735305e-10, 0.5641895648310689, 7.463210564422699, 48.63719709856814, 196.5208329560771,
     526.4451949954773, 934.5285271719576, 1027.5518868951572, 557.5353353693994),
    (13.228195115474499, 86.70721408859897, 354.9377788878199, 975.7085017432055, 1823.9091668790973,
     2246.3376081871097, 1656.6630919416134, 557.5353408177277),
)
_FAR_ERFC = (
    (0.5641895835477551, 1.275366707599781, 5.019050422511805, 6.160210979930536, 7.4097426995044895,
     2.9788666537210022),
    (2.2605286322011726, 9.396035249380015, 12.048953980809666, 17.08144507475659, 9.608968090632859,
     3.369076451000815),
)
# fmt: on
_EXP_MINUS_2 = 0.13533528323661269189
_SQRT_2_PI = 2.50662827463100050242
_SQRT_HALF = 0.70710678118654752440
_LARGEST_EXPONENT = 709.782712893383996843


def normal_cdf(x: float) -> float:
    """Return the probability that a standard normal variable is at most ``x``.

    >>> normal_cdf(0.0), round(normal_cdf(1.959964), 6)
    (0.5, 0.975)
    """
    scaled = x * _SQRT_HALF
    if abs(scaled) < 1:
        return 0.5 + 0.5 * _erf(scaled)
    tail = 0.5 * _erfc(abs(scaled))
    return 1 - tail if scaled > 0 else tail


def normal_quantile(p: float) -> float:
    """Return the value a standard normal variable is at most with probability ``p``.

    Raises:
        ValueError: ``p`` is no probability.

    >>> normal_quantile(0.5), round(normal_quantile(0.975), 6), normal_quantile(1)
    (0.0, 1.959964, inf)
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a probability must be from 0 to 1, got {p}")
    if p in (0, 1):
        return math.inf if p else -math.inf
    is_upper = p > 1 - _EXP_MINUS_2
    rest = 1 - p if is_upper else p
    if rest > _EXP_MINUS_2:
        centred = rest - 0.5
        square = centred * centred
        return (
            centred + centred * (square * _polynomial(square, _MIDDLE[0]) / _monic(square, _MIDDLE[1]))
        ) * _SQRT_2_PI
    root = math.sqrt(-2 * math.log(rest))
    inverse = 1 / root
    above, below = _TAIL if root < 8 else _FAR_TAIL
    found = root - math.log(root) / root - inverse * _polynomial(inverse, above) / _monic(inverse, below)
    return found if is_upper else -found


def _erf(x: float) -> float:
    """Return the error function of at most 1 in size."""
    return x * _polynomial(x * x, _ERF[0]) / _monic(x * x, _ERF[1])


def _erfc(x: float) -> float:
    """Return one less the error function of 1 or more."""
    if x * x > _LARGEST_EXPONENT:
        return 0.0
    above, below = _ERFC if x < 8 else _FAR_ERFC
    return math.exp(-x * x) * _polynomial(x, above) / _monic(x, below)


def _polynomial(x: float, coefficients: Sequence[float]) -> float:
    found = coefficients[0]
    for one in coefficients[1:]:
        found = found * x + one
    return found


def _monic(x: float, coefficients: Sequence[float]) -> float:
    found = x + coefficients[0]
    for one in coefficients[1:]:
        found = found * x + one
    return found
