"""Channels served by the SDK, in real processes, on a real socket to an invented platform."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler_protocol.channels import (
    ChannelActParams,
    ChannelCloseParams,
    ChannelEditParams,
    ChannelManifest,
    ChannelMessage,
    ChannelOpenParams,
    ChannelSendParams,
    ChannelSent,
    ChannelTarget,
)
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
    RemoteFaultError,
    StorageError,
    to_fault,
)
from hostler_protocol.methods import NoParams
from hostler_sdk.conformance.process import PluginUnderTest
from hostler_sdk.loading import PluginLoadError, load_folder
from support.child_plugins import EXAMPLES, folder_plugin, within
from support.shout_server import TOKEN, ShoutServer

SECONDS = 110.0
SHOUT = EXAMPLES / "shout"
COURIER = Path(__file__).parents[1] / "support" / "plugins" / "courier"


def with_shout(body: Callable[[PluginUnderTest, ShoutServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        server = ShoutServer()
        await server.start()
        try:
            async with folder_plugin(SHOUT).started() as plugin:
                await body(plugin, server)
                assert plugin.junk is None
        finally:
            await server.stop()

    within(SECONDS, whole)


def with_courier(body: Callable[[PluginUnderTest], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with folder_plugin(COURIER).started() as plugin:
            await plugin.session.request("channel/open", ChannelOpenParams(channel_id="c", channel="courier"))
            await plugin.session.until(lambda: health(plugin) == "connected")
            await body(plugin)
            assert plugin.junk is None

    within(SECONDS, whole)


async def open_shout(plugin: PluginUnderTest, server: ShoutServer, state: Any = None) -> None:
    config = {"port": server.port, "host": "127.0.0.1", "token": TOKEN}
    params = ChannelOpenParams(channel_id="c", channel="shout", config=config, state=state)
    await plugin.session.request("channel/open", params)
    await plugin.session.until(lambda: health(plugin) == "connected")


def health(plugin: PluginUnderTest) -> str | None:
    note = plugin.session.ingest.health_of("c")
    return None if note is None else note.health


def to_send(text: str = "", key: str = "k1", **message: Any) -> ChannelSendParams:
    return ChannelSendParams(
        channel_id="c",
        key=key,
        target=ChannelTarget(chat_id="lobby"),
        message=ChannelMessage(text=text, **message),
    )


async def send(plugin: PluginUnderTest, text: str, key: str = "k1", **message: Any) -> ChannelSent:
    sent: ChannelSent = await plugin.session.request("channel/send", to_send(text, key, **message))
    return sent


async def refusal(plugin: PluginUnderTest, method: str, params: Any) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        await plugin.session.request(method, params)
    return caught.value


def test_a_channel_is_listed_with_its_abilities_and_its_form() -> None:
    async def body(plugin: PluginUnderTest, _: ShoutServer) -> None:
        listed = await plugin.session.request("channels/list", NoParams())
        (manifest,) = [msgspec.json.decode(one, type=ChannelManifest) for one in listed.channels]
        assert manifest.name == "shout"
        assert manifest.label == {"en": "Shout, the chat where everything is said aloud"}
        assert (manifest.abilities.edit, manifest.abilities.buttons) == (True, False)
        assert manifest.abilities.repeat == "client_id"
        assert manifest.actions == ["message.edit"]
        assert [item.name for item in manifest.config_schema] == ["host", "port", "token"]

    with_shout(body)


def test_events_come_in_and_messages_go_out() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        ingest = plugin.session.ingest
        await open_shout(plugin, server)
        note = ingest.health_of("c")
        assert note is not None
        assert note.account is not None
        assert note.account.person_id == "bot"
        server.say("hello 漢字")
        await plugin.session.until(lambda: len(ingest.events) == 1)
        (event,) = ingest.events
        assert event.text == "hello 漢字"
        assert event.event_id == "1"
        assert event.chat is not None
        assert event.chat.chat_id == "lobby"
        assert event.person is not None
        assert event.person.person_id == "ada"
        assert ingest.states["c"] == 1
        sent = await send(plugin, "hello, ada")
        assert sent == ChannelSent(message_id="2")
        edit = ChannelEditParams(
            channel_id="c",
            target=ChannelTarget(chat_id="lobby"),
            message_id="2",
            message=ChannelMessage(text="hello, Ada"),
        )
        await plugin.session.request("channel/edit", edit)
        assert server.by_bot() == ["hello, Ada"]
        asked = ChannelActParams(
            channel_id="c",
            action="message.edit",
            key="k",
            target={"chat_id": "lobby", "message_id": "2"},
            payload={"text": "hello, all"},
        )
        assert (await plugin.session.request("channel/act", asked)).result == {}
        assert server.by_bot() == ["hello, all"]
        server.answers = [{"error": "a bot changes what it said itself"}]
        error = await refusal(plugin, "channel/act", asked)
        assert isinstance(error, InvalidArgumentError)
        assert error.message == "a bot changes what it said itself"

    with_shout(body)


def test_events_in_flight_come_again_after_the_connection_is_cut() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        ingest = plugin.session.ingest
        await open_shout(plugin, server)
        for number in range(20):
            server.say(f"number {number}")
            if number % 7 == 3:
                server.cut()
                await plugin.session.until(lambda: health(plugin) == "failed")
                await plugin.session.until(lambda: health(plugin) == "connected")
        await plugin.session.until(lambda: len(ingest.events) == 20)
        assert [event.text for event in ingest.events] == [f"number {number}" for number in range(20)]
        server.tell_again(20)
        await plugin.session.until(lambda: len(ingest.duplicates) > 0)
        assert len(ingest.events) == 20

    with_shout(body)


def test_an_event_that_the_host_cannot_store_is_offered_again() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        ingest = plugin.session.ingest
        await open_shout(plugin, server)
        ingest.refusals.append(StorageError("the disk is full"))
        server.say("do not lose me")
        server.say("nor my place")
        await plugin.session.until(lambda: len(ingest.events) == 2)
        assert [event.text for event in ingest.events] == ["do not lose me", "nor my place"]
        assert ingest.refusals == []

    with_shout(body)


def test_a_state_is_what_the_next_opening_begins_with() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        ingest = plugin.session.ingest
        server.say("before")
        server.say("after")
        await open_shout(plugin, server, state=1)
        await plugin.session.until(lambda: len(ingest.events) == 1)
        assert ingest.events[0].text == "after"

    with_shout(body)


def test_refusals_of_the_platform_say_whether_to_try_again() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        await open_shout(plugin, server)
        server.answers = [{"error": "too fast", "wait": 7}, {"error": "there is no such room"}]
        slow = await refusal(plugin, "channel/send", to_send("hi"))
        assert isinstance(slow, RateLimitedError)
        assert (slow.message, slow.retry_after) == ("too fast", 7)
        gone = await refusal(plugin, "channel/send", to_send("hi"))
        assert isinstance(gone, InvalidArgumentError)
        assert not to_fault(gone).retryable
        assert server.by_bot() == []

    with_shout(body)


def test_a_message_without_an_answer_is_in_doubt_and_said_once_under_its_key() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        await open_shout(plugin, server)
        server.silent = True
        sending = asyncio.ensure_future(send(plugin, "once"))
        await server.until(1)
        server.silent = False
        server.cut()
        assert (await sending).in_doubt
        await plugin.session.until(lambda: health(plugin) == "connected")
        assert await send(plugin, "once") == ChannelSent(message_id="1")
        assert server.by_bot() == ["once"]

    with_shout(body)


def test_nothing_is_sent_while_the_platform_is_not_reached() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        await open_shout(plugin, server)
        await server.stop()
        await plugin.session.until(lambda: health(plugin) == "failed")
        error = await refusal(plugin, "channel/send", to_send("later"))
        assert isinstance(error, RemoteFaultError)
        assert to_fault(error).retryable
        await server.start()
        await plugin.session.until(lambda: health(plugin) == "connected")
        await send(plugin, "later")
        assert server.by_bot() == ["later"]

    with_shout(body)


def test_a_wrong_token_is_told_to_the_operator_and_tried_again() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        config = {"port": server.port, "host": "127.0.0.1", "token": "stolen"}
        await plugin.session.request(
            "channel/open", ChannelOpenParams(channel_id="c", channel="shout", config=config)
        )
        notes = plugin.session.ingest.health
        await plugin.session.until(lambda: [note.health for note in notes].count("failed") == 2)
        assert {note.reason for note in notes if note.health == "failed"} == {"ConnectionError: wrong token"}

    with_shout(body)


def test_a_channel_is_opened_once_and_closed_with_what_is_being_sent() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        await open_shout(plugin, server)
        again = ChannelOpenParams(channel_id="c", channel="shout")
        assert isinstance(await refusal(plugin, "channel/open", again), ConflictError)
        many = [asyncio.ensure_future(send(plugin, f"{number}", key=f"k{number}")) for number in range(100)]
        closing = asyncio.ensure_future(
            plugin.session.request("channel/close", ChannelCloseParams(channel_id="c"))
        )
        assert len({sent.message_id for sent in await asyncio.gather(*many)}) == 100
        await closing
        assert isinstance(await refusal(plugin, "channel/send", to_send("late")), NotFoundError)
        await open_shout(plugin, server)

    with_shout(body)


NARROW = """
import asyncio
from pathlib import Path
from hostler_sdk.channels import Channel

