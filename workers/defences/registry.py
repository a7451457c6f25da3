"""Defences by name: those shipped, and those operators bring as entry points of the group ``seatrial.defences``.

An operator's package says ``[project.entry-points."seatrial.defences"]`` and ``mine = "package.module:PLUGIN"``, where
``PLUGIN`` is a :class:`Plugin`. Nothing is imported before it is asked for.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from workers.defences.protocol import Defence, DefenceError

GROUP = "seatrial.defences"
"""The entry point group of operators' own defences."""

SHIPPED = {
    name: EntryPoint(name=name, value=f"workers.defences.{name}:PLUGIN", group=GROUP)
    for name in ("identity", "tent", "dent", "rmc", "dann", "tadv", "urejectron")
}

SCALARS = (bool, int, float, str)
"""What a hyper-parameter that a request may change is."""


@dataclass(frozen=True)
class Plugin:
    """A defence somebody can ask for.

    Attributes:
        build: (hyper-parameters, check_cancelled) to one defender that has done nothing yet.
        presets: Hyper-parameters by name, each a frozen dataclass; shipped defences have ``mnist``, ``cifar10`` and
            ``small``.
        deviations: What results have to say where the authors' code and the text of their paper differ, sentences by
            the value of the hyper-parameter ``variant``; ``official`` of a defence that has no such parameter.
    """

    build: Callable[[Any, Callable[[], None]], Defence]
    presets: Mapping[str, Any]
    deviations: Mapping[str, str] = field(default_factory=dict)


def known() -> list[str]:
    """Return the names of all defences that can be asked for, sorted."""
    return sorted(_found())


def find_plugin(name: str) -> Plugin:
    """Return a defence by name; a shipped one is never replaced by an operator's of the same name.

    Raises:
        DefenceError: No defence has that name, or the operator's package does not hold one there.
    """
    # Reading what all installed packages offer takes milliseconds, and a game makes a defender each round.
    plugins = SHIPPED if name in SHIPPED else _found()
    if name not in plugins:
        raise DefenceError(f"no defence is called {name!r}; known are {', '.join(sorted(plugins))}")
    try:
        plugin = plugins[name].load()
    except Exception as error:
        # An operator's package may fail in any way when imported.
        raise DefenceError(f"the defence {name!r} ({plugins[name].value}) cannot be loaded: {error!r}") from error
    if not isinstance(plugin, Plugin):
        raise DefenceError(f"the defence {name!r} ({plugins[name].value}) is a {type(plugin).__name__}, not a Plugin")
    return plugin


def make_defence(
    name: str,
    preset: str,
    changes: Mapping[str, Any] | None = None,
    *,
    check_cancelled: Callable[[], None] = lambda: None,
) -> Defence:
    """Return a new defender.

    Args:
        name: One of :func:`known`.
        preset: Name of its hyper-parameters.
        changes: Hyper-parameters that differ from the preset's, by name.
        check_cancelled: Called before every forward and backward pass; may raise to stop.

    Raises:
        DefenceError: There is no such defence, preset or hyper-parameter, or a value is of another type than the
            preset's or out of range; ``field`` says which it was.
    """
    plugin = find_plugin(name)
    if preset not in plugin.presets:
        presets = ", ".join(sorted(plugin.presets))
        raise DefenceError(f"{name} has no preset {preset!r}; it has {presets}", field="preset")
    params, changes = plugin.presets[preset], changes or {}
    allowed = {one.name: getattr(params, one.name) for one in fields(params)}
    for parameter, value in changes.items():
        if parameter not in allowed:
            settable = ", ".join(sorted(key for key, known in allowed.items() if isinstance(known, SCALARS)))
            told = f"{name} has no parameter {parameter}; it has {settable}"
            raise DefenceError(told, field=f"changes/{parameter}")
        if not _is_alike(value, allowed[parameter]):
            wanted = type(allowed[parameter]).__name__
            told = f"{parameter} of {name} is {wanted}, as {allowed[parameter]!r}, and not {value!r}"
            raise DefenceError(told, field=f"changes/{parameter}")
    try:
        return plugin.build(replace(params, **changes), check_cancelled)
    except DefenceError:
        raise
    except Exception as error:
        # An operator's may fail in any way; what was changed is what a preset alone does not fail by.
        raise DefenceError(f"{name}: {error}", field="changes" if changes else None) from error


def _is_alike(value: object, known: object) -> bool:
    """Tell whether a value is of the type a preset has there; what is no scalar is the plug-in's to judge."""
    if isinstance(known, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(known, bool)
    if isinstance(known, float):
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, type(known)) if isinstance(known, SCALARS) else True


def _found() -> dict[str, EntryPoint]:
    theirs = {point.name: point for point in entry_points(group=GROUP)}
    return theirs | SHIPPED
