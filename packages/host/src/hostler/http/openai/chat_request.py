"""What a request of Chat Completions asks for: what is new in it, what came before, and its options. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.http.dialects.answers import read_call_id
from hostler.http.dialects.files import Inline, checked_base64, read_data_url, web_address
from hostler.http.openai import chat_types as types
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FunctionCall,
    HistoryMessage,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    Role,
    TextElement,
    ToolCall,
)
from hostler_protocol.errors import InvalidArgumentError, NotFoundError

AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg"}
_REFUSED = {
    "audio": "an agent answers with text and files",
    "functions": "send `tools`",
    "function_call": "send `tools`",
    "web_search_options": "the agent's own configuration decides what it searches",
}


class ToolResult(Record):
    """What came of a call that the client has made."""

    run_id: str
    call_id: str
    """The host's id."""
    text: str
    failed: bool = False


class Turn(Record):
    """What is new in a request, after the last answer in it."""

    results: list[ToolResult] = msgspec.field(default_factory=list)
    contents: list[ContentElement] = msgspec.field(default_factory=list)
    """Of the new message; empty: there is none."""
    author: str | None = None
    before: list[tuple[int, types.ChatMessage]] = msgspec.field(default_factory=list)
    """The messages beside it, which are its history, with their places in the request."""


def wrong(place: str, sentence: str) -> InvalidArgumentError:
    """Return the error of a field of the body."""
    return InvalidArgumentError(f"body: {place}: {sentence}", errors=[{"field": place, "expected": sentence}])


def check_options(body: types.ChatRequest) -> None:
    """Refuse what no agent gives, so that nobody waits for it. InvalidArgumentError."""
    for name, sentence in _REFUSED.items():
        if getattr(body, name) is not None:
            raise wrong(name, f"this is not supported: {sentence}")
    if body.n not in (None, 1):
        raise wrong("n", "a run gives one answer: leave it out, and send the request again for another")
    if body.modalities is not None and "audio" in body.modalities:
        raise wrong("modalities", "an agent answers with text and files, not with sound")
    if body.logprobs or body.top_logprobs:
        raise wrong("logprobs", "an agent's answer has no log probabilities")


def tools_of(body: types.ChatRequest) -> list[types.ToolFunction]:
    """Return the tools that the client offers in this request. InvalidArgumentError for a forced choice."""
    offered = [tool.function for tool in body.tools or []]
    match body.tool_choice:
        case None | "auto":
            return offered
        case "none":
            return []
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": list(allowed)}}:
            names = {_name_of(tool) for tool in allowed}
            return [tool for tool in offered if tool.name in names]
    raise wrong(
        "tool_choice", "an agent decides itself which tools it calls: expected auto, none or allowed_tools"
    )


def params_of(body: types.ChatRequest) -> dict[str, Any]:
    """Return the options that the agent gets."""
    return {name: value for name in types.PASSED_ON if (value := getattr(body, name)) is not None}


def turn_of(messages: list[types.ChatMessage], *, in_conversation: bool) -> Turn:
    """Return what is new in the messages of a request.

    `in_conversation`: the host has what came before, and all user messages after the last answer are one
    message; else the last of them is the message. InvalidArgumentError if there is nothing new, or a call of
    the last answer has no result; NotFoundError if results are of calls that no run here waits for.
    """
    last = max((n for n, one in enumerate(messages) if isinstance(one, types.AssistantMessage)), default=-1)
    tail = range(last + 1, len(messages))
    said = [n for n in tail if isinstance(messages[n], types.UserMessage)]
    results = _results(messages, last, tail, goes_on=bool(said))
    if not said:
        if not results:
            raise wrong(
                "messages", "after the last answer, expected a message of role user, or results of its calls"
            )
        return Turn(results)
    new = said if in_conversation else said[-1:]
    contents: list[ContentElement] = []
    for n in new:
        contents += contents_of(messages[n].content, f"messages[{n}].content")
    if not contents:
        raise wrong(f"messages[{said[-1]}].content", "the message is empty")
    author = messages[said[-1]]
    before = [] if in_conversation else [(n, one) for n, one in enumerate(messages) if n != said[-1]]
    return Turn(results, contents, author.name if isinstance(author, types.UserMessage) else None, before)


def contents_of(content: types.Content, place: str) -> list[ContentElement]:
    """Return content as the host has it. InvalidArgumentError names the part that is wrong."""
    if content is None or isinstance(content, str):
        return [TextElement(text=content)] if content else []
    return [_element(part, f"{place}[{number}]") for number, part in enumerate(content)]


