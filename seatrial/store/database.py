"""Engines and sessions, on SQLite and on Postgres."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, Row, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import Float

from seatrial.store.private_files import private_file, private_folder
from seatrial.store.settings import Settings

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""Some columns, by name."""

UNREACHABLE = (OperationalError, InterfaceError, PoolTimeoutError)
"""What a database that does not answer raises."""

# Errors repeat the statement in logs and tracebacks; the values of its parameters may be secrets of webhooks.
_QUIET: dict[str, Any] = {"hide_parameters": True}


class epoch_now(FunctionElement[float]):
    """Seconds since the epoch by the database's clock, so hosts with drifting clocks agree on leases."""

    type = Float()
    inherit_cache = True


@compiles(epoch_now, "postgresql")
def _epoch_now_postgresql(element: epoch_now, compiler: SQLCompiler, **kw: object) -> str:
    # clock_timestamp, not now(): a transaction may have begun long ago.
    return "extract(epoch from clock_timestamp())"


@compiles(epoch_now, "sqlite")
def _epoch_now_sqlite(element: epoch_now, compiler: SQLCompiler, **kw: object) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


class Database:
    """One engine and its sessions.

    Sessions are synchronous: the API runs its routes in threads, the worker is one loop, and both call the same code.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._sessions = sessionmaker(engine, expire_on_commit=False)

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite, where one writer at a time is the rule."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a session for reading; nothing is committed."""
        with self._sessions() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Yield a session in one transaction: committed at the end, rolled back on any exception.

        On SQLite the transaction is IMMEDIATE, so a compare-and-set never meets a lock it cannot wait for.
        """
        with self._sessions() as session:
            if self.is_sqlite:
                session.connection(execution_options={"begin_immediate": True})
            try:
                yield session
                session.commit()
            except BaseException:
                session.rollback()
                raise

    def dispose(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def insert_into(session: Session, table: Any) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that can say what becomes of a row that is there already, as this database has it."""
    return sqlite.insert(table) if session.get_bind().dialect.name == "sqlite" else postgresql.insert(table)


def _postgres(settings: Settings, url: str, pool_size: int) -> Engine:
    # Three API processes with eighty each exhausted Postgres' default of 100: one answer in nine was a 503.
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=2,
        pool_timeout=settings.database_wait_s,
        pool_pre_ping=True,
        pool_recycle=1800,
        connect_args={} if "connect_timeout" in url else {"connect_timeout": settings.database_connect_s},
        **_QUIET,
    )
    if settings.database_statement_s:
        limit_ms = round(1000 * settings.database_statement_s)

        @event.listens_for(engine, "connect")
        def _bound(connection: Any, _record: object) -> None:
            # Not among the options of the connection: poolers refuse those.
            connection.execute(f"SET statement_timeout = {limit_ms}")
            connection.commit()

    return engine


def connect(settings: Settings, *, pool_size: int = 10) -> Database:
    """Return the database of the settings; for SQLite its folder and file are made, for this user only.

    Args:
        settings: Where the database is.
        pool_size: Connections kept open; to Postgres at most the settings' ``database_pool``, and a thread that finds
            none waits.
    """
    url = settings.resolved_database_url
    if not url.startswith("sqlite"):
        return Database(_postgres(settings, url, min(pool_size, settings.database_pool)))
    if (match := re.match(r"sqlite:///([^?]+)", url)) and match[1] != ":memory:":
        private_folder(Path(match[1]).parent)
        # SQLite gives its -wal and -shm the mode of this file.
        private_file(Path(match[1]))
    engine = create_engine(url, pool_size=pool_size, max_overflow=pool_size, connect_args={"timeout": 30}, **_QUIET)

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: object) -> None:
        # The driver's own implicit BEGIN is switched off; we emit BEGIN ourselves below.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("begin_immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return Database(engine)
