"""What the strongest attack leaves of a defence, with an interval that knows which of them that is."""

import numpy as np
import pytest

from tests.families.transductive_attack.fabricated import parameters, records
from workers.families.transductive_attack.estimates import estimate_all, least
from workers.families.transductive_attack.sample import Outcomes

ATTACKS = ["transfer_autoattack", "transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"]


@pytest.mark.parametrize("repeats", [1, 3])
def test_the_lowest_robustness_is_that_of_the_strongest_attack_within_the_radius(repeats: int) -> None:
    params = parameters(repeats=repeats, attacks=[*ATTACKS, "transfer_cw"])
    done = records(params, rates={"dent:gmsa_avg": 0.3, "dent:transfer_cw": 0.0})
    found = estimate_all(params, done)
    lowest, alone = found["lowest_robustness[defence=dent]"], found["robustness[defence=dent,attack=gmsa_avg]"]
    assert found["robustness[defence=dent,attack=transfer_cw]"].value == 0
    assert (lowest.value, lowest.low, lowest.n, lowest.method) == (alone.value, alone.low, alone.n, "least")
    # Which of them is lowest was seen in the same examples.
    assert lowest.high > alone.high


def test_attacks_that_tie_leave_both_ends_of_the_lowest_right() -> None:
    """Five attacks of which each leaves .5: the lowest of a sample lies below, and its interval has to reach up."""
    rng, wrong = np.random.default_rng(5), np.zeros(2)
    for _ in range(400):
        answers = rng.random((5, 60)) < 0.5
        found = least([Outcomes(np.arange(60), one[None]) for one in answers])
        wrong += [found.low > 0.5, found.high < 0.5]
    assert (wrong <= 400 * 0.025 + 3 * np.sqrt(400 * 0.025)).all()
