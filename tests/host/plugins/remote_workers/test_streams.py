"""The streams of a worker's connection: windows bound what is under way, and nothing is lost or mixed up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hostler.domain.worker_limits import CHUNK_BYTES, WINDOW_BYTES
from hostler.plugins.remote_workers import streams
from hostler.plugins.remote_workers.streams import FrameQueue, ReceiveHalf, SendHalf
from hostler.plugins.remote_workers.wire import Beat, Granted, read_piece
from hostler_protocol.errors import PluginProtocolError


class _Peer:
    """Takes frames; `stuck` makes it take none."""

    def __init__(self) -> None:
        self.frames: list[str | bytes] = []
        self.may = asyncio.Event()
        self.may.set()

    async def receive(self) -> str | bytes | None:
        return None

    async def send(self, data: str | bytes) -> None:
        await self.may.wait()
        self.frames.append(data)

    async def close(self, code: int, reason: str) -> None:
        pass


async def _sent(frames: FrameQueue, peer: _Peer) -> list[Any]:
    """What a peer is sent of all that waits: control messages, and (stream, bytes)."""
    frames.finish()
    await frames.send_all(peer)
    found: list[Any] = [
        json.loads(frame) if isinstance(frame, str) else read_piece(frame) for frame in peer.frames
    ]
    peer.frames.clear()
    return found


async def test_no_more_is_under_way_than_the_window_has_room_for() -> None:
    frames, peer, sent = FrameQueue(), _Peer(), []
    half = SendHalf(7, frames, lambda: sent.append(half.unsent))
    data = bytes(range(256)) * (3 * WINDOW_BYTES // 256)
    half.send([data[:100], data[100:]])
    assert half.unsent == len(data)
    pieces = await _sent(frames, peer)
    assert {number for number, _ in pieces} == {7}
    assert max(len(piece) for _, piece in pieces) == CHUNK_BYTES
    got = b"".join(piece for _, piece in pieces)
    assert len(got) == WINDOW_BYTES
    assert half.unsent == len(data) - WINDOW_BYTES
    while half.unsent:
        half.granted(WINDOW_BYTES // 2)
        got += b"".join(piece for _, piece in await _sent(frames, peer))
    assert got == data
    assert sent[-1] == 0
    half.granted(WINDOW_BYTES)
    with pytest.raises(PluginProtocolError, match="more bytes were granted than were sent"):
        half.granted(1)


async def test_a_stream_that_stands_still_holds_up_no_other() -> None:
    frames, peer = FrameQueue(), _Peer()
    slow, quick = (SendHalf(number, frames, lambda: None) for number in (1, 2))
    slow.send([b"x" * (2 * WINDOW_BYTES)])
    await _sent(frames, peer)
    quick.send([b"now"])
    frames.put(Beat(number=1))
    assert await _sent(frames, peer) == [(2, b"now"), {"type": "beat", "number": 1}]


async def test_a_receiver_grants_what_it_has_used_and_takes_no_more() -> None:
    frames, peer = FrameQueue(), _Peer()
    half = ReceiveHalf(3, frames)
    half.received(WINDOW_BYTES)
    half.used(WINDOW_BYTES // 2 - 1)
    assert await _sent(frames, peer) == []
    half.used(1)
    (granted,) = await _sent(frames, peer)
    assert granted == {"type": "granted", "stream": 3, "size": WINDOW_BYTES // 2}
    half.received(WINDOW_BYTES // 2)
    with pytest.raises(PluginProtocolError, match="more bytes came than its window allows"):
        half.received(1)


async def test_a_peer_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_QUEUED_BYTES", 10_000)
    frames, peer = FrameQueue(), _Peer()
    peer.may.clear()
    sending = asyncio.create_task(frames.send_all(peer))
    granted = Granted(stream=1, size=1)
    for _ in range(200):
        frames.put(granted)
    with pytest.raises(PluginProtocolError, match="bytes of control messages wait to be read"):
        put_many(frames, granted, 200)
    peer.may.set()
    frames.finish()
    await sending
    assert len(peer.frames) < 300


def put_many(frames: FrameQueue, message: Granted, count: int) -> None:
    """Put a message so often."""
    for _ in range(count):
        frames.put(message)


async def test_what_is_dropped_is_not_sent() -> None:
    frames, peer = FrameQueue(), _Peer()
    half = SendHalf(1, frames, lambda: None)
    half.send([b"x" * (2 * WINDOW_BYTES)])
    half.drop()
    assert half.unsent == 0
    assert sum(len(piece) for _, piece in await _sent(frames, peer)) == WINDOW_BYTES
