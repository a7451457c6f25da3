"""What a figure shows, for those who do not see it."""

from collections.abc import Mapping


def describe(name: str, descriptions: Mapping[str, str]) -> str:
    """Return the first description whose key is part of a figure's name; for others the name in words."""
    for part, description in descriptions.items():
        if part in name:
            return description
    return f"Figure: {name.replace('_', ' ')}."
