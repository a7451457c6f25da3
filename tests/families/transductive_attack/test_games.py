"""Games of real defences on a small real model: what the identity leaves alone, order, memory, going on."""

import copy
import hashlib
from dataclasses import replace

import pytest
import torch

from tests.defences import builders
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.attacks.gradients import IndexedModel
from workers.attacks.model_space import CLEAN, ModelSpaceAttack, RaiseCrossEntropy
from workers.attacks.pgd import PGD
from workers.defences.copies import Frozen
from workers.defences.dent import PRESETS as DENT
from workers.defences.dent import Dent
from workers.defences.identity import Identity, IdentityParams
from workers.defences.protocol import Training, Traits
from workers.defences.rmc import PRESETS as RMC
from workers.defences.rmc import Rmc
from workers.defences.tadv import PRESETS as TADV
from workers.defences.tadv import Tadv
from workers.families.transductive_attack.games import Answers, Game, GameState
from workers.models.adapted import Adapted

POINTS = builders.points(24)
LABELS = builders.labels(1200, 24)
IDS = list(range(500, 524))
SEARCH = PGD("linf", 0.15, 0.05, 4, random_start=True)
SMALL_RMC = replace(RMC["small"], neighbours=40, adversarial_passes=1, attack_steps=2, epochs=3)


def seed(purpose: str, number: int) -> torch.Generator:
    digest = hashlib.sha256(f"{purpose} {number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def starts(iteration: int, ids: list[int]) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(1000 * iteration + example_id) for example_id in ids]


def attack(method: str = "fpa", iterations: int = 2, **more) -> ModelSpaceAttack:
    return ModelSpaceAttack(method, RaiseCrossEntropy(SEARCH), iterations, **more)


def game(defence, chosen: ModelSpaceAttack | None = None, *, training: Training | None = None, **more) -> Game:
    return Game(defence, builders.base(), training, seed, starts, attack=chosen, **more)


def play(played: Game, points=POINTS, position: GameState | None = None) -> Answers:
    *_, last = played.play(points, LABELS[: len(points)], IDS[: len(points)], position)
    return last.answers


def same(first: Answers, second: Answers) -> bool:
    return all(
        torch.equal(torch.nan_to_num(value, -9.0) if value.is_floating_point() else value, other)
        for (value, other) in (
            (a, torch.nan_to_num(b, -9.0) if b.is_floating_point() else b)
            for a, b in zip(vars(first).values(), vars(second).values(), strict=True)
        )
    )


def transferred() -> torch.Tensor:
    base = builders.base()
    found = RaiseCrossEntropy(SEARCH)(
        [IndexedModel(lambda images, indices: base.logits(images))],
        "sum",
        POINTS,
        LABELS,
        generators=starts(0, IDS),
        check_cancelled=lambda: None,
    )
    return found.images


def test_the_identity_answers_as_the_static_model_does() -> None:
    answers = play(game(Identity(IdentityParams(batch_size=10))))
    predictions = builders.base().logits(POINTS).argmax(1)
    assert torch.equal(answers.prediction, predictions)
    assert torch.equal(answers.correct, predictions == LABELS)
    assert set(answers.selected.tolist()) == {CLEAN}
    assert not answers.rejected.any()


def test_without_iterations_the_fixed_point_attack_is_the_transfer_attack() -> None:
    sent = transferred()
    direct = play(game(Identity(IdentityParams(batch_size=10))), sent)
    attacked = play(game(Identity(IdentityParams(batch_size=10)), attack(iterations=0)))
    assert torch.equal(attacked.prediction, direct.prediction)
    assert attacked.correct.float().mean() < 0.9
    dent = replace(DENT["small"], batch_size=8, steps=2)
    assert torch.equal(play(game(Dent(dent), attack(iterations=0))).prediction, play(game(Dent(dent)), sent).prediction)


@pytest.mark.parametrize("method", ["fpa", "gmsa_avg", "gmsa_min"])
def test_against_the_identity_every_attack_ends_no_better_than_the_static_model(method: str) -> None:
    answers = play(game(Identity(IdentityParams(batch_size=12)), attack(method, start_at="clean")))
    static = builders.base().logits(transferred()).argmax(1) == LABELS
    assert answers.correct.sum() <= static.sum()
    scores = answers.scores
    assert scores.shape == (24, 3)
    assert ((scores >= 0) & (scores <= 1)).all()


def defences():
    yield "dent", lambda: Dent(replace(DENT["small"], batch_size=10, steps=2)), None, 2
    yield "rmc", lambda: Rmc(SMALL_RMC), builders.training(60), 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "training", "iterations", "points"),
    [(make, training, iterations, 20 if name == "dent" else 3) for name, make, training, iterations in defences()],
    ids=["dent", "rmc"],
)
def test_a_game_goes_on_from_wherever_it_was(make, training, iterations: int, points: int) -> None:
    chosen = attack("gmsa_avg", iterations)
    positions = [
        copy.deepcopy(position.tensors())
        for position in game(make(), chosen, training=training).play(POINTS[:points], LABELS[:points], IDS[:points])
    ]
    final = GameState.read(positions[-1]).answers
    for tensors in positions[::2]:
        begun = GameState.read(tensors)
        rest = list(game(make(), chosen, training=training).play(POINTS[:points], LABELS[:points], IDS[:points], begun))
        assert same(rest[-1].answers if rest else begun.answers, final)


