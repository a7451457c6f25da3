"""Evidence of masked gradients, judged on records made up for it."""

import math
import re

import numpy as np
import pyarrow as pa
import pytest

from seatrial.statistics.samples import Sample
from workers.families.uncertainty_span import evidence, flags

LEAST = evidence.NOTABLE_SHARE * math.log(10)


def sample(span: np.ndarray, *, is_alone: bool = False) -> Sample:
    """Records of spans (n,); by itself an attack reached them, and with gradients a nat more."""
    n = len(span)
    first = {"example_id": np.arange(n), "label": np.zeros(n, int), "errored": np.zeros(n, bool)}
    first |= {"classes": np.full(n, 10), "is_saturated": np.ones(n, bool)}
    prefixes = {"": span + is_alone, "best_": span, **({"alone_": span} if is_alone else {})}
    for prefix, values in prefixes.items():
        first |= {f"{prefix}entropy_over": np.zeros(n), f"{prefix}entropy_under": values}
    return Sample(pa.table(first))


@pytest.mark.parametrize(
    ("mean", "excess", "is_masked"), [(0.1, 0.9 * LEAST, False), (1.0, 1.1 * LEAST, True), (0.0, -0.1, False)]
)
def test_an_attack_without_gradients_has_to_do_notably_better(mean, excess, is_masked) -> None:
    span = np.linspace(0.9, 1.1, 60) * mean
    stages = {"ascent": sample(span), "score": sample(span + excess, is_alone=True)}
    (found,) = evidence.compare(sample(span / 2), stages, 0)
    assert found.is_masked == is_masked
    assert (found.by_gradients, found.without) == pytest.approx((span.mean(), span.mean() + excess))
    told = evidence.masked_gradients([found])
    assert [flag.severity for flag in told] == ["error"] * is_masked
    for flag in told:
        assert f"{span.mean():.3g} nat" in flag.message
        assert f"{span.mean() + excess:.3g}" in flag.message


def test_chance_is_no_evidence() -> None:
    span = np.full(12, 0.5)
    lucky = span + np.where(np.arange(12) == 0, 12 * 1.2 * LEAST, 0)
    stages = {"distilled": sample(lucky, is_alone=True)}
    (found,) = evidence.compare(sample(span), stages, 0)
    assert found.without - found.by_gradients > LEAST
    assert not found.is_masked


def test_what_plain_gradients_add_to_a_search_is_none_of_its_own() -> None:
    span = np.linspace(0.4, 0.6, 30)
    (found,) = evidence.compare(sample(span), {"smoothed": sample(span, is_alone=True)}, 0)
    assert found.without == pytest.approx(found.by_gradients)


def test_symptoms_are_notes_only_where_all_evidence_was_taken_and_clears_the_model() -> None:
    span = np.full(30, 0.5)
    stages = {name: sample(span, is_alone=True) for name in ("smoothed", "score", "distilled")}
    assert evidence.is_cleared(evidence.compare(sample(span), stages, 0))
    del stages["score"]
    assert not evidence.is_cleared(evidence.compare(sample(span), stages, 0))
    stages["score"] = sample(span + 1, is_alone=True)
    assert not evidence.is_cleared(evidence.compare(sample(span), stages, 0))


@pytest.mark.parametrize(
    ("plain", "ascent", "tempered", "is_quick", "severity"),
    [
        (0.0331, 0.0331, 0.0424, False, "error"),
        (0.0331, 0.0424, 0.0424, False, "info"),
        (0.9, 0.9, 0.96, False, "error"),
        (0.3, 1.0, 0.9, False, "info"),
        (0.0331, None, 0.0335, True, "warning"),
        (1e-9, None, 1e-6, True, "warning"),
        (0.0331, None, 0.0424, True, "error"),
    ],
)
def test_saturation_is_an_error_where_tempering_finds_what_nothing_else_did(
    plain, ascent, tempered, is_quick, severity
) -> None:
    others = {} if ascent is None else {"ascent": sample(np.full(9, ascent))}
    (flag,) = flags.saturated_logits(sample(np.full(9, plain)), sample(np.full(9, tempered)), others, is_quick=is_quick)
    assert flag.severity == severity
    told = re.search(r"The mean span is (\S+) nat by the paper's attacks", flag.message)
    assert told is not None
    assert float(told[1]) == pytest.approx(plain, rel=1e-3, abs=1e-6)
    numbers = [float(one) for one in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", flag.message)]
    assert pytest.approx(max(plain, ascent or 0, tempered), rel=1e-3) in numbers