HERE = Path(__file__).parent


class Narrow(Channel):
    def note(self, what):
        with (HERE / "log").open("a") as log:
            log.write(what + "\\n")

    async def open(self):
        self.note("open")

    async def close(self):
        self.note("close")

    async def send(self, target, message, *, key, attempt):
        self.note("send")
        while not (HERE / "latch").exists():
            await asyncio.sleep(0.01)
        self.note("sent")
        return key
"""


def test_a_channel_that_is_opened_again_waits_until_the_one_before_is_closed(tmp_path: Path) -> None:
    (tmp_path / "hostler.yaml").write_text(
        "plugin: {author: t, name: narrow, version: 1.0.0}\n"
        "channels: [{name: narrow, entry: 'narrow:Narrow'}]\n"
    )
    (tmp_path / "narrow.py").write_text(NARROW)

    def log() -> list[str]:
        return (tmp_path / "log").read_text().split()

    async def whole() -> None:
        async with folder_plugin(tmp_path).started() as plugin:
            opening = ChannelOpenParams(channel_id="c", channel="narrow")
            await plugin.session.request("channel/open", opening)
            await plugin.session.until(lambda: health(plugin) == "connected")
            sending = asyncio.ensure_future(send(plugin, "held"))
            while "send" not in log():
                await asyncio.sleep(0.01)
            closing = asyncio.ensure_future(
                plugin.session.request("channel/close", ChannelCloseParams(channel_id="c"))
            )
            await asyncio.sleep(0)  # it is written before what follows
            await plugin.session.request("channel/open", opening)
            assert "not connected" in (await refusal(plugin, "channel/send", to_send("early"))).message
            (tmp_path / "latch").touch()
            assert (await sending).message_id == "k1"
            await closing
            while log()[-1] != "open":
                await asyncio.sleep(0.01)
            assert log() == ["open", "send", "sent", "close", "open"]
            await plugin.session.request("channel/close", ChannelCloseParams(channel_id="c"))

    within(SECONDS, whole)


def test_files_go_both_ways_in_parts() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        ingest = plugin.session.ingest
        content = bytes(range(256)) * 12_000  # three parts
        ingest.files["a1"] = content
        await send(plugin, "with a file", attachments=[ArtifactRef(artifact_id="a1", name="a.bin")])
        await plugin.session.until(lambda: len(ingest.events) == 1)
        (event,) = ingest.events  # the courier sends back what it was given
        (file,) = event.attachments
        assert (file.name, file.size_bytes) == ("a.bin", len(content))
        assert ingest.files[file.artifact_id] == content
        error = await refusal(
            plugin, "channel/send", to_send("gone", attachments=[ArtifactRef(artifact_id="none")])
        )
        assert "attachment" in error.message

    with_courier(body)


def test_actions_are_those_of_the_manifest() -> None:
    async def body(plugin: PluginUnderTest) -> None:
        act = ChannelActParams(channel_id="c", action="message.react", key="k", payload={"emoji": "👍"})
        done = await plugin.session.request("channel/act", act)
        assert done.result == {"emoji": "👍", "key": "k"}
        other = msgspec.structs.replace(act, action="member.ban")
        assert isinstance(await refusal(plugin, "channel/act", other), InvalidArgumentError)
        lost = await plugin.session.request("channel/act", msgspec.structs.replace(act, payload={"lose": 1}))
        assert lost.in_doubt
        assert lost.reason == "ConnectionError: the connection was lost after the request"
        edit = ChannelEditParams(
            channel_id="c",
            target=ChannelTarget(chat_id="lobby"),
            message_id="1",
            message=ChannelMessage(text="x"),
        )
        error = await refusal(plugin, "channel/edit", edit)
        assert f"the edit was given up: {lost.reason}" in error.message
        act = ChannelActParams(
            channel_id="c",
            action="message.edit",
            key="k",
            target={"chat_id": "lobby", "message_id": "1"},
            payload={"text": "x"},
        )
        given_up = await plugin.session.request("channel/act", act)
        assert (given_up.in_doubt, given_up.reason) == (True, lost.reason)
        for wrong, told in (
            ({"target": {"message_id": "1"}}, "chat_id"),
            ({"target": {"chat_id": "lobby"}}, "`message_id`"),
            ({"payload": {}}, "`text`"),
        ):
            refused = await refusal(plugin, "channel/act", msgspec.structs.replace(act, **wrong))
            assert isinstance(refused, InvalidArgumentError)
            assert told in refused.message

    with_courier(body)


def test_shutdown_closes_channels_and_ends_the_process() -> None:
    async def body(plugin: PluginUnderTest, server: ShoutServer) -> None:
        await open_shout(plugin, server)
        await plugin.session.request("shutdown", NoParams())
        assert await plugin.exit_status() == 0

    with_shout(body)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("class A(Channel): pass", "no method send"),
        ("class A(Channel):\n  abilities = {'edit': True}\n  async def send(self): ...", "no method edit"),
        ("class A(Channel):\n  abilities = {'wings': 1}\n  async def send(self): ...", "wings"),
        ("class A(Channel):\n  actions = {'message.pin'}\n  async def send(self): ...", "no method act"),
        ("class A(Channel):\n  def send(self): ...", "async def"),
        ("class A: pass", "not a class derived from hostler_sdk.channels.Channel"),
    ],
)
def test_a_wrong_channel_is_refused_with_the_reason(tmp_path: Path, code: str, told: str) -> None:
    module = f"wrong_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(f"from hostler_sdk.channels import Channel\n{code}\n")
    (tmp_path / "hostler.yaml").write_text(
        f'plugin: {{author: a, name: b}}\nchannels:\n  - {{name: a, entry: "{module}:A"}}\n'
    )
    with pytest.raises(PluginLoadError, match=told):
        load_folder(tmp_path, {})
