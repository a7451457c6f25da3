"""The loop: deterministic steps that can be left and taken up again, whichever the method."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from seatrial.hardening.params import TrainingParams
from seatrial.store.seeds import derive_seed
from workers.errors import PreflightError
from workers.models.memory import is_out_of_memory
from workers.training.checkpoints import Checkpoint, CheckpointError, copied, pack_optimizer, unpack_optimizer
from workers.training.data import Batch, TrainingData, epoch_order, read_batch
from workers.training.errors import DivergedError
from workers.training.models import Trainable
from workers.training.protocol import Method, Preparation, Step
from workers.training.validation import validate

if TYPE_CHECKING:
    from workers.resources.library import Library

LOSS_EVERY = 10
"""Steps between two looks at the loss: each waits for the device."""


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        epoch: From 0.
        epochs: In all.
        step: Steps taken in this epoch.
        steps: Steps of an epoch.
        loss: Mean training loss of the epoch so far, in the method's units.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class Outcome:
    """A finished run; the model holds the weights that were kept, frozen and in eval mode.

    Attributes:
        curves: Per epoch ``train_loss``, ``learning_rate``, ``skipped`` and what validation found.
        kept_epoch: Whose weights were kept, from 0.
        skipped: Steps without a direction.
        micro_batch_size: Examples whose graph was held at once, in the end.
    """

    curves: list[dict[str, float]]
    kept_epoch: int
    skipped: int
    micro_batch_size: int


@dataclass
class _State:
    """What changes from step to step, weights, optimiser and generators aside."""

    micro: int
    loss: Tensor
    epoch: int = 0
    step: int = 0
    skipped: int = 0
    skipped_before: int = 0
    curves: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = -1
    best_score: float = -1.0


def train(
    model: Trainable,
    method: Method,
    params: TrainingParams,
    data: TrainingData,
    validation: TrainingData,
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    save: Callable[[Checkpoint], None] | None = None,
    save_every: int | None = None,
    is_save_due: Callable[[], bool] = lambda: False,
    folder: Path | None = None,
    library: "Library | None" = None,
    vectors: Any = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_epoch: Callable[[list[dict[str, float]]], None] = lambda curves: None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Outcome:
    """Train a model.

    Guarantee: a run that is killed and resumed from any of its checkpoints ends in the weights it would have ended in,
    to the bit, on the same machine and device. It fails where memory runs out at another step the second time.

    Args:
        model: Trained in place; given with the weights it had at first also where a run goes on.
        method: Made for this model and these parameters.
        params: Epochs, batches, optimiser.
        data: What is trained on.
        validation: What every epoch is judged on.
        seed: Of order, dropout and the method's draws.
        checkpoint: Where to go on; None to begin.
        save: Keeps a checkpoint: after every epoch and every ``save_every`` steps; None for none.
        save_every: Steps between two checkpoints of one epoch; None for none.
        is_save_due: Asked after every step: whether to keep a checkpoint there as well.
        folder: Where the method may keep what it prepared.
        library: Where resources of text attacks are; None for the default place.
        vectors: Counter-fitted word vectors, for the method that needs synonyms.
        on_progress: Told every ``LOSS_EVERY`` steps, and of the last of an epoch.
        on_epoch: Told the curves after every epoch, and where a run goes on.
        check_cancelled: Called before every forward pass; raises to stop. Nothing is saved then: the last checkpoint
            is where to go on.

    Raises:
        CheckpointError: The checkpoint is of another run.
        DivergedError: The loss is no longer finite.
        PreflightError: Nothing to train on, or a precision the device lacks.
        torch.OutOfMemoryError: One example alone does not fit (a batch, where the method needs it whole).
    """
    if params.precision == "bfloat16" and model.device.type != "cuda":
        raise PreflightError(
            "precision-unavailable", "bfloat16 is for GPUs", "use float32 on this device", field="/params/precision"
        )
    if len(data.labels) == 0 or len(validation.labels) == 0:
        raise PreflightError("no-examples", "There is nothing to train on", "a dataset is empty", field="/dataset")
    model.in_bfloat16 = params.precision == "bfloat16"
    try:
        with _own_randomness(model.device, derive_seed(seed, "training", "dropout")):
            preparation = Preparation(model, seed, folder, check_cancelled, library, vectors)
            loop = _Loop(model, method, params, method.prepare(data, preparation), seed, check_cancelled)
            if checkpoint is not None:
                loop.restore(checkpoint)
                on_epoch(list(loop.curves))
            return loop.run(validation, save, save_every, is_save_due, on_progress, on_epoch)
    finally:
        model.in_bfloat16 = False
        model.module.eval().requires_grad_(False)
        model.module.zero_grad(set_to_none=True)


class _Loop:
    def __init__(
        self,
        model: Trainable,
        method: Method,
        params: TrainingParams,
        data: TrainingData,
        seed: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        self._model, self._method, self._params, self._data = model, method, params, data
        self._seed, self._check = seed, check_cancelled
        self._generator = torch.Generator().manual_seed(derive_seed(seed, "training", "method"))
        for each in model.module.parameters():
            each.requires_grad_(each.is_floating_point())
        self._optimizer = make_optimizer(model, params)
        self._examples = len(data.labels)
        self._steps = -(-self._examples // params.batch_size)
        self._state = _State(params.micro_batch_size or params.batch_size, self._nothing())

    @property
    def _is_cut(self) -> bool:
        return self._method.divisible or getattr(self._method, "cuts_itself", False)

    @property
    def curves(self) -> list[dict[str, float]]:
        """A point per epoch so far."""
        return self._state.curves

    def run(
        self,
        validation: TrainingData,
        save: Callable[[Checkpoint], None] | None,
        save_every: int | None,
        is_save_due: Callable[[], bool],
        on_progress: Callable[[Progress], None],
        on_epoch: Callable[[list[dict[str, float]]], None],
    ) -> Outcome:
        state, params = self._state, self._params
        self._model.module.train()
        while state.epoch < params.epochs:
            order = epoch_order(self._examples, self._seed, state.epoch)
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate(params, state.epoch)
            while state.step < self._steps:
                at = state.step * params.batch_size
                self._step(read_batch(self._data, order[at : at + params.batch_size], self._model.device))
                state.step += 1
                if state.step % LOSS_EVERY == 0 or state.step == self._steps:
                    on_progress(self._progress())
                is_due = (save_every is not None and state.step % save_every == 0) or is_save_due()
                if save is not None and is_due and state.step < self._steps:
                    self._progress()
                    save(self.checkpoint())
            self._end_epoch(validation)
            on_epoch(list(state.curves))
            if save is not None:
                save(self.checkpoint())
        if params.keep == "best":
            self._model.module.load_state_dict(state.best)
        kept = state.best_epoch if params.keep == "best" else params.epochs - 1
        return Outcome(state.curves, kept, state.skipped, state.micro)

    def _step(self, batch: Batch) -> None:
        """Take one step of the optimiser; where memory runs out, from the start again in micro-batches of half."""
        state = self._state
        # Batch normalisation counts what it sees: a second try must not count twice.
        buffers = [(each, each.detach().clone()) for each in self._model.module.buffers()]
        before = _random_states(self._model.device), self._generator.get_state()
        while True:
            try:
                loss, step = self._gradients(batch)
                break
            except (RuntimeError, MemoryError) as error:
                if state.micro == 1 or not self._is_cut or not is_out_of_memory(error):
                    raise
            # Outside the except block: the traceback would keep the failed batch's graph alive.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            state.micro = -(-min(state.micro, len(batch)) // 2)
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)
            _set_random_states(self._model.device, before[0])
            self._generator.set_state(before[1])
        if self._method.finish(step):
            self._optimizer.step()
        else:
            state.skipped += 1
        state.loss += loss

    def _gradients(self, batch: Batch) -> tuple[Tensor, Step]:
        self._optimizer.zero_grad(set_to_none=True)
        step = Step(
            self._model,
            self._state.epoch,
            self._state.step,
            self._generator,
            self._check,
            len(batch),
            micro=self._state.micro,
        )
        micro = self._state.micro if self._method.divisible else len(batch)
        total = self._nothing()
        for start in range(0, len(batch), micro):
            self._check()
            part = batch.part(start, min(start + micro, len(batch)))
            total += len(part) * self._method.accumulate(part, len(part) / len(batch), step)
        return total, step

    def _progress(self) -> Progress:
        state = self._state
        seen = min(state.step * self._params.batch_size, self._examples)
        loss = float(state.loss) / seen
        if loss != loss or abs(loss) == float("inf"):
            raise DivergedError(f"the loss of epoch {state.epoch + 1} at step {state.step}")
        return Progress(state.epoch, self._params.epochs, state.step, self._steps, loss)

    def _end_epoch(self, validation: TrainingData) -> None:
        state = self._state
        point = {
            "train_loss": self._progress().loss,
            "learning_rate": learning_rate(self._params, state.epoch),
            "skipped": float(state.skipped - state.skipped_before),
            **validate(
                self._model,
                self._method,
                validation,
                batch_size=state.micro if self._method.divisible else self._params.batch_size,
                micro=state.micro,
                seed=self._seed,
                epoch=state.epoch,
                check_cancelled=self._check,
            ),
        }
        score = point.get("attacked_accuracy", point["accuracy"])
        state.curves.append(point)
        if self._params.keep == "best" and score > state.best_score:
            state.best_score, state.best_epoch = score, state.epoch
            state.best = {name: copied(value) for name, value in self._model.module.state_dict().items()}
        state.epoch, state.step, state.loss, state.skipped_before = state.epoch + 1, 0, self._nothing(), state.skipped

    def checkpoint(self) -> Checkpoint:
        """Return where the run is."""
        state = self._state
        tensors, optimizer = pack_optimizer(self._optimizer)
        tensors |= {f"model.{name}": copied(value) for name, value in self._model.module.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in state.best.items()}
        tensors |= {f"generator.{name}": value for name, value in _random_states(self._model.device).items()}
        tensors |= {"generator.method": self._generator.get_state(), "loss": copied(state.loss)}
        names = ("micro", "epoch", "step", "skipped", "skipped_before", "best_epoch", "best_score")
        numbers = {name: getattr(state, name) for name in names} | {"curves": list(state.curves)}
        return Checkpoint(tensors, {"run": self._run(), "optimizer": optimizer, "state": numbers})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint.

        Raises:
            CheckpointError: It is of a run with other parameters, seed, labels or weights.
        """
        document, tensors = checkpoint.document, checkpoint.tensors
        if document["run"] != self._run():
            raise CheckpointError("the checkpoint is of a run with other parameters, data or seed")
        try:
            self._model.module.load_state_dict(_under(tensors, "model."))
        except RuntimeError as error:
            raise CheckpointError("the checkpoint is of another model") from error
        unpack_optimizer(self._optimizer, tensors, document["optimizer"])
        _set_random_states(self._model.device, _under(tensors, "generator."))
        self._generator.set_state(tensors["generator.method"])
        loss = tensors["loss"].to(self._model.device)
        self._state = _State(loss=loss, best=_under(tensors, "best."), **document["state"])
        self._state.curves = list(self._state.curves)

    def _run(self) -> dict[str, Any]:
        return {
            "params": self._params.model_dump(mode="json"),
            "seed": self._seed,
            "examples": self._examples,
            "labels": hashlib.sha256(np.ascontiguousarray(self._data.labels, np.int64).tobytes()).hexdigest(),
            "device": self._model.device.type,
        }

    def _nothing(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64, device=self._model.device)


