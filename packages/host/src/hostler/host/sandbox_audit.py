"""Audit of refusals by sandboxes, of plugins, MCP servers and commands.

A sandbox reports each refusal once per process. The refusals audited per sandbox and hour are limited as
well: a process that restarts again and again would fill the audit log. They are written in the background.
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

MAX_PER_HOUR = 120
"""Audited refusals per sandbox name and hour; one more entry says that there were more."""
MAX_WAITING = 2000
"""Refusals that wait to be written; the oldest are dropped."""
MAX_NAMES = 4000
"""Sandbox names with a counter: commands of each conversation have one."""
HOUR_SECONDS = 3600.0
ACTOR = "sandbox"

_log = logging.getLogger(__name__)


class AuditedSandboxes:
    """Provides the sandbox of this machine, and audits its refusals."""

    def __init__(self, db: Database, workspace: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._workspace = workspace
        self._clock = clock
        self._waiting: deque[tuple[str, str, str]] = deque(maxlen=MAX_WAITING)
        self._counts: dict[str, int] = {}
        self._counted_from = clock()
        self._writing: asyncio.Task[None] | None = None

    async def find(self) -> MachineSandbox:
        """Return the strongest sandbox of this machine."""
        return await find_sandbox(on_violation=self.record)

    def record(self, name: str, violation: Violation) -> None:
        """Queue a refusal of the sandbox with this name to be audited."""
        if self._clock() - self._counted_from >= HOUR_SECONDS or len(self._counts) >= MAX_NAMES:
            self._counts.clear()
            self._counted_from = self._clock()
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count > MAX_PER_HOUR + 1:
            return
        if count == MAX_PER_HOUR + 1:
            text = f"more than {MAX_PER_HOUR} in an hour; the rest is in its log only"
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
            _log.error("refusals of sandboxes cannot be audited: %s", error.message)
        finally:
            self._writing = None

    async def close(self) -> None:
        """Wait until all queued refusals are written."""
        if self._writing is not None:
            await self._writing
