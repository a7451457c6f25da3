"""The family as the runtime sees it: the static model first, then a stage per game."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import torch
from torch import Tensor

from seatrial.contracts.estimates import Result
from seatrial.families.shared.defence_params import DefenceParams
from seatrial.families.transductive_attack.params import (
    CLEAN,
    CORRUPTIONS,
    MODEL_SPACE,
    STATIC,
    AttackName,
    CorruptionName,
    TransductiveAttackParams,
    game_of,
)
from seatrial.families.transductive_attack.records import ROBUST, holds
from workers.attacks.carlini_wagner import RaiseWrongConfidence
from workers.attacks.evasion import RaiseAnsweredLoss
from workers.attacks.model_space import ModelSpaceAttack, Perturb, RaiseCrossEntropy
from workers.defences.protocol import Checking, Defence, DefenceError, Preparing, Training
from workers.errors import PreflightError
from workers.families.contexts import Batch, ImageContext, Records, ResumableImageContext, RunContext
from workers.families.protocol import DataInfo, Family, Shard, Stage, TargetInfo
from workers.families.transductive_attack.estimates import count, estimate_all
from workers.families.transductive_attack.figures import draw
from workers.families.transductive_attack.flags import doubt
from workers.families.transductive_attack.games import Answers, Game, GameState, OverdueError
from workers.families.transductive_attack.rules import build, followed, is_playable, start_at, starts_static
from workers.families.transductive_attack.series import make_series
from workers.families.transductive_attack.static import attack_static, from_bytes, make_autoattack, make_pgd
from workers.models.image_classifier import ImageClassifier

WHOLE = 2**31
"""A grain that no sample reaches: the stage is one shard."""


@dataclass(frozen=True)
class Match:
    """A game's name, taken apart."""

    defence: DefenceParams
    attack: AttackName | CorruptionName | Literal["clean"]

    @property
    def is_attack(self) -> bool:
        """Whether somebody chose what is sent."""
        return self.attack != CLEAN and self.attack not in CORRUPTIONS

    repeat: int


