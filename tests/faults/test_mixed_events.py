"""Events of all sources in a mix, while hosts and plugins are killed: each is one run, or one reason."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from hostler.domain.hooks import Hook, HookMapping
from support.channel_process import CONSTANTS
from support.chat_platform import TOKEN, ChatPlatform, platform
from support.examples import SOAK
from support.hooked import STANDARD_SECRET, Sender
from support.loopback import NO_CERTIFICATES
from support.oracle import rows
from support.server_process import KEY, PLUGINS, HostProcess, config_file
from support.wire_client import ask

EVENTS = 10_000 if SOAK else 300
KILLS = 40 if SOAK else 5
SECONDS = 3_000 if SOAK else 200
LANES = 4
"""Conversations of each source: senders that wait for an answer before they go on."""
LOOK_SECONDS = 0.02
SHOP = "https://shop.example"
BELL = Hook(
    name="bell",
    verify="standard",
    secrets=["env:BELL_SECRET"],
    agent="echo",
    map=HookMapping(conversation_id="body.lane", text="body.text"),
)
ONCE_MORE = (httpx.HTTPError, OSError)
pytestmark = [pytest.mark.timeout(SECONDS + 60), pytest.mark.gate("killed-hosts")]


async def test_each_event_of_any_source_is_one_run_or_one_reason(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("HOSTLER_SEED", "17")))
    token = tmp_path / "token"
    token.write_text(TOKEN)
    async with platform() as chat:
        host = HostProcess(
            tmp_path / "host",
            _config(tmp_path, chat.port, token),
            environment={"BELL_SECRET": STANDARD_SECRET},
            constants=CONSTANTS,
        )
        try:
            async with asyncio.timeout(SECONDS):
                await host.start()
                sent = await _mixed(host, chat, chance)
                await _settled(host, len(sent))
                _judge(host, chat, sent)
        except BaseException:
            print(host.log)
            raise
        finally:
            host.end()


def _config(folder: Path, port: int, token: Path) -> Path:
    agent = {
        "name": "echo",
        "runner": "plugin:test/wires/echo",
        "recovery": {"max_attempts": 1_000},
        "concurrency": {"on_busy": "queue"},
        "event_types": ["message.received"],
    }
    channel = {
        "name": "chat",
        "channel": "plugin:test/wires/keyed",
        "config": {"port": port, "token": f"file:{token}"},
        "agent": "echo",
    }
    bell = {
        "name": BELL.name,
        "verify": BELL.verify,
        "secrets": BELL.secrets,
        "agent": BELL.agent,
        "map": {"conversation_id": BELL.map.conversation_id, "text": BELL.map.text},
        "requests_per_second": 1_000.0,
    }
    tick = {
        "name": "tick",
        "every": 1,
        "misfire": "all",
        "agent": "echo",
        "text": "tick",
        "conversation_id": "t",
    }
    rates = (
        "messages_per_minute",
        "total_messages_per_minute",
        "visitors_per_minute",
        "total_visitors_per_minute",
    )
    widget = {"name": "help", "agent": "echo", "origins": [SHOP], **dict.fromkeys(rates, 10_000)}
    return config_file(
        folder / "config.yaml",
        plugins=[PLUGINS / "wires"],
        agents=[agent],
        channels=[channel],
        hooks=[bell],
        schedules=[tick],
        widgets=[widget],
    )


async def _mixed(host: HostProcess, chat: ChatPlatform, chance: random.Random) -> list[str]:
    """Send from all sources, and kill meanwhile; return what each event said."""
    share = EVENTS // 5 // LANES
    sources: list[Callable[[HostProcess, str, str], Awaitable[None]]] = [_by_api, _by_hook, _unrouted]
    lanes = {f"{source.__name__.strip('_')}-{lane}": source for source in sources for lane in range(LANES)}
    sent = [f"{lane} {number}" for lane in lanes for number in range(share)]
    tasks = [asyncio.create_task(_lane(host, lane, share, source)) for lane, source in lanes.items()]
    for lane in range(LANES):
        tasks.append(asyncio.create_task(_visits(host, f"visitor-{lane}", share)))
        tasks.append(asyncio.create_task(_talks(chat, f"room-{lane}", share, host)))
        sent += [f"{name}-{lane} {number}" for name in ("visitor", "room") for number in range(share)]
    for kill in range(KILLS):
        wanted = len(sent) * (kill + 1) // (KILLS + 1) + chance.randint(0, 5)
        while len(_events(host)) < min(wanted, len(sent)):
            host.check()
            await asyncio.sleep(LOOK_SECONDS)
        if chance.random() < 0.3:
            _kill_plugins(host)
        else:
            if chance.choice([True, True, False]):
                host.kill()
            else:
                await host.stop()
            await host.start()
    await asyncio.gather(*tasks)
    await _persist(host, lambda client: client.post("/v1/schedules/tick/pause"))
    return sent


def _kill_plugins(host: HostProcess) -> None:
    """Kill the processes of plugins, whatever they are doing."""
    for process in psutil.Process(host.pid).children(recursive=True):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


async def _lane(
    host: HostProcess, lane: str, count: int, source: Callable[[HostProcess, str, str], Awaitable[None]]
) -> None:
    for number in range(count):
        await source(host, lane, f"{lane} {number}")


async def _persist(
    host: HostProcess, request: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]], key: str = KEY
) -> Any:
    """Make a request until it is answered, as clients do; return what was said."""
    while True:
        await host.up.wait()
        try:
            async with httpx.AsyncClient(
                base_url=host.url,
                timeout=30,
                verify=NO_CERTIFICATES,
                headers={"authorization": f"Bearer {key}"},
            ) as client:
                answer = await request(client)
        except ONCE_MORE:
            await asyncio.sleep(LOOK_SECONDS)
            continue
        if answer.status_code in (429, 503):
            await asyncio.sleep(LOOK_SECONDS)
            continue
        assert answer.status_code in (200, 201, 202), answer.text
        return answer.json()


async def _by_api(host: HostProcess, lane: str, text: str) -> None:
    event = {**_message(lane, text), "agent": "echo"}
    await _persist(host, lambda client: client.post("/v1/events", json=event))


async def _unrouted(host: HostProcess, lane: str, text: str) -> None:
    """An event that no agent takes."""
    event = {**_message(lane, text), "event_type": "nobody.asked"}
    await _persist(host, lambda client: client.post("/v1/events", json=event))


async def _by_hook(host: HostProcess, lane: str, text: str) -> None:
    def send(client: httpx.AsyncClient) -> Awaitable[httpx.Response]:
        return Sender(client, BELL).post({"lane": lane, "text": text}, message_id=text.replace(" ", "-"))

    await _persist(host, send)


async def _visits(host: HostProcess, lane: str, count: int) -> None:
    """A visitor of the widget, who comes back now and then."""
    visitor: str | None = None
    entered: dict[str, Any] = {}
    for number in range(count):
        if number % 10 == 0:
            entered = await _persist(
                host,
                lambda client, visitor=visitor: client.post(  # type: ignore[misc]
                    "/v1/widgets/help/visitors", json={"visitor": visitor}, headers={"origin": SHOP}
                ),
            )
            visitor = entered["visitor"]
        event = _message(entered["conversation_id"], f"{lane} {number}", f"{lane}-{number}")
        await _persist(
            host,
            lambda client, event=event: client.post(  # type: ignore[misc]
                "/v1/events", json=event, headers={"origin": SHOP}
            ),
            entered["token"],
        )


async def _talks(chat: ChatPlatform, room: str, count: int, host: HostProcess) -> None:
    """People in a chat, who wait for nothing; the platform tells some of it again."""
    for number in range(count):
        said = chat.say(f"{room} {number}", chat=room)
        if number % 7 == 0:
            chat.tell_again(said)
        while len(chat.by_bot(room)) < number - 10:  # they go on when they were answered, by and by
            await asyncio.sleep(LOOK_SECONDS)


def _message(conversation: str, text: str, event_id: str | None = None) -> dict[str, Any]:
    return {
        "event_id": event_id or text.replace(" ", "-"),
        "event_type": "message.received",
        "conversation_id": conversation,
        "input": {"text": text},
    }


def _events(host: HostProcess) -> list[tuple[Any, ...]]:
    return rows(str(host.data / "hostler.db"), "SELECT event_id FROM events WHERE source <> 'scheduler'")


async def _settled(host: HostProcess, count: int) -> None:
    """Wait until all is stored, all runs have ended, and all that was said is sent."""
    database = str(host.data / "hostler.db")
    while (
        len(_events(host)) < count
        or rows(database, "SELECT 1 FROM runs WHERE finished_at IS NULL LIMIT 1")
        or rows(database, "SELECT 1 FROM outbox WHERE due_at IS NOT NULL LIMIT 1")
    ):
        host.check()
        await asyncio.sleep(LOOK_SECONDS)
    assert (await ask(host.url, "GET", "/healthz")).status == 200


def _judge(host: HostProcess, chat: ChatPlatform, sent: list[str]) -> None:
    database = str(host.data / "hostler.db")
    found = [
        (json.loads(body), outcome, json.loads(routing), conversation, runs, status, began)
        for body, outcome, routing, conversation, runs, status, began in rows(
            database,
            "SELECT e.body, e.outcome, e.routing, e.conversation_id, count(r.run_id), min(r.status),"
            " min(r.started_at) FROM events e LEFT JOIN runs r ON r.event_id = e.event_id"
            " GROUP BY e.event_id ORDER BY e.seq",
        )
    ]
    texts = Counter(body["input"]["text"] for body, *_ in found)
    ticks = texts.pop("tick")
    assert texts == Counter(sent), "each that was sent is one event"
    reasons = Counter(
        bool(routing.get("reason")) for _, outcome, routing, *_ in found if outcome == "unrouted"
    )
    assert reasons == {True: EVENTS // 5 // LANES * LANES}, "those that no agent takes say why"
    assert {(runs, status) for _, outcome, _, _, runs, status, _ in found if outcome != "unrouted"} == {
        (1, "completed")
    }
    assert {runs for _, outcome, _, _, runs, _, _ in found if outcome == "unrouted"} == {0}
    lanes: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for body, *_, began in found:
        lane, _, number = body["input"]["text"].partition(" ")
        if lane != "tick":
            lanes[lane].append((int(number), began))
    for lane, events in lanes.items():
        assert [number for number, _ in events] == sorted(number for number, _ in events), lane
        times = [began for _, began in events if began is not None]
        assert times == sorted(times), f"{lane}: runs began in another order"
    for lane_number in range(LANES):
        room = f"room-{lane_number}"
        assert chat.by_bot(room) == [text for text in sent if text.startswith(f"{room} ")], room
    planned = sorted(body["event_time"] for body, *_ in found if body["input"]["text"] == "tick")
    assert len(planned) == ticks > 0
    assert {round(later - before) for before, later in pairwise(planned)} <= {1}, "no planned time is missing"
