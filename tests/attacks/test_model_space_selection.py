"""Which of its iterations a model-space attack answers with."""

from collections.abc import Sequence

import pytest
import torch

from tests.attacks.test_model_space import make_attack
from workers.attacks.model_space import CLEAN, Iteration


def scripted(accuracies: Sequence[int], losses: Sequence[float] = (), clean: int | None = None) -> list[Iteration]:
    """Iterations on a batch of four, of which so many stay right; the clean batch first where it was judged."""

    def record(right: int, loss: float, number: int) -> Iteration:
        return Iteration(
            perturbed=torch.full((4, 1, 1, 1), float(number)),
            attacked=torch.arange(number + 1),
            correct=torch.arange(4) < right,
            losses=torch.full((4,), loss, dtype=torch.float64),
            non_finite=torch.zeros(4, dtype=torch.bool),
            adapted=torch.ones(4, dtype=torch.bool),
        )

    first = [] if clean is None else [record(clean, 0.0, CLEAN)]
    return first + [record(right, (*losses, *[0.0] * 9)[i], i) for i, right in enumerate(accuracies)]


@pytest.mark.parametrize(
    ("start_at", "clean", "accuracies", "selected"),
    [
        ("above_one", None, [4, 4, 4], 0),
        ("above_one", None, [3, 2, 2], 1),
        ("one", None, [4, 4, 4], CLEAN),
        ("one", None, [4, 3, 3], 1),
        ("clean", 3, [4, 3, 3], CLEAN),
        ("clean", 3, [4, 3, 2], 2),
        ("clean", 0, [4, 3, 0], CLEAN),
    ],
)
def test_the_official_selection(start_at: str, clean: int | None, accuracies: list[int], selected: int) -> None:
    attack, done = make_attack(iterations=2, start_at=start_at), scripted(accuracies, clean=clean)
    assert attack.is_finished(done)
    assert attack.selected(done) == selected
    images = torch.zeros(4, 1, 1, 1) - 7
    assert attack.sent(done, images).flatten().tolist() == [-7.0 if selected == CLEAN else selected] * 4


def test_the_papers_selection_goes_by_the_loss() -> None:
    done = scripted([1, 4, 2], [0.5, 0.9, 0.9])
    assert make_attack(iterations=2, variant="paper").selected(done) == 1
    assert make_attack(iterations=2).selected(done) == 0


def test_refuses_to_select_before_the_end() -> None:
    with pytest.raises(ValueError, match="not all"):
        make_attack(iterations=2).selected(scripted([4, 4]))
