"""The process of the WeCom channel is killed between two steps, and what it needs of its surroundings."""

from __future__ import annotations

import asyncio
import time

import pytest

from hostler_protocol.content import ArtifactRef
from support.channel_desk import ChannelDesk
from support.child_plugins import environment, within
from support.ready_candidates import check_folder
from support.wecom_desk import FOLDER, come, config_of, desk, find, serving
from support.wecom_envelopes import message

__all__ = ["desk"]


def test_a_file_that_was_being_fetched_comes_with_the_next_process(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.held_media = asyncio.Event()
            server.media["m"] = (b"\xff\xd8 image", "image/jpeg", "m.jpg")
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                assert await come(channel, message("image", MediaId="m", PicUrl="http://p")) == 200
                await server.until_called("media/get")
                state = await channel.kill()
                assert channel.ingest.events == []
            server.held_media.set()
            async with desk.opened(config_of(server), state=state) as again:
                assert len((await again.event()).attachments) == 1

    desk.run(whole)


@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize("carried_out", [True, False])
def test_each_part_is_sent_once_whenever_the_process_dies(
    desk: ChannelDesk, part: int, carried_out: bool
) -> None:
    async def whole() -> None:
        async with serving() as server:
            refs = [ArtifactRef(artifact_id=str(number), name=f"{number}.txt") for number in range(2)]
            files = {"0": b"content 0", "1": b"content 1"}
            held = "silent" if carried_out else "held"
            server.answers["message/send"] = [None] * (part - 1) + [held]
            begun = time.time()
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                channel.ingest.files.update(files)
                sending = asyncio.ensure_future(channel.send("once", "ada", attachments=refs))
                await server.until_called("message/send", part)
                state = await channel.kill()
                sending.cancel()
                await asyncio.wait([sending])
            async with desk.opened(config_of(server), state=state) as again:
                await again.until_health("connected")
                again.ingest.files.update(files)
                assert (await find(again, begun)).found is False
                await again.send("once", "ada", attachments=refs, attempt=2)
            assert [one["msgtype"] for one in server.delivered] == ["markdown", "file", "file"]
            sent = [server.media[one["file"]["media_id"]][0] for one in server.delivered[1:]]
            assert sent == [b"content 0", b"content 1"]
            assert len(server.called("media/upload")) == 2 if part > 1 else 4

    desk.run(whole)


def test_a_message_that_was_not_stored_comes_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            said = message(Content="hello")
            server.answers["user/get"] = ["held"]
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                calling = asyncio.ensure_future(come(channel, said))
                await server.until_called("user/get")
                state = await channel.kill()
                calling.cancel()
                await asyncio.wait([calling])
            async with desk.opened(config_of(server), state=state) as again:
                await again.until_health("connected")
                assert await come(again, said) == 200
                assert (await again.event()).text == "hello"

    desk.run(whole)


def test_it_reaches_wecom_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server) | {"base-url": "http://wecom.invalid"}
            proxy = {"HTTP_PROXY": server.url, "http_proxy": server.url, "NO_PROXY": "", "no_proxy": ""}
            async with desk.alone(config, **proxy) as channel:
                await channel.until_health("connected")
                await channel.send("hello", "ada")
            assert server.texts() == ["hello"]

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
