"""Texts of unknown origin as HTML: every character escaped, the invisible ones shown, changes marked.

Nothing a text holds can act on the page: markup is escaped, and the characters that steer a line's direction or hide
are replaced by their numbers.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from markupsafe import Markup, escape

from app.reports.diffs import Piece, Segment, Side, coarse_diff, of_side, shorten, word_diff

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_HIDDEN_OTHERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that draw nothing and are letters, marks or symbols to Unicode: fillers, joiners, empty Braille."""

MOST_NUMBERED = 6
"""Letters of scripts the text had none of that are each followed by their number."""

MOST_TOLD = 8
"""Different letters whose numbers are told below a text that has more."""

MOST_COMPARED = 2_000_000
"""Characters of a page that are compared word by word: some seven seconds of the worst, and ten checks of twelve long
reviews under six attacks."""

_SPACES = {" ": "\u2423", "\t": "\u21e5", "\n": "\u21b5"}
"""What stands for white space that was itself put in or taken away."""


def visible(text: str) -> Markup:
    r"""Return a text as HTML in which nothing is hidden.

    >>> print(visible("<b>\u202e & \u200b"))
    &lt;b&gt;<span class="unseen" dir="ltr">U+202E</span> &amp; <span class="unseen" dir="ltr">U+200B</span>
    """
    if text.isprintable() and not _HIDDEN_OTHERS.intersection(text):
        return escape(text)
    return Markup().join(_numbered(one) if _is_hidden(one) else escape(one) for one in text)


def one_line(text: str) -> Markup:
    """Return a name as HTML: isolated from the direction of what stands around it.

    >>> print(one_line("spam"))
    <bdi>spam</bdi>
    """
    return Markup("<bdi>{}</bdi>").format(visible(text))


def side_by_side(before: str, after: str, *, is_coarse: bool = False) -> tuple[Markup, Markup]:
    """Return two versions of a text as HTML, with what was removed in the one and what was added in the other."""
    segments = shorten(coarse_diff(before, after) if is_coarse else word_diff(before, after))
    # A letter of a script the text had none of may look exactly like the one it stands for: say which it is.
    known = {_script(character) for character in set(before)} | {""}
    left, right = of_side(segments, "before"), of_side(segments, "after")
    foreign = [one for segment in right if not segment.is_elided for one in segment.text if _script(one) not in known]
    if len(foreign) <= MOST_NUMBERED:
        return _side(left, "before", known), _side(right, "after", known)
    # A text full of numbers is none that can be read: they are told below it.
    known |= {_script(one) for one in foreign}
    return _side(left, "before", known), _side(right, "after", known) + _numbers_of(foreign)


def _numbers_of(characters: Sequence[str]) -> Markup:
    """Return the numbers of letters that look like others, the most frequent first."""
    distinct = [one for one, _ in Counter(characters).most_common(MOST_TOLD)]
    told = Markup(", ").join(Markup("<bdi>{}</bdi> {}").format(visible(one), _numbered(one)) for one in distinct)
    among = "" if len(set(characters)) <= MOST_TOLD else "among them "
    note = Markup('<span class="scripts">{} letters of other scripts: {}{}</span>')
    return note.format(len(characters), among, told)


class PairedSides:
    """Makes the comparisons of one page, which together may take so much work.

    Args:
        most: Characters of both versions, all comparisons together, that are compared word by word; beyond, of a text
            only what both versions have at its ends is told apart from what changed.
    """

    def __init__(self, most: int = MOST_COMPARED) -> None:
        self._left = most

    def __call__(self, before: Sequence[str], after: Sequence[str]) -> tuple[list[Markup], list[Markup]]:
        """Return two versions of a text's parts as HTML; a part only one of them has was removed or added whole."""
        pairs = [self._pair(*pair) for pair in zip_longest(before, after, fillvalue="")]
        return [left for left, _ in pairs[: len(before)]], [right for _, right in pairs[: len(after)]]

    def _pair(self, before: str, after: str) -> tuple[Markup, Markup]:
        characters = len(before) + len(after)
        is_coarse = characters > self._left
        if not is_coarse:
            self._left -= characters
        return side_by_side(before, after, is_coarse=is_coarse)


def _side(segments: Sequence[Segment], side: Side, known: set[str]) -> Markup:
    parts: list[Markup] = []
    for is_elided, group in groupby(segments, key=lambda segment: segment.is_elided):
        if is_elided:
            text = "".join(segment.text for segment in group)
            words = len(text.split())
            told = f"{words:,} words" if words > 1 else f"{len(text):,} characters"
            parts.append(Markup('<span class="elided">[… {} left out …]</span>').format(told))
        else:
            parts += [_segment(segment, side, known) for segment in group]
    return Markup("<bdi>{}</bdi>").format(Markup().join(parts))


def _segment(segment: Segment, side: Side, known: set[str]) -> Markup:
    if segment.kind == "equal":
        return visible(segment.text)
    element = Markup("<del>{}</del>") if side == "before" else Markup("<ins>{}</ins>")
    marked = Markup().join(
        element.format(_changed(piece, known)) if piece.is_changed else visible(piece.text) for piece in segment.pieces
    )
    return Markup('<span class="touched">{}</span>').format(marked) if segment.is_touched else marked


def _changed(piece: Piece, known: set[str]) -> Markup:
    if piece.text.isspace():
        return Markup().join(_SPACES.get(one) or _numbered(one) for one in piece.text)
    return Markup().join(_with_numbers(piece.text, known))


def _with_numbers(text: str, known: set[str]) -> Iterator[Markup]:
    for character in text:
        yield visible(character)
        if _script(character) not in known and not _is_hidden(character):
            yield _numbered(character)


def _script(character: str) -> str:
    """Return the script of a letter, as its name begins; nothing for what is none."""
    if character.isascii():
        return "LATIN" if character.isalpha() else ""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def _is_hidden(character: str) -> bool:
    if character in ("\n", "\t"):
        return False
    return character in _HIDDEN_OTHERS or unicodedata.category(character) in _HIDDEN_CATEGORIES


def _numbered(character: str) -> Markup:
    return Markup('<span class="unseen" dir="ltr">U+{:04X}</span>').format(ord(character))
