"""What an attack changed in a text: word by word, and letter by letter within a word.

A diff is a list of segments. Those that are equal or removed, joined, are the text before; those that are equal or
added, joined, are the text after, to the character. That stays so when a diff is shortened for display: what is left
out is only marked.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["equal", "removed", "added"]
Side = Literal["before", "after"]

_TOKEN = re.compile(r"""\s+|[!"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~]|[^\s!"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~]+""")
"""White space, a mark of punctuation, or a word: apostrophes and hyphens belong to words."""

MOST_EDITS = 200
"""Tokens taken away or put in up to which the shortest diff is sought: its work grows with their square."""

MOST_TOKENS = 2_000
"""Tokens of either text, between what they have in common at both ends, up to which it is sought at all."""

SIMILAR = 0.5
"""Share of letters two words must have in common for their letters to be compared: a typo, not a synonym."""


@dataclass(frozen=True)
class Piece:
    """Letters of a segment.

    Attributes:
        text: The letters.
        is_changed: Whether the other text lacks them.
    """

    text: str
    is_changed: bool


@dataclass(frozen=True)
class Segment:
    """Consecutive characters that share a fate.

    Attributes:
        kind: In both texts, only before, or only after.
        pieces: The letters; those of a word that was touched but not replaced are not all changed.
        is_elided: Whether a display leaves it out.
    """

    kind: Kind
    pieces: tuple[Piece, ...]
    is_elided: bool = False

    @property
    def text(self) -> str:
        """The characters."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def is_touched(self) -> bool:
        """Whether it is a word of which some letters stayed."""
        return self.kind != "equal" and not all(piece.is_changed for piece in self.pieces)


def of_side(segments: Sequence[Segment], side: Side) -> list[Segment]:
    """Return the segments that make up one of the two texts."""
    absent = "added" if side == "before" else "removed"
    return [segment for segment in segments if segment.kind != absent]


def word_diff(before: str, after: str) -> list[Segment]:
    """Return what became of a text.

    Exact at any length; the shortest there is up to ``MOST_EDITS``, beyond that a longer one.

    >>> [(one.kind, one.text) for one in word_diff("a wonderful film", "a wnderful film")]
    [('equal', 'a '), ('removed', 'wonderful'), ('added', 'wnderful'), ('equal', ' film')]
    >>> [piece.text for piece in word_diff("a wonderful film", "a wnderful film")[1].pieces if piece.is_changed]
    ['o']
    """
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    segments: list[Segment] = []
    for kind, removed, added in _rejoined([(kind, "".join(one), "".join(two)) for kind, one, two in _runs(old, new)]):
        if kind == "equal":
            segments.append(Segment("equal", (Piece(removed, False),)))
            continue
        pieces = _letters(removed, added)
        segments += [Segment("removed", pieces[0])] if removed else []
        segments += [Segment("added", pieces[1])] if added else []
    return segments


