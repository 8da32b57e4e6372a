"""From the updates of a session to the results of a run."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AudioContentBlock,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentToolCallContent,
    CurrentModeUpdate,
    EmbeddedResourceContentBlock,
    FileEditToolCallContent,
    ImageContentBlock,
    PromptResponse,
    ResourceContentBlock,
    SessionInfoUpdate,
    SessionNotification,
    TerminalToolCallContent,
    TextContentBlock,
    TextResourceContents,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
    UserMessageChunk,
)
from pydantic import ValidationError

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import (
    MAX_ANSWER_BYTES,
    MAX_ARTIFACT_BYTES,
    MAX_TEXT_BYTES,
    MAX_THOUGHT_CHARS,
    MAX_THOUGHTS,
    MAX_TOOL_BYTES,
    MAX_TOOL_CALLS,
)
from hostler_acp.notes import Notes
from hostler_sdk import artifact, delta, log, message, tool_completed, tool_started
from hostler_sdk.results import Result
from hostler_sdk.types import Usage

_MARKS = {"completed": "x", "in_progress": ">", "pending": " "}
_SILENT = (
    UserMessageChunk,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
    UsageUpdate,
)
"""Updates that need no result: they are about the client's display."""
ToolCall = ToolCallStart | ToolCallProgress | ToolCallUpdate


def tool_name(kind: str | None) -> str:
    """Return the name of an agent's own tool, as results and rules of approval have it."""
    return f"acp.{kind or 'other'}"


