"""What the shipped policies ask of each number, and where that is from."""

from dataclasses import dataclass
from typing import Literal

LENIENT, STANDARD, STRICT = "lenient", "standard", "strict"


@dataclass(frozen=True)
class Demand:
    """One number that is asked for, three times.

    Attributes:
        metric: Full name.
        label: The same for people.
        asks: Which side of the bound is right.
        bounds: Of ``lenient``, ``standard`` and ``strict``.
        needs: Which check measures it, with which parameters.
        why: Where they are from.
        warns: Policies in which it only warns.
        is_key: Whether it is errored where a check of its family was run and did not measure it, and not skipped.
    """

    metric: str
    label: str
    asks: Literal["max", "min", "max_regression"]
    bounds: tuple[float, float, float]
    needs: str
    why: str
    warns: frozenset[str] = frozenset()
    is_key: bool = True


_ACCURACY = (0.05, 0.02, 0.01)
_WHY_ACCURACY = (
    "A convention: robustness paid for with accuracy is a decision someone should make. Judged only where "
    "there is a baseline."
)
_WHY_LEAST = (
    "A convention: of a model that is wrong more often than right, or of labels that are, no robustness is asked. Of "
    "harder data give a bound of your own."
)
_BASELINE = ", and a baseline of the model's name"
_GAP = (
    "`transductive_attack`, which is told its `defences`, with `transfer_autoattack` or `transfer_pgd` and an attack "
    "that knows the defence in `attacks` (default)"
)
_ABSTAINS = "`transductive_attack` of a defence that may refuse to answer"


def _radius(radius: float) -> str:
    return f"`certified_calibration` with {radius:g} in `radii` (default)"


_LOW = "`low_level_attack` with 0.2 in `levels` (default)"
_WHY_CERTIFIED = (
    "Emde et al., Table 2: a CIFAR-10 model trained for certificates reaches 0.109, 0.278 and 0.493 at radii 0.05, 0.2 "
    "and 0.5, and 0.100, 0.271 and 0.413 after calibration training. ADMM found these, and exact values lie up to 30 % "
    "above what it finds."
)

