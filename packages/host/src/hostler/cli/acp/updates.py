"""The events of a run as updates of a session: pure, the same live and when a session is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    PlanEntry,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

from hostler.cli.acp.limits import MAX_SHOWN_CHARS, MAX_TITLE_CHARS
from hostler.domain.record import Record
from hostler.domain.run_event_reader import RunEvents
from hostler.domain.run_events import (
    Asked,
    Completed,
    ContentAdded,
    Failed,
    FileMade,
    MessageEnded,
    MessageStarted,
    ReasoningAdded,
    RunEvent,
    TextAdded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.journal.feed import StoredResult
from hostler_protocol.content import ArtifactElement, ContentElement
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.results import ArtifactCreated, LogWritten, decode_data

Update = (
    AgentMessageChunk
    | AgentThoughtChunk
    | AgentPlanUpdate
    | ToolCallStart
    | ToolCallProgress
    | UserMessageChunk
)
THOUGHT, PLAN = "thought of the agent: ", "plan of the agent:\n"
"""How the runner of coding agents writes what the protocol has own updates for (runners/acp)."""
_PLAN_LINE = re.compile(r"\[([x> ])\] (.*)")
_PLAN_STATUS = {"x": "completed", ">": "in_progress", " ": "pending"}
_KINDS = {
    "read": ("read", "get", "list", "show", "load", "view", "open"),
    "edit": ("write", "edit", "patch", "create", "update", "save", "set"),
    "delete": ("delete", "remove"),
    "move": ("move", "rename"),
    "search": ("search", "find", "grep", "query"),
    "execute": ("execute", "exec", "run", "shell", "command", "bash", "terminal"),
    "fetch": ("fetch", "download", "browse", "http"),
    "think": ("think", "plan"),
}
_WORD = re.compile(r"[a-z]+")


class FileShown(Record):
    """A file of the answer, to be fetched and shown. `what` is set for an element with the content itself."""

    message_id: str
    element: ContentElement


Shown = Update | FileShown | Asked | Completed | Failed


class _Data(msgspec.Struct):
    data: msgspec.Raw


_data = msgspec.json.Decoder(_Data)


class RunUpdates:
    """Reads the results of one run, from the first one, and yields what the editor is shown.

    `Asked` stands where a call waits for people or the client; `Completed` or `Failed` is the end.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.open_calls: dict[str, str | None] = {}
        """Keys of the calls without an outcome so far -> the host's id, if the call had to wait."""
        self._events = RunEvents()
        self._said = False
        """Whether the last thing shown is text of the agent, from which another message is set apart."""
        self._apart = False

    def take(self, result: StoredResult) -> Iterator[Shown]:
        """Yield what one result shows; nothing for a type that this version does not know."""
        raw = _data.decode(result.json).data
        try:
            data = decode_data(result.type, raw)
        except InvalidArgumentError:
            return
        if isinstance(data, LogWritten):
            yield from self._mark(self._log(data))
            return
        for event in self._events.take(result.sequence, data):
            self._note_call(event)
            match event:
                case Asked() | Completed() | Failed():
                    yield from self._mark(iter([event]))
                case _:
                    yield from self._mark(self._event(event))

    def call_id(self, key: str) -> str:
        """Return the id of a call in the session: models use the same ids in several runs."""
        return f"{self.run_id}/{key}"

    def _note_call(self, event: RunEvent) -> None:
        match event:
            case ToolCalled(key=key):
                self.open_calls[key] = None
            case Asked(key=str(key), request=request) if key in self.open_calls:
                self.open_calls[key] = request.call_id
            case ToolReturned(key=key) | ToolDropped(key=key):
                self.open_calls.pop(key, None)

    def _mark(self, shown: Iterator[Shown]) -> Iterator[Shown]:
        for one in shown:
            self._said = isinstance(one, AgentMessageChunk)
            yield one

    def _event(self, event: Any) -> Iterator[Shown]:
        match event:
            case MessageStarted():
                self._apart = self._said
            case TextAdded(key=key, text=text):
                apart, self._apart = ("\n\n" if self._apart else ""), False
                yield agent_text(apart + text, self._message_id(key))
            case ReasoningAdded(text=text):
                yield thought(text)
            case ContentAdded(key=key, element=element):
                yield FileShown(self._message_id(key), element)
            case FileMade(file=file):
                if file.artifact_id is not None:
                    yield FileShown(self._message_id(0), _element_of(file, file.artifact_id))
            case MessageEnded(incomplete=True, text=text) if text.strip():
                yield thought("The answer was interrupted here. What follows is a new one.")
            case ToolCalled():
                yield self._called(event)
            case ToolReturned():
                yield self._returned(event)
            case ToolDropped(key=key):
                yield tool_progress(
                    self.call_id(key), status="failed", text="The agent was interrupted and did without it."
                )

    def _message_id(self, key: int) -> str:
        return f"{self.run_id}.{key}"

    def _called(self, event: ToolCalled) -> ToolCallStart:
        return ToolCallStart(
            session_update="tool_call",
            tool_call_id=self.call_id(event.key),
            title=title_of(event.name, event.arguments),
            kind=kind_of(event.name),  # type: ignore[arg-type]
            status="in_progress",
            raw_input=event.arguments,
        )

    def _returned(self, event: ToolReturned) -> ToolCallProgress:
        failed = event.error is not None
        outcome = event.error if failed else event.result
        return tool_progress(
            self.call_id(event.key),
            status="failed" if failed else "completed",
            text=outcome_text(outcome),
            raw_output=outcome,
        )

    def _log(self, data: LogWritten) -> Iterator[Shown]:
        if data.text.startswith(PLAN):
            entries = _plan_of(data.text.removeprefix(PLAN))
            if entries:
                yield AgentPlanUpdate(session_update="plan", entries=entries)
                return
        if data.text.startswith(THOUGHT):
            yield thought(data.text.removeprefix(THOUGHT))
        elif data.level in ("info", "warning"):
            yield thought(f"{data.text}\n\n")


