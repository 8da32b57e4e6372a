"""Ids of items, names of tools, and other small translations between a run and the items of a response."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from hostler.domain.pause_views import CallView
from hostler.http.openai.responses_types import (
    Annotation,
    FileCitation,
    InputTokens,
    OutputTokens,
    ResponseUsage,
    UrlCitation,
)
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrlElement,
    Usage,
)
from hostler_protocol.errors import NotFoundError

APPROVAL = "mcpr"
"""The prefix of an approval request's id."""
NO_SERVER = "hostler"
"""The label of tools whose names have no plugin or server in front."""


class ToolName(NamedTuple):
    """A tool's name in two parts, as `mcp_call` and `mcp_approval_request` have it."""

    server_label: str
    name: str


class ApprovalId(NamedTuple):
    """What the id of an approval request says: the call, and the digest of what it shows."""

    run_id: str
    call_id: str
    args_hash: str


def split_tool(tool: str) -> ToolName:
    """Return the server and the name of a tool like `shop.book`."""
    server, dot, name = tool.partition(".")
    return ToolName(server, name) if dot and server and name else ToolName(NO_SERVER, tool)


def approval_id(run_id: str, call_id: str, args_hash: str | None) -> str:
    """Return the id of an approval request."""
    return f"{APPROVAL}_{run_id}_{args_hash or ''}_{call_id}"


def read_approval_id(text: str) -> ApprovalId:
    """Return what the id of an approval request says. NotFoundError for any other text."""
    parts = text.split("_", 3)
    if len(parts) == 4 and parts[0] == APPROVAL and all(parts) and "\x00" not in text:
        return ApprovalId(parts[1], parts[3], parts[2])
    raise NotFoundError(f"no approval request with the id {text[:200]!r} waits here")


def json_text(value: Any) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def arguments_text(arguments: Any) -> str:
    """Return arguments as JSON text."""
    return msgspec.json.encode({} if arguments is None else arguments).decode()


def result_of(text: str, call: CallView) -> Any:
    """Return what a call of the client returned: text, or what it is the JSON of, if the tool says of which
    form its results are.
    """
    if call.result_schema is None:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def usage_of(usage: Usage | None) -> ResponseUsage | None:
    """Return the usage of a run; None as long as input or output is unknown."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    total = usage.total_tokens
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokens(cached_tokens=usage.cached_tokens or 0),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokens(reasoning_tokens=usage.reasoning_tokens or 0),
        total_tokens=usage.input_tokens + usage.output_tokens if total is None else total,
    )


def annotation_of(element: ContentElement, run_id: str, at: int) -> Annotation | None:
    """Return an image or a file as an annotation at a place of the text; None for what has no address."""
    match element:
        case ArtifactElement():
            return FileCitation(
                container_id=run_id,
                file_id=element.artifact_id,
                filename=element.file_name or element.artifact_id,
                start_index=at,
                end_index=at,
            )
        case ImageUrlElement():
            return UrlCitation(url=element.image_url.url, title="image", start_index=at, end_index=at)
        case FileUrlElement():
            title = element.file_name or "file"
            return UrlCitation(url=element.file_url, title=title, start_index=at, end_index=at)
        case ImageBase64Element():
            address = element.image_base64
            if not address.startswith("data:"):
                address = f"data:{element.mime_type or 'image/png'};base64,{address}"
            return UrlCitation(url=address, title="image", start_index=at, end_index=at)
        case FileBase64Element():
            address = f"data:{element.mime_type or 'application/octet-stream'};base64,{element.file_base64}"
            title = element.file_name or "file"
            return UrlCitation(url=address, title=title, start_index=at, end_index=at)
        case _:
            return None
