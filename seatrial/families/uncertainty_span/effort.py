"""What runs beside the paper's two attacks, and what it costs, by the effort that is asked for."""

from dataclasses import dataclass, replace
from typing import Literal

from seatrial.contracts.costs import Passes
from seatrial.families.uncertainty_span.inside import inside_passes
from seatrial.families.uncertainty_span.limits import looked_share

Effort = Literal["quick", "standard", "thorough"]
Norm = Literal["linf", "l2"]
Round = Literal["search", "nearby", "away", "afresh", "ascent"]
"""One more attack on a doubtful example: a search by scores, from the image or by small squares from the least sure one
so far; a random step away from that; an ascent through noise that narrows, from the image or from the least sure so
far. Plain gradients go on from its end."""

BISECTIONS = 10
"""Points looked at between a clean image and one across the decision boundary, at most."""

FULL_SHARE = 150
"""Steps of the paper's attacks from which on the further ones have theirs in proportion. Each run looks at an iterate
more than it takes steps, and at points between: with fewer they take a little less."""

LESS, MOST_LESS = 5, 0.2
"""How many fewer they would be in proportion to if those were none, and the share of them that is left out at most."""

COPIES = (0.25, 0.5, 1.0)
"""Standard deviations of the noisy copies whose gradients are added, as shares of the radius."""

REPEATED_SHARE = 0.25
"""Share of the examples that are attacked again from further starts, at most: those the attacks before disagree on.
Where the softmax saturates it is all of these."""

SATURATED_ROUNDS: dict[Norm, float] = {"linf": 4, "l2": 19 / 3}
"""How many times the rounds on them where the softmax saturates: there gradients say least, attacks disagree most, and
a check costs nearly twice as much before (:mod:`workers.families.uncertainty_span.tempered`)."""

ASCENTS: tuple[Round, ...] = ("afresh", *("ascent",) * 9)

ROUNDS: dict[Norm, tuple[Round, ...]] = {"linf": ("search", "search", "ascent"), "l2": ASCENTS}
"""The rounds in turn. In l_inf what searches find is rarely found by gradients of any kind, in l_2 the other way round:
of a PGD-trained MNIST model with 2,400 passes .21 and .18 nat at l_inf .3, .81 and 1.51 at l_2 2. Where in l_inf too
ascents found far more before, rounds are ascents."""

SATURATED_TURNS: dict[Norm, tuple[Round, ...]] = {
    "linf": ("search", "away", "nearby", "away"),
    "l2": ROUNDS["l2"],
}
"""The same where the softmax saturates, and there are rounds enough to go on from what they find. Of 26 images of a
PGD-trained MNIST model at l_inf .3, thrice each with 7,500 passes, these leave 0.007 nat an image of what a much longer
attack reaches, the same without searches nearby 0.013, and searches from the image alone 0.016."""

LONGER = 2
"""How many times the steps of an ascent through narrowing noise one has that starts afresh on a doubtful example."""

MOST_ROOM = 3.0
"""How many times the rounds, at most, where fewer examples are doubtful than may be: together they cost the same."""

STAGES = ("ascent", "smoothed", "score", "distilled", "repeated")
"""Further attacks, each a stage of its own; what they reach together with the paper's two is ``mus_worst``."""

TRANSFORMED = "transformed"
"""The stage that attacks images after plain changes of the whole image, and after some that switch dormant units: a
model may be another one there."""

INTEGRATED = "integrated"
"""The stage that moves each pixel to where gradients from all over the ball add up to least, for the decision."""

GROUPS = 4
"""Of pixels that it moves in turn, after all at once."""

APART = (4, 7)
"""Pixels between those that it moves by themselves: with less, or more, what they do is lost to their neighbours, or to
the few they are."""

DISPLACED = "displaced"
"""The stage that attacks images and copies of them alike that nobody can have remembered."""

DISPLACED_STEPS = 6
"""Up the entropy, and as many down the lead of the prediction."""

DISPLACED_PASSES = Passes(2 * 3, 2 * 2 * DISPLACED_STEPS)
"""What an image costs with its copy: each as it is, and where two descents end."""

