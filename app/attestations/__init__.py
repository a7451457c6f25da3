"""Signed verdicts: what is signed, by which key, and where it is read."""
