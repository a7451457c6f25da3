"""Models of several forward passes, and the parts their uncertainty has: ensembles and Monte-Carlo dropout."""

from collections.abc import Mapping
from typing import Any, Literal

from seatrial.contracts.family import Misfit

Part = Literal["aleatoric", "epistemic"]
"""Of a predictive entropy: the mean entropy of the passes, and the mutual information of class and pass."""

PARTS: tuple[Part, ...] = ("aleatoric", "epistemic")

MEANT: dict[Part, str] = {"aleatoric": "what each pass is unsure of", "epistemic": "what the passes disagree on"}
"""What the parts are, in words."""

SINGLE = (
    "uncertainty has an aleatoric and an epistemic part only where several passes can disagree, and this model has "
    'one: upload its members as an ensemble ({"kind": "ensemble", "members": [...]}), or a network with dropout '
    'layers and "dropout": 20 in its architecture, or leave parts out'
)


def passes_in(architecture: Mapping[str, Any]) -> int:
    """Return the passes of a model, as its manifest describes its architecture; 1 of one prediction.

    >>> passes_in({"kind": "ensemble", "members": [{"kind": "lenet"}, {"kind": "layers", "dropout": 5}]})
    6
    """
    if architecture.get("kind") == "ensemble":
        return sum(passes_in(member) for member in architecture.get("members", ()))
    return int(architecture.get("dropout") or 1)


def only_one(passes: int, parameter: str) -> list[Misfit]:
    """Return why parts cannot be asked for, of a model with one pass; nothing of others."""
    return [Misfit(f"{SINGLE[0].upper()}{SINGLE[1:]}.", parameter)] if passes < 2 else []
