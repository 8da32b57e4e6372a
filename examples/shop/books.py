"""What the shop remembers: one SQLite file, so that it survives the process."""

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
    """Each deed stands under the effect key of the call that asked for it."""

    def __init__(self, file: Path = FILE) -> None:
        self._db = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS deeds (key TEXT PRIMARY KEY, kind TEXT, outcome TEXT)")

    def once(self, key: str, kind: str, deed: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """Do it, unless it was done under this key before; either way, what came of it."""
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
        """What came of the call with this key; None where it was never done."""
        row = self._db.execute("SELECT outcome FROM deeds WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])
