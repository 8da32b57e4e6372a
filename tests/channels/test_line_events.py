"""LINE: what else happens in chats, files that people send, and actions."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler_protocol.channels import ChannelEvent
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.line_desk import connected, deliver, desk
from support.line_server import ADA, EVE, GROUP, ROOM, LineServer, limited

__all__ = ["desk"]
IN_GROUP = {"type": "group", "groupId": GROUP, "userId": EVE}
OF_GROUP = {"type": "group", "groupId": GROUP}


async def received(channel: OpenChannel, server: LineServer, event: dict[str, Any]) -> list[ChannelEvent]:
    """What a call of LINE with one event becomes."""
    assert await deliver(channel, server, event) == 200
    events = list(channel.ingest.events)
    channel.ingest.events.clear()
    return events


# -- events ---------------------------------------------------------------------------------------


def test_a_message_may_be_unsent_and_edited(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        (event,) = await received(channel, server, server.event("unsend", unsend={"messageId": "3255"}))
        assert (event.event_type, event.message_id, event.text) == ("message.recalled", "3255", None)
        edited = server.message(text="better") | {"type": "messageEdited"}
        (event,) = await received(channel, server, edited)
        assert (event.event_type, event.text) == ("message.edited", "better")
        assert event.message_id == edited["message"]["id"]

    connected(desk, body)


def test_friends_come_and_go(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        del server.people[ADA]
        (event,) = await received(channel, server, server.message(text="no friend yet"))
        assert event.person is not None
        assert event.person.name is None
        server.people[ADA] = "Ada"
        followed = server.event("follow", replyToken=server.reply_token(), follow={"isUnblocked": True})
        (event,) = await received(channel, server, followed)
        assert (event.event_type, event.data["is_unblocked"]) == ("friend.added", True)
        assert event.person is not None
        assert event.person.name == "Ada"
        await channel.send("welcome", ADA)
        assert len(server.called("/reply")) == 1
        (event,) = await received(channel, server, server.event("unfollow"))
        assert (event.event_type, event.source_event_type) == ("platform.unfollow", "unfollow")

    connected(desk, body)


def test_the_bot_and_people_join_and_leave_groups(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        joined = server.event("join", OF_GROUP, replyToken=server.reply_token(GROUP))
        (event,) = await received(channel, server, joined)
        assert (event.event_type, event.person) == ("group.bot_invited", None)
        assert event.chat is not None
        assert event.chat.title == "The crew"
        members = [{"type": "user", "userId": ADA}, {"type": "user", "userId": EVE}]
        came = server.event("memberJoined", OF_GROUP, joined={"members": members})
        events = await received(channel, server, came)
        assert [one.event_type for one in events] == ["group.member_joined"] * 2
        assert [one.person and one.person.name for one in events] == ["Ada", "Eve"]
        assert [one.event_id for one in events] == [came["webhookEventId"], f"{came['webhookEventId']}:1"]
        (event,) = await received(
            channel, server, server.event("memberLeft", OF_GROUP, left={"members": members[:1]})
        )
        assert (event.event_type, event.person and event.person.person_id) == ("group.member_left", ADA)
        before = len(server.calls)
        (event,) = await received(channel, server, server.event("leave", OF_GROUP))
        assert event.event_type == "group.bot_removed"
        assert len(server.calls) == before

    connected(desk, body)


def test_what_has_no_common_type_keeps_its_name(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        beacon = server.event("beacon", beacon={"hwid": "d41d8cd98f", "type": "enter"})
        viewed = server.event("videoPlayComplete", videoPlayComplete={"trackingId": "t"})
        picked = server.event(
            "postback", postback={"data": "when", "params": {"datetime": "2017-12-25T01:00"}}
        )
        assert await deliver(channel, server, beacon, viewed, picked) == 200
        kinds = [one.event_type for one in channel.ingest.events]
        assert kinds == ["platform.beacon", "platform.videoPlayComplete", "interaction.submitted"]
        assert channel.ingest.events[0].data["line"]["beacon"]["hwid"] == "d41d8cd98f"
        assert channel.ingest.events[2].data["params"] == {"datetime": "2017-12-25T01:00"}

    connected(desk, body)


# -- files ----------------------------------------------------------------------------------------


def test_files_of_every_kind_are_stored_before_their_event(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.files = {"1": b"jpeg", "2": b"mp4" * 100_000, "3": b"m4a", "4": b"%PDF"}
        own = {"contentProvider": {"type": "line"}}
        said = [
            server.message("image", id="1", **own),
            server.message("video", id="2", duration=60000, **own),
            server.message("audio", id="3", duration=60000, **own),
            server.message("file", id="4", fileName="../Größe.pdf", fileSize=4),
        ]
        assert await deliver(channel, server, *said) == 200
        files = [one.attachments[0] for one in channel.ingest.events]
        assert [channel.ingest.files[one.artifact_id] for one in files] == list(server.files.values())
        assert [(one.name, one.mime_type) for one in files] == [
            ("image-1.jpg", "image/jpeg"),
            ("video-2.mp4", "video/mp4"),
            ("audio-3.m4a", "audio/mp4"),
            ("../Größe.pdf", "application/pdf"),
        ]

    connected(desk, body)


def test_what_line_still_prepares_is_waited_for(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.files["1"], server.preparing["1"] = b"video", 1
        own = {"contentProvider": {"type": "line"}}
        (event,) = await received(channel, server, server.message("video", id="1", **own))
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"video"
        server.preparing["2"], server.transcoding = 5, "failed"
        (event,) = await received(channel, server, server.message("video", id="2", **own))
        assert event.data["missing_files"][0]["reason"] == "LINE could not prepare it"

    connected(desk, body)


def test_a_message_comes_without_a_file_that_cannot_be_had(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.files = {"1": b"x" * 1_048_577, "2": b"whole" * 1_000}
        external = {"type": "external", "originalContentUrl": "https://files.example/1.jpg"}
        own = {"contentProvider": {"type": "line"}}
        server.answers["content"] = [200]
        said = [
            server.message("file", id="9", fileName="a.txt", fileSize=2**40),
            server.message("image", id="1", **own),
            server.message("image", id="5", contentProvider=external),
            server.message("image", id="6", **own),
        ]
        server.answers["content"] = []
        assert await deliver(channel, server, *said) == 200
        reasons = [one.data["missing_files"][0]["reason"] for one in channel.ingest.events]
        assert reasons == [
            "it has over 1 MiB, the most that is fetched",
            "it has over 1 MiB, the most that is fetched",
            "it is kept outside of LINE",
            "LINE answered 404 for it",
        ]
        channel.ingest.events.clear()
        server.answers["content"] = ["half", 302, 503]
        (event,) = await received(channel, server, server.message("image", id="2", **own))
        assert "LINE answered" in event.data["missing_files"][0]["reason"]
        server.answers["content"] = ["half"]
        (event,) = await received(channel, server, server.message("image", id="2", **own))
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"whole" * 1_000

    connected(desk, body, max_file_mib=1)


def test_nothing_is_fetched_of_people_who_are_not_let_in(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        channel.ingest.unwanted = {ADA}
        server.files["1"] = b"x"
        (event,) = await received(channel, server, server.message("file", id="1", fileName="a", fileSize=1))
        assert event.attachments == []
        assert server.called("/content") == []

    connected(desk, body)


def test_a_file_that_takes_long_holds_up_its_own_chat_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.files["1"] = b"x"
        server.answers["content"] = ["held"]
        slow = server.message("file", id="1", fileName="a.txt", fileSize=1)
        first = asyncio.ensure_future(deliver(channel, server, slow))
        await server.until_called("/content")
        behind = asyncio.ensure_future(deliver(channel, server, server.message(text="behind")))
        aside = server.message(source=IN_GROUP, text="aside")
        assert await deliver(channel, server, aside) == 200
        assert [one.text for one in channel.ingest.events] == ["aside"]
        again = asyncio.ensure_future(
            deliver(channel, server, slow | {"deliveryContext": {"isRedelivery": True}})
        )
        await server.stop()
        await server.start()  # the held answer is lost with the connection: it is fetched anew
        assert [await one for one in (first, behind, again)] == [200, 200, 200]
        assert [one.text for one in channel.ingest.events] == ["aside", None, "behind"]
        assert channel.ingest.duplicates == []

    connected(desk, body)


# -- actions --------------------------------------------------------------------------------------


def test_groups_and_members_are_looked_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        acted = await channel.act("group.info", {"chat_id": GROUP})
        assert acted.result == {"groupId": GROUP, "groupName": "The crew", "count": 3}
        assert (await channel.act("group.info", {"chat_id": ROOM})).result == {"count": 3}
        acted = await channel.act("member.info", {"chat_id": GROUP, "person_id": EVE})
        assert acted.result["displayName"] == "Eve"
        acted = await channel.act("member.list", {"chat_id": GROUP})
        assert acted.result == {"members": [ADA], "next_cursor": "more"}
        acted = await channel.act("member.list", {"chat_id": GROUP}, cursor="more")
        assert acted.result == {"members": [EVE], "next_cursor": None}
        await channel.act("group.leave", {"chat_id": ROOM})
        assert server.calls[-1].path == f"/v2/bot/room/{ROOM}/leave"
        for target in ({"chat_id": ADA}, {"chat_id": "C1/../x"}, {}):
            assert isinstance(await refusal(channel.act("group.leave", target)), InvalidArgumentError)
        wrong = {"chat_id": GROUP, "person_id": f"{EVE}/.."}
        assert "no id of a person" in (await refusal(channel.act("member.info", wrong))).message

    connected(desk, body)


def test_a_private_chat_shows_that_the_bot_writes(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await channel.act("typing.start", {"chat_id": ADA})
        assert server.calls[-1].body == {"chatId": ADA, "loadingSeconds": 10}
        error = await refusal(channel.act("typing.start", {"chat_id": GROUP}))
        assert "private chats only" in error.message
        server.answers["start"] = [limited("7"), limited()]
        for seconds in (7.0, 10.0):
            limit = await refusal(channel.act("typing.start", {"chat_id": ADA}))
            assert isinstance(limit, RateLimitedError)
            assert limit.retry_after == seconds

    connected(desk, body)


def test_any_method_of_the_api_may_be_called_but_those_of_the_connection(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        read: dict[str, Any] = {"method": "GET /v2/bot/followers/ids", "params": {"limit": 5}}
        acted = await channel.act("platform.call", {}, **read)
        assert acted.result == {"userIds": [ADA]}
        assert server.calls[-1].query == {"limit": "5"}
        push = {"to": ADA, "messages": [{"type": "text", "text": "hello"}]}
        for _ in range(2):  # the same action twice
            acted = await channel.act("platform.call", {}, method="POST /v2/bot/message/push", params=push)
            assert acted.result["sentMessages"]
        assert server.texts() == ["hello"]
        before = len(server.calls)
        for method in (
            "PUT /v2/bot/channel/webhook/endpoint",
            "POST /oauth2/v3/token",
            "GET /v2/bot/../../oauth2/v2.1/verify",
            "GET https://x.example/v2/bot/info",
            "GET /v2/bot/info?x=y",
            "info",
            None,
        ):
            error = await refusal(channel.act("platform.call", {}, method=method))
            assert isinstance(error, InvalidArgumentError)
        assert len(server.calls) == before

    connected(desk, body)
