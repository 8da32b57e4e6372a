"""The shop's records, in one SQLite file that survives the process."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

# in the sandbox a plugin writes to its workspace and nowhere else
FOLDER = Path(os.environ.get("HOSTLER_PLUGIN_WORKSPACE", Path(__file__).parent))
FILE = Path(os.environ.get("SHOP_FILE", FOLDER / "shop.sqlite3"))


class Books:
    """Records each action under the effect key of its call."""

    def __init__(self, file: Path = FILE) -> None:
        self._db = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS deeds (key TEXT PRIMARY KEY, kind TEXT, outcome TEXT)")

    def once(self, key: str, kind: str, deed: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """Do an action, unless it was done under this key before. Return its outcome in both cases."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            done = self.outcome(key)
            if done is None:
                (number,) = self._db.execute("SELECT count(*) FROM deeds WHERE kind = ?", (kind,)).fetchone()
                done = deed(number + 1)
                self._db.execute("INSERT INTO deeds VALUES (?, ?, ?)", (key, kind, json.dumps(done)))
            return done
        finally:
            self._db.execute("COMMIT")

    def outcome(self, key: str) -> dict[str, Any] | None:
        """Return the outcome of the call with this key, or None if it was never carried out."""
        row = self._db.execute("SELECT outcome FROM deeds WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])
