"""What ``temperature_attack`` publishes."""

from collections.abc import Callable

from seatrial.contracts.family import FROM_ZERO, SIGNED_SHARE, Dependence, Metric, Qualifiers, all_but, only
from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, UNSCORED

RECORDS = "seatrial.families.temperature_attack.records:"


def _depends(*, is_binned: bool = False, is_unattacked: bool = False) -> Callable[[Qualifiers], Dependence]:
    """Return what a number depends on: not on the temperature the model is served at, which is part of the model."""

    def of(qualifiers: Qualifiers) -> Dependence:
        arm = qualifiers.get("arm")
        idle = {"design_temperature"} | (set() if is_binned else {"bins"})
        if arm is not None:
            idle.add("arms")
        if "recipe" in qualifiers:
            idle |= {"recipes", "survivors"}
        if is_unattacked:
            idle |= {"recipes", "survivors", "query_budget", "time_budget_s"}
        if is_unattacked or arm not in (None, LABEL_ONLY):
            idle.add("label_queries")
        if arm == AS_SERVED or arm in UNSCORED:
            idle |= {"validation_samples", "validation_dataset"}
        if arm not in (None, "optimized"):
            idle |= {"temperature_evaluations", "temperature_search"}
        if arm not in (None, "transfer"):
            idle.add("source_model")
        if arm not in (None, "calibrated_paper", "optimized"):
            idle.add("precision")
        return all_but(*idle)

    return of


