"""`RunAgentInput`: what a client sends to run an agent, and what of it becomes an event of the host.

Unknown members are ignored, as AG-UI asks for. Parts of messages that cannot be used are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from hostler.domain.legacy_actions import ResumeAction
from hostler.http.dialects.files import file_at, file_of, input_of
from hostler_protocol._base import Lenient
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FunctionCall,
    HistoryMessage,
    Role,
    TextElement,
    ToolCall,
)
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import CallerTool, Delivery, EventEnvelope
from hostler_protocol.ids import digest

DATA_KEY = "ag_ui"
"""Where `state`, `context`, `forwardedProps` and the ids of messages are in the event's data."""
OWN_FILES = "hostler"
"""`provider` of a file source whose `value` is the id of an artifact of this host."""
_HISTORY = frozenset({"user", "assistant", "tool", "system", "developer"})
_MEDIA = frozenset({"image", "audio", "video", "document"})


class Function(Lenient):
    """What an earlier call called."""

    name: str
    arguments: str = ""


class Call(Lenient):
    """A call that the agent made in an earlier message."""

    id: str
    function: Function


class Message(Lenient, rename="camel"):
    """A message of the conversation, of whatever role."""

    id: str
    role: str
    content: Any = None
    tool_call_id: str | None = None
    error: str | None = None
    tool_calls: list[Call] | None = None


class Tool(Lenient):
    """A tool that the application carries out."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class Context(Lenient):
    """Something that the agent shall know in this run."""

    description: str
    value: str


class RunAgentInput(Lenient, rename="camel"):
    """The body of a request that runs an agent."""

    thread_id: str
    run_id: str
    messages: list[Message]
    protocol_version: str | None = None
    parent_run_id: str | None = None
    state: Any = None
    tools: list[Tool] | None = None
    context: list[Context] | None = None
    forwarded_props: Any = None
    resume: list[ResumeAction] | None = None


class Source(Lenient, rename="camel"):
    """Where the bytes of a part are."""

    type: str
    value: str
    mime_type: str | None = None
    provider: str | None = None


class Part(Lenient, rename="camel"):
    """A part of a message. `data`, `url`, `filename`: of `binary`, the older form of files."""

    type: str
    text: str | None = None
    source: Source | None = None
    metadata: Any = None
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    filename: str | None = None


def event_id_of(agent: str, thread_id: str, run_id: str) -> str:
    """Return the id of the event of a run, by the client's id of the run: the same request is one event."""
    return f"ag-ui-{digest([agent, thread_id, run_id])}"


def check(given: RunAgentInput) -> None:
    """Raise InvalidArgumentError for what the types do not say."""
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        if not value or "\x00" in value:
            raise InvalidArgumentError(
                f"{name}: expected a text of one character or more, none of them NUL",
                errors=[{"field": name, "expected": "a text of one character or more"}],
            )
    if given.state is not None and not isinstance(given.state, dict):
        raise InvalidArgumentError(
            "state: expected an object: the state of an agent is values by key",
            errors=[{"field": "state", "expected": "an object"}],
        )


def newest(messages: Sequence[Message], role: str) -> list[Message]:
    """Return the messages of a role after the last answer of the agent."""
    found: list[Message] = []
    for message in reversed(messages):
        if message.role in ("assistant", "reasoning", "activity"):
            break
        if message.role == role:
            found.append(message)
    return found[::-1]


def history_of(messages: Sequence[Message], said: Sequence[Message]) -> list[HistoryMessage]:
    """Return the messages before those that are answered, for a thread that the host does not have."""
    first = next(place for place, message in enumerate(messages) if message is said[0])
    found = []
    for message in messages[:first]:
        if message.role not in _HISTORY or (message.role == "tool") != (message.tool_call_id is not None):
            continue
        contents = contents_of(message.content, message.id)
        whole = contents[0].text if len(contents) == 1 and isinstance(contents[0], TextElement) else contents
        made = [
            ToolCall(
                id=call.id, function=FunctionCall(name=call.function.name, arguments=call.function.arguments)
            )
            for call in message.tool_calls or []
        ]
        if not contents and not made:
            continue
        found.append(
            HistoryMessage(
                role=cast(Role, message.role),
                content=whole or "",
                tool_calls=made,
                tool_call_id=message.tool_call_id,
            )
        )
    return found


