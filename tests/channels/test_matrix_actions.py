"""Matrix: platform actions, each as a call of the client-server API."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.matrix_desk import connected, desk
from support.matrix_server import ADA, BOB, DM, GROUP, ME, MatrixServer, Refusal

__all__ = ["desk"]

AT = {"chat_id": GROUP, "message_id": "OF_BOB", "person_id": BOB}
LEVELS = {"users": {ME: 100}, "users_default": 0, "events_default": 0, "ban": 50}


def prepared(server: MatrixServer) -> None:
    """A message of Bob's, and the bot as an administrator."""
    server.stream.add(GROUP, "m.room.power_levels", LEVELS, ME, "")
    server.stream.add(GROUP, "m.room.message", {"msgtype": "m.text", "body": "mine"}, BOB)


def at(server: MatrixServer, target: dict[str, Any] = AT) -> dict[str, Any]:
    """The target, with the id of Bob's message."""
    (of_bob,) = [event for _, event in server.stream.of(GROUP) if event["content"].get("body") == "mine"]
    return target | ({"message_id": of_bob["event_id"]} if "message_id" in target else {})


@pytest.mark.parametrize(
    ("action", "payload", "method", "wanted"),
    [
        ("message.delete", {}, "redact", {}),
        ("message.pin", {}, "put_state", {"pinned": ["OF_BOB"]}),
        ("typing.start", {}, "typing", {"typing": True, "timeout": 30_000}),
        ("member.kick", {"reason": "spam"}, "kick", {"user_id": BOB, "reason": "spam"}),
        ("member.ban", {}, "ban", {"user_id": BOB}),
        ("group.rename", {"title": "New"}, "put_state", {"name": "New"}),
        ("group.leave", {}, "leave", None),
    ],
)
def test_actions_are_calls_of_the_homeserver(
    desk: ChannelDesk, action: str, payload: dict[str, Any], method: str, wanted: Any
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        target = at(server)
        done = await channel.act(action, target, **payload)
        assert (done.result, done.in_doubt) == ({}, False)
        (call,) = server.called(method)
        assert call.params["room"] == GROUP
        if isinstance(wanted, dict) and "pinned" in wanted:
            assert call.body == {"pinned": [target["message_id"]]}
        else:
            assert call.body == wanted

    connected(desk, body, prepare=prepared)


def test_what_the_bot_said_is_edited_and_nothing_else(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        sent = await channel.send("first", GROUP)
        mine = {"chat_id": GROUP, "message_id": sent.message_id}
        done = await channel.act("message.edit", mine, text="new")
        assert (done.result, done.in_doubt) == ({}, False)
        call = server.called("send")[-1]
        assert call.body["m.relates_to"] == {"rel_type": "m.replace", "event_id": sent.message_id}
        assert server.called("event") == [], "what it has just said it knows"
        refused = await refusal(channel.act("message.edit", at(server), text="mine"))
        assert isinstance(refused, InvalidArgumentError)
        assert "not the bot's own" in refused.message
        assert len(server.called("send")) == 2

    connected(desk, body, prepare=prepared)


def test_a_reaction_is_made_once_and_taken_back(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        target = at(server)
        (of_bob,) = [server.stream.by_id[target["message_id"]][1]]
        reaction = (await channel.act("message.react", target, emoji="👍")).result["reaction_id"]
        relates = server.stream.by_id[reaction][1]["content"]["m.relates_to"]
        assert relates == {"rel_type": "m.annotation", "event_id": of_bob["event_id"], "key": "👍"}
        server._txns.clear()  # another attempt, long after
        assert (await channel.act("message.react", target, emoji="👍")).result == {}
        await channel.act("message.react", target, emoji="🍵")
        server.happen("m.reaction", {"m.relates_to": relates}, room=GROUP)
        assert (await channel.act("message.unreact", target, emoji="👍")).result == {"removed": 1}
        assert [call.params["event"] for call in server.called("redact")] == [reaction]
        assert (await channel.act("message.unreact", target)).result == {"removed": 1}
        assert (await channel.act("message.unreact", target)).result == {"removed": 0}

    connected(desk, body, prepare=prepared)


def test_a_mute_is_a_power_level_and_leaves_the_others(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        state = server.stream.rooms[GROUP].state
        for _ in range(2):
            await channel.act("member.mute", AT)
            assert state["m.room.power_levels", ""]["content"] == LEVELS | {"users": {ME: 100, BOB: -1}}
        assert (await channel.act("member.info", AT)).result == {
            "person_id": BOB,
            "membership": "join",
            "displayname": "Bob",
            "power_level": -1,
        }
        for _ in range(2):
            await channel.act("member.unmute", AT)
            assert state["m.room.power_levels", ""]["content"] == LEVELS
        assert len(server.called("put_state")) == 2
        assert "has no end" in (await refusal(channel.act("member.mute", AT, seconds=60))).message

    connected(desk, body, prepare=prepared)


def test_actions_that_answer(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        target = at(server)
        info = (await channel.act("group.info", target)).result
        assert (info["title"], info["members"], info["is_encrypted"]) == ("The group", 3, False)
        page = (await channel.act("member.list", target, limit=2)).result
        assert [one["name"] for one in page["members"]] == ["Ada", "Bob"]
        rest = (await channel.act("member.list", target, limit=2, cursor=page["cursor"])).result
        assert ([one["person_id"] for one in rest["members"]], rest["cursor"]) == ([ME], None)
        history = (await channel.act("history.fetch", target, limit=1)).result
        assert (history["messages"][0]["text"], history["messages"][0]["person_id"]) == ("mine", BOB)
        before = (await channel.act("history.fetch", target, limit=1, cursor=history["cursor"])).result
        assert before["messages"][0]["type"] == "m.room.power_levels"
        forwarded = (await channel.act("message.forward", target, to_chat_id=DM)).result
        assert server.stream.by_id[forwarded["message_id"]][1]["content"] == {
            "msgtype": "m.text",
            "body": "mine",
            "m.mentions": {},
        }
        poll = await channel.act("poll.create", target, question="Tea?", options=["yes", "no"], multiple=True)
        event = server.stream.by_id[poll.result["message_id"]][1]
        start = event["content"]["org.matrix.msc3381.poll.start"]
        assert (event["type"], start["max_selections"]) == ("org.matrix.msc3381.poll.start", 2)
        assert [one["org.matrix.msc1767.text"] for one in start["answers"]] == ["yes", "no"]

    connected(desk, body, prepare=prepared)


def test_any_method_may_be_called(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        method = f"PUT /_matrix/client/v3/rooms/{GROUP}/state/m.room.topic"
        done = await channel.act("platform.call", {}, method=method, params={"topic": "tea"})
        assert server.stream.by_id[done.result["event_id"]][1]["content"] == {"topic": "tea"}
        method = f"GET /_matrix/client/v3/rooms/{GROUP.replace('!', '%21')}/messages"
        page = await channel.act("platform.call", {}, method=method, params={"dir": "b", "limit": 1})
        assert page.result["chunk"][0]["content"] == {"topic": "tea"}

    connected(desk, body)


@pytest.mark.parametrize(
    ("action", "target", "payload", "told"),
    [
        ("message.react", {"chat_id": DM}, {"emoji": "👍"}, "no id of a message"),
        ("message.react", AT | {"message_id": "$x"}, {}, "`emoji`"),
        ("message.delete", {}, {}, "`chat_id`"),
        ("message.delete", {"chat_id": GROUP, "message_id": "$none"}, {}, "Event not found"),
        ("member.kick", {"chat_id": DM, "person_id": "ada"}, {}, "no id of a person"),
        ("member.list", AT, {"limit": 0}, "from 1 to 100"),
        ("poll.create", AT, {"question": "?", "options": "yes"}, "a list of texts"),
        ("message.forward", AT | {"message_id": "$x"}, {"to_chat_id": "the lobby"}, "no id of a room"),
        ("platform.call", {}, {"method": "sendMessage"}, "is no method like"),
        ("platform.call", {}, {"method": "GET /_synapse/admin/v1/rooms"}, "is no method like"),
        ("platform.call", {}, {"method": "GET /_matrix/client/v3/../../x"}, "one of dots"),
        ("platform.call", {}, {"method": "GET /_matrix/client/v3/%2e%2e/x"}, "one of dots"),
        ("platform.call", {}, {"method": "GET /_matrix/client//v3/sync"}, "an empty part"),
        ("platform.call", {}, {"method": "POST /_matrix/client/v3/logout"}, "its connection"),
        ("platform.call", {}, {"method": "POST /_matrix/client/r0/%6Cogout/all"}, "its connection"),
        ("platform.call", {}, {"method": "POST /_matrix/client/v3/account/password"}, "its connection"),
        (
            "platform.call",
            {},
            {"method": "POST /_matrix/client/v3/user/@a:b/openid/request_token"},
            "its connection",
        ),
        ("platform.call", {}, {"method": "GET /_matrix/client/v3/nonsense"}, "M_UNRECOGNIZED"),
        ("platform.call", {}, {"method": "GET /_matrix/client/v3/x", "params": 7}, "an object"),
    ],
)
def test_an_action_that_cannot_be_carried_out_says_why(
    desk: ChannelDesk, action: str, target: dict[str, Any], payload: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, _: MatrixServer) -> None:
        error = await refusal(channel.act(action, target, **payload))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)


def test_an_action_may_be_in_doubt_or_limited_and_is_done_once(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        target = at(server)
        server.refusals["redact"] = ["late", "late", Refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=3000)]
        assert (await channel.act("message.delete", target)).in_doubt
        assert isinstance(await refusal(channel.act("message.delete", target)), RateLimitedError)
        assert (await channel.act("message.delete", target)).result == {}
        redactions = [event for event in server.sent(GROUP) if event["type"] == "m.room.redaction"]
        assert len(redactions) == 1

    connected(desk, body, prepare=prepared)


def test_nothing_is_said_in_an_encrypted_room_by_an_action(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        server.stream.add(DM, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, ADA, "")
        poll = channel.act("poll.create", {"chat_id": DM}, question="Tea?", options=["yes", "no"])
        assert "end-to-end encrypted" in (await refusal(poll)).message
        forward = channel.act("message.forward", at(server), to_chat_id=DM)
        assert "end-to-end encrypted" in (await refusal(forward)).message
        assert not server.called("send")

    connected(desk, body, prepare=prepared)
