"""What sandboxes did not let happen, in the audit chain: plugins, MCP servers and commands alike.

Each thing is violation once in the life of a process; beyond that there is a bound for each sandbox and hour,
since who is restarted again and again would fill the chain. Nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import Violation
from hostler.sandbox.probe import find_sandbox
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit
from hostler_protocol.errors import HostError

MOST_PER_HOUR = 120
"""Facts of one sandbox name; the one after it says that there are more."""
MOST_WAITING = 2000
"""Facts that wait to be written."""
MOST_NAMES = 4000
"""Sandbox names that are counted at once: commands of many conversations have one each."""
HOUR_SECONDS = 3600.0
ACTOR = "sandbox"

_log = logging.getLogger(__name__)


class AuditedSandboxes:
    """The sandbox of this machine, of which everything that it does not let happen is written down."""

    def __init__(self, db: Database, workspace: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._workspace = workspace
        self._clock = clock
        self._waiting: deque[tuple[str, str, str]] = deque(maxlen=MOST_WAITING)
        self._counts: dict[str, int] = {}
        self._counted_from = clock()
        self._writing: asyncio.Task[None] | None = None

    async def find(self) -> MachineSandbox:
        """The strongest one."""
        return await find_sandbox(on_violation=self.record)

    def record(self, name: str, violation: Violation) -> None:
        """Something was not let happen in the sandbox of this name."""
        if self._clock() - self._counted_from >= HOUR_SECONDS or len(self._counts) >= MOST_NAMES:
            self._counts.clear()
            self._counted_from = self._clock()
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > MOST_PER_HOUR + 1:
            return
        if count == MOST_PER_HOUR + 1:
            text = f"more than {MOST_PER_HOUR} in an hour; the rest stands in its log alone"
            self._waiting.append((name, violation.kind, text))
        else:
            self._waiting.append((name, violation.kind, violation.text))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                facts = tuple(self._waiting)
                self._waiting.clear()

                def write(tx: Tx, facts: tuple[tuple[str, str, str], ...] = facts) -> None:
                    for name, kind, text in facts:
                        action = "sandbox.limit" if kind == "limit" else "sandbox.refused"
                        audit.record(tx, self._workspace, ACTOR, action, name, {"kind": kind, "text": text})

                await self._db.write(write)
        except HostError as error:
            _log.error("what sandboxes refused cannot be written down: %s", error.message)
        finally:
            self._writing = None

    async def close(self) -> None:
        """Wait until everything that was heard is written."""
        if self._writing is not None:
            await self._writing
