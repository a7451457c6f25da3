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
}
