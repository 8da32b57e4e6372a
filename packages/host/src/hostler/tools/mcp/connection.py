"""One session with an MCP server, over the official SDK: list tools, call, probe, close.

One task owns the session from start to end. Calls run in the tasks of their callers: if such a task is
cancelled, the SDK notifies the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.mcp.limits import (
    MAX_ERROR_CHARS,
    MAX_LIST_BYTES,
    MAX_LISTED_TOOLS,
    MAX_PAGES,
    MAX_REASON_CHARS,
    McpLimits,
)
from hostler.tools.mcp.session_guard import guarded
from hostler.tools.mcp.transport_errors import TOO_LARGE_CODE, own_kind, too_large
from hostler.version import NAME, VERSION
from hostler_protocol.errors import (
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    PayloadTooLargeError,
    PluginStartError,
    UnavailableError,
)

Progress = Callable[[float, float | None, str | None], None]
EFFECT_KEY = "hostler/effect-key"
"""Key in a call's `_meta`; its value is the same whenever the same call is repeated."""
LISTEN_AGAIN_SECONDS = 30.0
"""Wait before a lost stream of notifications is opened again."""
_EVENT_TOO_LARGE = "SSE stream failed: Server-sent event exceeded"
"""Beginning of the SDK's message about an event over its size limit."""
_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_LOST_CODES = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR})
LONGEST_CALL_SECONDS = 24 * 3600.0
"""The SDK's own timeout, set so long that the host's timeout is the effective one."""
_log = logging.getLogger(__name__)


