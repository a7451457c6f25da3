"""Server-sent events (WHATWG HTML, section 9.2.6), as far as a stream of JSON needs them."""


class EventDecoder:
    r"""Puts the lines of a stream together to events.

    >>> decoder = EventDecoder()
    >>> [decoder.feed(line) for line in ("id: 4", ": heartbeat", "data: {", "data: }", "")]
    [None, None, None, None, '{\n}']
    """

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> str | None:
        """Take one line without its end; return the data of an event that ends with it."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return None
        data, self._data = self._data, []
        return "\n".join(data) if data else None
