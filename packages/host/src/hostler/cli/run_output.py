"""The output of a run: text as it streams, or one JSON line per result."""

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
from hostler.cli.terminal import paint
from hostler.cli.terminal_text import harmless
from hostler.journal.feed import StoredResult
from hostler_protocol.content import MessageChunk, text_of
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
    """Prints results. Text goes to standard output, everything else to standard error."""

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
        """The sequence of the last piece shown."""
        self._blanks = ""
        self._open_line = False
        self._thinks = False
        """Whether the last thing shown is a piece of thinking."""

    def result(self, result: StoredResult) -> None:
        """Show one result."""
        if self._as_json:
            write_line(result.json)
            return
        raw = msgspec.json.decode(result.json, type=_DataOnly).data
        try:
            data = decode_data(result.type, raw)
        except InvalidArgumentError:
            return  # a type that this version does not know
        if isinstance(data, MessageDelta):
            self._streamed_until = result.sequence
        self._data(data)

    def _data(self, data: object) -> None:
        match data:
            case MessageDelta(chunk=chunk):
                self._delta(chunk)
            case MessageCompleted(message=message):
                self._whole(text_of(message.content))
            case RunCompleted(message=message) if message is not None:
                self._whole(text_of(message.content))
            case ToolCallStarted(tool_name=name):
                self._note(f"tool {name}")
            case ArtifactCreated() as artifact:
                self._note(f"artifact {artifact.name or artifact.artifact_type}  {artifact.artifact_id}")
            case LogWritten(level="info" | "warning", text=text):
                self._note(text)  # errors have tracebacks, which belong in the journal
            case AttemptStarted(attempt=attempt, cause=cause, discard_after=discard_after):
                self._note(f"attempt {attempt} starts: {cause}")
                if discard_after < self._streamed_until:  # the text is produced again, perhaps differently
                    self._streamed = ""
            case RunPaused():
                self._note("the run is paused: it waits for a decision")
            case RunFailed(code="cancelled", error=error):
                self._note(f"cancelled: {error}")
            case RunFailed(error=error):
                self.end()
                show_error(error)
            case _:
                pass

    def _delta(self, chunk: MessageChunk) -> None:
        if chunk.reasoning and sys.stderr.isatty():
            self._think(chunk.reasoning)
        if text := text_of(chunk.content):
            self._piece(text)

    def _think(self, text: str) -> None:
        """Write a piece of the model's thinking, dimmed, on lines of its own."""
        if not self._thinks:
            self.end()
        self._thinks = True
        sys.stderr.write(paint(text, "dim", sys.stderr))
        sys.stderr.flush()

    def _end_thinking(self) -> None:
        if self._thinks:
            self._thinks = False
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _piece(self, text: str) -> None:
        """Write a piece of the message. Blanks at its end wait: the whole message may not have them."""
        text = self._blanks + text
        shown = text.rstrip()
        self._blanks = text[len(shown) :]
        self._streamed += shown
        self._write(shown)

    def _whole(self, text: str) -> None:
        """Write the rest of a message, or all of it on a new line if it differs from what was streamed."""
        if text.startswith(self._streamed):
            self._write(text[len(self._streamed) :])
        else:
            self.end()
            self._write(text)
        self._streamed = self._blanks = ""
        self.end()

    def _note(self, text: str) -> None:
        self.end()
        note(text)

    def end(self) -> None:
        """End the current line, if it has text."""
        self._end_thinking()
        self._streamed += self._blanks
        self._blanks = ""
        if self._before_end is not None:
            self._before_end()
        if self._open_line:
            self._write("\n")
            self._open_line = False

    def _write(self, text: str) -> None:
        if text:
            self._end_thinking()
            self._write_text(harmless(text) if sys.stdout.isatty() else text)
            self._open_line = not text.endswith("\n")


def _to_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _DataOnly(msgspec.Struct):
    data: msgspec.Raw


@asynccontextmanager
async def interrupts() -> AsyncIterator[asyncio.Event]:
    """Enter with an event that Ctrl-C or SIGTERM sets during the block; a second signal ends the process."""
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
    """Show results until they end. When interrupted, cancel the run and show its end."""
    canceller = asyncio.create_task(_cancel_when(interrupted, cancel))
    showing = asyncio.create_task(_show_all(results, show))
    try:
        await asyncio.wait([showing, canceller], return_when=asyncio.FIRST_COMPLETED)
        if canceller.done():
            canceller.result()  # raises the error if the run could not be cancelled
        await showing
    finally:
        for task in (showing, canceller):
            task.cancel()
        await asyncio.gather(showing, canceller, return_exceptions=True)


async def until_paused(results: AsyncIterator[StoredResult]) -> AsyncIterator[StoredResult]:
    """Yield results until the run ends or pauses: a single command cannot ask for decisions."""
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