def shortened(value: Any, most: int = MAX_TOOL_BYTES) -> Any:
    """Return a JSON value, or the beginning of its text if it is larger than `most` bytes."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    data = text.encode(errors="replace")
    if len(data) <= most:
        return value if not isinstance(value, str) else data.decode()
    return data[:most].decode(errors="ignore") + f" ... ({len(data):,} bytes in all)"


def plain(text: str) -> str:
    """Return the text with what is no Unicode replaced: JSON can hold a half of a surrogate pair."""
    return text.encode(errors="replace").decode()


class AgentAnswer:
    """The answer of an agent as it comes: messages, parted by its tool calls."""

    def __init__(self, notes: Notes, *, has_text: bool = False) -> None:
        self._notes = notes
        self._pieces: list[str] = []
        self._size = self._whole_size = 0
        self._thought: list[str] = []
        self._thought_chars = self._thoughts = 0
        self._message_id: str | None = None
        self._number = 0
        self._calls: dict[str, str] = {}
        """Names of the tool calls that have begun and not ended, by their ids."""
        self.shown: dict[str, dict[str, Any]] = {}
        """`kind` of these calls, and what was `shown` of them: a permission request may leave it out."""
        self._ended: set[str] = set()
        self._plan = ""
        self.has_text = has_text

    def take(self, params: Any) -> Iterator[Result]:
        """Return the results of an update. Raises AcpFailure if a bound is reached."""
        try:
            update = SessionNotification.model_validate(params).update
        except ValidationError as error:
            self._notes.write(
                f"an update of the agent is not understood: {_misfit(params, error)}", "warning"
            )
            return
        match update:
            case AgentMessageChunk(content=content):
                yield from self._end_thought()
                yield from self._content(content, update.message_id)
            case AgentThoughtChunk(content=TextContentBlock(text=text)):
                yield from self._think(text)
            case ToolCallStart() | ToolCallProgress():
                yield from self._end_thought()
                yield from self._tool(update)
            case AgentPlanUpdate(entries=entries):
                yield from self._end_thought()
                plan = "\n".join(f"[{_MARKS[one.status]}] {plain(one.content)}" for one in entries)
                if plan != self._plan:
                    self._plan = plan
                    yield log(shortened(f"plan of the agent:\n{plan}", MAX_TOOL_BYTES // 2))
            case _ if not isinstance(update, _SILENT):
                self._notes.write(f"an update of the agent has no result here: {update.session_update}")

    def end(self) -> Iterator[Result]:
        """Return what is left: the last thought and message, and an end for each open tool call."""
        yield from self._end_thought()
        yield from self.end_message()
        for id_, name in self._calls.items():
            yield tool_completed(id_, name, error="the agent's turn ended before this call did")
        self._calls.clear()
        self.shown.clear()

    def end_message(self) -> Iterator[Result]:
        """Return the message that is being written."""
        text = "".join(self._pieces)
        if text.strip():
            self.has_text = True
            yield message(text, message_id=self._id())
        if self._pieces:
            self._number += 1
        self._pieces.clear()
        self._size = 0

    def _id(self) -> str:
        return f"m{self._number}"

    def _content(self, content: Any, message_id: str | None) -> Iterator[Result]:
        if message_id != self._message_id:
            yield from self.end_message()
            self._message_id = message_id
        match content:
            case TextContentBlock(text=text):
                yield from self._text(plain(text))
            case ResourceContentBlock(name=name, uri=uri):
                yield from self._text(plain(f"[{name}]({uri})"))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(text=text)):
                yield from self._text(plain(text))
            case ImageContentBlock() | AudioContentBlock():
                yield from self._picture(content)
            case _:
                self._notes.write(f"a part of the answer has no result here: {content.type}")

    def _picture(self, content: ImageContentBlock | AudioContentBlock) -> Iterator[Result]:
        try:
            data = base64.b64decode(content.data, validate=True)
        except (binascii.Error, ValueError):
            self._notes.write(f"a part of the answer ({content.type}) is not valid base64", "warning")
            return
        if len(data) > MAX_ARTIFACT_BYTES:
            self._notes.write(f"a part of the answer ({content.type}) has over 1 MiB: left out", "warning")
            return
        yield artifact(content.type, data, mime_type=plain(content.mime_type))

    def _text(self, text: str) -> Iterator[Result]:
        if not text:
            return
        size = len(text.encode())
        self._size += size
        self._whole_size += size
        if self._size > MAX_TEXT_BYTES or self._whole_size > MAX_ANSWER_BYTES:
            most = MAX_TEXT_BYTES if self._size > MAX_TEXT_BYTES else MAX_ANSWER_BYTES
            raise AcpFailure(
                "answer_too_long",
                f"the agent's answer has over {most:,} bytes of text, the maximum; let it answer more "
                "briefly, or write a file",
            )
        self._pieces.append(text)
        yield delta(text, self._id())

    def _think(self, text: str) -> Iterator[Result]:
        self._thought.append(plain(text))
        self._thought_chars += len(text)
        if self._thought_chars >= MAX_THOUGHT_CHARS:
            yield from self._end_thought()

    def _end_thought(self) -> Iterator[Result]:
        text = "".join(self._thought)
        self._thought.clear()
        self._thought_chars = 0
        while text.strip() and self._thoughts < MAX_THOUGHTS:
            self._thoughts += 1
            yield log(f"thought of the agent: {text[:MAX_THOUGHT_CHARS]}", "debug")
            text = text[MAX_THOUGHT_CHARS:]

    def _tool(self, update: ToolCallStart | ToolCallProgress) -> Iterator[Result]:
        id_ = plain(update.tool_call_id)
        if id_ in self._ended:
            return
        if id_ not in self._calls:
            if len(self._calls) + len(self._ended) >= MAX_TOOL_CALLS:
                raise AcpFailure("too_much_output", f"the agent began over {MAX_TOOL_CALLS:,} tool calls")
            yield from self.end_message()
            name = self._calls[id_] = tool_name(update.kind)
            self.shown[update.tool_call_id] = {"kind": update.kind, "shown": described(update, None)}
            yield tool_started(id_, name, described(update))
        if update.status in ("completed", "failed"):
            name = self._calls.pop(id_)
            self._ended.add(id_)
            self.shown.pop(update.tool_call_id, None)
            outcome = shortened(_outcome(update))
            if update.status == "completed":
                yield tool_completed(id_, name, result=outcome)
            else:
                yield tool_completed(id_, name, error=outcome)


def described(
    call: ToolCallStart | ToolCallProgress | ToolCallUpdate, most: int | None = MAX_TOOL_BYTES
) -> dict[str, Any]:
    """Return what a tool call of the agent is about, as a JSON object; None: whole, however large."""
    found: dict[str, Any] = {}
    if call.title:
        found["title"] = plain(call.title)
    if call.raw_input is not None:
        found["input"] = _clean(call.raw_input)
    elif texts := content_texts(call.content):
        found["content"] = texts
    return found if most is None else {name: shortened(value, most) for name, value in found.items()}


def _outcome(update: ToolCallStart | ToolCallProgress) -> Any:
    return content_texts(update.content) or _clean(update.raw_output)


def content_texts(content: Sequence[Any] | None) -> str:
    """Return the content of a tool call as text."""
    return plain("\n".join(filter(None, map(_content_text, content or []))))


def _content_text(part: Any) -> str:
    match part:
        case ContentToolCallContent(content=TextContentBlock(text=text)):
            return text
        case ContentToolCallContent(content=content):
            return f"({content.type})"
        case FileEditToolCallContent(path=path, old_text=old, new_text=new):
            return f"{path}:\n--- before\n{old or ''}\n--- after\n{new}"
        case TerminalToolCallContent(terminal_id=terminal):
            return f"(terminal {terminal})"
    return ""


def _clean(value: Any) -> Any:
    """Return a JSON value without halves of surrogate pairs, which no host takes."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _misfit(params: Any, error: ValidationError) -> str:
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{kind!r:.80}: {first['msg']:.200}"


def usage_of(response: PromptResponse) -> Usage | None:
    """Return the tokens that the agent reports for a turn."""
    spent = response.usage
    if spent is None:
        return None
    return Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        total_tokens=spent.total_tokens,
        cached_tokens=spent.cached_read_tokens,
        reasoning_tokens=spent.thought_tokens,
    )
