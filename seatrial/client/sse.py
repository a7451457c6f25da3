"""Server-sent events (WHATWG HTML, section 9.2.6), as far as a stream of JSON needs them."""

from seatrial.client.errors import UnexpectedAnswerError

MAX_LINE_CHARS = 16 * 2**20
"""Longest line of a stream of events."""


class EventDecoder:
    r"""Puts the pieces of a stream together to events.

    >>> decoder = EventDecoder()
    >>> [decoder.feed(text) for text in ("id: 4\n: heartbeat\r\nda", "ta: {\ndata: }\n", "\ndata: 5\n\nid: 6")]
    [[], [], ['{\n}', '5']]
    """

    def __init__(self) -> None:
        self._rest = ""
        self._data: list[str] = []

    def feed(self, text: str) -> list[str]:
        """Take a piece of the stream and return the data of each event that ends in it.

        Raises:
            UnexpectedAnswerError: A line does not end.
        """
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > MAX_LINE_CHARS:
            raise UnexpectedAnswerError(f"a line of the event stream has more than {MAX_LINE_CHARS:,} characters")
        ended = []
        for line in (line.removesuffix("\r") for line in lines):
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            elif not line and self._data:
                ended.append("\n".join(self._data))
                self._data = []
        return ended
