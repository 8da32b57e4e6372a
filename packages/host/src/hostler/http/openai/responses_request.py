"""The body of `POST /v1/responses`: what is taken, what has no effect, and what is refused.

A setting of the model is the agent's business. One that only tunes the answer is taken without effect; one
that promises something about it, which nobody would keep, is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

Metadata = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=64)], Annotated[str, msgspec.Meta(max_length=512)]],
    msgspec.Meta(max_length=16),
]
INCLUDABLE = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
    }
)
"""What `include` may name: nothing here has more to show."""


class ConversationParam(Strict):
    """A conversation by its id."""

    id: str


class CreateResponse(Strict):
    """`POST /v1/responses`. `model` is the name of an agent.

    Without effect: temperature, top_p, parallel_tool_calls, truncation, prompt_cache_key,
    prompt_cache_retention, prompt_cache_options, safety_identifier, service_tier, reasoning, stream_options
    and `text.verbosity`.
    """

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    input: str | list[dict[str, Any]] | None = None
    background: bool | None = None
    conversation: str | ConversationParam | None = None
    include: list[str] | None = None
    instructions: str | None = None
    metadata: Metadata | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Any = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    reasoning: dict[str, Any] | None = None
    stream_options: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    access_programs: Any = None
    background_options: Any = None
    context_management: Any = None
    image: Any = None
    max_output_tokens: Any = None
    max_tool_calls: Any = None
    moderation: Any = None
    prompt: Any = None
    top_logprobs: Any = None


_REFUSED = {
    "access_programs": "it is of OpenAI's own models",
    "context_management": "the agent's runner decides how much of the conversation its model sees",
    "image": "it is of OpenAI's own models",
    "max_output_tokens": "the length of an answer is the agent's; set it in its configuration",
    "max_tool_calls": "set a budget in the agent's resource policy",
    "moderation": "models are moderated where they run",
    "prompt": "the agent has its prompt in its configuration",
    "top_logprobs": "agents give no log probabilities",
}


def check(body: CreateResponse) -> None:
    """Raise InvalidArgumentError, naming the parameter, for what an agent would not keep."""
    for name, why in _REFUSED.items():
        if getattr(body, name) not in (None, 0, [], {}):
            raise refused(name, f"{name} is not supported: {why}")
    if body.previous_response_id is not None and body.conversation is not None:
        raise refused(
            "previous_response_id",
            "send previous_response_id or conversation, not both: each names the conversation",
        )
    form = (body.text or {}).get("format")
    if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
        raise refused("text.format", "text.format: an agent answers with text; only {'type': 'text'} is kept")
    for number, name in enumerate(body.include or []):
        if name not in INCLUDABLE:
            raise refused(
                f"include[{number}]", f"include: {name[:100]!r} is nothing that a response here has"
            )
    if body.tool_choice not in (None, "auto", "none"):
        raise refused(
            "tool_choice", "tool_choice: the agent decides what it calls; expected 'auto' or 'none'"
        )
    if body.background and body.store is False:
        raise refused("background", "background: a response that is not stored cannot be looked up later")


def named_conversation(body: CreateResponse) -> str | None:
    """Return the id of the conversation that a request names."""
    named = body.conversation
    return named.id if isinstance(named, ConversationParam) else named


def refused(param: str, message: str) -> InvalidArgumentError:
    """Return the error for a parameter."""
    return InvalidArgumentError(message, param=param)
