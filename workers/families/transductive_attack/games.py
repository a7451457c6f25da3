"""One game: an attacker and a defender, round by round, and what the defender answered.

In a round the attacker sees the points, simulates the defence as the attack says, and sends perturbed points; the
defender adapts to those with randomness drawn afterwards, answers, and the round ends. Attacker and defender share
nothing but the code, the base and the training data (Chen et al., sec. 3: non-leaking, private randomness), unless the
state leaks: then the attacker begins each round from the state the defender is in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from seatrial.statistics.arrays import Ints
from workers.attacks.answers import ask
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.attacks.model_space import CLEAN, Iteration, ModelSpaceAttack
from workers.defences.copies import Frozen
from workers.defences.fresh import Reloading, Storable
from workers.defences.protocol import OPTIMIZER, Defence, DefenceError, Remembering, Training
from workers.models.adapted import Adapted
from workers.models.image_classifier import ImageClassifier

State: TypeAlias = dict[str, Tensor]

Seed = Callable[[str, int], torch.Generator]
"""(what for, number) to a CPU generator, each time as new."""

Shared = Callable[[str, Callable[[], State]], State]
"""(what it is, what makes it) to tensors, made here or by another game alike."""


@dataclass
class Answers:
    """What the defender said, in the order of the examples; grows round by round.

    Attributes:
        prediction: (n,) int64 class answered, -1 before.
        correct: (n,) bool.
        non_finite: (n,) bool, the answer was not finite.
        rejected: (n,) bool, the defender refused to answer.
        rejection_score: (n,) float64, NaN where the defence never rejects.
        clean_prediction: (n,) int64 class answered to the clean twin, rejected or not, where a round has a clean half
            or the defence may refuse; -1 where nobody asked.
        clean_rejected: (n,) bool, the defender refused to answer that twin.
        clean_rejection_score: (n,) float64 of that twin, likewise; else NaN.
        adapted: (n,) bool, in some iteration there was something of the defence to attack: see :class:`Iteration`.
        selected: (n,) int64 iteration whose images were sent, or ``CLEAN``.
        scores: (n, attacks) float64 accuracy of each model that the example's round induced, NaN where there was none.
        clean_score: (n,) float64 that of the model the clean round induced, where an attack has to get below it.
    """

    prediction: Tensor
    correct: Tensor
    non_finite: Tensor
    rejected: Tensor
    rejection_score: Tensor
    clean_prediction: Tensor
    clean_rejected: Tensor
    clean_rejection_score: Tensor
    adapted: Tensor
    selected: Tensor
    scores: Tensor
    clean_score: Tensor

    @classmethod
    def none(cls, examples: int, attacks: int) -> "Answers":
        """Return the answers to no example."""
        never = torch.zeros(examples, dtype=torch.bool)
        nothing = torch.full((examples,), torch.nan, dtype=torch.float64)
        nobody = torch.full((examples,), -1, dtype=torch.int64)
        return cls(
            prediction=nobody.clone(),
            correct=never.clone(),
            non_finite=never.clone(),
            rejected=never.clone(),
            rejection_score=nothing.clone(),
            clean_prediction=nobody.clone(),
            clean_rejected=never.clone(),
            clean_rejection_score=nothing.clone(),
            adapted=never.clone(),
            selected=torch.full((examples,), CLEAN, dtype=torch.int64),
            scores=torch.full((examples, attacks), torch.nan, dtype=torch.float64),
            clean_score=nothing.clone(),
        )


@dataclass
class GameState:
    """Where a game is: all it needs to go on, as tensors.

    Attributes:
        round: The round being played.
        answers: So far.
        defender: State of the defender before this round.
        attacker: State of the attacker's simulation before this round.
        done: Iterations of the attack in this round.
        models: Models that iterations induced in this round, of a defence that trains for minutes to hours.
    """

    round: int
    answers: Answers
    defender: State = field(default_factory=dict)
    attacker: State = field(default_factory=dict)
    done: list[Iteration] = field(default_factory=list)
    models: dict[int, State] = field(default_factory=dict)

    def tensors(self) -> State:
        """Return it as tensors by name."""
        tensors = {"round": torch.tensor(self.round)}
        tensors |= {f"answers.{name}": value for name, value in vars(self.answers).items()}
        tensors |= {f"defender.{name}": value for name, value in self.defender.items()}
        tensors |= {f"attacker.{name}": value for name, value in self.attacker.items()}
        for number, iteration in enumerate(self.done):
            tensors |= {f"done.{number:03d}.{name}": value.cpu() for name, value in vars(iteration).items()}
        for number, model in self.models.items():
            tensors |= {f"models.{number}.{name}": value for name, value in model.items()}
        return tensors

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "GameState":
        """Return the position that :meth:`tensors` wrote down."""

        def within(prefix: str) -> State:
            return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}

        def numbers(prefix: str) -> list[str]:
            return sorted({name.split(".")[1] for name in tensors if name.startswith(prefix)})

        return cls(
            round=int(tensors["round"]),
            answers=Answers(**within("answers.")),
            defender=within("defender."),
            attacker=within("attacker."),
            done=[Iteration(**within(f"done.{number}.")) for number in numbers("done.")],
            models={int(number): within(f"models.{number}.") for number in numbers("models.")},
        )


@dataclass(frozen=True)
class Game:
    """A defence against an attack; what it is played with never changes.

    Attributes:
        defence: Plays defender and simulation in turn, going back to the state of whose turn it is.
        base: The static model.
        training: Labelled examples the defence may learn from.
        seed: Seed of all randomness but the attacks' own. The defender's is for other purposes than the simulation's.
        starts: Iteration and example ids to the generators of an attack's random starts.
        check_cancelled: Called before every forward pass; may raise.
        attack: A model space attack; None for points that are perturbed already, or not at all.
        on_module: AutoAttack on a defence without memory itself, adapting at every pass; None for another attack.
        leaks: Whether the attacker begins a round from the defender's state.
        sorts: Whether examples come sorted by label within windows of two rounds.
        starts_static: Whether an attack on a one-round defence begins with the static model as F^(0).
        first_round: Number of the first round played here, for defences without memory whose rounds are cut into
            shards: what is drawn in a round depends on its number in the whole game.
        shared: What to do and what it is for to the tensors it makes, which another game may have made: see
            :meth:`workers.families.contexts.ImageContext.shared`.
    """

    defence: Defence
    base: ImageClassifier
    training: Training | None
    seed: Seed
    starts: Callable[[int, list[int]], Sequence[torch.Generator]]
    check_cancelled: Callable[[], None] = lambda: None
    attack: ModelSpaceAttack | None = None
    on_module: AutoAttack | None = None
    leaks: bool = False
    sorts: bool = False
    starts_static: bool = False
    first_round: int = 0
    shared: Shared = lambda purpose, make: make()

    def play(
        self,
        images: Tensor,
        labels: Tensor,
        example_ids: Sequence[int],
        position: GameState | None = None,
        *,
        clean: Tensor | None = None,
    ) -> Iterator[GameState]:
        """Yield the position after every iteration of the attack and every round; the last one has all answers.

        Guarantee: continued from any position it yields, it ends with the same answers, bit for bit on one device.

        Args:
            images: (n, channels, height, width): what the attacker starts from, or sends where it made them before.
            labels: (n,) int64, on the CPU.
            example_ids: Ids of the examples; random starts follow them.
            position: Where to go on; None: at the beginning.
            clean: The images before somebody perturbed them, for defences that see them too; None: nobody did.

        Raises:
            DefenceError: The defence cannot work on this model or data.
        """
        rounds = self.rounds(labels)
        attacks = 0 if self.attack is None else self.attack.iterations + 1
        now = position or GameState(0, Answers.none(len(labels), attacks))
        while now.round < len(rounds):
            at = torch.from_numpy(rounds[now.round])
            points, truth = images[at].to(self.base.device), labels[at]
            sent, twins = points, None if clean is None else clean[at].to(self.base.device)
            if self.attack is not None:
                yield from self._attack(now, points, truth, [example_ids[int(row)] for row in at])
                sent, twins = self.attack.sent(now.done, points).to(self.base.device), points
                self._note_attack(now, at)
                self._follow(now, self._given(sent, twins))
            elif self.on_module is not None:
                twins = points
                sent = self._break_module(points, truth, [example_ids[int(row)] for row in at])
            self._answer(now, at, sent, truth, twins)
            now.round, now.done, now.models = now.round + 1, [], {}
            yield now

    def rounds(self, labels: Tensor) -> list[Ints]:
        """Return the positions of the examples of each round, in the order they come."""
        order = np.arange(len(labels), dtype=np.int64)
        size = len(labels) if self.defence.traits.is_one_round else self.defence.batch_size
        if self.sorts:
            values = labels.numpy()
            windows = [order[start : start + 2 * size] for start in range(0, len(order), 2 * size)]
            order = np.concatenate([window[np.argsort(values[window], kind="stable")] for window in windows])
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _number(self, now: GameState) -> int:
        return self.first_round + now.round

    def _attack(self, now: GameState, points: Tensor, truth: Tensor, ids: list[int]) -> Iterator[GameState]:
        """Play the attacker's turn of a round; yield after every iteration."""
        attack = self.attack
        assert attack is not None  # noqa: S101
        state = now.defender if self.leaks else now.attacker

        def induce(images: Tensor, iteration: int) -> Adapted:
            kept = now.models.get(iteration)
            if kept is not None and isinstance(self.defence, Reloading):
                return self.defence.reload(self.base, kept)
            # The official simulation adapts, then goes back to its weights with a new optimiser: what it remembers of
            # the last round serves the first iteration alone. Who sees the defender's state uses all of it.
            self.defence.restore(state if iteration <= 0 or self.leaks else _forgetting(state))
            randomness = self.seed(f"simulation {self._number(now)}", iteration)
            given = self._given(images.to(self.base.device), None if iteration == CLEAN else points)
            # Before anything was perturbed, the simulations of all attacks see the same points.
            is_common = iteration == CLEAN and self.defence.traits.is_one_round
            purpose = f"simulation {self._number(now)} {iteration}"
            adapted = self._adapt(given, randomness, purpose, is_common=is_common)
            if isinstance(self.defence, Reloading) and isinstance(adapted, Storable):
                now.models[iteration] = adapted.state()
            return adapted

        first = self._first(state, points, induce)
        labels = truth.to(points.device)
        iterations = attack.attack_iterations(
            first,
            induce,
            points,
            labels,
            generators=lambda i: self.starts(i, ids),
            done=now.done,
            check_cancelled=self.check_cancelled,
        )
        for iteration in iterations:
            now.done.append(iteration)
            yield now

    def _first(self, before: State, points: Tensor, induce: Callable[[Tensor, int], Adapted]) -> Adapted:
        """Return F^(0): what stands before the round; of a defence made for its points, what the clean ones give.

        Where it is the static model instead, as in the authors' code of DANN, that counts in every iteration of GMSA.
        """
        if self.defence.traits.is_one_round:
            if self.starts_static:
                return Frozen(self.base)
            return induce(points, CLEAN)
        self.defence.restore(before)
        return self.defence.answering(self.base) if isinstance(self.defence, Remembering) else Frozen(self.base)

    def _note_attack(self, now: GameState, at: Tensor) -> None:
        attack = self.attack
        assert attack is not None  # noqa: S101
        now.answers.selected[at] = attack.selected(now.done)
        now.answers.adapted[at] = torch.stack([one.adapted.cpu() for one in now.done]).any(0)
        for iteration in now.done:
            if iteration.number == CLEAN:
                now.answers.clean_score[at] = iteration.accuracy
            else:
                now.answers.scores[at, iteration.number] = iteration.accuracy

    def _follow(self, now: GameState, sent: Tensor) -> None:
        """Let the attacker's simulation live through the round it has decided."""
        if self.leaks or not self.defence.traits.is_stateful:
            return
        self.defence.restore(_forgetting(now.attacker))
        self.defence.adapt(self.base, self.training, sent, self.seed("simulation chosen", self._number(now)))
        self.defence.end_round(sent, self.seed("simulation end", self._number(now)))
        now.attacker = self.defence.state()

    def _break_module(self, points: Tensor, truth: Tensor, ids: list[int]) -> Tensor:
        """Return the points perturbed by AutoAttack on the module that adapts to whatever batch it is given."""
        ensemble = self.on_module
        assert ensemble is not None  # noqa: S101

        def module(images: Tensor) -> Tensor:
            adapted = self.defence.adapt(self.base, self.training, images.detach(), self.seed("module", 0))
            return adapted.logits(images)

        own = [self.seed("module start", example_id) for example_id in ids]
        return ensemble.run(
            module, points, truth.to(points.device), generators=own, check_cancelled=self.check_cancelled
        ).images

    def _adapt(self, points: Tensor, randomness: torch.Generator, purpose: str, *, is_common: bool = False) -> Adapted:
        """Adapt to points, or take the model that another game got by adapting to the same with the same randomness.

        Args:
            points: What to adapt to.
            randomness: To adapt with.
            purpose: Tells apart what is drawn in one game.
            is_common: The points are the same in all games of this defence and repeat.
        """
        defence = self.defence
        if not (is_common or defence.traits.ignores_points) or not isinstance(defence, Reloading):
            return defence.adapt(self.base, self.training, points, randomness)
        made: list[Adapted] = []

        def make() -> State:
            adapted = defence.adapt(self.base, self.training, points, randomness)
            made.append(adapted)
            assert isinstance(adapted, Storable)  # noqa: S101 - of a defence that reloads
            return adapted.state()

        state = self.shared(purpose, make)
        return made[0] if made else defence.reload(self.base, state)

    def _given(self, sent: Tensor, twins: Tensor | None) -> Tensor:
        """Return what a defence adapts to: what is sent, after its clean twins if it sees these and there are any."""
        return torch.cat([twins, sent]) if twins is not None and self.defence.traits.sees_clean_half else sent

    def _answer(self, now: GameState, at: Tensor, sent: Tensor, truth: Tensor, twins: Tensor | None) -> None:
        """Play the defender's turn."""
        self.defence.restore(now.defender)
        given = self._given(sent, twins)
        number = self._number(now)
        adapted = self._adapt(given, self.seed("defender", number), f"defender {number}")
        answered = ask(adapted, sent.cpu(), check_cancelled=self.check_cancelled)
        answers = now.answers
        answers.non_finite[at] = answered.non_finite
        answers.prediction[at] = answered.logits.argmax(1).where(~answered.non_finite, -1)
        answers.correct[at] = answered.is_right(truth)
        answers.rejected[at] = answered.rejected
        if answered.rejection_scores is not None:
            answers.rejection_score[at] = answered.rejection_scores
        if twins is not None and (given is not sent or answered.rejection_scores is not None):
            # A defence that refuses owes the unperturbed copies an answer, whether it adapts to these too or not.
            of_twins = ask(adapted, twins.cpu(), check_cancelled=self.check_cancelled)
            answers.clean_prediction[at] = of_twins.logits.argmax(1).where(~of_twins.non_finite, -1)
            answers.clean_rejected[at] = of_twins.rejected
            if of_twins.rejection_scores is not None:
                answers.non_finite[at] |= of_twins.non_finite
                answers.clean_rejection_score[at] = of_twins.rejection_scores
        if self.defence.traits.is_stateful:
            self.defence.end_round(given, self.seed("defender end", self._number(now)))
            now.defender = self.defence.state()


def _forgetting(state: State) -> State:
    """Return the state with a new optimiser."""
    return {name: value for name, value in state.items() if not name.startswith(OPTIMIZER)}


class OverdueError(DefenceError):
    """A defence took longer to answer a round than the check allows."""