def test_the_defender_s_randomness_is_not_the_attacker_s() -> None:
    asked: list[str] = []

    def watched(purpose: str, number: int) -> torch.Generator:
        asked.append(purpose)
        return seed(purpose, number)

    played = game(Rmc(SMALL_RMC), attack(iterations=1), training=builders.training(60))
    list(replace(played, seed=watched).play(POINTS[:2], LABELS[:2], IDS[:2]))
    attacker = ["simulation 0", "simulation 1", "simulation chosen", "simulation end"]
    assert set(asked) == {*attacker, "defender", "defender end"}
    # Drawn after the attacker has moved: once to answer, once to calibrate, in each round.
    assert [purpose for purpose in asked if purpose.startswith("defender")] == ["defender", "defender end"] * 2
    assert asked[-2:] == ["defender", "defender end"]


def test_memory_makes_a_later_answer_depend_on_the_rounds_before() -> None:
    both = play(game(Rmc(replace(SMALL_RMC, learning_rate=0.05)), training=builders.training(60)), POINTS[:6])
    reversed_points = torch.flip(POINTS[:6], [0])
    other = play(game(Rmc(replace(SMALL_RMC, learning_rate=0.05)), training=builders.training(60)), reversed_points)
    assert both.prediction.tolist() != other.prediction.flip(0).tolist() or not torch.equal(both.correct, other.correct)


def test_rounds_follow_the_labels_within_windows_when_the_order_is_adversarial() -> None:
    plain = game(Identity(IdentityParams(batch_size=4))).rounds(LABELS)
    assert [row.tolist() for row in plain] == [list(range(start, start + 4)) for start in range(0, 24, 4)]
    labels = torch.tensor([3, 1, 2, 0, 1, 0, 9, 9, 5, 4, 0, 1])
    rounds = game(Identity(IdentityParams(batch_size=2)), sorts=True).rounds(labels)
    assert [labels[torch.from_numpy(row)].tolist() for row in rounds] == [
        [0, 1],
        [2, 3],
        [0, 1],
        [9, 9],
        [0, 1],
        [4, 5],
    ]
    assert sorted(int(one) for row in rounds for one in row) == list(range(12))


class Spying:
    """A defence with memory that tells in which state it was asked to adapt."""

    traits = Traits(is_stateful=True, is_one_round=False, is_randomized=False, is_differentiable=True)
    batch_size = 6

    def __init__(self) -> None:
        self.rounds = torch.zeros(1)
        self.seen: list[float] = []

    def adapt(self, base, training, batch, generator) -> Adapted:
        self.seen.append(float(self.rounds))
        return Identity(IdentityParams()).adapt(base, training, batch, generator)

    def end_round(self, batch, generator) -> None:
        # The defender and the simulation move differently, so that their states can be told apart.
        self.rounds = self.rounds + float(torch.rand(1, generator=generator))

    def state(self) -> dict[str, torch.Tensor]:
        return {"rounds": self.rounds.clone()}

    def restore(self, state) -> None:
        self.rounds = state.get("rounds", torch.zeros(1)).clone()


