"""Slack: what people write and what happens comes in, by its type, with who and where."""

from __future__ import annotations

from typing import Any

import pytest

from support.channel_desk import ChannelDesk, OpenChannel
from support.slack_desk import connected, desk, place
from support.slack_methods import ADA, BOT, DM, GENERAL
from support.slack_server import SlackServer

__all__ = ["desk"]


def test_a_direct_message_comes_in_with_who_and_where_and_is_acknowledged(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        account = channel.health.account
        assert (account.person_id, account.name, account.is_bot) == (BOT, "helper", True)
        said = server.write("hello 漢字 👋 &lt;b&gt;")
        envelope = server.envelope("events_api", server.said(said))
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "message")
        assert (event.text, event.message_id) == ("hello 漢字 👋 <b>", said["ts"])
        assert event.event_id == f"message.received:{DM}:{said['ts']}"
        assert event.event_time == float(said["ts"])
        assert place(event) == ("private", DM, None)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (ADA, "Ada L.", False)
        assert event.addressed == ["private"]
        assert event.data["slack"]["team"] == "T111"
        assert channel.state["since"] == {DM: said["ts"]}
        await server.until_acknowledged(envelope)

    connected(desk, body)


@pytest.mark.parametrize(
    ("text", "more", "addressed"),
    [
        ("good morning", {}, []),
        (f"<@{BOT}> hi", {}, ["mention"]),
        (f"hi <@{BOT}|helper>", {}, ["mention"]),
        (f"<@{BOT}X> hi", {}, []),
        ("yes", {"thread_ts": "5.000001", "parent_user_id": BOT}, ["reply"]),
        ("yes", {"thread_ts": "5.000001", "parent_user_id": ADA}, []),
    ],
)
def test_what_calls_the_bot_in_a_channel(
    desk: ChannelDesk, text: str, more: dict[str, Any], addressed: list[str]
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        said = server.write(text, GENERAL, **more)
        server.envelope("events_api", server.said(said, GENERAL))
        event = await channel.event()
        # outside of threads each message begins one
        assert place(event) == ("group", GENERAL, more.get("thread_ts", said["ts"]))
        assert event.reply_to == more.get("thread_ts")
        assert event.chat is not None
        assert event.chat.title == "general"
        assert event.addressed == addressed

    connected(desk, body)


def test_a_thread_in_which_the_bot_wrote_calls_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        asked = server.write("who knows?", GENERAL)
        await channel.send("I do", GENERAL, at={"thread_id": asked["ts"]})
        said = server.write("then tell", GENERAL, thread_ts=asked["ts"], parent_user_id=ADA)
        server.envelope("events_api", server.said(said, GENERAL))
        assert (await channel.event()).addressed == ["reply"]

    connected(desk, body)


def test_without_threads_a_channel_is_one_conversation(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.envelope("events_api", server.said(server.write("hi", GENERAL), GENERAL))
        assert place(await channel.event()) == ("group", GENERAL, None)

    connected(desk, body, answer_in_threads=False)


def test_a_mention_that_slack_tells_twice_is_one_event(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        said = server.write(f"<@{BOT}> hi <@{ADA}>", GENERAL)
        server.envelope("events_api", server.said(said, GENERAL))
        mention = {**said, "type": "app_mention", "channel": GENERAL, "event_ts": said["ts"]}
        server.envelope("events_api", server.event(mention, "Ev777"))
        await channel.until(lambda: len(channel.ingest.duplicates) == 1)
        event = await channel.event()
        assert (event.text, event.addressed) == ("@helper hi @Ada L.", ["mention"])

    connected(desk, body)


def test_marks_of_slack_are_written_as_people_read_them(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        text = "<!here> <#C1|news> <#C2> <https://a.example/?x=1&amp;y=2|docs> <https://b.example> "
        text += "<mailto:a@b.example|a@b.example> <@U0BEN> <@U0NOBODY> <!subteam^S1|@team> &lt;@U0BEN&gt;"
        server.envelope("events_api", server.said(server.write(text)))
        assert (await channel.event()).text == (
            "@here #news #C2 docs (https://a.example/?x=1&y=2) https://b.example "
            "a@b.example @Ben @U0NOBODY @team <@U0BEN>"
        )

    connected(desk, body)


def test_bots_are_told_from_people_and_the_bot_is_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        own = [
            server.said(server.write("mine", user=BOT)),
            server.said(server.write("mine", user="U0X", bot_id="B0BOT")),
            server.event(
                {
                    "type": "message",
                    "subtype": "message_deleted",
                    "channel": DM,
                    "ts": "9.1",
                    "deleted_ts": "5.1",
                    "previous_message": {"user": BOT, "ts": "5.1"},
                },
                "Ev1",
            ),
            server.event(
                {
                    "type": "reaction_added",
                    "user": BOT,
                    "reaction": "eyes",
                    "item": {"type": "message", "channel": DM, "ts": "5.1"},
                },
                "Ev2",
            ),
        ]
        envelopes = [server.envelope("events_api", one) for one in own]
        await server.until_acknowledged(*envelopes)
        server.envelope("events_api", server.said(server.write("beep", user="U0CAT")))
        event = await channel.event()
        assert event.person is not None
        assert (event.person.person_id, event.person.is_bot) == ("U0CAT", True)
        legacy = server.write("deploy", subtype="bot_message", bot_id="B0HOOK", username="Deploy")
        del legacy["user"]
        server.envelope("events_api", server.said(legacy))
        event = await channel.event()
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == ("B0HOOK", "Deploy")
        assert event.person.is_bot

    connected(desk, body)


CHANGED = {"type": "message", "user": ADA, "text": "new &amp; better", "ts": "5.000001"}


@pytest.mark.parametrize(
    ("event", "event_type", "expected"),
    [
        (
            {
                "type": "message",
                "subtype": "message_changed",
                "message": {**CHANGED, "edited": {"user": ADA, "ts": "6.0"}},
                "previous_message": CHANGED,
            },
            "message.edited",
            {"text": "new & better", "message_id": "5.000001"},
        ),
        (  # a preview of a link was added
            {
                "type": "message",
                "subtype": "message_changed",
                "message": CHANGED,
                "previous_message": CHANGED,
            },
            "platform.message_changed",
            {},
        ),
        (
            {
                "type": "message",
                "subtype": "message_deleted",
                "deleted_ts": "5.000001",
                "previous_message": CHANGED,
            },
            "message.recalled",
            {"message_id": "5.000001"},
        ),
        (  # with replies below it
            {
                "type": "message",
                "subtype": "message_changed",
                "message": {**CHANGED, "subtype": "tombstone"},
                "previous_message": CHANGED,
            },
            "message.recalled",
            {"message_id": "5.000001"},
        ),
        ({"type": "message", "subtype": "channel_topic", "user": ADA}, "platform.channel_topic", {}),
    ],
)
def test_what_becomes_of_a_message(
    desk: ChannelDesk, event: dict[str, Any], event_type: str, expected: dict[str, Any]
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        whole = {**event, "channel": GENERAL, "ts": "7.000001", "event_ts": "7.000001"}
        server.envelope("events_api", server.event({**whole, "channel_type": "channel"}, "Ev9"))
        found = await channel.event()
        assert (found.event_type, found.event_id) == (event_type, "Ev9")
        assert {name: getattr(found, name) for name in expected} == expected
        assert found.chat is not None
        assert found.chat.chat_id == GENERAL
        assert found.person is None or found.person.person_id == ADA

    connected(desk, body)


@pytest.mark.parametrize(
    ("event", "event_type", "data"),
    [
        (
            {
                "type": "reaction_added",
                "user": ADA,
                "reaction": "thumbsup",
                "item": {"type": "message", "channel": GENERAL, "ts": "5.1"},
            },
            "message.reaction_added",
            {"emoji": "thumbsup"},
        ),
        (
            {
                "type": "reaction_removed",
                "user": ADA,
                "reaction": "x",
                "item": {"type": "message", "channel": GENERAL, "ts": "5.1"},
            },
            "message.reaction_removed",
            {"emoji": "x"},
        ),
        (
            {"type": "member_joined_channel", "user": ADA, "channel": GENERAL, "inviter": "U0BEN"},
            "group.member_joined",
            {"by": {"person_id": "U0BEN", "name": "Ben", "is_bot": False}},
        ),
        ({"type": "member_left_channel", "user": ADA, "channel": GENERAL}, "group.member_left", {"by": None}),
        (
            {"type": "member_joined_channel", "user": BOT, "channel": GENERAL, "inviter": ADA},
            "group.bot_invited",
            {},
        ),
        ({"type": "channel_left", "channel": GENERAL}, "group.bot_removed", {}),
        ({"type": "channel_rename", "channel": {"id": GENERAL, "name": "x"}}, "platform.channel_rename", {}),
        ({"type": "app_home_opened", "user": ADA, "channel": DM}, "platform.app_home_opened", {}),
        ({"type": "Odd.Name!"}, "platform.odd_name", {}),
    ],
)
def test_what_happens_is_told_by_its_type(
    desk: ChannelDesk, event: dict[str, Any], event_type: str, data: dict[str, Any]
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.envelope("events_api", server.event({**event, "event_ts": "7.5"}, "Ev9"))
        found = await channel.event()
        assert (found.event_type, found.event_id, found.event_time) == (event_type, "Ev9", 7.5)
        assert found.source_event_type == event["type"]
        assert {name: found.data[name] for name in data} == data
        assert found.data["slack"] == {**event, "event_ts": "7.5"}
        if event_type.startswith("message.reaction"):
            assert found.message_id == "5.1"

    connected(desk, body)


def test_a_command_is_told_with_its_arguments(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        payload = {"token": "t", "team_id": "T111", "channel_id": GENERAL, "channel_name": "general"}
        payload |= {
            "user_id": ADA,
            "user_name": "ada",
            "command": "/ask",
            "text": "the way",
            "api_app_id": "A",
        }
        payload |= {"response_url": "https://hooks.slack.com/commands/x", "trigger_id": "13.2"}
        envelope = server.envelope("slash_commands", payload)
        event = await channel.event()
        assert (event.event_type, event.event_id) == ("command.invoked", "command:13.2")
        assert event.data["command"] == {"name": "ask", "arguments": "the way"}
        assert (event.text, event.addressed) == ("the way", ["command"])
        assert place(event)[1] == GENERAL
        assert "hooks.slack.com" not in str(event.data)  # whoever has it may write in the chat
        await server.until_acknowledged(envelope)

    connected(desk, body)
