"""What people call a number: the label of a rule that has none of its own."""

from functools import lru_cache

from seatrial.contracts.policies import described_metric, parse_metric
from seatrial.reporting.tables import value_words
from seatrial.reporting.words import words


@lru_cache(maxsize=4096)
def label_of(metric: str) -> str:
    """Return what people call a metric, by its full name, its qualifiers among the words.

    A family of another distribution may have given none: then it is the name in words.

    Raises:
        ValueError: No family publishes it.
    """
    named = parse_metric(metric)
    values = {key: f"any {key}" if value == "*" else value_words(key, value) for key, value in named.qualifiers.items()}
    if label := described_metric(metric).label:
        return label.format(**values)
    name = words(named.name)
    told = ", ".join(values.values())
    return f"{name[:1].upper()}{name[1:]}{f' ({told})' if told else ''}"
