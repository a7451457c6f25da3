"""A worker that runs models in the test's own process, where the test can put things into their place."""

from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from workers.runtime.inline import InlineExecutor
from workers.runtime.worker import Worker


class InlineWorker(Worker):
    """Shows what it works with."""

    def __init__(self, database: Database, store: ArtifactStore, settings: Settings) -> None:
        self.store, self.executor = store, InlineExecutor(store, settings)
        super().__init__(database, store, settings, executor=self.executor)
