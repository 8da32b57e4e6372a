"""DingTalk's connections in this process: those that stay open, and on which nothing comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hostler_dingtalk import stream
from hostler_dingtalk.api import Api

from hostler_sdk.channels import Channel
from support.channel_wire import Wire
from support.databases import TEST_SECONDS
from support.dingtalk_calls import CLIENT_ID, SECRET
from support.dingtalk_desk import serving


async def test_a_connection_on_which_nothing_comes_is_replaced_before_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "IDLE_SECONDS", 0.05)
    taken: list[Any] = []

    async def took(kind: str, frame_id: str, data: dict[str, Any]) -> None:
        taken.append(data["text"]["content"])

    async def start(work: Awaitable[None]) -> None:
        await work

    async with asyncio.timeout(TEST_SECONDS), serving() as server:
        api = Api(CLIENT_ID, SECRET, server.address, server.address)
        api.start()
        # the channel says nothing of its health: no connection is lost
        connections = stream.Stream(api, Channel("c", {}, None, Wire()), took, start)
        reading = asyncio.create_task(connections.run(await connections.open()))
        try:
            await server.until_true(lambda: server.opened >= 2)
            await server.until_acknowledged(server.say("still heard"))
            assert taken == ["still heard"]
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            await connections.close()
            await api.close()
