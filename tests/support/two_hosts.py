"""Two hosts on one PostgreSQL, with a counter of effects outside of both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from support.counting import Counter, counting
from support.server_process import PLUGINS, HostProcess, config_file
from support.wire_client import Answer, ask

SECONDS = 240
LEASE = ("--lease-seconds", "300")
"""No host that is only slow loses it. That of a host that is to be taken over from is ended by hand."""
LOOKS: Mapping[str, float] = {"hostler.host.lease.BEATS_PER_LEASE": 300}
"""Leases are looked at each second all the same."""
_END_STALLED = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL AND wait_event_type = 'Client'"
)


async def end_lease(host: HostProcess, database: str) -> None:
    """Let the lease of a host be over, as if it had been silent for all of its length."""
    host_id = (host.data / "host_id").read_text("ascii").strip()
    assert await asyncio.to_thread(_end_lease, database, host_id) == 1


def _end_lease(database: str, host_id: str) -> int:
    """How many leases were ended: one.

    A host that was stopped inside a transaction keeps its row until a host that is awake ends that. Where
    none is, this does: the timer of PostgreSQL is off for sessions that have sent a Flush.
    """
    with psycopg.connect(database, autocommit=True) as server:
        server.execute("SET lock_timeout = '5s'")
        while True:
            try:
                ended = server.execute("UPDATE hosts SET lease_until = 0 WHERE host_id = %s", [host_id])
            except psycopg.errors.LockNotAvailable:
                server.execute(_END_STALLED)
            else:
                return ended.rowcount


class Two(NamedTuple):
    """Both hosts, and what counts the effects of both."""

    first: HostProcess
    second: HostProcess
    counter: Counter
    database: str

    async def facts(self, run_id: str) -> list[Any]:
        """The effects of a run."""
        return [effect for effect in (await self.counter.facts()).effects if effect.run == run_id]

    async def oversleeps(self, host: HostProcess) -> None:
        """Stop a host past its lease."""
        host.pause()
        await end_lease(host, self.database)

    async def outcome(self, run_id: str, review: Any) -> Any:
        """What came of the only call in doubt of a run, once it was made."""
        (call,) = review["calls"]
        while (outcome := await self.counter.outcome(run_id, call["call_id"])) is None:
            await asyncio.sleep(0.05)
        return outcome

    async def pause(self, run_id: str, status: str = "open", *, at: HostProcess | None = None) -> Any:
        """The run's pause, once it has that status, as the second host (or `at` another) shows it."""
        while True:
            path = f"/v1/pauses?run_id={run_id}&status={status}"
            found = (await ask((at or self.second).url, "GET", path)).json()["items"]
            if found:
                return found[0]
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def two_hosts(
    folder: Path, database: str, *options: str, seconds: float = SECONDS, **agent: Any
) -> AsyncIterator[Two]:
    """Both are up; both are gone afterwards. `options` of `hostler serve`; `agent`: fields of the agent."""
    doer = {"name": "doer", "runner": "plugin:test/doer/default", "recovery": {"max_attempts": 10}, **agent}
    config = config_file(
        folder / "config.yaml", plugins=[PLUGINS / "doer", PLUGINS / "effects"], agents=[doer]
    )
    with counting(folder) as counter:
        environment = {"HOSTLER_PLUGIN_COUNTER": counter.path}
        first, second = (
            HostProcess(
                folder / name, config, database, environment, options=[*LEASE, *options], constants=LOOKS
            )
            for name in ("first", "second")
        )
        try:
            async with asyncio.timeout(seconds):
                await first.start()
                await second.start()
                yield Two(first, second, counter, database)
        except BaseException:
            print(first.log, second.log, sep="\n---\n")
            raise
        finally:
            first.end()
            second.end()


async def act(host: HostProcess, pause: Any, kind: str = "approve") -> Answer:
    """Decide the only call of a pause."""
    (call,) = pause["calls"]
    action = {"call_id": call["call_id"], "type": kind, "args_hash": call["args_hash"]}
    body = {"revision": pause["revision"], "actions": [action]}
    return await ask(host.url, "POST", f"/v1/pauses/{pause['id']}/actions", body)
