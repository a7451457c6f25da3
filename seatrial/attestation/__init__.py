"""Signed verdicts that can be checked offline: DSSE envelopes of in-toto statements, and the keys that sign them."""
