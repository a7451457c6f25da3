"""Records that the store has lost: whoever retries an audit has them measured again."""

from collections.abc import Iterable

from app.web.services import Services
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError
from seatrial.store.lifecycle import list_records


def lost_records(services: Services, audit_ids: Iterable[str]) -> list[str]:
    """Return the shards of failed audits whose records are gone; records that are damaged are deleted.

    Before the transaction that retries: a disk may take its time.

    Args:
        services: Whose database and store.
        audit_ids: Of the audits.
    """
    with services.database.read() as session:
        stored = [one for audit_id in audit_ids for one in list_records(session, audit_id)]
    lost = []
    for shard_id, digest in stored:
        try:
            services.store.verify(digest)
        except ArtifactDamagedError:
            # Whoever needs it waits for a missing file, and gives up at once on a damaged one.
            services.store.delete(digest)
            lost.append(shard_id)
        except ArtifactMissingError:
            lost.append(shard_id)
    return lost
