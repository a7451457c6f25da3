"""The attacked images that are kept are those of the worst examples, lie in the ball, and do what is said of them."""

from typing import Any

import numpy as np
import pytest
import torch

from seatrial.families.uncertainty_span.effort import INTEGRATED, STAGES, TRANSFORMED
from seatrial.families.uncertainty_span.limits import pictured_examples
from tests.families.uncertainty_span.audits import DATA, IMAGES, LABELS, NETWORK, Model, audit, measure, parameters
from workers.families.uncertainty_span.pictured import worst

GRID = (IMAGES * 255).round() / 255
SHAPE = (1, 4, 4)


def entropies(images: torch.Tensor) -> np.ndarray:
    shares = NETWORK.logits(images).double().softmax(1)
    return -(shares * shares.log()).sum(1).detach().numpy()


@pytest.mark.parametrize(("effort", "norm", "epsilon"), [("quick", "linf", 0.1), ("standard", "l2", 0.3)])
def test_the_worst_are_kept_and_do_what_is_said(effort: str, norm: str, epsilon: float) -> None:
    params = parameters(effort=effort, norm=norm, epsilon=epsilon, steps=6)
    done = measure(params, NETWORK, (GRID, LABELS), batch_size=8, shards=2)
    kept = [row for row in done["pictures"].to_pylist() if row["pixels"] is not None]
    stages = ["attack", *((*STAGES, TRANSFORMED, INTEGRATED) if effort == "standard" else ())]
    ids = np.asarray(done["attack"]["example_id"])

    def reached(arm: str) -> list[np.ndarray]:
        found = [np.asarray(done[one][f"{'best_' * (one == 'attack')}entropy_{arm}"]) for one in stages]
        # Of the changed images there are fewer.
        return [np.pad(each, (0, len(ids) - len(each)), constant_values=np.nan) for each in found]

    low, high = np.nanmin(reached("over"), 0), np.nanmax(reached("under"), 0)
    assert len(kept) == pictured_examples(len(ids))
    assert {row["example_id"] for row in kept} == set(
        ids[np.argsort(low - high, kind="stable")[: pictured_examples(len(ids))]].tolist()
    )
    for row in kept:
        assert row["span"] == pytest.approx((high - low)[ids == row["example_id"]][0], abs=1e-12)
        clean = torch.frombuffer(bytearray(row["pixels"]), dtype=torch.uint8).view(SHAPE) / 255
        assert torch.allclose(clean, GRID[ids == row["example_id"]][0])
        for arm in ("over", "under"):
            change = (
                torch.frombuffer(bytearray(row[f"change_{arm}"]), dtype=torch.int8).view(SHAPE) * row[f"step_{arm}"]
            )
            length = change.abs().max() if norm == "linf" else change.norm()
            attacked = clean + change.float()
            assert float(length) <= epsilon * (1 + 1 / 127)
            assert -1e-3 <= float(attacked.min()) <= float(attacked.max()) <= 1 + 1e-3
            # Steps of a change are 1/127 of its largest.
            assert entropies(attacked[None])[0] == pytest.approx(row[f"entropy_{arm}"], abs=0.03)
        assert row["entropy_over"] <= row["entropy_clean"] <= row["entropy_under"]
        assert row["entropy_clean"] == pytest.approx(entropies(clean[None])[0], abs=1e-5)


def test_the_worst_are_looked_for_once_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(*of: Any) -> dict[int, float]:
        asked.append(1)
        return worst(*of)

    monkeypatch.setattr("workers.families.uncertainty_span.family.worst", counted)
    audit(parameters(steps=2), NETWORK, (GRID, LABELS), batch_size=4, shards=2)
    # All records are read for it: once a batch, an audit took time and memory by the square of its examples.
    assert len(asked) == 2


def test_what_is_no_picture_is_not_kept() -> None:
    rows = torch.rand(12, 5, 1, 1, generator=torch.Generator().manual_seed(3))
    model = Model(lambda x: torch.cat([x.flatten(1)[:, :2], x.flatten(1)[:, 2:].sum(1, keepdim=True)], 1), 3)
    done = measure(parameters(steps=2), model, (rows, torch.zeros(12, dtype=torch.int64)))
    table = done["pictures"]
    assert table.num_rows == 12
    assert table["pixels"].null_count == table["change_over"].null_count == 12


def test_pictures_do_not_depend_on_how_the_stage_is_cut() -> None:
    whole, parts = (measure(parameters(steps=3), NETWORK, DATA, shards=shards)["pictures"] for shards in (1, 3))
    assert whole.equals(parts)
