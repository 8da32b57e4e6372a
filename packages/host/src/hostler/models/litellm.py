"""Models of all services that LiteLLM supports, with the optional extra `litellm`.

LiteLLM is imported at the first call, off the event loop, as this takes seconds. Its requests and answers
have the form of chat completions, so they share the code for OpenAI-compatible services.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

from hostler.models.attachments import with_artifacts
from hostler.models.call_timeouts import CallClock
from hostler.models.chat_request import request_body
from hostler.models.chat_response import ChatStream, read_answer
from hostler.models.dialect import Dialect
from hostler.models.embeddings import embed_body, embed_reply
from hostler.models.errors import ModelEndpoint
from hostler.models.limits import CHUNK_SECONDS
from hostler.models.port import EmbedRequest, MayRepeat, ModelRequest, RerankRequest, TokenCount
from hostler.models.provider_data import for_source
from hostler.models.rerank import rerank_body, rerank_reply
from hostler.models.retry import RetryLater, with_retries
from hostler.models.retry_policy import RETRIED_STATUSES, RetryPolicy
from hostler.models.token_counts import count_tokens
from hostler_protocol.calls import EmbedReply, ModelChunk, ModelReply, RerankReply
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostError, HostlerError, InvalidArgumentError

INSTALL = "install it with: pip install 'hostler[litellm]' (in a clone: uv sync --extra litellm)"
ALLOWED_ARGS = frozenset(
    {
        *("audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens"),
        *("min_p", "modalities", "parallel_tool_calls", "prediction", "presence_penalty"),
        *("reasoning_effort", "response_format", "seed", "stop", "temperature", "thinking", "tool_choice"),
        *("top_k", "top_logprobs", "top_p", "user", "verbosity"),
    }
)
"""Arguments that a runner may set. LiteLLM also takes addresses, keys and other models as arguments."""


class LiteLLMMissingError(HostError):
    """The optional package is not installed."""


class LiteLLMModel:
    """One model through LiteLLM; `model` is LiteLLM's name for it, like `anthropic/claude-sonnet-4-5`."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        defaults: dict[str, Any] | None = None,
        max_retries: int = 2,
        silence_seconds: float = 300.0,
    ) -> None:
        self._endpoint = endpoint
        self._defaults = dict(defaults or {})
        self._retries = RetryPolicy(max_retries)
        self._silence = silence_seconds
        self._dialect = Dialect()
        self._service: dict[str, Any] = {"timeout": silence_seconds, "num_retries": 0, "max_retries": 0}
        if base_url:
            self._service["api_base"] = base_url
        if api_key:
            self._service["api_key"] = api_key

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        arguments = await self._arguments(request)
        answer = await self._chat(arguments, clock, request.may_repeat)
        return read_answer(answer.model_dump_json(), self._endpoint)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        arguments = await self._arguments(request)
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        answer = ChatStream(self._endpoint)
        async with _closing(await self._chat(arguments, clock, request.may_repeat)) as pieces:
            while (piece := await self._next(pieces, clock)) is not None:
                if (chunk := answer.take_event(piece.model_dump_json())) is not None:
                    yield chunk
        yield answer.finish()

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        arguments = {**rerank_body(self._endpoint.model, request), **self._service}
        answer = await self._call("arerank", arguments, clock, request.may_repeat)
        body = answer.model_dump_json().encode()
        return rerank_reply(body, len(request.documents), request.top_k, self._endpoint)

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """See ModelProvider."""
        clock = CallClock(request.deadline)
        arguments = {**embed_body(self._endpoint.model, request, self._defaults), **self._service}
        answer = await self._call("aembedding", arguments, clock, request.may_repeat)
        return embed_reply(answer.model_dump_json().encode(), len(request.inputs), self._endpoint)

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        own = for_source(messages, self._endpoint.source)
        return await count_tokens(self._endpoint.model.rpartition("/")[2], own, tools)

    async def close(self) -> None:
        """See ModelProvider; LiteLLM manages its connections itself."""

    async def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        if refused := sorted(request.extra_args.keys() - ALLOWED_ARGS):
            raise InvalidArgumentError(
                f"extra_args may not hold {', '.join(map(repr, refused))} for a model behind LiteLLM; "
                f"allowed are {', '.join(sorted(ALLOWED_ARGS))}"
            )
        own = for_source(request.messages, self._endpoint.source)
        messages = await with_artifacts(own, request.read_artifact)
        body = await asyncio.to_thread(
            request_body, self._endpoint.model, messages, request.tools, request.extra_args, self._defaults
        )
        if request.tools:  # without this, LiteLLM looks for MCP servers and imports a package for them
            body["_skip_mcp_handler"] = True
        return {**body, **self._service}

    async def _chat(self, arguments: dict[str, Any], clock: CallClock, may_repeat: MayRepeat | None) -> Any:
        return await self._dialect.ask(
            arguments, lambda given: self._call("acompletion", given, clock, may_repeat)
        )

    async def _call(
        self, function: str, arguments: dict[str, Any], clock: CallClock, may_repeat: MayRepeat | None
    ) -> Any:
        litellm, failure = await asyncio.to_thread(_load)

        async def attempt() -> Any | RetryLater:
            try:
                return await clock.wait(
                    getattr(litellm, function)(**arguments),
                    self._silence,
                    lambda: self._endpoint.silent("no answer", self._silence),
                )
            except failure as error:
                refused = self._refused(error)
                if refused.retryable and getattr(error, "status_code", None) in RETRIED_STATUSES:
                    return RetryLater(refused)
                raise refused from None  # its text may contain keys

        return await with_retries(attempt, self._retries, clock, may_repeat)

    async def _next(self, pieces: AsyncIterator[Any], clock: CallClock) -> Any | None:
        _, failure = _load()
        silence = min(CHUNK_SECONDS, self._silence)
        try:
            return await clock.wait(
                anext(pieces, None), silence, lambda: self._endpoint.silent("nothing more", silence)
            )
        except failure as error:
            raise self._endpoint.broken(str(error)) from None

    def _refused(self, error: Exception) -> HostlerError:
        status = getattr(error, "status_code", None)
        if type(error).__name__ == "APIConnectionError":
            return self._endpoint.unreachable(str(error), sent=True)
        if type(error).__name__ == "ContextWindowExceededError":
            return self._endpoint.refused(400, f"context_length_exceeded {error}")
        return self._endpoint.refused(status if isinstance(status, int) else 500, str(error))


@contextlib.asynccontextmanager
async def _closing(pieces: Any) -> AsyncIterator[AsyncIterator[Any]]:
    try:
        yield aiter(pieces)
    finally:
        inner = getattr(pieces, "completion_stream", None)
        close = getattr(inner, "aclose", None) or getattr(inner, "close", None)
        if close is not None and (closing := close()) is not None:
            await closing


@functools.cache
def _load() -> tuple[Any, type[Exception]]:
    """Return the package and the base class of its errors. LiteLLMMissingError says what to install."""
    if importlib.util.find_spec("litellm") is None:
        raise LiteLLMMissingError(f"provider litellm needs the package litellm; {INSTALL}")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it downloads a file when imported
    package: Any = importlib.import_module("litellm")
    package.telemetry = False
    package.suppress_debug_info = True
    failure = cast(type[Exception], importlib.import_module("openai").OpenAIError)
    return package, failure
