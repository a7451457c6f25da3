"""``seatrial perturb --show``: texts before and after, for a terminal, with what changed in colour."""

from collections.abc import Iterator
from itertools import chain

from rich.console import Console
from rich.text import Text

from app.cli.whole_file import Output
from app.perturb.rewriting import Change, Copy, Parts
from app.reports.diffs import of_side, word_diff

_STANDS_FOR = {"\n": "\u21b5", "\r": "\u21b5", "\t": "\u21e5"}
_BETWEEN = {True: " ", False: "  |  "}


class Preview:
    """Shows the copies of each text below it, and yields none to be written.

    Args:
        change: What makes them.
        output: Where they are shown.
    """

    def __init__(self, change: Change, output: Output) -> None:
        self._change = change
        self._output = output
        self._console = Console(highlight=False, soft_wrap=True)

    def __call__(self, number: int, parts: Parts, is_tagged: bool) -> Iterator[Copy]:
        """Show a text and its copies."""
        between = _BETWEEN[is_tagged]
        self._print(Text.assemble((f"{number:>23}  ", "dim"), visible(between.join(parts))))
        for cell, perturbed in self._change(number, parts, is_tagged):
            label = f"{cell.attacker} {cell.level:g} {cell.draw or ''}".rstrip()
            changed = Text(between).join(_marked(*pair) for pair in _pairs(parts, perturbed, is_tagged))
            self._print(Text.assemble((f"{label:>23}  ", "cyan"), changed))
        yield from ()

    def _print(self, line: Text) -> None:
        with self._console.capture() as captured:
            self._console.print(line)
        self._output.write(captured.get().encode(errors="replace"))


def visible(text: str) -> str:
    r"""Return a text in one line, with what a terminal would obey made visible.

    >>> visible("a\x1b[2Jb\u202e\n")
    'a<U+001B>[2Jb<U+202E>↵'
    """
    return "".join(_STANDS_FOR.get(one) or (one if one.isprintable() else f"<U+{ord(one):04X}>") for one in text)


def _pairs(before: Parts, after: Parts, is_tagged: bool) -> Iterator[tuple[str, str]]:
    return zip((" ".join(before),), (" ".join(after),), strict=True) if is_tagged else zip(before, after, strict=True)


def _marked(before: str, after: str) -> Text:
    pieces = chain.from_iterable(
        ((visible(piece.text), "bold red" if piece.is_changed else "yellow") for piece in segment.pieces)
        if segment.kind == "added"
        else [(visible(segment.text), "")]
        for segment in of_side(word_diff(before, after), "after")
    )
    return Text.assemble(*pieces)
