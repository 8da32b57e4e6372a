"""Closing a database while its log is being copied."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from hostler.sql import sqlite

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


def test_a_close_during_a_checkpoint_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Held] = []
    known = threading.Event()

    def connect(path: Path) -> Held:
        made.append(Held(sqlite3.connect(path)))
        known.set()
        return made[-1]

    monkeypatch.setattr(sqlite, "connect", connect)
    checkpointer = sqlite._Checkpointer(tmp_path / "facts.db")
    assert known.wait(SECONDS)
    checkpointer._due.set()
    assert made[0].begun.wait(SECONDS)
    closing = threading.Thread(target=checkpointer.close, daemon=True)
    closing.start()
    while not checkpointer._closing:
        closing.join(0.001)
    closing.join(0.05)  # the wish is out: it waits for the thread now
    made[0].go_on.set()
    closing.join(SECONDS)
    assert not closing.is_alive()
