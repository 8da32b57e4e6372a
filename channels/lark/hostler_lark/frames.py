"""Frames of a long connection: what came in them, put together, and the answers."""

from __future__ import annotations

import base64
import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from hostler_lark.library import (
    HEADER_BIZ_RT,
    HEADER_MESSAGE_ID,
    HEADER_SEQ,
    HEADER_SUM,
    HEADER_TYPE,
    JSON,
    DecodeError,
    Frame,
    FrameType,
    MessageType,
    Response,
)

MAX_PARTS = 256
MAX_BYTES = 4 * 1024 * 1024
"""Of one event; Lark's have some KiB, and are split where they are larger than a frame."""
MAX_SPLIT = 32
PART_SECONDS = 60.0
"""Events of which not all parts have come yet: how many, and how long the others are waited for."""


class FrameError(Exception):
    """What came is no frame of Lark."""


@dataclass(slots=True)
class Parts:
    """The parts of an event that have come."""

    parts: list[bytes | None]
    since: float


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that came through a connection, and the frame to be answered. `is_config`: of the server."""

    frame: Any
    payload: bytes
    is_config: bool = False


@dataclass(slots=True)
class Frames:
    """Reads the frames of one connection."""

    _split: OrderedDict[str, Parts] = field(default_factory=OrderedDict)

    def read(self, content: bytes) -> Sent | None:
        """Return what a frame brings, once all of it has come. Raises FrameError."""
        frame = Frame()
        try:
            frame.ParseFromString(content)
        except (DecodeError, ValueError, IndexError, RecursionError) as error:
            raise FrameError(f"it cannot be read: {error}"[:200]) from None
        headers = {header.key: header.value for header in frame.headers}
        kind = headers.get(HEADER_TYPE)
        if frame.method == FrameType.CONTROL.value:
            is_pong = kind == MessageType.PONG.value
            return Sent(frame, frame.payload, is_config=True) if is_pong and frame.payload else None
        if frame.method != FrameType.DATA.value or kind not in {"event", "card"}:
            raise FrameError(f"its type is {kind!r:.80}")
        payload = self._whole(headers, frame.payload)
        return None if payload is None else Sent(frame, payload)

    def _whole(self, headers: dict[str, str], payload: bytes) -> bytes | None:
        try:
            count, number = int(headers.get(HEADER_SUM) or 1), int(headers.get(HEADER_SEQ) or 0)
        except ValueError:
            raise FrameError("its parts are not numbered") from None
        if count <= 1:
            return payload
        message_id = headers.get(HEADER_MESSAGE_ID)
        if not message_id or count > MAX_PARTS or not 0 <= number < count:
            raise FrameError("its parts are not numbered")
        self._drop_old()
        found = self._split.setdefault(message_id, Parts([None] * count, time.monotonic()))
        if len(found.parts) != count:
            del self._split[message_id]
            raise FrameError("its parts are not of one event")
        found.parts[number] = payload
        if sum(len(part or b"") for part in found.parts) > MAX_BYTES:
            del self._split[message_id]
            raise FrameError("it is larger than any event of Lark")
        if any(part is None for part in found.parts):
            return None
        del self._split[message_id]
        return b"".join(part or b"" for part in found.parts)

    def _drop_old(self) -> None:
        """Forget events whose other parts never came: they were not acknowledged, and come again."""
        before = time.monotonic() - PART_SECONDS
        while self._split and (
            len(self._split) > MAX_SPLIT or next(iter(self._split.values())).since < before
        ):
            self._split.popitem(last=False)


def answer(sent: Sent, code: int, data: Any, milliseconds: int) -> bytes:
    """Return the frame that acknowledges an event (200) or asks for it again (500)."""
    frame = sent.frame
    header = frame.headers.add()
    header.key, header.value = HEADER_BIZ_RT, str(milliseconds)
    encoded = None if data is None else base64.b64encode(json.dumps(data).encode())
    frame.payload = JSON.marshal(Response(code=code, data=encoded)).encode()
    whole: bytes = frame.SerializeToString()
    return whole


def ping(service_id: int) -> bytes:
    """Return a frame that asks whether the server is there."""
    frame = Frame()
    header = frame.headers.add()
    header.key, header.value = HEADER_TYPE, MessageType.PING.value
    frame.service, frame.method = service_id, FrameType.CONTROL.value
    frame.SeqID = frame.LogID = 0
    whole: bytes = frame.SerializeToString()
    return whole
