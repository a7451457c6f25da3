"""What an interpreter does first where ``PYTHONPATH`` names this folder: see ``tests/nursery.py``."""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

LAUNCHER = "seatrial.sandbox.launcher"


class _AfterLauncher(MetaPathFinder):
    """Runs the nursery's change of the launcher once that is imported."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        if fullname != LAUNCHER or path is None:
            return None
        found = PathFinder.find_spec(fullname, path)
        assert found is not None
        assert found.loader is not None
        found.loader = _Changing(found.loader)
        return found


class _Changing(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: Any) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        file = Path(__file__).resolve().parents[1] / "nursery.py"
        spec = spec_from_file_location("nursery_of_the_tests", file)
        assert spec is not None
        assert spec.loader is not None
        nursery = module_from_spec(spec)
        spec.loader.exec_module(nursery)
        nursery.fork_zygotes_of(Path(os.environ[nursery.SOCKET]))


if "NURSERY_OF_THE_TESTS" in os.environ:
    sys.meta_path.insert(0, _AfterLauncher())
