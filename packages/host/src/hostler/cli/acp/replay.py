"""A conversation, repeated for an editor that loads its session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from acp.schema import UserMessageChunk

from hostler.cli.acp.editor import Editor
from hostler.cli.acp.files import block_of
from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.limits import MAX_LOADED_ITEMS, MAX_LOADED_RUNS
from hostler.cli.acp.run_follower import close_calls, show
from hostler.cli.acp.updates import RunUpdates, agent_text, thought
from hostler.cli.routes import route
from hostler.domain.run_events import Completed, Failed
from hostler.journal.feed import StoredResult
from hostler_protocol.content import ArtifactElement, ArtifactRef, ContentElement, TextElement
from hostler_protocol.errors import NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import TERMINAL_STATUSES, TranscriptItem

Record = dict[str, Any]


class _EndedRun:
    """A run that is over, shown up to one sequence after the other."""

    def __init__(self, host: HostAccess, run_id: str) -> None:
        self._host = host
        self._updates = RunUpdates(run_id)
        self._results: AsyncIterator[StoredResult] = host.results(run_id)
        self._next: StoredResult | None = None
        self.run_id = run_id

    async def show(self, editor: Editor, session_id: str, until: int | None = None) -> None:
        """Show the results up to a sequence; None: all that are left."""
        while (result := await self._peek()) is not None and (until is None or result.sequence <= until):
            self._next = None
            for shown in self._updates.take(result):
                if isinstance(shown, Completed | Failed):
                    await close_calls(editor, self._host, session_id, self._updates, shown)
                await show(editor, self._host, session_id, shown)

    async def _peek(self) -> StoredResult | None:
        if self._next is None:
            self._next = await anext(self._results, None)
        return self._next


class Conversation:
    """What the host has of a conversation, read once: its messages and its runs."""

    def __init__(self, editor: Editor, host: HostAccess, conversation_id: str) -> None:
        self._editor = editor
        self._host = host
        self._id = conversation_id
        self.items: list[Record] = []
        self.waiting: list[Record] = []
        self.runs: list[Record] = []
        self._steers: dict[str, dict[str, int]] = {}
        """Run -> event -> the result after which the run took it up."""
        self.cut = False
        """Whether there are older messages than `items`."""

    @property
    def active(self) -> list[Record]:
        """The runs that have not ended, oldest first."""
        return [run for run in self.runs if run["status"] not in TERMINAL_STATUSES]

    @property
    def exists(self) -> bool:
        """Whether the host knows anything of it."""
        return bool(self.items or self.waiting or self.runs)

    async def read(self, *, messages: bool) -> None:
        """Read runs, and messages if they are wanted. HostlerError."""
        found = await self._host.ask(
            lambda api: api.items("/v1/runs", limit=MAX_LOADED_RUNS, conversation_id=self._id)
        )
        self.runs = list(reversed(found))
        if messages:
            await self._read_messages()

    async def _read_messages(self) -> None:
        path, before = route("conversations", self._id, "history"), None
        while True:
            cursor = before
            try:
                page = await self._host.ask(lambda api: api.get(path, limit=MAX_PAGE_ITEMS, before=cursor))  # noqa: B023
            except NotFoundError:
                return
            self.items += page["items"]
            self.waiting += page.get("waiting") or []
            before = page.get("next_cursor")
            if not page.get("has_more") or before is None:
                break
            if len(self.items) >= MAX_LOADED_ITEMS:
                self.cut = True
                break
        self.items.reverse()

    async def repeat(self) -> None:
        """Send the messages, tool calls and files of everything that has ended, in order."""
        if self.cut:
            await self._editor.update(self._id, thought("Earlier messages are not shown.\n\n"))
        by_event = self._runs_by_event()
        current: _EndedRun | None = None
        oldest = min((run["created_at"] for run in self.runs), default=None)
        for item in self.items:
            if item["role"] != "user":
                if item["role"] == "assistant" and (oldest is None or item["created_at"] < oldest):
                    await self._message(item)  # of a run that was not read
                continue
            answering = by_event.get(item.get("event_id") or "")
            if current is not None:
                until = None if answering is not None else await self._taken_up(current.run_id, item)
                await current.show(self._editor, self._id, until)
            await self._message(item)
            for run_id in answering or ():
                if current is not None:
                    await current.show(self._editor, self._id)
                current = _EndedRun(self._host, run_id)
        if current is not None:
            await current.show(self._editor, self._id)
        for item in self.waiting:
            await self._message(item)

    def _runs_by_event(self) -> dict[str, list[str]]:
        """Return the ended runs that answered each event; an empty list if its runs are all active."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            answering = found.setdefault(run.get("event_id") or "", [])
            if run["status"] in TERMINAL_STATUSES:
                answering.append(run["run_id"])
        return found

    async def _taken_up(self, run_id: str, item: Record) -> int | None:
        """Return after which result a run took up a message that was sent to it; None: it did not."""
        if run_id not in self._steers:
            found = await self._host.ask(
                lambda api: api.items(route("runs", run_id, "steering"), limit=MAX_PAGE_ITEMS)
            )
            self._steers[run_id] = {one["event_id"]: one["sequence"] or 0 for one in found}
        return self._steers[run_id].get(item.get("event_id") or "")

    async def _message(self, item: Record) -> None:
        message_id = item.get("transcript_id") or item.get("event_id")
        for element in _elements(item):
            content = await block_of(self._host, element)
            if item["role"] == "user":
                chunk = UserMessageChunk(
                    session_update="user_message_chunk", content=content, message_id=message_id
                )
                await self._editor.update(self._id, chunk)
            elif isinstance(element, TextElement):
                await self._editor.update(self._id, agent_text(element.text, message_id))


def _elements(item: Record) -> list[ContentElement]:
    """Return the content of a stored message, with the files that it refers to."""
    known = {name: item[name] for name in TranscriptItem.__struct_fields__ if name in item}
    required = {"transcript_id": "", "cursor": "", "seq": 0}
    message = msgspec.convert({**required, **known}, TranscriptItem).message
    if isinstance(message.content, str):
        found: list[ContentElement] = [TextElement(text=message.content)] if message.content else []
    else:
        found = list(message.content)
    named = {one.artifact_id for one in found if isinstance(one, ArtifactElement)}
    refs = [*message.artifact_refs, *msgspec.convert(item.get("artifact_refs") or [], list[ArtifactRef])]
    for ref in refs:
        if ref.artifact_id not in named:
            named.add(ref.artifact_id)
            found.append(
                ArtifactElement(
                    artifact_id=ref.artifact_id,
                    mime_type=ref.mime_type,
                    file_name=ref.name,
                    size_bytes=ref.size_bytes,
                )
            )
    return found
