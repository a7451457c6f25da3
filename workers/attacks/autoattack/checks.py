"""When not to believe AutoAttack: its own warning flags, as values (Croce and Hein 2020; RobustBench's restrictions).

Every check takes counts over a whole evaluation, which may have been made in pieces, and returns a :class:`Doubt` or
None. They are doubts about the evaluation, never about an image it found: a broken example stays broken.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seatrial.contracts.family import Severity
from seatrial.families.shared.robust_accuracy import LOOKS
from seatrial.statistics.proportions import score_interval
from workers.attacks.gradients import Model
from workers.attacks.kept_slopes import LOST, are_gone
from workers.attacks.levels import below_a_level, small_radius
from workers.attacks.regions import Norm
from workers.models.memory import forward, run_with_oom_split

LOGIT_DISTANCE = 1e-4
"""L_2 distance of two answers, each divided by its length, from which on they are different answers."""

PROBABILITY_ROUNDING = 1e-5
"""How far from [0, 1], and a sum from 1, a softmax in float32 may be."""

# Read when torch's profiler is first used, which then writes two lines to stderr whenever it starts and stops, on every
# level below 6 (torch 2.13): in a worker's log they drown what matters.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

SQUARE_GAIN, SQUARE_MASK = 0.002, 0.05
"""Shares of all examples that Square may break after the gradient attacks: above 0.2 points of robust accuracy (the
authors' own limit) is a warning and above 5 an error, by the lower end of the interval."""

MANY, MOST = 0.1, 0.5
"""Shares of the examples attacked whose gradients are exactly zero, from which it is a warning and an error."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to take the robust accuracy at its word.

    Attributes:
        code: Snake-case name, stable.
        meaning: What was seen and what it means, a sentence.
        advice: What to do, a sentence.
        severity: How grave it is.
    """

    code: str
    meaning: str
    advice: str
    severity: Severity = "warning"

    @property
    def message(self) -> str:
        """Both sentences."""
        return f"{self.meaning} {self.advice}"


def look_again(
    model: Model, images: Tensor, labels: Tensor, *, check_cancelled: Callable[[], None] = lambda: None
) -> tuple[Tensor, Tensor]:
    """Ask a model about the same images several times.

    Args:
        model: Images to logits (n, classes).
        images: (n, ...) at most a batch.
        labels: (n,) int64.
        check_cancelled: Called before every pass; may raise to stop.

    Returns:
        How many of the ``LOOKS`` answers were right (n,) int64, and the greatest L_2 distance of one to the first, each
        divided by its length (n,) float64; not finite where an answer is not.
    """
    answers: list[Tensor] = []
    for _ in range(LOOKS):
        check_cancelled()
        answers.append(forward(model, images).double())
    right = torch.stack([answer.argmax(1) == labels for answer in answers]).sum(0)
    units = [answer / answer.norm(dim=1, keepdim=True).clamp_min(1e-300) for answer in answers]
    return right, torch.stack([(unit - units[0]).norm(dim=1) for unit in units]).amax(0)


def randomized_forward(farthest: float, wavering: int) -> Doubt | None:
    """Doubt a deterministic evaluation of a model that answers the same images differently.

    The authors compare how many of a batch are right in each pass; here no single example may change sides.

    Args:
        farthest: Greatest distance of two answers to one image, as :func:`look_again` measures it.
        wavering: Examples that were right in some passes and wrong in others.
    """
    if wavering == 0 and farthest <= LOGIT_DISTANCE:
        return None
    return Doubt(
        "randomized_forward",
        f"The model answered the same images differently in {LOOKS} passes (logits up to {farthest:.1e} apart, "
        f"{wavering} predictions now right, now wrong): a gradient of one pass is noise, and a misclassification may "
        "be chance.",
        "Use the `rand` ensemble, which averages 20 passes, or audit the model with its randomness fixed.",
    )


def is_probability(outputs: Tensor) -> Tensor:
    """Return (n,) bool: whether outputs (n, classes) are in [0, 1] and sum to 1, but for rounding."""
    within = (outputs > -PROBABILITY_ROUNDING) & (outputs < 1 + PROBABILITY_ROUNDING)
    return within.all(1) & ((outputs.sum(1) - 1).abs() <= PROBABILITY_ROUNDING)


def softmax_output(probabilities: int, examples: int) -> Doubt | None:
    """Doubt attacks on a model whose outputs are probabilities.

    Args:
        probabilities: Examples whose output could be one, by :func:`is_probability`.
        examples: Examples in all; it takes every one of them.
    """
    if probabilities < max(1, examples):
        return None
    return Doubt(
        "softmax_output",
        "The outputs are probabilities: softmax rounds to 0 and 1, and the gradient of a saturated output is 0.",
        "Return the logits, before the softmax.",
    )


def zero_gradients(stuck: int, started: int) -> Doubt | None:
    """Doubt gradient attacks whose loss had no gradient at all at some starting points.

    Args:
        stuck: Examples whose gradient of a DLR loss was exactly zero there.
        started: Examples on which such an attack was started.
    """
    if stuck == 0:
        return None
    return Doubt(
        "zero_gradients",
        f"The gradient of the logits was exactly 0 at the start for {stuck} of {started} examples: the model hides "
        "its gradients (quantisation, thresholds, detached computation), and APGD and FAB cannot attack what they "
        "cannot see.",
        "Audit the model without the part that is not differentiable, or with a smooth stand-in for it in the "
        "backward pass; until then only Square counts.",
        "error" if stuck >= MOST * started else "warning" if stuck >= MANY * started else "info",
    )


def failed_gradient_check(gone: int, held: int) -> Doubt | None:
    """Doubt attacks of whole steps on a model that does what its gradients say at the images alone.

    Args:
        gone: Of the examples that held, those at which less than half of the slope is left a small step away
            (:func:`workers.attacks.kept_slopes.slope_shares`).
        held: Examples that held.
    """
    if not are_gone(gone, held):
        return None
    return Doubt(
        "failed_gradient_check",
        f"At {gone} of the {held} images that held {LOST}. What attacks are led by is gone before their first step "
        "ends.",
        "Audit the network without what answers otherwise where the input is noisy, or attack it adaptively.",
        "error",
    )


def autoattack_radius(norm: Norm, epsilon: float, values: int | None) -> Doubt | None:
    """Doubt attacks within next to nothing, or a radius hardly anybody asks about: it need not be the other attacks'.

    Args:
        norm: Of the ball.
        epsilon: Radius, in pixels' units.
        values: Numbers of an image; 0 of a table's rows, None where nobody knows.
    """
    remedy = "Audit with the radius that the model has to withstand."
    if message := below_a_level(norm, epsilon, values):
        return Doubt("autoattack_radius_below_a_level", message, remedy, "warning")
    message = small_radius(norm, epsilon, values)
    return None if message is None else Doubt("autoattack_small_radius", message, remedy, "warning")


def square_improves(holding_before: int, holding_after: int, examples: int) -> Doubt | None:
    """Doubt gradient attacks that random search improves on, as gravely as a paired interval allows.

    Args:
        holding_before: Examples that hold after all attacks by gradients.
        holding_after: Examples that hold after Square.
        examples: Examples in all, the misclassified ones included.
    """
    broken = holding_before - holding_after
    if broken <= SQUARE_GAIN * examples:
        return None
    low, high = score_interval(broken, 0, examples)
    severity: Severity = "error" if low > SQUARE_MASK else "warning" if low > SQUARE_GAIN else "info"
    seen = (
        f"Robust accuracy is {holding_before / examples:.3f} after the gradient attacks and "
        f"{holding_after / examples:.3f} after Square, which sees scores only and broke {broken} of {holding_before} "
        f"examples that held (paired 95 % interval of the difference {max(low, 0):.3f} to {high:.3f})"
    )
    if severity == "info":
        return Doubt(
            "square_improves",
            f"{seen}: on so few examples that may be chance.",
            "Audit more examples to tell.",
            severity,
        )
    return Doubt(
        "square_improves",
        f"{seen}: the gradients {'are masked' if severity == 'error' else 'lead attacks astray'}, and true robustness "
        "is lower still.",
        "Attack the model adaptively, around whatever hides its gradients.",
        severity,
    )


def runs_backward(model: Model, images: Tensor) -> bool:
    """Tell whether a model computes gradients of its own in its forward pass; images that do not fit are halved.

    What torch's autograd engine does during one call is recorded by torch's profiler: nodes of the graph that it
    evaluates are backward passes, whoever asked for them: ``torch.autograd.grad`` under any name, ``backward``,
    ``torch.func``, TorchScript. (The authors trace Python calls for the words grad and backward; that misses the
    last, and slows a forward pass tenfold.) Gradients derived by hand, and searches without any, are not seen.
    """

    def piece(start: int, stop: int) -> bool:
        # Not through Kineto, which takes seconds to start and no part in this.
        with torch.autograd.profiler.profile(use_kineto=False) as recorded, torch.enable_grad():
            model(images[start:stop].detach())
        return any(event.name.startswith("autograd::engine::evaluate_function") for event in recorded.function_events)

    return any(run_with_oom_split(piece, 0, len(images)))


def optimizes_at_inference(adapting: int) -> Doubt | None:
    """Doubt the evaluation of a model that computes gradients of its own in its forward pass.

    Args:
        adapting: Examples in batches on which it did, by :func:`runs_backward`.
    """
    if adapting == 0:
        return None
    return Doubt(
        "optimizes_at_inference",
        "The model runs backward passes inside its forward pass: it adapts to its input, and an attack through, or "
        "past, its optimisation is weak.",
        "Audit it as a transductive defence, with an attack on the models it adapts to, and the static model "
        "underneath by itself.",
    )


def gradient_free(queries: int) -> Doubt:
    """Doubt what held attacks that need no gradients, where no others could run.

    Args:
        queries: Of the search by scores, per example.
    """
    return Doubt(
        "gradient_free",
        f"The model is an endpoint and gives no gradients: it was attacked by scores ({queries:,} queries an example) "
        "and by decisions alone. What held may fall to an attacker who has the weights, or more queries.",
        "Upload the weights, or an exported program, to have it attacked by gradients.",
    )


def losses_replaced(classes: int, attacks: Sequence[str], targets: int) -> Doubt | None:
    """Say which losses and targets the number of classes does not allow, and what ran instead."""
    instead = []
    if classes < 3 and "apgd-dlr" in attacks:
        instead.append("apgd-dlr ran on the margin (DLR needs 3 classes)")
    if classes < 4 and "apgd-t" in attacks:
        instead.append("apgd-t ran on the difference of two logits (targeted DLR needs 4 classes)")
    if classes - 1 < targets and {"apgd-t", "fab-t"} & set(attacks):
        instead.append(f"the targeted attacks tried the {classes - 1} wrong classes there are instead of {targets}")
    if not instead:
        return None
    return Doubt(
        "losses_replaced",
        f"The model has {classes} classes: {'; '.join(instead)}.",
        "Nothing is lost by it; compare with other reports on the same number of classes only.",
        "info",
    )
