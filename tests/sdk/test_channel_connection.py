"""A channel that lets a connection do the work, as docs/write-a-channel.md writes one."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hostler_sdk.channels import (
    Channel,
    ChannelActions,
    ChannelConnection,
    ChannelMessage,
    ChannelSender,
    ChannelTarget,
    ConnectedChannel,
    NotSent,
    SetupError,
    UnclearError,
)
from hostler_sdk.channels.channel import channel_manifest
from support.channel_wire import Wire

PAGE = Path(__file__).parents[2] / "docs" / "write-a-channel.md"
LIBRARY = """
class Client:
    def __init__(self, token):
        self.token = token
        self.said = []

    async def log_in(self):
        return "me"

    async def messages(self):
        yield Said(7)
        raise ConnectionError("cut")

    async def say(self, chat_id, text):
        self.said.append((chat_id, text))
        return str(len(self.said))

    async def change(self, chat_id, message_id, text):
        self.said[int(message_id) - 1] = (chat_id, text)

    async def close(self):
        self.said.append("closed")


class Said:
    def __init__(self, number):
        self.number = number
"""
EVENTS = """
from hostler_sdk.channels import ChannelEvent


def event_of(said):
    return ChannelEvent(event_type="message.received", event_id=str(said.number))
"""
TARGET = ChannelTarget(chat_id="lobby")


@pytest.fixture
def shout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ConnectedChannel]]:
    """The adapter of the page. Its library is one of the test's."""
    text = PAGE.read_text("utf-8")
    folder = tmp_path / "hostler_shout"
    folder.mkdir()
    for name in ("channel", "connection"):
        (code,) = re.findall(rf"```python\n# {name}\.py\n(.*?)```", text, re.DOTALL)
        (folder / f"{name}.py").write_text(code)
    (folder / "events.py").write_text(EVENTS)
    (tmp_path / "shout_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("hostler_shout.channel").Shout
    for name in [name for name in sys.modules if name.split(".")[0] in {"hostler_shout", "shout_library"}]:
        del sys.modules[name]


async def test_the_connection_of_the_page_does_the_work(shout: type[ConnectedChannel]) -> None:
    assert "shout_library" not in sys.modules
    assert channel_manifest(shout, "shout").abilities.edit
    wire = Wire()
    channel = shout("c", {"token": "shout-1"}, None, wire)
    message = ChannelMessage(text="hello")
    with pytest.raises(NotSent, match="not connected"):
        await channel.send(TARGET, message, key="k", attempt=1)
    me = await channel.open()
    assert me is not None
    assert me.person_id == "me"
    assert await channel.send(TARGET, message, key="k", attempt=1) == "1"
    await channel.edit(TARGET, "1", ChannelMessage(text="bye"), last=True)
    with pytest.raises(ConnectionError, match="cut"):
        await channel.run()
    assert ([one.event_id for one in wire.ingest.events], channel.state) == (["7"], 7)
    client: Any = channel.open_connection
    await channel.close()
    assert client.client.said == [("lobby", "bye"), "closed"]
    with pytest.raises(NotSent):
        await channel.edit(TARGET, "1", message, last=True)
    with pytest.raises(SetupError, match="`token` must begin with shout-"):
        await shout("c", {"token": "x"}, None, wire).open()


class Mute(ChannelConnection):
    def __init__(self, channel: Channel) -> None:
        self.sender = ChannelSender()
        self.actions = ChannelActions()


class Loud(Mute):
    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.sender = Sends()


class Sends(ChannelSender):
    async def send(self, *_: Any, **__: Any) -> str | None:
        return None


def of(name: str, **attributes: Any) -> ConnectedChannel:
    kind = type("Lark", (ConnectedChannel,), {"connection": name, **attributes})
    channel: ConnectedChannel = kind("c", {}, None, Wire())
    return channel


@pytest.mark.parametrize(
    ("connection", "attributes", "told"),
    [
        ("", {}, "Lark.connection must name a module and a class"),
        ("lark", {}, "Lark.connection must name a module and a class"),
        (f"{__name__}:Mute", {}, "ChannelSender has no method send, which Lark needs"),
        (f"{__name__}:Loud", {"abilities": {"edit": True}}, "Sends has no method edit"),
        (f"{__name__}:Loud", {"abilities": {"repeat": "look_up"}}, "Sends has no method find"),
        (f"{__name__}:Loud", {"actions": ["message.pin"]}, "ChannelActions has no method act"),
        (f"{__name__}:Loud", {"abilities": {"webhook": True}}, "Loud has no method request"),
    ],
)
async def test_what_is_missing_is_said_when_the_channel_is_opened(
    connection: str, attributes: dict[str, Any], told: str
) -> None:
    channel = of(connection, **attributes)
    with pytest.raises(TypeError, match=re.escape(told)):
        await channel.open()
    await channel.close()


async def test_a_connection_without_run_waits_until_it_is_cancelled() -> None:
    channel = of(f"{__name__}:Loud")
    await channel.open()
    running = asyncio.create_task(channel.run())
    done, _ = await asyncio.wait([running], timeout=0)
    assert not done
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Refused(Loud):
    error: BaseException

    async def open(self) -> None:
        raise self.error


class Cut(Refused):
    async def open(self) -> None:
        return None

    async def run(self) -> None:
        async with asyncio.TaskGroup(), asyncio.TaskGroup():
            raise self.error


@pytest.mark.parametrize("error", [NotSent("the token is wrong"), UnclearError("the token is wrong")])
async def test_why_a_platform_refuses_an_open_is_a_connection_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refused, "error", error, raising=False)
    channel = of(f"{__name__}:Refused")
    with pytest.raises(ConnectionError, match=r"^the token is wrong$"):
        await channel.open()
    await channel.close()


async def test_what_ends_a_task_group_of_a_connection_is_told_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel = of(f"{__name__}:Cut")
    await channel.open()
    monkeypatch.setattr(Refused, "error", ConnectionResetError("the app was removed"), raising=False)
    with pytest.raises(ConnectionError, match=r"^the app was removed$"):
        await channel.run()
    monkeypatch.setattr(Refused, "error", ValueError("an error of the channel"), raising=False)
    with pytest.raises(BaseExceptionGroup) as told:
        await channel.run()
    assert told.group_contains(ValueError, match="an error of the channel", depth=2)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [(None, None), (0.0, 0.0), (2.5, 2.5), (-1.0, 0.0), (float("9" * 400), 86_400.0), (math.nan, None)],
)
def test_what_a_platform_asks_to_wait_is_bounded(asked: float | None, kept: float | None) -> None:
    assert NotSent("busy", retry_after=asked).retry_after == kept
