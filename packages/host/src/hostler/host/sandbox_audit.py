"""Audit of refusals by sandboxes, of plugins, MCP servers and commands.

A sandbox reports each refusal once an hour. The refusals audited per sandbox, group and hour are limited as
well: a process that restarts again and again would fill the audit log. A group is a system call, a verb for
files, or a kind, so that many refusals of one do not hide another. A worker writes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from hostler.domain.clock import monotonic_clock
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import Violation
from hostler.sandbox.probe import find_sandbox
from hostler.sandbox.report_budget import group_of
from hostler.sandbox.users import OF_THIS_PROCESS, SandboxUsers
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit
from hostler_protocol.errors import HostError, StorageError

MAX_PER_HOUR = 120
"""Audited refusals per sandbox name, group and hour; one more entry says that there were more."""
MAX_WAITING = 2000
"""Refusals that wait to be written; the oldest are dropped."""
MAX_COUNTERS = 10_000
"""Sandbox names and groups with a counter: commands of each conversation have some."""
HOUR_SECONDS = 3600.0
RETRY_SECONDS = 1.0
"""Back-off after the database did not answer."""
ACTOR = "sandbox"

_log = logging.getLogger(__name__)


class AuditedSandboxes:
    """Provides the sandbox of this machine, and audits its refusals."""

    def __init__(
        self,
        db: Database,
        workspace: str,
        *,
        users: SandboxUsers = OF_THIS_PROCESS,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self._users = users
        self._db = db
        self._workspace = workspace
        self._clock = clock
        self._waiting: deque[tuple[str, str, str]] = deque(maxlen=MAX_WAITING)
        self._counts: dict[tuple[str, str], int] = {}
        self._counted_from = clock()
        self._recorded = asyncio.Event()

    async def find(self) -> MachineSandbox:
        """Return the strongest sandbox of this machine."""
        return await find_sandbox(on_violation=self.record, users=self._users)

    def record(self, name: str, violation: Violation) -> None:
        """Queue a refusal of the sandbox with this name to be audited."""
        if self._clock() - self._counted_from >= HOUR_SECONDS or len(self._counts) >= MAX_COUNTERS:
            self._counts.clear()
            self._counted_from = self._clock()
        group = group_of(violation.kind, violation.subject)
        count = self._counts[name, group] = self._counts.get((name, group), 0) + 1
        if count > MAX_PER_HOUR + 1:
            return
        if count == MAX_PER_HOUR + 1:
            text = f"{group}: more than {MAX_PER_HOUR} in an hour; the rest is in its log only"
            self._waiting.append((name, violation.kind, text))
        else:
            self._waiting.append((name, violation.kind, violation.text))
        self._recorded.set()

    async def work(self, succeeded: Callable[[], None]) -> None:
        """Write queued refusals. A worker of the host."""
        self._recorded.set()
        while True:
            await self._recorded.wait()
            self._recorded.clear()
            try:
                await self._write()
            except StorageError as error:
                _log.warning("refusals of sandboxes cannot be audited now: %s", error.message)
                await asyncio.sleep(RETRY_SECONDS)
                self._recorded.set()
            else:
                succeeded()

    async def close(self) -> None:
        """Write what is still queued."""
        try:
            await self._write()
        except HostError as error:
            _log.error("%d refusals of sandboxes are not audited: %s", len(self._waiting), error.message)

    async def _write(self) -> None:
        """Write all queued refusals. After a StorageError they stay queued."""
        while self._waiting:
            facts = tuple(self._waiting)
            self._waiting.clear()

            def write(tx: Tx, facts: tuple[tuple[str, str, str], ...] = facts) -> None:
                for name, kind, text in facts:
                    action = "sandbox.limit" if kind == "limit" else "sandbox.refused"
                    audit.record(tx, self._workspace, ACTOR, action, name, {"kind": kind, "text": text})

            try:
                await self._db.write(write)
            except StorageError:
                self._waiting.extendleft(reversed(facts))  # if there is no room, the newest are dropped
                raise
