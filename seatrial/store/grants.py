"""What each side may do in Postgres: workers load other people's models, so theirs is the smallest role that works.

A role is given what stands here and loses everything else, each time ``seatrial migrate`` runs: a migration that adds a
table grants nothing by itself. The statements need the owner of the tables, and a role that may make others.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, text

from seatrial.store.database import Database
from seatrial.store.tables import Base

RoleKind = Literal["service", "worker"]
Grants = Mapping[str, Sequence[str]]

_LEASE = "token, lease_until, attempts, deferrals, worker"

WORKER: Grants = {
    "alembic_version": ("SELECT",),
    "models": ("SELECT", f"UPDATE (state, problem, facts, {_LEASE})"),
    "datasets": ("SELECT",),
    # Secrets of endpoints are bound to projects by name.
    "projects": ("SELECT (id, name, weight, priority, turn)", "UPDATE (turn)"),
    "audits": ("SELECT", "UPDATE (state, code, error, estimated_s, event_seq, started_at, finished_at)"),
    "checks": (
        "SELECT",
        "UPDATE (state, stage, open_shards, looks, measured_with, reused, result, figures, figures_bytes, "
        f"figure_sizes, error, estimated_s, started_at, finished_at, {_LEASE})",
    ),
    # A check that is begun again, by other code, drops what it had.
    "stages": ("SELECT", "INSERT", "DELETE"),
    "shards": (
        "SELECT",
        "INSERT",
        "DELETE",
        "UPDATE (state, done, records_digest, records_bytes, code, hardware, flags, error, seconds, queries, "
        f"forward_passes, saved_digest, saved_bytes, saved_attempt, started_at, finished_at, {_LEASE})",
    ),
    "events": ("SELECT", "INSERT"),
    "hardenings": (
        "SELECT",
        "UPDATE (state, stage, progress, curves, outcome, error, seconds, code, hardware, saved_digest, saved_bytes, "
        f"saved_attempt, event_seq, started_at, finished_at, {_LEASE})",
    ),
    "hardening_events": ("SELECT", "INSERT"),
    "discards": ("SELECT", "INSERT", "DELETE"),
    "workers": ("SELECT", "INSERT", "UPDATE (last_seen_at, usage)", "DELETE"),
    "counters": ("SELECT", "INSERT", "UPDATE (value)"),
    # Whoever ends an audit leaves its messages. Holding a webhook's row against its deletion takes the right to change
    # some column of it; this one is for people only.
    "webhooks": ("SELECT (id, project_id, events, is_enabled)", "UPDATE (created_at)"),
    "deliveries": ("INSERT",),
}
"""Of workers and the scheduler: no key, no session, no webhook's secret, no policy, and no verdict to be written."""


def grants_of(kind: RoleKind) -> Grants:
    """Return what a role of this kind may do, by table."""
    if kind == "worker":
        return WORKER
    everything = ("SELECT", "INSERT", "UPDATE", "DELETE")
    return {"alembic_version": ("SELECT",), **{name: everything for name in Base.metadata.tables}}


def grant(database: Database, kind: RoleKind, role: str, password: str | None = None) -> None:
    """Give a role what its kind may do, and take from it what else it was given; with a password it is made first.

    Args:
        database: Opened as the owner of the tables.
        kind: ``service`` for API processes, ``worker`` for workers and the scheduler.
        role: Its name.
        password: Makes the role if it is not there, and is its password from now on.

    Raises:
        ValueError: The database is not Postgres; the name is none; the role is not there and no password was given, or
            it may do everything anyway.
    """
    if database.is_sqlite:
        raise ValueError("SQLite has no roles: this is for Postgres")
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", role):
        raise ValueError(f"{role!r} is no name of a role: lower-case letters, digits and underscores")
    with database.engine.begin() as connection:
        role_row = connection.execute(
            text("SELECT rolsuper, rolname = current_user AS is_me FROM pg_roles WHERE rolname = :role"), {"role": role}
        ).one_or_none()
        if role_row is None and password is None:
            raise ValueError(f"there is no role {role}: make it, or give a password to have it made")
        if role_row is not None and (role_row.rolsuper or role_row.is_me):
            raise ValueError(f"{role} owns the tables or is a superuser: no grant can limit it, so name another role")
        if role_row is None:
            connection.execute(text(f'CREATE ROLE "{role}" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION'))
        if password is not None:
            verifier = _verifier(connection, role, password)
            # As it is: what SQLAlchemy takes for parameters begins with a colon, and a verifier holds some.
            connection.exec_driver_sql(f"ALTER ROLE \"{role}\" LOGIN PASSWORD '{verifier}'")
        name = connection.execute(text("SELECT quote_ident(current_database())")).scalar_one()
        for statement in _statements(grants_of(kind), role, name):
            connection.exec_driver_sql(statement)


def _statements(grants: Grants, role: str, database: str) -> list[str]:
    return [
        # Before Postgres 15 everybody could make tables in it.
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
        f'GRANT CONNECT ON DATABASE {database} TO "{role}"',
        f'GRANT USAGE ON SCHEMA public TO "{role}"',
        f'REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "{role}"',
        *(f'GRANT {right} ON "{table}" TO "{role}"' for table, rights in grants.items() for right in rights),
    ]


def _verifier(connection: Connection, role: str, password: str) -> str:
    """Return what Postgres stores of a password, so that the password itself is in no log of the server."""
    driver: Any = connection.connection.driver_connection
    verifier: bytes = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return verifier.decode()
