"""What an attack changed in a text: word by word, and letter by letter within a word.

A diff is a list of segments. Those that are equal or removed, joined, are the text before; those that are equal or
added, joined, are the text after, to the character. That stays so when a diff is shortened for display: what is left
out is only marked.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Literal

from rapidfuzz.distance import LCSseq

Kind = Literal["equal", "removed", "added"]
Side = Literal["before", "after"]

_TOKEN = re.compile(r"""\s+|[!"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~]|[^\s!"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~]+""")
"""White space, a mark of punctuation, or a word: apostrophes and hyphens belong to words."""

_WORD = re.compile(r"\s+|\S+")
_MARKS = frozenset("""!"#$%&()*+,./:;<=>?@[\\]^_`{|}~""")

MOST_TOKENS = 10_000
"""Words, or letters, of either text up to which the shortest diff is sought: its work grows with their square (40 ms,
13 MB). Beyond, tokens are compared place by place where both texts have as many, or only at the ends."""

ENOUGH = 0.95
"""Share of the shorter text's letters that a comparison of words must find again to be the only one made, and share of
what a comparison of letters finds below which that one is shown."""

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
    """Consecutive characters that are kept, removed or added together.

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
    """Return the differences between two texts.

    Exact at any length; the shortest there is up to ``MOST_TOKENS``, beyond that a longer one.

    >>> [(one.kind, one.text) for one in word_diff("a wonderful film", "a wnderful film")]
    [('equal', 'a '), ('removed', 'wonderful'), ('added', 'wnderful'), ('equal', ' film')]
    >>> [piece.text for piece in word_diff("a wonderful film", "a wnderful film")[1].pieces if piece.is_changed]
    ['o']
    """
    segments = _in_place(before, after) or _by_words(before, after)
    # Where only white space came or went, words tell it in more than it takes.
    enough = 1.0 if before.split() != after.split() and _letters_of(before) == _letters_of(after) else ENOUGH
    if _kept(segments) >= enough * min(len(before), len(after)):
        return segments
    by_letters = _by_letters(before, after)
    return by_letters if by_letters is not None and enough * _kept(by_letters) > _kept(segments) else segments


def coarse_diff(before: str, after: str) -> list[Segment]:
    """Return the differences between two texts without a search: all between their common ends is one change."""
    head, tail = _common_ends(before, after)
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    ends = [_equal(one) if one else None for one in (before[:head], before[len(before) - tail :])]
    changed = _changed(removed, added, _replaced(removed, added))
    return [one for one in (ends[0], *changed, ends[1]) if one is not None]


def _letters_of(text: str) -> str:
    return "".join(text.split())


def _in_place(before: str, after: str) -> list[Segment]:
    """Return the diff of texts with the same white space, word by word; nothing where words moved, or there is none.

    Noise touches most words, and leaves each where it was: no search for what stayed is as sure as its place.
    """
    old, new = _WORD.findall(before), _WORD.findall(after)
    pairs = list(zip(old, new, strict=False))
    if len(old) != len(new) or any(one != other and (one.isspace() or other.isspace()) for one, other in pairs):
        return []
    stayed = sum(one == other for one, other in pairs)
    if sum(len(run) for kind, run, _ in _runs(old, new) if kind == "equal") > stayed:
        return []
    return _joined(segment for pair in pairs for segment in _word(*pair))


def _word(old: str, new: str) -> list[Segment]:
    """Return what became of one word, the marks around it that stayed apart from it."""
    if old == new:
        return [_equal(old)]
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n] or old[n] not in _MARKS), most)
    most -= head
    tail = next((n for n in range(most) if old[-1 - n] != new[-1 - n] or old[-1 - n] not in _MARKS), most)
    inner = old[head : len(old) - tail], new[head : len(new) - tail]
    pieces = _letters(*inner)
    is_replaced = all(piece.is_changed for piece in pieces[0])
    changed = _by_words(*inner) if is_replaced else _changed(*inner, pieces)
    around = (old[:head], old[len(old) - tail :])
    return [*([_equal(around[0])] if head else []), *changed, *([_equal(around[1])] if tail else [])]


def _by_letters(before: str, after: str) -> list[Segment] | None:
    """Return the diff of texts whose letters stayed in order, whatever became of the spaces; None of long ones.

    What lies between two spaces that both have is one change.
    """
    old, new = _clusters(before), _clusters(after)
    if max(len(old), len(new)) > MOST_TOKENS:
        return None
    segments: list[Segment] = []
    stretch: list[tuple[str, str]] = []
    for step in LCSseq.opcodes(old, new):
        removed, added = old[step.src_start : step.src_end], new[step.dest_start : step.dest_end]
        if step.tag != "equal":
            stretch.append(("".join(removed), "".join(added)))
            continue
        for letter in removed:
            if letter.isspace():
                segments += [*_stretch(stretch), _equal(letter)]
                stretch = []
            else:
                stretch.append((letter, letter))
    return _joined([*segments, *_stretch(stretch)])


def _stretch(runs: Sequence[tuple[str, str]]) -> list[Segment]:
    """Return what became of what lies between two spaces, in runs of letters before and after."""
    removed, added = ("".join(run[side] for run in runs) for side in (0, 1))
    if removed == added:
        return [_equal(removed)] if removed else []
    left: list[Piece] = []
    right: list[Piece] = []
    for is_changed, group in groupby(runs, key=lambda run: run[0] != run[1]):
        before, after = ("".join(side) for side in zip(*group, strict=True))
        left += [Piece(before, is_changed)] if before else []
        right += [Piece(after, is_changed)] if after else []
    pieces = (tuple(left), tuple(right)) if _are_alike(left, right) else _replaced(removed, added)
    return _changed(removed, added, pieces)


def _kept(segments: Sequence[Segment]) -> int:
    """Return how many letters of the text before are in the text after."""
    return sum(
        len(piece.text) for one in segments if one.kind != "added" for piece in one.pieces if not piece.is_changed
    )


def _equal(text: str) -> Segment:
    return Segment("equal", (Piece(text, False),))


def _changed(removed: str, added: str, pieces: tuple[tuple[Piece, ...], tuple[Piece, ...]]) -> list[Segment]:
    return [*([Segment("removed", pieces[0])] if removed else []), *([Segment("added", pieces[1])] if added else [])]


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Return segments with those that are equal and follow each other as one."""
    joined: list[Segment] = []
    for is_equal, group in groupby(segments, key=lambda segment: segment.kind == "equal"):
        alike = list(group)
        joined += [_equal("".join(one.text for one in alike))] if is_equal else alike
    return joined


