"""A worker that runs models in the test's own process, where the test can put things into their place."""

import hashlib
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG

from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from workers.figures import drawing
from workers.runtime.inline import InlineExecutor
from workers.runtime.worker import Worker


class Blank(FigureCanvasSVG):
    """A figure that is plotted and not painted: laying out and drawing letters took two fifths of a small audit."""

    def print_svg(self, filename: Any, **_options: Any) -> None:
        """Write the root element and what was plotted: other numbers are still another file."""
        shown = [line.get_xydata() for axes in self.figure.axes for line in axes.lines]
        shown += [one.get_transform().transform_path(one.get_path()).vertices for one in _patches(self.figure)]
        shown += [path.vertices for axes in self.figure.axes for many in axes.collections for path in many.get_paths()]
        plotted = hashlib.sha256(b"".join(np.ascontiguousarray(one, dtype=float).tobytes() for one in shown))
        root = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">'
        filename.write(f"{root}\n<desc>{plotted.hexdigest()}</desc></svg>\n")


def _patches(figure: Any) -> list[Any]:
    return [patch for axes in figure.axes for patch in axes.patches]


class InlineWorker(Worker):
    """Shows what it works with, and paints no figure: what they look like is for ``tests/families``."""

    def __init__(self, database: Database, store: ArtifactStore, settings: Settings) -> None:
        self.store, self.executor = store, InlineExecutor(store, settings)
        super().__init__(database, store, settings, executor=self.executor)

    def step(self) -> bool:
        """Do one piece of work."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drawing, "FigureCanvasSVG", Blank)
            return super().step()
