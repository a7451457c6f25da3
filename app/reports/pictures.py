"""The attacked images of an audit, read from the records of its checks."""

from sqlalchemy.orm import Session

from app.audits.repository import list_record_digests
from app.reports import repository
from app.reports.classes import count_classes, name_classes
from seatrial.reporting.pictures import STAGE, Picture, pictures_of
from seatrial.store.artifacts import ArtifactMissingError, ArtifactStore
from seatrial.store.records import read_records


def find_pictures(session: Session, store: ArtifactStore, project_id: str, audit_id: str) -> dict[str, list[Picture]]:
    """Return the attacked images of each check that kept some, by its id; those first that matter most.

    What is no longer in the store is left out.
    """
    audit = repository.get_audit(session, project_id, audit_id)
    model = repository.find_model(session, project_id, audit.model_id)
    dataset = repository.find_dataset(session, project_id, audit.dataset_id)
    classes, labels = count_classes(model), name_classes(model, dataset)
    found: dict[str, list[Picture]] = {}
    for check in repository.list_checks(session, audit_id):
        digests = list_record_digests(session, check.id, STAGE)
        try:
            records = read_records(store, digests)
        except ArtifactMissingError:
            continue
        if records is not None and (pictures := pictures_of(records, labels, classes)):
            found[check.id] = pictures
    return found
