"""What a plugin says of its channel: stored before it is answered, bounded, and not lost without an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from hostler.channels.chat_answers import ChatAnswers
from hostler.channels.files import ChannelFiles
from hostler.channels.ingest import MAX_NAME_CHARS, Ingest
from hostler.channels.typing_sign import TypingSign
from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.domain.events import Caller
from hostler.host.config import ConfigFile
from hostler.pauses.transitions import Done
from hostler.plugins.channels import PluginChannels
from hostler.plugins.connection import PluginConnection
from hostler.runs.orchestrator import Accepted
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import artifacts, events
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores.channel_connections import Hold
from hostler_protocol.channels import (
    ChannelEvent,
    ChannelManifest,
    Chat,
    IngestEventParams,
    IngestHealthNote,
    IngestStateParams,
    Person,
)
from hostler_protocol.errors import HostlerError, InvalidArgumentError, UnavailableError
from hostler_protocol.events import EventEnvelope
from support.channel_host import Chatting, chatting, entry_for
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
HOLD = Hold(WORKSPACE, "chat", "token")


class Answers:
    """The answers to a plugin's requests."""

    def __init__(self) -> None:
        self.given: dict[Any, Any] = {}

    def reply(self, call_id: Any, reply: Any) -> None:
        self.given[call_id] = reply

    def refuse(self, call_id: Any, error: HostlerError) -> None:
        self.given[call_id] = error


class Desk:
    """One open channel whose requests come from the test. `refusals`: the errors of events, by text."""

    def __init__(self, db: SqlDatabase) -> None:
        self.db = db
        self.answers = Answers()
        self.tasks: list[asyncio.Task[None]] = []
        self.refusals: dict[str, list[HostlerError]] = {}
        entry = ChannelEntry(name="chat", channel="plugin:test/wires/keyed")
        manifest = ChannelManifest(name="keyed", label={"en_US": "Keyed"})
        self.ingest = Ingest(
            db,
            self._accept,
            entry,
            manifest,
            cast(PluginConnection, self.answers),
            HOLD,
            cast(ChannelFiles, None),
            self._spawn,
            lambda _: None,
            ChatAnswers(db, WORKSPACE, "chat", self._decide, lambda: None),
            TypingSign(db, entry, manifest, cast(PluginChannels, None), self._spawn, lambda: True),
        )
        self._count = 0

    async def _decide(self, work: Callable[[Tx], Done]) -> Done:
        return await self.db.write(work)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def _accept(
        self, envelope: EventEnvelope, caller: Caller, /, *, with_it: Callable[[Tx], object]
    ) -> Accepted:
        if refusals := self.refusals.get(envelope.input.text or ""):
            raise refusals.pop(0)
        return Accepted(event_id=envelope.event_id or "", duplicate=False, outcome="started", run=None)

    async def event(self, text: str, state: Any) -> Any:
        """Deliver an event, and return its answer."""
        event = ChannelEvent(
            event_type="message.received",
            event_id=text,
            text=text,
            chat=Chat(chat_id=text),
            person=Person(person_id="ann"),
        )
        return await self._ask("event", IngestEventParams(channel_id="chat", event=event, state=state))

    async def state(self, state: Any) -> Any:
        """Have a state kept, and return the answer."""
        return await self._ask("state", IngestStateParams(channel_id="chat", state=state))

    async def _ask(self, method: str, params: Any) -> Any:
        self._count += 1
        self.ingest.on_request(self._count, method, params)
        await asyncio.gather(*self.tasks)
        return self.answers.given[self._count]

    async def kept(self) -> Any:
        """The state that the channel would be opened with."""
        found = await self.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
        assert found is not None
        return found.state


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    db = open_database(f"sqlite:///{tmp_path}/h.db")
    async with asyncio.timeout(TEST_SECONDS):
        await db.write(lambda tx: connections.acquire(tx, HOLD, "h1", 2**53, alone=True))
        yield Desk(db)
    await db.close()


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


# -- states ----------------------------------------------------------------------------------------


async def test_no_state_runs_ahead_of_an_event_that_is_to_be_delivered_again(desk: Desk) -> None:
    assert not isinstance(await desk.event("first", 1), HostlerError)
    desk.refusals = {"second": [UnavailableError("too many wait")]}
    assert isinstance(await desk.event("second", 2), UnavailableError)
    assert not isinstance(await desk.event("third", 3), HostlerError), "it is stored, and answered"
    refused = await desk.state(4)
    assert isinstance(refused, UnavailableError)
    assert "yet to be delivered" in refused.message
    assert await desk.kept() == 1, "after a crash the platform gives out the second again"
    assert not isinstance(await desk.event("second", 2), HostlerError)
    assert await desk.kept() == 3, "the newest, although an older one came with the event"
    await desk.state(5)
    assert await desk.kept() == 5


