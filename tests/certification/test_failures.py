import numpy as np
import pytest

from seatrial.statistics.calibration import ece
from workers.certification.any_binning import worst_over_binnings
from workers.certification.failures import failing, price
from workers.certification.partial_sums import worst_ks, worst_kuiper
from workers.certification.worst_calibration import worst_calibration_error


def test_more_fail_than_are_paid_for_as_rarely_as_said() -> None:
    rng = np.random.default_rng(1)
    for examples, alpha, beta in [(50, 0.02, 0.1), (2000, 0.001, 0.01), (10, 0.2, 0.05)]:
        paid = failing(examples, alpha, beta)
        failed = rng.binomial(examples, alpha, 200_000)
        assert np.mean(failed > paid) <= beta * 1.05
        assert np.mean(failed > paid - 1) > beta


@pytest.mark.parametrize("given", [(-1, 0.1, 0.1), (5, 1.0, 0.1), (5, 0.1, 0.0)])
def test_numbers_that_are_no_probabilities_are_refused(given) -> None:
    with pytest.raises(ValueError, match="need examples"):
        failing(*given)


def test_the_price_covers_any_confidences_of_those_that_fail() -> None:
    """Half of them also turn out right instead of wrong: the class's certificate failed."""
    rng = np.random.default_rng(2)
    needed = 0
    for _ in range(300):
        n, failed = int(rng.integers(2, 12)), int(rng.integers(1, 3))
        lower, upper = np.sort(rng.random((2, n)), axis=0)
        correct = rng.random(n) < 0.5
        values, outcomes = lower + (upper - lower) * rng.random(n), correct.copy()
        values[:failed] = rng.integers(0, 2, failed)
        outcomes[: failed // 2 + 1] ^= rng.random() < 0.5
        paid = price(failed, n)
        reached = ece(values, outcomes, 4)
        certified = worst_calibration_error(lower, upper, correct, 4).value
        assert reached <= certified + paid + 1e-12
        needed += reached > certified + paid / 2
        for worst in (worst_ks, worst_kuiper):
            assert worst(values, values, outcomes).value <= worst(lower, upper, correct).value + paid + 1e-12
        assert (
            worst_over_binnings(values, values, outcomes, 3, 20).value
            <= worst_over_binnings(lower, upper, correct, 3, 20).value + paid + 0.05
        )
    assert needed > 0
