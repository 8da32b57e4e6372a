"""A run as it is shown: text for people as it comes, or one JSON line a result."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hostler.cli.output import INTERRUPTED, note, show_error, write_line
from hostler.journal.feed import StoredResult
from hostler_protocol.content import text_of
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.results import (
    ArtifactCreated,
    AttemptStarted,
    LogWritten,
    MessageCompleted,
    MessageDelta,
    RunCompleted,
    RunFailed,
    RunPaused,
    ToolCallStarted,
    decode_data,
)


class Show:
    """Writes results as they come. Text goes to standard output, everything else to standard error."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        write: Callable[[str], Any] | None = None,
        before_end: Callable[[], None] | None = None,
    ) -> None:
        self._as_json = as_json
        self._before_end = before_end
        self._write_text = write or _to_stdout
        self._streamed = ""
        self._streamed_until = 0
        """Sequence of the last piece shown."""
        self._blanks = ""
        self._open_line = False

    def result(self, result: StoredResult) -> None:
        """Show one result."""
        if self._as_json:
            write_line(result.json)
            return
        raw = msgspec.json.decode(result.json, type=_DataOnly).data
        try:
            data = decode_data(result.type, raw)
        except InvalidArgumentError:
            return  # a type this version does not know: kept in the journal, nothing to show
        if isinstance(data, MessageDelta):
            self._streamed_until = result.sequence
        self._data(data)

    def _data(self, data: object) -> None:
        match data:
            case MessageDelta(chunk=chunk):
                self._piece(text_of(chunk.content))
            case MessageCompleted(message=message):
                self._whole(text_of(message.content))
            case RunCompleted(message=message) if message is not None:
                self._whole(text_of(message.content))
            case ToolCallStarted(tool_name=name):
                self._aside(f"tool {name}")
            case ArtifactCreated() as artifact:
                self._aside(f"artifact {artifact.name or artifact.artifact_type}  {artifact.artifact_id}")
            case LogWritten(level="info" | "warning", text=text):
                self._aside(text)  # errors bring tracebacks: those are for the journal, not for a terminal
            case AttemptStarted(attempt=attempt, cause=cause, discard_after=discard_after):
                self._aside(f"attempt {attempt} begins: {cause}")
                if discard_after < self._streamed_until:  # what was shown is said again, perhaps otherwise
                    self._streamed = ""
            case RunPaused():
                self._aside("the run is paused: it waits for somebody")
            case RunFailed(code="cancelled", error=error):
                self._aside(f"cancelled: {error}")
            case RunFailed(error=error):
                self.end()
                show_error(error)
            case _:
                pass

    def _piece(self, text: str) -> None:
        """Blanks at its end wait for the next piece: the whole message may go on otherwise."""
        text = self._blanks + text
        shown = text.rstrip()
        self._blanks = text[len(shown) :]
        self._streamed += shown
        self._write(shown)

    def _whole(self, text: str) -> None:
        """The whole message counts: what was not streamed of it follows, or all of it in a new line."""
        if text.startswith(self._streamed):
            self._write(text[len(self._streamed) :])
        else:
            self.end()
            self._write(text)
        self._streamed = self._blanks = ""
        self.end()

    def _aside(self, text: str) -> None:
        self.end()
        note(text)

    def end(self) -> None:
        """Finish a line that is not finished."""
        self._streamed += self._blanks
        self._blanks = ""
        if self._before_end is not None:
            self._before_end()
        if self._open_line:
            self._write("\n")
            self._open_line = False

    def _write(self, text: str) -> None:
        if text:
            self._write_text(text)
            self._open_line = not text.endswith("\n")


def _to_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _DataOnly(msgspec.Struct):
    data: msgspec.Raw


@asynccontextmanager
async def interrupts() -> AsyncIterator[asyncio.Event]:
    """An event that Ctrl-C or SIGTERM sets, for the time of the block; a second one ends the process."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, _interrupt, interrupted)
    try:
        yield interrupted
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def follow(
    results: AsyncIterator[StoredResult],
    show: Callable[[StoredResult], None],
    interrupted: asyncio.Event,
    cancel: Callable[[], Awaitable[Any]],
) -> None:
    """Show results until they end; cancel the run when interrupted, and show how it ends."""
    canceller = asyncio.create_task(_cancel_when(interrupted, cancel))
    showing = asyncio.create_task(_show_all(results, show))
    try:
        await asyncio.wait([showing, canceller], return_when=asyncio.FIRST_COMPLETED)
        if canceller.done():
            canceller.result()  # raises what kept the run from being cancelled
        await showing
    finally:
        for task in (showing, canceller):
            task.cancel()
        await asyncio.gather(showing, canceller, return_exceptions=True)


async def until_paused(results: AsyncIterator[StoredResult]) -> AsyncIterator[StoredResult]:
    """Results until the run ends or waits for somebody: nobody at a shell's command can be asked."""
    async for result in results:
        yield result
        if result.type == "run.paused":
            return


async def _show_all(results: AsyncIterator[StoredResult], show: Callable[[StoredResult], None]) -> None:
    async for result in results:
        show(result)


def _interrupt(interrupted: asyncio.Event) -> None:
    if interrupted.is_set():
        os._exit(INTERRUPTED)
    interrupted.set()
    note("cancelling; Ctrl-C again to leave at once")


async def _cancel_when(interrupted: asyncio.Event, cancel: Callable[[], Awaitable[Any]]) -> None:
    await interrupted.wait()
    await cancel()