async def test_an_event_that_is_refused_for_good_holds_no_state_back(desk: Desk) -> None:
    desk.refusals = {"bad": [UnavailableError("later"), InvalidArgumentError("never")]}
    await desk.event("bad", 1)
    await desk.event("good", 2)
    assert await desk.kept() is None
    assert isinstance(await desk.event("bad", 1), InvalidArgumentError)
    await desk.event("next", 3)
    assert await desk.kept() == 3


# -- health ----------------------------------------------------------------------------------------


async def test_a_flood_of_health_notes_is_one_task_and_the_newest_is_written(desk: Desk) -> None:
    account = Person(person_id="bot", name="n" * 100_000)
    for number in range(10_000):
        desk.ingest.on_health(
            IngestHealthNote(channel_id="chat", health="connecting", reason=f"try {number}", account=account)
        )
    assert len(desk.tasks) == 1
    await asyncio.gather(*desk.tasks)
    found = await desk.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
    assert found is not None
    assert found.reason == "try 9999"
    assert found.account is not None
    assert found.account.name == "n" * MAX_NAME_CHARS
    desk.ingest.on_health(IngestHealthNote(channel_id="chat", health="connected"))
    await asyncio.gather(*desk.tasks)
    found = await desk.db.read(lambda tx: connections.find(tx, WORKSPACE, "chat"))
    assert found is not None
    assert found.health == "connected"


# -- events that no agent gets ---------------------------------------------------------------------


async def test_what_is_said_to_a_disabled_agent_is_kept_as_unrouted(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat, agent={"enabled": False}) as host:
        await host.change(entry_for(chat.port, tmp_path / "token", agent="echo"))
        chat.say("kept", files={"a.txt": b"with its file"})
        (found,) = await host.until(lambda: _stored(host))
        assert (found.outcome, found.routing["reason"]) == ("unrouted", "agent 'echo' is disabled")
        await host.until(lambda: _state_is(host, 1))
        kept = await host.host.db.read(
            lambda tx: artifacts.page(tx, WORKSPACE, conversation_id=found.conversation_id, limit=9)
        )
        assert [(one.name, one.event_id) for one in kept] == [("a.txt", found.event_id)]
        echo = AgentSpec(name="echo", runner="plugin:test/wires/echo")
        await host.host.apply(ConfigFile(agents=[echo]), actor="test")
        chat.say("answered")
        assert await chat.until(1) == ["answered"]


async def _stored(host: Chatting) -> list[events.StoredEvent]:
    return list(await host.host.db.read(lambda tx: events.page(tx, WORKSPACE)))


async def _state_is(host: Chatting, state: Any) -> bool:
    return bool((await host.connection()).state == state)


async def test_reactions_and_joins_are_for_who_asks_for_them(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, agent={"event_types": []}) as host:
        await host.connected()
        await host.change(entry_for(chat.port, tmp_path / "token", agent="echo"))
        await host.until(lambda: host.logins(2))
        await host.connected()
        client = host.served.client

        async def of(event_type: str, count: int) -> list[dict[str, Any]]:
            query = {"event_type": event_type}
            found = (await client.get("/v1/events", params=query)).json()["items"]
            return found if len(found) == count else []

        chat.say("hello")
        assert await chat.until(1) == ["hello"], "by name, whatever its event types are"
        chat.say("", event="message.reaction_added")
        (left,) = await host.until(lambda: of("message.reaction_added", 1))
        why = "message.reaction_added is none of its event types (none: it is reached by name alone)"
        routing = (await client.get(f"/v1/events/{left['event_id']}")).json()["routing"]
        assert routing == {"reason": f"no enabled agent matches; nearest: echo: {why}"}
        asked = {"event_type": "message.reaction_added", "input": {"text": "x"}}
        told = (await client.post("/v1/events/explain", json=asked)).json()
        assert (told["outcome"], told["agents"][0]["text"]) == ("none", why)
        # who asks for them by a pattern gets them, and so does the channel's agent where its entry says so
        spec = AgentSpec(name="watcher", runner="plugin:test/wires/echo", event_types=["group.*"])
        await host.host.apply(ConfigFile(agents=[spec]), actor="test")
        chat.say("joined", event="group.member_joined")
        (joined,) = await host.until(lambda: of("group.member_joined", 1))
        assert joined["routing"]["agent"] == "watcher"
        await host.change(entry_for(chat.port, tmp_path / "token", agent="echo", agent_events=["*"]))
        await host.until(lambda: host.logins(3))
        await host.connected()
        chat.say("left", event="group.member_left")
        (gone,) = await host.until(lambda: of("group.member_left", 1))
        assert gone["routing"]["agent"] == "echo"
