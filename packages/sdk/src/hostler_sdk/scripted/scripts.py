"""What scripted models, tools and knowledge bases answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hostler_protocol.calls import (
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

ModelAnswer = str | ModelReply | ModelMessage | Exception
ModelScript = ModelAnswer | Sequence[ModelAnswer] | Callable[[list[ModelMessage]], ModelAnswer]
"""One answer for every call, a list of successive ones, or a function of the messages."""


class ModelScripts:
    """Models by id. A script that is not in a mapping serves every id."""

    def __init__(self, scripts: Mapping[str, ModelScript] | ModelScript | None) -> None:
        self._scripts: Mapping[str, ModelScript] = scripts if isinstance(scripts, Mapping) else {}
        self._any = None if isinstance(scripts, Mapping) else scripts
        self._turns: dict[str, int] = {}

    @property
    def ids(self) -> list[str]:
        """The models that a run is told of."""
        return ["any-model"] if self._any is not None else sorted(self._scripts)

    def answer(self, params: ModelParams) -> ModelReply:
        """The whole answer of a model; raises what its script raises."""
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
    """A scripted model counts words."""
    return sum(len(text_of(message.content).split()) for message in messages)


def chunks_of(reply: ModelReply) -> Iterator[ModelChunk]:
    """The pieces of an answer: its reasoning, its words, its tool calls."""
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
    """Tools by name: `@tool` functions, plain functions of their parameters, values, or exceptions."""

    def __init__(self, scripts: Mapping[str, Any] | Sequence[Tool] | None) -> None:
        self._scripts: dict[str, Any] = (
            dict(scripts) if isinstance(scripts, Mapping) else {one.name: one for one in scripts or ()}
        )

    @property
    def names(self) -> list[str]:
        """The tools that a run is told of."""
        return sorted(self._scripts)

    @property
    def resources(self) -> list[ToolResource]:
        """The same, as a run sees them."""
        return [self._resource(name) for name in self.names]

    def waiting(self, name: str) -> Tool | None:
        """The tool, where its calls wait for a person or for the client."""
        script = self._find(name)
        waits = isinstance(script, Tool) and (script.client or script.approval == "required")
        return script if waits else None

    def detail(self, name: str) -> ToolDetail:
        """What a run is told of one tool."""
        script = self._find(name)
        if isinstance(script, Tool):
            return ToolDetail(name=name, description=script.description, parameters=script.parameters)
        return ToolDetail(name=name, description=inspect.getdoc(script) or "", parameters={"type": "object"})

    async def call(self, name: str, parameters: Mapping[str, Any], ctx: ToolContext) -> Any:
        """The tool's result; raises what its script raises."""
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
    """For whom a scripted tool is called."""
    return ToolContext(
        run_id=given.run_id,
        call_id=call_id,
        effect_key=f"{given.run_id}/{call_id}",
        actor=given.actor,
        deadline=given.runtime.deadline_at,
    )


def rank(query: str, documents: Sequence[str]) -> list[tuple[int, float]]:
    """Indexes and scores of documents, those that share most words with the query first."""
    wanted = set(query.lower().split())
    scores = [
        (index, len(wanted & set(text.lower().split())) / (len(wanted) or 1))
        for index, text in enumerate(documents)
    ]
    return sorted(scores, key=lambda scored: -scored[1])


def knowledge_items(passages: Sequence[str | KnowledgeItem | Mapping[str, Any]]) -> list[KnowledgeItem]:
    """Passages of a scripted knowledge base."""
    return [
        KnowledgeItem(content=one, score=0.0) if isinstance(one, str) else msgspec.convert(one, KnowledgeItem)
        for one in passages
    ]
