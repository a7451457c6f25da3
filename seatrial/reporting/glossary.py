"""What the terms of a report mean, in one place and in plain words."""

GLOSSARY: dict[str, str] = {
    "adversarial accuracy": "Share of all examples still classified rightly while an attacker changes them within the "
    "stated limits. Examples already wrong count as wrong, examples that errored are never counted as right.",
    "attack radius (epsilon)": "How far an attacker may change an input. In l_inf every pixel (on the scale 0 to 1) "
    "moves by at most epsilon; in l_2 the whole change has at most that length.",
    "clean": "Unattacked: the data as they are.",
    "confidence": "The probability the model gives to the class it predicts.",
    "confidence interval": "Where the number lies with 95% certainty, as far as the sample tells: another sample "
    "of the same data gives another number, mostly within it. It says nothing about other data or stronger attacks.",
    "entropy": "How uncertain a prediction is, in nat: 0 when all probability is on one class, log C when all C "
    "classes are equally likely.",
    "ECE": "Expected calibration error: how far confidence and accuracy lie apart on average, over confidence bins. "
    "0 is perfect. A model with ECE 0.1 is typically wrong by ten points about how often it is right.",
    "s-ECE": "Signed ECE, accuracy minus confidence. Negative: over-confident, it claims more than it achieves. "
    "Positive: under-confident.",
    "MCE": "Maximum calibration error: the worst confidence bin instead of the average one. Small bins make it noisy.",
    "Brier score": "Mean squared difference between confidence and being right (1) or wrong (0); 0 is best.",
    "MUS": "Mean uncertainty span: how far an attacker can move the entropy of an example between lowest and highest, "
    "on average. 0: the uncertainty cannot be manipulated; log C: it means nothing under attack.",
    "MSUS": "Mean squared uncertainty span: as MUS, with large spans weighing more.",
    "NUD": "Normalised uncertainty difference: the change of entropy under attack, relative to what was left up to "
    "log C.",
    "over-confidence attack": "Changes an input so that the model becomes surer of what it predicts already, right or "
    "wrong.",
    "under-confidence attack": "Changes an input so that the model becomes unsure; the prediction may change.",
    "label-preserving attack": "Changes the confidence and leaves the predicted class as it is, so accuracy does not "
    "move.",
    "masked gradients": "A model from which an attack gets no useful direction. It looks robust and is not: another "
    "attack gets through.",
    "saturated softmax": "Logits so large that probabilities round to exactly 0 and 1 in 32-bit numbers; gradients "
    "vanish, and an attack that needs them stands still.",
    "AUROC": "How well entropy tells outliers from ordinary data: 1 always, 0.5 not at all, below 0.5 the wrong way "
    "round.",
    "AUPR-in, AUPR-out": "Area under the precision-recall curve with ordinary data, or outliers, as the class sought.",
    "FPR95": "Share of ordinary data wrongly flagged when the threshold flags 95% of outliers.",
    "flag": "A doubt about the numbers themselves. Read flags before numbers.",
    "temperature": "A number the logits are divided by before the softmax. It changes how sure the model sounds and "
    "never which class it picks: below 1 surer, above 1 less sure.",
    "calibration": "Choosing the temperature at which confidence agrees best with accuracy on examples set aside "
    "(maximum likelihood).",
    "as served": "Attacked through the scores the model gives as it is deployed, in the 32-bit arithmetic an attacker "
    "gets; the other ways are computed in 64 bits.",
    "calibrated": "Attacked through the scores at the temperature at which the model is calibrated; the texts found "
    "are judged by the unmodified model.",
    "calibrated as in the paper": "Attacked through the scores at the temperature the paper's own optimiser (LBFGS "
    "from 1.5) ends at, which need not be the best one; the texts found are judged by the unmodified model.",
    "optimized": "Attacked through the scores at the temperature at which DeepWordBug does most harm to examples set "
    "aside; the texts found are judged by the unmodified model.",
    "Platt scaling": "Attacked through scores with a factor and an offset per class (vector), or a whole matrix and an "
    "offset, fitted on examples set aside. That may change which class is picked, so the texts found are judged by the "
    "unmodified model.",
    "transfer": "Texts found by attacking another model, judged by this one.",
    "illusion gap": "Adversarial accuracy as served minus the lowest found in another way on the same texts: "
    "robustness that comes from a hindered attack, not from the model. 0 is honest.",
    "McNemar's test": "Looks at the texts on which two ways of attacking disagree. p is how often chance alone would "
    "divide them so unevenly; below 0.05 it is no chance.",
    "attack success rate": "Share of the examples right before the attack that are wrong after it.",
    "queries": "How often an attack asks the model about a variant of one text.",
    "worst recipe per text": "A text counts as held only if no recipe fooled the model with it; an attacker would try "
    "all.",
    "DeepWordBug": "Misspells the words that matter most: swaps, replaces, deletes or inserts one letter (Gao et al. "
    "2018, arXiv:1801.04354).",
    "PWWS": "Replaces words by WordNet synonyms, the most salient and most effective first (Ren et al. 2019, "
    "P19-1103).",
    "TextFooler": "Replaces important words by neighbours in a word embedding that keep part of speech and the "
    "sentence's meaning (Jin et al. 2019, arXiv:1907.11932).",
    "BAE": "Replaces words by what a masked language model would put in their place (Garg and Ramakrishnan 2020, "
    "arXiv:2004.01970).",
    "TextBugger": "Mixes misspellings, look-alike letters and replacement words (Li et al. 2018, arXiv:1812.05271).",
    "Pruthi": "A few typing errors: swapped, dropped, added and neighbouring keys (Pruthi et al. 2019, "
    "arXiv:1905.11268).",
    "input reduction": "Leaves out words as long as the prediction stays, until what is left means nothing to a "
    "reader (Feng et al. 2018, arXiv:1804.07781).",
    "IGA": "Breeds combinations of synonyms with an improved genetic algorithm (Wang et al. 2019, arXiv:1909.06723).",
    "randomized smoothing": "Serving, in place of a network, what it says of many copies of the input with Gaussian "
    "noise (standard deviation sigma) added: the class most copies are given, and the mean score of that class as its "
    "confidence. Neither can change much between inputs close to each other; that much can be proven (Cohen et al. "
    "2019, arXiv:1902.02918). The class of the largest mean score may be another, and is not the one certified.",
    "certified radius": "The l_2 length of change, on pixels from 0 to 1, up to which no attacker whatsoever can "
    "change the smoothed model's class for an example.",
    "certified accuracy": "Share of all examples whose class is right and proven to stay so within a radius. A floor "
    "for the accuracy under any attack of that length; abstentions count as wrong.",
    "average certified radius": "Mean certified radius over all examples, 0 where the class is wrong or the model "
    "abstains.",
    "abstention": "The draws do not show that one class wins under noise more than half of the time, so nothing is "
    "certified of the example. The accuracy without an attack asks for less, that one class wins more often than any "
    "other, and has abstentions of its own.",
    "CCE": "Certified calibration error: the largest ECE that their certified confidence intervals leave possible on "
    "the examples certified at a radius, found exactly. It is a ceiling: no attacker within the radius can do worse, "
    "none need be able to do as much. The system-level CCE (cce_system) is over all examples and lets those "
    "not certified become right or wrong with any confidence down to 1 / classes^2, the least a class with the most "
    "votes can have (Emde et al.).",
    "certified Brier score": "The largest Brier score that their certified confidence intervals leave possible on the "
    "examples certified at a radius; a ceiling like the CCE.",
    "Brier confidences": "Confidences that make the Brier score worst: the lowest where the class is right, the "
    "highest where it is wrong. Their ECE (brier_ece) is no more than the CCE, so it is no guarantee.",
    "ADMM (ACCE)": "The solver by which the paper approximates the CCE. It ends at or below it, so what it finds "
    "(acce) is no guarantee; reported to compare with the paper.",
    "dECE": "A differentiable ECE, raised by gradient ascent within the certified intervals. What it finds is no more "
    "than the CCE, so it is no guarantee; reported to compare.",
    "alpha": "Probability that noise drawn by bad luck makes a certificate wrong. Per example: each certificate errs "
    "with that probability, so among many some may. Jointly: all hold at once but with that probability. It is not "
    "the 95% of the confidence intervals, which say how much another sample of examples would differ.",
    "CDF certificate, Standard certificate": "Two ways to bound an example's confidence within a radius: from the "
    "distribution of its scores under noise (CDF, tighter) or from their mean alone (Standard; Kumar et al. 2020, "
    "arXiv:2009.08061).",
    "shared noise": "All examples see the same draws of noise, which is fastest. Each certificate holds as if it had "
    "draws of its own, but where luck is bad it is bad for many at once.",
    "adaptive sampling": "Drawing noise for an example only until it is settled at which radii it is certified. Its "
    "intervals are anytime-valid: they hold whenever the draws end, and are wider for it.",
    "ACE attack": "Changes the input, within the radius, so that the smoothed confidence in the true or in the "
    "predicted class falls or rises. What it reaches is a floor for the worst case, the CCE its ceiling.",
    "static model": "The model as it was trained, without a defence: what a defence has to improve on.",
    "test-time defence": "Changes the model while it is being used, to fit the very inputs it is asked about. These "
    "may be an attacker's, so it is judged by attacks that expect it to adapt (Chen et al. 2021, arXiv:2110.14735).",
    "adaptive attack": "Made with knowledge of the defence, by simulating it or through its gradient. The lowest "
    "number under such an attack says what the defence is worth; attacks made on the static model alone do not.",
    "transferred attack": "Made on the static model, then sent to the defended one. The attacker ignores the defence, "
    "so what is left is no evidence that it holds.",
    "AutoAttack": "Three attacks that follow gradients and one that does not, each only on the examples still right "
    "(Croce and Hein 2020, arXiv:2003.01690). Made for models that do not change while they are attacked.",
    "APGD, FAB, Square": "The attacks of AutoAttack. APGD follows the gradient of a loss (the cross-entropy, or DLR, a "
    "ratio of logits that a saturated softmax cannot hide) with steps that shrink by themselves; FAB steps to the "
    "decision boundary; targeted, both go for one wrong class after the other. Square draws random squares and needs "
    "no gradient.",
    "robust accuracy": "Share of all examples classified rightly that no attack tried could change to wrong. Each "
    "attack tells what it broke; what none broke may still break, so it is an upper bound.",
    "PGD": "Projected gradient descent: many small steps up the gradient of the loss, kept within the attack radius "
    "(Madry et al. 2018, arXiv:1706.06083).",
    "AutoAttack on the defence": "AutoAttack on the defended model itself, adapting at every step. Its examples are "
    "grouped differently when the defence answers them, so it tends to make the defence look better than it is.",
    "FPA": "Fixed point attack: perturbs the inputs, lets a simulated defence adapt to them, attacks the model that "
    "gives, and so on. The round whose own adapted model does worst is sent (Chen et al. 2021).",
    "GMSA": "Greedy model space attack: as FPA, and against all models found so far at once, so that no step undoes "
    "an earlier one. AVG attacks their mean loss, MIN for each example the model that resists most (Chen et al. 2021).",
    "private randomness": "What a defence draws at random after the attacker has moved. The attacker knows how it is "
    "drawn and never what; with several repeats the numbers show how much it matters.",
    "overestimate": "Robustness under attacks made on the static model less the lowest under an adaptive attack, on "
    "the same examples: what an evaluation without adaptive attacks makes up.",
    "gain over static": "Lowest robustness of the defended model under any attack less that of the static model, on "
    "the same examples: what the defence is worth.",
    "rejection": "Refusing to answer. A rejected example counts as answered wrongly, attacked or not.",
    "TENT": "Adapts scale and shift of the normalisation layers so that predictions become surer (Wang et al. 2021, "
    "arXiv:2006.10726). Not made against attackers; here to compare.",
    "DENT": "As TENT, for each input by itself and from the trained weights each time, with predictions also spread "
    "over the classes (Wang et al. 2021, arXiv:2105.08714).",
    "RMC": "Runtime masking and cleansing: trains the model on the training examples closest to each input before it "
    "answers, and keeps what it learned (Wu et al. 2020).",
    "DANN": "Trains a network anew to classify the training data in features that do not tell them from the inputs it "
    "is asked about (Ganin et al. 2016, arXiv:1505.07818).",
    "TADV": "Trains a network anew on perturbed training data, with private randomness, whatever the inputs (Chen et "
    "al. 2021).",
    "URejectron": "Trains a second network to tell training data from the inputs it is asked about, and rejects those "
    "it can tell (Goldwasser et al. 2020, arXiv:2007.05145).",
    "level": "Share of a text's words that noise is put on. The paper calls 0.2 low, 0.5 mid and 0.8 high. At equal "
    "levels attackers change texts to different degrees: the numbers say how much.",
    "relative score": "Score under noise over the score without: what is left of it.",
    "worst case": "Each text met by whichever attacker, and whichever of its draws, does it most harm. Who makes the "
    "noise need not know which that is: trying all of them is enough.",
    "persistent nobody": "Somebody who knows nothing of the model and tries several random draws; the worst counts.",
    "flip rate": "Share of what the model decides (the class of a text, the tag of a token, a label) that it decides "
    "otherwise under noise, whether it was right or wrong before.",
    "edit distance": "Characters to be put in, taken away or replaced to get from one text to the other (Levenshtein), "
    "per character of the text. A tagged sentence is its tokens with one space between.",
    "rank of an attacker": "Its place in harm at the highest level, 1 for the most harmful. Intervals say which places "
    "it takes when other examples are drawn.",
    "chance level": "The score of guessing: one over the number of classes, the share of the most frequent tag, 0.5 "
    "for macro AUROC.",
    "token accuracy": "Share of tokens given the right tag, over all sentences.",
    "macro AUROC": "How well each label's probability tells texts that have it from those that have not (1 always, 0.5 "
    "not at all), averaged over labels.",
    "inner shuffle": "Shuffles the letters of a word between its first and its last.",
    "full shuffle": "Shuffles all letters of a word.",
    "intrude": "Puts a mark of punctuation between letters of a word: s.o, l.i.k.e, this.",
    "disemvowel": "Leaves out the vowels of a word.",
    "truncate": "Leaves out the last letter of a word.",
    "segment": "Leaves out the white space between words.",
    "keyboard typo": "Replaces a letter by one whose key lies beside it.",
    "natural typo": "Replaces a word by a way people have misspelt it.",
    "phonetic": "Respells a word so that it sounds nearly the same.",
    "visual": "Replaces letters by others that look alike, most often of another script.",
    "combined": "Each word it attacks is met by one of the other attackers, drawn anew.",
}
