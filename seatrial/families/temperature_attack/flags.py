"""Doubts that checks of ``temperature_attack`` may raise about their numbers."""

from seatrial.contracts.family import FlagSpec

EVERY_ATTACK = ("adversarial_accuracy", "attack_success_rate", "illusion_gap")
"""What is measured by attacks, whichever they are."""

FLAGS: tuple[FlagSpec, ...] = (
    FlagSpec(
        code="illusion",
        severities=("warning",),
        speaks_of=("adversarial_accuracy", "illusion_gap"),
        shown_by=("illusion_gap",),
        meaning="Part of the accuracy under attack as served demonstrably vanishes in another arm: it comes from "
        "scores that give an attack nothing to follow.",
        remedy="Do not rely on the accuracy as served; compare models by the lowest arm, and serve calibrated scores.",
    ),
    FlagSpec(
        code="nothing_compared",
        severities=("warning",),
        speaks_of=("illusion_gap", "mcnemar_p"),
        meaning="No arm that reads the scores in another way was asked for, or no recipe that tries to change the "
        "prediction: the illusion gap rests on labels alone, or on nothing.",
        remedy="Ask for arms and for a recipe that changes predictions.",
    ),
    FlagSpec(
        code="errored_examples",
        severities=("warning", "info"),
        speaks_of=EVERY_ATTACK,
        meaning="Some examples errored under a recipe and count in none of its numbers. Examples that were right take "
        "more queries, and so error more often, than those that were wrong.",
        remedy="Give attacks more time or queries, or fix what the message says; read the bounds in the message.",
    ),
    FlagSpec(
        code="unfinished_attacks",
        severities=("warning", "info"),
        speaks_of=EVERY_ATTACK,
        meaning="The query budget ended attacks before they were finished. The texts they left standing have not been "
        "shown to withstand them.",
        remedy="Raise query_budget, or leave it out.",
    ),
    FlagSpec(
        code="few_label_queries",
        severities=("warning",),
        speaks_of=EVERY_ATTACK,
        meaning="The search by labels alone, which no score can mislead, had fewer than 50 questions a text: it finds "
        "little, and nothing shows that the scores hide what it would find.",
        remedy="Leave label_queries at its default of 100.",
    ),
    FlagSpec(
        code="saturated_softmax",
        severities=("warning", "info"),
        speaks_of=("adversarial_accuracy",),
        meaning="The served probability of many clean texts is exactly 1. An attack as served cannot tell one word "
        "from another there: that it fails says nothing about the model.",
        remedy="Rely on the calibrated or the optimized arm.",
    ),
    FlagSpec(
        code="underconfident_ties",
        severities=("warning", "info"),
        speaks_of=("adversarial_accuracy",),
        meaning="The two largest served probabilities of some clean texts are equal, although the logits differ or "
        "because the model itself ties; the message says which. As served, attacks may see another prediction than "
        "the model makes and stop too early.",
        remedy="Where the logits differ, rely on the arms that compute in float64; where they tie, on label_only.",
    ),
    FlagSpec(
        code="unrecoverable_scores",
        severities=("error", "warning", "info"),
        speaks_of=("adversarial_accuracy", "illusion_gap", "temperature"),
        meaning="The endpoint gave probabilities of exactly 0. What they were before rounding is lost, and no "
        "temperature restores it. It is a note where few texts have one and the digits of the rounding are known.",
        remedy="Let the endpoint answer with logits, or with log probabilities.",
    ),
    FlagSpec(
        code="degenerate_temperature",
        severities=("warning", "info"),
        speaks_of=("temperature", "adversarial_accuracy"),
        meaning="The fit of an arm did not converge to a temperature, so the arm is not what its name says.",
        remedy="Use more validation examples, some of which the model gets wrong, or rely on another arm.",
    ),
    FlagSpec(
        code="paper_bracket_failed",
        severities=("warning", "info"),
        speaks_of=("temperature", "adversarial_accuracy"),
        meaning="SciPy refuses the paper's bracket on this model, as it does on most; the arm runs at the best "
        "temperature seen.",
        remedy="Use temperature_search = bounded.",
    ),
    FlagSpec(
        code="paper_optimizer_stuck",
        severities=("warning", "info"),
        speaks_of=("temperature", "adversarial_accuracy"),
        meaning="The paper's LBFGS never left its start, or would have crossed zero: that calibration seems not to "
        "help is the optimiser's doing.",
        remedy="Rely on arm calibrated, which solves the same problem exactly.",
    ),
    FlagSpec(
        code="calibration_did_not_help",
        severities=("info",),
        speaks_of=("illusion_gap",),
        meaning="Calibration reveals hardly any of an illusion that another arm shows.",
        remedy="Judge by the lowest arm.",
    ),
    FlagSpec(
        code="optimized_beats_calibrated",
        severities=("info",),
        speaks_of=("illusion_gap",),
        meaning="Arm optimized takes more accuracy than calibration does: calibrating the model removes part of the "
        "illusion only.",
        remedy="Judge by the lowest arm.",
    ),
    FlagSpec(
        code="calibration_falls_short",
        severities=("info",),
        speaks_of=("illusion_gap",),
        meaning="Another arm takes more accuracy than calibration does: calibrating the model removes part of the "
        "illusion only.",
        remedy="Judge by the lowest arm.",
    ),
    FlagSpec(
        code="few_validation_examples",
        severities=("warning",),
        speaks_of=("temperature", "adversarial_accuracy", "illusion_gap"),
        meaning="The fitted arms rest on so few validation examples that a temperature is uncertain by a factor of two "
        "or more.",
        remedy="Raise validation_samples, or give a validation_dataset.",
    ),
    FlagSpec(
        code="search_disagreement",
        severities=("warning", "info"),
        speaks_of=("search_success_rate", "adversarial_accuracy"),
        meaning="In some arms an attack counts successes the unmodified model does not share, or misses some: the "
        "scores it saw tie, or are reordered by rounding or by Platt scaling. Such an attack may have stopped too "
        "early.",
        remedy="Read adversarial accuracy, which is the unmodified model's, as an upper bound in these arms.",
    ),
    FlagSpec(
        code="uninformative_scores",
        severities=("error", "warning"),
        speaks_of=EVERY_ATTACK,
        meaning="The scores hardly guide an attack: they take few distinct values, most one-letter edits move none of "
        "them, many texts share one confidence, texts one letter apart differ as much as unrelated ones, or edits move "
        "them in other directions than a surrogate trained on the decisions. It is an error where an attack that sees "
        "labels alone leaves significantly less than every attack that reads scores.",
        remedy="Judge by the arm label_only, with more label_queries, or serve the model's own scores.",
    ),
    FlagSpec(
        code="answers_depend_on_history",
        severities=("error",),
        speaks_of=("*",),
        meaning="Answers depend on what was asked before, or beside it. The same text got another answer after its "
        "neighbours had been asked, by itself, or in another session; scores stand still, or decisions persist, "
        "where a path of edits was asked first; both move less after the audit's other questions than before "
        "them; edited texts have another answer by then, or edits drawn anew move two halves of them alike; an "
        "edited text is decided like its original once that was asked; texts pieced together are decided rightly "
        "less often once an edited one was; texts that were probed for a memory, or never asked as they are, "
        "withstand less than others; edited texts are decided rightly less often, or speak for their classes less "
        "for what their pieces say, where they are sent once and nothing near to them was asked about before than "
        "where their texts are attacked; much misspelt texts that withstand are decided rightly more often "
        "after their attack than before it; or edited texts that nothing alike was asked about, after ordinary ones in "
        "a row, have another answer, or one apart from those about such texts, once there was; or edits by what "
        "words say in other texts do otherwise to texts that were asked as they are than to others, or light edits of "
        "sentences otherwise before words are asked about than after it. A cache, a session, the rest of a request or "
        "chance answers in the model's place.",
        remedy="Audit the model without whatever remembers its questions, or answers several at once otherwise than "
        "each.",
    ),
    FlagSpec(
        code="memorised_texts",
        severities=("error",),
        speaks_of=("adversarial_accuracy", "attack_success_rate", "illusion_gap", "clean_accuracy"),
        meaning="As they are, texts withstand the search that sees labels alone; with reference numbers beside them, "
        "or pieced together from several texts of their class, they no longer do. The model, or something in front of "
        "it, knows these very texts.",
        remedy="Audit texts the model has not seen, and without caches or filters that recognise texts.",
    ),
    FlagSpec(
        code="meaning_free_edits",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="More than three in ten texts that withstand a recipe (lower end of the interval) change class after "
        "an edit that leaves alone what they say: a full stop more or less, two spaces, a word twice, an invisible "
        "character, misspelt stop words, an idle sentence. The model withstands the recipes' edits and no others.",
        remedy="Do not rely on its robustness; clean texts for serving as they are cleaned for the model's training, "
        "and audit again.",
    ),
    FlagSpec(
        code="marked_words",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="Texts that withstand a recipe change class, or have no answer, when words of theirs are written "
        "otherwise as a reader reads past, in 45 ways (in quotes or brackets, as tags, with accents or digits, in "
        "capitals, stuttered, run together, on lines of their own; all words, those that an attack changed, or words "
        "and ways as they are drawn), and do not when each of the same words has a typing error. More than two in ten "
        "in one way (lower end of the interval, corrected for the ways), or more than three in ten in any, and one in "
        "ten of all texts. Or texts that withstand all attacks do so at one of some 150 signs around, in front of or "
        "behind the words that their decision hangs on, more than two in ten of those it was not chosen by, and keep "
        "their class with a typing error in each of the same words. The model withstands the recipes' errors and turns "
        "round, or gives up, at others.",
        remedy="Do not rely on its robustness to what people type; normalise texts for serving as for its training, "
        "and audit again.",
    ),
    FlagSpec(
        code="worse_than_unreadable",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="A thousand ways to write words, or the gaps between them, are drawn from a grammar (a sign, a letter, "
        "another case; where in a word or between two; of which words) and asked of texts that withstand all attacks. "
        "In one of them more than three in twenty of the texts it was not chosen by (lower end of the interval, "
        "corrected for the ways) change class, or have no answer, and keep it where letters drawn at random stand in "
        "the place of the same words. Not to understand how words are written does less harm: the model reads that way "
        "for something else.",
        remedy="Do not rely on its robustness; find out what becomes of words that are written so before they reach "
        "the model, and audit again.",
    ),
    FlagSpec(
        code="worse_than_missing",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="Texts that withstand all attacks and keep their class without some of their words (half, a quarter, "
        "or a quarter in a row) change class, or have no answer, where letters drawn at random stand in the place of "
        "the same words, in both of two draws; more than two in ten do (lower end of the interval, corrected). A model "
        "that cannot read a word passes over it; this one takes it for something, or gives up, and withstands the "
        "recipes' errors alone.",
        remedy="Do not rely on its robustness; find out what the model, or what stands before it, makes of words it "
        "does not know, and audit again.",
    ),
    FlagSpec(
        code="arbitrary_when_edited",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="After some of its words are edited at random, without a search, a text keeps its class hardly more "
        "often than by chance (Cohen's kappa, upper end of the interval below 0.3): all texts with unknown words may "
        "be given one class, or something else decides that no edit can move.",
        remedy="Do not rely on its robustness; find out what decides about texts with typing errors, or unusual "
        "letters, in the model's place.",
    ),
    FlagSpec(
        code="one_sided_decisions",
        severities=("warning",),
        speaks_of=EVERY_ATTACK,
        meaning="Fewer than 10 of the texts that are probed (the first 64) are decided for another class than the "
        "commonest. Nothing tells then whether edited texts are read, or all given that class.",
        remedy="Audit a sample with more texts of other classes.",
    ),
    FlagSpec(
        code="controls_unanswered",
        severities=("error",),
        speaks_of=EVERY_ATTACK,
        meaning="The endpoint answers what attacks write, and has no answer to more than one in twenty of the texts "
        "that would tell whether it knows the audited ones: beside reference numbers, or pieced together.",
        remedy="See why they are not answered: limits of length, or a filter; and audit without it.",
    ),
    FlagSpec(
        code="masked_importance",
        severities=("info",),
        speaks_of=("importance_correlation",),
        meaning="As served, every word of some texts has the same importance, while calibrated scores tell words "
        "apart. Such texts count as a correlation of 0.",
        remedy="Read masked_importance beside the correlation.",
    ),
    FlagSpec(
        code="weak_attack",
        severities=("warning", "info"),
        speaks_of=EVERY_ATTACK,
        meaning="A recipe could hardly write anything under its constraints, or ran into its limit of edits on most "
        "texts. That a text withstands it is no sign of robustness. A recipe with too few candidates is given no "
        "accuracy of its own either. It is a warning where no other recipe could do more.",
        remedy="Ask for a recipe that can do more, install the resources it was published with, or give edit_share "
        "where a limit of edits held it back.",
    ),
    FlagSpec(
        code="one_part_edited",
        severities=("warning", "info"),
        speaks_of=EVERY_ATTACK,
        meaning="In pairs of texts one part was left unedited, because the recipe was published that way (textfooler) "
        "or because of `pair_parts`: what edits of that part do is not known. It is a note where another recipe edited "
        "both.",
        remedy="Set pair_parts to both where an attacker may write both, or add a recipe that edits both.",
    ),
    FlagSpec(
        code="resources_differ",
        severities=("error",),
        speaks_of=("adversarial_accuracy", "attack_success_rate"),
        meaning="Workers ran a recipe with different resources: its numbers mix them.",
        remedy="Give all workers the same SEATRIAL_RESOURCES, and audit again.",
    ),
    FlagSpec(
        code="recipe_variant",
        severities=("info",),
        speaks_of=("adversarial_accuracy", "attack_success_rate"),
        meaning="A recipe ran with a substitute for a resource of the original.",
        remedy="Compare its numbers with those of the same variant only, or install the resource.",
    ),
)
