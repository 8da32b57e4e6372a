"""A gate at which a puppet waits until it is opened."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import TracebackType

_numbers = itertools.count()


class Gate:
    """A Unix socket: whoever has connected waits until `open`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f"gate{next(_numbers)}")
        self._waiting: list[asyncio.StreamWriter] = []
        self._is_open = False

    async def __aenter__(self) -> Gate:
        self._server = await asyncio.start_unix_server(self._take, self.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()
        self._server.close()

    async def _take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting.append(writer)
        if self._is_open:
            writer.close()

    def open(self) -> None:
        """Let all through, those who come later, too."""
        self._is_open = True
        for writer in self._waiting:
            writer.close()
