"""Scripted models, tools and knowledge bases."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hostler_protocol.calls import (
    EmbedParams,
    EmbedReply,
    KnowledgeItem,
    ModelChunk,
    ModelDelta,
    ModelParams,
    ModelReply,
    ToolCallDelta,
    ToolDetail,
)
from hostler_protocol.content import ModelMessage, Usage, text_of
from hostler_protocol.events import AgentRunContext
from hostler_protocol.grants import ToolResource
from hostler_sdk.errors import NotFound, RuntimeFailure
from hostler_sdk.tools import Tool, ToolContext

EMBED_DIMENSIONS = 8
"""Length of the vectors of a scripted model, unless the call names one."""
ModelAnswer = str | ModelReply | ModelMessage | Exception
ModelScript = ModelAnswer | Sequence[ModelAnswer] | Callable[[list[ModelMessage]], ModelAnswer]
"""One answer for every call, a list of successive answers, or a function of the messages."""


class ModelScripts:
    """Scripted models by id. A script that is not in a mapping serves every id."""

    def __init__(self, scripts: Mapping[str, ModelScript] | ModelScript | None) -> None:
        self._scripts: Mapping[str, ModelScript] = scripts if isinstance(scripts, Mapping) else {}
        self._any = None if isinstance(scripts, Mapping) else scripts
        self._turns: dict[str, int] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of the models that a run sees."""
        return ["any-model"] if self._any is not None else sorted(self._scripts)

    def answer(self, params: ModelParams) -> ModelReply:
        """Return the complete answer of a model, or raise what its script raises; NotFound for another id."""
        script = self._scripts.get(params.model_id, self._any)
        if script is None:
            raise NotFound(f"no model {params.model_id!r} is scripted; there are {self.ids}")
        answer: Any = script
        if callable(script) and not isinstance(script, str | Exception):
            answer = script(params.messages)
        elif isinstance(script, Sequence) and not isinstance(script, str):
            turn = self._turns.get(params.model_id, 0)
            if turn >= len(script):
                raise RuntimeFailure(f"model {params.model_id!r} is called more often than its script knows")
            self._turns[params.model_id] = turn + 1
            answer = script[turn]
        if isinstance(answer, Exception):
            raise answer
        return _reply_of(answer, params)


def _reply_of(answer: str | ModelReply | ModelMessage, params: ModelParams) -> ModelReply:
    if isinstance(answer, ModelReply):
        return answer
    message = ModelMessage(role="assistant", content=answer) if isinstance(answer, str) else answer
    spent = count_tokens(params.messages)
    written = count_tokens([message])
    return ModelReply(
        message=message,
        finish_reason="tool_calls" if message.tool_calls else "stop",
        usage=Usage(input_tokens=spent, output_tokens=written, total_tokens=spent + written),
    )


def count_tokens(messages: Sequence[ModelMessage]) -> int:
    """Count the words of messages: a scripted model takes each for one token."""
    return sum(len(text_of(message.content).split()) for message in messages)


def embed(params: EmbedParams) -> EmbedReply:
    """Return a vector of each input that is the same for the same input: shares of its bytes, by value."""
    size = params.dimensions or EMBED_DIMENSIONS
    spent = sum(len(one.split()) if isinstance(one, str) else len(one) for one in params.inputs)
    return EmbedReply(
        embeddings=[_vector(one, size) for one in params.inputs],
        usage=Usage(input_tokens=spent, output_tokens=0, total_tokens=spent),
    )


def _vector(given: str | list[int], size: int) -> list[float]:
    numbers = list(given.encode()) if isinstance(given, str) else given
    counts = Counter(number % size for number in numbers)
    return [counts[place] / max(1, len(numbers)) for place in range(size)]


def chunks_of(reply: ModelReply) -> Iterator[ModelChunk]:
    """Split an answer into pieces: its reasoning, its words, its tool calls."""
    message = reply.message
    if message.reasoning:
        yield ModelChunk(delta=ModelDelta(reasoning=message.reasoning))
    text = text_of(message.content)
    words = text.split(" ")
    for number, word in enumerate(words if text else ()):
        yield ModelChunk(delta=ModelDelta(content=word if number == len(words) - 1 else word + " "))
    for index, call in enumerate(message.tool_calls):
        delta = ToolCallDelta(
            index=index, id=call.id, name=call.function.name, arguments=call.function.arguments
        )
        yield ModelChunk(delta=ModelDelta(tool_calls=[delta]))


class ToolScripts:
    """Scripted tools by name: `@tool` functions, plain functions, values, or exceptions to raise."""

    def __init__(self, scripts: Mapping[str, Any] | Sequence[Tool] | None) -> None:
        self._scripts: dict[str, Any] = (
            dict(scripts) if isinstance(scripts, Mapping) else {one.name: one for one in scripts or ()}
        )

    @property
    def names(self) -> list[str]:
        """The names of the tools that a run sees."""
        return sorted(self._scripts)

    @property
    def resources(self) -> list[ToolResource]:
        """The tools, as a run sees them."""
        return [self._resource(name) for name in self.names]

    def waiting(self, name: str) -> Tool | None:
        """Return the tool if its calls wait for a person or a client, else None."""
        script = self._find(name)
        waits = isinstance(script, Tool) and (script.client or script.approval == "required")
        return script if waits else None

    def detail(self, name: str) -> ToolDetail:
        """Return description and parameters of a tool."""
        script = self._find(name)
        if isinstance(script, Tool):
            return ToolDetail(name=name, description=script.description, parameters=script.parameters)
        return ToolDetail(name=name, description=inspect.getdoc(script) or "", parameters={"type": "object"})

    async def call(self, name: str, parameters: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Call a tool and return its result. Raises what its script raises."""
        script = self._find(name)
        if isinstance(script, Exception):
            raise script
        if isinstance(script, Tool):
            return script.json_result(await script.invoke(parameters, ctx))
        if not callable(script):
            return script
        outcome = script(**parameters)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _resource(self, name: str) -> ToolResource:
        waits = self.waiting(name)
        client = waits is not None and waits.client
        return ToolResource(
            tool_name=name,
            tool_type="client" if client else "plugin",
            operations=["detail", "call"],
            approval="never" if waits is None or client else "required",
        )

    def _find(self, name: str) -> Any:
        if name not in self._scripts:
            raise NotFound(f"no tool {name!r} is scripted; there are {self.names}")
        return self._scripts[name]


def tool_context(given: AgentRunContext, call_id: str) -> ToolContext:
    """Build the context of a scripted tool call."""
    return ToolContext(
        run_id=given.run_id,
        call_id=call_id,
        effect_key=f"{given.run_id}/{call_id}",
        actor=given.actor,
        deadline=given.runtime.deadline_at,
    )


def rank(query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
    """Return (index, score) of each document; those that share most words with the query come first."""
    wanted = set(query.lower().split())
    scores = [
        (index, len(wanted & set(text.lower().split())) / (len(wanted) or 1))
        for index, text in enumerate(documents)
    ]
    return sorted(scores, key=lambda scored: -scored[1])


def knowledge_items(passages: Sequence[str | KnowledgeItem | Mapping[str, Any]]) -> list[KnowledgeItem]:
    """Convert the passages of a scripted knowledge base."""
    return [
        KnowledgeItem(content=one, score=0.0) if isinstance(one, str) else msgspec.convert(one, KnowledgeItem)
        for one in passages
    ]
