"""A host as a channel object reaches it, without a process: it keeps what comes, and refuses when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from hostler_protocol.errors import HostlerError
from hostler_sdk.channels.attachments import RemoteFile
from hostler_sdk.errors import host_error
from hostler_sdk.scripted.ingest import ScriptedIngest


class Wire:
    """The host, as a channel reaches it; errors come first."""

    def __init__(self, *errors: Exception) -> None:
        self.ingest = ScriptedIngest()
        self.errors = list(errors)

    async def ask(self, method: str, params: Any) -> Any:
        if self.errors:
            error = self.errors.pop(0)
            raise host_error(error) if isinstance(error, HostlerError) else error
        try:
            return self.ingest.answer(params)
        except HostlerError as error:
            raise host_error(error) from error

    def tell_health(self, *_: Any) -> None:
        raise AssertionError


def remote(*tries: Any, **more: Any) -> RemoteFile:
    """A file that gives, at each try, pieces or an error in the end."""
    left = list(tries)

    async def opened() -> AsyncIterator[bytes]:
        for piece in left.pop(0):
            if isinstance(piece, Exception):
                raise piece
            if piece is None:
                await asyncio.Event().wait()
            yield piece

    opener: Callable[[], AsyncIterator[bytes]] = opened
    return RemoteFile(opener, **more)