class McpConnection:
    """One session. The future `over` is done, with the reason, as soon as the session cannot be used."""

    def __init__(self, name: str, transport: Transport, limits: McpLimits, *, seconds: float) -> None:
        self.name = name
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()
        """Set when the server notifies that its list of tools has changed."""
        self.heard_at = time.monotonic()
        self.server = ""
        """The server's name and version as it states them."""
        self._limits = limits
        self._seconds = seconds
        self._max_bytes = 0
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._client = Client(
            guarded(transport, limits, self._on_transport_end),
            cache=None,
            read_timeout_seconds=seconds,
            message_handler=self._on_message,
            client_info=types.Implementation(name=NAME, version=VERSION),
        )
        self._why: Callable[[], Awaitable[str]] | None = None
        self._is_ending = False
        """Whether the server has ended and the reason is being determined."""
        self._task: asyncio.Task[None] | None = None
        self._calls = asyncio.Semaphore(limits.calls)
        self.active = 0
        """Calls that wait for their answer."""

    @classmethod
    async def open(
        cls,
        name: str,
        transport: Transport,
        limits: McpLimits,
        *,
        seconds: float,
        max_bytes: int,
        why: Callable[[], Awaitable[str]] | None = None,
    ) -> McpConnection:
        """Connect and complete the handshake. `why` returns why the server ended. PluginStartError."""
        connection = cls(name, transport, limits, seconds=seconds)
        connection._max_bytes, connection._why = max_bytes, why
        connection._task = asyncio.create_task(connection._run(), name=f"mcp {name}")
        try:
            async with asyncio.timeout(seconds):
                ends: list[asyncio.Future[Any]] = [connection._opened, connection.over]
                await asyncio.wait(ends, return_when="FIRST_COMPLETED")
        except TimeoutError:
            await connection.close()
            raise PluginStartError(f"it did not answer within {seconds:g} s") from None
        except BaseException:
            await connection.close()
            raise
        if connection.over.done():
            await connection.close()
            raise PluginStartError(connection.over.result())
        return connection

    @property
    def is_open(self) -> bool:
        """Whether the session can be used."""
        return not (self.over.done() or self._leave.is_set() or self._is_ending)

    async def close(self) -> None:
        """Close the session and end the server's process."""
        self._leave.set()
        task = self._task
        if task is None:
            return
        if not self._opened.done():
            task.cancel()
        await asyncio.wait([task], timeout=self._limits.cancel_seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])

    def give_up(self, reason: str) -> None:
        """Mark the session as over; its task then closes it."""
        self._set_over(reason)
        self._leave.set()

    # -- life cycle -------------------------------------------------------------------------------

    async def _run(self) -> None:
        reason = "the connection was closed"
        try:
            async with self._client:
                info = self._client.server_info
                self.server = "" if info is None else f"{info.name} {info.version}".strip()[:200]
                self._opened.set_result(None)
                listening = asyncio.create_task(self._listen())
                try:
                    await self._leave.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  whatever the SDK raises is the reason why the server is gone
            _log.debug("mcp %s: the session ended", self.name, exc_info=error)
            reason = _reason(error)
            ended = isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
            if ended and self._why is not None:
                reason = await self._why()
        finally:
            self._set_over(reason)

    def _on_transport_end(self, reason: str | None) -> None:
        """Handle the end of the transport; `reason` None: the server ended it."""
        if reason is None and not self._opened.done():
            return  # the handshake fails, with a better reason
        if reason is not None or self._why is None:
            self.give_up(reason or "the server ended the connection")
        elif not self._leave.is_set():
            self._is_ending = True
            self._finding_reason = asyncio.create_task(self._find_reason(self._why))

    async def _find_reason(self, why: Callable[[], Awaitable[str]]) -> None:
        self.give_up(await why())

    def _set_over(self, reason: str) -> None:
        if not self.over.done():
            self.over.set_result(reason[:MAX_REASON_CHARS])

    async def _on_message(self, message: Any) -> None:
        self.heard_at = time.monotonic()
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()
        elif isinstance(message, Exception):
            _log.debug("mcp %s: %s", self.name, str(message)[:MAX_REASON_CHARS])

    async def _listen(self) -> None:
        """Keep the notification stream of newer protocol revisions open; older servers need none."""
        capabilities = self._client.server_capabilities.tools
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS or capabilities is None:
            return
        while capabilities.list_changed:
            try:
                async with self._client.listen(tools_list_changed=True) as notices:
                    self.changed.set()  # changes before the stream was open are not notified
                    async for _ in notices:
                        self.changed.set()
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError) as error:
                _log.debug("mcp %s: %s", self.name, error)
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    # -- requests ---------------------------------------------------------------------------------

    async def tools(self) -> list[dict[str, Any]]:
        """Return the server's tools, within limits, in the format of the protocol. UnavailableError."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        size, seconds = 0, min(self._seconds, self._limits.list_seconds)
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MAX_PAGES):
                    params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
                    page = await self._client.session.list_tools(params=params)
                    found += [
                        tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools
                    ]
                    size += sum(len(msgspec.json.encode(tool)) for tool in found[-len(page.tools) :])
                    if page.next_cursor is None or len(found) >= MAX_LISTED_TOOLS or size > MAX_LIST_BYTES:
                        break
                    cursor = page.next_cursor
        except TimeoutError:
            raise UnavailableError(f"it did not list its tools within {seconds:g} s") from None
        except (MCPError, ValidationError, RuntimeError, RecursionError) as error:
            raise UnavailableError(f"it did not list its tools: {_reason(error)}") from error
        self.heard_at = time.monotonic()
        return found

    async def probe(self, seconds: float) -> str | None:
        """Return None if the server answers, else the reason."""
        session = self._client.session
        try:
            async with asyncio.timeout(seconds):
                if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await session.send_discover(self._client.protocol_version)
                else:
                    await session.send_ping()
        except TimeoutError:
            return f"it did not answer within {seconds:g} s"
        except RuntimeError as error:
            return _reason(error)
        except MCPError as error:
            if error.code in {types.REQUEST_TIMEOUT, types.CONNECTION_CLOSED} or own_kind(
                error.code, error.data
            ):
                return _reason(error)
        except ValidationError:
            pass  # invalid, but an answer
        self.heard_at = time.monotonic()
        return None

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        seconds: float,
        effect_key: str,
        progress: Progress,
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> dict[str, Any]:
        """Call a tool and return its result in the format of the protocol.

        ToolFailedError, OutcomeUnknownError; after any other error the tool was certainly not called.
        """
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await self._calls.acquire()
        except TimeoutError:
            text = f"{tool} of {self.name} was not called: {self._limits.calls} calls were before it"
            raise DeadlineExceededError(text) from None
        try:
            if confirm is not None:
                await confirm()
            if not self.is_open:
                raise UnavailableError(f"{self.name} was not asked: its connection is over")
            self.active += 1
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    answer = await self._ask(tool, arguments, effect_key, progress)
            except TimeoutError:
                raise OutcomeUnknownError(
                    f"{tool} of {self.name} did not answer within {seconds:.4g} s; it may have done its work"
                ) from None
            finally:
                self.active -= 1
        finally:
            self._calls.release()
        self.heard_at = time.monotonic()
        if isinstance(answer, types.InputRequiredResult):
            text = f"{tool} of {self.name} asks back, and this host answers no questions of servers"
            raise ToolFailedError.of(HostlerError(text))
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def _ask(
        self, tool: str, arguments: Mapping[str, Any], effect_key: str, on_progress: Progress
    ) -> types.CallToolResult | types.InputRequiredResult:
        async def forward(progress: float, total: float | None, message: str | None) -> None:
            self.heard_at = time.monotonic()
            on_progress(progress, total, message)

        meta: Any = {EFFECT_KEY: effect_key}
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments), _meta=meta)
        request = types.CallToolRequest(params=params)
        try:
            # not `call_tool`: it validates results on this loop, in unbounded time
            return await self._client.session.send_request(
                request, _ANSWER, request_read_timeout_seconds=LONGEST_CALL_SECONDS, progress_callback=forward
            )
        except MCPError as error:
            raise self._outcome(tool, error) from error
        except (ValidationError, RecursionError) as error:
            text = f"{tool} of {self.name} answered with what is no result of a tool"
            raise ToolFailedError.of(HostlerError(text)) from error
        except RuntimeError as error:
            raise UnavailableError(f"{self.name} was not asked: {_reason(error)}") from error

    def _outcome(self, tool: str, error: MCPError) -> HostlerError:
        """Convert an error response to what it means for the call."""
        message, code = error.message[:MAX_REASON_CHARS], error.code
        kind = own_kind(code, error.data)
        if kind == "gone":
            self.give_up(message)
        if kind in {"refused", "gone"}:
            return UnavailableError(f"{tool} of {self.name} was not called: {message}")
        large = too_large(self._max_bytes)
        if code == TOO_LARGE_CODE or message.startswith(_EVENT_TOO_LARGE) or large in message:
            text = f"{tool} of {self.name} was called, but {large}"
            return ToolFailedError.of(PayloadTooLargeError(text, limit_bytes=self._max_bytes))
        if kind == "lost" or code in _LOST_CODES:
            text = f"the answer of {tool} of {self.name} was lost, it may have done its work: {message}"
            return OutcomeUnknownError(text)
        text = f"{tool} of {self.name} failed: {error.message[:MAX_ERROR_CHARS]}"
        invalid = code == types.INVALID_PARAMS
        return ToolFailedError.of(InvalidArgumentError(text) if invalid else HostlerError(text))


def _reason(error: BaseException) -> str:
    """Return the error's message, without the exception groups of the SDK's tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return error.message
    if isinstance(error, ValidationError):
        return f"what it answered is no MCP: {error.errors()[0]['msg']}"
    if isinstance(error, HostlerError):
        return error.message
    return str(error) or type(error).__name__
