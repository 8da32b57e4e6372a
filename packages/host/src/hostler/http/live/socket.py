"""`/v1/ws`: one WebSocket with many subscriptions, over which events are sent, too (docs/streams.md).

Commands are carried out one after the other, in the order of their frames; no more is read meanwhile, which
holds the client back. All frames to the client are written one after the other, each once the client has
taken most of those before.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from hostler.domain.suggestions import did_you_mean
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.limits import MAX_BODY_BYTES, MAX_SUBSCRIPTIONS, STREAM_STUCK_SECONDS
from hostler.http.live import commands
from hostler.http.live.admission import admit_client
from hostler.http.live.messages import (
    PROTOCOL,
    Answer,
    Cancel,
    Command,
    Decide,
    Hello,
    Ping,
    Refusal,
    Resolve,
    Steer,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from hostler.http.live.messages import Send as SendCommand
from hostler.http.live.subscriptions import Subscriptions, open_source
from hostler.http.middleware import take_rate
from hostler.http.open_keys import ENDED
from hostler.http.problems import UnauthenticatedError, caller_blamed, problem_of
from hostler.http.request import ApiRequest, decode_json
from hostler.http.state import AppState
from hostler_protocol._base import DECODE_ERRORS, Lenient
from hostler_protocol.errors import HostlerError, InvalidArgumentError, PayloadTooLargeError

PATH = "/v1/ws"
POLICY_VIOLATION = 1008
log = logging.getLogger("hostler.http")
_encode = msgspec.json.encode


class _Head(Lenient):
    """What every command has."""

    type: str = ""
    id: str | None = None


_heads = msgspec.json.Decoder(_Head)
_COMMANDS: dict[str, type[Any]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "send": SendCommand,
    "steer": Steer,
    "decide": Decide,
    "resolve": Resolve,
    "cancel": Cancel,
    "ping": Ping,
}


class _GoneError(Exception):
    """The client is gone, or does not take its frames."""


async def serve_live(
    state: AppState, request: ApiRequest, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a connection from its handshake to its end. HostlerError if the handshake has to be refused."""
    subprotocol = await admit_client(state, request)
    await send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": []})
    connection = _Connection(state, request, scope, receive, send)
    state.sockets.add(connection)
    try:
        async with state.open_keys.held(request.holder):
            await connection.run()
    except UnauthenticatedError:
        await connection.close(POLICY_VIOLATION, ENDED)
    except (_GoneError, ConnectionResetError):
        connection.abort()
    finally:
        state.sockets.discard(connection)


class _Connection:
    """One accepted connection."""

    def __init__(
        self, state: AppState, request: ApiRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._state = state
        self._request = request
        self._receive = receive
        self._send = send
        self._socket = scope.get("state", {}).get("socket")
        self._writing = asyncio.Lock()
        self._subscriptions = Subscriptions(request, self.write)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve until the client or the server closes."""
        reading = asyncio.create_task(self._read(), name="commands of a WebSocket")
        try:
            await self.write(
                _encode(
                    Hello(
                        protocol=PROTOCOL,
                        workspace_id=self._request.workspace_id,
                        max_subscriptions=MAX_SUBSCRIPTIONS,
                        max_frame_bytes=MAX_BODY_BYTES,
                    )
                )
            )
            await asyncio.wait({reading, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():
                raise _GoneError
            await reading
        finally:
            reading.cancel()
            await self._subscriptions.close()
            await asyncio.wait({reading})

    async def write(self, frame: bytes) -> None:
        """Write one text frame; wait while the client accepts none. ConnectionResetError once it is gone.

        A client that takes nothing for STREAM_STUCK_SECONDS is disconnected.
        """
        async with self._writing:
            if self._gone.done():
                raise ConnectionResetError("the WebSocket is closed")
            try:
                async with asyncio.timeout(STREAM_STUCK_SECONDS):
                    await self._send({"type": "websocket.send", "text": frame.decode()})
            except (OSError, RuntimeError, TimeoutError) as error:
                self._lose()
                raise ConnectionResetError("the WebSocket was closed") from error

    async def close(self, code: int, reason: str) -> None:
        """Close with a code, unless the client is gone."""
        try:
            async with asyncio.timeout(1.0):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (OSError, RuntimeError, TimeoutError):
            self.abort()

    def abort(self) -> None:
        """Break the connection off: the client would not take a farewell."""
        if self._socket is not None:
            self._socket.abort()

    def _lose(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    async def _read(self) -> None:
        """Read commands and carry them out, one after the other, until the connection is closed."""
        while (message := await self._receive())["type"] == "websocket.receive":
            await self._carry_out(_bytes_of(message))

    async def _carry_out(self, frame: bytes) -> None:
        """Carry out one command and answer it."""
        request_id: str | None = None
        try:
            head = _head_of(frame)
            request_id = head.id
            command = decode_json(frame, _kind_of(head))
            _check_ids(command)
            take_rate(self._state, self._request.caller)
            if isinstance(command, Subscribe):
                await self._subscribe(command)
            else:
                result = await self._result(command)
                await self.write(_encode(Answer(id=command.id, result=result)))
        except HostlerError as error:
            if not caller_blamed(error):
                log.warning("a command of a WebSocket was refused: %s", error.message)
            await self.write(_encode(Refusal(id=request_id, problem=problem_of(error)), enc_hook=str))

    async def _subscribe(self, command: Subscribe) -> None:
        """Answer before the first event, so that a client knows what its events belong to."""
        self._subscriptions.check(command.subscription)
        source = await open_source(self._request, command)
        answer = Subscribed(subscription=command.subscription, cursor=source.begins)
        await self.write(_encode(Answer(id=command.id, result=answer)))
        self._subscriptions.begin(command.subscription, source)

    async def _result(self, command: Command) -> Any:
        match command:
            case SendCommand():
                return await commands.send(self._request, command)
            case Steer():
                return await commands.steer(self._request, command)
            case Decide():
                return await commands.decide(self._request, command)
            case Resolve():
                return await commands.resolve(self._request, command)
            case Cancel():
                return await commands.cancel(self._request, command)
            case Unsubscribe():
                await self._subscriptions.end(command.subscription)
        return None


def _bytes_of(message: Any) -> bytes:
    text: str | None = message.get("text")
    return text.encode("utf-8", "surrogatepass") if text is not None else bytes(message.get("bytes") or b"")


def _head_of(frame: bytes) -> _Head:
    """Decode what every command has. PayloadTooLargeError; InvalidArgumentError."""
    if len(frame) > MAX_BODY_BYTES:
        raise PayloadTooLargeError(
            f"the frame has {len(frame):,} bytes; at most {MAX_BODY_BYTES:,}", limit=MAX_BODY_BYTES
        )
    try:
        return _heads.decode(frame)
    except DECODE_ERRORS as error:
        raise InvalidArgumentError(
            f"the frame is no command: {error}; send a JSON object with type and id"
        ) from None


def _check_ids(command: Command) -> None:
    for name in command.__struct_fields__:
        value = getattr(command, name)
        if isinstance(value, str) and "\x00" in value:
            raise InvalidArgumentError(f"{name} contains a NUL character; ids must not")


def _kind_of(head: _Head) -> type[Any]:
    """Return the type of a command. InvalidArgumentError for an unknown one."""
    kind = _COMMANDS.get(head.type)
    if kind is None:
        raise InvalidArgumentError(
            f"there is no command {head.type[:40]!r}; {did_you_mean(head.type[:40], _COMMANDS)}"
        )
    return kind