def history_of(before: list[tuple[int, types.ChatMessage]]) -> list[HistoryMessage]:
    """Return messages of a request as the history of a new conversation. InvalidArgumentError as above.

    Messages that say nothing are left out.
    """
    found: list[HistoryMessage] = []
    for number, message in before:
        content = contents_of(message.content, f"messages[{number}].content")
        calls: list[ToolCall] = []
        call_id: str | None = None
        match message:
            case types.AssistantMessage(refusal=said, tool_calls=given):
                if said:
                    content.append(TextElement(text=said))
                calls = [
                    ToolCall(
                        id=call.id,
                        function=FunctionCall(name=call.function.name, arguments=call.function.arguments),
                    )
                    for call in given or []
                ]
            case types.ToolMessage():
                call_id = message.tool_call_id
        if not content and not calls and call_id is None:
            continue
        name = None if isinstance(message, types.ToolMessage) else message.name
        found.append(
            HistoryMessage(
                role=_role_of(message),
                content=_plain(content),
                name=name or None,
                tool_calls=calls,
                tool_call_id=call_id,
            )
        )
    return found


def _role_of(message: types.ChatMessage) -> Role:
    match message:
        case types.SystemMessage():
            return "system"
        case types.DeveloperMessage():
            return "developer"
        case types.UserMessage():
            return "user"
        case types.AssistantMessage():
            return "assistant"
        case types.ToolMessage():
            return "tool"


def _plain(content: list[ContentElement]) -> str | list[ContentElement]:
    """Return content that is only one text, or none, as that."""
    match content:
        case []:
            return ""
        case [TextElement(text=text)]:
            return text
    return content


def text_of(content: types.Content) -> str:
    """Return the text of content, without its other parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part.text if isinstance(part, types.TextPart) else part.refusal
        for part in content
        if isinstance(part, types.TextPart | types.RefusalPart)
    )


def _results(messages: list[types.ChatMessage], last: int, tail: range, *, goes_on: bool) -> list[ToolResult]:
    """Return the results after the last answer. `goes_on`: a message follows; others' calls are history."""
    found: dict[str, ToolResult] = {}
    for n in tail:
        message = messages[n]
        if not isinstance(message, types.ToolMessage):
            continue
        try:
            run_id, call_id = read_call_id(message.tool_call_id)
        except NotFoundError:
            if goes_on:
                continue
            raise
        if isinstance(message.content, list) and any(
            not isinstance(part, types.TextPart | types.RefusalPart) for part in message.content
        ):
            raise wrong(f"messages[{n}].content", "the result of a call is text")
        found[message.tool_call_id] = ToolResult(run_id, call_id, text_of(message.content), message.is_error)
    answer = messages[last] if last >= 0 else None
    if isinstance(answer, types.AssistantMessage) and found:
        calls = [call.id for call in answer.tool_calls or []]
        missing = [call for call in calls if call not in found]
        if missing:
            raise wrong(
                "messages",
                f"the calls of an answer need their results together: there is none for {', '.join(missing)}",
            )
    if len({result.run_id for result in found.values()}) > 1:
        raise wrong("messages", "the results are of calls of several runs")
    return list(found.values())


def _element(part: types.Part, place: str) -> ContentElement:
    match part:
        case types.TextPart(text=text):
            return TextElement(text=text)
        case types.RefusalPart(refusal=text):
            return TextElement(text=text)
        case types.ImagePart(image_url=image):
            return _image(image, f"{place}.image_url.url")
        case types.AudioPart(input_audio=audio):
            kind = AUDIO_TYPES.get(audio.format.lower())
            if kind is None:
                raise wrong(f"{place}.input_audio.format", f"expected one of {', '.join(AUDIO_TYPES)}")
            data = _base64(audio.data, f"{place}.input_audio.data")
            name = f"audio.{audio.format.lower()}"
            return FileBase64Element(file_base64=data, file_name=name, mime_type=kind)
        case types.FilePart(file=file):
            return _file(file, f"{place}.file")


def _image(image: types.PartImageUrl, place: str) -> ContentElement:
    if image.url.startswith("data:"):
        kind, data = _data_url(image.url, place)
        return ImageBase64Element(image_base64=data, mime_type=kind)
    try:
        return ImageUrlElement(image_url=ImageUrl(url=web_address(image.url), detail=image.detail))
    except ValueError as error:
        raise wrong(place, str(error)) from None


def _file(file: types.PartFile, place: str) -> ContentElement:
    if file.file_id is not None and file.file_data is None:
        return ArtifactElement(artifact_id=file.file_id, file_name=file.filename)
    if file.file_data is None or file.file_id is not None:
        raise wrong(place, "expected either file_data, or file_id with the id of an artifact")
    kind, data = None, file.file_data
    if data.startswith("data:"):
        kind, data = _data_url(data, f"{place}.file_data")
    data = _base64(data, f"{place}.file_data")
    return FileBase64Element(file_base64=data, file_name=file.filename, mime_type=kind)


def _data_url(url: str, place: str) -> Inline:
    if ";base64" not in url.partition(",")[0]:
        raise wrong(place, "expected a data: URL with base64, like data:image/png;base64,...")
    try:
        return read_data_url(url)
    except ValueError as error:
        raise wrong(place, str(error)) from None


def _base64(text: str, place: str) -> str:
    try:
        return checked_base64(text)
    except ValueError as error:
        raise wrong(place, str(error)) from None


def _name_of(tool: Any) -> str | None:
    match tool:
        case {"function": {"name": str(name)}}:
            return name
    return None
