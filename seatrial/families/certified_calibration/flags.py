"""Doubts that checks of ``certified_calibration`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="attack_beyond_certificate",
        severities=("error",),
        speaks_of=("certified_*", "cce*", "cbs", "average_certified_radius"),
        meaning="Attacks within the radius moved smoothed confidences out of their certified intervals by more than "
        "chance explains. Nothing within the radius should be able to: the certificates or the arithmetic are wrong.",
        remedy="Do not rely on any certified number of this check; see that the model is deterministic and in "
        "evaluation mode, and report it if it is.",
    ),
    FlagSpec(
        code="batch_dependent",
        severities=("error",),
        speaks_of=("*",),
        meaning="Asked twice for the same noisy copies, once among other copies of the image and once among copies of "
        "other images, the model gave different classes. Its answer is not a function of one image alone, and it may "
        "average the noise of a batch away: no certificate holds, and these examples are certified at no radius.",
        remedy="Audit a model that computes every image by itself; freeze whatever it keeps between calls.",
    ),
    FlagSpec(
        code="function_assumed",
        severities=("warning",),
        speaks_of=("certified_*", "cce*", "cbs", "average_certified_radius"),
        meaning="The model is an endpoint. A certificate holds for a function of one image, but a server may remember "
        "what it was asked: it could average noise away, or give near copies one answer. From outside that cannot be "
        "ruled out.",
        remedy="Upload the weights, or an exported program; or, where you run the server yourself, make sure that it "
        "answers each image by itself.",
    ),
    FlagSpec(
        code="radius_out_of_reach",
        severities=("warning",),
        speaks_of=("certified_*", "cce*", "cbs"),
        shown_by=("certified_*", "cce*", "cbs"),
        meaning="No model could be certified at some of the radii with this sigma, n and alpha, even if every draw "
        "gave the same class: zeros there say nothing about the model.",
        remedy="Ask for smaller radii, or for a larger sigma with a model trained for it; the reach grows only slowly "
        "with n.",
    ),
    FlagSpec(
        code="no_certified_examples",
        severities=("warning",),
        speaks_of=("cce", "cbs", "ece", "acce", "dece", "brier_ece"),
        shown_by=("cce", "cbs", "ece", "acce", "dece", "brier_ece"),
        meaning="No example is certified at some of the radii, so cce, cbs and what they are compared with are "
        "undefined there: that is no sign of good calibration.",
        remedy="Read cce_system, which is over all examples; train with noise of this sigma, or ask for smaller radii.",
    ),
    FlagSpec(
        code="few_certified_examples",
        severities=("warning",),
        speaks_of=("cce", "cbs", "ece", "acce", "dece", "brier_ece"),
        shown_by=("cce", "cbs", "ece", "acce", "dece", "brier_ece"),
        meaning="Few examples are certified at some of the radii. Calibration errors of fewer than 30 examples are "
        "mostly chance, and those certified far out are the model's easiest.",
        remedy="Raise the number of samples, or read these radii by certified_share first.",
    ),
    FlagSpec(
        code="not_trained_for_noise",
        severities=("warning",),
        speaks_of=("*",),
        shown_by=("accuracy", "certified_*", "average_certified_radius"),
        meaning="The model is right much more often without noise than smoothed: it was not trained for this noise. "
        "The certificates are valid, but of a smoothed model that is too inaccurate to use.",
        remedy="Train with Gaussian noise of this sigma, put a denoiser in front, or certify with the sigma the model "
        "was trained with.",
    ),
    FlagSpec(
        code="abstains_often",
        severities=("warning",),
        speaks_of=("abstention_rate", "cce", "cbs", "certified_*"),
        shown_by=("abstention_rate", "certified_*"),
        meaning="On many examples no class is shown to have at least half of the draws: they are certified at no "
        "radius and count in neither cce nor cbs.",
        remedy="Read cce_system; train for noise of this sigma, use a smaller one, or raise n if it is small.",
    ),
    FlagSpec(
        code="attack_far_below_certificate",
        severities=("info",),
        speaks_of=("cce", "ece"),
        meaning="The strongest attack reached much less than the certificate allows. The true worst case lies in "
        "between; the intervals and the attack both contribute to the gap.",
        remedy="More attack_steps and attack_draws may close it from below, more draws n a little from above.",
    ),
    FlagSpec(
        code="admm_below_exact",
        severities=("info",),
        speaks_of=("acce",),
        meaning="The paper's ADMM finds only part of the exact worst calibration error. It searches, so what it finds "
        "is a lower bound and certifies nothing.",
        remedy="State cce as the certified number, acce only to compare with published ones.",
    ),
    FlagSpec(
        code="per_example_alpha",
        severities=("info",),
        speaks_of=("certified_*", "cce*", "cbs"),
        meaning="Each certificate by itself is wrong with probability at most alpha, so among many some are expected "
        "to be. The field reports certificates this way.",
        remedy="If cce and cbs are to hold as they stand with probability 1 - alpha, set joint.",
    ),
    FlagSpec(
        code="shared_noise",
        severities=("info",),
        speaks_of=("*",),
        meaning="All examples saw the same draws of noise. Every single guarantee holds, but certificates that fail "
        "tend to fail together, and averages vary with the draws more than their intervals say.",
        remedy="Set noise to independent where that matters; it takes longer.",
    ),
    FlagSpec(
        code="adaptive_intervals",
        severities=("info",),
        speaks_of=("cce*", "cbs", "interval_width", "average_certified_radius"),
        meaning="Draws ended once it was settled at which of the radii an example is certified: confidence intervals "
        "rest on fewer draws and are wider, and radii between those asked for are cut short. They are just as valid.",
        remedy="For the tightest numbers use fixed sampling.",
    ),
    FlagSpec(
        code="rounded_to_grid",
        severities=("info",),
        speaks_of=("*",),
        meaning="Images have values between those of 8 bits. Certificates are made on a grid of 1/16,320, 64 times as "
        "fine as 8 bits, and such images are rounded to it.",
        remedy="Nothing, if the images are meant to be given in floats: round them to the grid where the model is "
        "served, too. Otherwise upload them as uint8.",
    ),
    FlagSpec(
        code="reduced_precision",
        severities=("info",),
        speaks_of=("*",),
        meaning="The network was computed in bfloat16 under noise: what is certified is the smoothed model computed "
        "that way.",
        remedy="Serve it in bfloat16 too, or audit it where float32 is used.",
    ),
    FlagSpec(
        code="attack_beyond_span",
        severities=("error",),
        speaks_of=("certified_*", "uncertainty_*", "cce*", "cbs", "average_certified_radius"),
        meaning="Attacks within a radius moved mean scores or uncertainties out of their certified intervals by more "
        "than chance explains. Nothing within the radius should be able to.",
        remedy="Do not rely on any certified number of this check; see that the model is deterministic and in "
        "evaluation mode, and report it if it is.",
    ),
    FlagSpec(
        code="span_says_little",
        severities=("warning",),
        speaks_of=("certified_span", "attacked_span", "uncertainty*"),
        meaning="The model's scores are nearly uniform in every draw of noise, or one-hot in every draw although draws "
        "disagree. Dividing or multiplying all logits does this to any model: a small span is no sign of robustness "
        "then.",
        remedy="Audit the model at its calibrated temperature; demand certified_log_loss, certified_brier or "
        "cce_classwise beside a span.",
    ),
    FlagSpec(
        code="passes_agree",
        severities=("warning",),
        speaks_of=("certified_span", "attacked_span", "uncertainty*"),
        meaning="The epistemic part of the entropy is next to nothing on noisy copies of the images, or the same on "
        "all of them: the members are equal or nearly, or dropout changes next to nothing. A small certified span of "
        "smoothed_epistemic is no sign of robustness then.",
        remedy="Train the members apart (other seeds, data or architectures), or with a dropout that matters; demand "
        "something of uncertainty[uncertainty=smoothed_epistemic] on data of another kind.",
    ),
    FlagSpec(
        code="span_not_shown",
        severities=("info",),
        speaks_of=("certified_span", "attacked_span"),
        meaning="The certified span is more than five times what the attack reached: the true one lies between, and "
        "nothing shows where.",
        remedy="More attack_steps and attack_draws may close it from below, more draws n from above; smoothed_entropy "
        "has the tightest certificate.",
    ),
    FlagSpec(
        code="classes_summed",
        severities=("info",),
        speaks_of=("certified_span", "uncertainty_*", "certified_brier"),
        meaning="The model has more than 100 classes: the label and the most frequent classes have a certified "
        "interval each, the others share one for their sum. Bounds hold however they divide it, and are wider for "
        "that.",
        remedy="Raise uncertainty.classes if spans are wide; smoothed_entropy does not depend on it.",
    ),
)
