"""What a training method of a hardening declares: one :class:`MethodSpec`, and the methods there are.

The half without torch, as :mod:`seatrial.contracts.family` is of a family: requests are validated and priced by it. The
other half is ``MethodSpec.worker``, a class that implements :class:`workers.training.protocol.Method`.

A distribution says ``[project.entry-points."seatrial.training"]`` and ``mine = "package.spec:SPEC"``, where ``SPEC`` is
a :class:`MethodSpec` of the slug ``mine``. One that cannot be loaded is left out and told under its name
(:func:`broken_methods`); a shipped one is never replaced.
"""

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from seatrial.contracts.base import Request
from seatrial.contracts.costs import Passes

GROUP = "seatrial.training"

SHIPPED = tuple(
    EntryPoint(name=slug, value=f"seatrial.hardening.{module}:{slug.upper()}", group=GROUP)
    for module, slugs in {
        "recalibration": ("recalibrate",),
        "cross_entropy": ("gradient_normalised", "high_temperature"),
        "images": ("adversarial", "gaussian", "smoothadv", "brier_act", "acce_act"),
        "texts": ("pgd_k", "freelb", "ascc", "ddi_at", "dg_aug", "noise_mix"),
    }.items()
    for slug in slugs
)
"""Declared here as well as in pyproject.toml: a checkout with older metadata has them all the same."""

log = logging.getLogger(__name__)


class MethodParams(Request):
    """Base of a method's parameters; its field ``method`` is a ``Literal`` of the method's slug."""

    if TYPE_CHECKING:
        method: str

    @abstractmethod
    def passes(self, examples: int, validation: int) -> Passes:
        """Return what training takes at most.

        Args:
            examples: Of the training set.
            validation: Examples held out.
        """


HELD_OUT = 0.1
"""Share of the training set every epoch is judged on where no dataset is given for that."""


def held_out_of(examples: int) -> int:
    """Return how many of so many examples of a training set that is, one at least.

    >>> held_out_of(300), held_out_of(2)
    (30, 1)
    """
    return max(1, round(HELD_OUT * examples))


@dataclass(frozen=True)
class MethodSpec:
    """One training method.

    Attributes:
        slug: Its name on the wire.
        params: Its parameters.
        worker: ``module:attribute`` of what trains; imported by workers only.
        tasks: What it trains, as manifests name it.
        paper: Where it is described.
        trains: False for a method that fits a map of logits on held-out data and leaves the weights alone; its worker
            is a :class:`workers.training.protocol.Fit`.
    """

    slug: str
    params: type[MethodParams]
    worker: str
    tasks: tuple[str, ...]
    paper: str
    trains: bool = True

    def takes(self, model_format: str) -> bool:
        """Return whether it hardens models of a format: weights that are here, or a file that stays as it is."""
        return model_format in ("safetensors", "archive") or (model_format == "onnx" and not self.trains)

    def load(self) -> Any:
        """Return what trains.

        Raises:
            ImportError: Its module is not there, or lacks the attribute.
        """
        module, _, attribute = self.worker.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except AttributeError as error:
            raise ImportError(f"{module} has no {attribute}") from error


class InvalidMethodError(ValueError):
    """An entry point does not lead to a method."""


class _Methods(NamedTuple):
    specs: Mapping[str, MethodSpec]
    broken: Mapping[str, str]


def methods() -> Mapping[str, MethodSpec]:
    """Return every method by its slug: the shipped ones in their order, then the others by name."""
    return _found().specs


def broken_methods() -> Mapping[str, str]:
    """Return why methods of other distributions were left out, by name."""
    return _found().broken


@cache
def _found() -> _Methods:
    ours = {point.name: point.value for point in SHIPPED}
    specs = {point.name: _load(point) for point in SHIPPED}
    broken: dict[str, str] = {}
    # Our own metadata offers the shipped ones again.
    theirs = [point for point in entry_points(group=GROUP) if ours.get(point.name) != point.value]
    for point in sorted(theirs, key=lambda one: (one.name, one.value)):
        if point.name in ours:
            broken[point.name] = f"{point.value} cannot take the place of the method that is shipped"
        elif sum(other.name == point.name for other in theirs) > 1:
            broken[point.name] = "offered more than once: uninstall all but one"
        else:
            try:
                specs[point.name] = _load(point)
            except Exception as error:
                # Another distribution may fail in any way when imported.
                broken[point.name] = f"{point.value} cannot be loaded: {error!r}"
    for name, why in broken.items():
        log.error("the training method %s of another distribution is left out: %s", name, why)
    return _Methods(specs, broken)


def _load(point: EntryPoint) -> MethodSpec:
    spec = point.load()
    if not isinstance(spec, MethodSpec):
        raise InvalidMethodError(f"{point.value} is a {type(spec).__name__}, not a MethodSpec")
    if spec.slug != point.name:
        raise InvalidMethodError(f"its slug is {spec.slug!r}, its entry point {point.name!r}")
    field = spec.params.model_fields.get("method")
    if field is None or get_origin(field.annotation) is not Literal or get_args(field.annotation) != (spec.slug,):
        raise InvalidMethodError(f"its parameters need a field `method: Literal[{spec.slug!r}]`")
    return spec
