"""Whether the checks of a family can be judged before all examples are measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def not_independent(params: Any) -> str:
    """Say why the checks of a family that says nothing of its examples are measured as a whole."""
    return "nothing says that its examples do not depend on each other"


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Whether a check can be judged before all its examples are measured: those left out may change none of the others.

    Attributes:
        whole: Parameters to why all examples have to be measured, in words; empty where they need not.
        grain: Examples that are computed together; None for a batch of the audit.
    """

    whole: Callable[[Any], str] = not_independent
    grain: int | None = None
