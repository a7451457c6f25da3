"""What ``calibration`` publishes."""

from seatrial.contracts.family import FROM_ZERO, SIGNED_SHARE, Metric, only
from seatrial.families.calibration.records import SIGNED_ERROR, accuracy_over, mean_over

METRICS = (
    Metric(
        name="accuracy",
        claim="its accuracy is {value}",
        unit="1",
        better="higher",
        description="Share of clean examples whose likeliest class is the label.",
        per_example=accuracy_over("clean"),
        depends_on=only(),
    ),
    Metric(
        name="accuracy",
        qualifiers=("arm",),
        unit="1",
        better="higher",
        description="The same over the examples of another arm, `attacked`.",
        per_example=accuracy_over("{arm}"),
        depends_on=only(),
    ),
    Metric(
        name="confidence",
        unit="1",
        better="neither",
        description="Mean probability of the likeliest class, over clean examples.",
        per_example=mean_over("clean", "confidence"),
        depends_on=only(),
    ),
    Metric(
        name="ece",
        claim="its calibration error is {value}",
        unit="1",
        better="lower",
        description="Expected calibration error of the likeliest class, in bins of equal width (Guo et al. 2017).",
        depends_on=only("bins"),
    ),
    Metric(
        name="ece",
        qualifiers=("arm",),
        unit="1",
        better="lower",
        description="The same over the examples of another arm, `attacked`.",
        depends_on=only("bins"),
    ),
    Metric(
        name="s_ece",
        unit="1",
        better="neither",
        description="Accuracy less mean confidence: below 0 the model is over-confident, above 0 under-confident.",
        range=SIGNED_SHARE,
        per_example=SIGNED_ERROR,
        depends_on=only(),
    ),
    Metric(
        name="ece_equal_mass",
        unit="1",
        better="lower",
        description="The same error in bins of as many examples each (Nixon et al. 2019, adaptive).",
        depends_on=only("bins"),
    ),
    Metric(
        name="ece_classwise",
        unit="1",
        better="lower",
        description="Mean over classes of the error of the class's own probability (Kull et al. 2019); small with many "
        "classes, most of whose probabilities are near 0.",
        depends_on=only("bins"),
    ),
    Metric(
        name="ks",
        unit="1",
        better="lower",
        description="Kolmogorov-Smirnov calibration error, without bins: the largest absolute running mean of "
        "(correct - confidence) over rising confidence (Gupta et al. 2021).",
        depends_on=only(),
    ),
    Metric(
        name="ks_p",
        unit="1",
        better="neither",
        description="Probability of a larger `ks` were every confidence true: below 0.05 the model is shown to be "
        "miscalibrated.",
        depends_on=only(),
    ),
    Metric(
        name="brier",
        unit="1",
        better="lower",
        description="Brier score over all classes, the mean of sum_k (p_k - [k is the label])^2, from 0 to 2.",
        range=(0.0, 2.0),
        per_example=mean_over("clean", "brier"),
        depends_on=only(),
    ),
    Metric(
        name="nll",
        unit="nat",
        better="lower",
        description="Mean negative log-likelihood of the label; a probability of 0 counts as 2^-52.",
        range=FROM_ZERO,
        per_example=mean_over("clean", "nll"),
        depends_on=only(),
    ),
    Metric(
        name="nll",
        qualifiers=("arm",),
        unit="nat",
        better="lower",
        description="The same over the examples of another arm, `attacked`.",
        range=FROM_ZERO,
        per_example=mean_over("{arm}", "nll"),
        depends_on=only(),
    ),
    Metric(
        name="temperature",
        unit="1",
        better="neither",
        description="Temperature under which the clean labels are likeliest; above 1 the model is over-confident. "
        "Fitted on what it is measured on.",
        range=FROM_ZERO,
        depends_on=only(),
    ),
    Metric(
        name="failure_auroc",
        claim="a wrong answer has a lower confidence than a right one {value} of the time",
        unit="1",
        better="higher",
        description="Probability that a wrong answer has a lower confidence than a right one, ties counting half: 0.5 "
        "says that confidence tells nothing about errors, however small the calibration error is.",
        depends_on=only(),
    ),
    Metric(
        name="aurc",
        unit="1",
        better="lower",
        description="Area under the risk-coverage curve (Geifman et al. 2019): mean error of the surest examples, over "
        "all shares of examples answered.",
        depends_on=only(),
    ),
    Metric(
        name="conformal_coverage",
        unit="1",
        better="higher",
        description="Share of prediction sets that hold the label, on the half of the clean examples that the "
        "threshold was not taken from: 1 - conformal_miss is promised.",
        depends_on=only("conformal_miss"),
    ),
    Metric(
        name="conformal_set_size",
        unit="classes",
        better="lower",
        description="Mean number of classes in these sets: what the promise costs.",
        range=FROM_ZERO,
        depends_on=only("conformal_miss"),
    ),
    Metric(
        name="worst_group_accuracy",
        unit="1",
        better="higher",
        description="Lowest accuracy of any group of at least smallest_group clean examples.",
        depends_on=only("smallest_group"),
    ),
    Metric(
        name="worst_group_ece",
        unit="1",
        better="lower",
        description="Largest expected calibration error, in bins of equal width, of any group of at least "
        "smallest_group clean examples.",
        depends_on=only("bins", "smallest_group"),
    ),
    Metric(
        name="ood_auroc",
        unit="1",
        better="higher",
        description="Probability that an outlier (arm `ood`) has a lower confidence than a clean example, ties "
        "counting half.",
        depends_on=only(),
    ),
    Metric(
        name="ood_fpr95",
        unit="1",
        better="lower",
        description="Share of clean examples flagged at the threshold that flags 95% of the outliers.",
        depends_on=only(),
    ),
)
