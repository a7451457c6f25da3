"""Doubts about the model, the data and the baseline, which a check of any family may carry."""

from seatrial.contracts.family import FlagSpec

SHARED: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="non_deterministic",
        severities=("warning",),
        speaks_of=("*",),
        meaning="The model answered the same batch differently in evaluation mode: it draws random numbers. Gradients "
        "are noisy and a single success may be luck.",
        remedy="Fix the randomness, or read every rate as one draw.",
    ),
    FlagSpec(
        code="depends_on_company",
        severities=("error",),
        speaks_of=("*",),
        meaning="Inputs have other probabilities by themselves than in a batch: the model is another one for whoever "
        "asks otherwise than an audit does, and no number is about that.",
        remedy="Let every input be answered as if it were alone: no statistics of the batch, nothing that counts it.",
    ),
    FlagSpec(
        code="chosen_salt",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Whoever asked for the audit of a model behind a URL gave its salt too: the model may know which edits "
        "it will be asked about.",
        remedy="Leave `salt` out, which the service then draws; give one only to run an earlier audit again.",
    ),
    FlagSpec(
        code="left_out",
        severities=("warning",),
        speaks_of=("*",),
        meaning="More than 5 % of the examples of a stage errored, as the audit allowed: they are left out of means, "
        "and a model may err just where an attack succeeds.",
        remedy="Find out why they errored, and audit with max_error_rate at its default of 0.05.",
    ),
    FlagSpec(
        code="probabilities_instead_of_logits",
        severities=("warning",),
        speaks_of=("*",),
        meaning="The outputs look like probabilities, and a second softmax or sigmoid over them makes every "
        "confidence wrong.",
        remedy="Export the model without its softmax or sigmoid.",
    ),
    FlagSpec(
        code="labels_exclude_each_other",
        severities=("warning",),
        speaks_of=("*",),
        meaning="The probabilities of each text's labels sum to 1, as those of a softmax do, although a text may have "
        "several labels.",
        remedy="Use a sigmoid, or the task text-classification if a text has exactly one class.",
    ),
    FlagSpec(
        code="constant_predictions",
        severities=("warning",),
        speaks_of=("*",),
        meaning="The model predicts the same class, or the same labels, for every example looked at, though their "
        "labels differ.",
        remedy="Check the preprocessing (scale, normalisation, tokenizer); if that is right, audit a balanced sample.",
    ),
    FlagSpec(
        code="accuracy_near_chance",
        severities=("warning",),
        speaks_of=("*",),
        meaning="On the examples looked at, the model does no better than guessing, be it one class as often as "
        "another or the frequent ones more often.",
        remedy="Audit more examples; if it stays, check labels, their order and the preprocessing.",
    ),
    FlagSpec(
        code="repeated_examples",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Fewer than nine in ten of the images or texts of the sample are different, or of a table's rows, of "
        "ten columns and more, where one of them is over one in ten: intervals are of examples drawn each by itself, "
        "and one that comes often decides for all. Images whose cells, of 8 by 8, have the same means and ends of "
        "grey, nearly, are the same.",
        remedy="Audit a dataset without copies.",
    ),
    FlagSpec(
        code="one_class",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Fewer than five examples of the sample, or with three classes and more fewer than a tenth and than "
        "50, have another label than the most frequent one: next to nothing is known of the other classes, and "
        "whoever may choose the class chooses the one that holds best. It is asked of data of one label each.",
        remedy="Audit a sample with several classes, or more examples of one where the others are rare.",
    ),
    FlagSpec(
        code="small_unit",
        severities=("warning",),
        speaks_of=(
            *("mus*", "msus*", "nud", "entropy", "confidence", "conformal*", "part_*", "adversarial_accuracy"),
            *("robust_accuracy", "certified_*", "cce*", "cbs", "average_certified_radius", "attacked_span"),
        ),
        meaning="Half of a table's columns deviate over one and a half times as far from their mean as the std of the "
        "manifest says, or the noise of certificates is less than a tenth of such a deviation: radii are smaller than "
        "they look.",
        remedy="Give each column's standard deviation in the training data as std in the model's manifest, and noise "
        "of a tenth of a deviation or more.",
    ),
    FlagSpec(
        code="few_bins",
        severities=("warning",),
        speaks_of=("ece*", "cce*", "acce", "dece", "mce*", "brier_ece", "worst_group_ece"),
        meaning="Calibration errors have fewer than ten bins: in one bin, errors in both directions cancel each other.",
        remedy="Audit with the default of 15 bins.",
        of_scope=True,
    ),
    FlagSpec(
        code="clean_accuracy_differs",
        severities=("warning",),
        speaks_of=("clean_accuracy", "*"),
        meaning="The accuracy stated in the manifest lies outside the interval of the measured one.",
        remedy="Check that preprocessing, labels and dataset are those the accuracy was measured with.",
    ),
    FlagSpec(
        code="label_names_differ",
        severities=("info",),
        speaks_of=("*",),
        meaning="Dataset and model name their classes differently, so the order of the classes could not be compared.",
        remedy="Give both the same names to have the order checked.",
    ),
    FlagSpec(
        code="labels_not_annotated",
        severities=("warning",),
        speaks_of=("*",),
        meaning="The model gives labels the dataset does not name: these count as absent from every text.",
        remedy="Use a dataset annotated with all of the model's labels, or remove the others from the model.",
    ),
    FlagSpec(
        code="unknown_tokens",
        severities=("warning",),
        speaks_of=("*",),
        meaning="A large share of the tokens is unknown to the model's tokenizer, which sees no difference between "
        "them: attacks that write unknown words change little.",
        remedy="Check that the tokenizer is the one the model was trained with.",
    ),
    FlagSpec(
        code="texts_truncated",
        severities=("warning", "info"),
        speaks_of=("*",),
        meaning="Some texts are longer than the model's maximum, so it does not see their ends. Searches do not edit "
        "what it does not see, and noise there changes nothing.",
        remedy="Split long texts, or raise the model's maximum length if it was trained for more.",
    ),
    FlagSpec(
        code="computed_in_bfloat16",
        severities=("warning", "info"),
        speaks_of=("*",),
        meaning="The model is computed in bfloat16, as its manifest asks: some of its decisions may differ from those "
        "in float32.",
        remedy="Audit it in the precision it is served in. Leave precision out of the manifest for float32.",
    ),
    FlagSpec(
        code="unanswered_texts",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Some texts have no scores. They count as wrong without an attack, as errored under one, never as "
        "robust.",
        remedy="See the reason in the message: the endpoint's limits, its request template, or the texts themselves.",
    ),
    FlagSpec(
        code="sampled_votes",
        severities=("warning",),
        speaks_of=("*",),
        meaning="A language model's scores are shares of sampled answers: the same text has others the next time. "
        "No shipped policy passes a model on them.",
        remedy="Ask for log probabilities where the server has them.",
    ),
    FlagSpec(
        code="labels_not_listed",
        severities=("error", "warning", "info"),
        speaks_of=("*",),
        meaning="On some texts a label was not among the tokens that the language model's server listed. Its "
        "probability then lies between 0 and the smallest one listed, and the midpoint is used; texts whose class "
        "could change by that count as unanswered. It is a warning from 1 % of the texts on, and from 5 % an error, "
        "which no shipped policy passes.",
        remedy="Add the words the model writes for the label, or ask for more tokens (top_logprobs).",
    ),
    FlagSpec(
        code="labels_unlikely",
        severities=("warning", "info"),
        speaks_of=("*",),
        meaning="On some texts the language model would hardly answer with any of the labels, and scores are shares of "
        "the little probability they have. It is a warning from 5 % of the texts on.",
        remedy="Change the template, or the words of the labels.",
    ),
    FlagSpec(
        code="logprobs_scale",
        severities=("warning", "info"),
        speaks_of=("*",),
        meaning="One prompt, asked at two temperatures, tells whether the server lists log probabilities before or "
        "after temperature. Seatrial asks at temperature 1, where both are the same. It is a warning where they are "
        "neither.",
        remedy="Where they are neither, find out what the server lists before relying on confidences.",
    ),
    FlagSpec(
        code="unanswered_images",
        severities=("warning",),
        speaks_of=("*",),
        meaning="An endpoint gave some images no scores. They count as wrong without an attack, as errored under one, "
        "never as robust.",
        remedy="See the reason in the message: the endpoint's limits, its request template, or the images themselves.",
    ),
    FlagSpec(
        code="sent_as_png",
        severities=("info",),
        speaks_of=("*",),
        meaning="Images were sent to the endpoint as PNG, so every pixel, and with it every distance and radius, is on "
        "the 256 levels of 8 bits. A certificate is about the model behind that rounding.",
        remedy="Where the model takes floats, set image_format to floats.",
    ),
    FlagSpec(
        code="tokens_untagged",
        severities=("warning", "info"),
        speaks_of=("*",),
        meaning="Some tokens get no tag even without an attack: they lie beyond the model's maximum length, or its "
        "tokenizer drops them. They count in no number.",
        remedy="Split long sentences to have all tokens judged.",
    ),
    FlagSpec(
        code="other_dataset",
        severities=("warning",),
        speaks_of=("*",),
        meaning="A baseline was measured on another dataset: which of the two is harder is part of the difference.",
        remedy="Audit the baseline's model on this dataset, and promote that audit.",
    ),
    FlagSpec(
        code="mixed_code",
        severities=("warning",),
        speaks_of=("*",),
        meaning="Workers of several versions measured the check: where the versions compute a number differently, it "
        "lies between what each would give.",
        remedy="Audit again with workers of one version; leave SEATRIAL_MIX_CODE off.",
    ),
    FlagSpec(
        code="mixed_hardware",
        severities=("info",),
        speaks_of=("*",),
        meaning="Several types of processors or GPUs measured the check: iterative numbers differ in their last "
        "digits between them, so a replay on one type may not give the same bytes.",
        remedy="Where bytes matter, give the check workers of one type.",
    ),
)
