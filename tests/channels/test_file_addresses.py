"""Events with files: runners get the files stored, and none of the addresses that the platform has for them.

These expire, or need the bot's token.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from support import (
    dingtalk_desk,
    discord_desk,
    lark_desk,
    line_desk,
    matrix_desk,
    slack_desk,
    telegram_desk,
    wecom_desk,
)
from support.channel_desk import ChannelDesk, OpenChannel
from support.discord_server import GENERAL
from support.lark_events import said
from support.platform_desk import CHANNELS
from support.wecom_envelopes import message as wecom_message

pytestmark = pytest.mark.gate("file-addresses")
ELSEWHERE = "https://files.example/of-the-platform"
"""Another address of the file, as of a preview of it."""
CONTENT = b"what is in the file"


async def on_dingtalk(_: OpenChannel, server: Any) -> None:
    server.files = {"code": CONTENT}
    server.say(msgtype="file", content={"downloadCode": "code", "fileName": "a.txt"}, text=None)


async def on_discord(_: OpenChannel, server: Any) -> None:
    picture = {"url": ELSEWHERE, "proxy_url": ELSEWHERE, "width": 1}
    file = server.attachment("a.txt", CONTENT, proxy_url=ELSEWHERE)
    quoted = {"id": "9", "attachments": [file], "author": {"id": "7"}, "content": "before"}
    embeds = [{"title": "T", "image": picture, "thumbnail": picture, "video": picture}]
    await server.say("see", attachments=[file], embeds=embeds, referenced_message=quoted)


async def on_lark(_: OpenChannel, server: Any) -> None:
    server.files["f"] = (CONTENT, "text/plain")
    server.push(said(server, {"file_key": "f", "file_name": "a.txt"}, kind="file"))


async def on_line(channel: OpenChannel, server: Any) -> None:
    server.files["1"] = CONTENT
    event = server.message("file", id="1", fileName="a.txt", fileSize=len(CONTENT))
    assert await line_desk.deliver(channel, server, event) == 200


async def on_matrix(_: OpenChannel, server: Any) -> None:
    await server.until_synced()
    server.files["F"] = CONTENT
    info = {"thumbnail_url": ELSEWHERE, "thumbnail_file": {"url": ELSEWHERE}, "mimetype": "text/plain"}
    said = {"msgtype": "m.file", "body": "a.txt", "url": "mxc://hs.example/F", "info": info}
    server.happen("m.room.message", said)


async def on_slack(_: OpenChannel, server: Any) -> None:
    server.files["F1"] = CONTENT
    address = f"{server.address}/files/F1"
    previews = ("permalink", "permalink_public", "thumb_64", "thumb_pdf", "mp4", "hls", "converted_pdf")
    file = {"id": "F1", "name": "a.txt", "mode": "hosted", **dict.fromkeys(previews, ELSEWHERE)}
    file |= {"url_private": address, "url_private_download": address}
    shared = [{"fallback": "of another message", "files": [file]}]
    said = server.write("see", subtype="file_share", files=[file], attachments=shared)
    server.envelope("events_api", server.said(said))


async def on_telegram(_: OpenChannel, server: Any) -> None:
    server.files["F"] = CONTENT
    server.say(document={"file_id": "F", "file_unique_id": "u", "file_name": "a.txt"})


async def on_wecom(channel: OpenChannel, server: Any) -> None:
    server.media["m"] = (CONTENT, "image/jpeg", "a.txt")
    said = wecom_message("image", MediaId="m", PicUrl=ELSEWHERE, FileName="a.txt")
    assert await wecom_desk.come(channel, said) == 200


Say = Callable[[OpenChannel, Any], Awaitable[None]]
PLATFORMS: dict[str, tuple[Callable[..., None], Say]] = {
    "dingtalk": (dingtalk_desk.connected, on_dingtalk),
    "discord": (discord_desk.connected, on_discord),
    "lark": (lark_desk.connected, on_lark),
    "line": (line_desk.connected, on_line),
    "matrix": (matrix_desk.connected, on_matrix),
    "slack": (slack_desk.connected, on_slack),
    "telegram": (telegram_desk.connected, on_telegram),
    "wecom": (wecom_desk.connected, on_wecom),
}


@pytest.fixture(params=sorted(PLATFORMS))
def desk(request: pytest.FixtureRequest) -> Iterator[ChannelDesk]:
    """A process of the channel of a platform."""
    found = ChannelDesk(CHANNELS / request.param, request.param)
    yield found
    found.close()


def test_no_event_carries_an_address_of_a_file(desk: ChannelDesk) -> None:
    connected, say = PLATFORMS[desk.channel]

    async def body(channel: OpenChannel, server: Any) -> None:
        await say(channel, server)
        event = await channel.event()
        (file,) = event.attachments
        assert channel.ingest.files[file.artifact_id] == CONTENT
        data = json.dumps(event.data)
        assert "a.txt" in data, "the rest of what the platform sent is there"
        for address in (ELSEWHERE, server.origin, "mxc://", "sessionWebhook", "replyToken"):
            assert address not in data
        assert not any(ELSEWHERE in str(one) for one in channel.ingest.checked), "nor what the host is asked"

    connected(desk, body)


def test_a_file_that_is_given_with_a_command_is_stored_too() -> None:
    desk = ChannelDesk(CHANNELS / "discord", "discord")

    async def body(channel: OpenChannel, server: Any) -> None:
        file = server.attachment("a.txt", CONTENT, proxy_url=ELSEWHERE)
        option = {"name": "file", "type": 11, "value": file["id"]}
        about = {"id": "31", "name": "read", "type": 1, "options": [option]}
        about["resolved"] = {"attachments": {file["id"]: file}}
        await server.press(None, "", GENERAL, type=2, data=about, message=None)
        event = await channel.event()
        (stored,) = event.attachments
        assert (event.event_type, stored.name) == ("command.invoked", "a.txt")
        assert channel.ingest.files[stored.artifact_id] == CONTENT
        data = json.dumps(event.data)
        assert file["id"] in data
        assert ELSEWHERE not in data
        assert server.origin not in data

    try:
        discord_desk.connected(desk, body)
    finally:
        desk.close()


def test_no_history_carries_an_address_of_a_file() -> None:
    desk = ChannelDesk(CHANNELS / "slack", "slack")

    async def body(channel: OpenChannel, server: Any) -> None:
        await on_slack(channel, server)
        await channel.event()
        (chat,) = server.history
        page = (await channel.act("history.fetch", {"chat_id": chat})).result
        (one,) = page["messages"]
        assert [file["name"] for file in one["files"]] == ["a.txt"]
        assert ELSEWHERE not in str(page)
        assert server.origin not in str(page)
        called = await channel.act(
            "platform.call", {}, method="conversations.history", params={"channel": chat, "limit": 9}
        )
        assert ELSEWHERE in str(called.result), "who may call Slack itself has its whole answer"

    try:
        slack_desk.connected(desk, body)
    finally:
        desk.close()