def _rejoined(runs: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return runs of (kind, removed, added) in which a word cut in two by a space, or two made one, are one change.

    The space before the second half is one the other text has as well, only elsewhere.
    """
    joined: list[tuple[str, str, str]] = []
    for run in runs:
        joined.append(run)
        if len(joined) < 3 or joined[-3][0] == "equal" or run[0] == "equal" or not joined[-2][1].isspace():
            continue
        removed, added = ("".join(one[n] for one in joined[-3:]) for n in (1, 2))
        apart = sum(_common(one[1], one[2]) for one in joined[-3:])
        if _common(removed, added) > apart:
            joined[-3:] = [("changed", removed, added)]
    return joined


def _common(removed: str, added: str) -> int:
    return sum(len(piece.text) for piece in _letters(removed, added)[0] if not piece.is_changed)


def _letters(removed: str, added: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return two words in pieces, letter by letter where they are alike."""
    whole = (Piece(removed, True),), (Piece(added, True),)
    if not removed or not added:
        return whole
    old, new = _clusters(removed), _clusters(added)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, first, second in _runs(old, new):
        is_changed = kind != "equal"
        left += [Piece("".join(first), is_changed)] if first else []
        right += [Piece("".join(second), is_changed)] if second else []
    common = sum(len(_clusters(piece.text)) for piece in left if not piece.is_changed)
    return (tuple(left), tuple(right)) if 2 * common >= SIMILAR * (len(old) + len(new)) else whole


def _clusters(text: str) -> list[str]:
    """Return letters with the marks that combine with them: an accent is no letter of its own."""
    clusters: list[str] = []
    for character in text:
        if clusters and unicodedata.category(character).startswith("M"):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def _runs(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[Literal["equal", "changed"], Sequence[str], Sequence[str]]]:
    """Yield runs of tokens that both sequences share in turn with runs that they do not."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    most -= head
    tail = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    matches = [
        *((n, n) for n in range(head)),
        *((head + a, head + b) for a, b in _matches(*middle)),
        *((len(old) - n, len(new) - n) for n in range(tail, 0, -1)),
    ]
    at_old = at_new = equal_since = 0
    for a, b in [*matches, (len(old), len(new))]:
        if (a, b) != (at_old, at_new):
            if equal_since < at_old:
                yield "equal", old[equal_since:at_old], old[equal_since:at_old]
            yield "changed", old[at_old:a], new[at_new:b]
            equal_since = a
        at_old, at_new = a + 1, b + 1
    if equal_since < len(old):
        yield "equal", old[equal_since:], old[equal_since:]


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of positions of equal tokens, rising: as many as can be (Myers 1986), within the limits above."""
    if not old or not new:
        return []
    if len(old) <= MOST_TOKENS and len(new) <= MOST_TOKENS:
        reached: list[dict[int, int]] = []
        ends = {1: 0}
        for edits in range(min(MOST_EDITS, len(old) + len(new)) + 1):
            reached.append(dict(ends))
            for diagonal in range(-edits, edits + 1, 2):
                is_down = diagonal == -edits or (diagonal != edits and ends[diagonal - 1] < ends[diagonal + 1])
                x = ends[diagonal + 1] if is_down else ends[diagonal - 1] + 1
                while x < len(old) and x - diagonal < len(new) and old[x] == new[x - diagonal]:
                    x += 1
                ends[diagonal] = x
                if x >= len(old) and x - diagonal >= len(new):
                    return _path_back(reached, len(old), len(new))
    # An attack that replaces words leaves their number; compared place by place they still line up.
    return [(n, n) for n, (a, b) in enumerate(zip(old, new, strict=False)) if a == b and len(old) == len(new)]


def _path_back(reached: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches: list[tuple[int, int]] = []
    for edits in range(len(reached) - 1, -1, -1):
        ends, diagonal = reached[edits], x - y
        is_down = diagonal == -edits or (diagonal != edits and ends[diagonal - 1] < ends[diagonal + 1])
        before = diagonal + 1 if is_down else diagonal - 1
        start_x = ends[before] if edits else 0
        start_y = start_x - before if edits else 0
        while x > start_x and y > start_y:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = start_x, start_y
    return matches[::-1]


def shorten(
    segments: Sequence[Segment], *, context: int = 160, longest: int = 1_200, most: int = 6_000
) -> list[Segment]:
    """Return the same diff with the parts marked that a display leaves out.

    Args:
        segments: A diff.
        context: Characters kept on either side of a change.
        longest: Characters of one removed or added stretch that are kept.
        most: Characters kept in all; what follows is left out.
    """
    short: list[Segment] = []
    shown = 0
    for n, segment in enumerate(segments):
        if shown >= most:
            short.append(replace(segment, is_elided=True))
            continue
        if segment.kind == "equal":
            is_alone = len(segments) == 1
            head = 2 * context if is_alone else 0 if n == 0 else context
            tail = 0 if n == len(segments) - 1 else context
        else:
            head, tail = longest - longest // 3, longest // 3
        parts = _cut(segment, head, tail)
        shown += sum(len(part.text) for part in parts if not part.is_elided)
        short += parts
    return short


def _cut(segment: Segment, head: int, tail: int) -> list[Segment]:
    """Return a segment with its middle marked, from word to word where words are not endless."""
    text = segment.text
    slack = 40
    if len(text) <= head + tail + 2 * slack:
        return [segment]
    start = next((n for n in range(head, head + slack) if head and text[n].isspace()), head)
    stop = next((n for n in range(len(text) - tail, len(text) - tail - slack, -1) if text[n - 1].isspace()), -1)
    stop = len(text) if not tail else stop if stop > start else len(text) - tail
    parts = [(0, start, False), (start, stop, True), (stop, len(text), False)]
    return [
        Segment(segment.kind, _between(segment.pieces, first, last), is_elided)
        for first, last, is_elided in parts
        if first < last
    ]


def _between(pieces: Sequence[Piece], first: int, last: int) -> tuple[Piece, ...]:
    kept = []
    at = 0
    for piece in pieces:
        text = piece.text[max(0, first - at) : max(0, last - at)]
        kept += [replace(piece, text=text)] if text else []
        at += len(piece.text)
    return tuple(kept)
