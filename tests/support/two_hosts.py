"""Two hosts on one PostgreSQL, with a counter of effects outside of both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from support.counting import Counter, counting
from support.server_process import PLUGINS, HostProcess, config_file
from support.wire_client import Answer, ask

SECONDS = 240
LEASE = ("--lease-seconds", "5")
"""A third of the usual, as one has to run out before a host is taken over from."""


class Two(NamedTuple):
    """Both hosts, and what counts the effects of both."""

    first: HostProcess
    second: HostProcess
    counter: Counter
    database: str

    async def facts(self, run_id: str) -> list[Any]:
        """The effects of a run."""
        return [effect for effect in (await self.counter.facts()).effects if effect.run == run_id]

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
            HostProcess(folder / name, config, database, environment, options=list(options))
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
