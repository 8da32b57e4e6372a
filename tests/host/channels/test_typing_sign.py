"""The sign that somebody writes: shown while an answer is made, and no longer; bounded, never in the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.channels import typing_sign as sign
from hostler.domain.agents import DeliveryPolicy
from support.channel_host import chatting
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
OFF: dict[str, Any] = {"streaming": "whole"}
"""Answers come whole, so that the sign is all that is seen of them."""


@pytest.fixture
async def chat(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatPlatform]:
    monkeypatch.setattr(sign, "REFRESH_SECONDS", 0.2)
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


def speak(chat: ChatPlatform, go: Path, *, room: str = "room") -> None:
    """Have an answer made, which is complete once `go` says so."""
    chat.say(json.dumps({"grow": ["the answer"], "go": str(go)}), chat=room)


async def test_it_is_refreshed_while_an_answer_is_made_and_ends_with_it(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    go = tmp_path / "go"
    async with chatting(tmp_path, chat, "rich", **OFF) as host:
        speak(chat, go)
        await chat.holds(lambda: len(chat.typing) >= 3)
        assert set(chat.typing) == {"room"}
        go.write_text("1")
        await chat.until(1)
        await host.until(lambda: host.ended(1))

        async def over() -> bool:
            return not [one for one in asyncio.all_tasks() if "TypingSign" in repr(one.get_coro())]

        await host.until(over)


async def test_it_is_not_shown_while_people_are_asked(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich", **OFF) as host:
        chat.say(json.dumps({"ask": {"title": "Which?", "actions": ["a", "b"]}}))
        await chat.until(1)
        await host.until(lambda: _parked(host))
        before = len(chat.typing)
        speak(chat, tmp_path / "go", room="other")  # time goes on: another chat is shown to be written in
        await chat.holds(lambda: chat.typing.count("other") >= 3)
        assert chat.typing[before:].count("room") <= 1


async def _parked(host: Any) -> bool:
    found = (await host.served.client.get("/v1/runs")).json()["items"]
    return any(run["status"] == "paused" for run in found)


async def test_an_answer_that_is_seen_to_grow_needs_no_sign(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich"):
        speak(chat, tmp_path / "go")
        await chat.until(1)
        before = len(chat.typing)
        chat.say(json.dumps({"tool": "none"}), chat="other")  # it says nothing before its end
        await chat.until(1, "other")
        speak(chat, tmp_path / "go", room="third")
        await chat.until(1, "third")
        assert chat.typing[before:].count("room") <= 1, "one may have been on its way"


@pytest.mark.parametrize(
    ("channel", "entry", "agent"),
    [
        ("wide", {}, {}),
        ("rich", {"actions": ["message.*"]}, {}),
        ("rich", {}, {"delivery_policy": DeliveryPolicy(enable_reply=False)}),
    ],
)
async def test_where_it_is_not_wanted_it_is_not_shown(
    tmp_path: Path, chat: ChatPlatform, channel: str, entry: dict[str, Any], agent: dict[str, Any]
) -> None:
    go = tmp_path / "go"
    async with chatting(tmp_path, chat, channel, agent=agent, **OFF, **entry) as host:
        speak(chat, go)
        go.write_text("1")
        await host.until(lambda: host.ended(1))
        assert chat.typing == []


async def test_so_many_chats_show_it_at_once(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign, "MAX_CHATS", 2)
    async with chatting(tmp_path, chat, "rich", **OFF):
        for room in ("one", "two", "three"):
            speak(chat, tmp_path / "go", room=room)
        await chat.holds(lambda: len(chat.typing) >= 8)
        assert len(set(chat.typing)) == 2


async def test_it_ends_after_a_while(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign, "MAX_SECONDS", 0.0)
    async with chatting(tmp_path, chat, "rich", **OFF) as host:
        speak(chat, tmp_path / "go")

        async def begun() -> bool:
            found = (await host.served.client.get("/v1/runs")).json()["items"]
            return bool(found) and found[0]["status"] == "running"

        await host.until(begun)
        assert chat.typing == []
