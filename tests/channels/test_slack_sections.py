"""Slack: texts that are longer with their marks than a text of Slack is, in sections of one message."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.channels import Button
from support.channel_desk import ChannelDesk, OpenChannel
from support.slack_desk import connected, desk
from support.slack_methods import DM
from support.slack_server import SlackServer

__all__ = ["desk"]

OK = [[Button(label="ok", value="ok")]]


def sections(message: dict[str, Any]) -> list[str]:
    """The texts that are shown."""
    found = [one["text"] for one in message.get("blocks", []) if one["type"] == "section"]
    return [one["text"] for one in found] or [message["text"]]


@pytest.mark.parametrize(
    "text", ["x" * 4000, "漢" * 4000, "&" * 2000, "**b** " * 600, "|a|b|\n|-|-|\n" + "|&|&|\n" * 600]
)
def test_the_longest_message_is_one_with_and_without_buttons(desk: ChannelDesk, text: str) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        sent = await channel.send(text, DM)
        first = sections(server.last())
        await channel.edit(sent.message_id, f"{text[:-2]}!", DM)  # its text is counted in bytes
        edited = sections(server.last())
        await channel.send(text, DM, key="k2", buttons=OK)
        assert len(server.texts()) == 2
        for shown in (first, edited, sections(server.last())):
            assert "".join(shown).count("漢") + 2 >= text.count("漢")
            assert "".join(shown).count("&amp;") + 2 >= text.count("&")
            assert all(len(one) <= 3000 for one in shown[1:])

    connected(desk, body)


def test_what_has_no_room_for_escapes_is_shown_without_marks(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        text = "<" * 3990 + " **b**"
        sent = await channel.send(text, DM)
        blocks = server.last()["blocks"]
        assert {one["text"]["type"] for one in blocks} == {"plain_text"}
        assert "".join(sections(server.last())).replace(" ", "") == text.replace(" ", "")
        assert set(server.last()["text"]) <= set("&lt;")  # the notification's, with no half of an entity
        assert server.last()["text"].count("&lt;") * 4 == len(server.last()["text"])
        await channel.send(text, DM, key="k2", plain=True)
        await channel.edit(sent.message_id, text, DM, plain=True)
        assert len(server.texts()) == 2

    connected(desk, body)


def test_code_is_closed_and_opened_again_in_each_section(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        lines = [f"if x < {number}:" for number in range(310)]
        text = "before\n\n```py\n" + "\n".join(lines) + "\n```\n\nafter"
        assert len(text) < 4000  # as it is written
        await channel.send(text, DM)
        await channel.send(text, DM, key="k2", buttons=OK)
        for one in server.history[DM]:
            shown = sections(one)
            assert len(shown) == 2
            assert [section.count("```") for section in shown] == [2, 2]
            said = [line for section in shown for line in section.split("\n") if line[:3] == "if "]
            assert said == [line.replace("<", "&lt;") for line in lines]

    connected(desk, body)


def test_an_answer_that_grows_over_the_bound_and_shrinks_stays_one_message(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        family = "👨‍👩‍👧"
        sent = await channel.send("The **beginning**", DM)
        for count in (100, 400, 795):
            await channel.edit(sent.message_id, "a < b\n\n" + family * count, DM, last=count == 795)
            shown = sections(server.last())
            assert "".join(shown).count(family) == count
            assert all(part.endswith(family) for part in shown if family in part)  # none is torn
        assert len(shown) > 1
        await channel.edit(sent.message_id, "**short**", DM)
        assert (server.texts(), server.last()["blocks"]) == (["*short*"], [])

    connected(desk, body)
