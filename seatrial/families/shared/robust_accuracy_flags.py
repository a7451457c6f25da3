"""Doubts about a robust accuracy."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from seatrial.contracts.family import FlagSpec
from seatrial.families.shared.radius_flags import BELOW, NAMED, REMEDY, SMALL

OWN_RADIUS = frozenset({"autoattack_radius_below_a_level", "autoattack_small_radius"})
"""Of a radius of AutoAttack's own; where all attacks have one, the family says it."""

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="randomized_forward",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="The model answered the same images differently in several passes: the gradient of one pass is noise, "
        "and a misclassification may be chance.",
        remedy="Use version `rand`, which averages 20 passes, or audit the model with its randomness fixed.",
    ),
    FlagSpec(
        code="softmax_output",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="The outputs are probabilities: a softmax rounds to 0 and 1, and the gradient of a saturated output "
        "is 0.",
        remedy="Return the logits, before the softmax.",
    ),
    FlagSpec(
        code="zero_gradients",
        severities=("error", "warning", "info"),
        speaks_of=("robust_accuracy",),
        meaning="The gradient of the logits was exactly 0 at the start for some examples: the model hides its "
        "gradients (quantisation, thresholds, detached computation), and APGD and FAB cannot attack what they cannot "
        "see.",
        remedy="Audit the model without the part that is not differentiable, or with a smooth stand-in for it in the "
        "backward pass; until then only Square counts.",
    ),
    FlagSpec(
        code="autoattack_radius_below_a_level",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="Of AutoAttack's own radius. " + BELOW,
        remedy=REMEDY,
    ),
    FlagSpec(
        code="autoattack_small_radius",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="Of AutoAttack's own radius. " + SMALL,
        remedy=REMEDY + NAMED,
        of_scope=True,
    ),
    FlagSpec(
        code="failed_gradient_check",
        severities=("error",),
        speaks_of=("robust_accuracy",),
        meaning="At more than 15 % of the images that held (lower end of the interval) the network does what its "
        "gradient says nowhere but at the image itself: small steps down it take less than half of that from the lead "
        "of the prediction. It may watch what every step of an attack moves, and be weak for as long as that stays.",
        remedy="Audit the network without what answers otherwise where the input is noisy, or attack it adaptively.",
    ),
    FlagSpec(
        code="square_improves",
        severities=("error", "warning", "info"),
        speaks_of=("robust_accuracy",),
        meaning="Square, which sees scores only, broke examples that the gradient attacks could not. It is an error "
        "where the paired interval of the difference lies above 5 points of robust accuracy: the gradients are masked, "
        "and true robustness is lower still. It is a warning above 0.2 points, and a note where that may be chance.",
        remedy="Attack the model adaptively, around whatever hides its gradients.",
    ),
    FlagSpec(
        code="optimizes_at_inference",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="The model runs backward passes inside its forward pass: it adapts to its input, and an attack "
        "through, or past, its optimisation is weak.",
        remedy="Audit it as a transductive defence, with an attack on the models it adapts to, and the static model "
        "underneath by itself.",
    ),
    FlagSpec(
        code="gradient_free",
        severities=("warning",),
        speaks_of=("robust_accuracy",),
        meaning="The model is an endpoint and gives no gradients: a search by scores and one by decisions alone ran, "
        "and nothing stronger could. What held them may fall to an attacker who has the weights, or more queries.",
        remedy="Upload the weights, or an exported program, to have it attacked by gradients.",
    ),
    FlagSpec(
        code="losses_replaced",
        severities=("info",),
        speaks_of=("robust_accuracy",),
        meaning="The number of classes does not allow some losses of AutoAttack; others ran instead.",
        remedy="Nothing is lost by it; compare with other reports on the same number of classes only.",
    ),
)


def with_flags_about(own: Sequence[FlagSpec], *metrics: str, without: Collection[str] = ()) -> tuple[FlagSpec, ...]:
    """Return a family's own flags, and those of AutoAttack that are none of them.

    Args:
        own: Of the family.
        metrics: What AutoAttack found is published as; none: as it names it itself.
        without: Codes of those that the family never raises.
    """
    codes = {*without, *(flag.code for flag in own)}
    others = [flag for flag in FLAGS if flag.code not in codes]
    return (*own, *(replace(flag, speaks_of=metrics) if metrics else flag for flag in others))
