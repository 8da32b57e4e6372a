"""`ctx.models`, `ctx.tools`, `ctx.knowledge`: the resources granted to a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from hostler_protocol.calls import (
    CountTokensReply,
    EmbedReply,
    ModelChunk,
    ModelReply,
    RerankReply,
    RetrieveReply,
    ToolDetail,
)
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_sdk.errors import RuntimeFailure
from hostler_sdk.host_api.port import Group, HostCalls, StreamingAnswer, stated

if TYPE_CHECKING:  # of plugins that use them
    from anthropic import AsyncAnthropic  # type: ignore[import-not-found,unused-ignore]
    from openai import AsyncOpenAI  # type: ignore[import-not-found,unused-ignore]

    from hostler_sdk.model_door.door import ModelDoor
    from hostler_sdk.model_door.run_door import RunDoor

Messages = Sequence[ModelMessage | Mapping[str, Any]]
FunctionSpecs = Sequence[FunctionSpec | ToolDetail | Mapping[str, Any]]

_chunks = msgspec.json.Decoder(ModelChunk)


class ModelStream:
    """The answer of a model as it is generated. Iterate over it once.

    Yields `ModelChunk`s (`chunk.delta.content`, `.reasoning`, `.tool_calls`). After the last one, `reply` is
    the complete answer with usage and finish reason; before, it is None.
    """

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[StreamingAnswer]]) -> None:
        self._start = start
        self.reply: ModelReply | None = None

    async def __aiter__(self) -> AsyncGenerator[ModelChunk]:
        async with self._start() as answer:
            async for chunk in answer:
                yield _chunks.decode(chunk)
            self.reply = answer.reply


OpenDoor = Callable[[], "tuple[ModelDoor, RunDoor]"]
"""Returns the model door of a connection, and that of a run."""


class Models(Group):
    """`ctx.models`: the models that this run may call, by id, as listed in `ctx.resources.models`.

    Raises NotFound for another model, Unauthorized once the run's budget is spent, and RateLimited or
    RuntimeFailure if the model's service fails; `error.retryable` says whether a later try may succeed.

        reply = await ctx.models.invoke("main", [{"role": "user", "content": ctx.input.text}])
        yield message(reply.message.content, usage=reply.usage)

    Programs that speak to OpenAI reach the same models by the model door: `openai_client()` in this process,
    `openai_url` and `openai_key` for any other one; those that speak to Anthropic, by `anthropic_client()`,
    and `anthropic_url` with the same key. Its requests are calls of this run.
    """

    __slots__ = ("_door",)

    def __init__(self, host: HostCalls, door: OpenDoor | None = None) -> None:
        super().__init__(host)
        self._door = door

    async def invoke(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None, **extra: Any
    ) -> ModelReply:
        """Call a model and return its complete answer. `extra` is passed to the model service unchanged."""
        reply: ModelReply = await self._host.call(
            "model.invoke",
            stated(model_id=model_id, messages=messages, tools=tools, extra_args=extra or None),
        )
        return reply

    def stream(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None, **extra: Any
    ) -> ModelStream:
        """Call a model and read its answer as it is generated. Nothing is sent before the iteration.

            stream = ctx.models.stream("main", messages)
            async for chunk in stream:
                yield delta(chunk.delta.content or "")
            yield message(stream.reply.message.content, usage=stream.reply.usage)

        Leaving the loop early cancels the call.
        """
        params = stated(model_id=model_id, messages=messages, tools=tools, extra_args=extra or None)
        return ModelStream(lambda: self._host.stream("model.stream", params))

    async def rerank(
        self, model_id: str, query: str, documents: Sequence[str], top_k: int | None = None
    ) -> RerankReply:
        """Rank up to 64 documents by relevance to `query`, best first: `.items` with `index` and `score`."""
        reply: RerankReply = await self._host.call(
            "model.rerank", stated(model_id=model_id, query=query, documents=documents, top_k=top_k)
        )
        return reply

    async def embed(
        self, model_id: str, inputs: Sequence[str | Sequence[int]], dimensions: int | None = None
    ) -> EmbedReply:
        """Return the vectors of 1 to 64 texts, in `.embeddings`. Needs a model of the type `embedding`.

        An input may also be the tokens of a text, as numbers. `dimensions`: length of the vectors.
        """
        given = [one if isinstance(one, str) else list(one) for one in inputs]
        reply: EmbedReply = await self._host.call(
            "model.embed", stated(model_id=model_id, inputs=given, dimensions=dimensions)
        )
        return reply

    async def count_tokens(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None
    ) -> CountTokensReply:
        """Count the tokens of messages and tools, as `.input_tokens`."""
        reply: CountTokensReply = await self._host.call(
            "model.count_tokens", stated(model_id=model_id, messages=messages, tools=tools)
        )
        return reply

    # -- the model door ---------------------------------------------------------------------------

    @property
    def openai_url(self) -> str:
        """Base address of an OpenAI-compatible endpoint for this run, like `http://127.0.0.2:40123/v1`.

        It needs no network and answers while the run's event loop is free: call blocking clients in a thread
        (`asyncio.to_thread`). Raises RuntimeFailure where the plugin's process may not listen.
        """
        return _opened(self._door)[0].url

    @property
    def openai_key(self) -> str:
        """Key of this run at its endpoint. It ends with the attempt, and is of no use elsewhere."""
        return _opened(self._door)[1].key

    @property
    def openai_variables(self) -> dict[str, str]:
        """`OPENAI_BASE_URL` and `OPENAI_API_KEY` for a child process, with `NO_PROXY` if there is a proxy.

        env = {**os.environ, **ctx.models.openai_variables}
        child = await asyncio.create_subprocess_exec("node", "agent.mjs", env=env)
        """
        door, own = _opened(self._door)
        return door.variables(own)

    def openai_environment(self) -> AbstractAsyncContextManager[dict[str, str]]:
        """Set these variables in this process within a block; other runs wait at theirs until it ends.

        async with ctx.models.openai_environment():
            answer = await asyncio.to_thread(crew.kickoff)
        """
        door, own = _opened(self._door)
        return door.environment(own)

    def openai_client(self, **options: Any) -> AsyncOpenAI:
        """Return an `openai.AsyncOpenAI` for this run; `options` are further ones of its own.

        It works in every sandbox, since it uses no socket. Raises RuntimeFailure if the plugin's `requires`
        have no `openai`.
        """
        door, own = _opened(self._door)
        client: AsyncOpenAI = _in_memory("openai", "openai_client", door, own, options)
        return client

    @property
    def anthropic_url(self) -> str:
        """Base address of the same endpoint for Anthropic's clients, which add `/v1` themselves.

        Key, and all that is said of `openai_url`, are the same.
        """
        return _opened(self._door)[0].address

    @property
    def anthropic_variables(self) -> dict[str, str]:
        """`ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` for a child process, like `openai_variables`."""
        door, own = _opened(self._door)
        return door.anthropic_variables(own)

    def anthropic_client(self, **options: Any) -> AsyncAnthropic:
        """Return an `anthropic.AsyncAnthropic` for this run, as `openai_client()` does."""
        door, own = _opened(self._door)
        client: AsyncAnthropic = _in_memory("anthropic", "anthropic_client", door, own, options)
        return client

    def openai_http_client(self, **options: Any) -> Any:
        """Return an HTTP client whose requests this run's endpoint answers, for frameworks that take one.

        An `AsyncClient` of httpx or httpx2, whichever `openai` uses; `options` are further ones of its own.
        Works in every sandbox, too. Raises RuntimeFailure if neither is installed.
        """
        door, own = _opened(self._door)
        return _in_memory("httpx", "http_client", door, own, options)


def _opened(door: OpenDoor | None) -> tuple[ModelDoor, RunDoor]:
    if door is None:
        raise RuntimeFailure("this context has no model door: it was not made by a connection to a host")
    return door()


def _in_memory(package: str, kind: str, door: ModelDoor, own: RunDoor, options: dict[str, Any]) -> Any:
    from hostler_sdk.model_door import memory_transport  # noqa: PLC0415 - few runs ask for it

    try:
        return getattr(memory_transport, kind)(door, own, **options)
    except ModuleNotFoundError as error:
        raise RuntimeFailure(
            f"the package {package} is not installed here: add it to `requires` in hostler.yaml, or use "
            "the address and the key of the model door (openai_url or anthropic_url, and openai_key)"
        ) from error


class Tools(Group):
    """`ctx.tools`: the tools that this run may call, by name, as listed in `ctx.resources.tools`.

    Programs that take tools from MCP servers get these from `mcp_url`, with the headers of `mcp_headers`.
    """

    __slots__ = ("_door",)

    def __init__(self, host: HostCalls, door: OpenDoor | None = None) -> None:
        super().__init__(host)
        self._door = door

    async def detail(self, name: str) -> ToolDetail:
        """Return description and parameters (JSON Schema) of a tool. It can be passed to a model as it is."""
        reply: ToolDetail = await self._host.call("tool.detail", {"tool_name": name})
        return reply

    async def call(
        self, name: str, parameters: Mapping[str, Any] | None = None, tool_call_id: str | None = None
    ) -> Any:
        """Call a tool and return its result as plain JSON values. May wait for a person's approval.

        `tool_call_id` is the model's id of the call, if a model asked for it. Raises InvalidArgument if the
        parameters do not match the tool's schema, Denied if a person refused, Expired if nobody decided in
        time, Cancelled if the call was cancelled, and RuntimeFailure with the text of the tool's own error.
        """
        params = stated(tool_name=name, parameters=parameters or {}, tool_call_id=tool_call_id)
        return (await self._host.call("tool.call", params)).result

    @property
    def mcp_url(self) -> str:
        """Address of the run's own MCP server (streamable HTTP), on the loopback like `openai_url`."""
        return _opened(self._door)[0].mcp_url

    @property
    def mcp_headers(self) -> dict[str, str]:
        """The headers that its clients send: the key of this run."""
        return {"authorization": f"Bearer {_opened(self._door)[1].key}"}


class Knowledge(Group):
    """`ctx.knowledge`: the knowledge bases that this run may search, by id."""

    async def retrieve(
        self, kb_id: str, text: str, top_k: int = 5, filters: Mapping[str, Any] | None = None
    ) -> RetrieveReply:
        """Return the passages most relevant to `text`, best first, as `.items` with content and score."""
        reply: RetrieveReply = await self._host.call(
            "knowledge.retrieve", stated(kb_id=kb_id, query_text=text, top_k=top_k, filters=filters)
        )
        return reply
