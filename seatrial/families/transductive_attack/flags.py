"""Doubts that checks of ``transductive_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec
from seatrial.families.shared.radius_flags import radius_flags

PAIR = ("selective_error", "rejection_rate", "clean_rejection_rate")
"""What is published of defences that may refuse."""

KEPT = ("robustness", "lowest_robustness")

WITHIN = (*KEPT, "static_robustness", "overestimate", "gain_over_static", "selective_error")
"""What is measured by attacks within the radius."""

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="defence_failed",
        severities=("error",),
        speaks_of=(*KEPT, "clean_accuracy", "overestimate", "gain_over_static", *PAIR),
        meaning="Some games, an attack against a defence each, failed and have no numbers. Estimates that rest on them "
        "alone are null; where other repeats finished, those count, which may flatter a defence that fails when it is "
        "hard pressed.",
        remedy="Fix the defence or its hyper-parameters, or raise round_timeout_s, and submit again.",
    ),
    *radius_flags(WITHIN),
    FlagSpec(
        code="few_steps",
        severities=("warning",),
        speaks_of=WITHIN,
        meaning="The attacks are too short to say what an attacker reaches: fewer than 20 steps, steps that together "
        "go less than one and a quarter times the radius, or no iteration of those that simulate the defence.",
        remedy="Audit with the defaults, or with more.",
    ),
    FlagSpec(
        code="overestimated",
        severities=("warning",),
        speaks_of=("robustness", "overestimate"),
        shown_by=("overestimate",),
        meaning="Attacks made on the static model demonstrably overstate the defence: part of what they show is "
        "robustness against those who do not know of it.",
        remedy="Quote the lowest number, and compare defences by gain_over_static.",
    ),
    FlagSpec(
        code="worse_than_static",
        severities=("warning",),
        speaks_of=("gain_over_static", "robustness"),
        shown_by=("gain_over_static",),
        meaning="Under attack the defended model demonstrably keeps less than the static model does.",
        remedy="Serve the model without the defence.",
    ),
    FlagSpec(
        code="no_adaptive_attack",
        severities=("warning",),
        speaks_of=(*KEPT, "overestimate", "gain_over_static", "selective_error"),
        meaning="No number is about an attacker who knows the defence. Either all attacks were carried over from the "
        "static model, and met another model than the one they were made for; or every model the attacker simulated "
        "answered like the first, so that there was no defence to attack.",
        remedy="Ask for fpa, gmsa_avg and gmsa_min, or see to it that they can finish; for a defence that refuses, ask "
        "for iterations and give rejection_scores a gradient. Until then, do not rely on any robustness here.",
    ),
    FlagSpec(
        code="defence_not_simulated",
        severities=("warning",),
        speaks_of=(*KEPT, "overestimate", "gain_over_static", "selective_error"),
        meaning="The only attack that knows the defence is defence_autoattack, which takes the batch apart while it "
        "runs and is known to overestimate.",
        remedy="Ask for fpa, gmsa_avg and gmsa_min.",
    ),
    FlagSpec(
        code="adaptive_weaker_than_transfer",
        severities=("error",),
        speaks_of=(*KEPT, "overestimate", "gain_over_static", "selective_error"),
        meaning="Attacks that know the defence demonstrably do less harm than one that does not. An attacker who knows "
        "the defence can do all that others can, so the attack was too weak, and its numbers say nothing about such an "
        "attacker.",
        remedy="Raise steps and iterations, see that step_size times steps exceeds epsilon, and submit again.",
    ),
    FlagSpec(
        code="refuses_harmless",
        severities=("warning",),
        speaks_of=PAIR,
        meaning="A defence demonstrably refuses more than a twentieth of examples nobody attacked: as they are, beside "
        "attacked ones, or harmlessly changed. Its low error on what it answers is paid for with refusals of what it "
        "should answer.",
        remedy="Raise its threshold, and judge selective_error together with rejection_rate[attack=clean] and "
        "clean_rejection_rate.",
    ),
    FlagSpec(
        code="nearly_all_refused",
        severities=("warning", "info"),
        speaks_of=("selective_error", *KEPT, "gain_over_static"),
        meaning="Under an attack a defence refused nearly every example: it answers so few that its errors can hardly "
        "be measured. It is a warning where that is so under every attack that simulates it: none was able to go "
        "unnoticed, and nothing is known of one that is.",
        remedy="Raise steps and iterations, ask for fpa, gmsa_avg and gmsa_min, and see that what refuses has a "
        "gradient an attack can follow.",
    ),
    FlagSpec(
        code="clean_accuracy_lost",
        severities=("warning",),
        speaks_of=("clean_accuracy",),
        shown_by=("clean_accuracy",),
        meaning="Without an attack the defended model is demonstrably less accurate than the static one.",
        remedy="Weigh it against what is gained under attack; see that the preset was made for this model and data, "
        "and that batches are as large as it needs.",
    ),
    FlagSpec(
        code="autoattack_weaker_than_pgd",
        severities=("warning", "info"),
        speaks_of=("static_robustness", "gain_over_static"),
        meaning="Examples withstand AutoAttack on the static model and fall to PGD: static_robustness is too high by "
        "these, and gain_over_static too low.",
        remedy="A few are chance; if there are many, look at what misleads the gradients, and leave autoattack_queries "
        "at 5000.",
    ),
    FlagSpec(
        code="autoattack_without_square",
        severities=("info",),
        speaks_of=("static_robustness", *KEPT),
        meaning="AutoAttack was run without Square, its one attack that needs no gradient: where gradients mislead, "
        "its numbers are too high and nothing here would tell.",
        remedy="Leave autoattack_queries at 5000; do not compare these numbers with published ones.",
    ),
    FlagSpec(
        code="selection_fell_back",
        severities=("info",),
        speaks_of=KEPT,
        meaning="In some rounds no iteration brought the simulated defence lower than the clean batch leaves it, and "
        "the clean batch was sent: these examples were not attacked at all.",
        remedy="Where this happens often, raise steps, step_size or iterations.",
    ),
    FlagSpec(
        code="varies_between_repeats",
        severities=("info",),
        speaks_of=(*KEPT, "overestimate", "gain_over_static"),
        meaning="The defender's random draws move the numbers by more than the width of their intervals, which account "
        "for the examples alone.",
        remedy="Raise repeats, and state robustness_std beside the mean.",
    ),
    FlagSpec(
        code="one_repeat_of_a_randomised_defence",
        severities=("info",),
        speaks_of=(*KEPT, "overestimate", "gain_over_static"),
        meaning="The answers of a defence depend on what it draws, and each game was played once: how much the "
        "numbers vary with that is not known and in no interval.",
        remedy="Set repeats to 3 or more before comparing defences.",
    ),
    FlagSpec(
        code="adversarial_order",
        severities=("info",),
        speaks_of=("*",),
        meaning="Examples came sorted by label within windows of two batches, so batches hold few classes, also where "
        "nobody attacks.",
        remedy="Compare with a second check in natural order: the difference is the price of trusting the order.",
    ),
)