class TransductiveAttack:
    """Attack defences that adapt at test time, with and without knowledge of them."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: TransductiveAttackParams) -> None:
        """Refuse a target with one class, or a defence that cannot be had or cannot work on this model.

        Raises:
            PreflightError: Fewer than two classes; no such defence, preset or hyper-parameter; or the model lacks what
                a defence adapts, or takes images too small for its network.
        """
        if target.classes < 2:
            raise PreflightError(
                "too-few-classes",
                "The model has too few classes",
                f"an attack needs at least 2 classes, the model has {target.classes}",
                field="model",
            )
        for number, defence in enumerate(params.defences):
            try:
                built = build(defence)
                if isinstance(built, Checking) and isinstance(target.classifier, ImageClassifier):
                    built.check(target.classifier)
            except DefenceError as error:
                field = "/".join(["defences", str(number), *([error.field] if error.field else [])])
                title = "A defence does not fit the model"
                raise PreflightError("defence-refused", title, str(error), field=field) from error

    def next_stage(self, params: TransductiveAttackParams, done: Mapping[str, Records]) -> Stage | None:
        """Return ``static`` first, then each defence's games: without an attack, then under each."""
        if STATIC not in done:
            return Stage(STATIC)
        for match in matches(params):
            name = game_of(match.defence.name, match.attack, match.repeat)
            if name not in done:
                return Stage(name, grain=grain_of(build(match.defence), params))
        return None

    def run(self, params: TransductiveAttackParams, shard: Shard, context: ResumableImageContext) -> Records:
        """Attack the static model batch by batch, or play one game."""
        if shard.stage == STATIC:
            tables = [attack_static(params, context, batch) for batch in context.batches()]
            return pa.concat_tables(tables).combine_chunks()
        for match in matches(params):
            if game_of(match.defence.name, match.attack, match.repeat) == shard.stage:
                return play(params, match, context, first=shard.start)
        raise ValueError(f"no such stage: {shard.stage}")

    def reduce(
        self,
        params: TransductiveAttackParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        check_cancelled()
        estimates = estimate_all(params, done)
        result = Result(estimates=estimates, series=make_series(params, done), counts=count(params, done))
        result.series["followed"] = followed(params)
        randomized = [one.name for one in params.defences if build(one).traits.is_randomized]
        result.flags = doubt(params, done, estimates, randomized=randomized)
        return result

    def figures(self, params: TransductiveAttackParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(params, result)


def matches(params: TransductiveAttackParams) -> list[Match]:
    """Return every game that can be played, in order."""
    traits = {defence.name: build(defence).traits for defence in params.defences}
    return [
        Match(defence, attack, repeat)
        for defence in params.defences
        for repeat in range(params.repeats)
        for attack in (CLEAN, *params.corruptions, *params.attacks)
        if is_playable(attack, traits[defence.name])
    ]


def grain_of(defence: Defence, params: TransductiveAttackParams) -> int:
    """Return how many examples of a game must stay together: a round or window, or all where rounds follow on."""
    if defence.traits.is_one_round or defence.traits.is_stateful:
        return WHOLE
    return defence.batch_size * (2 if params.order == "adversarial" else 1)


class Deadline:
    """Ends a round that takes too long; the defence calls it, before every pass."""

    def __init__(self, limit_s: float, check_cancelled: Callable[[], None]) -> None:
        self._limit_s, self._check_cancelled = limit_s, check_cancelled
        self.begin()

    def begin(self) -> None:
        """Give the next round its time."""
        self._until = time.monotonic() + self._limit_s

    def __call__(self) -> None:
        """Look for cancellation, and at the clock.

        Raises:
            OverdueError: The time is over.
        """
        self._check_cancelled()
        if time.monotonic() > self._until:
            raise OverdueError(f"a round took longer than round_timeout_s, {self._limit_s:g} s")


def play(params: TransductiveAttackParams, match: Match, context: ResumableImageContext, *, first: int = 0) -> Records:
    """Play one game, going on from where it was saved; one that fails is recorded with its reason.

    Args:
        params: Parameters of the check.
        match: Which game.
        context: Context of the shard.
        first: Position of the shard's first example in the stage.
    """
    batch = context.together()
    images, labels, ids, clean = batch.images, batch.labels.cpu(), batch.example_ids, None
    if match.attack.startswith("transfer_") or match.attack in CORRUPTIONS:
        images, clean = _transferred(context, match.attack.removeprefix("transfer_"), batch), batch.images
    training = _training(params, context)
    deadline = Deadline(params.round_timeout_s, context.check_cancelled)
    saved = context.checkpoint()
    begun = None if saved is None else GameState.read(saved)
    answers = Answers.none(len(labels), params.iterations + 1) if begun is None else begun.answers

    def moves() -> Iterator[GameState]:
        game = _game(params, match, context, training, deadline, first)
        yield from game.play(images, labels, ids, begun, clean=clean)

    size, positions, failed = max(1, build(match.defence).batch_size), moves(), None
    while True:
        try:
            now = next(positions, None)
        except Exception as error:
            # A defence may be anybody's code and fail in any way; the other games go on. What fails outside of it, as
            # a store that cannot be reached, is not put down to the defence.
            failed = str(error) if isinstance(error, DefenceError) else f"{type(error).__name__}: {error}"
            break
        if now is None:
            break
        answers = now.answers
        context.save(now.tensors())
        context.progress(min(len(labels), now.round * size))
        deadline.begin()
    if failed is None and bool(answers.non_finite.any()):
        failed = f"{int(answers.non_finite.sum())} of {len(labels)} answers are not finite"
    return _to_records(batch, answers, failed, match)


def _game(
    params: TransductiveAttackParams,
    match: Match,
    context: ImageContext,
    training: Training | None,
    check_cancelled: Callable[[], None],
    first: int,
) -> Game:
    defence = build(match.defence, check_cancelled)
    base = context.classifier
    if not isinstance(base, ImageClassifier):
        raise DefenceError("defences adapt the weights of a model, and this one has none")
    scope = f"{match.defence.name} {match.repeat}"
    if isinstance(defence, Preparing):
        name = f"{match.defence.name} prepared"
        defence.use(context.shared(name, lambda: defence.prepare(base, training)))

    def seed(purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(context.seed(f"{scope} {purpose}", number))

    return Game(
        defence,
        base,
        training,
        seed,
        lambda iteration, examples: context.generators(f"start {iteration}", examples),
        check_cancelled=context.check_cancelled,
        attack=_attack(params, match, defence),
        on_module=make_autoattack(params) if match.attack == "defence_autoattack" else None,
        leaks=params.state == "leaking",
        sorts=params.order == "adversarial",
        starts_static=starts_static(match.defence.name, params),
        first_round=first // defence.batch_size,
        shared=lambda purpose, make: context.shared(f"{scope} {purpose}", make),
    )


def _attack(params: TransductiveAttackParams, match: Match, defence: Defence) -> ModelSpaceAttack | None:
    if match.attack not in ("fpa", "gmsa_avg", "gmsa_min"):
        return None
    pgd = make_pgd(params)
    perturb: Perturb = RaiseWrongConfidence(pgd) if match.defence.name == "dent" else RaiseCrossEntropy(pgd)
    return ModelSpaceAttack(
        match.attack,
        perturb,
        params.iterations,
        start_at=start_at(match.defence.name, defence.traits),
        evade=RaiseAnsweredLoss(pgd),
        stop_at_first_success=not defence.traits.is_one_round and defence.batch_size == 1,
    )


def _training(params: TransductiveAttackParams, context: ImageContext) -> Training | None:
    if params.training_dataset is None:
        return None
    return Training(*context.examples_of("training_dataset"))


def _transferred(context: RunContext, attack: str, batch: Batch) -> Tensor:
    """Return the images of a batch as an attack on the static model left them."""
    table = context.records(STATIC).select(["example_id", f"image_{attack}"])
    by_id = dict(zip(table["example_id"].to_pylist(), table[f"image_{attack}"].to_pylist(), strict=True))
    images = from_bytes([by_id[example_id] for example_id in batch.example_ids], tuple(batch.images.shape[1:]))
    return images.to(batch.images.device)


def _to_records(batch: Batch, answers: Answers, failed: str | None, match: Match) -> pa.Table:
    n = len(batch.example_ids)
    lost, reasons = torch.full((n,), failed is not None), pa.array([failed] * n, pa.string())
    unchosen = lost | torch.tensor(match.attack not in MODEL_SPACE)
    unasked = lost | (answers.clean_prediction < 0)
    scores = [[value for value in row if value == value] for row in answers.scores.tolist()]

    def column(values: Tensor, missing: Tensor) -> pa.Array:
        return pa.array(values.numpy(), mask=missing.numpy())

    return pa.table(
        {
            "example_id": pa.array(batch.example_ids, pa.int64()),
            "label": pa.array(batch.labels.cpu().numpy(), pa.int64()),
            "errored": pa.array([False] * n, pa.bool_()),
            "correct": column(answers.correct, lost),
            "prediction": column(answers.prediction, lost),
            "rejected": column(answers.rejected, lost),
            "rejection_score": column(answers.rejection_score, ~answers.rejection_score.isfinite()),
            ROBUST: column(_robust(batch, answers, is_attack=match.is_attack), lost),
            "clean_prediction": column(answers.clean_prediction, unasked),
            "clean_rejected": column(answers.clean_rejected, unasked | ~answers.clean_rejection_score.isfinite()),
            "clean_rejection_score": column(
                answers.clean_rejection_score, lost | ~answers.clean_rejection_score.isfinite()
            ),
            "adapted": column(answers.adapted, unchosen),
            "selected": column(answers.selected, unchosen),
            "scores": pa.array(scores, pa.list_(pa.float64()), mask=unchosen.numpy()),
            "clean_score": column(answers.clean_score, lost | ~answers.clean_score.isfinite()),
            "failed": reasons,
        }
    )


def _robust(batch: Batch, answers: Answers, *, is_attack: bool) -> Tensor:
    """Return which examples (n,) hold; what refuses harmless examples owes them an answer."""
    if not is_attack:
        return answers.correct
    label = batch.labels.cpu()
    kept = holds(
        (answers.prediction == label).numpy(),
        answers.rejected.numpy(),
        (answers.clean_prediction == label).numpy(),
        answers.clean_rejected.numpy(),
    )
    return torch.from_numpy(kept).where(answers.rejection_score.isfinite(), answers.correct)


FAMILY: Family[TransductiveAttackParams, ResumableImageContext] = TransductiveAttack()
