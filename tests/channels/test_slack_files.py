"""Slack: files both ways, within bounds, and found again by the ids that were kept."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from hostler_protocol.channels import (
    Button,
    ChannelFound,
    ChannelMessage,
    ChannelSendParams,
    ChannelTarget,
)
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import HostlerError, InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.slack_desk import config_of, connected, desk, serving
from support.slack_methods import DM, GENERAL, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]

MIB = 1024 * 1024


def shared(server: SlackServer, file_id: str, content: bytes, **more: Any) -> dict[str, Any]:
    """A file that somebody shares."""
    server.files[file_id] = content
    address = f"{server.address}/files/{file_id}"
    file = {"id": file_id, "name": "q.pdf", "title": "Q", "mimetype": "application/pdf", "mode": "hosted"}
    more = {"size": len(content), "url_private": address, "url_private_download": address} | more
    return file | more


async def said_with(
    channel: OpenChannel, server: SlackServer, *files: dict[str, Any], text: str = "see"
) -> Any:
    message = server.write(text, subtype="file_share", files=list(files))
    server.envelope("events_api", server.said(message))
    return await channel.event()


def test_what_people_share_is_stored(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        content = bytes(range(256)) * 9_000  # several parts
        event = await said_with(
            channel,
            server,
            shared(server, "F1", content),
            shared(server, "F2", b"<html>", name="", title="page", mimetype="text/html"),
        )
        assert (event.event_type, event.text) == ("message.received", "see")
        one, two = event.attachments
        assert (one.name, one.mime_type, one.size_bytes) == ("q.pdf", "application/pdf", len(content))
        assert channel.ingest.files[one.artifact_id] == content
        assert (two.name, channel.ingest.files[two.artifact_id]) == ("page", b"<html>")
        assert "missing_files" not in event.data

    connected(desk, body)


def test_a_file_of_another_workspace_is_looked_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.described["F1"] = shared(server, "F1", b"theirs")
        stub = {"id": "F1", "file_access": "check_file_info", "name": "q.pdf", "mode": "file_access"}
        event = await said_with(channel, server, stub)
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"theirs"
        event = await said_with(channel, server, {**stub, "id": "F9"})
        assert "file_not_found" in event.data["missing_files"][0]["reason"]

    connected(desk, body)


@pytest.mark.parametrize(
    ("more", "broken", "reason"),
    [
        ({"size": 21 * MIB}, [], "over 20 MiB"),
        ({"mode": "external"}, [], "outside of Slack"),
        ({"mode": "tombstone"}, [], "not have it any more"),
        ({"url_private_download": "http://files.example/x"}, [], "outside of Slack"),
        ({"url_private_download": "http://127.0.0.1.example/x"}, [], "outside of Slack"),
        ({}, ["login"], "files:read"),
        ({}, [404], "answered 404"),
        ({}, [302], "files:read"),
    ],
)
def test_a_file_that_cannot_be_had_is_named_and_the_message_comes(
    desk: ChannelDesk, more: dict[str, Any], broken: list[Any], reason: str
) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.broken_files["F1"] = broken
        event = await said_with(channel, server, shared(server, "F1", b"x", **more))
        assert (event.text, event.attachments) == ("see", [])
        (missing,) = event.data["missing_files"]
        assert missing["name"] == "q.pdf"
        assert reason in missing["reason"]
        assert server.token not in str(event)

    connected(desk, body)


def test_the_bound_is_the_operators_and_a_broken_download_is_made_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        event = await said_with(channel, server, shared(server, "F1", bytes(MIB + 1), size=5))
        assert "over 1 MiB" in event.data["missing_files"][0]["reason"]
        server.broken_files["F2"] = ["cut"]
        event = await said_with(channel, server, shared(server, "F2", bytes(500_000)))
        assert channel.ingest.files[event.attachments[0].artifact_id] == bytes(500_000)

    connected(desk, body, max_file_mib=1)


# -- out ------------------------------------------------------------------------------------------


def given(channel: OpenChannel, content: bytes, name: str, mime_type: str | None = None) -> ArtifactRef:
    number = f"a{len(channel.ingest.files)}"
    channel.ingest.files[number] = content
    return ArtifactRef(artifact_id=number, name=name, mime_type=mime_type, size_bytes=len(content))


async def send_again(
    channel: OpenChannel, text: str, files: list[ArtifactRef], *, thread: str | None = None
) -> Any:
    """Send what was tried before, as the host does it."""
    params = ChannelSendParams(
        channel_id=channel.channel_id,
        key="k",
        target=ChannelTarget(chat_id=DM, thread_id=thread),
        message=ChannelMessage(text=text, attachments=files),
        attempt=2,
    )
    return await channel.plugin.session.request("channel/send", params)


async def find(
    channel: OpenChannel, text: str, files: list[ArtifactRef], *, key: str = "k", thread: str | None = None
) -> ChannelFound:
    return await channel.find(text, DM, key=key, at={"thread_id": thread}, attachments=files)


def test_a_text_and_its_files_go_out(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        content = bytes(range(256)) * 9_000
        files = [given(channel, content, "naïve 漢.bin", "image/png"), given(channel, b"2", "2.txt")]
        sent = await channel.send("**here**", GENERAL, attachments=files, at={"thread_id": "5.000001"})
        text, shared_ = server.history[GENERAL]
        assert (sent.message_id, text["text"]) == (text["ts"], "*here*")
        assert [file["name"] for file in shared_["files"]] == ["naïve 漢.bin", "2.txt"]
        assert shared_["thread_ts"] == "5.000001"
        assert server.files[shared_["files"][0]["id"]] == content
        await channel.edit(sent.message_id, "there", GENERAL)
        assert text["text"] == "there"

    connected(desk, body)


def test_files_alone_have_the_id_of_their_message_if_slack_tells_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        sent = await channel.send("", DM, attachments=[given(channel, b"1", "1.txt")], key="k1")
        assert sent.message_id == server.last()["ts"]
        server.shares_late = True
        sent = await channel.send("", DM, attachments=[given(channel, b"1", "1.txt")], key="k2")
        assert (sent.message_id, sent.in_doubt) == (None, False)
        buttons = [[Button(label="ok", value="ok")]]
        await channel.send("", DM, attachments=[given(channel, b"1", "1.txt")], key="k3", buttons=buttons)
        assert [one["text"] for one in server.history[DM]] == ["", "", "1.txt", ""]

    connected(desk, body)


def test_parts_that_are_there_are_not_sent_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        files = [given(channel, b"1", "1.txt"), given(channel, b"2", "2.txt")]
        server.uploads_broken = [500]
        assert "answered 500" in (await refusal(channel.send("text", DM, attachments=files))).message
        server.answers["files.completeUploadExternal"] = [Refused("ratelimited", status=429, retry_after=2)]
        limited = await refusal(send_again(channel, "text", files))
        assert isinstance(limited, RateLimitedError)
        assert limited.retry_after == 2
        sent = await send_again(channel, "text", files)
        assert server.texts() == ["text", ""]
        assert sent.message_id == server.history[DM][0]["ts"]
        assert len(server.pending) == 3  # the one that broke, and these two

    connected(desk, body)


def test_files_over_the_bounds_are_refused_before_anything_is_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        said = ArtifactRef(artifact_id="x", name="x.iso", size_bytes=60 * MIB)
        assert "over 50 MiB" in (await refusal(channel.send("hi", DM, attachments=[said]))).message
        three = [ArtifactRef(artifact_id=f"{n}", size_bytes=40 * MIB) for n in range(3)]
        assert "over 100 MiB together" in (await refusal(channel.send("hi", DM, attachments=three))).message
        many = [given(channel, b"1", f"{number}") for number in range(11)]
        assert "at most 10" in (await refusal(channel.send("hi", DM, attachments=many))).message
        empty = given(channel, b"", "empty.txt")
        assert "empty.txt is empty" in (await refusal(channel.send("hi", DM, attachments=[empty]))).message
        gone = await refusal(channel.send("hi", DM, attachments=[ArtifactRef(artifact_id="none", name="n")]))
        assert isinstance(gone, InvalidArgumentError)
        assert not server.history

    connected(desk, body)


# -- found again ----------------------------------------------------------------------------------


def test_what_was_sent_is_found_by_its_key(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.page = 2
        sent = await channel.send("text", DM)
        for number in range(5):
            await channel.send("text", DM, key=f"other {number}")
        assert await find(channel, "text", []) == ChannelFound(found=True, message_id=sent.message_id)
        assert await find(channel, "text", [], key="never") == ChannelFound(found=False)
        asked = server.write("?")
        sent = await channel.send("text", DM, key="t", at={"thread_id": asked["ts"]})
        found = await find(channel, "text", [], key="t", thread=asked["ts"])
        assert found == ChannelFound(found=True, message_id=sent.message_id)
        assert await find(channel, "text", [], thread="5.1") == ChannelFound(found=False)  # no such thread
        server.answers["conversations.history"] = [
            Refused("missing_scope", needed="im:history"),
            Refused("ratelimited", status=429, retry_after=9),
            "cut",
        ]
        assert await find(channel, "text", []) == ChannelFound(found=None)
        assert "rate" in (await refusal(find(channel, "text", []))).message
        assert "broke" in (await refusal(find(channel, "text", []))).message

    connected(desk, body)


@pytest.mark.parametrize(
    "at", ["chat.postMessage", "files.getUploadURLExternal", "files.completeUploadExternal"]
)
def test_after_a_death_around_a_message_with_files_each_part_is_there_once(
    desk: ChannelDesk, at: str
) -> None:
    """The process dies after Slack has carried a call out; the host looks, and sends what is missing."""

    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                files = [given(channel, b"1", "1.txt"), given(channel, b"2", "2.txt")]
                server.silent = at
                sending = asyncio.ensure_future(channel.send("text", DM, attachments=files))
                await server.until_called(at)
                channel.plugin.signal(signal.SIGKILL)
                with pytest.raises(HostlerError):
                    await sending
                server.silent = None
                state, kept = channel.state, channel.ingest.files
            async with desk.alone(config_of(server), state=state) as channel:
                await channel.until_health("connected")
                channel.ingest.files.update(kept)
                found = await find(channel, "text", files)
                assert found.found is (at == "files.completeUploadExternal")
                if not found.found:
                    await send_again(channel, "text", files)
                assert server.texts() == ["text", ""]
                assert [file["name"] for file in server.last()["files"]] == ["1.txt", "2.txt"]
                found = await find(channel, "text", files)
                assert found == ChannelFound(found=True, message_id=server.history[DM][0]["ts"])

    desk.run(whole)


def test_files_that_were_about_to_be_shared_and_are_not_are_not_found(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        files = [given(channel, b"1", "1.txt")]
        assert await find(channel, "", files) == ChannelFound(found=False)
        await channel.send("", DM, attachments=files)
        assert await find(channel, "", files, key="other") == ChannelFound(found=False)
        assert (await find(channel, "", files)).found

    connected(desk, body, state={"uploads": {"k": ["F9999"]}})
