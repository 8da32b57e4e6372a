"""Discord: what comes in besides messages, files both ways, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.discord_desk import connected, desk
from support.discord_server import ADA, GENERAL, GUILD, ME, PRIVATE, DiscordServer, guild

__all__ = ["desk"]

EDITED = "2025-11-24T16:00:05.000000+00:00"
JOINED = "2025-11-24T16:00:00.000000+00:00"


def test_edits_recalls_and_reactions(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        dispatch = server.gateway.dispatch
        said = {**await server.say("helo", GENERAL), "guild_id": GUILD, "member": {"nick": "Countess"}}
        await channel.event()
        await dispatch("MESSAGE_UPDATE", {**said, "content": "hello", "edited_timestamp": EDITED})
        event = await channel.event()
        assert (event.event_type, event.text, event.message_id) == ("message.edited", "hello", said["id"])
        assert (event.event_id, event.event_time) == (f"edit:{said['id']}:{EDITED}", 1_764_000_005)
        await dispatch("MESSAGE_UPDATE", {**said, "embeds": [{"url": "https://example.org"}]})
        assert (await channel.event()).event_type == "platform.message_update"  # nobody edited it
        place = {"guild_id": GUILD, "channel_id": GENERAL, "message_id": said["id"], "user_id": "7"}
        member = {"user": ADA, "nick": "Countess"}
        await dispatch(
            "MESSAGE_REACTION_ADD", {**place, "member": member, "emoji": {"id": None, "name": "👍"}}
        )
        event = await channel.event()
        assert (event.event_type, event.data["emoji"]) == ("message.reaction_added", "👍")
        assert event.person is not None
        assert (event.person.name, event.message_id) == ("Countess", said["id"])
        await dispatch("MESSAGE_REACTION_REMOVE", {**place, "emoji": {"id": "31", "name": "fox"}})
        event = await channel.event()
        assert (event.event_type, event.data["emoji"]) == ("message.reaction_removed", "fox:31")
        session = server.gateway.sessions["session-1"]
        assert event.event_id == f"session-1:{len(session.events)}"
        await dispatch("MESSAGE_DELETE", {"id": said["id"], "channel_id": GENERAL, "guild_id": GUILD})
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("message.recalled", said["id"])
        await dispatch("MESSAGE_DELETE_BULK", {"ids": ["1", "2"], "channel_id": GENERAL, "guild_id": GUILD})
        assert [event.message_id for event in await channel.events(2)] == ["1", "2"]

    connected(desk, body)


def test_what_the_bot_does_itself_is_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        dispatch = server.gateway.dispatch
        sent = (await channel.send("mine", GENERAL)).message_id
        place = {"guild_id": GUILD, "channel_id": GENERAL, "message_id": "5", "user_id": ME["id"]}
        await dispatch("MESSAGE_REACTION_ADD", {**place, "emoji": {"id": None, "name": "👍"}})
        await dispatch("MESSAGE_UPDATE", {"id": "5", "channel_id": GENERAL, "guild_id": GUILD, "author": ME})
        await dispatch("MESSAGE_DELETE", {"id": sent, "channel_id": GENERAL, "guild_id": GUILD})
        await dispatch("GUILD_MEMBER_REMOVE", {"guild_id": GUILD, "user": ME})
        await dispatch("TYPING_START", {"channel_id": GENERAL, "guild_id": GUILD, "user_id": "7"})
        await server.say("but this is")
        assert (await channel.event()).text == "but this is"

    connected(desk, body)


def test_members_and_servers_come_and_go(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        dispatch = server.gateway.dispatch
        joined = {"guild_id": GUILD, "user": ADA, "nick": None, "joined_at": JOINED}
        await dispatch("GUILD_MEMBER_ADD", joined)
        event = await channel.event()
        assert (event.event_type, event.event_id) == ("group.member_joined", f"joined:{GUILD}:7:{JOINED}")
        assert event.person is not None
        assert event.chat is not None
        assert (event.person.name, event.chat.chat_id) == ("Ada L.", GENERAL)  # where it may be greeted
        await dispatch("GUILD_MEMBER_REMOVE", {"guild_id": GUILD, "user": ADA})
        assert (await channel.event()).event_type == "group.member_left"
        await dispatch("GUILD_DELETE", {"id": GUILD, "unavailable": True})  # an outage
        await dispatch("GUILD_CREATE", guild())
        await dispatch("GUILD_CREATE", guild(id="901", name="Another", joined_at=JOINED))
        event = await channel.event()
        assert (event.event_type, event.data["title"]) == ("group.bot_invited", "Another")
        assert event.data["guild_id"] == "901"
        await dispatch("GUILD_DELETE", {"id": "901"})
        event = await channel.event()
        assert (event.event_type, event.data["guild_id"]) == ("group.bot_removed", "901")

    connected(desk, body)


def test_everything_else_is_an_event_of_the_platform(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        dispatch = server.gateway.dispatch
        await server.say("Ada pinned a message", GENERAL, type=6)
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("platform.pins_add", "MESSAGE_CREATE")
        await server.say("", GENERAL, type=999)
        assert (await channel.event()).event_type == "platform.message_type_999"
        thread = {"id": "301", "type": 11, "name": "new", "guild_id": GUILD, "parent_id": GENERAL}
        await dispatch("THREAD_CREATE", {**thread, "newly_created": True})
        event = await channel.event()
        assert (event.event_type, event.data["discord"]["name"]) == ("platform.thread_create", "new")
        await dispatch("MESSAGE_POLL_VOTE_ADD", {"user_id": "7", "channel_id": GENERAL, "message_id": "5"})
        event = await channel.event()
        assert event.person is not None
        assert (event.event_type, event.person.person_id, event.message_id) == (
            "platform.message_poll_vote_add",
            "7",
            "5",
        )
        await dispatch("OF_TOMORROW", {"new": {"field": 1}})
        event = await channel.event()
        assert (event.event_type, event.data["discord"]) == ("platform.of_tomorrow", {"new": {"field": 1}})

    connected(desk, body)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("MESSAGE_CREATE", {"id": "5", "channel_id": PRIVATE, "author": "Ada", "content": 3, "timestamp": 9}),
        ("MESSAGE_CREATE", {"id": "5", "channel_id": PRIVATE, "content": "x", "timestamp": "yesterday"}),
        ("MESSAGE_REACTION_ADD", {"user_id": "7"}),
        ("INTERACTION_CREATE", {"id": "x", "type": 3, "token": "a-secret"}),
        ("GUILD_MEMBER_ADD", {"guild_id": GUILD}),
        ("MESSAGE_DELETE", ["a", "list"]),
    ],
)
def test_what_cannot_be_read_holds_up_nothing(desk: ChannelDesk, name: str, data: Any) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        await server.gateway.dispatch(name, data)
        event = await channel.event()
        assert event.event_type == f"platform.{name.lower()}"
        assert event.data["unreadable"]
        assert "a-secret" not in str(event)
        await server.say("and on it goes")
        assert (await channel.event()).text == "and on it goes"
        assert channel.health is not None
        assert channel.health.health == "connected"

    connected(desk, body)


def test_what_the_host_refuses_comes_bare(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        channel.ingest.refusals = [InvalidArgumentError("the event is too large")]
        await server.say("keep the text")
        event = await channel.event()
        assert (event.text, event.data) == ("keep the text", {"left_out": "the event is too large"})
        channel.ingest.refusals = [InvalidArgumentError("no"), InvalidArgumentError("still no")]
        lost = await server.say("never taken")
        await server.say("the next")
        assert (await channel.event()).text == "the next"
        assert channel.state["last"] > int(lost["id"])

    connected(desk, body)


# -- texts and files ------------------------------------------------------------------------------


def test_polls_forwards_and_stickers_have_a_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        answers = [
            {"answer_id": 1, "poll_media": {"text": "yes"}},
            {"answer_id": 2, "poll_media": {"text": "no"}},
        ]
        await server.say("", poll={"question": {"text": "Tea?"}, "answers": answers})
        event = await channel.event()
        assert (event.text, event.data["poll"]["answers"]) == ("Tea?\n- yes\n- no", answers)
        file = server.attachment("a.txt", b"forwarded", content_type="text/plain; charset=utf-8")
        snapshot = {"message": {"content": "from elsewhere", "attachments": [file]}}
        reference = {"type": 1, "message_id": "9", "channel_id": GENERAL}
        await server.say("", message_snapshots=[snapshot], message_reference=reference)
        event = await channel.event()
        assert (event.text, event.reply_to) == ("from elsewhere", None)
        (stored,) = event.attachments
        assert channel.ingest.files[stored.artifact_id] == b"forwarded"
        assert stored.mime_type == "text/plain"

    connected(desk, body)


def test_files_come_in_whole_and_what_cannot_be_had_is_named(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        content = bytes(range(256)) * 4_000
        good = server.attachment("q.bin", content, content_type="application/octet-stream")
        server.broken_files["q.bin"] = ["cut"]
        large = server.attachment("l.bin", bytes(1024 * 1024 + 1))
        sly = server.attachment("s.bin", bytes(1024 * 1024 + 1)) | {"size": 5}
        gone = server.attachment("g.bin", b"x")
        server.broken_files["g.bin"] = [404]
        foreign = {**server.attachment("f.bin", b"x"), "url": "http://169.254.169.254/latest"}
        await server.say("see these", attachments=[good, large, sly, gone, foreign])
        event = await channel.event()
        (stored,) = event.attachments
        assert event.text == "see these"
        assert (stored.name, stored.size_bytes) == ("q.bin", len(content))
        assert channel.ingest.files[stored.artifact_id] == content
        reasons = {one["name"]: one["reason"] for one in event.data["missing_files"]}
        assert set(reasons) == {"l.bin", "s.bin", "g.bin", "f.bin"}
        assert "over 1 MiB" in reasons["l.bin"]
        assert "over 1 MiB" in reasons["s.bin"]
        assert "404" in reasons["g.bin"]
        assert "none of Discord's" in reasons["f.bin"]

    connected(desk, body, max_file_mib=1)


def test_files_go_out_in_one_message_with_text_and_buttons(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        content = bytes(range(256)) * 9_000
        channel.ingest.files = {"a": content, "b": b"", "c": b"text"}
        files = [
            ArtifactRef(artifact_id="a", name="a b.bin", size_bytes=len(content)),
            ArtifactRef(artifact_id="b", name="empty.txt"),
            ArtifactRef(artifact_id="c"),
        ]
        sent = await channel.send(
            "**look**", GENERAL, attachments=files, buttons=[[Button(label="Yes", value="y")]]
        )
        (call,) = server.called("POST /channels/*/messages")
        assert call.files == [("a b.bin", content), ("empty.txt", b""), ("file", b"text")]
        assert call.body["content"] == "**look**"
        assert call.body["components"][0]["components"][0]["custom_id"] == "y"
        assert list(server.messages) == [sent.message_id]

    connected(desk, body)


def test_files_that_cannot_be_sent_send_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        channel.ingest.files = {"a": b"x"}
        many = [ArtifactRef(artifact_id="a") for _ in range(11)]
        assert "at most 10" in (await refusal(channel.send("x", PRIVATE, attachments=many))).message
        large = [ArtifactRef(artifact_id="a", size_bytes=60 * 1024**2) for _ in range(2)]
        assert "over 100 MiB" in (await refusal(channel.send("x", PRIVATE, attachments=large))).message
        missing = await refusal(channel.send("x", PRIVATE, attachments=[ArtifactRef(artifact_id="gone")]))
        assert "attachment" in missing.message
        assert not server.called("POST /channels/*/messages")

    connected(desk, body)


def test_a_file_waits_for_the_host(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DiscordServer) -> None:
        channel.ingest.refusals = [StorageError("the disk is full")]
        await server.say("with it", attachments=[server.attachment("a", b"x")])
        event = await channel.event()
        assert [channel.ingest.files[one.artifact_id] for one in event.attachments] == [b"x"]

    connected(desk, body)