def agent_text(text: str, message_id: str | None = None) -> AgentMessageChunk:
    """Return text of the agent."""
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=text_block(text), message_id=message_id
    )


def user_text(text: str, message_id: str | None = None) -> UserMessageChunk:
    """Return text of the person."""
    return UserMessageChunk(
        session_update="user_message_chunk", content=text_block(text), message_id=message_id
    )


def thought(text: str) -> AgentThoughtChunk:
    """Return a thought of the agent."""
    return AgentThoughtChunk(session_update="agent_thought_chunk", content=text_block(text))


def text_block(text: str) -> TextContentBlock:
    """Return text as content."""
    return TextContentBlock(type="text", text=text)


def tool_text(text: str) -> ContentToolCallContent:
    """Return text as the content of a tool call."""
    return ContentToolCallContent(type="content", content=text_block(text))


def tool_progress(
    call_id: str, *, status: str | None = None, text: str = "", raw_output: Any = None, content: Any = None
) -> ToolCallProgress:
    """Return what has changed of a tool call. `content` replaces `text`."""
    if content is None and text:
        content = [tool_text(text)]
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id,
        status=status,  # type: ignore[arg-type]
        content=content,
        raw_output=raw_output,
    )


def title_of(name: str, arguments: Any) -> str:
    """Return a title of a call in one line: the runner's own, else the tool and its shortest arguments."""
    if isinstance(arguments, dict):
        own = arguments.get("title")
        if isinstance(own, str) and own.strip() and name.startswith("acp."):
            return _line(own)
        values = [value for value in arguments.values() if isinstance(value, str | int | float)]
        if len(values) == 1 or any(name in arguments for name in ("path", "command", "query", "url")):
            named = [arguments[key] for key in ("path", "command", "query", "url") if key in arguments]
            return _line(f"{name} {(named or values)[0]}")
    return _line(name or "tool")


def kind_of(name: str) -> str:
    """Return the kind of a tool by its name: what kind of icon an editor shows for it."""
    words = _WORD.findall(name.lower().rpartition(".")[2])
    for word in words:
        for kind, hints in _KINDS.items():
            if word == kind or word in hints:
                return kind
    return "other"


def outcome_text(value: Any) -> str:
    """Return a tool's result as text, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    if value is None:
        return ""
    left = len(text) - MAX_SHOWN_CHARS
    return text if left <= 0 else f"{text[:MAX_SHOWN_CHARS]}\n... and {left:,} characters more"


def session_title(text: str) -> str:
    """Return the title of a session that begins with a text."""
    return _line(text, MAX_TITLE_CHARS)


def _line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _plan_of(text: str) -> list[PlanEntry]:
    found = [_PLAN_LINE.fullmatch(line) for line in text.splitlines()]
    return [
        PlanEntry(content=one[2], priority="medium", status=_PLAN_STATUS[one[1]])  # type: ignore[arg-type]
        for one in found
        if one is not None
    ]


def _element_of(file: ArtifactCreated, artifact_id: str) -> ArtifactElement:
    return ArtifactElement(
        artifact_id=artifact_id, mime_type=file.mime_type, file_name=file.name, size_bytes=file.size_bytes
    )