DORMANT_REFERENCES = 4
"""Images on which groups of dormant units are tried: those no audited image switches."""

TOGETHER = 8
"""Images looked at together for such units: what goes through the network is kept for their gradients."""

ALL_GROUPS_FROM = 52
"""Examples from which on as many groups are tried as may be: they cost the same whatever is audited, and beside fewer
examples would be much of it."""

REACHED_IMAGES = 2
"""Of them beside which it is looked how far the radius moves a channel."""

REACHED = 0.2
"""Share of the groups tried, at most, of units that the radius moves farther than images lie apart."""

REACHED_POINTS = 8
"""Parts of a pixel's range at which it is looked where the pixel moves one of those farthest."""

REACHED_STEPS = tuple(0.2 * 0.6**number for number in range(6))
"""Lengths of the steps from there, as shares of the radius."""

DORMANT_STEPS = (1.0, 0.5, 0.5, 0.25)
"""Lengths of the steps that switch several, as shares of the radius; one by itself is switched in as many, the first of
which does where pixels are added up, and the last where the opening is narrow."""

DORMANT_KEPT = 4
"""Groups kept: those that move the answer most, which the stage after plain changes switches too. The last at least is
of channels that the radius moves farthest."""

CROSSING = "crossing"
"""The stage that follows the lead of the prediction to where it changes."""

CROSSING_PASSES = 24
"""Forward passes of it an example: the clean one, and the points looked at on the way."""

PICTURES = "pictures"
"""The stage that attacks the worst examples once more, to keep the images."""


