"""Messages of LangChain: those that clients send as input, and those of a thread's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hostler.domain.run_events import ContentAdded, FileMade
from hostler.http.dialects.files import artifact_url, content_of, file_at, file_of, shown_file
from hostler_protocol._base import Lenient
from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    Content,
    ContentElement,
    FunctionCall,
    HistoryMessage,
    Role,
    TextElement,
    ToolCall,
    Usage,
)
from hostler_protocol.errors import InvalidArgumentError

MessageType = Literal["human", "ai", "system", "tool"]
_TYPES: dict[str, MessageType] = {
    "human": "human",
    "user": "human",
    "ai": "ai",
    "assistant": "ai",
    "AIMessageChunk": "ai",
    "HumanMessageChunk": "human",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
_ROLES: dict[MessageType, Role] = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPE_OF_ROLE = {role: kind for kind, role in _ROLES.items()}
_NAMES = ("filename", "name", "title")
_FILES = frozenset({"image", "file", "audio", "video"})


class Call(Lenient):
    """A call that an earlier message of the agent made."""

    name: str
    args: Any = None
    id: str | None = None


class SentMessage(Lenient):
    """A message as a client sends it."""

    type: str | None = None
    role: str | None = None
    content: Any = ""
    id: str | None = None
    tool_calls: list[Call] = []
    tool_call_id: str | None = None


class Said(msgspec.Struct, frozen=True):
    """A message of a request, read."""

    kind: MessageType
    contents: list[ContentElement]
    id: str | None
    calls: list[Call] = []
    tool_call_id: str | None = None


class Source(Lenient):
    """Where the bytes of a block are, in the form of Anthropic's."""

    type: str = ""
    data: str | None = None
    media_type: str | None = None
    url: str | None = None


class Block(Lenient):
    """A block of content: LangChain's own, or in the form of OpenAI's or Anthropic's."""

    type: str
    text: str | None = None
    image_url: Any = None
    url: str | None = None
    data: str | None = None
    base64: str | None = None
    mime_type: str | None = None
    source_type: str | None = None
    source: Source | None = None
    file_id: str | None = None
    id: str | None = None
    filename: str | None = None
    metadata: Any = None


def wrong(where: str, expected: str) -> InvalidArgumentError:
    """Return the error of an input that cannot be read."""
    return InvalidArgumentError(
        f"{where}: expected {expected}", errors=[{"field": where, "expected": expected}]
    )


def read_messages(value: Any) -> list[Said]:
    """Read `input.messages`: one message or a list of them. InvalidArgumentError for anything else."""
    given = value if isinstance(value, list) else [value]
    if len(given) == 2 and all(isinstance(one, str) for one in given) and given[0] in _TYPES:
        given = [given]  # ("user", "...") alone
    return [_read(one, place) for place, one in enumerate(given)]


def _read(value: Any, place: int) -> Said:
    where = f"input.messages[{place}]"
    if isinstance(value, str):
        return Said("human", _contents(value, where), None)
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        value = {"role": value[0], "content": value[1]}
    value = _plain(value)
    try:
        sent = msgspec.convert(value, SentMessage)
    except msgspec.ValidationError as error:
        raise wrong(where, f"a message with `type` or `role` and `content` ({error})") from None
    kind = _TYPES.get(sent.type or sent.role or "")
    if kind is None:
        raise wrong(f"{where}.type", "human, ai, system or tool (or the role user, assistant, system, tool)")
    return Said(kind, _contents(sent.content, where), sent.id, sent.tool_calls, sent.tool_call_id)


def _plain(value: Any) -> Any:
    """Return an object that LangChain has serialised as the message that it is."""
    match value:
        case {"kwargs": dict(fields), "id": [*_, str(name)]}:
            return {"type": name.removesuffix("Chunk").removesuffix("Message").lower(), **fields}
        case _:
            return value


def _contents(content: Any, where: str) -> list[ContentElement]:
    if content is None or isinstance(content, str):
        return [TextElement(text=content)] if content else []
    if not isinstance(content, list):
        raise wrong(f"{where}.content", "a text or a list of content blocks")
    found: list[ContentElement] = []
    for number, one in enumerate(content):
        place = f"{where}.content[{number}]"
        if isinstance(one, str):
            one = {"type": "text", "text": one}  # noqa: PLW2901
        try:
            block = msgspec.convert(one, Block)
        except msgspec.ValidationError as error:
            raise wrong(place, f"a text or a content block ({error})") from None
        element = _element(block, place)
        if element is not None:
            found.append(element)
    return found


def _element(block: Block, place: str) -> ContentElement | None:
    """Return a block as an element; None for one that says nothing, or that only its model can read."""
    match block.type:
        case "text":
            return TextElement(text=block.text) if block.text else None
        case "image_url":
            url = block.image_url.get("url") if isinstance(block.image_url, dict) else block.image_url
            if not isinstance(url, str):
                raise wrong(f"{place}.image_url", "a URL, or an object with `url`")
            return _of_url(url, None, place, image=True)
        case kind if kind in _FILES:
            return _file(block, place, image=kind == "image")
        case _:
            return None


