"""How far can an attacker push a model's uncertainty? The uncertainty-span audit.

The question
    A classifier's predictive entropy is used to decide what a machine may do alone. An attacker who can lower it makes
    a wrong answer look sure; one who can raise it floods the people behind the machine with doubtful cases. The
    *uncertainty span* of an example is the entropy reached by an attack that raises it less the entropy reached by one
    that lowers it; MUS is its mean over the sample and MSUS the mean of its square.

The paper
    E. Ledda, G. Scodeller, D. Angioni, G. Piras, A. E. Cina, G. Fumera, B. Biggio, F. Roli: "On the Robustness of
    Adversarial Training Against Uncertainty Attacks". Attacks: eq. 10 (over-confidence, STAB) and eq. 11
    (under-confidence). Where the text and its tables disagree, the tables and the authors' code are followed: signed
    ECE is accuracy minus confidence, positive when under-confident. The label-preserving attacks it generalises: ACE
    (Galil and El-Yaniv 2021, "Disrupting Deep Uncertainty Estimation Without Harming Accuracy"), the (eta, omega)-ACE
    family, and the calibration attacks of Obadinma et al.

Threat model
    White box: the attacker knows the weights and adds to each image a perturbation of at most epsilon in l_inf or l_2,
    within valid pixels. The label used by the over-confidence attack is the model's own clean prediction; true labels
    are used only where an attack says so. The under-confidence attack may change the prediction; the specific attacks
    may not.

The guarantee
    Every reported span was realised by images inside the ball: MUS is a lower bound on what an attacker can do, up to
    the sampling error its interval states. With ``selection = best_entropy`` the clean image is a candidate too, so a
    span is never negative.

Limits
    A lower bound can be loose, and the paper's two attacks are: on ordinary networks they reach 0.75 to 0.9 of the span
    that ascent of the entropy itself reaches, and a mask in front of a network can leave them nothing to follow. With
    ``effort`` standard and thorough the check adds ascent, walks to the decision boundary, gradients of a smoothed
    copy, a search by scores alone and transfer from a surrogate fitted during the audit; ``mus_worst`` is the widest
    span per example of all that ran, and the number to trust, while ``mus`` stays the paper's. Attacks that need no
    gradient of the model at the image reaching further than those that follow it is evidence of masked gradients; zero
    gradients, spans that do not grow with epsilon and attacks that improve nothing are symptoms, which robust models
    show too. A saturated softmax has no entropy to move except on its decision boundaries, so there the attack is
    repeated on temperature-scaled logits and followed to the boundary.

    Spans depend on the scale of the logits: ``mus_calibrated`` is the widest at the temperature that is likeliest on
    the clean examples, at which models can be compared.

Beside the question
    ``robust_accuracy`` attacks the predictions as well, by AutoAttack (:mod:`workers.families.robust_accuracy`). What
    it finds of masked gradients speaks against a small span too.
"""
