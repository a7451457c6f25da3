"""What ``transductive_attack`` publishes."""

from seatrial.contracts.family import SIGNED_SHARE, Metric, all_but, only, value

RECORDS = "seatrial.families.transductive_attack.records:"


METRICS = (
    Metric(
        name="static_accuracy",
        unit="1",
        better="higher",
        description="Accuracy of the static model, without defence or attack.",
        depends_on=only(),
        per_example=value("static", "correct"),
    ),
    Metric(
        name="static_robustness",
        unit="1",
        better="higher",
        description="Robust accuracy of the static model under AutoAttack, or PGD where that was not asked for: what a "
        "defence has to improve on.",
        depends_on=all_but(
            "repeats", "round_timeout_s", "defences", "iterations", "order", "state", "training_dataset"
        ),
        per_example=RECORDS + "static_robust",
    ),
    Metric(
        name="clean_accuracy",
        qualifiers=("defence",),
        unit="1",
        better="higher",
        description="Accuracy of the defended model on unperturbed examples.",
        depends_on=all_but(
            "repeats",
            "round_timeout_s",
            "attacks",
            "norm",
            "epsilon",
            "step_size",
            "steps",
            "iterations",
            "state",
            "autoattack_queries",
        ),
        per_example=RECORDS + "CLEAN",
    ),
    Metric(
        name="robustness",
        qualifiers=("defence", "attack"),
        unit="1",
        better="higher",
        description="Share of examples the defended model answers rightly, perturbed by an attack; the mean over "
        "repeats.",
        depends_on=all_but("repeats", "round_timeout_s", "attacks"),
        per_example=RECORDS + "ATTACKED",
    ),
    Metric(
        name="robustness_std",
        qualifiers=("defence", "attack"),
        unit="1",
        better="neither",
        description="Standard deviation (n - 1) of the robustness over repeats; published for two and more.",
        depends_on=all_but("repeats", "round_timeout_s", "attacks"),
    ),
    Metric(
        name="overestimate",
        qualifiers=("defence",),
        unit="1",
        better="lower",
        description="Robustness under attacks made on the static model (AutoAttack, else PGD) less the lowest under an "
        "attack that knows the defence, on the same examples: what an evaluation without such attacks makes up.",
        depends_on=all_but("repeats", "round_timeout_s"),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="gain_over_static",
        qualifiers=("defence",),
        unit="1",
        better="higher",
        description="Lowest robustness of the defended model under any attack less that of the static model, on the "
        "same examples: what the defence is worth.",
        depends_on=all_but("repeats", "round_timeout_s"),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="rejection_rate",
        qualifiers=("defence", "attack"),
        unit="1",
        better="neither",
        description="Share of examples a defence that may reject did reject; they count as answered wrongly.",
        depends_on=all_but("repeats", "round_timeout_s", "attacks"),
        per_example=RECORDS + "REJECTED",
    ),
)
