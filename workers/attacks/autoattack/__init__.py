"""AutoAttack (Croce and Hein, ICML 2020): four attacks without a step size to tune, and the signs that they fail.

One file per attack; each takes a batch, stops at an example's first misclassified image, and returns an
:class:`~workers.attacks.autoattack.attempts.Attempt`:

* :mod:`.apgd`: projected gradients with a step size that halves itself, on any loss (:mod:`.dlr`, cross-entropy);
* :mod:`.fab`: steps to the linearised decision boundary, near the original (white box, no radius needed);
* :mod:`.square`: random squares, by scores alone;
* :mod:`.ensemble`: the ``standard`` and ``rand`` series, where only examples that hold go on to the next attack;
* :mod:`.checks`: when not to believe the result.

Written from the papers. Where they and the authors' programs differ, the docstring says which is followed.
"""
