"""Slack: platform actions, and the bounds of what the channel keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostler_slack.emoji import name_of
from hostler_slack.position import Position

from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from hostler_sdk.channels import NotSent
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.slack_desk import connected, desk
from support.slack_methods import ADA, BOT, DM, GENERAL, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]

AT = {"chat_id": GENERAL, "message_id": "5.000001", "person_id": ADA, "thread_id": "5.000001"}
MOST_STATE_BYTES = 64 * 1024
"""Of a kept state, by the protocol."""


@pytest.mark.parametrize(
    ("action", "payload", "method", "params"),
    [
        ("message.react", {"emoji": "👍"}, "reactions.add", {"name": "+1", "timestamp": "5.000001"}),
        ("message.react", {"emoji": ":tada:"}, "reactions.add", {"name": "tada"}),
        ("message.unreact", {"emoji": "❤️"}, "reactions.remove", {"name": "heart"}),
        ("message.delete", {}, "chat.delete", {"ts": "5.000001"}),
        ("message.pin", {}, "pins.add", {"timestamp": "5.000001"}),
        (
            "typing.start",
            {},
            "assistant.threads.setStatus",
            {"channel_id": GENERAL, "thread_ts": "5.000001", "status": "is typing…"},
        ),
        ("member.kick", {}, "conversations.kick", {"user": ADA}),
        ("group.leave", {}, "conversations.leave", {}),
    ],
)
def test_actions_are_calls_of_the_web_api(
    desk: ChannelDesk, action: str, payload: dict[str, Any], method: str, params: dict[str, str]
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        done = await channel.act(action, AT, **payload)
        assert (done.result, done.in_doubt) == ({}, False)
        (call,) = server.called(method)
        assert GENERAL in {call.params.get("channel"), call.params.get("channel_id")}
        assert {name: call.params[name] for name in params} == params

    connected(desk, body)


def test_actions_that_answer(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        assert (await channel.act("group.info", AT)).result["name"] == "general"
        assert (await channel.act("group.rename", AT, title="new-name")).result == {"name": "new-name"}
        assert (await channel.act("member.info", AT)).result["real_name"] == "Ada Lovelace"
        listed = (await channel.act("member.list", AT, limit=500)).result
        assert listed == {"members": [ADA, BOT], "next_cursor": None}
        assert server.called("conversations.members")[0].params["limit"] == "200"
        for number in range(3):
            server.write(f"{number}", GENERAL)
        server.write("below", GENERAL, thread_ts=server.history[GENERAL][0]["ts"])
        page = (await channel.act("history.fetch", {"chat_id": GENERAL}, limit=2)).result
        assert [one["text"] for one in page["messages"]] == ["2", "1"]
        rest = await channel.act("history.fetch", {"chat_id": GENERAL}, limit=2, cursor=page["next_cursor"])
        assert [one["text"] for one in rest.result["messages"]] == ["0"]
        thread = {"chat_id": GENERAL, "thread_id": server.history[GENERAL][0]["ts"]}
        page = (await channel.act("history.fetch", thread)).result
        assert [one["text"] for one in page["messages"]] == ["0", "below"]
        forwarded = (await channel.act("message.forward", AT, to_chat_id=DM)).result
        assert forwarded == {"message_id": server.last()["ts"], "chat_id": DM}
        assert server.texts() == ["<https://example.slack.com/archives/C0GENERAL/p1>"]
        mine = {"chat_id": ADA, "message_id": server.last()["ts"]}
        assert (await channel.act("message.edit", mine, text="**new**")).result == {}
        assert server.texts() == ["*new*"]
        params = {"channel_id": GENERAL, "title": "T", "blocks": [1], "type": "link", "x": None, "on": True}
        called = await channel.act("platform.call", {}, method="bookmarks.add", params=params)
        assert called.result["ok"] is True
        (call,) = server.called("bookmarks.add")
        assert call.params == {
            "channel_id": GENERAL,
            "title": "T",
            "blocks": "[1]",
            "type": "link",
            "on": "true",
        }

    connected(desk, body)


def test_a_reaction_that_is_so_already_is_no_error(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["reactions.add"] = [Refused("already_reacted"), Refused("too_many_reactions")]
        server.answers["reactions.remove"] = [Refused("no_reaction")]
        server.answers["pins.add"] = [Refused("already_pinned")]
        await channel.act("message.react", AT, emoji="eyes")
        assert "too_many" in (await refusal(channel.act("message.react", AT, emoji="eyes"))).message
        await channel.act("message.unreact", AT, emoji="eyes")
        await channel.act("message.pin", AT)
        await channel.act("message.unreact", AT)  # all of the bot's own
        assert [call.params["name"] for call in server.called("reactions.remove")] == ["eyes", "eyes"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("action", "target", "payload", "told"),
    [
        ("message.react", {"chat_id": GENERAL}, {"emoji": "eyes"}, "no id of a message"),
        ("message.react", AT, {}, "`emoji`"),
        ("message.react", AT, {"emoji": "🫠"}, "Slack's name"),
        ("message.delete", {}, {}, "`chat_id`"),
        ("message.delete", {"chat_id": "#general", "message_id": "5.1"}, {}, "no id of a chat"),
        ("message.edit", AT, {"text": ""}, "`text`"),
        ("member.info", {"person_id": "@ada"}, {}, "no id of a person"),
        ("member.list", AT, {"limit": 0}, "`limit`"),
        ("typing.start", {"chat_id": DM}, {}, "in threads only"),
        ("platform.call", {}, {"method": "../auth.test"}, "no method of the Web API"),
        ("platform.call", {}, {"method": "apps.connections.open"}, "connection"),
        ("platform.call", {}, {"method": "auth.test", "params": []}, "must be an object"),
        ("platform.call", {}, {"method": "auth.test", "params": {"token": "xoxp-1"}}, "token"),
        ("platform.call", {}, {"method": "no.such"}, "unknown_method"),
        ("message.forward", AT, {"to_chat_id": "the lobby"}, "no id of a chat"),
    ],
)
def test_an_action_that_cannot_be_carried_out_says_why(
    desk: ChannelDesk, action: str, target: dict[str, Any], payload: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, _: SlackServer) -> None:
        error = await refusal(channel.act(action, target, **payload))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)


def test_an_action_may_be_in_doubt_or_limited_as_well(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["chat.delete"] = [
            "cut",
            Refused("ratelimited", status=429, retry_after=3),
            Refused("cant_delete_message"),
        ]
        assert (await channel.act("message.delete", AT)).in_doubt
        assert isinstance(await refusal(channel.act("message.delete", AT)), RateLimitedError)
        assert "cant_delete" in (await refusal(channel.act("message.delete", AT))).message

    connected(desk, body)


def test_names_of_emoji() -> None:
    assert [name_of(one) for one in ("⚠️", ":Wave:", "wave::skin-tone-3")] == [
        "warning",
        "wave",
        "wave::skin-tone-3",
    ]
    with pytest.raises(NotSent, match="Slack's name"):
        name_of("")


# -- what is kept ---------------------------------------------------------------------------------


def test_the_kept_state_is_bounded_and_keeps_what_is_newest() -> None:
    position = Position(None)
    for number in range(2_000):
        chat = f"C{number:010d}"
        position.came((chat, "1764000000.000100"), f"{1_764_000_000 + number}.000100")
        position.wrote(chat, "1764000000.000100")
        position.uploading(f"key-{number:032d}", [f"F{file:010d}" for file in range(10)])
    assert len(json.dumps(position.state)) < MOST_STATE_BYTES
    newest = "C0000001999"
    again = Position(json.loads(json.dumps(position.state)))
    assert again.state == position.state
    assert again.took_part(newest, "1764000000.000100")
    assert not again.took_part("C0000000001", "1764000000.000100")
    assert again.uploads_of(f"key-{1999:032d}") == [f"F{file:010d}" for file in range(10)]
    assert again.hold()[0] == ((newest, "1764000000.000100"), "1764001999.000100")


def test_the_position_stays_where_something_may_be_missing() -> None:
    position = Position({"since": {"C1": "5.1", "C1:5.0": "5.2"}})
    assert position.hold() == [(("C1", "5.0"), "5.2"), (("C1", None), "5.1")]
    position.came(("C1", None), "9.1")
    position.came(("C2", None), "9.2")
    assert position.state["since"] == {"C1": "5.1", "C1:5.0": "5.2", "C2": "9.2"}
    position.caught(("C1", None))
    assert position.state["since"]["C1"] == "9.1"
    position.came(("C1", None), "7.1")  # one that came late
    assert position.state["since"]["C1"] == "9.1"