def envelope_of(
    agent: str, given: RunAgentInput, said: Sequence[Message], *, history: int = 0
) -> EventEnvelope:
    """Return the event that a run of the agent answers: the newest messages of the user, as one input.

    `history`: the number of messages that it brings.
    """
    contents = [element for message in said for element in contents_of(message.content, message.id)]
    tools = [
        CallerTool(name=tool.name, description=tool.description, parameters=tool.parameters or {})
        for tool in given.tools or []
    ]
    return EventEnvelope(
        event_type="message.received",
        input=input_of(contents, tools),
        event_id=event_id_of(agent, given.thread_id, given.run_id),
        agent=agent,
        conversation_id=given.thread_id,
        delivery=Delivery(surface="ag-ui"),
        data=_data_of(given, said, history),
    )


def _data_of(given: RunAgentInput, said: Sequence[Message], history: int) -> dict[str, Any]:
    own: dict[str, Any] = {"run_id": given.run_id, "message_ids": [message.id for message in said]}
    if history:
        own["history"] = history
    if given.state:
        own["state"] = given.state
    if given.context:
        own["context"] = [{"description": one.description, "value": one.value} for one in given.context]
    if given.parent_run_id is not None:
        own["parent_run_id"] = given.parent_run_id
    data: dict[str, Any] = {DATA_KEY: own}
    if isinstance(given.forwarded_props, dict) and given.forwarded_props:
        data["params"] = given.forwarded_props  # `adapter.extra.params` of the run
    elif given.forwarded_props:
        own["forwarded_props"] = given.forwarded_props
    return data


def contents_of(content: Any, where: str) -> list[ContentElement]:
    """Return the content of a message as elements. InvalidArgumentError if it is neither text nor parts."""
    if isinstance(content, str):
        return [TextElement(text=content)] if content else []
    if content is None:
        return []
    try:
        parts = msgspec.convert(content, list[Part])
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(
            f"messages: the content of {where[:100]!r} is neither a text nor a list of parts: {error}",
            errors=[{"field": "messages", "expected": "content that is a text or a list of parts"}],
        ) from None
    return [element for part in parts if (element := _element_of(part)) is not None]


def _element_of(part: Part) -> ContentElement | None:
    """Return a part as an element; None for one that cannot be used."""
    if part.type == "text":
        return TextElement(text=part.text) if part.text else None
    if part.type == "binary":
        return _of_binary(part, _name_of(part))
    if part.source is None or part.type not in _MEDIA:
        return None
    return _of_source(part.source, _name_of(part), image=part.type == "image")


def _of_source(source: Source, name: str | None, *, image: bool) -> ContentElement | None:
    match source.type:
        case "url":
            return _of_url(source.value, name, image=image)
        case "data":
            return file_of(source.value, source.mime_type, name, image=image)
        case "file" if source.provider == OWN_FILES:
            return ArtifactElement(artifact_id=source.value, mime_type=source.mime_type, file_name=name)
        case _:
            return None  # a handle of another service: only that one can read it


def _of_binary(part: Part, name: str | None) -> ContentElement | None:
    image = (part.mime_type or "").startswith("image/")
    if part.data is not None:
        return file_of(part.data, part.mime_type, name, image=image)
    return None if part.url is None else _of_url(part.url, name, image=image)


def _of_url(url: str, name: str | None, *, image: bool) -> ContentElement:
    try:
        return file_at(url, name, image=image)
    except ValueError as error:
        raise _wrong_file(error) from None


def _wrong_file(error: ValueError) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"messages: the address of a file: {error}",
        errors=[{"field": "messages", "expected": "files by http, https or data"}],
    )


def _name_of(part: Part) -> str | None:
    if part.filename is not None:
        return part.filename
    if isinstance(part.metadata, dict):
        for key in ("filename", "fileName", "name", "title"):
            if isinstance(name := part.metadata.get(key), str):
                return name
    return None
