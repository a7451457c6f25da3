"""Doubts that checks of ``low_level_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="nothing_measured",
        severities=("error",),
        speaks_of=("*",),
        meaning="No example was answered both without noise and under the attackers that can be compared: nothing is "
        "known of the model under noise.",
        remedy="Fix what the message says, and run the audit again.",
    ),
    FlagSpec(
        code="noise_changed_nothing",
        severities=("error",),
        speaks_of=("*",),
        meaning="At the highest level no attacker changed a noteworthy share of the tokens: the texts are in a script "
        "or a language the attackers do not know, or their words are too short. Nothing was tested.",
        remedy="Choose attackers that fit the texts, or leave the check out.",
    ),
    FlagSpec(
        code="answers_unmoved",
        severities=("error", "warning"),
        speaks_of=("score", "relative_score", "flip_rate", "worst_case_score"),
        meaning="Texts that changed are answered, bit for bit, as the originals were: the model does not see the "
        "noise, or something before it undoes it.",
        remedy="Check the request template, the tokenizer and the endpoint; where a normaliser does it on purpose, "
        "say so of the model as it is served, that step included.",
    ),
    FlagSpec(
        code="attackers_left_out",
        severities=("error",),
        speaks_of=("rank", "worst_case_score", "mean_relative_score", "edit_correlation"),
        meaning="Under some attackers less than half of the examples were answered. The worst case and the mean over "
        "attackers are without them, and so higher than they should be.",
        remedy="Give the endpoint a larger budget or more time, or leave the attackers out.",
    ),
    FlagSpec(
        code="attackers_not_asked",
        severities=("warning",),
        speaks_of=("mean_relative_score", "worst_case_score"),
        meaning="Some attackers were not asked for: the mean over attackers and the worst case are of the others "
        "alone, which may be the mild ones.",
        remedy="Audit with `attackers: all`, the default, or judge the attackers by themselves.",
        of_scope=True,
    ),
    FlagSpec(
        code="mild_noise",
        severities=("warning",),
        speaks_of=("score", "relative_score", "mean_relative_score", "worst_case_score"),
        meaning="Attacked words are hit less hard than the highest level says, as phi is less than that, or fewer of "
        "them are attacked, as words are selected by the paper's text.",
        remedy="Leave phi and selection out, and variant at `code`, which made the published numbers.",
        of_scope=True,
    ),
    FlagSpec(
        code="errored_examples",
        severities=("warning", "info"),
        speaks_of=("score", "relative_score", "worst_case_score"),
        meaning="Examples errored and are in none of the numbers concerned. If long or odd texts err more often than "
        "others, the scores are higher than those of all texts.",
        remedy="Fix what the message says.",
    ),
    FlagSpec(
        code="score_at_chance",
        severities=("warning",),
        speaks_of=("relative_score", "mean_relative_score", "score"),
        meaning="Without noise the score is not shown to be above guessing. A model with nothing to lose keeps all of "
        "it under noise.",
        remedy="Audit more examples, or check labels and tokenizer.",
    ),
    FlagSpec(
        code="little_noise",
        severities=("warning",),
        speaks_of=("score", "relative_score"),
        meaning="Some attackers changed so few tokens that their score says little: short words, words no lexicon "
        "has, or another script leave them nothing to do.",
        remedy="Do not gate on them, or choose lexicons that fit the language.",
    ),
    FlagSpec(
        code="level_not_reached",
        severities=("warning", "info"),
        speaks_of=("score", "relative_score", "mean_relative_score", "worst_case_score"),
        meaning="Texts of few words, or of a script without spaces, had far more of their characters changed than the "
        "level says: the scores are those of harder noise. It is a warning where most texts are affected.",
        remedy="Compare the scores with those of such texts only, or audit longer ones.",
    ),
    FlagSpec(
        code="confident_under_noise",
        severities=("info",),
        speaks_of=("ece", "mean_confidence"),
        meaning="Under noise the score falls while confidence stays: it does not reveal that the input is damaged.",
        remedy="Calibrate on noisy texts, or detect noise before the model; a threshold on confidence will not catch "
        "it.",
    ),
    FlagSpec(
        code="tokens_unanswered",
        severities=("warning", "info"),
        speaks_of=("score", "flip_rate"),
        meaning="Under noise some tokens have no tag any more: sentences became longer than the model takes, or "
        "tokens of nothing the tokenizer knows. They count as wrong.",
        remedy="Raise the model's maximum length, or split sentences.",
    ),
    FlagSpec(
        code="classes_left_out",
        severities=("warning",),
        speaks_of=("score", "relative_score"),
        meaning="Some labels are on all texts of the sample, or on none, and have no AUROC: the macro mean is over "
        "the others.",
        remedy="Audit more examples to judge rare labels.",
    ),
    FlagSpec(
        code="ranks_unclear",
        severities=("info",),
        speaks_of=("rank",),
        meaning="The intervals of several ranks overlap with that of the first: which attacker does most harm cannot "
        "be told.",
        remedy="Do not rely on their order; audit more examples to settle it.",
    ),
    FlagSpec(
        code="worst_of_draws",
        severities=("info",),
        speaks_of=("persistent_score", "worst_case_score"),
        meaning="These scores are of the worst of several draws for each example, and fall with every further draw.",
        remedy="Compare them with those of as many draws only; score is that of the first draw.",
    ),
)