def make_optimizer(model: Trainable, params: TrainingParams) -> torch.optim.Optimizer:
    """Return the optimiser over all floating parameters, as papers state it: betas 0.9 and 0.999, eps 1e-8."""
    parameters = [each for each in model.module.parameters() if each.requires_grad]
    if params.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=params.learning_rate, weight_decay=params.weight_decay)
    return torch.optim.SGD(
        parameters, lr=params.learning_rate, momentum=params.momentum, weight_decay=params.weight_decay
    )


def learning_rate(params: TrainingParams, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0.

    >>> from seatrial.hardening.cross_entropy import GradientNormalisedParams
    >>> params = GradientNormalisedParams(method="gradient_normalised", learning_rate=1.0, milestones=[3])
    >>> learning_rate(params, 2), learning_rate(params, 3)
    (1.0, 0.1)
    """
    return params.learning_rate * params.decay ** sum(epoch >= each for each in params.milestones)


@contextmanager
def _own_randomness(device: torch.device, seed: int) -> Iterator[None]:
    """Seed what dropout draws from, and put it back in the end; kernels are those that give the same every time."""
    before = _random_states(device)
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.manual_seed(seed)
    try:
        yield
    finally:
        _set_random_states(device, before)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn


def _random_states(device: torch.device) -> dict[str, Tensor]:
    found = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def _set_random_states(device: torch.device, states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _under(tensors: Any, prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
