"""Telegram: files both ways, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.telegram_desk import connected, desk
from support.telegram_server import MAX_DOWNLOAD, Refusal, TelegramServer

__all__ = ["desk"]


def file(file_id: str, size: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "file_id": file_id,
        "file_unique_id": f"u{file_id}",
        **({"file_size": size} if size else {}),
        **more,
    }


@pytest.mark.parametrize(
    ("message", "name", "mime_type"),
    [
        (
            {
                "caption": "look",
                "photo": [
                    file("small", width=90, height=60),
                    file("F", width=1280, height=853),
                    file("middle", width=320, height=213),
                ],
            },
            "photo_501.jpg",
            "image/jpeg",
        ),
        ({"voice": file("F", duration=3, mime_type="audio/ogg")}, "voice_501.ogg", "audio/ogg"),
        ({"audio": file("F", duration=3, file_name="a.mp3", mime_type="audio/mpeg")}, "a.mp3", "audio/mpeg"),
        ({"document": file("F", file_name="q.pdf", mime_type="application/pdf")}, "q.pdf", "application/pdf"),
        ({"document": file("F")}, "document_501.bin", "application/octet-stream"),
        ({"video": file("F", duration=1, width=2, height=2)}, "video_501.mp4", "video/mp4"),
        ({"video_note": file("F", duration=1, length=2)}, "video_note_501.mp4", "video/mp4"),
        (
            {
                "animation": file(
                    "F", duration=1, width=2, height=2, file_name="g.mp4", mime_type="video/mp4"
                ),
                "document": file("F", file_name="g.mp4", mime_type="video/mp4"),
            },
            "g.mp4",
            "video/mp4",
        ),
        (
            {
                "sticker": file(
                    "F", type="regular", width=5, height=5, is_animated=False, is_video=False, emoji="🦊"
                )
            },
            "sticker_501.webp",
            "image/webp",
        ),
        (
            {"sticker": file("F", type="regular", width=5, height=5, is_animated=True, is_video=False)},
            "sticker_501.tgs",
            "application/x-tgsticker",
        ),
    ],
)
def test_what_people_send_is_stored(
    desk: ChannelDesk, message: dict[str, Any], name: str, mime_type: str
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.files["F"] = content = bytes(range(256)) * 9_000  # several parts
        server.say(**message)
        event = await channel.event()
        assert event.event_type == "message.received"
        (stored,) = event.attachments
        assert (stored.name, stored.mime_type, stored.size_bytes) == (name, mime_type, len(content))
        assert channel.ingest.files[stored.artifact_id] == content
        assert event.text == message.get("caption", message.get("sticker", {}).get("emoji"))
        assert "missing_files" not in event.data

    connected(desk, body)


@pytest.mark.parametrize(
    ("size", "told", "reason"),
    [
        (MAX_DOWNLOAD + 1, MAX_DOWNLOAD + 1, "over 20 MiB"),
        (MAX_DOWNLOAD + 1, None, "file is too big"),
        (1, 1, "wrong file_id"),
    ],
)
def test_a_file_that_cannot_be_had_is_named_and_the_message_comes(
    desk: ChannelDesk, size: int, told: int | None, reason: str
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.files["F"] = bytes(size)
        file_id = "F" if "wrong" not in reason else "other"
        server.say(caption="see this", document=file(file_id, told, file_name="x.bin"))
        event = await channel.event()
        assert (event.text, event.attachments) == ("see this", [])
        (missing,) = event.data["missing_files"]
        assert (missing["name"], missing["size_bytes"]) == ("x.bin", told)
        assert reason in missing["reason"]
        assert server.token not in str(event)

    connected(desk, body)


def test_nothing_is_fetched_for_who_is_not_let_in(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.files["F"] = b"content"
        channel.ingest.unwanted = {"7"}
        server.say(None, caption="theirs", document=file("F"))
        event = await channel.event()
        assert (event.text, event.attachments, event.data.get("missing_files")) == ("theirs", [], None)
        assert [one.event_id for one in channel.ingest.checked] == [event.event_id]
        assert server.called("getFile") == []
        channel.ingest.unwanted = set()
        server.say(None, caption="mine", document=file("F"))
        event = await channel.event()
        assert (event.text, len(event.attachments)) == ("mine", 1)
        assert len(server.called("getFile")) == 1

    connected(desk, body)


def test_the_bound_is_the_operators_and_counts_what_comes(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.files["F"] = bytes(1024 * 1024 + 1)
        server.say(document=file("F", 5, file_name="a"))  # it says that it is small
        event = await channel.event()
        assert "over 1 MiB" in event.data["missing_files"][0]["reason"]

    connected(desk, body, max_file_mib=1)


def test_a_broken_download_is_made_again_and_a_lasting_one_given_up(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.files["F"] = bytes(500_000)
        server.broken_files["F"] = ["cut", 502]
        server.say(document=file("F", file_name="a"))
        event = await channel.event()
        assert channel.ingest.files[event.attachments[0].artifact_id] == server.files["F"]
        server.broken_files["F"] = [500, 500, 500]
        server.say(document=file("F", file_name="a"))
        event = await channel.event()
        assert "answered 500" in event.data["missing_files"][0]["reason"]
        server.broken_files["F"] = [404]
        server.say(document=file("F", file_name="a"))
        assert "answered 404" in (await channel.event()).data["missing_files"][0]["reason"]

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


def given(channel: OpenChannel, content: bytes, name: str, mime_type: str | None) -> ArtifactRef:
    number = f"a{len(channel.ingest.files)}"
    channel.ingest.files[number] = content
    return ArtifactRef(artifact_id=number, name=name, mime_type=mime_type, size_bytes=len(content))


@pytest.mark.parametrize(
    ("mime_type", "method", "field"),
    [
        ("image/png", "sendPhoto", "photo"),
        ("image/gif", "sendAnimation", "animation"),
        ("video/mp4", "sendVideo", "video"),
        ("audio/mpeg", "sendAudio", "audio"),
        ("audio/ogg; codecs=opus", "sendVoice", "voice"),
        ("application/pdf", "sendDocument", "document"),
        (None, "sendDocument", "document"),
    ],
)
def test_a_file_goes_out_as_its_kind_with_the_text_below(
    desk: ChannelDesk, mime_type: str | None, method: str, field: str
) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        content = bytes(range(256)) * 9_000
        ref = given(channel, content, "naïve 漢.bin", mime_type)
        buttons = [[Button(label="ok", value="ok")]]
        sent = await channel.send("**here**", attachments=[ref], buttons=buttons, at={"reply_to": "3"})
        (call,) = server.called(method)
        assert call.files[field] == ("naïve 漢.bin", content)
        assert (call.params["caption"], call.params["parse_mode"]) == ("<b>here</b>", "HTML")
        assert "reply_markup" in call.params
        assert "reply_parameters" in call.params
        await channel.edit(sent.message_id, "there")  # which is the caption's
        assert server.texts() == ["there"]

    connected(desk, body)


def test_a_long_text_and_several_files_are_messages_of_their_own(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        one, two = given(channel, b"1", "1.txt", None), given(channel, b"2", "2.txt", None)
        sent = await channel.send("x" * 1025, attachments=[one], key="k1")
        assert [len(text) for text in server.texts()] == [1025, 0]
        assert sent.message_id == str(min(server.messages))
        server.messages.clear()
        await channel.send("two files", attachments=[one, two], key="k2")
        assert server.texts() == ["two files", "", ""]
        server.messages.clear()
        await channel.send(attachments=[one, two], key="k3", buttons=[[Button(label="ok", value="ok")]])
        assert ["reply_markup" in message for message in server.messages.values()] == [True, False]

    connected(desk, body)


def test_parts_that_are_there_are_not_sent_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        files = [given(channel, b"1", "1.txt", None), given(channel, b"2", "2.txt", None)]
        server.refusals["sendDocument"] = [Refusal(429, "Too Many Requests: retry after 2", retry_after=2)]
        limited = await refusal(channel.send("text", attachments=files))
        assert isinstance(limited, RateLimitedError)
        assert limited.retry_after == 2
        server.refusals["sendDocument"] = ["cut"]
        assert (await channel.send("text", attachments=files)).in_doubt
        sent = await channel.send("text", attachments=files)
        assert server.texts() == ["text", "", ""]
        assert sent.message_id == str(min(server.messages))

    connected(desk, body)


def test_a_picture_that_telegram_cannot_show_goes_as_a_document(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        server.refusals["sendPhoto"] = [Refusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")]
        await channel.send("wide", attachments=[given(channel, b"png", "w.png", "image/png")])
        (call,) = server.called("sendDocument")
        assert call.files["document"] == ("w.png", b"png")
        huge = given(channel, bytes(10 * 1024 * 1024 + 1), "h.png", "image/png")
        await channel.send("huge", attachments=[huge], key="k2")
        assert [one.method for one in server.calls[-1:]] == ["sendDocument"]

    connected(desk, body)


def test_files_over_the_bounds_are_refused_before_anything_is_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        said = ArtifactRef(artifact_id="x", name="x.iso", size_bytes=60 * 1024 * 1024)
        assert "over 50 MiB" in (await refusal(channel.send("hi", attachments=[said]))).message
        three = [ArtifactRef(artifact_id=f"{n}", size_bytes=40 * 1024 * 1024) for n in range(3)]
        assert "over 100 MiB together" in (await refusal(channel.send("hi", attachments=three))).message
        many = [given(channel, b"1", f"{number}", None) for number in range(11)]
        assert "at most 10" in (await refusal(channel.send("hi", attachments=many))).message
        empty = given(channel, b"", "empty.txt", None)
        assert "empty.txt is empty" in (await refusal(channel.send("hi", attachments=[empty]))).message
        gone = await refusal(channel.send("hi", attachments=[ArtifactRef(artifact_id="none", name="n")]))
        assert isinstance(gone, InvalidArgumentError)
        assert not server.messages

    connected(desk, body)


def test_a_file_waits_while_the_host_cannot_store_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        answer = channel.ingest.answer
        waiting = [StorageError("the disk is full"), InvalidArgumentError("files of type x are not taken")]

        def refusing(params: Any) -> Any:
            if type(params).__name__ == "IngestFileParams" and waiting:
                raise waiting.pop(0)
            return answer(params)

        server.files["F"] = b"kept"
        desk_ingest: Any = channel.plugin.session
        desk_ingest.ingest = _Refusing(channel.ingest, refusing)
        waiting.pop()
        server.say(document=file("F", file_name="a"))
        await channel.until(lambda: len(channel.ingest.events) == 1)
        event = channel.ingest.events.pop()
        assert channel.ingest.files[event.attachments[0].artifact_id] == b"kept"
        waiting.append(InvalidArgumentError("files of type x are not taken"))
        server.say(document=file("F", file_name="b"))
        await channel.until(lambda: len(channel.ingest.events) == 1)
        assert "not taken" in channel.ingest.events[0].data["missing_files"][0]["reason"]

    connected(desk, body)


class _Refusing:
    """What the host keeps, with other answers."""

    def __init__(self, kept: Any, answer: Any) -> None:
        self.answer = answer
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)
