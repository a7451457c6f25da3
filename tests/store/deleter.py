"""A process that deletes what it is told to, one after the other, and sweeps what that left."""

import sys
from pathlib import Path

from seatrial.store.activity import Author
from seatrial.store.artifacts import LocalStore
from seatrial.store.database import connect
from seatrial.store.deleting import NotThereError, delete_one
from seatrial.store.releasing import sweep_released
from seatrial.store.settings import Settings


def main(home: str, url: str, project: str, *subjects: str) -> None:
    """Say that it is ready and begin."""
    database, store = connect(Settings(home=Path(home), database_url=url)), LocalStore(Path(home) / "artifacts")
    print("ready", flush=True)
    for subject in subjects:
        try:
            with database.write() as session:
                delete_one(session, project, subject, Author("key_1"), cascade=True)
        except NotThereError:
            pass
        sweep_released(database, store, kept_s=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
