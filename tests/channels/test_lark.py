"""Lark: messages both ways, over lark-oapi in a real process, on a server that speaks Lark's wire."""

from __future__ import annotations

import html
import json
from typing import Any

from hostler_protocol.channels import Button, ChannelEvent
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.lark_desk import connected, desk, send
from support.lark_events import event, message_id_of, pressed, said, to_bot
from support.lark_methods import ADA, BEN, BOT, DM, GROUP, Refused, buttons_of, elements_of
from support.lark_server import LarkServer

__all__ = ["desk"]


def place(found: ChannelEvent) -> tuple[str, str, str | None]:
    assert found.chat is not None
    return found.chat.kind, found.chat.chat_id, found.chat.thread_id


# -- in -------------------------------------------------------------------------------------------


def test_a_private_message_comes_in_with_who_and_where_and_is_acknowledged(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        account = channel.health.account
        assert (account.person_id, account.name, account.is_bot) == (BOT, "helper", True)
        await server.until_true(lambda: server.pings)
        payload = said(server, "hello 漢字 👋 <b>")
        frame = server.push(payload)
        assert await server.acknowledgement(frame) == {"code": 200}
        found = await channel.event()
        assert (found.event_type, found.source_event_type) == ("message.received", "im.message.receive_v1")
        assert (found.text, found.message_id) == ("hello 漢字 👋 <b>", message_id_of(payload))
        assert found.event_time == int(payload["event"]["message"]["create_time"]) / 1000
        assert place(found) == ("private", DM, None)
        assert found.person is not None
        assert (found.person.person_id, found.person.name, found.person.is_bot) == (ADA, "Ada", False)
        assert found.addressed == ["private"]
        assert found.data["lark"] == payload["event"]

    connected(desk, body)


def test_what_calls_the_bot_in_a_group(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        async def heard(content: str, **more: Any) -> ChannelEvent:
            server.push(said(server, content, GROUP, **more))
            return await channel.event()

        found = await heard("@_user_1 hi @_user_2 @_all", mentions={
            "@_user_1": (BOT, "helper"),
            "@_user_2": (BEN, "Ben"),
        })  # fmt: skip
        assert (found.text, found.addressed) == ("@helper hi @Ben @all", ["mention"])
        assert place(found) == ("group", GROUP, None)
        assert found.chat is not None
        assert found.chat.title == "General"
        assert (await heard("good morning")).addressed == []
        mine = await send(channel, "an answer", GROUP)
        found = await heard("thanks", parent_id=mine.message_id, root_id=mine.message_id)
        assert (found.addressed, found.reply_to) == (["reply"], mine.message_id)
        theirs = message_id_of(said(server, "old", GROUP))
        found = await heard("no", parent_id=theirs, root_id=theirs)
        assert (found.addressed, found.reply_to) == ([], theirs)

    connected(desk, body)


def test_topics_are_threads_to_which_is_answered(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        first = said(server, "a topic", GROUP, thread_id="omt_1")
        root = message_id_of(first)
        server.push(first)
        found = await channel.event()
        assert (place(found), found.reply_to, found.addressed) == (("group", GROUP, root), None, [])
        server.push(said(server, "more", GROUP, thread_id="omt_1", root_id=root, parent_id=root))
        found = await channel.event()
        assert (place(found)[2], found.reply_to, found.addressed) == (root, None, [])
        at = {"thread_id": root, "reply_to": found.message_id}
        sent = await send(channel, "in it", GROUP, at=at)
        assert server.messages[str(sent.message_id)]["thread_id"] == "omt_1"
        (call,) = server.called("message.reply")
        assert (call.path["message_id"], call.body["reply_in_thread"]) == (root, True)
        server.push(said(server, "and?", GROUP, thread_id="omt_1", root_id=root, parent_id=root))
        assert (await channel.event()).addressed == ["reply"]

    connected(desk, body)


def test_a_topic_in_which_the_bot_wrote_before_it_was_started_anew_calls_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        root = message_id_of(said(server, "a topic", GROUP, thread_id="omt_1"))
        answer = said(server, "mine", GROUP, thread_id="omt_1", root_id=root, parent_id=root)
        server.messages[message_id_of(answer)]["sender"] = {"id": server.app_id, "sender_type": "app"}
        server.push(said(server, "and?", GROUP, thread_id="omt_1", root_id=root, parent_id=root))
        assert (await channel.event()).addressed == ["reply"]

    connected(desk, body)


def test_each_message_of_a_group_may_begin_a_topic(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        payload = said(server, **to_bot("hi"))
        server.push(payload)
        assert place(await channel.event()) == ("group", GROUP, message_id_of(payload))
        await send(channel, "yes", GROUP, at={"thread_id": message_id_of(payload)})
        assert server.messages[message_id_of(payload)]["thread_id"]
        server.push(said(server, "private"))
        assert place(await channel.event()) == ("private", DM, None)

    connected(desk, body, answer_in_threads=True)


def test_own_messages_are_not_heard_and_bots_are_told_from_people(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        own = [
            said(server, "mine", person=BOT, sender_type="app"),
            event(
                server,
                "im.message.reaction.created_v1",
                {"message_id": "om_1", "operator_type": "app", "app_id": server.app_id},
            ),
        ]
        for payload in own:
            assert await server.acknowledgement(server.push(payload)) == {"code": 200}
        server.push(said(server, "beep", person="ou_robot", sender_type="app"))
        found = await channel.event()
        assert found.person is not None
        assert (found.person.person_id, found.person.is_bot) == ("ou_robot", True)
        assert [call.path["user_id"] for call in server.called("user.get")] == []

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


def test_answers_are_cards_with_marks_in_which_nothing_hostile_is_read(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        text = '# Title\n\n**bold** *it* `x<y` [docs](https://a.example/(1) "t") :OK: 1 < 2 & &lt;\n\n'
        text += '- a_b\n\n```py\nif a < b: "*"\n```\n\n<at id=all></at> wow\\![x](https://b.example)'
        await send(channel, text, key="k1")
        (shown,) = server.texts()
        assert "<at" not in shown.replace("&#60;at", "")
        assert shown.startswith("**Title**\n\n**bold** *it* `x<y` ")
        assert "&#58;OK: 1 &#60; 2 & &#60;" in shown
        assert '```py\nif a < b: "*"\n```' in shown
        assert "• a&#95;b" in shown
        assert shown.endswith("wow&#33;[x](https://b.example)")
        (sent,) = server.sent()
        card = json.loads(sent["body"]["content"])
        assert card["config"]["summary"]["content"].startswith("Title bold it x<y docs")
        await send(channel, "*as it is* <at id=all></at>", key="k2", plain=True)
        element = elements_of(server.sent()[-1])[0]
        assert element == {
            "tag": "div",
            "text": {"tag": "plain_text", "content": "*as it is* <at id=all></at>"},
        }

    connected(desk, body)


def test_what_marks_would_make_dangerous_is_sent_without_and_nothing_is_too_long(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        for text in ("`<at id=all></at>`", "**x**\n```\n<person id='ou_x'></person>\n```"):
            await send(channel, text, key=text)
            assert elements_of(server.sent()[-1])[0]["text"] == {"tag": "plain_text", "content": text}
        for text in (
            "a" + "*" * 3_999,
            "\\" * 4_000,
            "👋" * 4_000,
            '"\n' * 2_000,
            "|漢|漢|\n|-|-|\n" + "|&lt;|b|\n" * 400,
        ):
            await send(channel, text[:4_000], key=text)
            assert len(html.unescape(server.texts()[-1])) > 1_000
        table = "\n".join(["|" + "b" * 41 + "|a|", "|-|-|", *["|c|d|"] * 640])
        await send(channel, table, key="table")  # as aligned text it would have 30 KB
        assert server.texts()[-1] == table

    connected(desk, body)


def test_a_card_that_lark_refuses_is_sent_without_marks(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        refused = Refused(230099, "Failed to create card content, ext=ErrCode: 200732; ErrMsg: new")
        server.answers["message.create"] = [refused]
        sent = await send(channel, "**bold**")
        assert server.texts() == ["**bold**"]
        assert elements_of(server.sent()[0])[0]["tag"] == "div"
        server.answers["message.patch"] = [refused]
        await channel.edit(sent.message_id, "**better**")
        assert server.texts() == ["**better**"]

    connected(desk, body)


def test_answers_in_groups_quote_what_they_answer_and_those_in_private_do_not(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        asked = said(server, **to_bot("what?"))
        server.push(asked)
        await channel.event()
        await send(channel, "this", GROUP, key="1", at={"reply_to": message_id_of(asked)})
        assert server.sent(GROUP)[-1]["parent_id"] == message_id_of(asked)
        private = said(server, "hi")
        server.push(private)
        await channel.event()
        await send(channel, "ho", key="2", at={"reply_to": message_id_of(private)})
        assert "parent_id" not in server.sent()[-1]
        server.messages[message_id_of(asked)]["deleted"] = True
        await send(channel, "still", GROUP, key="3", at={"reply_to": message_id_of(asked)})
        assert "parent_id" not in server.sent(GROUP)[-1]
        await send(channel, "to a person", ADA, key="4")
        assert server.texts()[-1] == "to a person"

    connected(desk, body)


def test_an_answer_grows_by_edits_of_its_card(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        sent = await send(channel, "The", buttons=[[Button(label="Stop", value="v")]])
        for text in ("The answer", "The answer is", "The answer is **42**"):
            await channel.edit(sent.message_id, text)
            assert server.texts() == [text]
        assert buttons_of(server.sent()[0]) == []
        assert (await refusal(channel.edit(sent.message_id, " "))).code == "invalid_argument"
        assert (await refusal(channel.edit("om_none", "x"))).code == "invalid_argument"
        assert (await refusal(channel.edit("1", "x"))).code == "invalid_argument"

    connected(desk, body)


# -- buttons --------------------------------------------------------------------------------------


def test_a_button_is_pressed_and_its_notice_is_shown_to_who_pressed(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        rows = [
            [
                Button(label="Approve", value="yes:1", style="primary"),
                Button(label="Deny", value="no:1", style="danger"),
            ],
            [Button(label="L" * 200, value="later")],
        ]
        sent = await send(channel, "Allow **it**?", buttons=rows)
        (message,) = server.sent()
        yes, no, later = buttons_of(message)
        assert (yes[:2], no[:2], len(later[0])) == (("Approve", "primary"), ("Deny", "danger"), 100)
        channel.ingest.notice = "You may not decide this."
        press = pressed(server, json.loads(yes[2]), str(sent.message_id), person=BEN)
        answer = await server.acknowledgement(server.push(press))
        toast = {"toast": {"type": "info", "content": "You may not decide this."}}
        assert answer == {"code": 200, "data": toast}
        found = await channel.event()
        assert (found.event_type, found.data["value"]) == ("interaction.submitted", "yes:1")
        assert (found.message_id, place(found)) == (sent.message_id, ("private", DM, None))
        assert found.person is not None
        assert (found.person.person_id, found.person.name) == (BEN, "Ben")
        assert found.event_time is not None
        assert 1.7e9 < found.event_time < 1e10
        assert "token" not in found.data["lark"]
        channel.ingest.notice = None
        frame = server.push(press, kind="card")  # redelivered
        assert (await server.acknowledgement(frame))["code"] == 200
        assert len(channel.ingest.duplicates) == 1

    connected(desk, body)


def test_a_press_in_a_topic_belongs_to_it_and_other_cards_have_their_own_name(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        root = message_id_of(said(server, "a topic", GROUP, thread_id="omt_1"))
        sent = await send(
            channel, "?", GROUP, at={"thread_id": root}, buttons=[[Button(label="A", value="a")]]
        )
        server.push(pressed(server, {"hostler": "a"}, str(sent.message_id), GROUP))
        assert place(await channel.event()) == ("group", GROUP, root)
        server.push(pressed(server, {"value": "own"}, str(sent.message_id), GROUP))
        found = await channel.event()
        assert (found.event_type, found.data["value"]) == ("interaction.submitted", "own")
        server.push(pressed(server, {"a": 1}, str(sent.message_id), GROUP, tag="select_static", option="x"))
        found = await channel.event()
        assert found.event_type == "platform.card_action_trigger"
        assert found.data["lark"]["action"]["option"] == "x"

    connected(desk, body)


def test_an_edit_waits_while_the_card_is_pressed(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        sent = await send(channel, "?")
        locked = "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card action is lock"
        server.answers["message.patch"] = [Refused(230099, locked)]
        error = await refusal(channel.edit(sent.message_id, "decided"))
        assert (error.code, error.details["retry_after"]) == ("rate_limited", 1.0)
        await channel.edit(sent.message_id, "decided")
        assert server.texts() == ["decided"]

    connected(desk, body)


def test_too_many_buttons_are_refused(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LarkServer) -> None:
        rows = [[Button(label="x", value=f"{number}")] for number in range(51)]
        assert (await refusal(send(channel, "?", buttons=rows))).code == "invalid_argument"
        await send(channel, "?", buttons=rows[:50])
        assert len(buttons_of(server.sent()[0])) == 50

    connected(desk, body)