def _file(block: Block, place: str, *, image: bool) -> ContentElement | None:
    name = block.filename
    if name is None and isinstance(block.metadata, dict):
        name = next((one for key in _NAMES if isinstance(one := block.metadata.get(key), str)), None)
    source = block.source or Source()
    own = block.file_id or (block.id if block.source_type == "id" else None)
    if own is not None:
        return ArtifactElement(artifact_id=own, mime_type=block.mime_type, file_name=name)
    data, url = block.base64 or block.data or source.data, block.url or source.url
    if data is not None:
        kind = block.mime_type or source.media_type
        return file_of(data, kind, name, image=image)
    if url is not None:
        return _of_url(url, name, place, image=image)
    raise wrong(
        place, "`base64` or `data`, with `mime_type`; or `url`; or `file_id`, an artifact of this host"
    )


def _of_url(url: str, name: str | None, place: str, *, image: bool) -> ContentElement:
    try:
        return file_at(url, name, image=image)
    except ValueError as error:
        raise wrong(place, f"a URL that can be read: {error}") from None


def split(messages: Sequence[Said]) -> tuple[list[Said], list[Said]]:
    """Return the messages before those that are answered, and those: the human's after the agent's last."""
    begin = len(messages)
    while begin and messages[begin - 1].kind in ("human", "system"):
        begin -= 1
    while begin < len(messages) and messages[begin].kind == "system":
        begin += 1
    new = [one for one in messages[begin:] if one.kind == "human"]
    return [one for one in messages if not any(one is other for other in new)], new


def history_of(messages: Sequence[Said]) -> list[HistoryMessage]:
    """Return messages as the history of a thread that the host does not have."""
    return [
        HistoryMessage(
            role=_ROLES[one.kind],
            content=content_of(one.contents) or "",
            tool_calls=[
                ToolCall(
                    id=call.id or call.name,
                    function=FunctionCall(
                        name=call.name, arguments=msgspec.json.encode(call.args or {}).decode()
                    ),
                )
                for call in one.calls
            ],
            tool_call_id=one.tool_call_id if one.kind == "tool" else None,
        )
        for one in messages
        if (one.contents or one.calls) and (one.kind != "tool" or one.tool_call_id is not None)
    ]


# -- what is shown ------------------------------------------------------------------------------------------


def shown_content(content: Content) -> str | list[dict[str, Any]]:
    """Return the content of a message as blocks; as text if it has nothing else."""
    if isinstance(content, str):
        return content
    return [_block(element) for element in content]


def _block(element: ContentElement) -> dict[str, Any]:
    if isinstance(element, TextElement):
        return {"type": "text", "text": element.text}
    return file_block(ContentAdded(0, element))


def file_block(event: ContentAdded | FileMade) -> dict[str, Any]:
    """Return an image or a file. An artifact is named by its path below the host's address."""
    file = shown_file(event)
    if file.is_image:
        return {"type": "image_url", "image_url": {"url": file.url}}
    block: dict[str, Any] = {"type": "file", "url": file.url, "mime_type": file.mime_type}
    if file.name is not None:
        block["filename"] = file.name
    if file.artifact_id is not None:
        block["file_id"] = file.artifact_id
        block["url"] = artifact_url(file.artifact_id)
    return block


def human(message_id: str, content: Content) -> dict[str, Any]:
    """Return a message of the user."""
    return _message("human", message_id, shown_content(content))


def ai(message_id: str, content: str | list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return a complete message of the agent."""
    return {
        **_message("ai", message_id, content),
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        **fields,
    }


def _named(ref: ArtifactRef) -> ArtifactElement:
    return ArtifactElement(artifact_id=ref.artifact_id, mime_type=ref.mime_type, file_name=ref.name)


def of_role(
    role: str, message_id: str, content: Content, refs: Sequence[ArtifactRef] = ()
) -> dict[str, Any] | None:
    """Return a message of a transcript; None for a role that LangChain does not have."""
    kind = _TYPE_OF_ROLE.get(role)  # type: ignore[call-overload]
    if kind is None or kind == "tool":
        return None
    shown = shown_content(content)
    if refs:
        blocks = [{"type": "text", "text": shown}] if isinstance(shown, str) else shown
        shown = [*blocks, *(_block(_named(ref)) for ref in refs)]
    return ai(message_id, shown) if kind == "ai" else _message(kind, message_id, shown)


def tool(message_id: str, call_id: str, name: str, content: str, *, failed: bool) -> dict[str, Any]:
    """Return the outcome of a call."""
    return {
        **_message("tool", message_id, content),
        "name": name,
        "tool_call_id": call_id,
        "artifact": None,
        "status": "error" if failed else "success",
    }


def usage_metadata(usage: Usage) -> dict[str, Any]:
    """Return the tokens of a run; unknown numbers are 0, which LangChain's type demands."""
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    found: dict[str, Any] = {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": usage.total_tokens or given + made,
    }
    if usage.cached_tokens is not None:
        found["input_token_details"] = {"cache_read": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        found["output_token_details"] = {"reasoning": usage.reasoning_tokens}
    return found


def _message(kind: str, message_id: str, content: Any) -> dict[str, Any]:
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": None,
        "id": message_id,
    }
