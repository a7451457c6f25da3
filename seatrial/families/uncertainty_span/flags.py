"""Doubts that checks of ``uncertainty_span`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="zero_gradients",
        severities=("error", "warning", "info"),
        speaks_of=("mus*", "msus*", "robust_accuracy"),
        meaning="Gradients were exactly zero although the loss could still fall: the model hides its gradients "
        "(quantisation, thresholds, detached computation), and the span is a loose lower bound.",
        remedy="Audit the model without its non-differentiable part, or give a transfer_model.",
    ),
    FlagSpec(
        code="attack_not_improving",
        severities=("warning",),
        speaks_of=("mus*", "msus*"),
        meaning="In all its steps an attack moved neither the entropy nor the margin of many examples its way. "
        "Gradients that do not point downhill are a sign of masking.",
        remedy="Try more steps, a smaller step_size, a random_start with restarts, or a transfer_model.",
    ),
    FlagSpec(
        code="span_not_growing",
        severities=("warning", "info"),
        speaks_of=("mus*", "span_growth"),
        meaning="The mean span does not widen at twice the radius although there is room: an unmasked span grows with "
        "epsilon until it nears log C.",
        remedy="With few steps, audit again with at least 20; otherwise compare with a transfer_model and look at the "
        "other flags.",
    ),
    FlagSpec(
        code="transfer_beats_white_box",
        severities=("error", "warning"),
        speaks_of=("mus", "msus"),
        meaning="Attacks made on another model move the entropy more than those that see this one: its gradients are "
        "masked.",
        remedy="Rely on mus_worst, not on mus.",
    ),
    FlagSpec(
        code="saturated_logits",
        severities=("error", "warning"),
        speaks_of=("mus", "msus", "entropy", "confidence"),
        meaning="The float32 softmax of many clean images is exactly one-hot, so its entropy hardly moves whatever "
        "the attack does.",
        remedy="Rely on mus_worst, and calibrate the model before using its uncertainty.",
    ),
)
