"""How much is asked about edited texts that are sent once, and about audited ones before they are attacked."""

PROBED = 64
"""Texts whose neighbours are asked before anything else, at most."""

SENT_ONCE, SENT_LATER, FRAGMENTS, MISSPELT = 160, 160, 24, 8
"""Further texts of the data, at most, that are edited and sent once before anything is asked about them; audited ones
that are edited alike and sent while they are attacked; questions about fragments of each, and as many about pieces of
the edited one; and times that one of the latter is much misspelt before it is attacked, and as often after."""


def sent_once(probed: int) -> int:
    """Return how many texts are, of an audit that probes so many, or samples so many: of few no more than those."""
    return SENT_ONCE if probed >= PROBED else probed


WORDS_ALONE = 48
"""Words of an audited text that are asked about one by one, at most, before it is sent without a search."""


def sent_questions(samples: int, words: float) -> tuple[float, float]:
    """Return the questions about texts that are sent once, and about audited ones that are edited alike.

    Args:
        samples: Examples audited.
        words: Of a text.
    """
    # What has no meaning is asked beside fragments, and the text itself is sent.
    edited = 2.0 * FRAGMENTS + 3
    prepared = edited + 2 * MISSPELT + min(WORDS_ALONE, words) + 2
    return sent_once(samples) * edited, min(samples, SENT_LATER) * prepared
