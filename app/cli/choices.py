"""Options that take one of a few: what is none of them is refused as a request would be."""

from typing import Any

import click

from seatrial.contracts.near_names import not_a_choice


class Choice(click.Choice):  # type: ignore[type-arg] # generic from Click 8.4 on
    """One of a few; of another value the nearest is named.

    >>> Choice(["markdown", "csv"]).convert("markdwn", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'markdwn' is not a choice here: did you mean 'markdown'? Choices are markdown, csv
    """

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what another value is refused with; Click before 8.2 has words of its own."""
        return not_a_choice(value, self.choices)
