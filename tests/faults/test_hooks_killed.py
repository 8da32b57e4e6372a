"""The host dies after a hook's event is stored and before its sender is answered: one event, one run."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import httpx
import msgspec
import pytest

from hostler.domain.hook_samples import SignedRequest
from hostler.domain.hooks import HmacScheme, Hook, HookMapping
from support.examples import SOAK
from support.hooked import SECRET, Sender
from support.http_host import PUPPET, PUPPET_RUNNER
from support.http_runs import follow
from support.loopback import NO_CERTIFICATES
from support.oracle import rows
from support.server_process import HostProcess, config_file
from support.wire_client import ask

pytestmark = pytest.mark.gate("killed-hosts")

SECONDS = 1_800 if SOAK else 300
ROUNDS = 40 if SOAK else 4
AT_ONCE = 6
HOOK = Hook(
    name="in",
    verify="stripe",
    secrets=["env:HOOK_SECRET"],
    agent="puppet",
    map=HookMapping(text="'say 1'", conversation_id="body.id"),
)
UNNAMED = Hook(
    name="unnamed",
    verify="hmac",
    secrets=["env:HOOK_SECRET"],
    hmac=HmacScheme(header="x-signature", timestamp_header="x-time"),
    same_body="new",
    agent="puppet",
    map=HookMapping(text="'say 1'"),
)
_left: list[asyncio.StreamWriter] = []
"""Connections whose answers nobody reads."""


@pytest.mark.timeout(SECONDS + 60)
async def test_each_message_has_one_run_whenever_the_host_dies(tmp_path: Path, database_url: str) -> None:
    """A sender sends until it is answered, as they all do; the host is killed while it takes that."""
    rng = random.Random(int(os.environ.get("HOSTLER_SEED", "43")))
    host = HostProcess(
        tmp_path / "host",
        config_file(
            tmp_path / "config.yaml",
            plugins=[PUPPET],
            agents=[{"name": "puppet", "runner": PUPPET_RUNNER, "recovery": {"on_crash": "restart"}}],
            hooks=[_entry()],
        ),
        database=database_url if database_url.startswith("postgresql:") else None,
        environment={"HOOK_SECRET": SECRET},
    )
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            sent: list[str] = []
            for number in range(ROUNDS):
                unanswered = [f"evt_{number}_unanswered_{one}" for one in range(AT_ONCE)]
                answered = [f"evt_{number}_{one}" for one in range(AT_ONCE)]
                for message_id in unanswered:
                    await _send_and_leave(host, message_id)
                await _stored(host, len(sent) + AT_ONCE)
                senders = [asyncio.create_task(_until_answered(host, one)) for one in answered]
                await _stored(host, len(sent) + AT_ONCE + rng.randrange(AT_ONCE))
                host.kill()
                sent += [*unanswered, *answered]
                await host.start()
                again = await asyncio.gather(*(_until_answered(host, one) for one in unanswered))
                assert set(again) == {"duplicate"}, "they were stored, and nobody was told"
                assert set(await asyncio.gather(*senders)) <= {"accepted", "duplicate"}
            events = (await ask(host.url, "GET", "/v1/events?limit=500")).json()["items"]
            assert sorted(event["conversation_id"] for event in events) == sorted(sent)
            for event in events:
                assert (await follow(host, event["run_id"])).ending == ("run.completed", None)
            assert len({event["run_id"] for event in events}) == len(sent)
            assert rows(_database(host), "SELECT count(*) FROM runs") == [(len(sent),)]
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()
        for writer in _left:
            writer.close()
        _left.clear()


@pytest.mark.timeout(SECONDS + 60)
async def test_a_request_that_is_known_by_its_signature_alone_is_one_event_whenever_the_host_dies(
    tmp_path: Path, database_url: str
) -> None:
    """The very same request is sent until it is answered. Its id is made by the host, when it notes it."""
    rng = random.Random(int(os.environ.get("HOSTLER_SEED", "43")))
    entry = {**msgspec.to_builtins(UNNAMED), "map": {"text": UNNAMED.map.text}}
    host = HostProcess(
        tmp_path / "host",
        config_file(
            tmp_path / "config.yaml",
            plugins=[PUPPET],
            agents=[{"name": "puppet", "runner": PUPPET_RUNNER, "recovery": {"on_crash": "restart"}}],
            hooks=[{name: value for name, value in entry.items() if value is not None}],
        ),
        database=database_url if database_url.startswith("postgresql:") else None,
        environment={"HOOK_SECRET": SECRET},
    )
    try:
        async with asyncio.timeout(SECONDS):
            await host.start()
            for number in range(ROUNDS):
                async with httpx.AsyncClient(base_url=host.url, verify=NO_CERTIFICATES) as client:
                    requests = [Sender(client, UNNAMED).request({"n": [number, n]}) for n in range(AT_ONCE)]
                senders = [asyncio.create_task(_answered(host, request)) for request in requests]
                noted = number * AT_ONCE + 1 + rng.randrange(AT_ONCE)
                while rows(_database(host), "SELECT count(*) FROM hook_deliveries")[0][0] < noted:
                    await asyncio.sleep(0)
                host.kill()
                await host.start()
                assert set(await asyncio.gather(*senders)) <= {"accepted", "duplicate"}
            assert rows(_database(host), "SELECT count(*) FROM events") == [(ROUNDS * AT_ONCE,)]
            assert rows(_database(host), "SELECT count(*) FROM runs") == [(ROUNDS * AT_ONCE,)]
    except BaseException:
        print(host.log)
        raise
    finally:
        host.end()


async def _answered(host: HostProcess, request: SignedRequest) -> str:
    """Send the very same request until it is answered; the outcome."""
    while True:
        await host.up.wait()
        try:
            async with httpx.AsyncClient(base_url=host.url, timeout=30, verify=NO_CERTIFICATES) as client:
                answer = await Sender(client, UNNAMED).send(request)
        except httpx.HTTPError:
            await asyncio.sleep(0.01)
            continue
        if answer.status_code == 202:
            return str(answer.json()["outcome"])
        assert answer.status_code in (429, 503), answer.text
        await asyncio.sleep(0.01)


def _entry() -> dict[str, object]:
    return {
        "name": HOOK.name,
        "verify": HOOK.verify,
        "secrets": HOOK.secrets,
        "agent": HOOK.agent,
        "map": {"text": HOOK.map.text, "conversation_id": HOOK.map.conversation_id},
    }


async def _send_and_leave(host: HostProcess, message_id: str) -> None:
    """Send a message, and do not read the answer."""
    async with httpx.AsyncClient(base_url=host.url, verify=NO_CERTIFICATES) as client:
        request = Sender(client, HOOK).request(message_id=message_id)
    lines = [f"POST {HOOK.path} HTTP/1.1", "host: h", f"content-length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    port = int(host.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "", ""]).encode() + request.body)
    await writer.drain()
    _left.append(writer)


async def _until_answered(host: HostProcess, message_id: str) -> str:
    """Send a message until it is answered, signed anew each time; the outcome."""
    while True:
        await host.up.wait()
        try:
            async with httpx.AsyncClient(base_url=host.url, timeout=30, verify=NO_CERTIFICATES) as client:
                answer = await Sender(client, HOOK).post(message_id=message_id)
        except httpx.HTTPError:
            await asyncio.sleep(0.01)
            continue
        if answer.status_code == 202:
            return str(answer.json()["outcome"])
        assert answer.status_code in (429, 503), answer.text
        await asyncio.sleep(0.01)


async def _stored(host: HostProcess, at_least: int) -> None:
    """Wait until so many events are stored, answered or not."""
    while rows(_database(host), "SELECT count(*) FROM events")[0][0] < at_least:
        await asyncio.sleep(0)


def _database(host: HostProcess) -> str:
    return host.database or str(host.data / "hostler.db")
