"""Character-level noise without a model: the ten attackers of the Zéroe catalogue (Eger and Benz 2020).

Used by the audits that meet a model with it, by ``POST /v1/perturb`` and by ``seatrial perturb``.

:class:`seatrial.noise.perturbing.Perturber` selects words and edits them in place; each attacker is a function of a
word (segment: of a text), how hard it is hit and a generator. Both readings of the catalogue are offered, that of the
paper's text and that of its released code; where they differ, names or arguments of a function say so.

Every draw is ``random.Random.random()``: of that generator, its method ``random`` alone is promised to give the same
stream in every version of Python, so a seed gives the same noise wherever it is drawn.
"""
