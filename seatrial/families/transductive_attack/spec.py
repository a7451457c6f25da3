"""What the rest of the house reads of ``transductive_attack``."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from seatrial.contracts.controls import Evidence
from seatrial.contracts.family import FamilySpec, Misfit, Needs, Qualifiers, Situation
from seatrial.contracts.models import IMAGES, TABLES
from seatrial.contracts.stopping import Stopping
from seatrial.families.shared.defence_costs import is_module
from seatrial.families.shared.defence_params import Rmc, ShippedDefence
from seatrial.families.shared.robust_accuracy_flags import OWN_RADIUS, with_flags_about
from seatrial.families.transductive_attack.flags import FLAGS
from seatrial.families.transductive_attack.metrics import METRICS
from seatrial.families.transductive_attack.params import TransductiveAttackParams, stage_costs
from seatrial.reporting.balls import within_ball
from seatrial.reporting.value_names import VALUES
from seatrial.reporting.words import enumerate_words, words


def canonical(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters with the defence alone that a metric is about."""
    if "defence" not in qualifiers or "defences" not in params:
        return params
    return {**params, "defences": [one for one in params["defences"] if one.get("name") == qualifiers["defence"]]}


def misfits(params: TransductiveAttackParams, situation: Situation) -> Iterator[Misfit]:
    """Find a sample too large to be seen at once, too few examples to learn from, and attacks no defence is open to."""
    of_image = prod(situation.shape or ()) * 4
    if situation.shape is not None and situation.samples * of_image > situation.most_bytes:
        most = situation.most_bytes // of_image
        remedy = f"ask for samples of at most {most:,}" if most else "bring the images to a smaller size"
        yield Misfit(
            f"Defences see all {situation.samples:,} images of shape {situation.shape} together, which take "
            f"{situation.samples * of_image:,} bytes; a worker holds at most {situation.most_bytes:,} "
            f"(SEATRIAL_MAX_BATCH_BYTES): {remedy}."
        )
    there = situation.sizes.get("training_dataset", 0)
    for position, defence in enumerate(params.defences):
        if isinstance(defence, ShippedDefence) and defence.least_training > there:
            why = ""
            if isinstance(defence, Rmc):
                why = f" to find {defence.neighbours:,} neighbours among them and their attacked copies"
            yield Misfit(
                f"{defence.name} needs {defence.least_training:,} training examples at least{why}, and "
                f"training_dataset has {there:,}.",
                f"defences/{position}",
            )
    never = [one.name for one in params.defences if not is_module(one.name, one.settings)]
    if params.attacks == ["defence_autoattack"] and never:
        yield Misfit(
            f"defence_autoattack cannot be run on {', '.join(never)}: it has a memory or adapts to the whole sample. "
            "Ask for fpa, gmsa_avg or gmsa_min as well.",
            "attacks",
        )


def attacked(params: Mapping[str, Any]) -> str:
    """Return the ball and what searched it."""
    names = [VALUES["attack"].get(one) or words(one) for one in map(str, params.get("attacks") or ())]
    return within_ball(params) + (f" by {enumerate_words(names)}" if names else "")


NOT_ADAPTIVE = ("no_adaptive_attack", "defence_not_simulated")
"""Flags after which no number is about an attacker who knows the defence."""

SPEC = FamilySpec(
    kind="transductive_attack",
    params=TransductiveAttackParams,
    stopping=Stopping(whole=lambda params: "its defences see all examples at once: no part of a game is one"),
    tasks=(IMAGES,),
    metrics=METRICS,
    flags=with_flags_about(FLAGS, "static_robustness", "gain_over_static", "lowest_robustness", without=OWN_RADIUS),
    worker="workers.families.transductive_attack.family:FAMILY",
    narrative="seatrial.families.transductive_attack.narrative",
    evidence=(
        *(
            Evidence(
                control=control, metrics=("robustness", "lowest_robustness", "static_robustness", "selective_error")
            )
            for control in ("AISVS 11.2.1", "AISVS 11.2.7", "AML.T0015", "AML.T0043")
        ),
        Evidence(control="AISVS 11.2.3", metrics=("gain_over_static",), unless=NOT_ADAPTIVE),
        Evidence(
            control="AISVS 11.2.4",
            metrics=("robustness", "selective_error"),
            qualifiers={"attack": ("fpa", "gmsa_avg", "gmsa_min")},
            unless=NOT_ADAPTIVE,
        ),
    ),
    needs=Needs(gradients=True, training=("training_dataset",)),
    misfits=misfits,
    canonical=canonical,
    attacked=attacked,
    stage_costs=stage_costs,
    unlike_hardware=1e-3,
    not_for={
        TABLES: "its defences adapt convolutional networks to a batch of images, by their batch norms, crops and "
        "flips, and rows of a table have none of these"
    },
    starting={"defences": [{"name": "dent"}]},
)
