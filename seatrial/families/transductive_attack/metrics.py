"""What ``transductive_attack`` publishes."""

from seatrial.contracts.family import SIGNED_SHARE, Dependence, Metric, Qualifiers, all_but, only, value
from seatrial.families.transductive_attack.params import CORRUPTIONS, UNBOUNDED

RECORDS = "seatrial.families.transductive_attack.records:"


OTHER_ROWS = ("repeats", "round_timeout_s", "corruptions", "brightness", "cw_steps", "cw_learning_rate")
"""Parameters of repeats, and of rows that are no part of comparisons within the radius."""

OF_GAMES = (*OTHER_ROWS, "initial_model", "state")
"""Parameters that change no attack on the static model within the radius."""

OF_ATTACKS = (
    *OF_GAMES,
    "attacks",
    "norm",
    "epsilon",
    "step_size",
    "steps",
    "iterations",
    "autoattack_queries",
)
"""Parameters that change nothing where nobody attacks."""


def of_a_row(qualifiers: Qualifiers) -> Dependence:
    """Return what a number of one defence under one attack, a corruption, or neither depends on."""
    row = qualifiers["attack"]
    if row == "clean":
        return all_but(*OF_ATTACKS)
    if row in CORRUPTIONS:
        return all_but(*(name for name in OF_ATTACKS if name != row))
    if row in UNBOUNDED:
        return all_but(*(name for name in OF_ATTACKS if not name.startswith("cw_")))
    return all_but(*OTHER_ROWS, "attacks")


METRICS = (
    Metric(
        name="selective_error",
        qualifiers=("defence", "attack"),
        label="Wrong answers among those given ({defence}, {attack})",
        unit="1",
        better="lower",
        description="Of the examples a defence that may refuse does answer, the share it answers wrongly: the error on "
        "what was kept (Chen et al., eq. 1, over the kept as in the authors' code). Undefined where it answers none.",
        depends_on=of_a_row,
        per_example=RECORDS + "SELECTIVE_ERROR",
    ),
    Metric(
        name="rejection_rate",
        qualifiers=("defence", "attack"),
        label="Examples refused ({defence}, {attack})",
        claim="{defence} refuses to answer {value} of the examples ({attack})",
        unit="1",
        better="neither",
        description="Share of examples a defence that may refuse does not answer. Under an attack that may be right; "
        "unattacked (`attack=clean`) or harmlessly changed (`attack=brightness`) it is the price of the defence.",
        depends_on=of_a_row,
        per_example=RECORDS + "REJECTED",
    ),
    Metric(
        name="clean_rejection_rate",
        qualifiers=("defence", "attack"),
        label="Unattacked examples refused beside attacked ones ({defence}, {attack})",
        claim="{defence} refuses to answer {value} of the unperturbed examples beside attacked ones ({attack})",
        unit="1",
        better="lower",
        description="Share of the unperturbed copies that a defence refuses once it has adapted to a round under "
        "attack: rej_U(S) of Chen et al., eq. 1.",
        depends_on=of_a_row,
        per_example=RECORDS + "CLEAN_REJECTED",
    ),
    Metric(
        name="static_accuracy",
        label="Accuracy without defence or attack",
        claim="its accuracy without defence or attack is {value}",
        unit="1",
        better="higher",
        description="Accuracy of the static model, without defence or attack.",
        depends_on=only(),
        per_example=value("static", "correct"),
    ),
    Metric(
        name="static_robustness",
        label="Accuracy under attack without the defence",
        unit="1",
        better="higher",
        description="Robust accuracy of the static model under AutoAttack, or PGD where that was not asked for: what a "
        "defence has to improve on.",
        depends_on=all_but(*OF_GAMES, "defences", "iterations", "order", "training_dataset"),
        per_example=RECORDS + "static_robust",
    ),
    Metric(
        name="clean_accuracy",
        qualifiers=("defence",),
        label="Accuracy without an attack ({defence})",
        unit="1",
        better="higher",
        description="Accuracy of the defended model on unperturbed examples.",
        depends_on=all_but(*OF_ATTACKS),
        per_example=RECORDS + "CLEAN",
    ),
    Metric(
        name="robustness",
        qualifiers=("defence", "attack"),
        label="Accuracy under attack ({defence}, {attack})",
        unit="1",
        better="higher",
        description="Share of examples that the defended model answers rightly once an attack has perturbed them; the "
        "mean over repeats. For a defence that may refuse, an example counts if its perturbed copy is answered rightly "
        "or refused and its unperturbed copy is answered rightly: refusing everything is no robustness.",
        depends_on=of_a_row,
        per_example=RECORDS + "ATTACKED",
    ),
    Metric(
        name="robustness_std",
        qualifiers=("defence", "attack"),
        label="Spread of the accuracy under attack over repeats ({defence}, {attack})",
        unit="1",
        better="neither",
        description="Standard deviation (n - 1) of the robustness over repeats; published for two and more.",
        depends_on=of_a_row,
    ),
    Metric(
        name="lowest_robustness",
        qualifiers=("defence",),
        label="Accuracy under the strongest attack ({defence})",
        claim="{defence} keeps {value} of the examples under the attack that leaves least",
        unit="1",
        better="higher",
        description="Lowest `robustness` of the defended model under any attack within the radius, on the examples "
        "that errored under none; of `identity`, which is no defence, it is not published.",
        depends_on=all_but(*OTHER_ROWS),
    ),
    Metric(
        name="overestimate",
        qualifiers=("defence",),
        label="Overestimated robustness ({defence})",
        claim="attacks that do not know {defence} overestimate its robustness by {value} of the examples",
        unit="1",
        better="lower",
        description="Robustness under attacks made on the static model (AutoAttack, else PGD) less the lowest under an "
        "attack that knows the defence, on the same examples: what an evaluation without such attacks would overstate.",
        depends_on=all_but(*OTHER_ROWS),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="gain_over_static",
        qualifiers=("defence",),
        label="Robustness the defence adds ({defence})",
        claim="{defence} adds {value} of the examples to those that withstand attack",
        unit="1",
        better="higher",
        description="Lowest robustness of the defended model under any attack less that of the static model, on the "
        "same examples: what the defence is worth.",
        depends_on=all_but(*OTHER_ROWS),
        range=SIGNED_SHARE,
    ),
)
