"""How an audit was looked at that stops when it is decided, as people read it."""

from seatrial.contracts.audits import NextLook
from seatrial.contracts.estimates import Looks
from seatrial.reporting.words import enumerate_words


def decided_after(looks: Looks) -> str:
    """Say at how many of the examples asked for an audit ended.

    >>> decided_after(Looks(sizes=[30, 60, 1000], alphas=[0.0125, 0.0125, 0.025], ended=2))
    'Decided after 60 of 1,000 examples, at look 2 of 3'
    """
    if not looks.is_early:
        return f"Not decided before the last of {len(looks.sizes)} looks, at all {looks.examples:,} examples"
    return (
        f"Decided after {looks.examples:,} of {looks.sizes[-1]:,} examples, at look {looks.ended} of {len(looks.sizes)}"
    )


def next_look_in_words(look: NextLook) -> str:
    """Say which look a check is measured for.

    >>> next_look_in_words(NextLook(number=1, of=6, examples=30, most=1000))
    'look 1 of 6, 30 of 1,000 examples'
    """
    return f"look {look.number} of {look.of}, {look.examples:,} of {look.most:,} examples"


def looks_in_words(looks: Looks) -> str:
    """Say the same with what each look may spend of the error rate, and what that makes of the intervals.

    >>> looks_in_words(Looks(sizes=[30, 60], alphas=[0.025, 0.025], ended=1)).split(". ")[1]
    'Of an error rate of 5%, looks at 30 and 60 examples may spend 2.5% and 2.5%'
    """
    sizes = enumerate_words([f"{size:,}" for size in looks.sizes])
    alphas = enumerate_words([f"{100 * alpha:.3g}%" for alpha in looks.alphas])
    return (
        f"{decided_after(looks)}. Of an error rate of {100 * sum(looks.alphas):.3g}%, looks at {sizes} examples may "
        f"spend {alphas}. The intervals are those of this look: together with those of all the others they miss at "
        f"most {100 * sum(looks.alphas):.3g}% of the time, and none made afterwards of the same examples alone would."
    )
