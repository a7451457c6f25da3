"""The parts of an entropy, against SciPy and their definitions."""

import math

import numpy as np
import pytest
import torch
from scipy.special import rel_entr
from scipy.stats import entropy as scipy_entropy

from workers.attacks.losses import entropy
from workers.attacks.parts import PARTS, aleatoric, epistemic, largest_part
from workers.models.passes import mixed


def instances():
    """Yield 300 random logits (passes, classes): ties, equal passes, sure ones, -inf among them."""
    rng = np.random.default_rng(0)
    for number in range(300):
        passes, classes = rng.integers(2, 6), rng.integers(2, 7)
        logits = rng.normal(size=(passes, classes)) * rng.choice([0.01, 1, 10, 300])
        match number % 6:
            case 0:
                logits[1:] = logits[0]
            case 1:
                logits = np.round(logits)
            case 2:
                logits[0, 0] = -np.inf
            case 3:
                logits[rng.integers(passes)] = 0.0
        yield logits


def test_parts_are_those_of_scipy_and_add_up_to_the_entropy() -> None:
    for logits in instances():
        given = torch.from_numpy(logits)[None]
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        of_each = scipy_entropy(p, axis=1).mean()
        joint = p / len(p)
        independent = np.outer(joint.sum(1), joint.sum(0))
        assert aleatoric(given).item() == pytest.approx(of_each, abs=1e-9)
        # Mutual information by its definition, of the joint law of pass and class.
        assert epistemic(given).item() == pytest.approx(rel_entr(joint, independent).sum(), abs=1e-9)
        assert aleatoric(given).item() + epistemic(given).item() == pytest.approx(
            entropy(mixed(given)).item(), abs=1e-9
        )
        for part, of in PARTS.items():
            assert -1e-12 <= of(given).item() <= largest_part(part, *logits.shape) + 1e-9


def test_equal_passes_disagree_by_nothing_that_rounding_could_hide() -> None:
    logits = torch.randn(200, 1, 10, generator=torch.Generator().manual_seed(0)) * 5
    assert epistemic(logits.repeat(1, 7, 1)).max().item() < 1e-14


def test_passes_sure_of_different_classes_have_nothing_but_an_epistemic_part() -> None:
    logits = 1e4 * torch.eye(3)[None]
    assert epistemic(logits).item() == pytest.approx(math.log(3))
    assert aleatoric(logits).item() == 0.0
    assert largest_part("epistemic", 3, 10) == math.log(3)
