"""Defences that adapt a classifier at test time, each from the paper or the code that defines it.

The question they pose
    A defence may look at the unlabelled test points before it answers them: re-train on their neighbours (RMC), move
    the affine parameters of batch normalisation until the answers are confident and diverse (DENT, and TENT before
    it), align them with the training data (DANN), or refuse those that look unlike it (URejectron). Attacks that are
    made on the static model and merely carried over find such defences strong; attacks that simulate them do not.

The paper
    J. Chen, Y. Guo, X. Wu, T. Li, Q. Lao, Y. Liang, S. Jha: "Towards Evaluating the Robustness of Neural Networks
    Learned by Transduction" (ICLR 2022). Each module names the paper of its own defence, and says where the code that
    produced the published numbers departs from it; ``variant = "official"`` follows that code and is the default,
    ``"paper"`` follows the text.

What a defence promises
    See :mod:`workers.defences.protocol`: the base is never changed, randomness comes from the generators given, what
    was adapted stays as it is, and everything that lasts from round to round can be taken out and put back.

Limits
    A defence is no model: its answer to a point depends on the points beside it, on the rounds before, and on numbers
    drawn after the attacker has moved. No test here says that one is strong; only the games over all attacks do.
"""
