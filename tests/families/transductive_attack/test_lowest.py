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


@pytest.mark.parametrize(("kept", "repeats"), [(0.5, 1), (0.9, 1), (0.5, 3)])
def test_attacks_that_tie_leave_both_ends_of_the_lowest_right(kept: float, repeats: int) -> None:
    """Five attacks of which each leaves as much: the lowest of a sample lies below, and its interval reaches up."""
    rng, wrong = np.random.default_rng(5), np.zeros(2)
    for _ in range(400):
        # The share that each example is right with, and what its repeats make of it.
        answers = rng.random((5, repeats, 60)) < rng.beta(kept, 1 - kept, 60)
        found = least([Outcomes(np.arange(60), one) for one in answers])
        wrong += [found.low > kept, found.high < kept]
    assert (wrong <= 400 * 0.025 + 3 * np.sqrt(400 * 0.025)).all()


def test_of_no_defence_there_is_none_as_it_is_the_static_model_s() -> None:
    params = parameters(defences=["dent", "identity"])
    found = estimate_all(params, records(params))
    assert [name for name in found if name.startswith("lowest_robustness")] == ["lowest_robustness[defence=dent]"]
