"""Defences by name: those shipped, and those operators bring as entry points of the group ``seatrial.defences``.

An operator's package says ``[project.entry-points."seatrial.defences"]`` and ``mine = "package.module:PLUGIN"``, where
``PLUGIN`` is a :class:`Plugin`. Nothing is imported before it is asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from workers.defences.protocol import Defence, DefenceError

GROUP = "seatrial.defences"
"""The entry point group of operators' own defences."""

SHIPPED = tuple(
    EntryPoint(name=name, value=f"workers.defences.{name}:PLUGIN", group=GROUP)
    for name in ("identity", "tent", "dent", "rmc", "dann", "tadv", "urejectron")
)


@dataclass(frozen=True)
class Plugin:
    """A defence somebody can ask for.

    Attributes:
        build: (hyper-parameters, tick) to one defender that has done nothing yet.
        presets: Hyper-parameters by name, each a frozen dataclass; shipped defences have ``mnist``, ``cifar10`` and
            ``small``.
        departures: What results have to say where the authors' code and the text of their paper differ, sentences by
            the value of the hyper-parameter ``variant``; ``official`` of a defence that has no such parameter.
    """

    build: Callable[[Any, Callable[[], None]], Defence]
    presets: Mapping[str, Any]
    departures: Mapping[str, str] = field(default_factory=dict)


def known() -> list[str]:
    """Return the names of all defences that can be asked for, sorted."""
    return sorted(_found())


def find_plugin(name: str) -> Plugin:
    """Return a defence by name; a shipped one is never replaced by an operator's of the same name.

    Raises:
        DefenceError: No defence has that name, or the operator's package does not hold one there.
    """
    found = _found()
    if name not in found:
        raise DefenceError(f"no defence is called {name!r}; known are {', '.join(sorted(found))}")
    try:
        plugin = found[name].load()
    except Exception as error:
        # An operator's package may fail in any way when imported.
        raise DefenceError(f"the defence {name!r} ({found[name].value}) cannot be loaded: {error!r}") from error
    if not isinstance(plugin, Plugin):
        raise DefenceError(f"the defence {name!r} ({found[name].value}) is a {type(plugin).__name__}, not a Plugin")
    return plugin


def make_defence(
    name: str,
    preset: str,
    changes: Mapping[str, Any] | None = None,
    *,
    tick: Callable[[], None] = lambda: None,
) -> Defence:
    """Return a new defender.

    Args:
        name: One of :func:`known`.
        preset: Of its hyper-parameters.
        changes: Hyper-parameters that differ from the preset's, by name.
        tick: Called before every forward and backward pass; may raise to stop.

    Raises:
        DefenceError: There is no such defence, preset or hyper-parameter, or a value is out of range.
    """
    plugin = find_plugin(name)
    if preset not in plugin.presets:
        raise DefenceError(f"{name} has no preset {preset!r}; it has {', '.join(sorted(plugin.presets))}")
    params = plugin.presets[preset]
    allowed = {one.name for one in fields(params)}
    if unknown := sorted(set(changes or {}) - allowed):
        raise DefenceError(f"{name} has no parameter {', '.join(unknown)}; it has {', '.join(sorted(allowed))}")
    try:
        return plugin.build(replace(params, **(changes or {})), tick)
    except ValueError as error:
        raise DefenceError(f"{name}: {error}") from error


def _found() -> dict[str, EntryPoint]:
    theirs = {point.name: point for point in entry_points(group=GROUP)}
    return theirs | {point.name: point for point in SHIPPED}
