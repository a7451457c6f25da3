"""Text of unknown origin on its way to a terminal or into a log: what a terminal would obey is shown instead.

A label, a file name or an error of a library may hold control characters: they set the window's title, clear the
screen, move the cursor over a verdict, or turn the direction of a line. In logs they forge lines.
"""

import copy
import json
import logging
import unicodedata
from collections.abc import Iterable
from typing import Any

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Emoji and several scripts are written with the joiners; a terminal does nothing else with them.
_HARMLESS = frozenset("\u200c\u200d\u00ad")


def escaped(text: str, keep: str = "\n\t") -> str:
    r"""Return a text whose control characters, direction marks and line separators are shown as their numbers.

    Args:
        text: Anything.
        keep: Control characters that are meant.

    >>> print(escaped("a\x1b]0;owned\x07 \u202eb\r\u2028"))
    a<U+001B>]0;owned<U+0007> <U+202E>b<U+000D><U+2028>
    """
    if text.isprintable():
        return text
    return "".join(one if one in keep or not _is_obeyed(one) else f"<U+{ord(one):04X}>" for one in text)


def escaped_line(text: str) -> str:
    r"""Return a text as one line, so that no value can add another below it.

    >>> print(escaped_line("a\nPassed: all rules hold"))
    a<U+000A>Passed: all rules hold
    """
    return escaped(text, keep="")


def json_text(value: Any, **options: Any) -> str:
    r"""Return a value as JSON that says the same and holds no character a terminal obeys.

    >>> print(json_text({"a": "é\x1b\u202e"}))
    {"a": "é\u001b\u202e"}
    """
    said = json.dumps(value, ensure_ascii=False, **options)
    # Outside of strings JSON is printable ASCII and line ends, so whatever is found here stands in a string.
    return "".join(json.dumps(one)[1:-1] if one != "\n" and _is_obeyed(one) else one for one in said)


def _is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in _OBEYED and character not in _HARMLESS


class EscapingFormatter(logging.Formatter):
    """Formats as another formatter does, with one line for a message and nothing in it that a terminal obeys.

    Args:
        inner: The other; colours of its own stay.
    """

    def __init__(self, inner: logging.Formatter | None = None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and below it the traceback where there is one."""
        # As every formatter leaves it there.
        record.message = record.getMessage()
        said = copy.copy(record)
        said.msg, said.args = escaped_line(record.message), None
        # uvicorn's second version of the message, for terminals with colours.
        said.__dict__.pop("color_message", None)
        if record.exc_info and record.exc_info[0] is not None:
            said.exc_text = escaped(self._inner.formatException(record.exc_info))
        elif record.exc_text:
            said.exc_text = escaped(record.exc_text)
        if record.stack_info:
            said.stack_info = escaped(record.stack_info)
        return self._inner.format(said)


def escape_logs(names: Iterable[str] = ("",)) -> None:
    """Make the handlers that these loggers have escape what they write; safe to call again."""
    for name in names:
        for handler in logging.getLogger(name or None).handlers:
            if not isinstance(handler.formatter, EscapingFormatter):
                handler.setFormatter(EscapingFormatter(handler.formatter))