@dataclass(frozen=True)
class Budget:
    """Steps of the further attacks on one example.

    Attributes:
        steps: Of the paper's attacks.
        starts: Entropy ascents from random points, beside that from the clean image.
        climb: Steps of an entropy ascent.
        refine: Of one that goes on where another attack ended.
        walks: Walks to the decision boundary: towards the nearest class, then the likeliest others one by one.
        cross: Steps of a walk.
        bisections: Points looked at on the way back from it.
        targets: Classes an attack makes the model sure of, beside the predicted one, the likeliest first.
        sure: Steps towards the predicted class; a third of them towards each other class.
        smooth: Steps along the gradients of a smoothed copy; half of them to make the model sure.
        anneal: Steps through noise that narrows, one copy each.
        repeats: Runs of the smoothed attack and of the score-based search, each with draws of its own.
        queries: Of the score-based search to raise the entropy; a fifth of them to lower it.
        again: Rounds on the examples that the attacks before disagree on (:meth:`rounds_again`).
        rounds: Times the surrogate is fitted.
        fit: Steps of its optimiser in each.
        dormant: Groups of dormant units that are tried.
        channels: Of the network that are looked at for how far the radius moves them.
        along: Steps along the slope of one of those that it moves farthest.
        points: Parts of a pixel's range at which gradients are taken, for a group of pixels.
        sweeps: Times that all groups are moved, after all pixels at once.
        blocks: Times that blocks of pixels are moved as one.
    """

    steps: int
    starts: int
    climb: int
    refine: int
    walks: int
    cross: int
    bisections: int
    targets: int
    sure: int
    smooth: int
    anneal: int
    repeats: int
    queries: int
    again: int
    rounds: int
    fit: int
    dormant: int
    channels: int
    along: int
    points: int
    sweeps: int
    blocks: int

    def among(self, examples: int) -> "Budget":
        """Return the same with fewer groups and channels looked at where the examples are few."""
        share = min(1.0, examples / ALL_GROUPS_FROM) * looked_share(examples, self.steps)
        return replace(self, dormant=max(1, int(share * self.dormant)), channels=max(1, int(share * self.channels)))

    @property
    def reached(self) -> int:
        """Groups tried, at most, of units that the radius moves farther than images lie apart."""
        return int(REACHED * self.dormant)

    @property
    def along_lengths(self) -> list[float]:
        """Lengths of those steps, as shares of the radius: twice that in all, the last a hundredth of the first."""
        lengths = [0.01 ** (number / max(1, self.along - 1)) for number in range(self.along)]
        return [2 * length / sum(lengths) for length in lengths]

    @property
    def surrogate_queries(self) -> int:
        """How often the model is asked about each image that the surrogate learns from."""
        return 1 + len(COPIES) + 3 * (self.rounds - 1)

    def surrogate_passes(self, examples: int) -> Passes:
        """Return what it costs at most to fit the surrogate, to look for dormant units and at what goes on inside.

        Args:
            examples: What the surrogate learns from.
        """
        few, inside = self.among(examples), inside_passes(examples, self.steps)
        tried = few.dormant * DORMANT_REFERENCES
        forward = (self.surrogate_queries + 1) * examples + tried + DORMANT_REFERENCES + inside.forward
        forward += TOGETHER + REACHED_IMAGES
        backward = len(DORMANT_STEPS) * tried + REACHED_IMAGES * few.channels + inside.backward
        farther = few.reached * DORMANT_REFERENCES
        forward += 5 * farther
        backward += (REACHED_POINTS + len(REACHED_STEPS) + self.along - len(DORMANT_STEPS)) * farther
        return Passes(forward, backward)

    @property
    def across(self) -> int:
        """Queries of the score-based search that lowers the lead of the prediction."""
        return max(1, self.queries // 2)

    @property
    def climb_again(self) -> int:
        """Steps of an ascent in each of those rounds: the last third of one from afresh adds next to nothing."""
        return max(1, 7 * self.climb // 10)

    @property
    def anneal_again(self) -> int:
        """Steps of an ascent through noise in each of those rounds: more of them find more than longer ones."""
        return max(1, 7 * self.anneal // 10)

    @property
    def squares_again(self) -> int:
        """Queries of the score-based search in each round on those examples."""
        return self.queries + 2 * self.queries // 5

    @property
    def squares_nearby(self) -> int:
        """Queries of each search that goes on from the least sure image so far."""
        return self.queries - self.queries // 6

    def rounds_again(
        self, norm: Norm, *, is_saturated: bool, room: float = 1.0, by_ascents: bool = False
    ) -> list[Round]:
        """Return the rounds on those examples: ``room`` times as many as where most that can be are doubtful.

        Args:
            norm: Of the perturbation.
            is_saturated: Whether the softmax is.
            room: How many times the rounds.
            by_ascents: Whether ascents take their place, as many as cost no more.
        """
        count = int(self.again * (SATURATED_ROUNDS[norm] if is_saturated else 1) * room + 1e-6)
        turns = (SATURATED_TURNS if is_saturated else ROUNDS)[norm]
        rounds = [turns[number % len(turns)] for number in range(count)]
        if not by_ascents or norm == "l2":
            return rounds
        left, rounds = sum(map(self._counted, rounds)), []
        while (left := left - self._counted(name := ASCENTS[len(rounds) % len(ASCENTS)])) >= 0:
            rounds.append(name)
        return rounds

    def _counted(self, name: Round) -> int:
        """Return the passes of a round, one with its backward pass as two."""
        return self.round_again(name).forward + 2 * self.round_again(name).backward

    def round_again(self, name: Round) -> Passes:
        """Return what a round costs an example."""
        match name:
            case "search":
                return Passes(self.squares_again + 1, self.climb_again)
            case "nearby":
                return Passes(self.squares_nearby + 1, self.climb_again)
            case "away":
                return Passes(1, self.climb_again)
            case "afresh":
                return Passes(1, LONGER * self.anneal_again + self.refine)
            case "ascent":
                return Passes(1, self.anneal_again + self.refine)

    def passes(self, norm: Norm) -> Passes:
        """Return what one example costs at most, the surrogate left out."""
        third, fifth = max(1, self.sure // 3), max(1, self.queries // 5)
        # Each run looks at one more iterate than it takes steps.
        backward = (2 + self.starts) * self.climb + self.walks * (self.cross + self.refine) + self.targets * third
        forward = 2 + self.starts + self.walks * (2 + self.bisections) + self.targets
        # Two, as what is lowered and raised at the calibrated temperature comes on top.
        backward, forward = backward + 2 * self.sure, forward + 2
        smooth = self.smooth + max(1, self.smooth // 2)
        backward += self.repeats * (len(COPIES) * smooth + 2 * self.anneal + 3 * self.refine)
        forward += self.repeats * (smooth + 7)
        asked = self.queries + fifth + self.across + 2
        backward, forward = backward + self.repeats * self.refine, forward + self.repeats * asked
        # On the surrogate's images: two ways up and one down, and the refinement of the best.
        backward, forward = backward + 2 * self.refine, forward + 8
        # On the doubtful examples, of which there may be as many as there are where the softmax saturates.
        again = [self.round_again(name) for name in self.rounds_again(norm, is_saturated=True)]
        forward, backward = (
            forward + 1 + sum(one.forward for one in again),
            backward + sum(one.backward for one in again),
        )
        return Passes(forward, backward)

    @property
    def transformed(self) -> Passes:
        """What an example costs at most that is attacked after plain changes.

        Of these there are 24, those that switch dormant units, and 3 strides. Behind the units of an example it takes
        as many steps up and down, and switches them again after each. The last of those groups is of what the radius
        moves farthest.
        """
        few, switched = max(1, self.refine // 2), len(DORMANT_STEPS)
        backward = (4 + 2 * 3) * few + 2 * self.refine + DORMANT_KEPT * switched
        backward += REACHED_POINTS + len(REACHED_STEPS) + self.along
        backward += 2 * (few * (1 + switched) + 1)
        return Passes(1 + 24 + DORMANT_KEPT + 3 + 4 + 2 * 3 + 2, backward)

    @property
    def integrated(self) -> Passes:
        """What an example costs at most whose pixels are moved to where gradients add up to least."""
        arranged = len(APART) + self.blocks
        return Passes(4 + GROUPS * self.sweeps + 2 * arranged, self.points * (GROUPS * (1 + self.sweeps) + arranged))

    @property
    def picture(self) -> Passes:
        """What one of the examples costs at most whose images are kept, the paper's two attacks left out."""
        backward = self.climb + 2 * self.refine + self.anneal + self.sure
        return Passes(self.queries + max(1, self.queries // 5) + 20, backward)


def budget(effort: Effort, steps: int) -> Budget | None:
    """Return the steps of the further attacks, in proportion to those of the paper's; None for ``quick``.

    Args:
        effort: What is asked for.
        steps: Gradient steps of the paper's attacks.
    """
    if effort == "quick":
        return None

    def share(of: float) -> int:
        return max(1, round(of * proportional))

    proportional: float = steps
    bisections = BISECTIONS
    if effort == "standard":
        proportional -= min(MOST_LESS * steps, max(0.0, LESS * (1 - steps / FULL_SHARE)))
        bisections = max(1, min(BISECTIONS, steps // 5))
    plain = Budget(
        steps=steps,
        starts=1,
        climb=share(0.4),
        refine=share(0.2),
        walks=2,
        cross=share(0.1),
        bisections=bisections,
        targets=3,
        sure=share(0.3),
        smooth=share(0.1),
        anneal=share(0.3),
        repeats=1,
        queries=share(1.6),
        again=3,
        rounds=4,
        fit=max(1, 2 * steps),
        dormant=share(1.6),
        channels=share(1.28),
        along=share(0.2),
        points=max(2, share(0.12)),
        sweeps=1,
        blocks=2,
    )
    if effort == "standard":
        return plain
    return replace(
        plain,
        starts=4,
        climb=share(0.8),
        refine=share(0.4),
        walks=5,
        cross=share(0.2),
        targets=5,
        sure=share(0.6),
        smooth=share(0.2),
        anneal=share(0.6),
        repeats=3,
        queries=share(5.0),
        again=12,
        rounds=6,
        fit=share(3.0),
        dormant=share(7.0),
        channels=share(5.0),
        along=share(0.4),
        points=max(2, share(0.24)),
        sweeps=4,
        blocks=8,
    )
