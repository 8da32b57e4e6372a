"""Matrix: messages both ways, through matrix-nio in a real process, on a server that speaks Matrix."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.channels import ChannelEvent, ChannelSent
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError, to_fault
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.matrix_desk import connected, desk
from support.matrix_server import ADA, BOB, DM, GROUP, ME, MatrixServer, Refusal

__all__ = ["desk"]

MINE = {"user_ids": [ME]}


def place(event: ChannelEvent) -> tuple[str, str, str | None]:
    assert event.chat is not None
    return event.chat.kind, event.chat.chat_id, event.chat.thread_id


# -- in -------------------------------------------------------------------------------------------


def test_a_private_message_comes_in_with_who_and_where(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        account = channel.health.account if channel.health is not None else None
        assert account is not None
        assert (account.person_id, account.name, account.is_bot) == (ME, "Helper", True)
        await server.until_synced()
        said = server.say("hello 漢字 👋")
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "m.room.message")
        assert (event.text, event.message_id, event.event_id) == ("hello 漢字 👋", said, said)
        assert event.event_time == server.stream.by_id[said][1]["origin_server_ts"] / 1000
        assert place(event) == ("private", DM, None)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (ADA, "Ada", False)
        assert event.addressed == ["private"]
        assert event.data["matrix"]["content"]["msgtype"] == "m.text"
        await server.until_synced()
        await channel.until(lambda: channel.state["since"] == server.since[-1])

    connected(desk, body)


@pytest.mark.parametrize(
    ("content", "addressed"),
    [
        ({"body": "good morning"}, []),
        ({"body": "hey", "m.mentions": MINE}, ["mention"]),
        ({"body": "Helper, hey", "m.mentions": {}}, []),
        ({"body": "all of you", "m.mentions": {"room": True}}, []),
        ({"body": "helper: hey"}, ["mention"]),
        ({"body": "helpers"}, []),
        ({"body": f"{ME}.org and more"}, []),
        ({"body": "the helper."}, ["mention"]),
        ({"body": "at helper-hq"}, []),
        (
            {
                "body": "yes",
                "formatted_body": f'<mx-reply><a href="https://matrix.to/#/{ME}">H</a></mx-reply>yes',
                "m.relates_to": {"m.in_reply_to": {"event_id": "OF_ADA"}},
            },
            [],
        ),
        ({"body": "H", "formatted_body": f'<a href="https://matrix.to/#/{ME}">H</a>'}, ["mention"]),
        ({"body": "!start now", "m.mentions": {}}, ["command"]),
        ({"body": "! start", "m.mentions": {}}, []),
        ({"body": "what!", "m.mentions": {}}, []),
        ({"body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": "OF_THE_BOT"}}}, ["reply"]),
        ({"body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": "OF_ADA"}}}, []),
        ({"body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": "$gone:hs"}}}, []),
        (
            {
                "body": f"> <{ME}> what?\n> more\n\nyes",
                "m.relates_to": {"m.in_reply_to": {"event_id": "OF_THE_BOT"}},
            },
            ["reply"],
        ),
    ],
)
def test_what_calls_the_bot_in_a_group(
    desk: ChannelDesk, content: dict[str, Any], addressed: list[str]
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        known = {"OF_THE_BOT": server.stream.add(GROUP, "m.room.message", {"body": "what?"}, ME)}
        known["OF_ADA"] = server.stream.add(GROUP, "m.reaction", {}, ADA)
        answered = content.get("m.relates_to", {}).get("m.in_reply_to", {})
        if "event_id" in answered:
            answered = answered | {"event_id": known.get(answered["event_id"], answered["event_id"])}
        more = {"m.relates_to": {"m.in_reply_to": answered}} if answered else {}
        server.say("", content | more, room=GROUP)
        _, event = await channel.events(2)
        assert place(event) == ("group", GROUP, None)
        assert event.chat is not None
        assert (event.chat.title, event.addressed) == ("The group", addressed)
        assert event.reply_to == answered.get("event_id")
        assert event.text == ("yes" if answered else content["body"])
        assert event.data.get("command") == (
            {"name": "start", "arguments": "now"} if addressed == ["command"] else None
        )

    connected(desk, body)


def test_threads_and_replies_in_them(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        root = server.say("about tea", room=GROUP)
        await channel.event()
        thread = {"rel_type": "m.thread", "event_id": root, "m.in_reply_to": {"event_id": root}}
        inner = server.say("green?", {"m.relates_to": thread | {"is_falling_back": True}}, room=GROUP)
        event = await channel.event()
        assert (place(event), event.reply_to) == (("group", GROUP, root), None)
        answer = thread | {"m.in_reply_to": {"event_id": inner}, "is_falling_back": False}
        server.say("black", {"m.relates_to": answer}, room=GROUP)
        event = await channel.event()
        assert (place(event), event.reply_to) == (("group", GROUP, root), inner)
        relates = {"rel_type": "m.replace", "event_id": inner}
        new = {"msgtype": "m.text", "body": "green!"}
        server.say("* green!", {"m.new_content": new, "m.relates_to": relates}, room=GROUP)
        event = await channel.event()
        assert (event.event_type, event.message_id, event.text) == ("message.edited", inner, "green!")
        assert place(event) == ("group", GROUP, root)

    connected(desk, body)


def test_bots_write_notices_and_the_bot_itself_is_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.say("I said so", by=ME)
        server.happen("m.room.topic", {"topic": "mine"}, by=ME, state_key="")
        server.say("beep", msgtype="m.notice")
        event = await channel.event()
        assert event.person is not None
        assert (event.text, event.person.is_bot) == ("beep", True)

    connected(desk, body)


def test_a_room_is_private_while_two_are_in_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.happen("m.room.member", {"membership": "join", "displayname": "Bob"}, by=BOB, state_key=BOB)
        server.say("now we are three")
        server.happen("m.room.member", {"membership": "leave"}, by=BOB, state_key=BOB)
        server.say("alone again")
        came, three, left, alone = await channel.events(4)
        assert [came.event_type, left.event_type] == ["group.member_joined", "group.member_left"]
        assert came.person is not None
        assert (came.person.person_id, came.person.name) == (BOB, "Bob")
        assert alone.addressed == ["private"]
        channel.ingest.events.clear()
        server.happen("m.room.member", {"membership": "join"}, by=BOB, state_key=BOB)
        await channel.event()
        server.say("three")
        assert (await channel.event()).addressed == []
        assert three.text == "now we are three"

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


def test_a_message_goes_out_with_html_in_its_place(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        sent = await channel.send(
            "**Hi** <you> & `x<y`", GROUP, at={"thread_id": "$root:hs", "reply_to": "$other:hs"}
        )
        (event,) = server.sent(GROUP)
        assert sent == ChannelSent(message_id=event["event_id"])
        content = event["content"]
        assert (content["msgtype"], content["body"]) == ("m.notice", "**Hi** <you> & `x<y`")
        assert content["formatted_body"] == "<strong>Hi</strong> &lt;you&gt; &amp; <code>x&lt;y</code>"
        assert content["m.mentions"] == {}  # nobody is called by a name that a model writes
        relates = content["m.relates_to"]
        assert (relates["rel_type"], relates["event_id"]) == ("m.thread", "$root:hs")
        assert (relates["m.in_reply_to"], relates["is_falling_back"]) == ({"event_id": "$other:hs"}, False)
        await channel.send("**no marks**", DM, plain=True, key="k2")
        await channel.send("one line & no <marks>\nand two", DM, key="k3", at={"reply_to": "$other:hs"})
        plain, bare = (one["content"] for one in server.sent())
        assert (plain["body"], "formatted_body" in plain, "m.relates_to" in plain) == (
            "**no marks**",
            False,
            False,
        )
        assert "formatted_body" not in bare
        assert bare["m.relates_to"] == {"m.in_reply_to": {"event_id": "$other:hs"}}
        await channel.send("there", GROUP, key="k4", at={"thread_id": "$root:hs"})
        relates = server.sent(GROUP)[-1]["content"]["m.relates_to"]
        assert (relates["is_falling_back"], relates["m.in_reply_to"]["event_id"]) == (True, "$root:hs")

    connected(desk, body)


def test_messages_may_be_those_of_people_and_rooms_named_by_their_address(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        server.aliases["#lobby:hs.example"] = GROUP
        await channel.send("hello", "#lobby:hs.example")
        assert server.sent(GROUP)[0]["content"]["msgtype"] == "m.text"
        assert "Room alias not found" in (await refusal(channel.send("hello", "#other:hs.example"))).message

    connected(desk, body, send_as="text")


def test_an_answer_grows_by_edits(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        sent = await channel.send("The", DM, key="s")
        for text in ("The answer", "The answer is **4", "The answer is **42**"):
            await channel.edit(sent.message_id, text, DM)
        assert server.texts() == ["The answer is **42**"]
        content = server.sent()[-1]["content"]
        assert content["m.relates_to"] == {"rel_type": "m.replace", "event_id": sent.message_id}
        assert content["m.new_content"]["formatted_body"] == "The answer is <strong>42</strong>"
        assert content["body"] == "* The answer is **42**"
        assert "no id of a message" in (await refusal(channel.edit("999", "lost", DM))).message
        assert "cannot become empty" in (await refusal(channel.edit(sent.message_id, " ", DM))).message
        server.refusals["send"] = ["cut", "cut"]  # aiohttp tries once more by itself
        given_up = await refusal(channel.edit(sent.message_id, "x", DM))
        assert "given up: " in given_up.message

    connected(desk, body)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 16_000,
        "漢" * 5_333,
        "&<" * 8_000,
        "**b** " * 2_666,
        '"\\\n' * 5_333,
        "\x01" * 15_999 + "x",
        "- a\n" * 4_000,
    ],
)
def test_the_longest_message_fits_and_so_does_its_edit(desk: ChannelDesk, text: str) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        sent = await channel.send(text, DM)
        await channel.edit(sent.message_id, text + " ", DM)
        assert [one.strip() for one in server.texts()] == [text.replace("\x01", "").strip()]

    connected(desk, body)


@pytest.mark.parametrize(
    ("refused", "kind", "retryable", "told"),
    [
        (Refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=7000), RateLimitedError, True, "rate"),
        (
            Refusal(429, "M_LIMIT_EXCEEDED", headers={"Retry-After": "7"}, retry_after_ms=1),
            RateLimitedError,
            True,
            "rate",
        ),
        (Refusal(429, "M_UNKNOWN"), RemoteFaultError, True, "rate"),
        (Refusal(403, "M_FORBIDDEN", "You can't write"), InvalidArgumentError, False, "You can't write"),
        (Refusal(403, "M_RESOURCE_LIMIT_EXCEEDED"), RemoteFaultError, True, "M_RESOURCE"),
        (Refusal(401, "M_UNKNOWN_TOKEN"), RemoteFaultError, True, "check `access-token`"),
        (Refusal(413, "M_TOO_LARGE"), InvalidArgumentError, False, "M_TOO_LARGE"),
        (Refusal(404, ""), RemoteFaultError, True, "check `homeserver`"),
    ],
)
def test_an_error_says_whether_to_try_again(
    desk: ChannelDesk, refused: Refusal, kind: type[Exception], retryable: bool, told: str
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        server.refusals["send"] = [refused]
        error = await refusal(channel.send("hello", DM))
        assert isinstance(error, kind), error
        assert told in error.message
        assert to_fault(error).retryable is retryable
        if isinstance(error, RateLimitedError):
            assert error.retry_after == 7
        sent = await channel.send("hello", DM)
        assert sent == ChannelSent(message_id=server.sent()[0]["event_id"])

    connected(desk, body)


@pytest.mark.parametrize("answer", [Refusal(500, "M_UNKNOWN"), "<html>502 Bad Gateway</html>", "cut", "late"])
def test_what_may_have_been_sent_is_sent_again_and_there_once(desk: ChannelDesk, answer: Any) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        server.refusals["send"] = [answer, answer]  # aiohttp tries once more by itself if it is cut off
        assert (await channel.send("hello", DM, key="same")).in_doubt
        server.refusals.clear()
        sent = await channel.send("hello", DM, key="same")
        assert server.texts() == ["hello"]
        assert await channel.send("hello", DM, key="same") == sent
        assert len({call.params["txn"] for call in server.called("send")}) == 1
        await channel.send("hello", DM, key="another")
        assert server.texts() == ["hello", "hello"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("chat", "text", "at", "told"),
    [
        ("the lobby", "hi", {}, "no id of a room"),
        (ADA, "hi", {}, "no id of a room"),
        (DM, "  ", {}, "empty"),
        (DM, "hi", {"thread_id": "9"}, "no id of a message"),
        ("!not-mine:hs.example", "hi", {}, "not in room"),
    ],
)
def test_what_matrix_cannot_take_is_refused_with_the_reason(
    desk: ChannelDesk, chat: str, text: str, at: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        error = await refusal(channel.send(text, chat, at=at))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message
        assert not server.called("send")

    connected(desk, body)


# -- encrypted rooms ------------------------------------------------------------------------------


def test_an_encrypted_room_is_neither_read_nor_written_and_says_so_once(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.happen("m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, state_key="")
        secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgAEn", "sender_key": "k"}
        server.happen("m.room.encrypted", {**secret, "device_id": "D", "session_id": "S"})
        turned_on, event = await channel.events(2)
        assert turned_on.event_type == "platform.m.room.encryption"
        assert (event.event_type, event.text) == ("platform.m.room.encrypted", None)
        (told,) = await server.until("send")
        assert "cannot read encrypted messages" in told.body["body"]
        await channel.until(lambda: channel.state["told"] == [DM])
        server.happen("m.room.encrypted", secret)
        await channel.events(3)
        error = await refusal(channel.send("a secret", DM))
        assert isinstance(error, InvalidArgumentError)
        assert "end-to-end encrypted" in error.message
        server.stream.rooms[GROUP].state["m.room.encryption", ""] = {"content": {"algorithm": "m.megolm"}}
        assert "end-to-end encrypted" in (await refusal(channel.send("a secret", GROUP))).message
        await server.until_synced()
        assert len(server.called("send")) == 1

    connected(desk, body)
