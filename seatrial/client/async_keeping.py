"""The part of the client about what is kept: deletions, tombstones, projects, the audit log."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from seatrial.client.async_session import AsyncSession
from seatrial.client.requests import Request, Stored, as_json, path_part
from seatrial.contracts.deletions import SubjectKind, TombstoneRead, TombstoneSummary
from seatrial.contracts.projects import ActivityRead, ProjectChange, ProjectRead, ProjectSummary


class AsyncKeeping(AsyncSession):
    """Deletes things, and tells what was deleted, what a project keeps and uses, and who did what."""

    async def delete_audit(self, audit_id: str | Stored, *, cascade: bool = False) -> TombstoneRead:
        """Delete an audit that has ended and return what stays of it; deleting twice is the same as once.

        Args:
            audit_id: Which.
            cascade: Although it is a baseline, or its verdict is attested.

        Raises:
            ProblemResponseError: It runs, or something uses it; ``uses`` in the problem says what.
        """
        return await self._delete("audits", audit_id, cascade)

    async def delete_model(self, model_id: str | Stored, *, cascade: bool = False) -> TombstoneRead:
        """Delete a model, with ``cascade`` along with its audits, and return what stays of it."""
        return await self._delete("models", model_id, cascade)

    async def delete_dataset(self, dataset_id: str | Stored, *, cascade: bool = False) -> TombstoneRead:
        """Delete a dataset, with ``cascade`` along with its audits, and return what stays of it."""
        return await self._delete("datasets", dataset_id, cascade)

    async def delete_hardening(self, hardening_id: str | Stored) -> TombstoneRead:
        """Delete a hardening that has ended and return what stays of it; its audits and its version are kept."""
        return await self._delete("hardenings", hardening_id, cascade=False)

    async def _delete(self, room: str, subject_id: str | Stored, cascade: bool) -> TombstoneRead:
        params = {"cascade": "true"} if cascade else {}
        return await self._ask(Request("DELETE", f"/v1/{room}/{path_part(subject_id)}", params=params), TombstoneRead)

    def tombstones(
        self, *, kind: SubjectKind | None = None, limit: int | None = None
    ) -> AsyncIterator[TombstoneSummary]:
        """Yield what was deleted, newest first; ``limit`` is how many a request fetches."""
        return self._pages("/v1/tombstones", TombstoneSummary, {"kind": kind, "limit": limit})

    async def tombstone(self, subject_id: str | Stored) -> TombstoneRead:
        """Return what stays of something deleted, by its id or the tombstone's."""
        return await self._ask(Request("GET", f"/v1/tombstones/{path_part(subject_id)}"), TombstoneRead)

    def projects(self, *, limit: int | None = None) -> AsyncIterator[ProjectSummary]:
        """Yield one's own project; for the operator, all of them. ``limit`` is how many a request fetches."""
        return self._pages("/v1/projects", ProjectSummary, {"limit": limit})

    async def project(self, name: str) -> ProjectRead:
        """Return a project with what it keeps and uses."""
        return await self._ask(Request("GET", f"/v1/projects/{path_part(name)}"), ProjectRead)

    async def change_project(self, name: str, change: ProjectChange | Mapping[str, Any]) -> ProjectRead:
        """Change what ``change`` names of a project, and return it.

        Raises:
            ProblemResponseError: It is for the operator to change.
        """
        body = change.model_dump(mode="json", exclude_unset=True) if isinstance(change, ProjectChange) else change
        return await self._ask(Request("PATCH", f"/v1/projects/{path_part(name)}", json=as_json(body)), ProjectRead)

    def activity(
        self,
        *,
        action: str | None = None,
        subject: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ActivityRead]:
        """Yield who did what in the project, newest first.

        Args:
            action: Only this, such as ``audit.deleted``.
            subject: Only what was done to this.
            project: Name of the project; the operator may name others than the key's.
            limit: How many a request fetches.
        """
        asked = {"action": action, "subject": subject, "project": project, "limit": limit}
        return self._pages("/v1/activity", ActivityRead, asked)
