"""Randomness that depends on nothing but what it is for."""

import hashlib


def derive_seed(*parts: object) -> int:
    """Return a 63-bit seed of the parts; different parts give unrelated seeds.

    >>> derive_seed(0, "a_family", "over", 17) == derive_seed(0, "a_family", "over", 17)
    True
    >>> derive_seed(0, "a_family", "over", 17) == derive_seed(0, "a_family", "over", 18)
    False
    """
    # repr keeps ("a", "b") apart from ("ab",), and 1 from "1".
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1
