"""Answers that grow by edits in a chat: by a channel's plugin in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import DeliveryPolicy
from hostler.domain.growing import SLOWEST_SECONDS, UNFINISHED, wait_seconds
from hostler.domain.message_split import split_message
from support.channel_host import Chatting, chatting
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
PIECES = ["The beginning", " and the middle", " and the end."]


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


class Speaker:
    """Has an answer grow piece by piece."""

    def __init__(self, chat: ChatPlatform, folder: Path, pieces: list[str], **more: Any) -> None:
        self._go = folder / "go"
        chat.say(json.dumps({"grow": pieces, "go": str(self._go), **more}))

    def go(self, number: int) -> None:
        """Let the pieces up to this one pass."""
        new = self._go.with_suffix(".new")
        new.write_text(str(number))
        new.replace(self._go)


def shown(chat: ChatPlatform, text: str) -> Any:
    """Whether the bot's newest message is this text."""
    return lambda: chat.by_bot()[-1:] == [text]


async def over(host: Chatting) -> None:
    """Wait until the run has ended and nothing waits to be sent."""
    await host.until(lambda: host.ended(1))
    await host.settled(1)


async def test_an_answer_grows_by_edits_and_the_last_one_is_whole(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich") as host:
        speaker = Speaker(chat, tmp_path, PIECES)
        await chat.holds(shown(chat, "The beginning"))
        assert chat.said[-1]["answers"] == "1", "it answers what was said"
        speaker.go(1)
        await chat.holds(shown(chat, "The beginning and the middle"))
        speaker.go(3)
        await chat.holds(shown(chat, "".join(PIECES)))
        await over(host)
        assert chat.by_bot() == ["".join(PIECES)]
        (only,) = await host.outbox()
        assert (only.status, only.growing, only.result_sequence) == ("sent", 0, 3 + 1)
        history = chat.edits[2]
        assert history == sorted(set(history), key=len), "each text is longer than the one before"


async def test_a_long_answer_goes_on_in_a_next_message(tmp_path: Path, chat: ChatPlatform) -> None:
    pieces = [f"Paragraph {number} {'word ' * 25}\n\n" for number in range(8)]
    async with chatting(tmp_path, chat, "rich") as host:
        speaker = Speaker(chat, tmp_path, pieces)
        for number in range(1, 9):
            speaker.go(number)
            await chat.holds(lambda number=number: f"Paragraph {number - 1}" in "".join(chat.by_bot()))
        await over(host)
        wanted = split_message("".join(pieces), 400)
        await chat.holds(lambda: chat.by_bot() == wanted)
        assert len(wanted) > 2


async def test_an_answer_whose_run_fails_is_left_with_a_mark(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich", failure_text="Oh dear.") as host:
        speaker = Speaker(chat, tmp_path, PIECES, end="fail")
        await chat.holds(shown(chat, "The beginning"))
        speaker.go(9)
        await chat.holds(shown(chat, "Oh dear."))
        await over(host)
        assert chat.by_bot() == [f"{''.join(PIECES)}\n\n{UNFINISHED}", "Oh dear."] or chat.by_bot() == [
            f"The beginning\n\n{UNFINISHED}",
            "Oh dear.",
        ]


async def test_a_cancelled_answer_is_left_with_a_mark(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich") as host:
        Speaker(chat, tmp_path, PIECES)
        await chat.holds(shown(chat, "The beginning"))
        (run,) = (await host.served.client.get("/v1/runs")).json()["items"]
        await host.served.client.post(f"/v1/runs/{run['run_id']}/cancel", json={"grace": 0})
        await chat.holds(shown(chat, f"The beginning\n\n{UNFINISHED}"))
        assert len(chat.by_bot()) == 1


@pytest.mark.parametrize(
    ("channel", "entry", "policy"),
    [
        ("rich", {"streaming": "whole"}, {}),
        ("wide", {}, {}),
        ("rich", {}, {"enable_streaming": False}),
    ],
)
async def test_where_nothing_grows_the_answer_comes_whole(
    tmp_path: Path, chat: ChatPlatform, channel: str, entry: dict[str, Any], policy: dict[str, Any]
) -> None:
    agent = {"delivery_policy": DeliveryPolicy(**policy)}
    async with chatting(tmp_path, chat, channel, agent=agent, **entry) as host:
        Speaker(chat, tmp_path, PIECES).go(9)
        await chat.until(1)
        await over(host)
        assert (chat.by_bot(), chat.edits) == (["".join(PIECES)], {})


async def test_an_agent_that_does_not_reply_shows_nothing(tmp_path: Path, chat: ChatPlatform) -> None:
    agent = {"delivery_policy": DeliveryPolicy(enable_reply=False)}
    async with chatting(tmp_path, chat, "rich", agent=agent) as host:
        Speaker(chat, tmp_path, PIECES).go(9)
        await host.until(lambda: host.ended(1))
        assert await host.outbox() == []


async def test_a_rate_limit_slows_the_edits_and_loses_nothing(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, "rich") as host:
        speaker = Speaker(chat, tmp_path, PIECES)
        await chat.holds(shown(chat, "The beginning"))
        chat.fates = ["limited"] * 5
        speaker.go(9)
        await chat.holds(shown(chat, "".join(PIECES)))
        await over(host)
        assert len(chat.by_bot()) == 1


async def test_a_message_that_cannot_be_edited_any_more_is_followed_by_the_whole(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat, "rich") as host:
        speaker = Speaker(chat, tmp_path, PIECES)
        await chat.holds(shown(chat, "The beginning"))
        refused: list[Any] = []

        def refuse(request: dict[str, Any]) -> None:
            if "change" in request:
                refused.append(request)
                chat.fates.append("refused")

        chat.on_request = refuse
        speaker.go(9)
        await chat.until(2)
        await over(host)
        assert refused
        assert chat.by_bot() == ["The beginning", "".join(PIECES)]


async def test_many_pieces_are_few_edits(tmp_path: Path, chat: ChatPlatform) -> None:
    pieces = [f"{number} " for number in range(80)]
    async with chatting(tmp_path, chat, "rich") as host:
        chat.limit_seconds = 3600.0
        speaker = Speaker(chat, tmp_path, pieces)
        await chat.holds(chat.by_bot)
        chat.fates = ["busy"]  # while this edit waits, newer texts take its place
        speaker.go(99)
        await chat.holds(shown(chat, "".join(pieces).strip()))
        await over(host)
        assert len(await host.outbox()) == 1
        assert len(chat.by_bot()) == 1


def test_the_longer_a_text_the_slower_it_grows() -> None:
    waits = [wait_seconds(1.0, chars) for chars in (0, 1_999, 2_000, 10_000, 10**6)]
    assert waits == [1.0, 1.0, 2.0, 6.0, SLOWEST_SECONDS]
    assert wait_seconds(60.0, 10**6) == 60.0, "never faster than the platform allows"
