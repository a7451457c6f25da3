"""Randomized smoothing: what provably holds for every perturbation of an l_2 radius, and how it is measured.

From the noise to the number, one module each: ``noise`` (seeded draws), ``smoothing`` (draws through a model, added
up), ``bernoulli`` (bounds of a probability, radii, PREDICT), ``anytime`` (when to stop drawing), ``confidence`` (bounds
of a confidence at a radius), ``worst_calibration`` (the exact certified calibration error), ``system_calibration``
(over all samples), and what is compared with it: ``admm``, ``dece``, ``brier``.
"""
