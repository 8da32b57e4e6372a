"""Discord: buttons, commands and platform actions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.discord_desk import connected, desk
from support.discord_server import ADA, GENERAL, GUILD, PRIVATE, THREAD, DiscordServer, Refusal, limited

__all__ = ["desk"]

CALLBACK = "POST /interactions/*/a-token-of-an-interaction/callback"


# -- buttons --------------------------------------------------------------------------------------


def test_a_press_comes_in_and_its_notice_is_shown_to_the_person_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        rows = [
            [
                Button(label="Yes", value="yes:1", style="primary"),
                Button(label="No" * 50, value="v" * 64, style="danger"),
            ],
            [Button(label=f"{number}", value=f"n{number}") for number in range(7)],
        ]
        sent = await channel.send("Shall I?", GENERAL, buttons=rows)
        shown = server.called("POST /channels/*/messages")[0].body["components"]
        assert [len(row["components"]) for row in shown] == [2, 5, 2]
        yes, no = shown[0]["components"]
        assert yes == {"type": 2, "style": 1, "label": "Yes", "custom_id": "yes:1"}
        assert (no["style"], len(no["label"]), no["label"][-1]) == (4, 80, "…")
        channel.ingest.notice = "Only Grace may decide. " * 200
        number = await server.press(sent.message_id, "yes:1")
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("interaction.submitted", sent.message_id)
        assert event.data["value"] == "yes:1"
        assert event.event_id == f"interaction:{number}"
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == ("7", "Countess")
        assert event.chat is not None
        assert (event.chat.chat_id, event.chat.kind) == (GENERAL, "group")
        assert "a-token-of" not in json.dumps(event.data)
        (answer,) = await server.until(CALLBACK)
        assert answer.path.startswith(f"/interactions/{number}/")
        assert answer.body["type"] == 4
        assert answer.body["data"]["flags"] == 64
        assert answer.body["data"]["content"] == channel.ingest.notice[:2000]
        channel.ingest.notice = None
        await server.press(sent.message_id, "n3", PRIVATE)
        assert (await server.until(CALLBACK, 2))[1].body == {"type": 6}
        assert (await channel.event()).chat is not None
        await channel.edit(sent.message_id, "Ada said no", GENERAL)
        assert server.messages[sent.message_id or ""]["components"] == []

    connected(desk, body)


def test_a_press_is_answered_once_it_is_durable_whatever_waits_before_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        channel.ingest.refusals = [StorageError("the disk is full") for _ in range(2)]
        await server.say("this one has to wait")
        await channel.until(lambda: len(channel.ingest.refusals) == 1)
        await server.press("5", "yes", PRIVATE)
        await channel.until(lambda: channel.ingest.refusals == [])
        assert not server.called(CALLBACK)  # both wait for the host
        await server.until(CALLBACK)
        types = {event.event_type for event in await channel.events(2)}
        assert types == {"message.received", "interaction.submitted"}

    connected(desk, body)


def test_a_press_that_is_too_old_to_be_answered_is_no_error(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        server.refusals[CALLBACK] = [Refusal(404, "Unknown interaction", 10062)]
        await server.press("5", "a")
        await channel.event()
        await server.say("and on it goes")
        assert (await channel.event()).text == "and on it goes"

    connected(desk, body)


def test_commands_menus_and_forms_come_in_by_their_names(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        options = [{"name": "for", "type": 1, "options": [{"name": "city", "type": 3, "value": "Paris"}]}]
        about = {"id": "31", "name": "weather", "type": 1, "options": options}
        await server.press(None, "", type=2, data=about, message=None)
        event = await channel.event()
        assert (event.event_type, event.text) == ("command.invoked", "/weather for city:Paris")
        assert event.addressed == ["command"]
        assert event.data["command"] == {"name": "weather", "options": options}
        (gone,) = await server.until("DELETE /webhooks/*/a-token-of-an-interaction/messages/@original")
        assert gone.path.startswith("/webhooks/4242/")
        assert server.called(CALLBACK)[0].body == {"type": 5, "data": {"flags": 64}}
        menu = {"component_type": 3, "custom_id": "menu", "values": ["b", "c"]}
        await server.press("5", "", data=menu)
        event = await channel.event()
        assert (event.data["value"], event.data["values"], event.data["custom_id"]) == (
            "b",
            ["b", "c"],
            "menu",
        )
        form = {"custom_id": "form", "components": [{"type": 1, "components": [{"type": 4, "value": "x"}]}]}
        await server.press("5", "", type=5, data=form)
        event = await channel.event()
        assert (event.event_type, event.data["value"]) == ("interaction.submitted", "form")
        assert event.data["components"] == form["components"]
        await server.press(None, "", type=4, data=about, message=None)
        assert (await channel.event()).event_type == "platform.interaction_create"
        assert (await server.until(CALLBACK, 4))[3].body == {"type": 8, "data": {"choices": []}}

    connected(desk, body)


# -- actions --------------------------------------------------------------------------------------

AT = {"chat_id": GENERAL, "message_id": "12", "person_id": "7"}
MESSAGE = f"/channels/{GENERAL}/messages/12"
MEMBER = f"/guilds/{GUILD}/members/7"


@pytest.mark.parametrize(
    ("action", "payload", "call", "body"),
    [
        ("message.react", {"emoji": "👍"}, f"PUT {MESSAGE}/reactions/👍/@me", None),
        ("message.react", {"emoji": "<:fox:31>"}, f"PUT {MESSAGE}/reactions/fox:31/@me", None),
        ("message.unreact", {"emoji": "👍"}, f"DELETE {MESSAGE}/reactions/👍/@me", None),
        ("message.delete", {}, f"DELETE {MESSAGE}", None),
        ("message.pin", {}, f"PUT /channels/{GENERAL}/messages/pins/12", None),
        ("typing.start", {}, f"POST /channels/{GENERAL}/typing", None),
        ("member.unmute", {}, f"PATCH {MEMBER}", {"communication_disabled_until": None}),
        ("member.ban", {"reason": "spam & more"}, f"PUT /guilds/{GUILD}/bans/7", {}),
        ("member.kick", {}, f"DELETE {MEMBER}", None),
        ("group.rename", {"title": "new"}, f"PATCH /channels/{GENERAL}", {"name": "new"}),
        ("group.leave", {}, f"DELETE /users/@me/guilds/{GUILD}", None),
    ],
)
def test_actions_are_calls_of_the_api(
    desk: ChannelDesk, action: str, payload: dict[str, Any], call: str, body: Any
) -> None:
    async def whole(channel: OpenChannel, server: DiscordServer) -> None:
        done = await channel.act(action, AT, **payload)
        assert (done.result, done.in_doubt) == ({}, False)
        made = server.calls[-1]
        assert (f"{made.method} {made.path}", made.body) == (call, body)
        assert made.reason == ("spam %26 more" if "reason" in payload else None)

    connected(desk, whole)


def test_a_mute_ends_and_a_thread_is_a_place_of_its_own(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await channel.act("member.mute", AT, seconds=60)
        until = server.calls[-1].body["communication_disabled_until"]
        assert until.endswith("+00:00")
        await channel.act("message.delete", {**AT, "thread_id": THREAD})
        assert server.calls[-1].path == f"/channels/{THREAD}/messages/12"
        mine = {"emoji": {"id": None, "name": "👍"}, "me": True}
        other = {"emoji": {"id": "31", "name": "fox"}, "me": False}
        server.write("x", GENERAL, id="12", reactions=[mine, other])
        await channel.act("message.unreact", AT)
        assert [one.path for one in server.calls if one.method == "DELETE"][1:] == [
            f"{MESSAGE}/reactions/👍/@me"
        ]

    connected(desk, body)


def test_what_the_bot_said_is_edited_and_nothing_else(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        sent = await channel.send("first", GENERAL, at={"thread_id": THREAD})
        mine = {"chat_id": GENERAL, "thread_id": THREAD, "message_id": sent.message_id}
        done = await channel.act("message.edit", mine, text="**new**")
        assert (done.result, done.in_doubt) == ({}, False)
        assert server.calls[-1].path == f"/channels/{THREAD}/messages/{sent.message_id}"
        assert server.texts() == ["**new**"]
        theirs = {**AT, "message_id": server.write("hers", GENERAL)["id"]}
        refused = await refusal(channel.act("message.edit", theirs, text="mine"))
        assert isinstance(refused, InvalidArgumentError)
        assert "authored by another user" in refused.message
        server.refusals["PATCH /channels/*/messages/*"] = [Refusal(503, "Service Unavailable")]
        assert (await channel.act("message.edit", mine, text="newer")).in_doubt

    connected(desk, body)


def test_actions_that_answer(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        assert (await channel.act("group.info", AT)).result["name"] == "general"
        assert (await channel.act("member.info", AT)).result["nick"] == "Countess"
        listed = (await channel.act("member.list", AT, limit=1)).result
        assert (listed["members"][0]["user"], listed["cursor"]) == (ADA, "7")
        said = server.write("look", GENERAL)
        forwarded = await channel.act("message.forward", {**AT, "message_id": said["id"]}, to_chat_id=PRIVATE)
        assert server.messages[forwarded.result["message_id"]]["channel_id"] == PRIVATE
        reference = server.calls[-1].body["message_reference"]
        assert reference == {"type": 1, "channel_id": GENERAL, "message_id": said["id"]}
        poll = await channel.act("poll.create", AT, question="Tea?", options=["yes", "no"], multiple=True)
        assert poll.result["message_id"] in server.messages
        assert server.calls[-1].body["poll"] == {
            "question": {"text": "Tea?"},
            "answers": [{"poll_media": {"text": "yes"}}, {"poll_media": {"text": "no"}}],
            "allow_multiselect": True,
        }
        server.write("second", GENERAL)
        page = (await channel.act("history.fetch", AT, limit=1)).result
        assert [(one["text"], one["person_id"]) for one in page["messages"]] == [("second", "7")]
        page = (await channel.act("history.fetch", AT, limit=5, cursor=page["cursor"])).result
        assert [one["text"] for one in page["messages"]] == [None, "look"]
        assert page["cursor"] is None
        roles = await channel.act(
            "platform.call", {}, method=f"GET /guilds/{GUILD}/members", params={"limit": 3}
        )
        assert roles.result[0]["user"] == ADA
        assert server.calls[-1].query == {"limit": "3"}
        await channel.act("platform.call", {}, method="PATCH /users/@me", params={"username": "n"})
        assert server.calls[-1].body == {"username": "n"}

    connected(desk, body)


@pytest.mark.parametrize(
    ("action", "target", "payload", "told"),
    [
        ("message.react", {"chat_id": GENERAL}, {"emoji": "👍"}, "no id of a message"),
        ("message.react", AT, {}, "`emoji`"),
        ("message.delete", {}, {}, "`chat_id`"),
        ("message.edit", AT, {}, "`text`"),
        ("message.edit", {**AT, "message_id": "x"}, {"text": "new"}, "no id of a message"),
        ("member.kick", {**AT, "chat_id": PRIVATE}, {}, "in no server"),
        ("poll.create", AT, {"question": "?", "options": "yes"}, "a list of texts"),
        ("poll.create", AT, {"question": "?", "options": ["x" * 56, "y"]}, "55 characters"),
        ("member.mute", AT, {"seconds": 3_000_000}, "from 1 to"),
        ("platform.call", {}, {"method": "../users/@me"}, "no call of the API"),
        ("platform.call", {}, {"method": "GET /a/../b"}, "no call of the API"),
        ("platform.call", {}, {"method": "PATCH /applications/@me"}, "its presses"),
        ("platform.call", {}, {"method": "GET /nonsense"}, "404"),
        ("message.forward", AT, {"to_chat_id": "the lobby"}, "no id of a channel"),
        ("history.fetch", AT, {"limit": 500}, "from 1 to 100"),
    ],
)
def test_an_action_that_cannot_be_carried_out_says_why(
    desk: ChannelDesk, action: str, target: dict[str, Any], payload: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, _: DiscordServer) -> None:
        error = await refusal(channel.act(action, target, **payload))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)


def test_an_action_may_be_in_doubt_or_limited_as_well(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        server.refusals["DELETE /channels/*/messages/*"] = [
            Refusal(503, "Service Unavailable"),
            limited(33.0),
            Refusal(403, "Missing Permissions", 50013),
        ]
        assert (await channel.act("message.delete", AT)).in_doubt
        assert isinstance(await refusal(channel.act("message.delete", AT)), RateLimitedError)
        assert "Missing Permissions" in (await refusal(channel.act("message.delete", AT))).message

    connected(desk, body)