@pytest.mark.parametrize("leaks", [False, True])
def test_a_leaking_state_is_what_the_attacker_begins_from(leaks: bool) -> None:
    defence = Spying()
    played = game(defence, attack(iterations=0), leaks=leaks)
    answered = [defence.seen[-1] for position in played.play(POINTS[:12], LABELS[:12], IDS[:12]) if not position.done]
    # Of the second round: the simulation's model first, the defender's last.
    induced = defence.seen[len(defence.seen) // 2]
    assert (induced == answered[1]) is leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_a_round_s_attack_begins_on_the_model_the_defence_shows(leaks: bool) -> None:
    asked: list[float] = []

    class Shown(Frozen):
        def logits(self, images: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
            asked.append(self.state)
            return super().logits(images, rows)

    class Showing(Spying):
        def answering(self, base) -> Adapted:
            shown = Shown(base)
            shown.state = float(self.rounds)
            return shown

    defence = Showing()
    play(game(defence, attack(iterations=0), leaks=leaks), POINTS[:12])
    # The clean points, the random start, each step, and beside what was induced; of either round.
    assert len(asked) == 2 * (SEARCH.steps + 3)
    assert set(asked[: len(asked) // 2]) == {0.0}
    (second,) = set(asked[len(asked) // 2 :])
    # The simulation adapts from there too; the defender, last of all, does where its state is seen.
    assert second == defence.seen[len(defence.seen) // 2] != 0
    assert (second == defence.seen[-1]) is leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_what_an_optimiser_remembers_serves_the_first_simulation_alone_unless_it_is_seen(leaks: bool) -> None:
    class Moving(Spying):
        has_moments: list[bool]

        def restore(self, state) -> None:
            self.remembers = "optimizer.step" in state
            super().restore(state)

        def state(self) -> dict[str, torch.Tensor]:
            return super().state() | {"optimizer.step": torch.ones(())}

        def adapt(self, base, training, batch, generator) -> Adapted:
            self.has_moments.append(self.remembers)
            return super().adapt(base, training, batch, generator)

    defence = Moving()
    defence.has_moments = []
    play(game(defence, attack(iterations=2), leaks=leaks), POINTS[:12])
    # A round: three simulations, the one that is lived through unless the state is seen, and the defender.
    second = defence.has_moments[len(defence.has_moments) // 2 :]
    assert second == ([True, True, True, True] if leaks else [True, False, False, False, True])


@pytest.mark.parametrize("method", ["fpa", "gmsa_avg"])
def test_a_game_that_goes_on_trains_no_network_again(method: str) -> None:
    trained: list[int] = []

    class Watched(Tadv):
        def adapt(self, base, training, batch, generator) -> Adapted:
            trained.append(len(batch))
            return super().adapt(base, training, batch, generator)

    params = replace(TADV["small"], epochs=1, attack_steps=1)
    tadv, chosen = Watched(params), attack(method, 2)
    played = game(tadv, chosen, training=builders.training(100))
    positions = [copy.deepcopy(position.tensors()) for position in played.play(POINTS[:8], LABELS[:8], IDS[:8])]
    # F^(0), three simulations, and the defender's.
    assert len(trained) == 5
    assert not [name for name in positions[-1] if name.startswith("models.")]
    trained.clear()
    assert same(play(played, POINTS[:8], GameState.read(positions[1])), GameState.read(positions[-1]).answers)
    assert len(trained) == 2


def test_what_the_clean_round_left_right_is_kept_where_an_attack_has_to_get_below_it() -> None:
    identity = Identity(IdentityParams(batch_size=12))
    judged = play(game(identity, attack(iterations=1, start_at="clean")))
    static = builders.base().logits(POINTS).argmax(1) == LABELS
    assert judged.clean_score[:12].tolist() == pytest.approx([float(static[:12].double().mean())] * 12)
    assert judged.clean_score[12:].tolist() == pytest.approx([float(static[12:].double().mean())] * 12)
    assert play(game(identity, attack(iterations=1))).clean_score.isnan().all()


def test_autoattack_on_a_defence_is_autoattack_on_a_model_that_adapts_to_whatever_it_is_asked() -> None:
    dent, ensemble = (
        Dent(replace(DENT["small"], batch_size=12, steps=2)),
        AutoAttack("linf", 0.15, ("apgd-ce",), steps=5),
    )
    base, expected = builders.base(), []
    for first in (0, 12):
        points, truth = POINTS[first : first + 12], LABELS[first : first + 12]
        own = [seed("module start", example_id) for example_id in IDS[first : first + 12]]

        def adapting(images: torch.Tensor) -> torch.Tensor:
            return dent.adapt(base, None, images.detach(), seed("module", 0)).logits(images)

        sent = ensemble.run(adapting, points, truth, generators=own).images
        expected.append(dent.adapt(base, None, sent, seed("defender", first // 12)).logits(sent).argmax(1))
    answers = play(game(dent, on_module=ensemble))
    assert torch.equal(answers.prediction, torch.cat(expected))
    assert answers.correct.sum() < play(game(dent)).correct.sum()


class Choosing(Frozen):
    """Gives every other image a rejection score of 1 and one image none."""

    threshold = 0.5

    def rejection_scores(self, images: torch.Tensor) -> torch.Tensor:
        scores = (torch.arange(len(images)) % 2).float()
        scores[2] = torch.nan
        return scores


def test_a_rejection_is_no_right_answer_and_a_score_that_is_no_number_is_none_either(monkeypatch) -> None:
    monkeypatch.setattr(Identity, "adapt", lambda self, base, *_: Choosing(base))
    answers = play(game(Identity(IdentityParams(batch_size=6))))
    lost = torch.arange(24) % 6 == 2
    assert torch.equal(answers.rejected, torch.arange(24) % 2 == 1)
    assert torch.equal(answers.non_finite, lost)
    assert set(answers.prediction[lost].tolist()) == {-1}
    static = builders.base().logits(POINTS).argmax(1) == LABELS
    assert torch.equal(answers.correct, static & ~answers.rejected & ~lost)
