"""Two hosts on one PostgreSQL, and a platform that calls the one that does not have the channel."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from hostler.domain.channel_requests import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES
from support.chat_platform import TOKEN
from support.loopback import NO_CERTIFICATES
from support.postgres import PostgresServer
from support.server_process import CLIENT_SECONDS, PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS, end_lease

SECONDS = 240
ADDRESS = "/v1/channels/chat/webhook"
SIGNED = {"x-token": TOKEN}
MANY = 40
"""Calls at once: more than may be under way."""
AGAIN = {503, 504}
"""What a platform takes as: send it again."""
SOON = {"hostler.channels.channel_requests.ANSWER_SECONDS": 3.0}
pytestmark = [
    pytest.mark.timeout(SECONDS + 30),
    pytest.mark.postgres,
    pytest.mark.gate("killed-hosts"),
    pytest.mark.gate("channel-calls"),
]


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database for both."""
    url = postgres_server.create(postgres_template)
    yield url
    postgres_server.drop(url)


class _Pair:
    """Two hosts, of which `owner` has the channel."""

    def __init__(self, hosts: list[HostProcess], database: str) -> None:
        self.owner, self.other = hosts
        self.database = database

    async def rows(self, sql: str) -> list[Any]:
        """Ask the database that both share."""
        return await asyncio.to_thread(_execute, self.database, sql)

    async def until(self, sql: str) -> None:
        """Wait until a statement finds something."""
        while not await self.rows(sql):
            await asyncio.sleep(0.05)

    async def said(self) -> list[str]:
        """What the events say that either host has stored."""
        async with self.other.client() as client:
            found = (await client.get("/v1/events", params={"limit": 100})).json()["items"]
        return sorted(one["input_summary"] for one in found)

    async def metrics(self, host: HostProcess) -> dict[str, float]:
        """What a host counts of requests to channels."""
        async with host.client() as client:
            lines = (await client.get("/metrics")).text.splitlines()
        found = (line.rpartition(" ") for line in lines if line.startswith("hostler_channel_requests"))
        return {name.removeprefix("hostler_channel_requests_"): float(value) for name, _, value in found}

    async def until_open(self, host: HostProcess) -> None:
        """Wait until a host has the channel open."""
        while await call_status(host, {"mood": "mirror"}) != 200:
            await asyncio.sleep(0.05)

    async def lose_owner(self) -> None:
        """Kill the owner; the other host gets the channel."""
        dead, self.owner = self.owner, self.other
        dead.kill()
        await end_lease(dead, self.database)
        await self.rows("UPDATE channel_connections SET lease_until = 0 RETURNING 1")
        self.other = dead
        # before the dead one comes back, which would take its own channel again
        host_id = (self.owner.data / "host_id").read_text("ascii").strip()
        await self.until(
            f"SELECT 1 FROM channel_connections WHERE channel = 'chat' AND host_id = '{host_id}'"
        )


def _execute(database: str, sql: str) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


@asynccontextmanager
async def pair(folder: Path, database: str, constants: Mapping[str, float]) -> AsyncIterator[_Pair]:
    (folder / "token").write_text(TOKEN)
    config = {"port": 1, "token": f"file:{folder / 'token'}"}
    entries = [
        {"name": name, "channel": f"plugin:test/wires/{kind}", "config": config, "enabled": name != "off"}
        for name, kind in (("chat", "called"), ("off", "called"))
    ]
    echo = {"name": "echo", "runner": "plugin:test/wires/echo", "recovery": {"max_attempts": 10}}
    hook = {"name": "in", "verify": "bearer", "secrets": [f"file:{folder / 'token'}"], "agent": "echo"}
    file = config_file(
        folder / "config.yaml",
        plugins=[PLUGINS / "wires"],
        agents=[echo],
        channels=entries,
        hooks=[{**hook, "map": {"id": "body.id", "text": "body.text"}}],
    )
    hosts = [
        HostProcess(folder / name, file, database, options=[*LEASE], constants={**LOOKS, **constants})
        for name in ("first", "second")
    ]
    found = _Pair(list(hosts), database)
    try:
        async with asyncio.timeout(SECONDS):
            await hosts[0].start()
            await found.until_open(hosts[0])
            await hosts[1].start()
            yield found
    except BaseException:
        print(hosts[0].log, hosts[1].log, sep="\n---\n")
        raise
    finally:
        for host in hosts:
            host.end()


