"""Does a test-time defence hold? The transductive-attack audit.

The question
    A defence that adapts to the very points it is to answer (re-trains, moves its normalisation, aligns domains,
    refuses what looks odd) is a different classifier for every set of test points. An attack made on the static model
    beneath it is then an attack on another model: that it fails says little. What is the defence worth against somebody
    who knows it, over the static model alone, and how much of what the usual evaluation shows is made up?

The paper
    J. Chen, Y. Guo, X. Wu, T. Li, Q. Lao, Y. Liang, S. Jha: "Towards Evaluating the Robustness of Neural Networks
    Learned by Transduction" (ICLR 2022): the fixed-point attack (FPA) and the greedy model space attack (GMSA-AVG and
    GMSA-MIN), which simulate the defence, attack the models found so far, and send the points of the iteration whose
    *induced* model does worst. Where the authors' code departs from the text the code is followed: an iteration is
    scored by accuracy, and on RMC and DENT the clean batch is sent where no iteration lowers it. The series
    ``followed`` of a result says so, of the attacks and of each defence. URejectron learns from clean and perturbed
    points, half and half, as published; robustness is over the perturbed ones, its curves over both.

Threat model
    The attacker knows the defence, its hyper-parameters, the base model and the training data, sees the true labels,
    and changes each point by at most epsilon, within valid pixels. The defender draws its randomness after the attacker
    has moved (private randomness). Its state between rounds is not seen, unless ``state`` is ``leaking``. Points come
    in their natural order, or sorted by label within windows.

The guarantee
    Every robustness was reached by points inside the ball, answered by a defender the attacker had not seen: each is an
    upper bound on what the defence keeps. ``gain_over_static`` and ``overestimate`` compare the same examples, and
    their intervals know that the lowest attack was chosen on these (:func:`sample.gap_to_lowest`).

Limits
    Upper bounds only: a stronger attack may exist, most of all on defences registered by operators, which nobody has
    studied. Static robustness is one too, so a gain may be the static attack's weakness. Intervals are about the
    population of examples, given what the repeats drew; how the numbers vary with the defender's randomness is
    ``robustness_std``, and with one repeat nobody knows. A defence that adapts to the whole sample has been tried on
    one sample: its examples are not independent, and no interval here says how it would do on one of another size. A
    rejected example counts as answered wrongly, also where nobody attacked it.
"""
