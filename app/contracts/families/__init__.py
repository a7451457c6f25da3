"""The families a check may name: one module each, one discriminated union over them."""

from typing import Protocol

from app.contracts.estimates import Metric
from app.contracts.families import uncertainty_span
from app.contracts.families.uncertainty_span import UncertaintySpanParams

CheckParams = UncertaintySpanParams
"""Body of a check: becomes a union discriminated by ``kind`` with the second family."""

METRICS: dict[str, list[Metric]] = {"uncertainty_span": uncertainty_span.METRICS}
"""Every metric a family publishes, by family."""


class Costed(Protocol):
    """What every family's parameters can say without running anything."""

    @property
    def kind(self) -> str:
        """The family."""
        ...

    def references(self) -> dict[str, str]:
        """Return ids of further models and datasets by the parameter that names them."""
        ...

    def passes(self, samples: int, sizes: dict[str, int]) -> "tuple[int, int]":
        """Return how many single-example forward and forward-backward passes the check takes at most."""
        ...


_PARAMS: dict[str, type[UncertaintySpanParams]] = {"uncertainty_span": UncertaintySpanParams}


def params_contract(kind: str) -> type[UncertaintySpanParams]:
    """Return the parameters of a family.

    Raises:
        KeyError: There is no such family.
    """
    return _PARAMS[kind]