METRICS = (
    Metric(
        name="clean_accuracy",
        label="Accuracy without an attack",
        claim="its accuracy without an attack is {value}",
        unit="1",
        better="higher",
        description="Accuracy before any attack.",
        depends_on=only(),
        per_example=RECORDS + "answered",
    ),
    Metric(
        name="adversarial_accuracy",
        qualifiers=("arm", "recipe"),
        label="Accuracy under {recipe} ({arm})",
        unit="1",
        better="higher",
        description="Accuracy of the unmodified model on all texts after a recipe run against the arm; examples wrong "
        "before the attack count as errors (eq. 9). Undefined for a recipe that could hardly write anything.",
        depends_on=_depends(),
        per_example=RECORDS + "standing",
    ),
    Metric(
        name="adversarial_accuracy",
        qualifiers=("arm",),
        label="Accuracy under the worst recipe for each text ({arm})",
        unit="1",
        better="higher",
        description="Accuracy of the unmodified model on all texts when each is met by the worst of the recipes for "
        "it, run against the arm; examples wrong before the attack count as errors. That a text withstands a "
        "recipe that could hardly write anything counts for nothing.",
        depends_on=_depends(),
        per_example=RECORDS + "standing_under_all",
    ),
    Metric(
        name="attack_success_rate",
        qualifiers=("arm", "recipe"),
        label="Right answers that {recipe} turns wrong ({arm})",
        unit="1",
        better="lower",
        description="Share of the examples right before the attack that the unmodified model gets wrong after it.",
        depends_on=_depends(),
    ),
    Metric(
        name="search_success_rate",
        qualifiers=("arm", "recipe"),
        label="Right answers that {recipe} turns wrong by its own count ({arm})",
        unit="1",
        better="neither",
        description="Share of the examples right before the attack that it flips on the arm's own scores, as "
        "TextAttack counts it: floating-point ties may set it apart from attack_success_rate.",
        depends_on=_depends(),
    ),
    Metric(
        name="mean_queries",
        qualifiers=("arm", "recipe"),
        label="Queries {recipe} takes per text ({arm})",
        unit="queries",
        better="higher",
        description="Mean number of queries per attacked example, as TextAttack counts them (before any cache).",
        depends_on=_depends(),
        range=FROM_ZERO,
    ),
    Metric(
        name="mean_perturbed_share",
        qualifiers=("arm", "recipe"),
        label="Words {recipe} changes to succeed ({arm})",
        unit="1",
        better="higher",
        description="Mean share of words changed, over successful attacks.",
        depends_on=_depends(),
    ),
    Metric(
        name="mean_confidence",
        qualifiers=("arm",),
        label="Mean confidence without an attack ({arm})",
        unit="1",
        better="neither",
        description="Mean top-label confidence of the arm's model on the clean texts.",
        depends_on=_depends(is_unattacked=True),
    ),
    Metric(
        name="mean_adversarial_confidence",
        qualifiers=("arm", "recipe"),
        label="Mean confidence after {recipe} ({arm})",
        unit="1",
        better="neither",
        description="Mean top-label confidence of the arm's model on the texts the attack ended with.",
        depends_on=_depends(),
    ),
    Metric(
        name="ece",
        qualifiers=("arm",),
        label="Calibration error without an attack ({arm})",
        unit="1",
        better="lower",
        description="Expected calibration error on the clean texts, mean-confidence form, at the arm's temperature.",
        depends_on=_depends(is_binned=True, is_unattacked=True),
    ),
    Metric(
        name="mce",
        qualifiers=("arm",),
        label="Largest calibration error of any bin, without an attack ({arm})",
        unit="1",
        better="lower",
        description="Largest calibration error of any bin on the clean texts, at the arm's temperature.",
        depends_on=_depends(is_binned=True, is_unattacked=True),
    ),
    Metric(
        name="temperature",
        qualifiers=("arm",),
        label="Temperature ({arm})",
        unit="1",
        better="neither",
        description="Temperature the logits are divided by in the arm, on top of the design temperature; `as_served` "
        "is the design temperature itself.",
        depends_on=_depends(is_unattacked=True),
        range=FROM_ZERO,
        is_fixed=True,
    ),
    Metric(
        name="illusion_gap",
        qualifiers=("recipe",),
        label="Accuracy under {recipe} that is gone once calibrated",
        claim="on {value} of the texts its robustness to {recipe} is an illusion of a saturated softmax",
        unit="1",
        better="lower",
        description="Adversarial accuracy as served minus the lowest over the other arms, on the same examples: the "
        "robustness that was an illusion.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="illusion_gap",
        label="Accuracy under attack that is gone once calibrated",
        claim="on {value} of the texts its robustness is an illusion of a saturated softmax",
        unit="1",
        better="lower",
        description="Adversarial accuracy as served minus the lowest over the other arms, on the same examples, each "
        "met by the worst of the recipes for it: the number to gate on.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="mcnemar_p",
        qualifiers=("recipe",),
        label="Chance that the gap under {recipe} is luck (McNemar's p)",
        unit="1",
        better="neither",
        description="p of McNemar's exact two-sided test between `as_served` and the arm the gap is measured to.",
        depends_on=_depends(),
    ),
    Metric(
        name="mcnemar_p",
        label="Chance that the gap is luck (McNemar's p)",
        unit="1",
        better="neither",
        description="p of McNemar's exact two-sided test between `as_served` and the arm the gap is measured to, each "
        "example met by the worst of the recipes for it.",
        depends_on=_depends(),
    ),
    Metric(
        name="importance_correlation",
        qualifiers=("recipe",),
        label="Agreement on which words matter, served and calibrated ({recipe})",
        unit="1",
        better="neither",
        description="Mean Spearman correlation, over texts, of the recipe's token importances as served and calibrated "
        "(appendix E.7); 0 for a text whose served importances are all equal while the calibrated ones are not.",
        depends_on=_depends(),
        range=SIGNED_SHARE,
    ),
    Metric(
        name="masked_importance",
        qualifiers=("recipe",),
        label="Texts whose words all look equally important as served ({recipe})",
        unit="1",
        better="lower",
        description="Share of texts whose words all have the same importance as served while calibrated scores tell "
        "them apart: an attack that ranks words has nothing to go by.",
        depends_on=_depends(),
    ),
)