def _by_words(before: str, after: str) -> list[Segment]:
    """Return the diff of words, marks and white space: the shortest up to ``MOST_TOKENS``."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    segments: list[Segment] = []
    for kind, removed, added in _rejoined([(kind, "".join(one), "".join(two)) for kind, one, two in _runs(old, new)]):
        if kind == "equal":
            segments.append(_equal(removed))
        else:
            segments += _changed(removed, added, _letters(removed, added))
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
    if not removed or not added:
        return _replaced(removed, added)
    old, new = _clusters(removed), _clusters(added)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, first, second in _runs(old, new):
        is_changed = kind != "equal"
        left += [Piece("".join(first), is_changed)] if first else []
        right += [Piece("".join(second), is_changed)] if second else []
    return (tuple(left), tuple(right)) if _are_alike(left, right) else _replaced(removed, added)


def _are_alike(left: Iterable[Piece], right: Iterable[Piece]) -> bool:
    """Return whether two words have letters enough in common for these to be looked at one by one."""
    stayed = sum(2 * len(_clusters(piece.text)) for piece in left if not piece.is_changed)
    return stayed >= SIMILAR * sum(len(_clusters(piece.text)) for piece in (*left, *right))


def _replaced(removed: str, added: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    return (Piece(removed, True),), (Piece(added, True),)


def _clusters(text: str) -> list[str]:
    """Return letters with the marks that combine with them: an accent is no letter of its own."""
    if text.isascii():
        # There is no mark among them, and to ask each takes seconds of a million.
        return list(text)
    # Cut where letters begin: put together mark by mark, one with a hundred thousand would be copied for each of them.
    begins = [n for n, one in enumerate(text) if not n or not unicodedata.category(one).startswith("M")]
    return [text[first:last] for first, last in pairwise([*begins, len(text)])] if text else []


def _runs(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[Literal["equal", "changed"], Sequence[str], Sequence[str]]]:
    """Yield runs of tokens that both sequences share in turn with runs that they do not."""
    at_old = at_new = 0
    for is_equal, group in groupby(_steps(old, new), key=lambda step: step[0]):
        for _, to_old, to_new in group:
            end_old, end_new = to_old, to_new
        yield "equal" if is_equal else "changed", old[at_old:end_old], new[at_new:end_new]
        at_old, at_new = end_old, end_new


def _steps(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[bool, int, int]]:
    """Yield whether tokens are equal, and where they end in both sequences; see ``MOST_TOKENS``."""
    if max(len(old), len(new)) <= MOST_TOKENS:
        for step in LCSseq.opcodes(old, new):
            yield step.tag == "equal", step.src_end, step.dest_end
    elif len(old) == len(new):
        # An attack that replaces words leaves their number: compared place by place they line up.
        for n, (one, other) in enumerate(zip(old, new, strict=True), 1):
            yield one == other, n, n
    else:
        head, tail = _common_ends(old, new)
        yield from [(True, head, head)] if head else []
        yield False, len(old) - tail, len(new) - tail
        yield from [(True, len(old), len(new))] if tail else []


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens both sequences begin with, and how many of the rest both end with."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    most -= head
    return head, next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)


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
