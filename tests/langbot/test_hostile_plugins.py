"""Processes in a plugin's place that break the wire: what they spoil is theirs alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler_langbot import peer as wire
from hostler_langbot import process
from hostler_langbot.process import keep_pinging
from hostler_protocol.results import MessageDelta
from hostler_sdk import Result
from hostler_sdk.loading import PluginLoadError
from hostler_sdk.testing import Driven, ScriptedHost
from support.langbot_plugins import PLUGINS, Puppet, started

pytestmark = pytest.mark.gate("langbot")


def hostile(how: str) -> list[str]:
    return [sys.executable, str(PLUGINS / "hostile.py"), how]


async def driven_by(how: str, tmp_path: Path, **scripts: Any) -> tuple[Driven, Puppet]:
    async with asyncio.timeout(60), started(tmp_path, command=hostile(how)) as puppet:
        return await ScriptedHost(**scripts).drive(puppet.runner, "hi"), puppet


async def test_what_it_prints_is_ignored(tmp_path: Path) -> None:
    driven, puppet = await driven_by("garbage", tmp_path)
    assert (driven.status, driven.text) == ("completed", "well")
    assert not puppet.peer.ignored


async def test_numbers_that_belong_to_nothing_are_ignored(tmp_path: Path) -> None:
    driven, puppet = await driven_by("wrong-seq", tmp_path)
    assert driven.text == "a request has an action, a text, and data, an object"
    assert puppet.peer.ignored == 11


async def test_a_number_in_use_is_refused(tmp_path: Path) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    driven, _ = await driven_by("same-seq", tmp_path, tools={"slow": slow})
    assert driven.text == "seq_id 40 is the number of a request at work"


async def test_another_run_is_out_of_reach(tmp_path: Path) -> None:
    driven, _ = await driven_by("foreign", tmp_path, states={"actor": {"k": "secret"}})
    assert driven.text == "unauthorized"
    assert [call.method for call in driven.calls] == []
    logs = [result.data.text for result in driven.results if result.type == "log"]  # type: ignore[union-attr]
    assert logs == ["the plugin sent a result of another run; it is left out"]


@pytest.mark.parametrize("how", ["giant-line", "giant-message"])
async def test_a_message_without_end_closes_the_connection(how: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), started(tmp_path, command=hostile(how)) as puppet:
        driving = asyncio.create_task(ScriptedHost().drive(puppet.runner, "hi"))
        await puppet.peer.lost.wait()
        assert "it broke the wire of LangBot's runtime" in puppet.peer.reason
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("flood", "it sent more of a stream than was asked for"),
        ("old-flood", "it sent more of a stream than was asked for"),
        ("wrong-index", "it sent item 3 of a stream after item 1"),
    ],
)
async def test_a_stream_out_of_order_fails_its_run_only(how: str, why: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), started(tmp_path, command=hostile(how)) as puppet:
        for _ in range(2):
            driven = await ScriptedHost().drive(puppet.runner, "hi", credit=1)
            assert (driven.status, driven.code) == ("failed", "runner.error")
            assert why in str(driven.error)
        assert not puppet.peer.lost.is_set()


async def test_too_many_actions_at_once_are_refused(tmp_path: Path) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    driven, _ = await driven_by("busy", tmp_path, tools={"slow": slow})
    assert driven.text == '["rate_limited"]'
    assert len(driven.calls) <= wire.MAX_ACTIONS


async def test_one_that_asks_and_does_not_read_is_given_up(tmp_path: Path) -> None:
    async with asyncio.timeout(60), started(tmp_path, command=hostile("unread")) as puppet:
        driving = asyncio.create_task(ScriptedHost().drive(puppet.runner, "hi"))
        await puppet.peer.lost.wait()
        assert puppet.peer.reason == "it makes requests and does not read the answers"
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


async def test_a_slow_reader_gets_no_more_than_a_window(tmp_path: Path) -> None:
    driven, _ = await driven_by("slow-reader", tmp_path, models=" ".join("abcdefghij"))
    assert driven.text == "[1, 2, 3, 4, 5, 6, 7, 8, null, 9, 10, 11]"


async def test_a_stream_that_the_plugin_gives_up_is_cancelled(tmp_path: Path) -> None:
    driven, _ = await driven_by("gives-up", tmp_path, models=" ".join("abcdefghijklmnop"))
    assert driven.text == '{"cancelled": true}'


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("exits", "the plugin did not start: its process ended with status 7; its log says why"),
        ("impostor", "its process ended with status 1"),
        ("giant-before", "it broke the wire of LangBot's runtime: a chunked message states the size"),
        ("unwilling", "the plugin cannot be initialized: ValueError: no key"),
        ("silent", "the plugin was not ready within 0.5 seconds"),
    ],
)
async def test_one_that_does_not_start_says_why(
    how: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "silent":
        monkeypatch.setattr(process, "REGISTER_SECONDS", 0.5)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(60), started(tmp_path, command=hostile(how)):
            pytest.fail("it started")
    (error,) = caught.value.exceptions
    assert isinstance(error, PluginLoadError)
    assert why in str(error)


async def test_a_registration_has_one_use(tmp_path: Path) -> None:
    driven, _ = await driven_by("again", tmp_path)
    assert driven.text == '"conflict"'


async def test_one_that_does_not_answer_pings_is_given_up(tmp_path: Path) -> None:
    async with asyncio.timeout(60), started(tmp_path, command=hostile("deaf")) as puppet:
        await keep_pinging(puppet.peer, 0.01, 0.2)
        assert puppet.peer.reason == "it has not answered for 0.2 seconds"


@pytest.mark.parametrize(
    ("how", "why"),
    [("closes", "it closed its standard output"), ("leaves-one", "its process ended with status 9")],
)
async def test_an_end_is_noticed_whoever_holds_its_pipes(how: str, why: str, tmp_path: Path) -> None:
    seen: list[str] = []

    def keep(result: Result) -> bool:
        if isinstance(result.data, MessageDelta):
            seen.append(str(result.data.chunk.content))
        return False

    async with asyncio.timeout(60), started(tmp_path, command=hostile(how)) as puppet:
        driving = asyncio.create_task(ScriptedHost().drive(puppet.runner, "hi", cancel_on=keep))
        await puppet.peer.lost.wait()
        assert puppet.peer.reason == why
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    for pid in seen:
        os.kill(int(pid), signal.SIGKILL)


async def test_one_that_is_killed_is_noticed(tmp_path: Path) -> None:
    async with asyncio.timeout(60), started(tmp_path, command=hostile("well")) as puppet:
        os.kill(puppet.process.pid, signal.SIGKILL)
        await puppet.peer.lost.wait()
        assert puppet.peer.reason == "signal 9 ended its process"
        with pytest.raises(wire.PluginGone, match="signal 9"):
            await puppet.peer.request("__ping", {}, 5)
