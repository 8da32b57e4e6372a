"""Matrix: what the channel keeps, and what it reads, has bounds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hostler_matrix import home_server, rooms
from hostler_matrix.home_server import HomeServer
from hostler_matrix.position import MAX_JOINS, MAX_TOLD, Position
from hostler_matrix.rooms import Rooms
from nio import Api

from hostler_sdk.channels import UnclearError
from support.matrix_desk import serving
from support.matrix_server import ADA, DM

KEPT_BYTES = 64 * 1024


def test_the_state_of_a_channel_fits_however_many_rooms_there_are() -> None:
    position = Position(since="s" * 1_000)
    for number in range(MAX_JOINS + MAX_TOLD):
        room_id = f"!{number:0254}"
        position.join(room_id)
        position.join(room_id)
        position.tell(room_id)
    assert (len(position.joins), len(position.told)) == (MAX_JOINS, MAX_TOLD)
    assert position.joins[-1] == room_id, "the oldest is left out"
    assert len(json.dumps(position.state())) < KEPT_BYTES
    assert Position.of(position.state()) == position


def test_rooms_messages_and_names_are_forgotten_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_ROOMS", "MAX_MESSAGES", "MAX_NAMES"):
        monkeypatch.setattr(rooms, name, 3)
    known = Rooms(HomeServer("http://matrix.invalid", "token"))
    for number in range(5):
        known.of(f"!{number}").title = f"room {number}"
        known.note_message(f"${number}", {"sender": ADA, "content": {}})
        member: dict[str, Any] = {"type": "m.room.member", "state_key": f"@{number}"}
        content = {"membership": "join", "displayname": f"name {number}"}
        known.note_state("!4", {**member, "content": content}, is_news=False)
    assert list(known.of("!4").names) == ["@2", "@3", "@4"]
    assert list(known._messages) == ["$2", "$3", "$4"]
    assert len(known._rooms) == 3
    assert known.of("!0").title is None


def test_an_answer_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        async with serving() as server:
            client = HomeServer(server.url, server.token)
            await client.open()
            try:
                assert (await client.call(Api.whoami("")))["device_id"] == "HOSTLER"
                monkeypatch.setattr(home_server, "MAX_ANSWER_BYTES", 20)
                with pytest.raises(UnclearError, match="the answer has over"):
                    await client.call(Api.joined_members("", DM))
            finally:
                await client.close()

    asyncio.run(whole())
