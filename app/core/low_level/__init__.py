"""Character-level noise without a model: what makes it, what it is made from, and which an example gets.

Used by the audits of ``low_level_attack``, by ``POST /v1/perturb`` and by ``seatrial perturb``.
"""
