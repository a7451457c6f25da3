"""Why something cannot be converted."""


class ConversionError(Exception):
    """The message says what was found, and what would be right."""
