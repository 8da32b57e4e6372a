"""Discord: texts that are longer with their marks than a message may be, sent in parts, once each."""

from __future__ import annotations

import re
import time

from hostler_protocol.channels import Button
from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.discord_calls import limited
from support.discord_desk import POST, config_of, connected, desk, found, serving
from support.discord_server import GENERAL, DiscordServer, Refusal

__all__ = ["desk"]

MARKED = "a_b* " * 380
"""Longer by its escapes than Discord takes, and not as it is written."""
OK = [[Button(label="ok", value="ok")]]


def unescaped(texts: list[str]) -> str:
    return re.sub(r"\\(.)", r"\1", " ".join(texts))


def test_each_part_fits_with_its_marks_and_nothing_is_lost(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        sent = await channel.send(MARKED, GENERAL, at={"reply_to": "33"}, buttons=OK)
        first, last = server.messages.values()
        assert unescaped(server.texts()).split() == MARKED.split()
        assert sent.message_id == f"{first['id']}|{last['id']}"
        calls = server.called(POST)
        assert ["message_reference" in call.body for call in calls] == [True, False]
        assert [bool(call.body["components"]) for call in calls] == [False, True]
        assert calls[0].body["nonce"] != calls[1].body["nonce"]
        await channel.send("*" * 1900, GENERAL, key="k2", plain=True)
        assert unescaped(server.texts()[2:]).replace(" ", "") == "*" * 1900

    connected(desk, body)


def test_code_is_closed_and_opened_again_and_no_character_is_torn(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        lines = [f"x_{number} = '``` ```'" for number in range(108)]  # marks in it are broken, which adds
        await channel.send("~~~py\n" + "\n".join(lines) + "\n~~~", GENERAL)
        parts = server.texts()
        assert len(parts) == 2
        for part in parts:
            assert part.startswith("```py\n")
            assert part.endswith("\n```")
        assert re.findall(r"x_\d+", "".join(parts)) == [line.split()[0] for line in lines]
        server.messages.clear()
        family = "👨‍👩‍👧"
        await channel.send(f"{family}🇯🇵*" * 237, GENERAL, key="k2", plain=True)
        assert len(server.texts()) == 2
        for part in server.texts():
            assert re.fullmatch(rf"(({family})?(🇯🇵)?(\\\*)?)+", part)
            assert len(re.findall("[🇦-🇿]", part)) % 2 == 0

    connected(desk, body)


def test_an_edit_moves_the_boundary_and_adds_no_message(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        sent = await channel.send("it begins", GENERAL)
        await channel.edit(sent.message_id, MARKED, GENERAL)
        assert server.texts() == [MARKED]  # as it is written: two parts are not the one that there is
        sent = await channel.send(MARKED, GENERAL, key="k2", buttons=OK)
        other = "x " * 300 + MARKED[:1200]
        await channel.edit(sent.message_id, other, GENERAL, buttons=OK)
        assert unescaped(server.texts()[1:]).split() == other.split()
        assert [bool(one["components"]) for one in server.messages.values()] == [False, False, True]
        await channel.edit(sent.message_id, "short", GENERAL)
        assert server.texts()[1:] == ["short"]
        sent = await channel.send(MARKED, GENERAL, key="k3")
        await channel.act("message.delete", {"chat_id": GENERAL, "message_id": sent.message_id})
        assert len(server.texts()) == 2
        gone = await refusal(channel.edit(f"{sent.message_id}|x", "short", GENERAL))
        assert isinstance(gone, InvalidArgumentError)

    connected(desk, body)


def test_a_part_that_is_there_is_not_sent_again_and_changes_with_the_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        for answer in (limited(61.5), "cut"):
            server.refusals[POST] = [None, answer]
            assert (await channel.send(MARKED, GENERAL, key=str(answer))).in_doubt
            grown = "x " * 40 + MARKED[:1700]
            sent = await channel.send(grown, GENERAL, key=str(answer), attempt=2)
            assert unescaped(server.texts()).split() == grown.split()
            assert sent.message_id == "|".join(server.messages)
            server.messages.clear()
        server.refusals[POST] = [None, Refusal(403, "Missing Permissions", 50013)]
        refused = await refusal(channel.send(MARKED, GENERAL, key="k3"))
        assert isinstance(refused, InvalidArgumentError)

    connected(desk, body)


def test_after_a_death_between_two_parts_the_rest_is_sent_under_its_nonce_or_by_the_history(
    desk: ChannelDesk,
) -> None:
    async def whole() -> None:
        async with serving() as server:
            since = time.time() - 3600
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.refusals[POST] = [None, "cut"]
                assert (await channel.send(MARKED, GENERAL)).in_doubt
                state = await channel.kill()
            server.forget_nonces()
            async with desk.alone(config_of(server), state=state) as channel:
                await channel.until_health("connected")
                server.write("somebody else", GENERAL)
                assert (await found(channel, MARKED, since)).found is False
                sent = await channel.send(MARKED, GENERAL, attempt=2)
                assert unescaped(server.texts()).split() == MARKED.split()
                server.forget_nonces()
                first, last = (sent.message_id or "").split("|")
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                there = await found(channel, MARKED, since)
                assert (there.found, there.message_id) == (True, sent.message_id)
            del server.messages[first]
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                assert (await found(channel, MARKED, since)).found is False  # none from the first on
                assert last in server.messages

    desk.run(whole)
