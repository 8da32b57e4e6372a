"""Closing a database while its log is being copied."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

from hostler.storage.sql.checkpoints import Checkpointer, Log

SECONDS = 110


class Held:
    """A connection whose checkpoint takes as long as a test wants."""

    def __init__(self, inner: sqlite3.Connection) -> None:
        self._inner = inner
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def execute(self, statement: str) -> Any:
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        return self._inner.execute(statement)

    def close(self) -> None:
        self._inner.close()


def test_a_close_during_a_checkpoint_is_not_forgotten(tmp_path: Path) -> None:
    made: list[Held] = []
    known = threading.Event()

    def connect(path: Path) -> Any:
        made.append(Held(sqlite3.connect(path, check_same_thread=False)))
        known.set()
        return made[-1]

    checkpointer = Checkpointer(tmp_path / "facts.db", connect)
    checkpointer._due.set()
    assert known.wait(SECONDS)
    assert made[0].begun.wait(SECONDS)
    closing = threading.Thread(target=checkpointer.close, daemon=True)
    closing.start()
    while not checkpointer._closing:
        closing.join(0.001)
    closing.join(0.05)  # the wish is out: it waits for the thread now
    made[0].go_on.set()
    closing.join(SECONDS)
    assert not closing.is_alive()


def test_a_checkpointer_that_cannot_connect_tries_again_at_the_next_checkpoint(tmp_path: Path) -> None:
    tries: list[Path] = []

    def connect(path: Path) -> sqlite3.Connection:
        tries.append(path)
        if len(tries) == 1:
            raise sqlite3.OperationalError("unable to open database file")
        return sqlite3.connect(path, check_same_thread=False)

    checkpointer = Checkpointer(tmp_path / "facts.db", connect)
    for _ in range(3):
        checkpointer._done.clear()
        checkpointer._due.set()
        assert checkpointer._done.wait(SECONDS)
    assert len(tries) == 2
    checkpointer.close()


def test_the_length_of_the_log_is_that_of_its_present_round(tmp_path: Path) -> None:
    """The file keeps its length when the log starts again: what lies behind is of an earlier round."""
    path = tmp_path / "facts.db"
    log = Log(path)
    assert not log.reaches(0), "there is no log yet"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("CREATE TABLE t (note text)")
        for _ in range(20):
            connection.execute("INSERT INTO t VALUES (?)", ("x" * 8_000,))
        size = (tmp_path / "facts.db-wal").stat().st_size
        assert log.reaches(size - 8_000)
        assert not log.reaches(size)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        connection.execute("INSERT INTO t VALUES ('again')")
        assert (tmp_path / "facts.db-wal").stat().st_size == size
        assert log.reaches(0)
        assert not log.reaches(size // 2)
    log.close()


def test_a_log_that_cannot_be_read_undoes_no_commit(tmp_path: Path) -> None:
    (tmp_path / "facts.db-wal").mkdir()
    log = Log(tmp_path / "facts.db")
    assert not log.reaches(0)
    log.close()
