"""The editor: what it can do, and how it is asked and told. The SDK's connection carries it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import acp
from acp.connection import Connection
from acp.schema import ClientCapabilities, SessionNotification
from acp.task import TaskSupervisor
from pydantic import BaseModel, ValidationError

from hostler.cli.acp.limits import STOP_SECONDS
from hostler.cli.acp.wire import EditorTransport

M = TypeVar("M", bound=BaseModel)
Handle = Callable[[str, Any, bool], Awaitable[Any]]
WITHDRAW_SECONDS = 1.0
"""How long to wait for an editor that does not read, to tell it that a request is withdrawn."""
log = logging.getLogger(__name__)


class EditorError(Exception):
    """The editor refused a request, or its answer is not of the protocol; the text says which."""


class Editor:
    """One editor. Raises ConnectionError once it does not read any more."""

    def __init__(self, transport: EditorTransport, handle: Handle) -> None:
        self._transport = transport
        self._connection = Connection(handle, transport, listening=False)
        self.tasks = TaskSupervisor(source="hostler acp")
        """The work in the background; what fails unexpectedly is logged."""
        self.tasks.add_error_handler(_log_failure)
        self.capabilities = ClientCapabilities()
        self.name = "editor"

    @property
    def reads_files(self) -> bool:
        """Whether the editor reads files."""
        return _has(self.capabilities.fs, "read_text_file")

    @property
    def writes_files(self) -> bool:
        """Whether the editor writes files."""
        return _has(self.capabilities.fs, "write_text_file")

    @property
    def has_terminal(self) -> bool:
        """Whether the editor executes commands."""
        return _has(self.capabilities, "terminal")

    @property
    def has_forms(self) -> bool:
        """Whether the editor shows forms."""
        return getattr(self.capabilities.elicitation, "form", None) is not None

    async def serve(self) -> None:
        """Answer the editor's requests until it closes its side."""
        await self._connection.main_loop()

    async def close(self) -> None:
        """End the work in the background, and close the connection."""
        for stop in (self.tasks.shutdown, self._connection.close):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await stop()

    def after_answer(self, then: Callable[[], object]) -> None:
        """See `EditorTransport.after_answer`."""
        self._transport.after_answer(then)

    async def update(self, session_id: str, update: Any) -> None:
        """Send an update of a session."""
        told = SessionNotification(session_id=session_id, update=update)
        await self._connection.send_notification(acp.CLIENT_METHODS["session_update"], _plain(told))

    async def ask(self, method: str, request: BaseModel, answer: type[M]) -> M:
        """Ask the editor, and return its answer. EditorError.

        If the task is cancelled meanwhile, the request is withdrawn.
        """
        asking = asyncio.ensure_future(self._connection.send_request(method, _plain(request)))
        try:
            found = await asyncio.shield(asking)
        except asyncio.CancelledError:
            if not asking.done():
                with contextlib.suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(WITHDRAW_SECONDS):
                        await self._transport.withdraw(asking)
                asking.cancel()
            raise
        except acp.RequestError as error:
            raise EditorError(f"{method}: {error}") from None
        try:
            return answer.model_validate({} if found is None else found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise EditorError(f"{method}: the answer does not fit, {place}: {first['msg']:.200}") from None


def _has(offered: object, name: str) -> bool:
    """Return whether something is offered. Where an editor states nonsense, the SDK keeps a plain dict."""
    return getattr(offered, name, None) is True


def _plain(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def _log_failure(task: asyncio.Task[Any], error: BaseException) -> None:
    if isinstance(error, ConnectionError):
        log.info("the editor is gone: %s", error)
    else:
        log.error("%s failed", task.get_name(), exc_info=error)
