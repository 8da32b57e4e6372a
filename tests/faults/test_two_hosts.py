"""Two hosts on one PostgreSQL: who is dead is taken over from, who only slept is fenced out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_runs import Results, begin, cancel, follow, perform, record, send
from support.loopback import NO_CERTIFICATES
from support.postgres import PostgresServer
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS, end_lease
from support.wire_client import ask, stream

SECONDS = 240
BEFORE = 100
"""So many deltas are committed when the host falls asleep."""
MEANWHILE = 1_000_000
"""So many are wanted of its plugin while it sleeps: more than credit and pipe have room for."""
pytestmark = [pytest.mark.gate("killed-hosts"), pytest.mark.postgres, pytest.mark.timeout(SECONDS + 30)]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


@contextlib.asynccontextmanager
async def _two(folder: Path, database: str) -> AsyncIterator[tuple[HostProcess, HostProcess]]:
    agents: list[dict[str, Any]] = [
        {"name": "fails", "runner": "plugin:test/puppet/default", "recovery": {"on_crash": "fail"}},
        {"name": "again", "runner": "plugin:test/puppet/default", "recovery": {"on_crash": "restart"}},
        {"name": "flood", "runner": "plugin:test/flood/default", "recovery": {"on_crash": "fail"}},
    ]
    config = config_file(
        folder / "config.yaml", plugins=[PLUGINS / "puppet", PLUGINS / "flood"], agents=agents
    )
    first, second = (
        HostProcess(folder / name, config, database, options=list(LEASE), constants=LOOKS)
        for name in ("first", "second")
    )
    try:
        async with asyncio.timeout(SECONDS):
            await first.start()
            await second.start()
            yield first, second
    except BaseException:
        print(first.log, second.log, sep="\n---\n")
        raise
    finally:
        first.end()
        second.end()


async def test_runs_of_a_dead_host_go_on_at_another(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as (first, second):
        lost = await begin(first, "fails", "hold", "c1")
        waiting = await send(first, "fails", "say 2", "c1")  # behind it in its lane
        restarted = await begin(first, "again", "hold", "c2")
        own = await begin(second, "fails", "hold", "c3")
        first.kill()
        await end_lease(first, shared)
        results = await follow(second, lost.run_id)
        assert results.types == ["message.delta", "run.failed"]
        assert results.ending == ("run.failed", "host.restarted")
        behind = await follow(second, waiting.run_id)
        assert behind.types == ["message.delta"] * 2 + ["message.completed", "run.completed"]
        while (await record(second, restarted.run_id))["attempt"] == 1:
            await asyncio.sleep(0.1)
        second_attempt = await cancel(second, restarted.run_id)
        assert second_attempt.types[:2] == ["message.delta", "attempt.started"]
        assert second_attempt.ending == ("run.failed", "cancelled")
        assert (await cancel(second, own.run_id)).types == ["message.delta", "run.failed"]
        # who was dead comes back under its old name, long after its lease
        await first.start()
        assert (await perform(first, "fails", "say 1")).ending == ("run.completed", None)
        assert await first.stop() == await second.stop() == 0


async def test_a_host_that_slept_past_its_lease_is_fenced_out(tmp_path: Path, shared: str) -> None:
    path = str(tmp_path / "flood.sock")
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.get_running_loop().create_future()
    valve = await asyncio.start_unix_server(lambda r, w: connected.set_result((r, w)), path)
    async with _two(tmp_path, shared) as (first, second), valve:
        sent = await send(first, "flood", path)
        reader, writer = await connected
        writer.write(b"%d\n" % BEFORE)
        assert await reader.readline() == b"ok\n"
        await _committed(second, sent.run_id)
        first.pause()
        await end_lease(first, shared)
        writer.write(b"%d\n" % MEANWHILE)  # its plugin goes on as if nothing had happened
        taken = await follow(second, sent.run_id)
        _check_taken(taken)
        first.go_on()
        assert await reader.readline() == b"", "the runner was told to stop"
        assert list(await follow(first, sent.run_id)) == list(taken)
        assert list(await follow(second, sent.run_id)) == list(taken)
        assert (await record(second, sent.run_id))["status_code"] == "host.restarted"
        # it is a host like any other again, and nobody takes its runs from it
        held = await begin(first, "fails", "hold")
        assert (await perform(first, "fails", "say 1")).ending == ("run.completed", None)
        await _lease_renewed(first, second)
        assert (await record(second, held.run_id))["status"] == "running"
        assert (await cancel(second, held.run_id)).ending == ("run.failed", "cancelled")
        writer.close()
        assert await first.stop() == await second.stop() == 0


async def _committed(host: HostProcess, run_id: str) -> None:
    """Wait until this host, which knows of the run from the database alone, shows all that was emitted."""
    seen = 0
    async with contextlib.aclosing(stream(host.url, run_id)) as pieces:
        async for results in pieces:
            seen += len(results)
            if seen == BEFORE:
                return
    raise AssertionError(f"the run ended after {seen} results")


def _check_taken(taken: Results) -> None:
    """What was committed before the pause, and nothing that came while the host slept."""
    assert taken.ending == ("run.failed", "host.restarted")
    deltas = [taken.data(n)["chunk"]["content"] for n in range(len(taken) - 1)]
    assert deltas == [f"{n} " for n in range(1, BEFORE + 1)]


async def _lease_renewed(first: HostProcess, second: HostProcess) -> None:
    """Wait until a lease that did not hold would have been found: both have run a few more beats."""
    for _ in range(8):
        for host in (first, second):
            assert (await ask(host.url, "GET", "/readyz")).status == 200
        await asyncio.sleep(0.5)


async def test_what_one_host_is_told_the_other_does_too(tmp_path: Path, shared: str) -> None:
    async with _two(tmp_path, shared) as (first, second):

        async def put(path: str, entry: dict[str, Any]) -> None:
            assert (await ask(first.url, "PUT", f"/v1/config/{path}", entry)).status == 200

        wanted = {"name": "key", "workspace_id": "tenant", "rights": ["admin"]}
        key = (await ask(first.url, "POST", "/v1/keys", wanted)).json()["key"]
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=second.url, headers=headers, verify=NO_CERTIFICATES) as tenant:

            async def until(what: str, expected: list[str]) -> None:
                """Wait until the tenant is offered this by the second host."""
                while True:
                    items = (await tenant.get(f"/v1/{what}")).json()["items"]
                    if [one.get("model_id") or one["name"] for one in items] == expected:
                        return
                    await asyncio.sleep(0.1)

            await put("models/small", {"id": "small", "base_url": "http://127.0.0.1:9/v1"})
            await until("models", ["small"])
            await put("tools/fetch:web", {"fetch": {"name": "web"}})
            await put("workspaces/tenant", {"name": "tenant", "tools": ["web"]})
            await until("tools", ["web"])
            await put("workspaces/tenant", {"name": "tenant", "tools": [], "models": []})
            await until("tools", [])
            await until("models", [])
