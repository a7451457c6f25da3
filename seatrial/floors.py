"""The two upper floors, ``app`` and ``workers``, are those beside this package, whatever else bears their names.

A repository may have an ``app/`` or a ``workers/`` of its own, and be on the path before the packages that are
installed. Every process that Seatrial starts calls :func:`pin` first.

``python -m seatrial.floors MODULE [ARGUMENT...]`` runs a module as ``python -m`` does, with the floors pinned.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

HOUSE = Path(__file__).resolve().parents[1]
FLOORS = ("app", "workers")


class _Floors:
    """A finder of the two packages; what is in them is then found in their folders as usual."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a floor lies, and nothing for any other module."""
        if fullname not in FLOORS:
            return None
        folder = HOUSE / fullname
        return spec_from_file_location(fullname, folder / "__init__.py", submodule_search_locations=[str(folder)])


def pin() -> None:
    """Have this process, and those it forks, import ``app`` and ``workers`` from beside this package."""
    if not any(isinstance(finder, _Floors) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Floors())


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of ours in a process of its own."""
    # What lies in the folder that somebody happens to stand in is not imported.
    return [sys.executable, "-P", "-m", "seatrial.floors", module, *arguments]


if __name__ == "__main__":
    pin()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
