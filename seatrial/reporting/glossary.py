"""The meaning of the terms a report uses, in plain words."""

GLOSSARY: dict[str, str] = {
    "adversarial accuracy": "Fraction of all examples still classified correctly when an attacker perturbs them "
    "within the stated limits. Examples that were misclassified to begin with count as wrong; examples that errored "
    "are never counted as correct.",
    "attack radius (epsilon)": "How far an attacker may change an input. In l_inf each pixel (on a scale from 0 to 1) "
    "changes by at most epsilon; in l_2 the perturbation as a whole has at most that norm.",
    "clean": "Unattacked: the data as they are.",
    "confidence": "The probability the model assigns to the class it predicts.",
    "confidence interval": "The range in which the true value lies with 95% confidence: another sample from the same "
    "data would give a different number, usually within it. It leaves room for an example that was not seen: a sample "
    "without a mistake proves no perfection. It says nothing about other data or about stronger attacks.",
    "entropy": "How uncertain a prediction is, in nat: 0 when all probability is on one class, log C when all C "
    "classes are equally likely.",
    "ECE": "Expected calibration error: the average gap between confidence and accuracy over confidence bins; 0 is "
    "perfect. At an ECE of 0.1, confidence typically misses accuracy by ten percentage points.",
    "s-ECE": "Signed ECE, accuracy minus confidence. Negative: over-confident, the model claims more than it "
    "achieves. Positive: under-confident.",
    "MCE": "Maximum calibration error: the gap of the worst confidence bin instead of the average. Noisy when bins "
    "are small.",
    "Brier score": "Mean squared difference between the confidence and whether the prediction was right (1) or wrong "
    "(0); 0 is best.",
    "MUS": "Mean uncertainty span: the distance between the lowest and the highest entropy an attacker can give an "
    "example, averaged over examples. At 0 the uncertainty cannot be manipulated; at log C it is meaningless under "
    "attack.",
    "MSUS": "Mean squared uncertainty span: as MUS, but large spans weigh more.",
    "NUD": "Normalised uncertainty difference: the change in entropy under attack, relative to the room left up to "
    "log C.",
    "over-confidence attack": "Perturbs an input so that the model becomes more confident in what it already "
    "predicts, right or wrong.",
    "under-confidence attack": "Perturbs an input so that the model becomes uncertain; the prediction may change.",
    "aleatoric and epistemic uncertainty": "The entropy of a mean of several predictions is their mean entropy "
    "(aleatoric: each is unsure) and the mutual information of class and prediction (epistemic: they disagree).",
    "label-preserving attack": "Changes the confidence but not the predicted class, so accuracy is unaffected.",
    "masked gradients": "The gradients give an attack no useful direction. Such a model looks robust without being "
    "so: a different attack succeeds.",
    "saturated softmax": "Logits so large that probabilities round to exactly 0 and 1 in 32-bit arithmetic: gradients "
    "vanish, and attacks that follow them make no progress.",
    "AUROC": "How well entropy separates outliers from in-distribution data: 1 is perfect, 0.5 is chance, below 0.5 "
    "outliers look more certain than ordinary data.",
    "AUPR-in, AUPR-out": "Area under the precision-recall curve with in-distribution data, or outliers, as the "
    "positive class.",
    "FPR95": "Fraction of in-distribution data wrongly flagged at the threshold that flags 95% of the outliers.",
    "flag": "A warning about the numbers themselves. Read the flags before the numbers.",
    "temperature": "A number by which the logits are divided before the softmax. It changes how confident the model "
    "appears, never which class it predicts: below 1 more confident, above 1 less.",
    "calibration": "Choosing the temperature at which confidence matches accuracy best on held-out examples (maximum "
    "likelihood).",
    "as served": "Attacked through the scores of the model as deployed, in the 32-bit arithmetic an attacker sees; "
    "the other arms are computed in 64 bits.",
    "calibrated": "Attacked through the scores at the temperature that calibrates the model; the resulting texts are "
    "evaluated on the unmodified model.",
    "calibrated as in the paper": "Attacked through the scores at the temperature where the paper's own optimiser "
    "(LBFGS started at 1.5) stops, which need not be the optimum; the resulting texts are evaluated on the unmodified "
    "model.",
    "optimized": "Attacked through the scores at the temperature at which DeepWordBug is most effective on held-out "
    "examples; the resulting texts are evaluated on the unmodified model.",
    "Platt scaling": "Attacked through scores with a scale and an offset per class (vector), or a full matrix and an "
    "offset, fitted on held-out examples. This may change the predicted class, so the resulting texts are evaluated "
    "on the unmodified model.",
    "transfer": "Texts found by attacking another model, evaluated on this one.",
    "labels only": "Attacked by a random search that is told the model's labels and no scores, with the edits of "
    "DeepWordBug and Zéroe under the recipe's constraints. No score can hide anything from it; on a model whose scores "
    "are honest it finds less than an attack that reads them.",
    "illusion gap": "Adversarial accuracy as served minus the lowest accuracy under any other arm on the same texts: "
    "apparent robustness that comes from a hindered attack and not from the model. 0 means no illusion.",
    "McNemar's test": "Compares two arms on the texts where they disagree. p is the probability that chance alone "
    "splits the disagreements this unevenly; below 0.05 the difference is significant.",
    "attack success rate": "Fraction of the initially correct examples that the attack turns wrong.",
    "queries": "How often an attack queries the model for variants of one text.",
    "worst recipe per text": "A text counts as robust only if every recipe failed on it, since an attacker would try "
    "them all.",
    "DeepWordBug": "Misspells the most important words: swaps, substitutes, deletes or inserts one character (Gao et "
    "al. 2018, arXiv:1801.04354).",
    "PWWS": "Replaces words with WordNet synonyms, the most salient and effective first (Ren et al. 2019, P19-1103).",
    "TextFooler": "Replaces important words with neighbours in a word embedding, keeping part of speech and the "
    "meaning of the sentence (Jin et al. 2019, arXiv:1907.11932).",
    "BAE": "Replaces words with what a masked language model predicts in their place (Garg and Ramakrishnan 2020, "
    "arXiv:2004.01970).",
    "TextBugger": "Mixes misspellings, look-alike characters and word substitutions (Li et al. 2018, "
    "arXiv:1812.05271).",
    "Pruthi": "A few typing errors: swapped, dropped, inserted and neighbouring keys (Pruthi et al. 2019, "
    "arXiv:1905.11268).",
    "input reduction": "Removes words for as long as the prediction stays the same, until what is left means nothing "
    "to a reader (Feng et al. 2018, arXiv:1804.07781).",
    "IGA": "Evolves combinations of synonyms with an improved genetic algorithm (Wang et al. 2019, arXiv:1909.06723).",
    "randomized smoothing": "Classifies many copies of the input with added Gaussian noise (standard deviation sigma) "
    "instead of the input itself: the prediction is the class most copies receive, the confidence its mean score. "
    "Neither can differ much between inputs that are close to each other, and how much is provable (Cohen et al. "
    "2019, arXiv:1902.02918). The class with the largest mean score may be another one, and is not the one certified.",
    "certified radius": "The l_2 norm, on pixels from 0 to 1, within which the smoothed model gives every 8-bit image "
    "the class of the example. The noise is rounded to a grid that 8-bit images lie on, so that the guarantee holds "
    "in floating point too (Voracek and Hein 2023).",
    "certified accuracy": "Fraction of all examples whose class is correct and proven to stay so within a radius: a "
    "lower bound of the accuracy under any attack of that norm. Abstentions count as wrong.",
    "average certified radius": "Mean certified radius over all examples, 0 where the class is wrong or the model "
    "abstains.",
    "abstention": "The draws do not show that one class wins more than half of the noisy copies, so nothing is "
    "certified for the example. Accuracy without an attack asks for less, that one class wins more often than any "
    "other, and has abstentions of its own.",
    "CCE": "Certified calibration error: the largest ECE that the certified confidence intervals of the examples "
    "certified at a radius allow, computed exactly. An upper bound: no attack within the radius can do worse, and "
    "none need reach it. The system-level CCE (cce_system) covers all examples and lets those not certified be right "
    "or wrong with any confidence down to 1 / classes^2, the least a class with the most votes can have (Emde et "
    "al.).",
    "certified Brier score": "The largest Brier score that the certified confidence intervals of the examples "
    "certified at a radius allow; an upper bound like the CCE.",
    "Brier confidences": "The confidences that maximise the Brier score: the lowest possible where the class is "
    "right, the highest where it is wrong. Their ECE (brier_ece) is at most the CCE, so it is no guarantee.",
    "ADMM (ACCE)": "The solver with which the paper approximates the CCE. It stops at or below it, so its value "
    "(acce) is no guarantee; reported for comparison with the paper.",
    "dECE": "A differentiable ECE, maximised by gradient ascent within the certified intervals. What it finds is at "
    "most the CCE, so it is no guarantee; reported for comparison.",
    "alpha": "Probability that an unlucky draw of noise makes a certificate wrong. Per example: each certificate errs "
    "with that probability, so among many some may be wrong. Jointly: all of them hold at once except with that "
    "probability. It is unrelated to the 95% of the confidence intervals, which are about another sample of examples.",
    "CDF certificate, Standard certificate": "Ways to bound an example's confidence within a radius: from the "
    "distribution of its scores under noise or from their mean alone (Standard; Kumar et al. 2020, arXiv:2009.08061). "
    "For the distribution a band of one width is known (DKW, as the paper has it) and one that is exact where shares "
    "are near 0 or 1; CDF is both together, and mostly the tightest.",
    "shared noise": "All examples see the same draws of noise, which is fastest. Each certificate is as valid as with "
    "draws of its own, but an unlucky draw affects many at once.",
    "adaptive sampling": "Draws noise for an example only until the radii at which it is certified are settled. Its "
    "intervals are anytime-valid: they hold whenever sampling stops, and are wider in return.",
    "ACE attack": "Perturbs the input within the radius to lower or raise the smoothed confidence in the true or in "
    "the predicted class. What it reaches is a lower bound of the worst case, the CCE an upper one.",
    "static model": "The model as trained, without a defence: what a defence has to improve on.",
    "test-time defence": "Adapts the model while it is in use to the very inputs it is given. These may come from an "
    "attacker, so it is evaluated with attacks that anticipate the adaptation (Chen et al. 2021, arXiv:2110.14735).",
    "adaptive attack": "Made with knowledge of the defence, by simulating it or through its gradient. The lowest "
    "number under such an attack is what the defence is worth; attacks on the static model alone do not show it.",
    "transferred attack": "Made on the static model, then applied to the defended one. The attacker ignores the "
    "defence, so surviving it is no evidence of robustness.",
    "AutoAttack": "An ensemble of three gradient-based attacks and one that needs no gradient, each run on the "
    "examples still classified correctly (Croce and Hein 2020, arXiv:2003.01690). Made for models that do not change "
    "while they are attacked.",
    "APGD, FAB, Square": "The attacks in AutoAttack. APGD follows the gradient of a loss (the cross-entropy, or DLR, "
    "a ratio of logits that a saturated softmax cannot hide) with step sizes that adapt by themselves; FAB moves to "
    "the decision boundary; the targeted versions try one wrong class after another. Square is a random search over "
    "squares and needs no gradient.",
    "robust accuracy": "Fraction of all examples classified correctly that no attack tried could turn wrong. What "
    "survived these attacks may fall to another, so it is an upper bound.",
    "PGD": "Projected gradient descent: many small steps up the gradient of the loss, projected back into the attack "
    "radius (Madry et al. 2018, arXiv:1706.06083).",
    "AutoAttack on the defence": "AutoAttack run on the defended model itself, which adapts at every step. Batches "
    "are composed differently when the defence finally answers, so this attack tends to flatter the defence.",
    "FPA": "Fixed point attack: perturbs the inputs, lets a simulated defence adapt to them, attacks the adapted "
    "model, and so on. The round whose own adapted model does worst is submitted (Chen et al. 2021).",
    "GMSA": "Greedy model space attack: as FPA, but against all adapted models seen so far at once, so that no step "
    "undoes an earlier one. AVG attacks their mean loss, MIN for each example the model that resists most (Chen et "
    "al. 2021).",
    "private randomness": "What a defence draws at random after the attacker has moved. The attacker knows the "
    "distribution but not the draw; several repeats show how much it matters.",
    "overestimate": "Robustness under attacks on the static model minus the lowest under an adaptive attack, on the "
    "same examples: what an evaluation without adaptive attacks would overstate.",
    "gain over static": "Lowest robustness of the defended model under any attack minus that of the static model, on "
    "the same examples: what the defence is worth.",
    "rejection": "Declining to answer. What nobody attacked is owed an answer: rejected, it counts as misclassified. "
    "An attacked example may be rejected; it counts as withstood only if its unattacked copy is classified correctly.",
    "selective error": "Fraction of the examples that a defence does answer which it answers wrongly. It says nothing "
    "without the fraction it rejects, attacked and not.",
    "TENT": "Adapts scale and shift of the normalisation layers to make predictions more confident (Wang et al. 2021, "
    "arXiv:2006.10726). Not designed against attackers; included for comparison.",
    "DENT": "As TENT, but for each input separately, starting from the trained weights each time and with predictions "
    "also spread over the classes (Wang et al. 2021, arXiv:2105.08714).",
    "RMC": "Runtime masking and cleansing: fine-tunes the model on the training examples closest to each input before "
    "answering, and keeps what it learned (Wu et al. 2020).",
    "DANN": "Retrains a network to classify the training data with features that do not distinguish them from the "
    "test inputs (Ganin et al. 2016, arXiv:1505.07818).",
    "TADV": "Retrains a network on perturbed training data with private randomness, whatever the test inputs (Chen et "
    "al. 2021).",
    "URejectron": "Trains a second network to distinguish training data from the test inputs, and rejects those it "
    "can tell apart (Goldwasser et al. 2020, arXiv:2007.05145).",
    "level": "Fraction of a text's words that are perturbed. The paper calls 0.2 low, 0.5 mid and 0.8 high. At the "
    "same level attackers change texts by different amounts, which the edit distance shows.",
    "relative score": "Score under noise divided by the score without noise.",
    "worst case": "Each text is perturbed by the attacker and the draw that harm it most. The attacker need not know "
    "which: trying all of them is enough.",
    "best-of-k black-box attacker": "An attacker who knows nothing about the model and tries k random draws; the "
    "worst one counts.",
    "flip rate": "Fraction of the model's decisions (the class of a text, the tag of a token, a label) that change "
    "under noise, whether they were right or wrong before.",
    "edit distance": "Characters inserted, deleted or substituted to get from one text to the other (Levenshtein), "
    "per character of the text; a letter with its accents is one. A tagged sentence is its tokens joined by single "
    "spaces.",
    "rank of an attacker": "Its rank by harm at the highest level, 1 for the most harmful. The interval covers the "
    "ranks it takes on other samples of examples.",
    "chance level": "The score of guessing: one over the number of classes, the frequency of the most common tag, 0.5 "
    "for macro AUROC.",
    "token accuracy": "Fraction of tokens tagged correctly, over all sentences.",
    "macro AUROC": "How well each label's probability separates texts with the label from those without (1 is "
    "perfect, 0.5 is chance), averaged over labels.",
    "inner shuffle": "Shuffles the letters of a word except the first and the last.",
    "full shuffle": "Shuffles all letters of a word.",
    "intrude": "Inserts a punctuation mark between the letters of a word: s.o, l.i.k.e, this.",
    "disemvowel": "Removes the vowels of a word.",
    "truncate": "Removes the last letter of a word.",
    "segment": "Removes the white space between words.",
    "keyboard typo": "Replaces a letter with a neighbouring key.",
    "natural typo": "Replaces a word with a way people have misspelt it.",
    "phonetic": "Respells a word so that it sounds nearly the same.",
    "visual": "Replaces letters with look-alikes, usually from another script.",
    "combined": "Each attacked word is perturbed by one of the other attackers, drawn at random.",
}
