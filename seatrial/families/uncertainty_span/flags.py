"""Doubts that checks of ``uncertainty_span`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec
from seatrial.families.shared.radius_flags import radius_flags

UNATTACKED = ("clean_accuracy",)
"""Measured before any attack: no failing of one is a doubt about it."""

EVERY_ATTACK = (
    *("mus*", "msus*", "nud", "entropy", "confidence", "conformal*", "part_*", "robust_accuracy"),
    "adversarial_accuracy",
)
"""What is measured by attacks, whichever they are."""

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="masked_gradients",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        spares=UNATTACKED,
        meaning="Attacks that need no gradient of the model at the image (along the gradients of a smoothed copy, by "
        "scores alone, made on a surrogate or on the transfer model, after a plain change of the whole image, along "
        "gradients from all over the ball) widen the span by over 5 % of log C more than those that follow its "
        "gradients, or change over 10 % of the predictions more, and the paired interval of the difference lies above "
        "0: the model's gradients are masked.",
        remedy="Audit the model without what hides its gradients. mus_worst and adversarial_accuracy count all of "
        "these attacks and may still be too low, and too high.",
    ),
    FlagSpec(
        code="abrupt_decisions",
        severities=("error",),
        speaks_of=("mus*", "msus*", "nud", "entropy", "confidence", "*ece", "mce", "conformal*"),
        spares=UNATTACKED,
        meaning="On the way to where the prediction changes, more than a quarter of the images (lower end of the "
        "interval) keep over half of their lead in logits for 95 % of the way: the scores seem to be made up from the "
        "decision, so that no attack on them shows how uncertain the model is.",
        remedy="Audit the model without what replaces its scores: a network's own lead shrinks to nothing on the way.",
    ),
    FlagSpec(
        code="unfit_temperature",
        severities=("error",),
        speaks_of=("mus_calibrated",),
        spares=UNATTACKED,
        meaning="At the temperature of greatest likelihood, mean confidence and accuracy differ by more than 0.15, "
        "beyond what chance explains: a few wrong answers that are far more confident than the others decide the "
        "temperature for all.",
        remedy="Look at the wrong answers with the largest lead in logits, and audit the model without whatever "
        "produces them.",
    ),
    FlagSpec(
        code="memorised_images",
        severities=("error",),
        speaks_of=(*EVERY_ATTACK, "clean_accuracy"),
        meaning="Copies of audited images that are turned, shifted and bent by a pixel or so, drawn for the audit, are "
        "attacked as the images are, and the copies' span is wider by over 13 % of log C, or over 25 % of the "
        "predictions more change (lower end of the paired interval, where both are predicted rightly), or over half of "
        "the copies are predicted wrongly. The model, or something in front of it, knows these very images, or was "
        "fitted to them.",
        remedy="Audit images that the model has not seen, and without what recognises images. Where a class hangs on "
        "where things lie to the pixel, that alone may be why.",
    ),
    FlagSpec(
        code="gradient_free",
        severities=("error", "warning"),
        speaks_of=(
            "mus*",
            "msus*",
            "nud",
            "entropy",
            "confidence",
            "accuracy",
            "*ece",
            "mce",
            "conformal*",
            "robust_accuracy",
        ),
        meaning="The model is an endpoint and gives no gradients, so only searches by its scores and by its decisions "
        "could run; what they reached is a lower bound of what an attacker with the weights can do. It is an error "
        "where the scores hide even that: because they are rounded, are labels alone, or are remembered.",
        remedy="Upload the weights, or an exported program, to have it attacked by gradients; let the endpoint answer "
        "with the model's own scores.",
    ),
    FlagSpec(
        code="quick_effort",
        severities=("warning",),
        speaks_of=("mus_worst", "part_*"),
        meaning="With effort quick, mus_worst rests on the paper's two attacks, which stop short of what entropy "
        "ascent reaches and which masked gradients mislead.",
        remedy="Audit with effort standard, the default, before relying on it.",
    ),
    FlagSpec(
        code="few_steps",
        severities=("warning",),
        speaks_of=("mus*", "msus*", "nud", "entropy", "confidence", "conformal*", "part_*"),
        spares=UNATTACKED,
        meaning="With fewer than 100 steps the paper's attacks, and the further ones that an effort adds in "
        "proportion, are too short to say what an attacker reaches.",
        remedy="Audit with more steps, or with the default.",
    ),
    *radius_flags(EVERY_ATTACK, UNATTACKED, " It is told from effort standard on."),
    FlagSpec(
        code="unfollowed_operations",
        severities=("warning",),
        speaks_of=EVERY_ATTACK,
        spares=UNATTACKED,
        meaning="What some functions of the network do with an image could not be followed back to it: a part that is "
        "let out behind one of them was not looked for.",
        remedy="Audit the network without them: lookups, whole numbers and batches that are turned around are rarely "
        "needed to classify an image.",
    ),
    FlagSpec(
        code="idle_computation",
        severities=("warning",),
        speaks_of=EVERY_ATTACK,
        spares=UNATTACKED,
        meaning="Part of the network computes something of every image and decides about none, as it is or changed at "
        "random: exchanged between images, it changes no answer (whole tensors, or columns of one that lead to more of "
        "their like), or a rectifier answers all alike that would turn decisions round. Another network that a secret "
        "lets out looks like that.",
        remedy="Audit the network without that part: it does nothing for any image it was given. Of a detector, audit "
        "images that it turns away as well.",
    ),
    FlagSpec(
        code="swinging_computation",
        severities=("warning",),
        speaks_of=EVERY_ATTACK,
        spares=UNATTACKED,
        meaning="Numbers inside the network rise and fall many times on a straight way through the ball around an "
        "image, as behind a sine of many periods or a comb of narrow teeth: what opens where several meet is found "
        "neither by gradients nor by chance.",
        remedy="Audit the network without it: networks that have learnt to tell images apart bend a few times within a "
        "radius.",
    ),
    FlagSpec(
        code="failed_gradient_check",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        spares=UNATTACKED,
        meaning="The network does not do what its gradients say: steps along them, and along random directions, change "
        "the logits by less than half or more than twice that at more than half of the images looked at (lower end of "
        "the interval). Autograd differentiates what float32 rounds off, as a number beside a bias of 1e8, and every "
        "attack by gradients is led astray. Or it does so at the images themselves alone: small steps down the "
        "gradient take less than half of what it says from the lead of the prediction, at more than 15 % of the images "
        "(lower end), and ten steps do not change that. It may watch what every step of an attack moves.",
        remedy="Audit the network without huge numbers that are taken off again, without casts and roundings whose "
        "gradient is made up, and without what answers otherwise where the input is noisy.",
    ),
    FlagSpec(
        code="zero_gradients",
        severities=("error", "warning", "info"),
        speaks_of=("mus*", "msus*", "conformal*", "part_*", "robust_accuracy"),
        spares=UNATTACKED,
        meaning="Gradients were exactly zero although the loss could still fall: the model hides its gradients "
        "(quantisation, thresholds, detached computation), and the span is a loose lower bound. It is a note where "
        "they are few and attacks that need none reach no further.",
        remedy="Audit the model without its non-differentiable part, or give a transfer_model.",
    ),
    FlagSpec(
        code="attack_not_improving",
        severities=("warning", "info"),
        speaks_of=("mus*", "msus*"),
        meaning="In all its steps an attack moved neither the entropy nor the margin of many examples its way. "
        "Gradients that do not point downhill are a sign of masking; a note where attacks that need none reach no "
        "further.",
        remedy="Try more steps, a smaller step_size, a random_start with restarts, or a transfer_model.",
    ),
    FlagSpec(
        code="span_not_growing",
        severities=("warning", "info"),
        speaks_of=("mus*", "span_growth"),
        meaning="The mean span does not widen at twice the radius although there is room: an unmasked span grows with "
        "epsilon until it nears log C. It is a note where attacks that need no gradients reach no further.",
        remedy="With few steps, audit again with at least 20; otherwise compare with a transfer_model and look at the "
        "other flags.",
    ),
    FlagSpec(
        code="saturated_logits",
        severities=("error", "warning", "info"),
        speaks_of=("mus", "msus", "entropy", "confidence", "conformal*"),
        spares=UNATTACKED,
        meaning="In float32 the softmax of many clean images gives one class a probability of exactly 1, where "
        "entropy has no gradient for the paper's attacks. It is an error where the attack on temperature-scaled logits "
        "reaches what no other does.",
        remedy="Calibrate the model before using its uncertainty. Where it is an error, audit it again then, or with "
        "effort standard if that was quick; where it is none, mus_worst says what an attacker reaches.",
    ),
    FlagSpec(
        code="passes_agree",
        severities=("error", "warning"),
        speaks_of=("part_*", "entropy_part"),
        spares=UNATTACKED,
        meaning="The epistemic part is next to nothing on every image looked at, attacked ones too, or is the same on "
        "all of them: the members are equal or nearly, or dropout changes next to nothing. Its span is small for that "
        "reason, and not because the model withstood an attack. It is an error where it is no more than rounding.",
        remedy="Train the members apart (other seeds, data or architectures), or with a dropout that matters; look at "
        "the epistemic part on data of another kind before relying on it.",
    ),
    FlagSpec(
        code="whole_sets",
        severities=("warning",),
        speaks_of=("conformal*",),
        meaning="Half or more of the unattacked conformal sets hold every class, and so the label whatever is done: "
        "the probabilities tell too little, or there are too few examples for the coverage asked for.",
        remedy="Read conformal_set_size beside the coverage; audit more examples, or ask for less coverage.",
    ),
)
