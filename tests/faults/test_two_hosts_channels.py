"""Two hosts on one database: one of them has the channel, and the other takes it over when that one dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from support.chat_platform import TOKEN, platform
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS, end_lease

SECONDS = 90
pytestmark = [
    pytest.mark.timeout(SECONDS + 30),
    pytest.mark.gate("killed-hosts"),
    pytest.mark.parametrize(
        "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
    ),
]


async def test_one_host_has_the_channel_and_the_other_takes_it_over(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with platform() as chat:
        config = {"port": chat.port, "token": f"file:{tmp_path / 'token'}"}
        entry = {"name": "chat", "channel": "plugin:test/wires/keyed", "config": config}
        echo = {"name": "echo", "runner": "plugin:test/wires/echo", "recovery": {"max_attempts": 10}}
        file = config_file(
            tmp_path / "config.yaml", plugins=[PLUGINS / "wires"], agents=[echo], channels=[entry]
        )
        hosts = [
            HostProcess(tmp_path / name, file, database_url, options=[*LEASE], constants=LOOKS)
            for name in ("first", "second")
        ]
        first, second = hosts
        try:
            async with asyncio.timeout(SECONDS):
                await first.start()
                chat.say("one")
                await chat.until(1)
                await second.start()
                chat.say("two")
                assert await chat.until(2) == ["one", "two"]
                assert (chat.logins, chat.bots) == (1, 1)
                chat.on_request = lambda _: first.kill()  # while it sends
                chat.say("three")
                while first.up.is_set():
                    await asyncio.sleep(0.05)
                chat.on_request = None
                await end_lease(first, database_url)
                await asyncio.to_thread(_end_leases, database_url)
                chat.say("four")
                assert sorted(await chat.until(4)) == ["four", "one", "three", "two"]
                assert (chat.logins, chat.bots) == (2, 1)
                async with second.client() as client:
                    found = (await client.get("/v1/outbox")).json()["items"]
                    while not all(one["status"] == "sent" for one in found):
                        found = (await client.get("/v1/outbox")).json()["items"]
                assert len(found) == 4
                assert sorted(chat.by_bot()) == ["four", "one", "three", "two"]
        except BaseException:
            print(first.log, second.log, sep="\n---\n")
            raise
        finally:
            for host in hosts:
                host.end()


async def test_a_platform_gets_its_answer_whichever_host_it_calls(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "token").write_text(TOKEN)
    config = {"port": 1, "token": f"file:{tmp_path / 'token'}"}
    entry = {"name": "chat", "channel": "plugin:test/wires/called", "config": config}
    echo = {"name": "echo", "runner": "plugin:test/wires/echo", "recovery": {"max_attempts": 10}}
    file = config_file(tmp_path / "config.yaml", plugins=[PLUGINS / "wires"], agents=[echo], channels=[entry])
    first, second = (
        HostProcess(tmp_path / name, file, database_url, options=[*LEASE], constants=LOOKS)
        for name in ("first", "second")
    )
    try:
        async with asyncio.timeout(SECONDS):
            await first.start()
            while await _call(first, "1") != 200:  # it is being connected
                await asyncio.sleep(0.05)
            await second.start()
            assert await _call(second, "2") == 200
            first.kill()
            while first.up.is_set():
                await asyncio.sleep(0.05)
            await end_lease(first, database_url)
            await asyncio.to_thread(_end_leases, database_url)
            while await _call(second, "3") != 200:  # as the platform does, until somebody takes it
                await asyncio.sleep(0.05)
            assert await _call(second, "1") == await _call(second, "2") == 200
            async with second.client() as client:
                found = (await client.get("/v1/events")).json()["items"]
            assert sorted(one["input_summary"] for one in found) == ["said 1", "said 2", "said 3"]
    except BaseException:
        print(first.log, second.log, sep="\n---\n")
        raise
    finally:
        first.end()
        second.end()


async def _call(host: HostProcess, number: str) -> int:
    """Call the channel's address on a host as its platform does; return the status."""
    async with host.client() as client:
        said = {"id": number, "text": f"said {number}"}
        answer = await client.post("/v1/channels/chat/webhook", json=said, headers={"x-token": TOKEN})
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code


def _end_leases(database: str) -> None:
    """Let the leases of the dead host's channel, and of what it was sending, be over."""
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE channel_connections SET lease_until = 0")
        connection.execute("UPDATE outbox SET lease_until = 0")
