"""Maps of logits are those of likelihood, or of scikit-learn, and go through JSON."""

import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.isotonic import IsotonicRegression

from seatrial.contracts.training import methods
from workers.errors import PreflightError
from workers.models.recalibration import recalibrated
from workers.training.methods.recalibration import isotonic_steps


def _sample(n: int = 400, *, too_sure: float = 3.0, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, 3, generator=draw) * 1.5
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    return logits * too_sure, labels


def _fitted(kind: str, logits: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    spec = methods()["recalibrate"]
    assert not spec.trains
    params = spec.params.model_validate({"method": "recalibrate", "map": kind})
    found: dict[str, Any] = json.loads(json.dumps(spec.load()(params, logits, labels)))
    return found


def test_a_temperature_takes_out_the_factor_that_was_too_much() -> None:
    logits, labels = _sample(4000)
    assert _fitted("temperature", logits, labels)["temperature"] == pytest.approx(3.0, rel=0.1)


def test_richer_maps_are_likelier_on_their_sample_and_all_are_on_another() -> None:
    logits, labels = _sample()
    new, truth = _sample(seed=1)
    before, held_out = [float(F.cross_entropy(logits, labels))], float(F.cross_entropy(new, truth))
    for kind in ("temperature", "vector", "matrix"):
        how = _fitted(kind, logits, labels)
        before.append(float(F.cross_entropy(recalibrated(how, logits), labels)))
        assert float(F.cross_entropy(recalibrated(how, new), truth)) < held_out
    assert before == sorted(before, reverse=True)
    how = _fitted("isotonic", logits, labels)
    mapped = recalibrated(how, new)
    assert torch.isfinite(mapped).all()
    assert torch.allclose(mapped.softmax(1).sum(1), torch.ones(len(new)))


def test_isotonic_steps_are_those_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        scores = draw.integers(0, 30, size=60) / 30
        hits = (draw.random(60) < scores).astype(float)
        at, to = isotonic_steps(scores, hits)
        theirs = IsotonicRegression(y_min=0, y_max=1).fit(scores, hits).predict(scores)
        assert to[np.searchsorted(at, scores, side="right") - 1] == pytest.approx(theirs, abs=1e-9)


def test_what_is_not_determined_is_refused() -> None:
    logits, _ = _sample()
    for kind in ("temperature", "matrix"):
        with pytest.raises(PreflightError, match="fewer parameters") as caught:
            _fitted(kind, logits, logits.argmax(1))
        assert caught.value.problem.field == "/validation_dataset"
