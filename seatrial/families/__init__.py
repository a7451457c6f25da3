"""The families that are shipped, their torch-free halves: a folder each, of which ``spec.py`` says everything.

What a family declares is in :mod:`seatrial.contracts.family`, those there are in :mod:`seatrial.contracts.registry`.
"""
