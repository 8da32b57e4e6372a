"""The bodies of Chat Completions, as its clients send and read them.

Requests are lenient: a field that is not named here changes nothing for an agent, and is ignored.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler_protocol._base import always


class _Wire(msgspec.Struct, kw_only=True):
    """Of a request: null and absent are the same, other fields are ignored."""


class _Said(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of a response."""


# -- requests: content -------------------------------------------------------------------------------------


class TextPart(_Wire, tag="text", tag_field="type"):
    """A text."""

    text: str


class RefusalPart(_Wire, tag="refusal", tag_field="type"):
    """A refusal of an earlier answer: text to the agent."""

    refusal: str


class PartImageUrl(_Wire):
    """An address, or a `data:` URL."""

    url: str
    detail: str | None = None


class ImagePart(_Wire, tag="image_url", tag_field="type"):
    """An image."""

    image_url: PartImageUrl


class PartAudio(_Wire):
    """Base64, and its format, such as `wav` or `mp3`."""

    data: str
    format: str


class AudioPart(_Wire, tag="input_audio", tag_field="type"):
    """A sound."""

    input_audio: PartAudio


class PartFile(_Wire):
    """A file: its content as `data:` URL or base64, or the id of an artifact."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(_Wire, tag="file", tag_field="type"):
    """A file."""

    file: PartFile


Part = TextPart | RefusalPart | ImagePart | AudioPart | FilePart
Content = str | list[Part] | None


# -- requests: messages ------------------------------------------------------------------------------------


class CalledFunction(_Wire):
    """A call of a tool: its arguments as JSON text."""

    name: str
    arguments: str = "{}"


class GivenCall(_Wire):
    """A call of an earlier answer."""

    id: str
    function: CalledFunction


class SystemMessage(_Wire, tag="system", tag_field="role"):
    """Instructions."""

    content: Content
    name: str | None = None


class DeveloperMessage(_Wire, tag="developer", tag_field="role"):
    """Instructions."""

    content: Content
    name: str | None = None


class UserMessage(_Wire, tag="user", tag_field="role"):
    """What a person says. `name` of its author."""

    content: Content
    name: str | None = None


class AssistantMessage(_Wire, tag="assistant", tag_field="role"):
    """An earlier answer."""

    content: Content = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[GivenCall] | None = None


class ToolMessage(_Wire, tag="tool", tag_field="role"):
    """The result of a call. `is_error` (an extension): the call failed, and `content` says why."""

    content: Content
    tool_call_id: str
    is_error: bool = False


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


# -- requests: tools and options ---------------------------------------------------------------------------


class ToolFunction(_Wire):
    """A tool that the client carries out. `parameters` is JSON Schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ClientTool(_Wire, tag="function", tag_field="type"):
    """A tool of the client."""

    function: ToolFunction


class StreamOptions(_Wire):
    """`include_usage`: a last chunk with what the run has used."""

    include_usage: bool | None = None


class ChatRequest(_Wire):
    """`POST /v1/chat/completions`. `model` is the name of an agent.

    The fields from `audio` to `web_search_options` are refused where they ask for what no agent gives; those
    in PASSED_ON reach the agent.
    """

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ClientTool] | None = None
    tool_choice: Any = None
    metadata: dict[str, Any] | None = None
    user: str | None = None

    audio: Any = None
    modalities: list[str] | None = None
    functions: Any = None
    function_call: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    n: int | None = None
    web_search_options: Any = None

    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    verbosity: str | None = None


PASSED_ON = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
)
"""Options that the agent gets as `ctx.adapter.extra["params"]`; what it makes of them is its own."""


# -- responses ---------------------------------------------------------------------------------------------


class SaidFunction(_Said):
    """A call: its arguments as JSON text."""

    name: str
    arguments: str


class SaidCall(_Said):
    """A call that the client shall make. `index` only in streams."""

    id: str
    function: SaidFunction
    type: Literal["function"] = always("function")
    index: int | None = None


class UrlCitation(_Said):
    """Where a file is that the answer names, and the characters of the answer that name it."""

    start_index: int
    end_index: int
    title: str
    url: str


class Annotation(_Said):
    """A file of the answer."""

    url_citation: UrlCitation
    type: Literal["url_citation"] = always("url_citation")


class Delta(_Said):
    """What a chunk adds."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[SaidCall] | None = None
    annotations: list[Annotation] | None = None


class Shown(_Said):
    """An extension: the message of the run that a chunk's text belongs to, counted from 1.

    `incomplete`: it is over, and in no transcript, since its attempt was superseded.
    """

    message: int
    incomplete: bool = False


class TokenDetails(_Said):
    """Parts of a number of tokens."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct, kw_only=True):
    """What a run has used so far."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: TokenDetails | msgspec.UnsetType = msgspec.UNSET
    completion_tokens_details: TokenDetails | msgspec.UnsetType = msgspec.UNSET


class ChunkChoice(msgspec.Struct, kw_only=True):
    """The one choice of a chunk."""

    delta: Delta
    index: int = 0
    finish_reason: str | None = None


class Chunk(msgspec.Struct, kw_only=True):
    """One event of a stream. `usage`: absent unless the request asks for it; null but in the last."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    usage: ChatUsage | msgspec.UnsetType | None = msgspec.UNSET
    hostler: Shown | msgspec.UnsetType = msgspec.UNSET


class SaidMessage(msgspec.Struct, kw_only=True):
    """The answer as one message."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[SaidCall] | msgspec.UnsetType = msgspec.UNSET
    annotations: list[Annotation] | msgspec.UnsetType = msgspec.UNSET


class Choice(msgspec.Struct, kw_only=True):
    """The one choice of an answer."""

    message: SaidMessage
    finish_reason: str
    index: int = 0
    logprobs: None = None


class RunFacts(msgspec.Struct, kw_only=True):
    """An extension: the run of an answer, and its complete messages one by one."""

    run_id: str
    messages: list[str]


class Completion(msgspec.Struct, kw_only=True):
    """A whole answer. `usage`: null if unknown."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage | None
    hostler: RunFacts
    object: Literal["chat.completion"] = "chat.completion"
