"""The objects of OpenAI's Responses, as they are on the wire: responses, and the items of their output."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]


class FileCitation(msgspec.Struct, tag="container_file_citation", tag_field="type"):
    """A file that belongs to a message; it is read at `/v1/artifacts/{file_id}/content`."""

    container_id: str
    file_id: str
    filename: str
    start_index: int
    end_index: int


class UrlCitation(msgspec.Struct, tag="url_citation", tag_field="type"):
    """An image or a file by its address."""

    url: str
    title: str
    start_index: int
    end_index: int


Annotation = FileCitation | UrlCitation


class OutputText(msgspec.Struct, tag="output_text", tag_field="type"):
    """The text of a message. Nothing here has log probabilities."""

    text: str = ""
    annotations: list[Annotation] = []
    logprobs: list[Any] = []


class ReasoningText(msgspec.Struct, tag="reasoning_text", tag_field="type"):
    """A model's thinking."""

    text: str = ""


class OutputMessage(msgspec.Struct, tag="message", tag_field="type", omit_defaults=True):
    """A message of the agent. `phase`: `commentary` if it is the host's, and no answer of the agent."""

    id: str
    status: ItemStatus
    content: list[OutputText]
    role: str = msgspec.field(default_factory=lambda: "assistant")
    phase: Literal["commentary"] | None = None


class FunctionCall(msgspec.Struct, tag="function_call", tag_field="type"):
    """A call of a tool that the client carries out. `arguments`: JSON text."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus


class ToolError(msgspec.Struct, tag="mcp_tool_execution_error", tag_field="type"):
    """Why a call failed."""

    content: Any


class McpCall(msgspec.Struct, tag="mcp_call", tag_field="type"):
    """A call of a tool that the host carries out. `server_label`: the tool's plugin or server."""

    id: str
    server_label: str
    name: str
    arguments: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    approval_request_id: str | None = None
    output: str | None = None
    error: ToolError | None = None


class McpApprovalRequest(msgspec.Struct, tag="mcp_approval_request", tag_field="type"):
    """A call that waits for approval. Its id has the digest of what it shows."""

    id: str
    server_label: str
    name: str
    arguments: str


class Reasoning(msgspec.Struct, tag="reasoning", tag_field="type"):
    """A model's thinking before a message."""

    id: str
    status: ItemStatus
    content: list[ReasoningText]
    summary: list[Any] = []


OutputItem = OutputMessage | FunctionCall | McpCall | McpApprovalRequest | Reasoning


class InputTokens(msgspec.Struct):
    """What the input tokens were."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokens(msgspec.Struct):
    """What the output tokens were."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct):
    """Tokens that the run has used so far."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ResponseError(msgspec.Struct):
    """Why a response failed. `code` is one of OpenAI's; `type` is the run's own code."""

    message: str
    type: str
    code: Literal["server_error", "rate_limit_exceeded"] = "server_error"


class IncompleteDetails(msgspec.Struct):
    """Why a response ends early."""

    reason: Literal["max_output_tokens", "content_filter"]


class ConversationRef(msgspec.Struct):
    """The conversation of a response."""

    id: str


class Response(msgspec.Struct, kw_only=True):
    """A response. Times are UTC epoch seconds."""

    id: str
    object: str = msgspec.field(default_factory=lambda: "response")
    created_at: int
    status: ResponseStatus = "in_progress"
    background: bool = False
    conversation: ConversationRef | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    reasoning: dict[str, Any] = {}
    store: bool = True
    temperature: float | None = None
    text: dict[str, Any] = msgspec.field(default_factory=lambda: {"format": {"type": "text"}})
    tool_choice: str = "auto"
    tools: list[dict[str, Any]] = []
    top_p: float | None = None
    truncation: str = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None


class ItemList(msgspec.Struct):
    """A page of items. `first_id` and `last_id` are empty if it is."""

    data: list[Any]
    has_more: bool
    first_id: str
    last_id: str
    object: str = "list"


class Deleted(msgspec.Struct):
    """The answer to a deletion."""

    id: str
    object: str
    deleted: bool = True
