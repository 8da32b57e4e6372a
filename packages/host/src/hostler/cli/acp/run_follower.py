"""One run, shown to the editor as its results come."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from acp.schema import AgentMessageChunk

from hostler.cli.acp.decisions import decisions_of
from hostler.cli.acp.editor import Editor
from hostler.cli.acp.editor_tools import EditorTools
from hostler.cli.acp.files import block_of
from hostler.cli.acp.host_access import HostAccess, quietly
from hostler.cli.acp.updates import FileShown, RunUpdates, Shown, tool_progress
from hostler.cli.acp.waiting import WaitingCalls
from hostler.domain.run_events import Asked, Completed, Failed
from hostler_protocol.errors import HostlerError

Ended: TypeAlias = Completed | Failed | HostlerError
"""How a run ended; an error if the host was lost before that."""


class RunFollower:
    """Follows a run from its first result to its end. `sequence`: that of the last result shown."""

    def __init__(
        self, editor: Editor, host: HostAccess, tools: EditorTools, session_id: str, run_id: str
    ) -> None:
        self._editor = editor
        self._host = host
        self._session_id = session_id
        self._run_id = run_id
        self._updates = RunUpdates(run_id)
        self._waiting = WaitingCalls(editor, host, tools, session_id, run_id)
        self._grown = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.sequence = 0
        self.is_cancelled = False
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def follow(self) -> None:
        """Show everything, until the run has ended or the host is lost."""
        self._task = asyncio.current_task()
        end: Ended | None = None
        try:
            async for result in self._host.results(self._run_id):
                for shown in self._updates.take(result):
                    if isinstance(shown, Completed | Failed):
                        end = shown
                        await close_calls(self._editor, self._host, self._session_id, self._updates, shown)
                    else:
                        await self._show(shown)
                self.sequence = result.sequence
                self._grown.set()
        except HostlerError as error:
            end = error
        finally:
            self._waiting.stop()
            if not self.ended.done():
                if end is None:
                    self.ended.cancel()
                else:
                    self.ended.set_result(end)
            self._grown.set()

    async def shown_until(self, sequence: int) -> None:
        """Wait until the results up to a sequence are shown, or the run has ended."""
        while self.sequence < sequence and not self.ended.done():
            self._grown.clear()
            await self._grown.wait()

    def leave(self) -> None:
        """Follow it no further; the run goes on."""
        if self._task is not None:
            self._task.cancel()

    async def _show(self, shown: Shown) -> None:
        if isinstance(shown, Asked):
            self._waiting.ask(shown)
        else:
            await show(self._editor, self._host, self._session_id, shown)


async def close_calls(
    editor: Editor, host: HostAccess, session_id: str, updates: RunUpdates, end: Completed | Failed
) -> None:
    """Send an outcome of each call of an ended run that has none: its runner does not report them."""
    if not updates.open_calls:
        return
    decisions = await quietly(decisions_of(host, updates.run_id)) or {}
    for key, call_id in updates.open_calls.items():
        decision = decisions.get(call_id or "")
        refused = decision in ("denied", "expired", "cancelled")
        failed = refused or (decision is None and isinstance(end, Failed))
        update = tool_progress(
            updates.call_id(key),
            status="failed" if failed else "completed",
            text=f"The call was not made: it was {decision}." if refused else "",
        )
        await editor.update(session_id, update)


async def show(editor: Editor, host: HostAccess, session_id: str, shown: Shown) -> None:
    """Send what is shown as an update. What waits and how a run ended is not shown here."""
    if isinstance(shown, FileShown):
        content = await block_of(host, shown.element)
        chunk = AgentMessageChunk(
            session_update="agent_message_chunk", content=content, message_id=shown.message_id
        )
        await editor.update(session_id, chunk)
    elif not isinstance(shown, Asked | Completed | Failed):
        await editor.update(session_id, shown)