DEMANDS = (
    Demand(
        "temperature_attack.illusion_gap",
        "Accuracy under attack that is gone once calibrated",
        "max",
        (0.1, 0.1, 0.05),
        "`temperature_attack` with any of `recipes` and of `arms` (default)",
        "Raina et al., Tables 2 and 3: a model served at a temperature near 0 loses 0.39 of 0.59 to PWWS once it is "
        "calibrated; one served near 10^6 loses 0.04 of 0.25 to PWWS and 0.10 of 0.32 to DeepWordBug at the best "
        "temperature. 0.1 is a quarter of the first, 0.05 what reports call small. The eight "
        "honest endpoints of benchmarks/gauntlet_text.py have gaps of 0.00.",
    ),
    Demand(
        "temperature_attack.clean_accuracy",
        "Accuracy without an attack",
        "max_regression",
        _ACCURACY,
        "any `temperature_attack`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "uncertainty_span.mus_worst",
        "Uncertainty an attacker can shift",
        "max",
        (1.0, 0.6, 0.35),
        "any `uncertainty_span`",
        "In nats; with ten classes there are log 10 = 2.3. Ledda et al., Table IV, CIFAR-10 at 8/255: 0.335 for the "
        "model of Addepalli et al., 0.56 for that of Rebuffi et al. (0.149 was one that hides its gradients). More "
        "classes leave more room: give a bound of your own.",
    ),
    Demand(
        "uncertainty_span.ece[arm=clean]",
        "Calibration error without an attack",
        "max",
        (0.2, 0.1, 0.05),
        "any `uncertainty_span`",
        "Guo et al. (2017), Table 1: a ResNet-110 has 0.046 on CIFAR-10 and 0.165 on CIFAR-100, 0.01 once its "
        "temperature is fitted. Above 0.1 reports call it poor.",
        warns=frozenset({LENIENT, STANDARD}),
        is_key=False,
    ),
    Demand(
        "uncertainty_span.robust_accuracy",
        "Accuracy under AutoAttack",
        "min",
        (0.25, 0.4, 0.5),
        "`uncertainty_span` with the block `robust_accuracy`, which by default is not there",
        "CIFAR-10 in l_inf at 8/255 under AutoAttack: 0.443 for the model of Madry et al. (2018), 0.58 for that of "
        "Wu et al. (2020), as measured by Chen et al., section 6. Of other radii and data give a bound of your own.",
        is_key=False,
    ),
    Demand(
        "uncertainty_span.clean_accuracy",
        "Accuracy without an attack",
        "max_regression",
        _ACCURACY,
        "any `uncertainty_span`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "certified_calibration.certified_accuracy[radius=0.25]",
        "Certified accuracy at radius 0.25",
        "min",
        (0.4, 0.5, 0.6),
        _radius(0.25),
        "Cohen et al. (2019), CIFAR-10 with noise of 0.25: 0.61 at radius 0.25, of 0.77 without an attack.",
    ),
    Demand(
        "certified_calibration.cce[radius=0.05]",
        "Certified calibration error at radius 0.05",
        "max",
        (0.3, 0.2, 0.15),
        _radius(0.05),
        _WHY_CERTIFIED,
    ),
    Demand(
        "certified_calibration.cce[radius=0.2]",
        "Certified calibration error at radius 0.2",
        "max",
        (0.5, 0.4, 0.3),
        _radius(0.2),
        _WHY_CERTIFIED,
    ),
    Demand(
        "certified_calibration.cce[radius=0.5]",
        "Certified calibration error at radius 0.5",
        "max",
        (0.7, 0.6, 0.5),
        _radius(0.5),
        _WHY_CERTIFIED,
        is_key=False,
    ),
    Demand(
        "certified_calibration.accuracy",
        "Accuracy without an attack",
        "max_regression",
        _ACCURACY,
        "any `certified_calibration`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "transductive_attack.overestimate[defence=*]",
        "Overestimated robustness",
        "max",
        (0.2, 0.1, 0.05),
        _GAP,
        "Chen et al., section 6: RMC keeps 0.94 under transferred attacks and 0.08 under those that know it, an "
        "overestimate of 0.86; DENT 0.644 and 0.596, one of 0.05.",
    ),
    Demand(
        "transductive_attack.gain_over_static[defence=*]",
        "Robustness the defence adds",
        "min",
        (-0.1, -0.05, 0.0),
        "any `transductive_attack`",
        "Chen et al., section 6: DENT gains 0.016 on batches in natural order and loses 0.076 on sorted ones; RMC "
        "loses 0.047 of the 0.443 the model of Madry et al. has. A defence worth its cost is shown to gain something.",
    ),
    Demand(
        "transductive_attack.static_accuracy",
        "Accuracy without defence or attack",
        "max_regression",
        _ACCURACY,
        "any `transductive_attack`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "low_level_attack.mean_relative_score[level=0.2]",
        "Score kept under noise, on average",
        "min",
        (0.7, 0.8, 0.9),
        _LOW,
        "Eger and Benz, Tables 6 and 7: of RoBERTa's score 0.83 (inference), 0.88 (tagging) and 0.98 (toxicity) are "
        "left on average over the attackers at the low level; 0.90, 0.92 and 0.98 after training on the noise of the "
        "other attackers.",
    ),
    Demand(
        "low_level_attack.relative_score[attacker=*,level=0.2]",
        "Score kept under each attacker",
        "min",
        (0.4, 0.55, 0.75),
        _LOW,
        "The same tables, the most harmful attacker at the low level: 0.59, 0.83 and 0.93 of the score are left, and "
        "0.80, 0.88 and 0.88 after training on the others' noise.",
    ),
    Demand(
        "low_level_attack.worst_case_score[level=0.2]",
        "Score under the worst noise for each text",
        "max_regression",
        (0.1, 0.05, 0.02),
        _LOW + _BASELINE,
        "A convention, wider than that of accuracy: nobody has published what a model keeps when each text meets the "
        "attacker that suits it, so it is held against what runs today.",
        is_key=False,
    ),
    Demand(
        "low_level_attack.score[level=0]",
        "Score without noise",
        "max_regression",
        _ACCURACY,
        "any `low_level_attack`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "transductive_attack.rejection_rate[defence=*,attack=clean]",
        "Unattacked examples refused",
        "max",
        (0.2, 0.1, 0.05),
        _ABSTAINS,
        "A convention: a defence can refuse its way to any error, so what nobody attacked is owed an answer. "
        "URejectron on MNIST refuses none of it at a threshold of 0.5.",
        is_key=False,
    ),
    Demand(
        "transductive_attack.clean_rejection_rate[defence=*,attack=*]",
        "Unattacked examples refused beside attacked ones",
        "max",
        (0.2, 0.1, 0.05),
        _ABSTAINS,
        "The same of the unperturbed examples beside attacked ones, which Chen et al., eq. 1, measure: one attacked "
        "example must not take the answers from the others.",
        is_key=False,
    ),
    Demand(
        "transductive_attack.rejection_rate[defence=*,attack=brightness]",
        "Brighter images refused",
        "max",
        (0.5, 0.2, 0.1),
        _ABSTAINS + ", and `brightness` in `corruptions`, which by default is not there",
        "Chen et al., Figure 1 (c): URejectron refuses every image that is a little brighter. 0.5 is half of them.",
        is_key=False,
    ),
    Demand(
        "uncertainty_span.mus_calibrated",
        "Uncertainty an attacker can shift, at a calibrated temperature",
        "max",
        (1.0, 0.6, 0.35),
        "`uncertainty_span` of a model with gradients, its `effort` standard (default) or thorough",
        "The same bounds as of `mus_worst`, at the temperature that is likeliest on the clean examples: dividing or "
        "multiplying the logits buys nothing.",
        is_key=False,
    ),
    Demand(
        "calibration.ece",
        "Calibration error",
        "max",
        (0.2, 0.1, 0.05),
        "any `calibration`",
        "The same bounds as of `uncertainty_span.ece[arm=clean]`. Of a table nothing else says whether its confidence "
        "is right, so that it blocks.",
    ),
    Demand(
        "calibration.failure_auroc",
        "Wrong answers told by their confidence",
        "min",
        (0.5, 0.6, 0.7),
        "any `calibration`",
        "Hendrycks and Gimpel (2017), Table 1: the largest softmax finds errors with 0.97 on MNIST, 0.93 on CIFAR-10 "
        "and 0.87 on CIFAR-100. 0.5 is a coin: a constant confidence has no calibration error, and this.",
    ),
    Demand(
        "calibration.accuracy",
        "Accuracy",
        "max_regression",
        _ACCURACY,
        "any `calibration`" + _BASELINE,
        _WHY_ACCURACY,
        is_key=False,
    ),
    Demand(
        "uncertainty_span.clean_accuracy",
        "Least accuracy without an attack",
        "min",
        (0.5, 0.5, 0.5),
        "any `uncertainty_span`",
        _WHY_LEAST,
    ),
    Demand(
        "uncertainty_span.adversarial_accuracy",
        "Least accuracy that the attacks leave",
        "min",
        (0.4, 0.5, 0.6),
        "`uncertainty_span` with an `effort` of standard or more",
        "A convention: entropy that is the same of every image has no span, whatever becomes of the predictions. Of "
        "MNIST networks within 0.1, 0.95 are left of one trained by PGD at 0.3 and 0.35 of an ordinary one.",
    ),
    Demand(
        "transductive_attack.lowest_robustness[defence=*]",
        "Accuracy under the strongest attack",
        "min",
        (0.25, 0.4, 0.5),
        "any `transductive_attack` of a defence other than `identity`, with an attack within the radius",
        "The same bounds as of `uncertainty_span.robust_accuracy`: nothing can be overestimated of a model that "
        "withstands nothing. Chen et al., section 6: 0.596 are left of DENT and 0.396 of RMC.",
    ),
    Demand(
        "calibration.accuracy[arm=attacked]",
        "Least accuracy under an attack of one's own",
        "min",
        (0.25, 0.4, 0.5),
        "`calibration` of predictions with an arm `attacked`",
        "The same bounds again: who shows what an attack leaves is asked that it leave something.",
        is_key=False,
    ),
    Demand(
        "calibration.accuracy",
        "Least accuracy",
        "min",
        (0.5, 0.5, 0.5),
        "any `calibration`",
        _WHY_LEAST,
    ),
    Demand(
        "temperature_attack.clean_accuracy",
        "Least accuracy without an attack",
        "min",
        (0.5, 0.5, 0.5),
        "any `temperature_attack`",
        _WHY_LEAST,
    ),
    Demand(
        "low_level_attack.score[level=0]",
        "Least score without noise",
        "min",
        (0.5, 0.5, 0.5),
        "any `low_level_attack`",
        _WHY_LEAST + " Of multi-label texts the score is a macro AUROC, of which 0.5 is a coin.",
    ),
    Demand(
        "calibration.worst_group_accuracy",
        "Least accuracy of any group",
        "min",
        (0.25, 0.4, 0.5),
        "`calibration` of predictions with groups",
        "A convention, that of an accuracy under attack: nobody's answers are to be wrong more often than that.",
        is_key=False,
    ),
    Demand(
        "temperature_attack.adversarial_accuracy[arm=as_served]",
        "Accuracy that the attacks leave",
        "min",
        (0.05, 0.1, 0.2),
        "any `temperature_attack`",
        "Ordinary text models lose most, and that makes no gap: of 0.89 a DeBERTa keeps 0.18 under TextFooler, 0.20 "
        "under PWWS and DeepWordBug and 0.31 under BAE (Raina et al., Table 2), the eight honest endpoints of "
        "benchmarks/gauntlet_text.py 0.14. So it is said, and blocks nothing.",
        warns=frozenset({LENIENT, STANDARD, STRICT}),
        is_key=False,
    ),
)
"""In the order they are judged; a new one comes last, so that the others keep their numbers in stored judgements."""
