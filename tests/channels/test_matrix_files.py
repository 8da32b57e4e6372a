"""Matrix: files both ways, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.matrix_desk import connected, desk
from support.matrix_server import ADA, DM, MatrixServer, Refusal

__all__ = ["desk"]

FILE = "mxc://hs.example/F"
MIB = 1024 * 1024


def given(channel: OpenChannel, content: bytes, name: str, mime_type: str | None) -> ArtifactRef:
    channel.ingest.files[name] = content
    return ArtifactRef(artifact_id=name, name=name, mime_type=mime_type, size_bytes=len(content))


# -- in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "mime_type", "text"),
    [
        (
            {"msgtype": "m.image", "body": "a.png", "info": {"mimetype": "image/png", "size": 2_304_000}},
            "a.png",
            "image/png",
            None,
        ),
        ({"msgtype": "m.image", "body": "look", "filename": "a.jpg"}, "a.jpg", "image/jpeg", "look"),
        ({"msgtype": "m.audio", "body": "voice"}, "voice", "audio/ogg", None),
        ({"msgtype": "m.video", "body": "v.mp4", "filename": "v.mp4"}, "v.mp4", "video/mp4", None),
        ({"msgtype": "m.file", "body": "../../etc/q.pdf"}, "q.pdf", "application/octet-stream", None),
        ({"msgtype": "m.file", "info": {"size": -1}}, "file", "application/octet-stream", None),
    ],
)
@pytest.mark.parametrize("is_old", [False, True])
def test_what_people_send_is_stored(
    desk: ChannelDesk, content: dict[str, Any], name: str, mime_type: str, text: str | None, is_old: bool
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.is_old = is_old
        server.files["F"] = file = bytes(range(256)) * 9_000  # several parts
        server.happen("m.room.message", {**content, "url": FILE})
        event = await channel.event()
        assert (event.event_type, event.text) == ("message.received", text)
        (stored,) = event.attachments
        assert (stored.name, stored.mime_type, stored.size_bytes) == (name, mime_type, len(file))
        assert channel.ingest.files[stored.artifact_id] == file
        assert "missing_files" not in event.data

    connected(desk, body)


def test_a_sticker_is_a_file_with_a_text(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.files["F"] = b"png"
        server.happen("m.sticker", {"body": "a fox", "url": FILE, "info": {"mimetype": "image/png"}})
        event = await channel.event()
        assert (event.event_type, event.text, event.source_event_type) == (
            "message.received",
            "a fox",
            "m.sticker",
        )
        assert [one.mime_type for one in event.attachments] == ["image/png"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("more", "size", "reason"),
    [
        ({"url": FILE, "info": {"size": 1 * MIB + 1}}, 1, "over 1 MiB"),
        ({"url": FILE}, 1 * MIB + 1, "over 1 MiB"),
        ({"url": "mxc://hs.example/other"}, 1, "answered 404"),
        ({"url": "https://evil.example/F"}, 1, "no address of a file"),
        ({"url": "mxc://../../F"}, 1, "no address of a file"),
        ({"url": "mxc://hs.example/.."}, 1, "no address of a file"),
        ({"file": {"url": FILE, "v": "v2"}}, 1, "encrypted"),
    ],
)
def test_a_file_that_cannot_be_had_is_named_and_the_message_comes(
    desk: ChannelDesk, more: dict[str, Any], size: int, reason: str
) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.files["F"] = bytes(size)
        server.happen("m.room.message", {"msgtype": "m.file", "body": "see", "filename": "x.bin", **more})
        event = await channel.event()
        assert (event.text, event.attachments) == ("see", [])
        (missing,) = event.data["missing_files"]
        assert missing["name"] == "x.bin"
        assert reason in missing["reason"]

    connected(desk, body, max_file_mib=1)


def test_a_file_that_breaks_off_is_fetched_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.files["F"] = b"x" * 1_000_000
        server.broken_files["F"] = ["cut", 500]
        server.happen("m.room.message", {"msgtype": "m.file", "body": "x", "url": FILE})
        (stored,) = (await channel.event()).attachments
        assert stored.size_bytes == 1_000_000
        assert len(server.called("download")) == 3

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mime_type", "msgtype"),
    [
        ("image/png", "m.image"),
        ("audio/ogg", "m.audio"),
        ("video/mp4", "m.video"),
        ("application/pdf", "m.file"),
        ("sticker/x", "m.file"),
        (None, "m.file"),
    ],
)
def test_a_file_goes_out_as_what_it_is(desk: ChannelDesk, mime_type: str | None, msgtype: str) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        content = bytes(range(256)) * 9_000
        file = given(channel, content, "a file.x", mime_type)
        sent = await channel.send(attachments=[file], chat=DM, at={"thread_id": "$root:hs"})
        (event,) = server.sent()
        assert sent.message_id == event["event_id"]
        shown = event["content"]
        assert (shown["msgtype"], shown["body"], shown["filename"]) == (msgtype, "a file.x", "a file.x")
        assert shown["info"] == {"mimetype": mime_type or "application/octet-stream", "size": len(content)}
        assert server.files[shown["url"].rpartition("/")[2]] == content
        assert shown["m.relates_to"]["event_id"] == "$root:hs"
        (call,) = server.called("upload")
        assert (call.query, call.content_type) == ({"filename": "a file.x"}, shown["info"]["mimetype"])

    connected(desk, body)


def test_text_comes_first_and_what_is_there_is_not_sent_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        files = [given(channel, b"1", "1.txt", None), given(channel, b"", "2.txt", None)]
        server.refusals["upload"] = [Refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=2000)]
        limited = await refusal(channel.send("text", DM, attachments=files))
        assert isinstance(limited, RateLimitedError)
        assert limited.retry_after == 2
        server.refusals["upload"] = [Refusal(502, "M_UNKNOWN")]
        again = await refusal(channel.send("text", DM, attachments=files))
        assert not isinstance(again, InvalidArgumentError)  # nobody sees a file alone: it is sent again
        server.refusals["send"] = [None, Refusal(502, "M_UNKNOWN")]
        assert (await channel.send("text", DM, attachments=files)).in_doubt
        sent = await channel.send("text", DM, attachments=files)
        assert server.texts() == ["text", "1.txt", "2.txt"]
        assert sent.message_id == server.sent()[0]["event_id"]
        assert [call.content for call in server.called("upload")] == [b"1", b"1", b"1", b""]

    connected(desk, body)


def test_files_over_the_bounds_are_refused_before_anything_is_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        said = ArtifactRef(artifact_id="x", name="x.iso", size_bytes=60 * MIB)
        assert "over 50 MiB" in (await refusal(channel.send("hi", DM, attachments=[said]))).message
        three = [ArtifactRef(artifact_id=f"{n}", size_bytes=40 * MIB) for n in range(3)]
        assert "over 100 MiB together" in (await refusal(channel.send("hi", DM, attachments=three))).message
        many = [given(channel, b"1", f"{number}", None) for number in range(11)]
        assert "at most 10" in (await refusal(channel.send("hi", DM, attachments=many))).message
        gone = [ArtifactRef(artifact_id="none", name="n")]
        assert isinstance(await refusal(channel.send("hi", DM, attachments=gone)), InvalidArgumentError)
        lied = given(channel, bytes(50 * MIB + 1), "lied", None)
        lied = ArtifactRef(artifact_id=lied.artifact_id, name="lied", size_bytes=1)
        assert "over 50 MiB" in (await refusal(channel.send("hi", DM, attachments=[lied]))).message
        server.refusals["upload"] = [Refusal(413, "M_TOO_LARGE", "Upload request body is too large")]
        large = await refusal(channel.send("", DM, attachments=[given(channel, b"1", "1", None)]))
        assert isinstance(large, InvalidArgumentError)
        assert "too large" in large.message
        assert server.sent() == []

    connected(desk, body)


def test_who_sends_a_file_is_told_with_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MatrixServer) -> None:
        await server.until_synced()
        server.files["F"] = b"x"
        event_id = server.happen("m.room.message", {"msgtype": "m.file", "body": "x", "url": FILE})
        event = await channel.event()
        assert event.person is not None
        assert (event.person.person_id, event.message_id, event.addressed) == (ADA, event_id, ["private"])

    connected(desk, body)
