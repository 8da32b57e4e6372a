"""LINE: messages out, as replies and pushes, and buttons."""

from __future__ import annotations

from typing import Any

from hostler_protocol.channels import Button, ChannelEvent
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.line_desk import connected, deliver, desk
from support.line_server import ADA, EVE, GROUP, LineServer

__all__ = ["desk"]
IN_GROUP = {"type": "group", "groupId": GROUP, "userId": EVE}


async def received(channel: OpenChannel, server: LineServer, event: dict[str, Any]) -> ChannelEvent:
    """What a call of LINE with one event becomes."""
    assert await deliver(channel, server, event) == 200
    return await channel.event()


def test_an_answer_is_a_reply_while_its_token_is_fresh_and_a_push_after_that(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await received(channel, server, server.message(text="hello"))
        first = await channel.send("**one**, by `reply`", ADA, key="k1")
        second = await channel.send("two", ADA, key="k2")
        assert server.texts() == ["one, by reply", "two"]
        assert [one["id"] for one in server.sent] == [first.message_id, second.message_id]
        assert len(server.called("/reply")) == 1
        (push,) = server.called("/push")
        assert push.body["to"] == ADA
        assert "X-Line-Retry-Key" in push.headers

    connected(desk, body)


def test_each_token_answers_its_own_chat(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="1"), server.message(source=IN_GROUP, text="2"))
        await channel.send("to the group", GROUP, key="k1")
        await channel.send("to Ada", ADA, key="k2")
        assert server.texts(GROUP) == ["to the group"]
        assert server.texts(ADA) == ["to Ada"]
        assert server.called("/push") == []

    connected(desk, body)


def test_tokens_of_what_is_sent_again_or_is_for_another_module_are_not_used(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        again = server.message(text="1") | {"deliveryContext": {"isRedelivery": True}}
        standby = server.message(text="2") | {"mode": "standby"}
        await deliver(channel, server, again, standby)
        assert [one.event_type for one in channel.ingest.events] == ["message.received", "platform.standby"]
        await channel.send("hello", ADA)
        assert server.called("/reply") == []

    connected(desk, body)


def test_without_reply_tokens_all_is_pushed(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="1"))
        await channel.send("hello", ADA)
        assert (len(server.called("/push")), server.called("/reply")) == (1, [])

    connected(desk, body, reply_tokens=False)


def test_markdown_becomes_plain_text_and_plain_text_stays(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        text = "# Title\n\n- **a**\n- [b](https://x.example)\n\n```python\nx = 1 < 2\n```"
        await channel.send(text, ADA, key="k1")
        await channel.send("*as* it `is`", ADA, key="k2", plain=True)
        assert server.texts() == ["Title\n\n• a\n• b (https://x.example)\n\nx = 1 < 2", "*as* it `is`"]
        rows = [f"|{number}|x|" for number in range(200)]
        first = await channel.send("\n".join([f"|{'wide' * 10}|b|", "|-|-|", *rows]), ADA, key="k3")
        shown = [text.split("\n") for text in server.texts()[2:]]  # its columns are aligned, which adds to it
        assert len(shown) > 1
        assert all(lines[0].startswith("widewide") for lines in shown)
        assert [int(line.split()[0]) for lines in shown for line in lines[2:]] == list(range(200))
        assert first.message_id == server.sent[2]["id"]
        await channel.send("😀" * 2_500, ADA, key="k4")
        assert server.texts()[-1] == "😀" * 2_500

    connected(desk, body)


def test_what_line_cannot_take_is_refused_for_good(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        channel.ingest.files["a"] = b"x"
        pdf = ArtifactRef(artifact_id="a", name="report.pdf", mime_type="application/pdf", size_bytes=1)
        stranger = "U" + "9" * 32
        refused = [
            await refusal(channel.send("see", ADA, attachments=[pdf])),
            await refusal(channel.send("😀" * 10_001, ADA, plain=True)),
            await refusal(channel.send(" \n ", ADA)),
            await refusal(channel.send("hello", "7")),
            await refusal(channel.send("hello", f"{ADA}/../x")),
            await refusal(channel.send("hello", stranger)),
        ]
        assert all(isinstance(one, InvalidArgumentError) for one in refused)
        assert "report.pdf" in refused[0].message
        assert "cannot upload" in refused[0].message
        assert "Failed to send messages" in refused[-1].message
        assert server.sent == []

    connected(desk, body)


def test_in_groups_an_answer_quotes_its_message_if_line_knows_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        said = server.message(source=IN_GROUP, text="question")
        private = server.message(text="question")
        await deliver(channel, server, said, private)
        at = {"reply_to": said["message"]["id"]}
        await channel.send("answer", GROUP, key="k1", at=at)
        assert server.sent[-1]["message"]["quoteToken"] == said["message"]["quoteToken"]
        await channel.send("answer", ADA, key="k2", at={"reply_to": private["message"]["id"]})
        assert "quoteToken" not in server.sent[-1]["message"]
        await channel.send("answer", GROUP, key="k3", at={"reply_to": "12"})
        assert "quoteToken" not in server.sent[-1]["message"]
        server.known_quotes.clear()
        await channel.send("still", GROUP, key="k4", at=at)
        assert server.sent[-1]["message"] == {"type": "text", "text": "still"}

    connected(desk, body)


# -- buttons --------------------------------------------------------------------------------------


def test_buttons_are_a_bubble_and_a_press_comes_back(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        long = "Allow it always, for all files"
        rows = [
            [Button(label="Approve", value="q:1:0", style="primary")],
            [Button(label="Deny", value="q:1:1", style="danger"), Button(label=long, value="q:1:2")],
        ]
        sent = await channel.send("May I?", ADA, buttons=rows)
        text, bubble = [one["message"] for one in server.sent]
        assert (text["text"], sent.message_id) == ("May I?", server.sent[0]["id"])
        assert bubble["altText"] == f"Approve / Deny / {long}"
        contents = bubble["contents"]["body"]["contents"]
        actions = [one["action"] for one in contents if one["type"] == "button"]
        assert [one["data"] for one in actions] == ["q:1:0", "q:1:1", "q:1:2"]
        assert [one["text"] for one in contents if one["type"] == "text"] == [long]
        pressed = server.event("postback", replyToken=server.reply_token(), postback={"data": "q:1:0"})
        event = await received(channel, server, pressed)
        assert (event.event_type, event.data["value"]) == ("interaction.submitted", "q:1:0")
        assert event.addressed == ["private"]
        await channel.send("", ADA, key="only", buttons=rows[:1])
        assert server.sent[-1]["message"]["type"] == "flex"
        many = [[Button(label=str(n), value=str(n))] for n in range(31)]
        assert "31 buttons" in (await refusal(channel.send("", ADA, key="many", buttons=many))).message

    connected(desk, body)


def test_a_notice_is_for_who_pressed_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        channel.ingest.notice = "This is not yours to decide"
        token = server.reply_token()
        await deliver(channel, server, server.event("postback", replyToken=token, postback={"data": "q:1:0"}))
        await server.until_true(lambda: server.texts(ADA) == ["This is not yours to decide"])
        assert server.called("/push") == []
        in_group = [
            server.event("postback", IN_GROUP, replyToken=server.reply_token(GROUP), postback={"data": "x"})
            for _ in range(3)
        ]
        await deliver(channel, server, *in_group)
        await server.until_true(lambda: server.texts(EVE))
        await channel.send("all of it is settled", GROUP)
        assert server.texts(EVE) == ["This is not yours to decide"]  # pushes are counted: one a minute
        assert server.texts(GROUP) == ["all of it is settled"]

    connected(desk, body)
