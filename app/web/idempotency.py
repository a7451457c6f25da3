"""Idempotency-Key: a request sent twice does its work once and is answered twice the same.

The first response is stored in the transaction that did the work, so there is no moment at which one exists without the
other. Two requests at the same time meet at the primary key: the later one rolls back and answers as the first.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header
from pydantic import BaseModel
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse, Response

from app.web.problems import ProblemError
from seatrial.store.database import Database
from seatrial.store.retention import IDEMPOTENCY_KEPT
from seatrial.store.tables import IdempotencyRow
from seatrial.store.tables.base import utc_now

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Any unique text, a UUID for instance: the same key and body within 24 hours give the first "
        "response again, and the work is done once.",
    ),
]


class IdempotencyMismatchError(ProblemError):
    """The key was used for another body."""

    status = 422
    code = "idempotency-key-reused"
    title = "The Idempotency-Key was used for another request"


@dataclass(frozen=True)
class Answer:
    """A response as it can be stored."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]

    def response(self, *, replayed: bool = False) -> Response:
        """Return it for sending."""
        headers = {**self.headers, **({"Idempotency-Replayed": "true"} if replayed else {})}
        return JSONResponse(self.body, status_code=self.status, headers=headers)


def fingerprint(method: str, path: str, body: BaseModel) -> str:
    """Return a digest of what is asked; the order of a JSON object's fields does not matter."""
    return hashlib.sha256(f"{method} {path}\n{body.model_dump_json()}".encode()).hexdigest()


def once(
    database: Database, project_id: str, key: str | None, asked: str, work: Callable[[Session], Answer]
) -> tuple[Answer, bool]:
    """Do ``work`` in one transaction unless ``key`` has been answered; return the answer and whether it is an old one.

    Args:
        database: Where the work and the answer are stored.
        project_id: Keys of different projects are different keys.
        key: The Idempotency-Key; None to do the work in any case.
        asked: :func:`fingerprint` of the request.
        work: Does the work in the session it is given and returns the answer.

    Raises:
        IdempotencyMismatchError: The key was used for another request.
    """
    if key is None:
        with database.write() as session:
            return work(session), False
    try:
        with database.write() as session:
            if (stored := _find(session, project_id, key, asked)) is not None:
                return stored, True
            answer = work(session)
            session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < utc_now() - IDEMPOTENCY_KEPT))
            session.add(
                IdempotencyRow(
                    project_id=project_id,
                    key=key,
                    fingerprint=asked,
                    status=answer.status,
                    headers=answer.headers,
                    body=answer.body,
                )
            )
            session.flush()
            return answer, False
    except IntegrityError:
        with database.read() as session:
            if (stored := _find(session, project_id, key, asked)) is not None:
                return stored, True
        raise


def _find(session: Session, project_id: str, key: str, asked: str) -> Answer | None:
    row = session.get(IdempotencyRow, (project_id, key))
    if row is None or row.created_at < utc_now() - IDEMPOTENCY_KEPT:
        return None
    if row.fingerprint != asked:
        raise IdempotencyMismatchError(
            f"Idempotency-Key {key!r} came with another body before: use a new key for a new request.",
            part="header",
            pointer="/idempotency-key",
        )
    return Answer(row.status, row.headers, row.body)
