"""How much is asked about edited texts that are sent once, and about audited ones before they are attacked."""

from seatrial.families.temperature_attack.quiet import FEWEST_EDITED, IN_A_ROW

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


MIXED, TIMES, COVERS = 12, 2, 8
"""Words of an audited text, at most, that are asked about in other texts before it is edited by what they say; in how
many each; and ordinary texts for each that is sent so."""

WORDS = 1500
"""Of all of them together, at most: as many questions as a surrogate is fitted to in seconds."""

UNMET = 120
"""Further texts that are edited and sent alike, at most: nobody asked about them before."""

SAID, LIGHTLY, LIGHT_COVERS = 4, 2, 2
"""Sentences put together for each audited text: by whose answers others are edited, and those that are sent lightly
edited before other words are asked about; and those among which each of the latter is."""

LIGHT_SENTENCES = SAID + LIGHTLY * (LIGHT_COVERS + 2)
"""All of them for each, with as many as are edited early that are edited at the end."""

CARRIERS, PLAIN = 61, 3
"""Ordinary texts that the sentences are made of in which words are asked about, and sentences for each in which none
is: few enough that what is said of them without it is known. A prime."""


def transferred(samples: int) -> int:
    """Return how many audited texts are sent before anything of them is asked, at most; of few none.

    >>> transferred(10), transferred(100), transferred(1000)
    (0, 100, 160)
    """
    return min(samples, SENT_LATER) if samples >= FEWEST_EDITED else 0


def transferred_questions(samples: int) -> int:
    """Return the questions about those and further ones, at most: ordinary ones in a row and between them too.

    >>> transferred_questions(10), transferred_questions(100)
    (0, 7463)
    """
    texts = transferred(samples)
    both = texts + min(texts, UNMET)
    words = min(WORDS, both * MIXED) * TIMES
    # Sentences edited and as they are.
    lightly = (LIGHT_SENTENCES + 2 * LIGHTLY) * texts
    # Edited and as they are; and audited ones edited once more, and before all of it among ordinary ones.
    return words + lightly + 2 * both + texts * 2 * (COVERS + 1) + (CARRIERS * PLAIN + IN_A_ROW if texts else 0)


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
