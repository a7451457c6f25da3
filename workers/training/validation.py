"""What an epoch has made of a model, on held-out examples."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.statistics.calibration import ece
from seatrial.store.seeds import derive_seed
from workers.models.memory import run_with_oom_split
from workers.training.data import Batch, TrainingData, in_order
from workers.training.errors import DivergedError
from workers.training.models import Trainable, evaluating
from workers.training.protocol import Method, Step

BINS = 15

Piece = TypeVar("Piece")


def validate(
    model: Trainable,
    method: Method,
    data: TrainingData,
    *,
    batch_size: int,
    micro: int | None = None,
    seed: int,
    epoch: int,
    check_cancelled: Callable[[], None],
) -> dict[str, float]:
    """Return ``loss`` (nats), ``accuracy``, ``ece``, and ``attacked_accuracy`` where the method attacks, in eval mode.

    Pure: the attack draws from a generator of its own, so that validation leaves the training's randomness alone.

    Raises:
        DivergedError: Logits are not finite.
    """
    draw = torch.Generator().manual_seed(derive_seed(seed, "training", "validation", epoch))
    logits: list[Tensor] = []
    broken = attacked = 0
    with evaluating(model):
        for batch in in_order(data, batch_size, model.device):
            logits += _in_pieces(partial(_clean, model), batch, check_cancelled)
            step = Step(model, epoch, 0, draw, check_cancelled, len(batch), micro=micro)
            under = [each for each in _in_pieces(partial(_attacked, method, step), batch, check_cancelled) if each]
            attacked += sum(examples for examples, _ in under)
            broken += sum(wrong for _, wrong in under)
    together = torch.cat(logits)
    if not bool(torch.isfinite(together).all()):
        raise DivergedError(f"a logit of a validation example after epoch {epoch + 1}")
    truth = torch.as_tensor(data.labels)
    confidence, predicted = together.softmax(1).max(1)
    correct = predicted == truth
    means = {
        "loss": float(F.cross_entropy(together, truth)),
        "accuracy": float(correct.double().mean()),
        "ece": ece(confidence.numpy(), correct.numpy(), BINS) or 0.0,
    }
    return {**means, "attacked_accuracy": 1 - broken / attacked} if attacked else means


def _clean(model: Trainable, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model.logits(batch.inputs).cpu()


def _attacked(method: Method, step: Step, batch: Batch) -> tuple[int, int] | None:
    """Return examples, and those that are wrong under the method's attack; None where it has none."""
    logits = method.attacked(batch, step)
    return None if logits is None else (len(logits), int((logits.argmax(1) != batch.labels).sum()))


def _in_pieces(work: Callable[[Batch], Piece], batch: Batch, check_cancelled: Callable[[], None]) -> list[Piece]:
    def piece(start: int, stop: int) -> Piece:
        check_cancelled()
        return work(batch.part(start, stop))

    return run_with_oom_split(piece, 0, len(batch))