@asynccontextmanager
async def outside(host: HostProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A client without any key, which sends what it is told and nothing more."""
    async with httpx.AsyncClient(
        base_url=host.url, timeout=CLIENT_SECONDS, headers=SIGNED, verify=NO_CERTIFICATES
    ) as client:
        yield client


async def call_status(host: HostProcess, said: dict[str, Any]) -> int:
    """Call as the platform does; return the status."""
    async with outside(host) as client:
        answer = await client.post(ADDRESS, json=said)
    if answer.status_code in AGAIN:
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code


async def test_a_call_at_the_other_host_is_as_one_at_the_host_of_the_channel(
    tmp_path: Path, shared: str
) -> None:
    async with pair(tmp_path, shared, {}) as two, outside(two.other) as client:
        said = {"id": "1", "text": "hello"}
        for _ in range(2):
            answer = await client.post(ADDRESS, json=said)
            assert (answer.status_code, answer.json()) == (200, {})
            assert answer.headers["content-type"] == "application/json"
        assert await two.said() == ["hello"]
        below = await client.get(f"{ADDRESS}/interactive/a%20b")
        assert (below.status_code, below.json()) == (200, {"path": "interactive/a b"})
        assert (await client.get(ADDRESS, params={"echostr": "äö &"})).json() == {"echostr": "äö &"}
        await _hooks_are_at_home_at_both(two)
        await _sees_the_same(two)
        await _refused_once(two)
        await _is_bounded(two)
        assert (await client.post("/v1/channels/off/webhook", json=said)).status_code == 503
        assert (await client.post("/v1/channels/none/webhook", json=said)).status_code == 404
        assert (await client.post(ADDRESS, json={"mood": "fail"})).status_code == 503
        harm = {"status": 302, "headers": {"location": "https://evil.example"}}
        assert (await client.post(ADDRESS, json={"answer": harm})).status_code == 502
        assert await two.rows("SELECT request_id FROM forwarded_requests") == []
        await _many_at_once(two)
        assert await two.rows("SELECT request_id FROM forwarded_requests") == []
        assert await two.owner.stop() == await two.other.stop() == 0


async def _sees_the_same(two: _Pair) -> None:
    """A plugin cannot tell a call that was passed on; what a stranger says of that means nothing."""
    marks = {
        "forwarded": "for=10.0.0.1;by=hostler",
        "x-forwarded-for": "10.0.0.1",
        "x-hostler-forwarded": "1",
        "x-hostler-host": "first",
        "via": "1.1 hostler",
        "cookie": "hostler_session=secret",
    }
    seen = []
    for host in (two.owner, two.other):
        async with outside(host) as client:
            answer = await client.post(f"{ADDRESS}?a=1", json={"mood": "mirror"}, headers=marks)
            assert answer.status_code == 200
            found = answer.json()
            assert found["headers"].pop("host") in host.url
            seen.append(found)
            unsigned = await client.post(
                ADDRESS, json={"id": "x", "text": "x"}, headers={**marks, "x-token": "wrong"}
            )
            assert (unsigned.status_code, unsigned.content) == (401, b"")
    assert seen[0] == seen[1]
    assert seen[0]["headers"]["x-hostler-forwarded"] == "1"
    assert "cookie" not in seen[0]["headers"]


async def _hooks_are_at_home_at_both(two: _Pair) -> None:
    """Either host stores what is sent to a hook, and what one has taken is nothing new to the other."""
    signed = {"authorization": f"Bearer {TOKEN}"}
    outcomes = []
    for host, message in ((two.owner, "h1"), (two.other, "h2"), (two.owner, "h2"), (two.other, "h1")):
        async with outside(host) as client:
            body = {"id": message, "text": message}
            answer = await client.post("/v1/hooks/in", json=body, headers=signed)
            assert answer.status_code == 202
            outcomes.append(answer.json()["outcome"])
    assert outcomes == ["accepted", "accepted", "duplicate", "duplicate"]
    assert await two.said() == ["h1", "h2", "hello"]


async def _refused_once(two: _Pair) -> None:
    """Each host counted and audited the refusal of its own call."""
    async with two.other.client() as client:
        facts = (await client.get("/v1/audit", params={"action": "channel.refused"})).json()["items"]
    assert [one["body"]["count"] for one in facts] == [1, 1]
    for host in (two.owner, two.other):
        assert (await two.metrics(host))['total{channel="chat",outcome="refused"}'] == 1
    assert (await two.metrics(two.other))['forwarded_total{channel="chat"}'] >= 6
    assert 'forwarded_total{channel="chat"}' not in await two.metrics(two.owner)


async def _is_bounded(two: _Pair) -> None:
    async with outside(two.other) as client:
        pad = MAX_REQUEST_BYTES - len(json.dumps({"id": "2", "text": "large", "pad": ""}))
        whole = json.dumps({"id": "2", "text": "large", "pad": "x" * pad}).encode()
        assert len(whole) == MAX_REQUEST_BYTES
        assert (await client.post(ADDRESS, content=whole)).status_code == 200
        assert (await client.post(ADDRESS, content=whole + b" ")).status_code == 413
        body = bytes(range(256)) * (MAX_RESPONSE_BYTES // 256)
        given = {
            "status": 418,
            "headers": {"content-type": "application/octet-stream", "set-cookie": "a=b", "allow": "POST"},
            "body_base64": base64.b64encode(body).decode(),
        }
        answer = await client.post(ADDRESS, json={"answer": given})
        assert (answer.status_code, answer.content) == (418, body)
        assert (answer.headers["allow"], "set-cookie" in answer.headers) == ("POST", False)
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert await two.said() == ["h1", "h2", "hello", "large"]


async def _many_at_once(two: _Pair) -> None:
    """Calls beyond the bound are told to come again, and do; each starts something once."""

    async def until_taken(number: int) -> int:
        said, refused = {"id": f"n{number}", "text": f"n{number:02}"}, 0
        while (status := await call_status(two.other, said)) != 200:
            assert status == 503
            refused += 1
            await asyncio.sleep(0.05)
        return refused

    await asyncio.gather(*map(until_taken, range(MANY)))
    sent = [f"n{number:02}" for number in range(MANY)]
    assert await two.said() == ["h1", "h2", "hello", "large", *sent]


async def test_a_call_whose_host_is_killed_is_answered_by_the_next_or_sent_again(
    tmp_path: Path, shared: str
) -> None:
    taken = "SELECT 1 FROM forwarded_requests WHERE taken_at IS NOT NULL"
    async with pair(tmp_path, shared, {}) as two:
        # while its plugin has it
        asked = asyncio.create_task(call_status(two.other, {"mood": "hang"}))
        await two.until(taken)
        await two.lose_owner()
        assert await asked in AGAIN
        # after the plugin has delivered it, and before it has answered
        await two.other.start()
        await two.until_open(two.owner)
        said = {"id": "1", "text": "late"}
        asked = asyncio.create_task(call_status(two.other, {**said, "mood": "late"}))
        while await two.said() != ["late"]:
            await asyncio.sleep(0.05)
        await two.lose_owner()
        assert await asked in AGAIN
        while await call_status(two.owner, said) != 200:  # as the platform does
            await asyncio.sleep(0.05)
        assert await _said_at(two.owner) == ["late"]
        # before its host has taken it: it waits for the next one
        await two.other.start()
        two.owner.pause()
        asked = asyncio.create_task(call_status(two.other, {"id": "2", "text": "moved"}))
        await two.until("SELECT 1 FROM forwarded_requests")
        await two.lose_owner()
        assert await asked == 200
        assert await _said_at(two.owner) == ["late", "moved"]
        assert await two.rows("SELECT request_id FROM forwarded_requests") == []


async def _said_at(host: HostProcess) -> list[str]:
    async with host.client() as client:
        found = (await client.get("/v1/events")).json()["items"]
    return sorted(one["input_summary"] for one in found)


async def test_a_host_that_sleeps_is_waited_for_within_bounds_and_does_nothing_late(
    tmp_path: Path, shared: str
) -> None:
    async with pair(tmp_path, shared, SOON) as two:
        two.owner.pause()
        assert await call_status(two.other, {"id": "1", "text": "asleep"}) == 504
        assert (await two.metrics(two.other))['total{channel="chat",outcome="failed"}'] == 1
        assert await two.rows("SELECT request_id FROM forwarded_requests") == []
        two.owner.go_on()
        while await call_status(two.other, {"id": "2", "text": "awake"}) != 200:
            await asyncio.sleep(0.05)
        assert await two.said() == ["awake"]
        # a host that dies leaves requests, which others delete
        asked = asyncio.create_task(call_status(two.other, {"mood": "hang"}))
        await two.until("SELECT 1 FROM forwarded_requests")
        two.other.kill()
        with pytest.raises(httpx.TransportError):
            await asked
        await two.until("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM forwarded_requests)")
